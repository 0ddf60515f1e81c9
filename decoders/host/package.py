"""Unpacks a team's package (folder, .zip or .tar.gz) safely into a folder for one run."""

import codecs
import lzma
import os
import re
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from decoders.host.limits import HOST_ERRORS, PackageError, SubmissionLimits, unavailable

FRAMEWORK_FOLDERS = ("Algorithm", "AlgorithmImplement", "AlgorithmSystem")
"""A submission's top folder holds one of these."""

_CHUNK_BYTES = 1 << 20
MOST_TEXT_BYTES = 1 << 20
MOST_DEPTH = 40
"""Folders within each other."""
_UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Member:
    """A file of a package, and its name in it."""

    name: str
    stream: IO[bytes]


def lay_out(package: Path, into: Path, limits: SubmissionLimits | None = None) -> Path:
    """Copy the package's files under `into`, and return the folder that is the framework's root.

    Only regular files are copied, only below `into`, and only up to the limits in bytes, which are
    counted while writing (an archive's own sizes are not trusted). Raises PackageError, and
    EnvironmentUnavailable where this machine's disk is full or fails.
    """
    if not package.exists():
        raise PackageError(
            f"{package}: there is no such submission; give a folder, .zip or .tar.gz"
        )
    try:
        _write(package, into, limits or SubmissionLimits())
    except _UNREADABLE as error:
        if isinstance(error, OSError) and error.errno in HOST_ERRORS:
            raise unavailable(f"{package}: the submission can't be unpacked", error) from error
        raise PackageError(f"{package}: the submission can't be read: {error}") from error
    root = _root(into)
    _open_to_all(into)
    return root


def _write(package: Path, into: Path, limits: SubmissionLimits) -> None:
    left_bytes, files = limits.package_bytes, 0
    folders: set[PurePosixPath] = set()
    into.mkdir(parents=True, exist_ok=True)
    for member in _members(package):
        files += 1
        inside = _inside(package, member.name)
        folders.update(inside.parents)
        target = into.joinpath(*inside.parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        left_bytes -= _copy(member, target, left_bytes)
        if left_bytes < 0 or files + len(folders) - 1 > limits.package_files:
            raise PackageError(
                f"{package}: too large a submission at {member.name}; "
                f"{limits.package_bytes >> 20} MiB in {limits.package_files} files and folders are "
                "allowed"
            )
    if not files:
        raise PackageError(f"{package}: the submission is empty")


def _copy(member: Member, target: Path, most_bytes: int) -> int:
    """Write one file, stopping once it exceeds most_bytes; returns the number of bytes."""
    written = 0
    with target.open("wb") as file:
        while written <= most_bytes and (chunk := member.stream.read(_CHUNK_BYTES)):
            written += len(chunk)
            file.write(chunk)
    target.chmod(0o644)
    return written


def _inside(package: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    if (
        path.is_absolute()
        or ".." in path.parts
        or not path.parts
        or ":" in path.parts[0]
        or "\0" in name
    ):
        raise PackageError(
            f"{package}: {name!r} points outside of the package; pack the folder that holds "
            "Algorithm/"
        )
    if len(path.parts) > MOST_DEPTH:
        raise PackageError(
            f"{package}: {'/'.join(path.parts[:3])}/... lies {len(path.parts)} folders deep; "
            f"{MOST_DEPTH} are allowed"
        )
    return path


def _members(package: Path) -> Iterator[Member]:
    if package.is_dir():
        members = _of_folder(package)
    elif zipfile.is_zipfile(package):
        members = _of_zip(package)
    elif tarfile.is_tarfile(package):
        members = _of_tar(package)
    else:
        raise PackageError(f"{package}: not a folder, a .zip or a .tar.gz")
    return (member for member in members if not _is_litter(member.name))


def _of_folder(folder: Path) -> Iterator[Member]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            relative = path.relative_to(folder)
            if path.is_symlink() or not path.is_file():
                raise PackageError(f"{folder}: {relative} is no plain file; put the file there")
            with path.open("rb") as stream:
                yield Member(relative.as_posix(), stream)


def _of_zip(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if not entry.is_dir():
                with archive.open(entry) as stream:
                    yield Member(entry.filename, stream)


def _of_tar(path: Path) -> Iterator[Member]:
    with tarfile.open(path) as archive:
        for entry in archive:
            if entry.isdir():
                continue
            stream = archive.extractfile(entry) if entry.isfile() else None
            if stream is None:
                raise PackageError(f"{path}: {entry.name} is no plain file; pack the file itself")
            with stream:
                yield Member(entry.name, stream)


def _is_litter(name: str) -> bool:
    """Files of archivers and version control."""
    parts = PurePosixPath(name).parts or ("",)
    return bool({"__MACOSX", ".git"} & set(parts)) or parts[-1].startswith("._")


def _root(into: Path) -> Path:
    """The folder below any wrapping ones; a bare inner folder of a framework is put into its place."""
    root = into
    while (inner := _only_folder(root)) is not None and _is_wrapping(inner):
        root = inner
    if any((root / name).is_dir() for name in FRAMEWORK_FOLDERS):
        return root
    wrapped = into / "bare"
    place = wrapped / _place_of(root)
    staging = into.with_name(into.name + ".inside")
    shutil.move(root, staging)
    place.parent.mkdir(parents=True)
    shutil.move(staging, place)
    return wrapped


INNER_FOLDERS = {
    "Algorithm/method/impl": (b"Algorithm.method.impl", b"Algorithm.method.interface"),
    "Algorithm/impl": (b"Algorithm.impl", b"Algorithm.AlgorithmInterface"),
}
"""Folders that teams ship the inside of, and imports in the files there that show which one it is."""


def _place_of(folder: Path) -> str:
    """Which folder of a framework a bare one is: Algorithm itself, or the one of the team's own files."""
    if any((folder / name).exists() for name in ("impl", "method", "config/AlgorithmConfig.yml")):
        return "Algorithm"
    texts = [_beginning(path) for path in sorted(folder.glob("*.py"))]
    beside = {name.decode() for text in texts for name in re.findall(rb"\bAlgorithm\.(\w+)", text)}
    if any((folder / f"{name}{suffix}").exists() for name in beside for suffix in ("", ".py")):
        return "Algorithm"
    for place, imports in INNER_FOLDERS.items():
        if any(name in text for text in texts for name in imports):
            return place
    return "Algorithm"


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_TEXT_BYTES)


def _is_wrapping(folder: Path) -> bool:
    """G4's own framework lies in Algorithm/Algorithm/, beside its main.py."""
    return folder.name not in FRAMEWORK_FOLDERS or (folder / folder.name).is_dir()


def _only_folder(root: Path) -> Path | None:
    inside = list(root.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else None


def _open_to_all(folder: Path) -> None:
    """Make folders readable for the submission's own user, whatever the umask is."""
    for place, _, _ in os.walk(folder):
        Path(place).chmod(0o755)


def read_small(path: Path) -> str:
    """Read a small text file of a submission, such as settings."""
    if path.stat().st_size > MOST_TEXT_BYTES:
        raise PackageError(
            f"{path.name} has {path.stat().st_size} bytes; a file of settings may have "
            f"{MOST_TEXT_BYTES}"
        )
    text = path.read_bytes()
    # PowerShell's `pip freeze >` writes such files.
    wide = text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return text.decode("utf-16" if wide else "utf-8-sig", "replace")
