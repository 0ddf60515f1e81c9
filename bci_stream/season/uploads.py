"""Uploads of a season, bounded while they arrive: in size, number, rate, time and disk.

What arrives is bytes: it is hashed and written to a file whose name is the submission's number. It is opened
by the limited child of the check only; the name that the team gave is text to be shown.
"""

import asyncio
import hashlib
import os
import secrets
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bci_stream.errors import BciError, ContestError
from tracks.common.reasons import Reason
from tracks.common.words import describe

MEGABYTE: Final = 1_000_000
HEADS: Final = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00")
"""How a zip, and a tar that is compressed, begins."""
TAR_AT: Final = 257
TAR_MARK: Final = b"ustar"
SYNC_BYTES: Final = 8 * MEGABYTE
HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """bytes: of one. at_once: of all teams; a team has one at a time. an_hour: of a team. seconds: to arrive.

    idle_s: between two pieces. slowest: bytes a second, on average after idle_s. spare_bytes: what must stay
    free on the disk.
    """

    bytes: int = 256 * MEGABYTE
    at_once: int = 32
    an_hour: int = 30
    seconds: float = 1800.0
    idle_s: float = 30.0
    slowest: float = 5000.0
    spare_bytes: int = 1000 * MEGABYTE


class UploadRefused(BciError):
    """An upload that is not taken; status: of HTTP."""

    def __init__(self, status: int, reason: Reason) -> None:
        super().__init__(describe(reason))
        self.status = status
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """An upload that has arrived; sha256: in hexadecimal."""

    path: Path
    bytes: int
    sha256: str


class Uploads:
    """The folder of uploads. Used by the event loop; `keep` and `clean` by the owner of the store."""

    def __init__(self, folder: Path, limits: UploadLimits) -> None:
        self._folder = folder
        self.limits = limits
        self._arriving: Counter[str] = Counter()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def path(self, number: int) -> Path:
        return self._folder / str(number)

    async def receive(
        self, team: str, pieces: AsyncIterator[bytes], length: int | None
    ) -> ReceivedFile:
        """Write an upload to a part file. length: as announced. Raises UploadRefused."""
        if length is not None:
            self._check_size(length)
        with self._place(team):
            part = self._folder / f"{secrets.token_hex(8)}.part"
            try:
                async with asyncio.timeout(self.limits.seconds):
                    return await self._write(part, pieces)
            except TimeoutError:
                part.unlink(missing_ok=True)
                raise UploadRefused(
                    408, Reason("upload_slow", limit_s=self.limits.seconds)
                ) from None
            except BaseException:
                part.unlink(missing_ok=True)
                raise

    async def _write(self, part: Path, pieces: AsyncIterator[bytes]) -> ReceivedFile:
        digest, size, head, began = hashlib.sha256(), 0, b"", time.monotonic()
        iterator = aiter(pieces)
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            unsynced = SYNC_BYTES
            while True:
                try:
                    async with asyncio.timeout(self.limits.idle_s):
                        piece = await anext(iterator, b"")
                except TimeoutError:
                    limit_s = self.limits.idle_s
                    raise UploadRefused(408, Reason("upload_idle", limit_s=limit_s)) from None
                if not piece:
                    break
                size += len(piece)
                self._check_size(size)
                self._check_speed(size, time.monotonic() - began)
                unsynced += len(piece)
                if unsynced >= SYNC_BYTES:
                    self._check_disk()
                    unsynced = 0
                head = (head + piece)[:512] if len(head) < 512 else head
                digest.update(piece)
                await asyncio.to_thread(file.write, piece)
            file.flush()
            await asyncio.to_thread(os.fsync, file.fileno())
        if not (head.startswith(HEADS) or head[TAR_AT:].startswith(TAR_MARK)):
            raise UploadRefused(400, Reason("upload_no_package"))
        return ReceivedFile(part, size, digest.hexdigest())

    def keep(self, received: ReceivedFile, number: int) -> None:
        """Give an upload its number; one that a killed server left under it is replaced."""
        received.path.replace(self.path(number))
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def discard(self, received: ReceivedFile) -> None:
        received.path.unlink(missing_ok=True)

    def clean(self, numbers: Collection[int]) -> None:
        """Remove what a killed server left: parts, and the file of a submission that was not stored.

        numbers: of the submissions in the store. Raises ContestError for a store of another season.
        """
        next_number = max(numbers, default=0) + 1
        kept = {str(number) for number in numbers}
        left = [path for path in self._folder.iterdir() if path.name not in kept]
        later = sorted(int(p.name) for p in left if p.name.isdecimal())
        others = [str(number) for number in later if number > next_number]
        if others:
            raise ContestError(
                f"{self._folder} has uploads that the store does not know ({', '.join(others[:3])}): give "
                "the store of this season with --store; if it is an older copy of it, move these files away"
            )
        for path in left:
            path.unlink(missing_ok=True)

    @contextmanager
    def _place(self, team: str) -> Iterator[None]:
        if self._arriving[team]:
            raise UploadRefused(429, Reason("upload_of_team"))
        if self._arriving.total() >= self.limits.at_once:
            raise UploadRefused(503, Reason("uploads_at_once", limit=self.limits.at_once))
        self._arriving[team] += 1
        try:
            yield
        finally:
            del self._arriving[team]

    def _check_size(self, size: int) -> None:
        if size > self.limits.bytes:
            limit_mb = self.limits.bytes / MEGABYTE
            raise UploadRefused(413, Reason("upload_large", limit_mb=limit_mb))

    def _check_speed(self, size: int, lasted_s: float) -> None:
        """Teams that send a byte now and then must not take all places."""
        if size < self.limits.slowest * (lasted_s - self.limits.idle_s):
            raise UploadRefused(408, Reason("upload_slow", limit_s=round(lasted_s)))

    def _check_disk(self) -> None:
        if shutil.disk_usage(self._folder).free < self.limits.spare_bytes:
            raise UploadRefused(507, Reason("upload_disk"))
