"""The folder of a contest's sets: it holds the complete result of one `prepare`, or nothing.

New sets are written to a folder beside it and moved at the end. Files of older sets are removed, because a
person of an old training set may be in the new test set, and the labels would be public.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from bci_stream.errors import SourceError
from bci_stream.files import with_filename
from tracks.registry import TRACKS

TRAIN, TEST, ORGANISER = FOLDERS = ("train", "test", "organiser")
MANIFEST = "manifest.json"
MANIFEST_KEYS = {"track", "split", "key", "files"}
_OURS = re.compile(
    rf"(?:{'|'.join(TRACKS)})_(?:train|test)_.+\.(?:npz|truth\.json)(?:(?:\.\w+)?\.part)?"
)


@contextmanager
def drafted(out: Path, sources: Sequence[str], *, overwrite: bool) -> Iterator[Path]:
    """A folder for new sets, whose files are moved to `out` at the end; removed after an error."""
    refuse_used(out, sources, overwrite=overwrite)
    home = out.resolve()
    with with_filename(out):
        home.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{home.name}-", dir=home.parent))
    try:
        new, old = work / "new", work / "old"
        new.mkdir()
        yield new
        refuse_used(out, sources, overwrite=overwrite)  # again, because preparing takes long
        with with_filename(out):
            _move([*_pairs(own_files(home), home, old), *_pairs(_files(new), new, home)])
        for folder in FOLDERS:
            with suppress(OSError):  # not empty
                (home / folder).rmdir()
    finally:
        shutil.rmtree(work, ignore_errors=True)


def own_files(out: Path) -> list[Path]:
    """Files that `prepare` made here, by name, so that those of an interrupted run are found too."""
    inside = [file for folder in FOLDERS for file in sorted((out / folder).glob("*"))]
    manifests = [out / MANIFEST, out / ORGANISER / MANIFEST]
    return [file for file in inside if _OURS.fullmatch(file.name)] + [
        file for file in manifests if _is_manifest(file)
    ]


def refuse_used(out: Path, sources: Sequence[str], *, overwrite: bool) -> None:
    """Refuse a folder that holds sets already, a manifest of others, or one of the recordings."""
    made = own_files(out)
    if made and not overwrite:
        raise SourceError(
            f"{out} holds sets already ({made[0].relative_to(out)}, {len(made)} files in all): name "
            "another folder, or use --overwrite, which removes them"
        )
    for manifest in (out / MANIFEST, out / ORGANISER / MANIFEST):
        if manifest.exists() and manifest not in made:
            raise SourceError(
                f"{manifest} was not made by `prepare` and would be lost: name another folder"
            )
    for source in sources:
        if _is_inside(source, out.resolve()):
            raise SourceError(
                f"the recording {source} is in a folder of the sets: name another folder than {out}"
            )


def _is_inside(source: str, out: Path) -> bool:
    for name in (source, source.partition("?")[0].removeprefix("file:")):
        with suppress(OSError, ValueError):  # a URI may be longer than a file name can be
            path = Path(name).resolve(strict=True)
            return path == out or any(path.is_relative_to(out / each) for each in FOLDERS)
    return False


def _is_manifest(path: Path) -> bool:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.keys() >= MANIFEST_KEYS


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _pairs(files: Sequence[Path], here: Path, there: Path) -> list[tuple[Path, Path]]:
    return [(file, there / file.relative_to(here)) for file in files]


def _move(pairs: Sequence[tuple[Path, Path]]) -> None:
    """Move all files; if one can't be moved, move those before it back."""
    moved: list[tuple[Path, Path]] = []
    try:
        for old, new in pairs:
            mode = old.parent.stat().st_mode & 0o777
            new.parent.mkdir(parents=True, exist_ok=True, mode=mode)
            moved.append((old, new))  # before moving it, because a signal may interrupt
            shutil.move(old, new)  # works across file systems
    except BaseException:
        for old, new in reversed(moved):
            if old.exists():
                new.unlink(missing_ok=True)  # at most a part of it
            else:
                shutil.move(new, old)
        raise
