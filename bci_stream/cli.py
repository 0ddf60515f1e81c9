"""Shared by the three command lines: logging, one-line errors, LSL options, a clean stop."""

import contextlib
import errno
import logging
import math
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bci_stream.child_process import end_with_parent
from bci_stream.errors import WireError
from bci_stream.wire.network import (
    INTERFACE,
    PORTS,
    SCOPES,
    add_peers,
    default_scope,
    interface_address,
    parse_ports,
)
from tracks.registry import TRACKS

if TYPE_CHECKING:
    from bci_stream.contest.contest import Contest
    from bci_stream.wire.transport import Transport


F = TypeVar("F", bound=Callable[..., Any])

HANGUP: int | None = getattr(signal, "SIGHUP", None)
"""A terminal that was closed; Windows has no such signal."""

STOPPING = tuple(
    signal.Signals(n) for n in (signal.SIGINT, signal.SIGTERM, HANGUP) if n is not None
)
"""Ctrl-C, `kill`, and a terminal that was closed."""


def require_posix(command: str, instead: str = "") -> None:
    """Raise ClickException on a system without POSIX processes and signals (Windows).

    command: as it is called. instead: what works there.
    """
    if not (hasattr(os, "fork") and hasattr(signal, "SIGUSR1")):
        remedy = f"; here {instead}" if instead else ""
        raise click.ClickException(f"{command} needs Linux or macOS{remedy}")


class TrackName(click.Choice[str]):
    """The name of a track. The registry lists the names without importing a track or numpy."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # click has it as an attribute
        return tuple(TRACKS)


class Commands(click.Group):
    """A group whose commands show errors that a user can fix as one line, and exit with 1.

    These are our own errors, and OSErrors (a missing folder, a full disk) that were not handled.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.invoke_without_command:
            self.params.extend(_verbosity_options())

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, with -v and -q unless another group has given it these already."""
        given = {parameter.name for parameter in cmd.params}
        cmd.params.extend(o for o in _verbosity_options() if o.name not in given)
        super().add_command(cmd, name)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Log at the usual level until an option of the command sets another one.

        A command that another process of ours started (`ChildProcess`) ends with it from here on.
        """
        configure_logging()
        end_with_parent()
        return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # as with `| head`: click ends quietly
            raise
        except OSError as error:
            command = " ".join(filter(None, (ctx.command_path, ctx.invoked_subcommand)))
            raise click.ClickException(describe_os_error(error, command)) from error
        except Exception as error:
            from tracks.errors import BciError

            if isinstance(error, BciError):
                raise click.ClickException(str(error)) from error
            raise


PACKAGES = ("tracks", "bci_stream", "replay", "decoders")
DAEMON_LOG = "BCI_DAEMON_LOG"
"""Set in the environment of a process whose standard error is a log file."""


def configure_logging(level: int = logging.INFO) -> None:
    """Send what our packages log to standard error.

    On a terminal rich formats the messages; in a pipe they are plain lines; a daemon's log has the
    time and the level in front of each. Other packages' loggers are not touched.
    """
    for package in PACKAGES:
        logger = logging.getLogger(package)
        logger.handlers = [_StderrHandler()]
        logger.setLevel(level)
        logger.propagate = False


