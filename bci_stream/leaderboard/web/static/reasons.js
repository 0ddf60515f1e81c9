// Reasons of verdicts, and of how a run ended, in Chinese. They come from the rules in English, as they stand in the log;
// what is not known here is shown as it came.

import { currentLanguage } from "./i18n.js";
import { nameIn } from "./names.js";

const CHINESE = [
  [/^has ended$/, () => "已结束"],
  [/^its last trials are shown when the others have closed them$/, () => "其他队完成后显示其最后的试次"],
  [/^its results stream ended without a word$/, () => "结果流突然中断"],
  [/^it did not end by itself after the last packet$/, () => "最后一个数据包之后没有结束"],
  [/^the team left before the last packet$/, () => "在最后一个数据包之前离开"],
  [/^the contest was stopped before it began$/, () => "比赛在其开始之前已停止"],
  [/^the (judge|contest) was stopped$/, (who) => `${who === "judge" ? "裁判" : "比赛"}已停止`],
  [/^the replay stopped: (.+)$/s, (why) => `回放已停止：${why}`],
  [/^no word for (\S+) s$/, (s) => `${s} 秒没有消息`],
  [/^limits\.silence_s is (\S+)$/, (s) => `上限 ${s} 秒（limits.silence_s）`],
  [/^(\S+) s of compute for (\S+) s of data$/, (used, data) => `${data} 秒数据用了 ${used} 秒计算`],
  [/^the limit is (\S+) s \(limits\.compute_factor\)$/, (s) => `上限 ${s} 秒（limits.compute_factor）`],
  [/^seconds? ([\d, ]+): (.+)$/s, (which, why) => `第 ${which.replaceAll(", ", "、")} 秒：${inChinese(why)}`],
  [/^(\d+) seconds: (.+)$/s, (n, why) => `${n} 秒：${inChinese(why)}`],
  [/^(\d+) of (\d+) rows without a report: the last value held$/, (n, all) => `${all} 行中 ${n} 行没有报告：保持最后的值`],
  [/^report at (\S+) s: limit (\S+) s$/, (at, limit) => `${at} 秒时报告：限 ${limit} 秒`],
  [/^no report (\d+)$/, (n) => `没有第 ${n} 次报告`],
  [/^report (\d+): (.+)$/s, (n, why) => `第 ${n} 次报告：${inChinese(why)}`],
  [/^(.+) instead of (.+)$/s, (said, wanted) => `答 ${nameIn("zh", said)}，应为 ${nameIn("zh", wanted)}`],
  [/^(.+) names no class$/s, (result) => `${result} 不是任何类别`],
  [/^at (\S+) s, limit (\S+) s$/, (at, limit) => `用了 ${at} 秒，限 ${limit} 秒`],
  [/^report at (\S+) s: must be below (\S+) s$/, (at, limit) => `${at} 秒时报告：须少于 ${limit} 秒`],
  [/^(.+): wrong, charged (\S+) s$/s, (why, charged) => `${inChinese(why)}：判错，计 ${charged} 秒`],
  [/^no report$/, () => "没有报告"],
  [/^missing: its trigger never came$/, () => "缺失：没有触发"],
  [/^beyond the three$/, () => "超过三次"],
  [/^only the first report counts$/, () => "只计第一次报告"],
  [/^report after the trial's end \(241\)$/, () => "试次结束（241）后才报告"],
  [/^after the submission point \(241\) was received$/, () => "在提交点（241）之后"],
  [/^no label: not scored$/, () => "无标签：不计分"],
  [/^no second lies wholly inside it: left out$/, () => "没有完整的一秒：不计"],
  [/^its block never began$/, () => "区块没有开始"],
  [/^no rows of angles: left out$/, () => "没有角度：不计"],
  [/^took (\S+) s, limit (\S+) s$/, (took, limit) => `用时 ${took} 秒，限 ${limit} 秒`],
  [/^(.+) is no int of 0-8$/s, (result) => `${result} 不是 0-8 的整数`],
  [/^(\d+) of (\d+) seconds right$/, (right, all) => `${all} 秒中 ${right} 秒正确`],
  [/^(\d+) of (\d+) seconds right, (\d+) without a report$/,
    (right, all, silent) => `${all} 秒中 ${right} 秒正确，${silent} 秒没有报告`],
];

function inChinese(text) {
  for (const [pattern, words] of CHINESE) {
    const match = pattern.exec(text);
    if (match) return words(...match.slice(1));
  }
  return text;
}

export function reasonIn(language, text) {
  return language === "zh" ? text.split("; ").map(inChinese).join("；") : text;
}

export function reason(text) {
  return reasonIn(currentLanguage(), text);
}
