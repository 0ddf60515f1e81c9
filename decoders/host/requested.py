"""What a submission requests: a Python version and packages, read from the files that teams ship.

requirements.txt is often the output of `pip freeze` on the team's own machine. Lines that make sense
here are read, the others are passed over with a warning, and what would reach into this machine is
refused.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from decoders.host.limits import PackageError
from decoders.host.package import MOST_TEXT_BYTES, read_small

MAGIC_NUMBERS = {
    3413: "3.8",
    3425: "3.9",
    3439: "3.10",
    3495: "3.11",
    3531: "3.12",
    3571: "3.13",
    3627: "3.14",
}
"""Magic number of a .pyc file -> the Python version that reads it."""

RELICS = {
    "sklearn": ("scikit-learn", "the package's name is scikit-learn"),
    "pkg-resources": (None, "a relic of Debian's pip, and no package"),
    "mkl-fft": (None, "conda's own; numpy works without it"),
    "mkl-random": (None, "conda's own; numpy works without it"),
    "mkl-service": (None, "conda's own; numpy works without it"),
    "conda": (None, "conda's own"),
    "anaconda-client": (None, "conda's own"),
    "pywin32": (None, "for Windows only"),
    "pypiwin32": (None, "for Windows only"),
    "pywinpty": (None, "for Windows only"),
    "wincertstore": (None, "for Windows only"),
    "win-inet-pton": (None, "for Windows only"),
    "tensorflow-intel": (None, "for Windows only"),
    "tensorflow-metal": (None, "for macOS only"),
}
"""Names in the output of `pip freeze` -> the name to install (None: none), and why."""

SKIPPED_OPTIONS = {
    **dict.fromkeys(("-f", "--find-links"), "packages come from the host's registry"),
    **dict.fromkeys(("-i", "--index-url", "--extra-index-url"), "packages come from the host's registry"),
    **dict.fromkeys(("--trusted-host", "--no-index"), "packages come from the host's registry"),
    **dict.fromkeys(("-e", "--editable"), "the submission's own files are there without it"),
    **dict.fromkeys(("--pre", "--prefer-binary", "--no-binary", "--only-binary"), "wheels only"),
    **dict.fromkeys(("--no-cache-dir", "--use-feature", "--hash"), "no effect here"),
}  # fmt: skip
"""Options of a requirements file that are passed over, and why."""

OLD_SETUPTOOLS = "setuptools<81"
"""Later ones have no pkg_resources."""

_VERSION = re.compile(r"(?<![\d.])(3)\.?(\d{1,2})(?!\d)")
_IMAGE_VERSION = re.compile(r"(?:python|py)[-_:v ]*(3)\.?(\d{1,2})(?!\d)", re.IGNORECASE)
"""In an image's name only what follows "python": pytorch:2.3.1 is not a Python version."""
_CACHE_TAG = re.compile(r"\.cpython-(3)(\d{1,2})(\.opt-\d)?\.pyc$")
_PKG_RESOURCES = re.compile(rb"^\s*(import|from)\s+pkg_resources\b", re.MULTILINE)
_OPTION = re.compile(r"\s(--[a-z-]+)(=|\s+|$)\S*")
_PLACES = ("", "Algorithm", "AlgorithmImplement", "Algorithm/impl", "Algorithm/method/impl")


@dataclass(frozen=True, slots=True)
class RequestedEnvironment:
    """python: like `3.8`, or None; requirements: None where none are named.

    hints: the Python versions of its `__pycache__` files, the most frequent first.
    warnings: lines of requirements.txt that are not followed to the letter.
    old_setuptools: whether its own code imports pkg_resources.
    """

    python: str | None
    requirements: tuple[str, ...] | None
    hints: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    old_setuptools: bool = False


def requested_environment(root: Path, python: str | None = None) -> RequestedEnvironment:
    """Read what a submission requests; `python` overrides its own request."""
    requirements, warnings = _requirements_of(root)
    return RequestedEnvironment(
        python or _python_of(root),
        requirements or None,
        _cache_tags(root),
        warnings,
        any(imports_pkg_resources(path) for path in sorted(root.rglob("*.py"))),
    )


# --- the Python version ----------------------------------------------------------------------


def _python_of(root: Path) -> str | None:
    return _of_compiled(root) or _of_version_file(root) or _of_image(root)


def _of_compiled(root: Path) -> str | None:
    """The version of .pyc files without source, which run on no other one."""
    versions = {
        _version_of(path)
        for path in sorted(root.rglob("*.pyc"))
        if path.parent.name != "__pycache__" and not path.with_suffix(".py").exists()
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
            f"{compiled.name}: compiled by an unknown Python (magic number {magic}); known are "
            f"{', '.join(MAGIC_NUMBERS.values())}"
        )
    return MAGIC_NUMBERS[magic]


