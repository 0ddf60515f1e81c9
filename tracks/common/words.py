"""The words of reason codes: a table of templates with named parameters for each language.

A template is a `str.format` string. Its format specifications are ``.Nf`` and ``g`` only, because
the leaderboard's page formats the same templates (`words.js`).
"""

import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tracks.common.reasons import Reason
from tracks.errors import RuleError

ENGLISH = {
    # Reports that are refused
    "before_first_packet": "before a trial's first packet",
    "on_next_trigger": "on the packet that carries the next trial's trigger",
    "too_many_reports": "far too many reports in one trial",
    "after_end_packet": "after the packet that carries the trial's end (241)",
    "no_second_complete": "no second of a block is complete",
    "second_decided": "this second has its decision: the first one counts",
    "not_rows": "not rows of {joints} numbers within +-{limit:g}",
    "no_packet": "no packet",
    "packet_decided": "the packet has its report: the first one counts",
    "wrong_row_count": "{rows} rows; this packet has {expected}",
    # Reports and trials
    "no_report": "no report",
    "no_report_number": "no report {number}",
    "report_number": "report {number}: {why}",
    "only_first_counts": "only the first report counts",
    "beyond_third": "beyond the three",
    "names_no_class": "{result} names no class",
    "not_an_int": "{result} is no int of 0-8",
    "wrong_class": "{answer} instead of {label}",
    "over_window": "at {used_s:.2f} s, limit {limit_s:.2f} s",
    "after_submission_point": "after the submission point (241) was received",
    "over_limit": "report at {used_s:.2f} s: limit {limit_s:.2f} s",
    "at_limit": "report at {used_s:.2f} s: must be below {limit_s:.2f} s",
    "after_trial_end": "report after the trial's end (241)",
    "over_decision_limit": "took {elapsed_s:g} s, limit {limit_s:g} s",
    "charged": "{why}: wrong, charged {charged_s:g} s",
    "trigger_missing": "missing: its trigger never came",
    "trial_unlabelled": "the trial has no label",
    "no_label": "no label: not scored",
    "block_missing": "its block never began",
    "no_whole_second": "no second lies wholly inside it: left out",
    "seconds_right": "{right} of {total} seconds right",
    "in_second": "second {second}: {why}",
    "in_seconds": "seconds {seconds}: {why}",
    "in_many_seconds": "{count} seconds: {why}",
    "angles": "NRMSE {nrmse:.3f}, CORR {corr:.3f}",
    "no_angles": "no rows of angles: left out",
    "rows_held": "{rows} of {total} rows without a report: the last value held",
    "rows_replaced": "{rows} of {total} rows without a report: {value:g} in their place",
    "void_outage": "void: outage ({cause})",
    "void_operator": "void: decided by the organiser ({reason})",
    "rows_void": "{rows} of {total} rows left out: {why}",
    "more": "…",
    # Endings
    "left_early": "the team left before the last packet",
    "stream_lost": "its results stream ended without a final message",
    "did_not_end": "it did not end by itself after the last packet",
    "silent": "no message for {silent_s:.1f} s; limits.silence_s is {limit_s:g}",
    "over_compute_limit": "{used_s:.1f} s of compute for {data_s:.0f} s of data; "
    "the limit is {limit_s:.1f} s (limits.compute_factor)",
    "judge_stopped": "the judge was stopped",
    "operator_stopped": "ended by the organiser ({reason})",
    "operator_disqualified": "decided by the organiser ({reason})",
    "forfeited": "forfeited ({reason})",
    "readmitted": "let back in",
    # Who is missing, and why
    "not_seen": "not seen: no stream of this team is on the network",
    "team_unreadable": "its messages can't be read: another contest's file, or another version",
    "team_behind": "{behind_s:.1f} s behind the stream",
    "old_version": "old version {version}; the judge has {judge_version}",
    "contest_stopped": "the contest was stopped",
    "contest_not_begun": "the contest was stopped before it began",
    "replay_stopped": "the replay stopped: {detail}",
    "replay_gone": "replay {replay} is gone",
    "replay_silent": "no message from replay {replay} for {silent_s:g} s",
    "replay_failed": "the replay failed: {detail}",
    "did_not_start": "it did not come up within {limit_s:g} s",
    "trials_held_back": "has ended; its last trials are shown when the others have closed them",
    "returned": "it has returned into the run",
    "too_many_messages": "{count} messages for {packets} packets; "
    "limits.reports_a_packet is {limit:g}",
    "too_much_a_minute": "its messages of a minute of data are longer than {limit_mb:g} MB "
    "(limits.message_mb_a_minute)",
    "too_much_in_all": "its messages are longer than {limit_mb:g} MB in all (limits.message_mb)",
    # Faults of the organiser's side, and alarms
    "outage_replay": "the replay stood still for {outage_s:.2f} s",
    "outage_link": "the link between replay and judge was down for {outage_s:.2f} s",
    "outage_judge": "the judge stood still or was away for {outage_s:.2f} s",
    "second_stream": "there are two streams named {stream}: the second one is ignored",
    "unverified_stream": "stream {stream} is not of this contest's replay: it is ignored",
    "block_not_repeated": "block {block} of session {session} is not played again: the last packet of its "
    "session had left; it stays void",
    "second_worker": "a second worker of team {team} was refused",
    "left_before_start": "it left before the run began",
    "out_of_sight": "cut off: its computer can't be found any more",
    "team_unlisted": "team {team} is not on the list of this contest",
    "team_not_on_track": "team {team} is not on the list of track {track}: it is ignored there",
    "token_revoked": "the token of team {team} is revoked",
    "token_replaced": "team {team} uses an old token: it was replaced",
    "token_wrong": "team {team} uses a wrong token: it is not of this contest",
    "did_not_take_part": "it did not take part",
    "session_failed": "judging replay {replay} failed, its logs stay open: {detail}",
    # Advice of `bci-decode check`
    "advise_class": "report {classes}; a whole number or its text, not a list, an array or None",
    "advise_int": "algorithm() must return an int, not a float, a string or an array",
    "advise_report": "every trial needs its report before its time is up",
    "advise_by_end": "report with the packet that carries 241 at the latest",
    "advise_before_end": "report before the packet with 241 is read",
    "advise_before_next": "a trigger's packet belongs to the trial before",
    "advise_next_packet": "no trial has begun, or you hold its trigger's own packet, "
    "which is not yet its data: read the next one before you report",
    "advise_once": "report once a trial",
    "advise_three": "report three times a trial",
    "advise_rows": "report a list of rows, each of 8 finite angles",
    "advise_packet_late": "late by 1 packet: all data received after the trigger's packet counts",
    "advise_packets_late": "late by {packets} packets: "
    "all data received after the trigger's packet counts",
    # Seasons: why an upload is refused, and what became of a submission
    "no_phase_open": "no phase of track {track} is open now",
    "phase_not_begun": "phase {phase} opens at {opens}",
    "phase_over": "phase {phase} closed at {closes}",
    "phase_track": "phase {phase} has no track {track}",
    "phase_unknown": "there is no phase {phase}; there are {known}",
    "phases_open": "several phases are open: name one of {known}",
    "not_gone_on": "only teams that went on from phase {after} may submit in phase {phase}",
    "quota_a_day": "the {quota} submissions a day of phase {phase} are used up; "
    "the next day begins at {next_day}",
    "quota_in_all": "the {quota} submissions of phase {phase} are used up",
    "stage_received": "it waits to be checked",
    "stage_checking": "it is dry-run on a short synthetic recording",
    "stage_queued": "its check passed; it waits to be run",
    "stage_starting": "it is being started",
    "stage_running": "subject {subject}: {percent} % of the recordings are played",
    "stage_running_split": "run {run} of {runs}: {percent} % of the recordings are played",
    "stage_judged": "it ran to the end and was scored",
    "stage_rejected": "its check failed; this costs no quota",
    "stage_failed": "its run failed; this costs one of the quota",
    "stage_held": "it failed on the organiser's side too often; the organiser looks into it, and it "
    "costs no quota",
    "stage_disqualified": "the organiser has disqualified it",
    "units_ahead": "{units} units are ahead of it",
    "no_download": "there is no file with the SHA-256 {sha256}... for your team",
    "downloads_at_once": "your team has {limit} downloads under way, the most allowed; wait for one to end",
    "tried_again": "it failed on the organiser's side, is tried again by itself and costs no quota",
    "no_submission": "your team has no submission {number}",
    "no_standings": "there is no leaderboard of phase {phase}, track {track}, or it is not shown",
    "upload_large": "it is larger than {limit_mb:g} MB",
    "upload_slow": "it did not arrive within {limit_s:g} s",
    "upload_idle": "nothing arrived for {limit_s:g} s",
    "upload_no_package": "it is neither a .zip nor a .tar.gz: pack the folder that holds Algorithm/",
    "upload_of_team": "another upload of your team is arriving: wait until it is over",
    "uploads_at_once": "{limit} uploads are arriving: try again in a minute",
    "upload_disk": "the server's disk is full: the organiser has to make room",
    "upload_rate": "{limit} uploads an hour are allowed: try again later",
    "upload_broken": "it arrived damaged: its hash differs from the one that was signed",
    "upload_track": "the contest has no track {track}; it has {known}",
    "check_failed": "the dry run found nothing that would count; its report says why",
    "check_too_long": "the dry run took longer than {limit_s:g} s",
    "unit_failed": "it could not be done on the organiser's side, and is tried again: {detail}",
    "log_refused": "its run log was refused, and it is run again: {detail}",
    # What the organiser of a season did
    "did_announce": "shown on all pages: {text}",
    "did_remove": "the announcement is removed",
    "did_dates": "phase {phase}: {opens} to {closes}",
    "no_limit": "no limit",
    "did_retry": "submission {number} is done again",
    "did_disqualify": "submission {number} counts for nothing from now on",
    "did_approve": "team {team} takes part; it fetches its file with its code",
    "did_refuse": "the application of team {team} is refused",
    "did_rerun": "submission {number} is run again; the result is listed under actions",
    # Alarms
    "page_ended": "the page's process ended (exit code {exit_code}) and was started again",
}

