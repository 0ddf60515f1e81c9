"""The report's page: one HTML file that loads nothing else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from bci_stream.contest.contest import Award
from bci_stream.leaderboard.fold import FoldedRun
from bci_stream.leaderboard.ranking import TIE_RULE, LeaderboardRow, best_runs, rank
from bci_stream.leaderboard.report.figures import (
    TEXT_LIMIT,
    draw_accuracy,
    draw_confusion,
    draw_latency,
    draw_quality,
    draw_scores,
    draw_topographies,
)
from bci_stream.leaderboard.report.recording import (
    class_maps,
    lead_quality,
    map_title,
    read_labelled,
)
from bci_stream.leaderboard.report.statistics import (
    AccuracyPoint,
    TeamComparison,
    accuracy_curve,
    compare,
    trial_scores,
)
from bci_stream.leaderboard.standing import STANDING_RULE, give_awards, standing
from tracks.registry import TRACKS

TRIALS_SHOWN = 400


@dataclass(frozen=True, slots=True)
class TeamPart:
    """One run: its row, its confusion matrix as SVG, its trials."""

    row: LeaderboardRow
    confusion: Markup | None
    trials: list[dict[str, Any]]
    refused: int


@dataclass(frozen=True, slots=True)
class TrackPart:
    """All runs of one track."""

    title: str
    unit: str
    teams: list[TeamPart]
    figures: list[tuple[str, Markup]]
    comparisons: list[TeamComparison]
    many_classes: bool


@dataclass(frozen=True, slots=True)
class RecordingPart:
    """The figures of a recording, and its leads that are not good."""

    name: str
    figures: list[tuple[str, Markup]]
    bad_leads: list[str]


def render_page(
    runs: Sequence[FoldedRun],
    recordings: Sequence[RecordingPart],
    title: str,
    made_at: str,
    left_out: Sequence[tuple[str, str]] = (),
    awards: Sequence[Award] = (),
) -> str:
    """The HTML text; names and results of teams are escaped.

    left_out: logs that can't be scored, and why. awards: those of the contest, for the best run of each team.
    """
    by_track: dict[str, list[FoldedRun]] = {}
    for run in runs:
        by_track.setdefault(run.view.track, []).append(run)
    best = rank(best_runs(run.view.row() for run in runs))
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    folder = files("bci_stream.leaderboard.report")
    template = environment.from_string((folder / "report.html").read_text(encoding="utf-8"))
    return template.render(
        title=title,
        made_at=made_at,
        tie_rule=TIE_RULE,
        tracks=[track_part(track, by_track[track]) for track in TRACKS if track in by_track],
        recordings=recordings,
        left_out=left_out,
        standing=standing(best) if len(by_track) > 1 else [],
        standing_rule=STANDING_RULE,
        awards=give_awards(best, awards),
    )


def track_part(track: str, runs: Sequence[FoldedRun]) -> TrackPart:
    names = distinct_names([_shown_name(run, runs) for run in runs])
    named = dict(zip(names, runs, strict=True))
    rows = rank([replace(run.view.row(), team=name) for name, run in named.items()])
    ordered = {row.team: named[row.team] for row in rows}
    scores = {name: trial_scores(run.run.verdicts()) for name, run in ordered.items()}
    return TrackPart(
        title=TRACKS[track].title,
        unit=TRACKS[track].unit,
        teams=[_team_part(row, ordered[row.team]) for row in rows],
        figures=_figures(track, ordered),
        comparisons=compare(scores),
        many_classes=len(TRACKS[track].classes) > TEXT_LIMIT,
    )


def _shown_name(run: FoldedRun, runs: Sequence[FoldedRun]) -> str:
    """The display name; with the id where two teams have the same one."""
    view = run.view
    if not view.name:
        return view.team
    same = {other.view.team for other in runs if other.view.name == view.name}
    return view.name if len(same) == 1 else f"{view.name} ({view.team})"


def distinct_names(names: Sequence[str]) -> list[str]:
    """The names, with a number where a team has several runs."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if names.count(name) == 1 else f"{name} (run {seen[name]})")
    return distinct


def _team_part(row: LeaderboardRow, run: FoldedRun) -> TeamPart:
    detail = run.view.detail()
    table = detail["confusion"]
    svg = None
    if table is not None:
        svg = Markup(draw_confusion(table["labels"], table["columns"], table["counts"]))
    refused = len(run.run.refusals())
    return TeamPart(row, svg, detail["trials"][-TRIALS_SHOWN:], refused)


def _figures(track: str, runs: Mapping[str, FoldedRun]) -> list[tuple[str, Markup]]:
    sessions = [
        {
            f"{i} {s['subject']}": s["score"]
            for i, s in enumerate(run.run.result()["sessions"])
            if s["score"] is not None
        }
        for run in runs.values()
    ]
    drawn = [("Scores", draw_scores(list(runs), sessions, TRACKS[track].unit))]
    curves = _curves(track, runs)
    if curves:
        drawn.append(("Accuracy against data used", draw_accuracy(curves, TRACKS[track].used_unit)))
    latencies = {name: run.latencies_s for name, run in runs.items() if run.latencies_s}
    if latencies:
        drawn.append(("Latency", draw_latency(latencies)))
    return [(name, Markup(svg)) for name, svg in drawn]


def _curves(track: str, runs: Mapping[str, FoldedRun]) -> dict[str, list[AccuracyPoint]]:
    if not TRACKS[track].classes:
        return {}
    curves = {name: accuracy_curve(run.run.verdicts()) for name, run in runs.items()}
    return {name: points for name, points in curves.items() if points}


def recording_parts(source: str, track: str) -> list[RecordingPart]:
    """One part for each subject that the source holds."""
    return [_recording_part(name, raw, track) for name, raw in read_labelled(source, track)]


def _recording_part(name: str, raw: Any, track: str) -> RecordingPart:
    """Lead quality, and maps by class if the positions of the leads are known."""
    leads = lead_quality(raw)
    figures = [("Lead quality", Markup(draw_quality(leads)))] if leads else []
    maps = class_maps(raw, track)
    if maps is not None:
        figures.append(("Maps by class", Markup(draw_topographies(map_title(track), *maps))))
    bad = [f"{lead.name} ({lead.verdict})" for lead in leads if lead.verdict != "good"]
    return RecordingPart(name, figures, bad)
