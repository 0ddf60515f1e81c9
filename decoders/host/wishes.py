"""What a submission wishes for: a Python version and packages, read from its own files."""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from decoders.host.errors import PackageError
from decoders.host.package import read_small

MAGIC_NUMBERS = {
    3413: "3.8",
    3425: "3.9",
    3439: "3.10",
    3495: "3.11",
    3531: "3.12",
    3571: "3.13",
    3627: "3.14",
}
"""What a compiled file begins with, and the Python that can read it."""

_VERSION = re.compile(r"(?<![\d.])(3)\.?(\d{1,2})(?!\d)")
_IMAGE_VERSION = re.compile(r"(?:python|py)[-_:v ]*(3)\.?(\d{1,2})(?!\d)", re.IGNORECASE)
"""In an image's name other things have versions, too: pytorch:2.3.1."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """python: like `3.8`, or None; requirements: None where no packages are named at all."""

    python: str | None
    requirements: tuple[str, ...] | None


def wishes_of(root: Path, python: str | None = None) -> Wishes:
    """Read them; `python` is the caller's word, which goes before the submission's own."""
    return Wishes(python or _python_of(root), _requirements_of(root))


def _python_of(root: Path) -> str | None:
    return _of_compiled(root) or _of_version_file(root) or _of_image(root)


def _of_compiled(root: Path) -> str | None:
    """Compiled files without their source run on one version only."""
    versions = {
        _version_of(path)
        for path in sorted(root.rglob("*.pyc"))
        if not path.with_suffix(".py").exists()
    }
    if len(versions) > 1:
        raise PackageError(
            f"the submission's .pyc files are of several Pythons ({', '.join(sorted(versions))}); "
            "compile them all with one"
        )
    return versions.pop() if versions else None


def _version_of(compiled: Path) -> str:
    with compiled.open("rb") as file:
        magic = int.from_bytes(file.read(2), "little")
    if magic not in MAGIC_NUMBERS:
        raise PackageError(
            f"{compiled.name} was compiled by a Python that this host does not know (magic number "
            f"{magic}); it knows {', '.join(MAGIC_NUMBERS.values())}"
        )
    return MAGIC_NUMBERS[magic]


def _of_version_file(root: Path) -> str | None:
    for name in (".python-version", "runtime.txt"):
        path = root / name
        if path.is_file():
            return _version_in(read_small(path))
    return None


def _of_image(root: Path) -> str | None:
    """config.toml or config.json name the image that it was written for: `unitImage`."""
    try:
        if (root / "config.toml").is_file():
            config: object = tomllib.loads(read_small(root / "config.toml"))
        elif (root / "config.json").is_file():
            config = json.loads(read_small(root / "config.json"))
        else:
            return None
    except (ValueError, RecursionError) as error:
        raise PackageError(f"the submission's config file can't be read: {error}") from error
    image = config.get("unitImage") if isinstance(config, dict) else None
    return _version_in(image, _IMAGE_VERSION) if isinstance(image, str) else None


def _version_in(text: str, pattern: re.Pattern[str] = _VERSION) -> str | None:
    found = pattern.search(text)
    return f"{found[1]}.{found[2]}" if found else None


def _requirements_of(root: Path) -> tuple[str, ...] | None:
    for folder in (root, root / "Algorithm", root / "AlgorithmImplement"):
        path = folder / "requirements.txt"
        if path.is_file():
            return read_requirements(read_small(path))
    return None


def read_requirements(text: str) -> tuple[str, ...]:
    """Names and versions only: no options, addresses or paths, which would reach into the host."""
    wanted = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r"(^|\s)#.*", "", line).strip()
        if bare:
            wanted.append(_requirement(bare, number))
    return tuple(wanted)


def _requirement(line: str, number: int) -> str:
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        requirement = None
    if requirement is None or requirement.url:
        raise PackageError(
            f"requirements.txt line {number}: {line!r} is not a package's name and version; write "
            "lines like numpy==1.23.5 (no options, addresses or paths)"
        )
    return str(requirement)