class _StderrHandler(logging.Handler):
    """Writes to the present `sys.stderr`; a closed terminal or pipe stops no process."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            if os.environ.get(DAEMON_LOG):
                click.echo(_DAEMON_FORMAT.format(record), err=True)
            elif sys.stderr is not None and sys.stderr.isatty():
                _print_on_terminal(record)
            else:
                prefix = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
                click.echo(prefix + self.format(record), err=True)


_DAEMON_FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
_STYLES = {logging.DEBUG: "dim", logging.WARNING: "yellow", logging.ERROR: "bold red"}


def _print_on_terminal(record: logging.LogRecord) -> None:
    from rich.console import Console

    style = _STYLES.get(record.levelno)
    Console(stderr=True).print(record.getMessage(), style=style, markup=False, highlight=False)


def _verbosity_options() -> list[click.Option]:
    def set_level(level: int) -> Callable[..., None]:
        return lambda _context, _option, given: configure_logging(level) if given else None

    return [
        click.Option(["-v", "--verbose"], is_flag=True, expose_value=False,
                     callback=set_level(logging.DEBUG), help="Also log details."),
        click.Option(["-q", "--quiet"], is_flag=True, expose_value=False,
                     callback=set_level(logging.WARNING), help="Log warnings and errors only."),
    ]  # fmt: skip


_NO_FOLDER = "a part of this path is a file, not a folder"
_NO_ACCESS = "choose a place where you may read and write"
_NO_ROOM = "make room there, or choose another place"
REMEDIES = {
    errno.ENOENT: "check its spelling, and that its folder is there",
    errno.ENOTDIR: _NO_FOLDER,
    errno.EEXIST: _NO_FOLDER,
    errno.EISDIR: "name a file, not a folder",
    errno.EACCES: _NO_ACCESS,
    errno.EPERM: _NO_ACCESS,
    errno.EROFS: _NO_ACCESS,
    errno.ENOSPC: _NO_ROOM,
    getattr(errno, "EDQUOT", errno.ENOSPC): _NO_ROOM,
    errno.ENAMETOOLONG: "choose a shorter name",
}


def describe_os_error(error: OSError, command: str) -> str:
    """The file (or the command) that an error is about, the error, and what to do."""
    file = error.filename2 or error.filename
    about = os.fsdecode(file) if isinstance(file, str | bytes) else command
    remedy = REMEDIES.get(error.errno or 0, "check that you may use it" if file else "")
    return "; ".join(filter(None, (f"{about}: {error.strerror or error}", remedy)))


class SecondsType(click.FloatRange):
    """A duration in seconds; neither `nan` nor `inf`."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value} is not a duration; give a number of seconds", param, ctx)
        return seconds


def version_option(command: F) -> F:
    """--version: of the installed package."""
    option = click.version_option(package_name="bci-stream", message="%(prog)s %(version)s")
    return option(command)


def wait_option(seconds: float, for_whom: str) -> Callable[[F], F]:
    """--wait: how long to wait for other processes."""
    return click.option(
        "--wait",
        "wait_s",
        type=SecondsType(min=0),
        default=seconds,
        show_default=True,
        help=f"Seconds to wait for {for_whom}.",
    )


def wire_options(command: F) -> F:
    """The options of a command that uses LSL; see `_with_wire_options`."""
    return _with_wire_options(command, "--interface", "--lsl-interface")


def team_wire_options(command: F) -> F:
    """The same for bci-decode, where --interface is that of a submission."""
    return _with_wire_options(command, "--lsl-interface")