CHINESE = {
    "before_first_packet": "在试次的第一个数据包之前",
    "on_next_trigger": "在带有下一试次触发的数据包上",
    "too_many_reports": "一个试次中报告过多",
    "after_end_packet": "在带有试次结束（241）的数据包之后",
    "no_second_complete": "区块中还没有完整的一秒",
    "second_decided": "该秒已有判断：只计第一次",
    "not_rows": "不是每行 {joints} 个 ±{limit:g} 以内的数",
    "no_packet": "还没有数据包",
    "packet_decided": "该数据包已有报告：只计第一次",
    "wrong_row_count": "{rows} 行；该数据包有 {expected} 行",
    "no_report": "没有报告",
    "no_report_number": "没有第 {number} 次报告",
    "report_number": "第 {number} 次报告：{why}",
    "only_first_counts": "只计第一次报告",
    "beyond_third": "超过三次",
    "names_no_class": "{result} 不是任何类别",
    "not_an_int": "{result} 不是 0-8 的整数",
    "wrong_class": "答 {answer}，应为 {label}",
    "over_window": "用了 {used_s:.2f} 秒，限 {limit_s:.2f} 秒",
    "after_submission_point": "在提交点（241）之后",
    "over_limit": "{used_s:.2f} 秒时报告：限 {limit_s:.2f} 秒",
    "at_limit": "{used_s:.2f} 秒时报告：须少于 {limit_s:.2f} 秒",
    "after_trial_end": "试次结束（241）后才报告",
    "over_decision_limit": "用时 {elapsed_s:g} 秒，限 {limit_s:g} 秒",
    "charged": "{why}：判错，计 {charged_s:g} 秒",
    "trigger_missing": "缺失：没有触发",
    "trial_unlabelled": "该试次无标签",
    "no_label": "无标签：不计分",
    "block_missing": "区块没有开始",
    "no_whole_second": "没有完整的一秒：不计",
    "seconds_right": "{total} 秒中 {right} 秒正确",
    "in_second": "第 {second} 秒：{why}",
    "in_seconds": "第 {seconds} 秒：{why}",
    "in_many_seconds": "{count} 秒：{why}",
    "angles": "NRMSE {nrmse:.3f}，CORR {corr:.3f}",
    "no_angles": "没有角度：不计",
    "rows_held": "{total} 行中 {rows} 行没有报告：保持最后的值",
    "rows_replaced": "{total} 行中 {rows} 行没有报告：以 {value:g} 代替",
    "void_outage": "作废：主办方故障（{cause}）",
    "void_operator": "作废：主办方裁定（{reason}）",
    "rows_void": "{total} 行中 {rows} 行不计：{why}",
    "more": "…",
    "left_early": "在最后一个数据包之前离开",
    "stream_lost": "结果流突然中断",
    "did_not_end": "最后一个数据包之后没有结束",
    "silent": "{silent_s:.1f} 秒没有消息；上限 {limit_s:g} 秒（limits.silence_s）",
    "over_compute_limit": "{data_s:.0f} 秒数据用了 {used_s:.1f} 秒计算；"
    "上限 {limit_s:.1f} 秒（limits.compute_factor）",
    "judge_stopped": "裁判已停止",
    "operator_stopped": "由主办方结束（{reason}）",
    "operator_disqualified": "主办方裁定（{reason}）",
    "forfeited": "弃权（{reason}）",
    "readmitted": "重新允许参赛",
    # Who is missing, and why
    "not_seen": "未出现：网络上没有该队伍的数据流",
    "team_unreadable": "其消息无法读取：属于其他比赛的文件，或版本不同",
    "team_behind": "落后数据流 {behind_s:.1f} 秒",
    "old_version": "旧版本 {version}；裁判为 {judge_version}",
    "contest_stopped": "比赛已停止",
    "contest_not_begun": "比赛在其开始之前已停止",
    "replay_stopped": "回放已停止：{detail}",
    "replay_gone": "回放 {replay} 已消失",
    "replay_silent": "回放 {replay} 已 {silent_s:g} 秒没有消息",
    "replay_failed": "回放失败：{detail}",
    "did_not_start": "{limit_s:g} 秒内没有启动",
    "trials_held_back": "已结束；其他队完成后显示其最后的试次",
    "returned": "已重新加入",
    "too_many_messages": "{packets} 个数据包发了 {count} 条消息；上限 {limit:g}（limits.reports_a_packet）",
    "too_much_a_minute": "一分钟数据的消息超过 {limit_mb:g} MB（limits.message_mb_a_minute）",
    "too_much_in_all": "消息总量超过 {limit_mb:g} MB（limits.message_mb）",
    "outage_replay": "回放停顿 {outage_s:.2f} 秒",
    "outage_link": "回放与裁判之间的连接中断 {outage_s:.2f} 秒",
    "outage_judge": "裁判停顿或离开 {outage_s:.2f} 秒",
    "second_stream": "有两个名为 {stream} 的流：忽略第二个",
    "unverified_stream": "流 {stream} 不属于本比赛的回放：已忽略",
    "block_not_repeated": "第 {session} 场第 {block} 区块没有重放：该场的最后一个数据包"
    "已经发出；该区块仍作废",
    "second_worker": "拒绝了 {team} 队的第二个进程",
    "left_before_start": "在开始之前离开",
    "out_of_sight": "连接中断：找不到其计算机",
    "team_unlisted": "{team} 队不在本比赛名单中",
    "team_not_on_track": "{team} 队不在 {track} 赛道名单中：已忽略",
    "token_revoked": "{team} 队的令牌已被吊销",
    "token_replaced": "{team} 队使用旧令牌：该令牌已更换",
    "token_wrong": "{team} 队的令牌错误：不属于本比赛",
    "did_not_take_part": "没有参加",
    "session_failed": "回放 {replay} 的评判失败，日志保持打开：{detail}",
    "advise_class": "请报告 {classes}；整数或其文字，不能是列表、数组或 None",
    "advise_int": "algorithm() 必须返回 int，不能是浮点数、字符串或数组",
    "advise_report": "每个试次都须在时限之前报告",
    "advise_by_end": "最迟在带有 241 的数据包上报告",
    "advise_before_end": "请在读取带有 241 的数据包之前报告",
    "advise_before_next": "触发所在的数据包属于前一试次",
    "advise_next_packet": "试次尚未开始，或您手中是触发所在的数据包，其数据不计入："
    "请先读取下一个数据包再报告",
    "advise_once": "每个试次只报告一次",
    "advise_three": "每个试次报告三次",
    "advise_rows": "请报告若干行，每行 8 个有限的角度",
    "advise_packet_late": "晚了 1 个数据包：触发所在数据包之后收到的所有数据都计入",
    "advise_packets_late": "晚了 {packets} 个数据包：触发所在数据包之后收到的所有数据都计入",
    "no_phase_open": "赛道 {track} 目前没有开放的阶段",
    "phase_not_begun": "阶段 {phase} 将于 {opens} 开放",
    "phase_over": "阶段 {phase} 已于 {closes} 结束",
    "phase_track": "阶段 {phase} 没有赛道 {track}",
    "phase_unknown": "没有阶段 {phase}；现有：{known}",
    "phases_open": "有多个阶段开放：请指定其一：{known}",
    "not_gone_on": "只有从阶段 {after} 晋级的队伍可以在阶段 {phase} 提交",
    "quota_a_day": "阶段 {phase} 每天 {quota} 次提交已用完；下一天从 {next_day} 开始",
    "quota_in_all": "阶段 {phase} 的 {quota} 次提交已用完",
    "stage_received": "等待检查",
    "stage_checking": "正在一段简短的合成记录上试运行",
    "stage_queued": "检查已通过，等待运行",
    "stage_starting": "正在启动",
    "stage_running": "受试者 {subject}：记录已播放 {percent} %",
    "stage_running_split": "第 {run} 次运行，共 {runs} 次：记录已播放 {percent} %",
    "stage_judged": "已运行结束并计分",
    "stage_rejected": "检查未通过；不计次数",
    "stage_failed": "运行失败；计一次",
    "stage_held": "在主办方一侧多次失败；由主办方处理，不计次数",
    "stage_disqualified": "已被主办方取消资格",
    "units_ahead": "前面还有 {units} 个任务",
    "no_download": "没有供你队下载的 SHA-256 为 {sha256}... 的文件",
    "downloads_at_once": "你队此刻已有 {limit} 个下载，已达上限；请等其中一个结束",
    "tried_again": "在主办方一侧失败，将自动再次尝试，不计次数",
    "no_submission": "你们队伍没有提交 {number}",
    "no_standings": "没有阶段 {phase}、赛道 {track} 的排行榜，或不予显示",
    "upload_large": "超过 {limit_mb:g} MB",
    "upload_slow": "未能在 {limit_s:g} 秒内传完",
    "upload_idle": "{limit_s:g} 秒内没有收到数据",
    "upload_no_package": "既不是 .zip 也不是 .tar.gz：请打包包含 Algorithm/ 的文件夹",
    "upload_of_team": "你们队伍的另一个上传正在进行：请等它结束",
    "uploads_at_once": "正在接收 {limit} 个上传：请一分钟后再试",
    "upload_disk": "服务器磁盘已满：主办方需要清理空间",
    "upload_rate": "每小时允许 {limit} 次上传：请稍后再试",
    "upload_broken": "传输中损坏：哈希与签名的不同",
    "upload_track": "比赛没有赛道 {track}；现有 {known}",
    "check_failed": "试运行中没有任何结果有效；原因见报告",
    "check_too_long": "试运行超过 {limit_s:g} 秒",
    "unit_failed": "主办方一侧未能完成，将再次尝试：{detail}",
    "log_refused": "运行日志未通过验证，将重新运行：{detail}",
    "did_announce": "已在所有页面显示：{text}",
    "did_remove": "公告已移除",
    "did_dates": "阶段 {phase}：{opens} 至 {closes}",
    "no_limit": "不限",
    "did_retry": "提交 {number} 将重做",
    "did_disqualify": "提交 {number} 从现在起不再计分",
    "did_approve": "队伍 {team} 参赛；它用代码领取文件",
    "did_refuse": "队伍 {team} 的申请已被拒绝",
    "did_rerun": "提交 {number} 正在重新运行；结果见操作记录",
    "page_ended": "网页进程已结束（退出码 {exit_code}），并已重新启动",
}


