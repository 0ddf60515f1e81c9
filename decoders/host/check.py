"""Dry run of a submission on a synthetic subject: what would count, what would not, and why."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from decoders.host.limits import SubmissionError, escape_text
from decoders.host.submission import SubmissionDecoder
from decoders.offline import OfflineRun, track_of
from decoders.waiting import describe_awaited, describe_data, source_files, trigger_counts
from replay.model.options import SourceOptions, profile_rate
from replay.sources import open_source
from tracks.common.reasons import Reason
from tracks.common.verdicts import Answer
from tracks.common.words import describe
from tracks.registry import TRACKS
from tracks.run import Run
from tracks.track import Track

ADVICE = {
    "not_an_int": Reason("advise_int"),
    "no_report": Reason("advise_report"),
    "no_report_number": Reason("advise_report"),
    "after_trial_end": Reason("advise_by_end"),
    "after_end_packet": Reason("advise_by_end"),
    "after_submission_point": Reason("advise_before_end"),
    "on_next_trigger": Reason("advise_before_next"),
    "before_first_packet": Reason("advise_next_packet"),
    "only_first_counts": Reason("advise_once"),
    "beyond_third": Reason("advise_three"),
    "not_rows": Reason("advise_rows"),
}
"""What to do about a reason, by its code; `_advice` adds what depends on the track or a parameter."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """ok: it ran to the end, and at least one report would count."""

    ok: bool
    text: str


@dataclass(frozen=True, slots=True)
class DryRun:
    """The judged run, and the error that ended it, if any."""

    outcome: OfflineRun
    failure: SubmissionError | None

    @property
    def run(self) -> Run:
        return self.outcome.run


def check_submission(
    decoder: SubmissionDecoder, name: str, rules: dict[str, object] | None = None
) -> CheckReport:
    """Dry-run an open submission, close it, and describe what would count and what would not.

    name: of the track. rules: what the contest changes of its rules, its profile among them.
    Raises a SubmissionError, whose ending is `stopped`, where this machine failed or the check was stopped.
    """
    track = track_of(name).under(rules or {})
    try:
        dry = _dry_run(decoder, track, rules)
        silent = [] if dry.outcome.count("report") else _describe_silence(decoder, dry)
    finally:
        decoder.close()  # its log is complete after this
    measured = _measured(decoder)
    shown = [*_describe(dry, track), *measured, *silent]
    lines = [decoder.title, *shown, *_log_lines(dry, decoder.log)]
    text = "\n".join(map(escape_text, lines))
    return CheckReport(dry.failure is None and _something_counts(dry), text)


def _dry_run(decoder: SubmissionDecoder, track: Track, rules: dict[str, object] | None) -> DryRun:
    outcome, failure = OfflineRun(), None
    options = SourceOptions(resample=profile_rate(track))
    session = next(iter(open_source(_dry_run_uri(track), options).sessions()))
    outcome.begin(track, rules)
    try:
        outcome.stream(track, decoder, [session])
    except SubmissionError as error:
        if error.ending == "stopped":
            raise  # nothing was found out about the submission
        failure = error
        outcome.report(error.results)
    outcome.end("finished" if failure is None else failure.ending)
    return DryRun(outcome, failure)


def _describe_silence(decoder: SubmissionDecoder, dry: DryRun) -> list[str]:
    """What the data had, and what the code waits for, where it reported nothing."""
    events = dry.outcome.events
    return [
        *describe_data(events),
        *describe_awaited(source_files(decoder), trigger_counts(events)),
    ]


# --- description -----------------------------------------------------------------------------


def _describe(dry: DryRun, track: Track) -> Iterator[str]:
    of_year = f" under profile {track.rules['profile']}" if _has_profile(track) else ""
    yield (
        f"dry run on {_dry_run_uri(track)}{of_year}: {dry.outcome.count('packet')} packets, "
        f"{dry.outcome.count('report')} reports"
    )
    if dry.failure is not None:
        yield f"it would end as {dry.failure.ending}: {dry.failure}"
    if _has_shares(dry.run):
        yield from (
            f"trial {v.trial + 1}: {describe(v.reasons)}" for v in dry.run.verdicts() if v.scored
        )
    else:
        yield from _describe_answers(_answers(dry.run), track)
    refused = (refusal.reason for refusal in dry.run.refusals())
    yield from _listed("reports were refused, and use up nothing:", refused, track)


def _describe_answers(answers: list[Answer], track: Track) -> Iterator[str]:
    due = [answer for answer in answers if answer.right is not None]
    counted = [answer for answer in due if _counts(answer)]
    right = sum(1 for answer in counted if answer.right)
    yield (
        f"{len(counted)} of {len(due)} answers would count, {right} of them right "
        "(which means little on a synthetic subject)"
    )
    lost = [answer.reason for answer in due if not _counts(answer)]
    yield from _listed("answers would not count:", lost, track)
    extra = [answer.reason for answer in answers if answer.right is None]
    yield from _listed("reports would change nothing:", extra, track)


def _listed(title: str, reasons: Iterable[Reason | None], track: Track) -> Iterator[str]:
    """Equal reasons counted together, the most frequent first, each with an example and advice."""
    examples: dict[Reason, Reason] = {}
    counts: Counter[Reason] = Counter()
    for reason in reasons:
        if reason is not None:
            kind = reason.without("result")
            examples.setdefault(kind, reason)
            counts[kind] += 1
    if counts:
        yield f"{counts.total()} {title}"
    for kind, times in counts.most_common(12):
        advice = describe(_advice(kind.cause, track))
        yield f"  {times} x {describe(examples[kind])}" + (f" -> {advice}" if advice else "")


def _advice(reason: Reason, track: Track) -> Reason | None:
    match reason.code, reason.parameters:
        case "names_no_class", _:
            return Reason("advise_class", classes=_classes(track))
        case _, {"used_s": float(used_s), "limit_s": float(limit_s)}:
            packets = round((used_s - limit_s) / (track.packet_samples / track.rate))
            if packets <= 1:
                return Reason("advise_packet_late")
            return Reason("advise_packets_late", packets=packets)
    return ADVICE.get(reason.code)


def _classes(track: Track) -> str:
    if len(track.classes) > 10:
        return "a class's number or character"
    results = {number: number for number in track.classes}
    if _has_profile(track):
        results = dict(track.profiles[track.rules["profile"]].results)
    return "one of " + ", ".join(f"{n} ({track.classes[number]})" for n, number in results.items())


def _has_profile(track: Track) -> bool:
    """Whether the rules choose a profile other than the document's own."""
    return bool(track.profiles) and track.rules["profile"] != TRACKS[track.name].rules["profile"]