def _cache_tags(root: Path) -> tuple[str, ...]:
    """The versions in names like `__pycache__/A.cpython-38.pyc`: which Python the team ran it by.

    A version before the oldest that is supported is read as that one.
    """
    found = (_CACHE_TAG.search(path.name) for path in root.rglob("__pycache__/*.pyc"))
    oldest, *_, newest = (int(version.partition(".")[2]) for version in MAGIC_NUMBERS.values())
    minors = Counter(max(int(tag[2]), oldest) for tag in found if tag)
    known = [minor for minor in minors if minor <= newest]
    return tuple(f"3.{minor}" for minor in sorted(known, key=lambda minor: (-minors[minor], minor)))


def _of_version_file(root: Path) -> str | None:
    for name in (".python-version", "runtime.txt"):
        path = root / name
        if path.is_file():
            return _version_in(read_small(path))
    return None


def _of_image(root: Path) -> str | None:
    """The version in the image name (`unitImage`) of config.toml or config.json."""
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


# --- packages --------------------------------------------------------------------------------


def _requirements_of(root: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    for place in _PLACES:
        path = root / place / "requirements.txt"
        if path.is_file():
            return read_requirements(read_small(path))
    return (), ()


def read_requirements(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and versions, and warnings about lines that were changed or passed over.

    Raises PackageError for other files (-r, -c), paths, and addresses of version control.
    """
    wanted: list[str] = []
    warnings: list[str] = []
    for number, line in _lines(text):
        requirement, warning = _requirement(line, number)
        if requirement is not None:
            wanted.append(requirement)
        if warning:
            warnings.append(f"requirements.txt line {number}: {line!r}: {warning}")
    return tuple(dict.fromkeys(wanted)), tuple(warnings)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines without comments, those that end with a backslash joined to the next."""
    joined, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first if joined else number
        joined += re.sub(r"(^|\s)#.*", "", line)
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        if joined.strip():
            yield first, joined.strip()
        joined = ""
    if joined.strip():
        yield first, joined.strip()


def _requirement(line: str, number: int) -> tuple[str | None, str]:
    """What is installed for one line (None: nothing), and a warning, or ""."""
    if line.startswith("-"):
        return None, _option(line, number)
    options = [option[1] for option in _OPTION.finditer(line)]
    for option in options:
        if option not in SKIPPED_OPTIONS:
            raise _refused(line, number)
    bare = _OPTION.sub("", line).strip()
    try:
        requirement = Requirement(bare)
    except InvalidRequirement:
        raise _refused(line, number) from None
    warning = "" if set(options) <= {"--hash"} else f"read as {bare}"
    return _named(requirement, line, number, warning)


def _option(line: str, number: int) -> str:
    name = re.split(r"[=\s]", line, maxsplit=1)[0]
    if name not in SKIPPED_OPTIONS:
        raise _refused(line, number)
    return f"passed over: {SKIPPED_OPTIONS[name]}"


def _named(
    requirement: Requirement, line: str, number: int, warning: str
) -> tuple[str | None, str]:
    name = canonicalize_name(requirement.name)
    if name in RELICS:
        instead, why = RELICS[name]
        return instead, f"read as {instead}: {why}" if instead else f"passed over: {why}"
    if requirement.url is not None:
        requirement = _from_address(requirement, line, number)
        warning = f"read as {requirement}: addresses are not followed"
    local = [
        each for each in requirement.specifier if each.operator == "==" and "+" in each.version
    ]
    if local:
        public = Version(local[0].version).public
        requirement = Requirement(str(requirement).replace(local[0].version, public))
        warning = f"read as {requirement}: the registry has no builds of your own"
    return str(requirement), warning


def _from_address(requirement: Requirement, line: str, number: int) -> Requirement:
    """conda's `name @ file:///...` is the name alone; a wheel's address has the version in it."""
    address = requirement.url or ""
    if not address.startswith(("file:", "http:", "https:")) or ".git" in address:
        raise _refused(line, number)
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    try:
        version = parse_wheel_filename(address.split("#")[0].rpartition("/")[2])[1]
        pinned = f"=={version.public}"
    except (InvalidWheelFilename, InvalidVersion):
        pinned = ""
    return Requirement(f"{requirement.name}{extras}{pinned}")


def _refused(line: str, number: int) -> PackageError:
    return PackageError(
        f"requirements.txt line {number}: {line!r} is not a package's name and version; write lines "
        "like numpy==1.23.5 (no other files, paths or version control)"
    )


def imports_pkg_resources(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _PKG_RESOURCES.search(file.read(MOST_TEXT_BYTES)) is not None
    except OSError:
        return False
