"""An inspection as tables in a terminal."""

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from replay.tools.inspect import Inspection, SessionFacts, TrackFit

SHOWN_WARNINGS = 3


def render(inspection: Inspection) -> RenderableType:
    """The inspection as tables."""
    return Group(*(_session(facts, inspection.uri) for facts in inspection.sessions))


def _session(facts: SessionFacts, uri: str) -> RenderableType:
    table = Table(title=escape(f"{facts.subject} - {uri}"), show_header=False, title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, text in _rows(facts):
        table.add_row(name, text)
    return Group(table, _fits(facts.fits), Text())


def _rows(facts: SessionFacts) -> list[tuple[str, str]]:
    blocks = ", ".join(f"{n / facts.rate:.1f} s" for n in facts.block_samples)
    events = ", ".join(f"{code} x {count}" for code, count in facts.events.items())
    rows = [
        ("rate", f"{facts.rate:g} Hz"),
        ("duration", f"{_minutes(facts.duration_s)} ({facts.n_samples} samples)"),
        ("leads", _leads(facts)),
        ("range", "; ".join(_range(unit, *ends) for unit, ends in facts.ranges.items())),
        ("blocks", f"{len(facts.block_samples)}: {blocks}"),
        ("triggers", events or "none"),
    ]
    if facts.flat:
        rows.append(("flat leads", ", ".join(facts.flat)))
    if facts.bad:
        counts = ", ".join(f"{lead} ({count})" for lead, count in facts.bad.items())
        rows.append(("not finite", counts))
    rows += [("note", note) for note in facts.notes]
    return [(name, escape(text)) for name, text in rows]


def _leads(facts: SessionFacts) -> str:
    kinds = sorted({lead.kind for lead in facts.leads})
    groups = [
        f"{kind}: {' '.join(lead.name for lead in facts.leads if lead.kind == kind)}"
        for kind in kinds
    ]
    placed = sum(lead.position is not None for lead in facts.leads)
    return f"{len(facts.leads)} ({placed} with positions). " + "; ".join(groups)


def _minutes(seconds: float) -> str:
    return f"{int(seconds // 60)} min {seconds % 60:.1f} s" if seconds >= 60 else f"{seconds:.2f} s"


def _fits(fits: tuple[TrackFit, ...]) -> Table:
    table = Table(box=None, padding=(0, 1))
    table.add_column("track", style="bold")
    table.add_column("fits")
    table.add_column("why not, and what would be adapted", overflow="fold")
    for fit in fits:
        table.add_row(fit.track, _answer(fit), escape(_reasons(fit) or "-"))
    return table


def _answer(fit: TrackFit) -> str:
    if not fit.fits:
        return "[red]no[/red]"
    return "[yellow]yes, but[/yellow]" if fit.warnings else "[green]yes[/green]"


def _reasons(fit: TrackFit) -> str:
    """One line for each of the first warnings, then the reasons and changes."""
    lines = list(fit.warnings[:SHOWN_WARNINGS])
    if len(fit.warnings) > SHOWN_WARNINGS:
        lines.append(f"and {len(fit.warnings) - SHOWN_WARNINGS} more")
    rest = "; ".join((*fit.breaks, *fit.adapted))
    return "\n".join([*lines, rest] if rest else lines)


def _range(unit: str, low: float, high: float) -> str:
    """A range with its unit; electrodes never give a volt, so then the unit is wrong."""
    is_too_large = unit == "microvolts" and max(-low, high) > 1e6
    hint = " (more than a volt: is the unit right?)" if is_too_large else ""
    return f"{low:.6g} to {high:.6g} {'of no unit' if unit == 'none' else unit}{hint}"