def _with_wire_options(command: F, *interface_names: str) -> F:
    """--contest, --room, and where LSL looks: --scope, --peer, --interface, --ports, --lsl-session.

    Peers, interface and ports go to the environment (`bci_stream.wire.network`).
    """
    options = [
        click.option("--contest", "contest_path", type=click.Path(path_type=Path), default=None,
                     help="contest.toml or its folder (default: an open contest of your own)."),
        click.option("--room", default="", help="A part of the contest that sees only itself."),
        click.option("--scope", type=click.Choice(SCOPES), default=default_scope,
                     show_default="machine; config where LSLAPICFG is set",
                     help="How far LSL looks; it has no access control."),
        click.option("--peer", "peers", multiple=True, metavar="HOST", expose_value=False,
                     callback=_take_peers,
                     help="A host to look at, also across routers; repeatable. [$BCI_LSL_PEERS]"),
        click.option(*interface_names, "lsl_interface", metavar="NAME|ADDRESS", expose_value=False,
                     callback=_keep_in(INTERFACE, interface_address),
                     help="The network interface for multicast. [$BCI_LSL_INTERFACE]"),
        click.option("--ports", "lsl_ports", metavar="FIRST-LAST", expose_value=False,
                     callback=_keep_in(PORTS, parse_ports),
                     help="Of LSL, the same on all hosts (default: 16572-17083). [$BCI_LSL_PORTS]"),
        click.option("--lsl-session", default="default", show_default=True,
                     envvar="BCI_LSL_SESSION", help="LSL session id."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _take_peers(_: click.Context, option: click.Parameter, peers: tuple[str, ...]) -> None:
    if peers:
        _as_usage_error(option, lambda: add_peers(list(peers)))


def _keep_in(variable: str, check: Callable[[str], object]) -> Callable[..., None]:
    """A callback that puts an option's checked value into the environment."""

    def keep(_: click.Context, option: click.Parameter, value: str | None) -> None:
        if value is not None:
            _as_usage_error(option, lambda: check(value))
            os.environ[variable] = value

    return keep


def _as_usage_error(option: click.Parameter, check: Callable[[], object]) -> None:
    try:
        check()
    except WireError as error:
        raise click.BadParameter(str(error), param=option) from error


def open_contest(contest_path: Path | None, room: str) -> "Contest":
    from bci_stream.contest.contest import load_contest
    from bci_stream.wire.names import checked_name

    contest = load_contest(contest_path)
    if not room:
        return contest
    return replace(contest, name=checked_name(f"{contest.name}.{room}", "contest and room"))


def open_wire(scope: str, session: str) -> "Transport":
    from bci_stream.wire.lsl import LslTransport

    return LslTransport(scope, session)  # type: ignore[arg-type]


stay_option = click.option(
    "--stay", is_flag=True, help="Then keep a stream open for other hosts' doctors, until Ctrl-C."
)


def run_doctor(
    *,
    stay: bool,
    as_json: bool,
    contest_path: Path | None,
    room: str,
    scope: str,
    lsl_session: str,
    more: Sequence[Callable[[], Any]],
) -> None:
    """Print the findings of `bci_stream.doctor`; exits with 1 where a contest would fail."""
    stop = stop_on_signals()
    from bci_stream.doctor import doctor_stream, examine, print_findings

    contest = open_contest(contest_path, room)
    transport = open_wire(scope, lsl_session)
    with doctor_stream(transport):
        held = print_findings(examine(transport, scope, contest.folder, more), as_json)  # type: ignore[arg-type]
        if stay:
            click.echo("other hosts' doctors can see this one; Ctrl-C ends it", err=True)
            stop.wait()
    if not held:
        click.get_current_context().exit(1)


def stop_signals() -> list[signal.Signals]:
    """The signals that end a command; under `nohup` a closed terminal does not."""
    is_ignored = HANGUP is not None and signal.getsignal(HANGUP) is signal.SIG_IGN
    return [number for number in STOPPING if not (is_ignored and number == HANGUP)]


def stop_on_signals() -> threading.Event:
    """An event that Ctrl-C, SIGTERM and SIGHUP set; a second one ends the process at once.

    A thread sets it, not the signal handler: a handler runs on the main thread, and would deadlock if
    that thread holds the event's lock because it waits for the event.
    """
    stop = threading.Event()
    reader, writer = os.pipe()
    if hasattr(os, "set_blocking"):  # not on Windows before Python 3.12, where it is not needed
        os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in stop_signals():
        signal.signal(number, lambda *_: None)
    threading.Thread(
        target=_set_on_signal, args=(reader, stop), name="signals", daemon=True
    ).start()
    return stop


def _set_on_signal(reader: int, stop: threading.Event) -> None:
    while received := os.read(reader, 1):
        number = received[0]
        if number not in STOPPING:
            continue
        if stop.is_set() and number != HANGUP:  # kernel and shell may both send SIGHUP
            os._exit(128 + number)
        stop.set()