@dataclass(frozen=True, slots=True)
class Language:
    """A table of templates by code, and what stands between reasons and between the items of a list."""

    templates: dict[str, str]
    between_reasons: str
    between_items: str


LANGUAGES = {"en": Language(ENGLISH, "; ", ", "), "zh": Language(CHINESE, "；", "、")}


def add_templates(by_language: Mapping[str, Mapping[str, str]]) -> None:
    """Add the templates of a track's own reason codes, by language.

    Raises RuleError if a code is taken already, or does not have words in every language.
    """
    for code in {code for templates in by_language.values() for code in templates}:
        for name, language in LANGUAGES.items():
            template = by_language.get(name, {}).get(code)
            if template is None:
                raise RuleError(f"reason code {code!r} needs words in the language {name!r}")
            if language.templates.setdefault(code, template) != template:
                raise RuleError(f"reason code {code!r} is taken: {language.templates[code]!r}")


class _Formatter(string.Formatter):
    def __init__(self, language: Language) -> None:
        self._language = language

    def format_field(self, value: Any, format_spec: str) -> str:
        if isinstance(value, Reason):
            return self.words(value)
        if isinstance(value, tuple):
            return self._language.between_items.join(map(str, value))
        return format(value, format_spec)

    def words(self, reason: Reason) -> str:
        return self.vformat(self._language.templates[reason.code], (), reason.parameters)


def describe(reasons: str | Reason | Iterable[Reason] | None, language: str = "en") -> str:
    """Reasons in words; an empty string for none. Text and class names are returned as they are."""
    if reasons is None or isinstance(reasons, str):
        return reasons or ""
    listed = [reasons] if isinstance(reasons, Reason) else reasons
    table = LANGUAGES[language]
    return table.between_reasons.join(map(_Formatter(table).words, listed))
