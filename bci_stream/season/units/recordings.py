"""Recordings by content hash: fetched from a URL to this machine's cache, verified before each use.

    https://data.example.org/S01.edf#sha256=<64 hexadecimal digits>

Schemes: file, http, https and s3, by fsspec (extra `remote`; s3 needs s3fs too). A .zip or .tar.gz is
unpacked, and played as a folder. The cache is in the user's cache folder; what is in it is readable by
this user alone, for the recordings are labelled. It is bounded in size: what was used longest ago goes first.
"""

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from bci_stream.contest.checks import HashedUrl, hashed_url
from bci_stream.errors import ContestError
from bci_stream.files import atomic_write, cache_dir
from bci_stream.season.units.jobs import file_sha256

BOUND_VARIABLE: Final = "BCI_RECORDINGS_GB"
"""Environment variable with the bound of the cache in gigabytes."""
BOUND_GB: Final = 50.0
LOCK_S: Final = 7200.0
"""The longest wait for another unit that fetches the same recording."""
FETCH_S: Final = 7200.0
IDLE_S: Final = 60.0
MANIFEST: Final = "manifest.json"
"""Of a recording that is complete: its files and their SHA-256."""


def cache_bound() -> int:
    """In bytes. Raises ContestError for a variable that is no number."""
    text = os.environ.get(BOUND_VARIABLE, str(BOUND_GB))
    try:
        bound = float(text)
        if bound > 0:
            return int(bound * 1e9)
    except ValueError:
        pass
    raise ContestError(f"{BOUND_VARIABLE}={text!r}: a number of gigabytes above 0 is allowed")


@contextmanager
def recordings_here(
    recordings: Sequence[str], cache: Path | None = None, bound: int | None = None
) -> Iterator[list[str]]:
    """The recordings with each hashed URL replaced by its verified file or folder on this machine.

    They stay in the cache while the context is open. Raises ContestError, without the URL: teams see the
    reason, and must not learn where test sets are.
    """
    place = cache or cache_dir() / "recordings"
    limit = cache_bound() if bound is None else bound
    with ExitStack() as used:
        yield [
            text if (url := hashed_url(text)) is None else _here(url, place, limit, used)
            for text in recordings
        ]


