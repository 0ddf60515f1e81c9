"""A prepared submission: unpacked, detected, with an environment; none of its code has run yet."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from decoders.host.detect import EntryPoint, detect
from decoders.host.environment import Environment, environment_for, requested_environment
from decoders.host.interface import INTERFACES
from decoders.host.limits import SubmissionLimits
from decoders.host.package import lay_out


@dataclass(frozen=True, slots=True)
class Prepared:
    """folder: a private copy, removed by close(); root: the framework's root in it."""

    folder: Path
    root: Path
    entry: EntryPoint
    environment: Environment

    @property
    def title(self) -> str:
        """What was detected, for a person to read."""
        entry, title = self.entry, INTERFACES[self.entry.interface].title
        return f"{entry.file}: {title} (because {entry.why}), run by {self.environment.title}"

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def prepare(
    package: Path,
    track: str,
    interface: str | None = None,
    python: str | None = None,
    limits: SubmissionLimits | None = None,
    cache: Path | None = None,
) -> Prepared:
    """Unpack it, detect its interface, and make its environment (minutes, the first time)."""
    folder = Path(tempfile.mkdtemp(prefix="bci-submission-"))
    try:
        root = lay_out(package, folder / "package", limits)
        entry = detect(root, track, interface)
        environment = environment_for(requested_environment(root, python), cache)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Prepared(folder, root, entry, environment)
