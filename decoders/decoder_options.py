"""The options that choose a decoder, and the decoder that they choose."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bci_stream.cli import require_posix
from bci_stream.errors import HOST_FAILED

if TYPE_CHECKING:
    from bci_stream.contest.contest import Contest
    from decoders.decoder import Decoder
    from decoders.host.submission import SubmissionDecoder

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

decoder_option = click.option("--decoder", default=None, help="A name of `list`, or module:Class.")
model_option = click.option("--model", type=click.Path(path_type=Path), help="A trained model.")
seed_option = click.option("--seed", default=0, show_default=True)


def submission_options(command: F) -> F:
    """Options of a submission."""
    options = [
        click.option("--submission", type=click.Path(path_type=Path),
                     help="A contestant's folder, .zip or .tar.gz."),
        click.option("--interface", help="Force its interface (g1, g2, g2-online, g3, g4, ...)."),
        click.option("--python", metavar="VERSION",
                     help="Run it by this Python (3.8, ...), not the one it requests."),
        click.option("--positions", type=click.Choice(["block", "continuous"]),
                     help="How start positions count (default: as its interface does)."),
        click.option("--calibration", multiple=True, metavar="RECORDING",
                     help="Labelled recordings for a submission of 2026; repeatable."),
        click.option("--strength", type=click.Choice(["auto", "bubblewrap", "limits"]),
                     help="How it must be contained (default: the contest's limits.strength)."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def pipeline_options(command: F) -> F:
    """Options of an estimator that is used as a decoder (docs/pipelines.md)."""
    options = [
        click.option("--pipeline", metavar="FILE[:NAME]",
                     help="An estimator: my.py:clf, my.yml (MOABB's), my.skops."),
        click.option("--online", "online", multiple=True, metavar="NAME=VALUE",
                     help="Of its windows: band=8-30, rate=125, length_s=2, recentre=true, ..."),
        click.option("--trust", is_flag=True,
                     help="Load pickles and types that are not known: they can run any code."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def make_decoder(
    track: str,
    contest: "Contest",
    stop: threading.Event,
    *,
    decoder: str | None,
    model: Path | None,
    seed: int,
    submission: Path | None,
    pipeline: str | None = None,
    online: tuple[str, ...] = (),
    trust: bool = False,
    **how: Any,
) -> "Decoder":
    """The decoder of these options. Raises click.UsageError where they do not fit together."""
    made = pipeline_factory(track, decoder, submission, model, pipeline, online, trust)
    if made is not None:
        refuse_without_submission(how)
        return made()
    if submission is not None:
        require_posix("bci-decode --submission", "run your decoder with --decoder module:Class")
        if decoder is not None:
            raise click.UsageError("give --decoder or --submission, not both")
        how["calibration"] = played_persons(how["calibration"], contest)
        opened = opened_submission(submission, track, granted=contest.limits, stop=stop, **how)
        logger.info("submission %s", opened.title)
        logger.info("its output goes to %s", opened.log)
        return opened
    refuse_without_submission(how)
    from decoders.registry import load

    return load(decoder, track, model, seed)


def pipeline_factory(
    track: str,
    decoder: str | None,
    submission: Path | None,
    model: Path | None,
    pipeline: str | None,
    online: tuple[str, ...],
    trust: bool,
) -> "Callable[[], Decoder] | None":
    """How to make the decoder of --pipeline, or of a model that --trust is given for; None elsewhere."""
    if pipeline is None and not trust:
        if online:
            raise click.UsageError("--online is for a --pipeline only")
        return None
    if submission is not None or (pipeline is not None and decoder is not None):
        raise click.UsageError("give one of --pipeline, --decoder and --submission")
    from decoders.adapters import pipeline as adapter

    if pipeline is not None:
        from decoders.adapters.online import parse_options

        options = parse_options(online)
        return lambda: adapter.load_pipeline_decoder(
            pipeline, track, model, options=options, trust=trust
        )
    name = adapter.pipeline_name(track)
    if decoder != name or model is None:
        raise click.UsageError(f"--trust is for --pipeline, or for --decoder {name} --model FILE")
    from decoders.model import load_model

    trained = load_model(model).wanted_by(track, name)
    return lambda: adapter.PipelineDecoder(trained, trust=True)


def played_persons(uris: tuple[str, ...], contest: "Contest") -> tuple[str, ...]:
    """Synthetic training sets of the persons that a replay of this contest plays.

    In a contest with keys these are made from the contest's key, as far as it is here.
    """
    if not uris or not contest.keys.exist():
        return uris
    from replay.service import secret_seed

    return tuple(secret_seed(uri, contest) for uri in uris)


class _HostFailed(click.ClickException):
    """A failure of this machine, not of the submission: the judge tries it again."""

    exit_code = HOST_FAILED


@contextmanager
def host_failures() -> Iterator[None]:
    """Give the errors of a submission that are no fault of the team an exit code of their own."""
    from decoders.decoder import DecoderFailure

    try:
        yield
    except DecoderFailure as error:
        if error.ending == "stopped":
            raise _HostFailed(str(error)) from error
        raise


def opened_submission(submission: Path, track: str, **options: Any) -> "SubmissionDecoder":
    """Open a submission; a failure of this machine has an exit code of its own."""
    from decoders.host.submission import open_submission

    with host_failures():
        return open_submission(submission, track, **options)


def refuse_without_submission(how: dict[str, Any]) -> None:
    """Raise click.UsageError for options that only a submission has."""
    if useless := [f"--{name}" for name, value in how.items() if value not in (None, ())]:
        raise click.UsageError(f"{', '.join(useless)} is for a --submission only")