def _here(url: HashedUrl, cache: Path, bound: int, used: ExitStack) -> str:
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    cache.chmod(0o700)
    folder = cache / url.sha256
    lock = os.open(cache / f"{url.sha256}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    used.callback(os.close, lock)
    _use(lock, url, folder, lambda: _fetch(url, folder, cache, bound))
    os.utime(folder / MANIFEST)
    files = json.loads((folder / MANIFEST).read_text())
    path = folder / "files" if url.is_archive else folder / "files" / next(iter(files))
    return f"{path}?{url.options}" if url.options else str(path)


def _use(lock: int, url: HashedUrl, folder: Path, fetch: Callable[[], None]) -> None:
    """Lock a recording for use, together with other units; one of them fetches it if it is not intact.

    Raises ContestError.
    """
    deadline = time.monotonic() + LOCK_S
    while True:
        with suppress(OSError):  # another unit fetches it
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if _is_intact(folder):
                return
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_intact(folder):
                fetch()
            fcntl.flock(lock, fcntl.LOCK_SH)
            return
        fcntl.flock(lock, fcntl.LOCK_UN)
        if time.monotonic() > deadline:
            raise ContestError(f"{url.short} was locked by another unit for {LOCK_S:g} s")
        time.sleep(0.1)


def _is_intact(folder: Path) -> bool:
    """Whether all files are there with their hashes."""
    try:
        files: dict[str, str] = json.loads((folder / MANIFEST).read_text())
        return all(file_sha256(folder / "files" / name) == sha for name, sha in files.items())
    except (OSError, ValueError):
        return False


def _fetch(url: HashedUrl, folder: Path, cache: Path, bound: int) -> None:
    """Fetch, verify and unpack into a folder that is complete or absent. Raises ContestError."""
    shutil.rmtree(folder, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix="part-", dir=cache))  # mode 0700
    try:
        files = part / "files"
        files.mkdir(mode=0o700)
        fetched = files / url.name if not url.is_archive else part / url.name
        _download(url, fetched, bound, lambda size: make_room(cache, bound, size))
        if file_sha256(fetched) != url.sha256:
            raise ContestError(
                f"{url.short}: what was fetched has another hash; it is not used: correct the URL or the "
                "hash in contest.toml"
            )
        if url.is_archive:
            _unpack(url, fetched, files)
        found = sorted(path for path in files.rglob("*") if path.is_file())
        for path in files.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        manifest = {str(path.relative_to(files)): file_sha256(path) for path in found}
        content = json.dumps(manifest).encode()
        atomic_write(part / MANIFEST, lambda file: file.write(content), secret=True)
        part.replace(folder)
        make_room(cache, bound, 0, kept=folder)
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise ContestError(f"{url.short} can't be put into the cache: {what}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _unpack(url: HashedUrl, archive: Path, files: Path) -> None:
    kind = "zip" if url.name.endswith(".zip") else "tar" if url.name.endswith(".tar") else "gztar"
    try:
        shutil.unpack_archive(archive, files, kind, filter=None if kind == "zip" else "data")
    except (shutil.ReadError, ValueError, OSError) as error:
        raise ContestError(f"{url.short} can't be unpacked: {type(error).__name__}") from error
    archive.unlink()


def _download(url: HashedUrl, target: Path, bound: int, announce: Callable[[int], None]) -> None:
    try:
        import fsspec
        from fsspec.callbacks import Callback
    except ImportError as error:
        raise ContestError(
            "recordings by URL need fsspec; install it with: pip install 'bci-stream[remote]'"
        ) from error

    class Bounded(Callback):  # type: ignore[misc]
        """Ends a download that does not fit into the cache."""

        def set_size(self, size: int | None) -> None:
            if size is not None:
                check(size)
                announce(size)

        def relative_update(self, inc: int = 1) -> None:
            self.value += inc
            check(self.value)

    def check(size: int) -> None:
        if size > bound:
            raise ContestError(
                f"{url.short} has {size} bytes or more; the cache takes {bound}: set {BOUND_VARIABLE} on "
                "this machine"
            )

    try:
        files, path = fsspec.core.url_to_fs(url.url, **_options(url.url))
        if url.scheme == "file":
            Bounded().set_size(files.size(path))
        files.get_file(path, str(target), callback=Bounded())
    except ImportError as error:
        raise ContestError(f"{url.short}: {url.scheme}:// needs {error.name or 's3fs'}") from error
    except ContestError:
        raise
    except Exception as error:
        raise ContestError(f"{url.short} can't be fetched: {_kind(error)}") from error


def _options(url: str) -> dict[str, Any]:
    if not url.startswith("http"):
        return {}
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=FETCH_S, sock_connect=30.0, sock_read=IDLE_S)
    return {"client_kwargs": {"timeout": timeout}, "skip_instance_cache": True}


def _kind(error: Exception) -> str:
    """What went wrong, without the URL."""
    status = getattr(error, "status", None)
    return f"HTTP status {status}" if status else type(error).__name__


def make_room(cache: Path, bound: int, size: int, kept: Path | None = None) -> None:
    """Remove recordings that no unit uses, those used longest ago first, until `size` bytes more fit."""
    entries = sorted(
        (manifest.stat().st_mtime, manifest.parent) for manifest in cache.glob(f"*/{MANIFEST}")
    )
    sizes = {folder: _tree_bytes(folder) for _, folder in entries}
    total = sum(sizes.values())
    for _, folder in entries:
        if total + size <= bound:
            return
        if folder != kept and _remove_unused(folder):
            total -= sizes[folder]


def _remove_unused(folder: Path) -> bool:
    lock = os.open(folder.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        shutil.rmtree(folder, ignore_errors=True)
        return True
    finally:
        os.close(lock)


def _tree_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total
