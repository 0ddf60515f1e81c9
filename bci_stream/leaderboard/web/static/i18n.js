// The words of the page, in the two languages of the contest.

const WORDS = {
  en: {
    skip: "Skip to the leaderboard", tracks: "Tracks", language: "Language: 中文", theme: "Dark or light",
    connecting: "Connecting…", live: "Live", lost: "Reconnecting…", published: "Final results",
    allTracks: "All tracks", awards: "Awards", award: "Award", prize: "Prize", sum: "Sum of places",
    standingRule: "Sum of the places on all tracks, the smallest first; a team without a place on a track counts there as the one after the last. While runs go on it may still change.",
    other: "中文",
    leaderboard: "Leaderboard", rank: "Rank", team: "Team", score: "Score", accuracy: "Accuracy",
    used: "Data used", trials: "Trials", latency: "Latency p50 / p99", status: "Status",
    channels: "Leads", calibration: "Calibration trials a class", size: "Package", reaction: "Reaction",
    overTime: "Score over time", now: "Current trial", signal: "Signal", verdicts: "Verdicts",
    noTeams: "No team has joined yet. Teams appear here by themselves.",
    noScores: "Scores appear with the first judged trial.",
    noVerdicts: "Verdicts appear when a trial is closed.", noSignal: "No signal yet.",
    noTrial: "No trial is running.",
    line: "qualifying line", top: "top {n}", qualifies: "qualifies",
    waiting: "waiting", running: "running", lagging: "lagging by {s} s", gone: "gone", missing: "missing",
    finished: "finished", stopped: "stopped", crashed: "crashed", timeout: "over its time",
    disqualified: "disqualified",
    right: "right", wrong: "wrong", unscored: "not scored", void: "void", reported: "Reported", truth: "Truth",
    verdict: "Verdict", block: "Block", trial: "Trial", subject: "Subject", why: "Why",
    report: "report", trigger: "trigger", more: "and {n} more teams",
    subjectOf: "subject {subject}, block {block}, trial {trial}",
    blockOf: "subject {subject}, block {block}", partly: "partly",
    trialsOf: "Trials", confusion: "Confusion matrix", usedOf: "Data used in each trial",
    angles: "Joint angles of the last closed trial", predicted: "reported", measured: "measured",
    confusionHint: "Rows: truth. Columns: what was reported.", none: "none",
    back: "All teams", unknownTeam: "There is no team of this name on this track.",
    sessions: "Scores of the subjects", leads: "{team} leads with {score} {unit}",
    seconds: "s", closedOnly: "Only closed trials count here.",
    console: "Operator's console", token: "Organiser's token", logIn: "Log in", logOut: "Log out",
    replays: "Replays", teams: "Teams", replay: "Replay", track: "Track", pace: "Pace", state: "State",
    actions: "Actions", software: "Software", go: "Go", pause: "Pause", resume: "Resume", stop: "Stop",
    forfeit: "Forfeit", readmit: "Let back in", disqualify: "Disqualify", paused: "paused", over: "over",
    ready: "ready", missing: "missing", joining: "joining", forfeited: "forfeited", out: "kept out",
    voidTitle: "Void a trial or a block", session: "Session", trialOrBlock: "Trial (empty: the block)",
    reasonWord: "Reason", voidIt: "Void", playAgain: "Play the block again", announceTitle: "A line on the board", text: "Text (empty: none)",
    show: "Show", health: "Streams", done: "Done", confirm: "Confirm", cancel: "Cancel",
    noReplays: "No replay is here.", anyTrack: "the only track", allTeams: "all teams", stream: "Stream",
    lag: "Lag", jitter: "Jitter", worst: "At worst", offset: "Clock offset", gaps: "Gaps",
    leadChoice: "Leads (none: the first eight)", filter: "Filter (Hz)", mains: "Mains (Hz)", scale: "Scale (µV a row)",
    automatic: "automatic", secondsShown: "Seconds", spectrum: "Spectrum", lineNoise: "line noise",
    good: "good", flat: "flat", saturated: "saturated", "line noise": "line noise", invalid: "not a number",
    qualitySummary: "{bad} of {total} leads need attention",
    lost_samples: "Lost", late: "Sent late by", silent: "Last seen",
    tieRule: "Ties: higher accuracy, then less data used; still equal: the rank is shared.",
  },
  zh: {
    skip: "跳到排行榜", tracks: "赛道", language: "Language: English", theme: "深色或浅色",
    connecting: "连接中…", live: "直播", lost: "重新连接…", published: "最终结果",
    allTracks: "所有赛道", awards: "奖项", award: "奖项", prize: "奖金", sum: "名次之和",
    standingRule: "按各赛道名次之和排序，小者在前；在某赛道没有名次的队伍按该赛道最后一名之后计。比赛进行中仍可能变化。",
    other: "English",
    leaderboard: "排行榜", rank: "名次", team: "队伍", score: "得分", accuracy: "正确率",
    used: "所用数据", trials: "试次", latency: "延迟 p50 / p99", status: "状态",
    channels: "导联数", calibration: "每类校准试次", size: "程序包", reaction: "反应时间",
    overTime: "得分曲线", now: "当前试次", signal: "信号", verdicts: "判定",
    noTeams: "还没有队伍加入。队伍加入后会自动出现。",
    noScores: "第一个试次判定后显示得分。",
    noVerdicts: "试次结束后显示判定。", noSignal: "还没有信号。",
    noTrial: "当前没有试次。",
    line: "晋级线", top: "前 {n} 名", qualifies: "晋级",
    waiting: "等待中", running: "进行中", lagging: "落后 {s} 秒", gone: "已离开", missing: "未到",
    finished: "已完成", stopped: "已停止", crashed: "已崩溃", timeout: "超时",
    disqualified: "取消资格",
    right: "正确", wrong: "错误", unscored: "不计分", void: "作废", reported: "报告", truth: "真值",
    verdict: "判定", block: "区块", trial: "试次", subject: "受试者", why: "原因",
    report: "报告", trigger: "触发", more: "另有 {n} 支队伍",
    subjectOf: "受试者 {subject}，区块 {block}，试次 {trial}",
    blockOf: "受试者 {subject}，区块 {block}", partly: "部分正确",
    trialsOf: "试次", confusion: "混淆矩阵", usedOf: "各试次所用数据",
    angles: "最近结束试次的关节角度", predicted: "报告", measured: "实测",
    confusionHint: "行：真值；列：报告。", none: "无",
    back: "所有队伍", unknownTeam: "该赛道没有这支队伍。",
    sessions: "各受试者得分", leads: "{team} 以 {score} {unit} 领先",
    seconds: "秒", closedOnly: "只计入已结束的试次。",
    console: "操作台", token: "主办方令牌", logIn: "登录", logOut: "退出",
    replays: "回放", teams: "队伍", replay: "回放", track: "赛道", pace: "速度", state: "状态",
    actions: "操作", software: "软件", go: "开始", pause: "暂停", resume: "继续", stop: "结束",
    forfeit: "弃权", readmit: "重新允许", disqualify: "取消资格", paused: "已暂停", over: "已结束",
    ready: "就绪", missing: "缺席", joining: "加入中", forfeited: "已弃权", out: "不参赛",
    voidTitle: "作废试次或区块", session: "受试者序号", trialOrBlock: "试次（空：整个区块）",
    reasonWord: "原因", voidIt: "作废", playAgain: "重放该区块", announceTitle: "排行榜公告", text: "文字（空：无）",
    show: "显示", health: "数据流", done: "已执行", confirm: "确认", cancel: "取消",
    noReplays: "没有回放。", anyTrack: "唯一赛道", allTeams: "所有队伍", stream: "数据流",
    lag: "延迟", jitter: "抖动", worst: "最差", offset: "时钟偏移", gaps: "间断",
    leadChoice: "导联（不选：前八个）", filter: "滤波（Hz）", mains: "工频（Hz）", scale: "每行刻度（µV）",
    automatic: "自动", secondsShown: "秒数", spectrum: "频谱", lineNoise: "工频干扰",
    good: "良好", flat: "平直", saturated: "饱和", "line noise": "工频干扰", invalid: "非数值",
    qualitySummary: "{total} 个导联中 {bad} 个需要注意",
    lost_samples: "丢失", late: "发送延迟", silent: "最近",
    tieRule: "同分时：正确率高者在前，其次所用数据少者；仍相同则并列。",
  },
};

function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // without storage the page works too
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // see above
  }
}

const query = new URLSearchParams(location.search);
let language =
  query.get("lang") ?? remembered("lang") ?? (navigator.language.startsWith("zh") ? "zh" : "en");
if (!(language in WORDS)) language = "en";

export const theme = query.get("theme") ?? remembered("theme");

export function currentLanguage() {
  return language;
}

export function t(word, values = {}) {
  const text = WORDS[language][word] ?? word;
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

export function switchLanguage() {
  language = language === "en" ? "zh" : "en";
  remember("lang", language);
  labelPage();
}

export function labelPage() {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const node of document.querySelectorAll("[data-i18n]")) {
    node.textContent = t(node.dataset.i18n);
  }
  for (const node of document.querySelectorAll("[data-i18n-label]")) {
    node.setAttribute("aria-label", t(node.dataset.i18nLabel));
    node.title = t(node.dataset.i18nLabel);
  }
  document.getElementById("language").textContent = t("other");
}
