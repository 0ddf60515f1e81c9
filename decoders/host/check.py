"""A check is a dry run of a submission on a made-up subject: what would count, and what not."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bci_stream.contest.contest import Limits as ContestLimits
from bci_stream.packet import Packet
from decoders.host.errors import SubmissionError, escape_text
from decoders.host.sandbox import Strength
from decoders.host.submission import SubmissionDecoder, open_submission
from decoders.offline import introduce, track_of, truth_line
from replay.model.source import Session
from replay.synthetic.registry import open_synthetic
from replay.transform.masking import masked_packets
from tracks.common.reasons import Reason
from tracks.common.verdicts import Answer
from tracks.common.words import describe
from tracks.run import Run

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
    """ok: it ran to its end, and something of what it reported would count."""

    ok: bool
    text: str


@dataclass(slots=True)
class DryRun:
    """What happened: the judged run, counts, and how it ended."""

    run: Run
    packets: int = 0
    reports: int = 0
    failure: SubmissionError | None = None

    @property
    def ending(self) -> str:
        return "finished" if self.failure is None else self.failure.ending


def check_submission(
    package: Path,
    track: str,
    *,
    interface: str | None = None,
    python: str | None = None,
    positions: str | None = None,
    granted: ContestLimits | None = None,
    strength: Strength | None = None,
) -> CheckReport:
    """Dry-run the submission, and tell in words what would count and what not."""
    decoder = open_submission(
        package,
        track,
        interface=interface,
        python=python,
        positions=positions,
        granted=granted,
        strength=strength,
    )
    try:
        dry = _dry_run(decoder, track)
    finally:
        decoder.close()
    lines = [decoder.title, *_told(dry, track), *_log_lines(dry, decoder.log)]
    text = "\n".join(map(escape_text, lines))
    return CheckReport(dry.failure is None and _something_counts(dry), text)


# --- the dry run ----------------------------------------------------------------------------


def _dry_run(decoder: SubmissionDecoder, track_name: str) -> DryRun:
    dry = DryRun(Run())
    dry.run.feed({"kind": "run", "v": 1, "track": track_name, "team": "", "rules": {}})
    session = next(iter(open_synthetic(track_name, _dry_run_params(track_name)).sessions()))
    try:
        _play(dry, decoder, session, track_name)
    except SubmissionError as error:
        dry.failure = error
        _note_reports(dry, error.results)
    dry.run.feed({"kind": "end", "reason": dry.ending})
    return dry


def _play(dry: DryRun, decoder: SubmissionDecoder, session: Session, track_name: str) -> None:
    track = track_of(track_name)
    leads = [lead.name for lead in session.leads]
    facts = {"rate": session.rate, "leads": leads, "packet_samples": track.packet_samples}
    dry.run.feed({"kind": "session", "subject": session.subject, **facts})
    dry.run.feed(truth_line(track, session))
    info, places = introduce(track, decoder, session)
    decoder.start(info)
    for packet in masked_packets(track, session, places):
        _note_packet(dry, packet)
        _note_reports(dry, decoder.step(packet))


def _note_packet(dry: DryRun, packet: Packet) -> None:
    triggers = [list(trigger) for trigger in packet.triggers]
    dry.run.feed({"kind": "packet", "start": packet.start, "n": packet.n, "triggers": triggers})
    dry.packets += 1


def _note_reports(dry: DryRun, results: object) -> None:
    assert isinstance(results, list)
    for result in results:
        dry.run.feed({"kind": "report", "result": result})
    dry.reports += len(results)


# --- the report -------------------------------------------------------------------------------


def _told(dry: DryRun, track: str) -> Iterator[str]:
    chosen = "&".join(f"{name}={value}" for name, value in _dry_run_params(track).items())
    yield f"dry run on synthetic:{track}?{chosen}: {dry.packets} packets, {dry.reports} reports"
    if dry.failure is not None:
        yield f"it would end as {dry.ending}: {dry.failure}"
    if _has_shares(dry.run):
        yield from (
            f"trial {v.trial + 1}: {describe(v.reasons)}" for v in dry.run.verdicts() if v.scored
        )
    else:
        yield from _told_answers(_answers(dry.run), track)
    refused = (refusal.reason for refusal in dry.run.refusals())
    yield from _listed("reports were refused, and use up nothing:", refused, track)


def _told_answers(answers: list[Answer], track: str) -> Iterator[str]:
    due = [answer for answer in answers if answer.right is not None]
    counted = [answer for answer in due if _counts(answer)]
    right = sum(1 for answer in counted if answer.right)
    yield (
        f"{len(counted)} of {len(due)} answers would count, {right} of them right "
        "(on a made-up subject that says little)"
    )
    lost = [answer.reason for answer in due if not _counts(answer)]
    yield from _listed("answers would not count:", lost, track)
    extra = [answer.reason for answer in answers if answer.right is None]
    yield from _listed("reports would change nothing:", extra, track)


def _listed(title: str, reasons: Iterable[Reason | None], track: str) -> Iterator[str]:
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


def _advice(reason: Reason, track: str) -> Reason | None:
    match reason.code, reason.parameters:
        case "names_no_class", _:
            return Reason("advise_class", classes=_classes(track))
        case _, {"used_s": float(used_s), "limit_s": float(limit_s)}:
            facts = track_of(track)
            packets = round((used_s - limit_s) / (facts.packet_samples / facts.rate))
            if packets <= 1:
                return Reason("advise_packet_late")
            return Reason("advise_packets_late", packets=packets)
    return ADVICE.get(reason.code)


def _classes(track: str) -> str:
    classes = track_of(track).classes
    if len(classes) > 10:
        return "a class's number or character"
    return "one of " + ", ".join(f"{number} ({name})" for number, name in classes.items())


def _answers(run: Run) -> list[Answer]:
    return [answer for verdict in run.verdicts() if verdict.scored for answer in verdict.answers]


def _has_shares(run: Run) -> bool:
    """Whether a trial has a score of its own, not an answer that is right or wrong."""
    return run.track is not None and run.track.traces is not None and bool(run.verdicts())


def _dry_run_params(track: str) -> dict[str, str]:
    return {"subjects": "1", **track_of(track).dry_run_params}


def _counts(answer: Answer) -> bool:
    """It was in time and could be read, right or not."""
    wrong_class = answer.reason is not None and answer.reason.cause.code == "wrong_class"
    return bool(answer.right) or wrong_class


def _something_counts(dry: DryRun) -> bool:
    if _has_shares(dry.run):
        return dry.reports > len(dry.run.refusals())
    return any(map(_counts, _answers(dry.run)))


def _log_lines(dry: DryRun, log: Path) -> Iterator[str]:
    written = log.read_text(errors="replace") if log.exists() else ""
    lines = written.rstrip().splitlines()
    if not lines:
        return
    shown = lines[-25:] if dry.failure else lines[-5:]
    yield f"the last {len(shown)} of {len(lines)} lines that it printed (its log is {log}):"
    yield from (f"  {line}" for line in shown)
