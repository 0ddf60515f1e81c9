"""The season's HTML pages: the leaderboard of each phase, a team's submissions, and one of them."""

from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tracks.common.reasons import Reason

FOLDER: Final = Path(str(files("bci_stream.season.web")))
STATIC: Final = FOLDER / "static"


def _shown_time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


_environment: Final = Environment(
    loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined
)
_environment.filters["shown_time"] = _shown_time


def render(name: str, **content: Any) -> str:
    """A page of templates/; all that is filled in is escaped."""
    return _environment.get_template(f"{name}.html").render(content)


def stage_reasons(view: dict[str, Any]) -> list[Reason]:
    """Where a submission stands; view: of `SeasonService.view`."""
    reasons = [_stage(view)]
    if view.get("ahead") is not None:
        reasons.append(Reason("units_ahead", units=view["ahead"]))
    if view["fault"] == "organiser" and view["stage"] != "failed":
        reasons.append(Reason("tried_again"))
    return reasons


def _stage(view: dict[str, Any]) -> Reason:
    match view["stage"]:
        case "received":
            return Reason("stage_received")
        case "checking":
            return Reason("stage_checking")
        case "queued":
            return Reason("stage_queued")
        case "running" if view.get("percent") is not None and view["runs"] > 1:
            run, runs = view["run"], view["runs"]
            return Reason("stage_running_split", run=run, runs=runs, percent=view["percent"])
        case "running" if view.get("percent") is not None:
            return Reason("stage_running", subject=view["subject"], percent=view["percent"])
        case "running":
            return Reason("stage_starting")
        case "judged":
            return Reason("stage_judged")
        case "rejected":
            return Reason("stage_rejected")
        case "failed" if view["fault"] == "organiser":
            return Reason("stage_held")
        case "failed":
            return Reason("stage_failed")
        case _:
            return Reason("stage_disqualified")