def _answers(run: Run) -> list[Answer]:
    return [answer for verdict in run.verdicts() if verdict.scored for answer in verdict.answers]


def _has_shares(run: Run) -> bool:
    """Whether a trial has a score of its own, not an answer that is right or wrong."""
    return run.track is not None and run.track.traces is not None and bool(run.verdicts())


def dry_run_calibration(track: str) -> tuple[str, ...]:
    """The training set of the dry run's subject."""
    return (f"{_dry_run_uri(track_of(track))}&set=train",)


def _measured(decoder: SubmissionDecoder) -> Iterator[str]:
    if decoder.prepared.entry.interface == "g5":
        found = decoder.measured.figures()
        yield (
            f"measured: {found['leads']:g} leads, {found['calibration']:g} calibration trials a class, "
            f"{found['size_mib']:g} MiB, reaction {found['reaction_ms']:g} ms"
        )


def _dry_run_uri(track: Track) -> str:
    chosen = {"subjects": "1", **track.dry_run_params}
    return f"synthetic:{track.name}?" + "&".join(f"{name}={text}" for name, text in chosen.items())


def _counts(answer: Answer) -> bool:
    """Whether it was in time and valid, right or not."""
    wrong_class = answer.reason is not None and answer.reason.cause.code == "wrong_class"
    return bool(answer.right) or wrong_class


def _something_counts(dry: DryRun) -> bool:
    if _has_shares(dry.run):
        return dry.outcome.count("report") > len(dry.run.refusals())
    return any(map(_counts, _answers(dry.run)))


def _log_lines(dry: DryRun, log: Path) -> Iterator[str]:
    written = log.read_text(errors="replace") if log.exists() else ""
    lines = written.rstrip().splitlines()
    if not lines:
        return
    shown = lines[-25:] if dry.failure else lines[-5:]
    yield f"the last {len(shown)} of {len(lines)} lines that it printed (its log is {log}):"
    yield from (f"  {line}" for line in shown)
