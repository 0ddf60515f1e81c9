"""Preparing a contest: test sets as the documents describe them, and labelled training sets.

    OUT/train/       labelled recordings, for the contestants
    OUT/test/        what a decoder is shown: masked, without any label
    OUT/organiser/   the same test recordings with their labels, to be played by bci-replay (which
                     masks them), and the truth of each; for the organiser's eyes only (mode 0600)
    OUT/manifest.json, OUT/organiser/manifest.json   what belongs to the sets, with its SHA-256

Everything follows from the recordings and the contest's key: the same ones give the same files.
"""

import dataclasses
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from bci_stream.errors import SourceError
from replay.clip_shuffle import shuffled_clips
from replay.contest_file import write_npz, write_whole
from replay.options import SourceOptions
from replay.readers.array_layout import MASKED
from replay.recording import ArrayBlock, Recording
from replay.source import Session
from replay.track_facts import track_named
from replay.uri import open_source
from tracks.rules import Rules
from tracks.track import Track
from tracks.truth import read_truth

ANGLES_RATE = 200
Say = Callable[[str], None]


@dataclass(frozen=True)
class Split:
    """What becomes training data: nothing, each subject's first blocks, or some of the persons."""

    by: Literal["none", "block", "person"] = "none"
    train: int = 0


def prepare(
    track: str,
    uris: Sequence[str],
    out: Path,
    key: bytes,
    *,
    rules: Rules | None = None,
    split: Split | None = None,
    options: SourceOptions | None = None,
    say: Say = lambda _: None,
) -> list[Path]:
    """Make a contest's sets from labelled recordings; returns the files, in order.

    rules: what the contest changes of the track's.
    """
    judged, split = track_named(track).under(rules or {}), split or Split()
    if not key:
        raise SourceError("a contest's key may not be empty: make one with `bci-judge init`")
    source_options = dataclasses.replace(options or SourceOptions(), track=track)
    trained = _training_persons(uris, source_options, key, split)
    writer = _SetWriter(judged, out, key)
    for session in _sessions(uris, source_options):
        for note in getattr(session, "notes", ()):
            say(note)
        recording = in_memory(session)
        first = _first_test_block(recording, split, session.subject in trained)
        if first:
            writer.train(blocks_of(recording, 0, first))
        if first < len(recording.blocks):
            writer.test(blocks_of(recording, first, len(recording.blocks)))
        say(f"{session.subject}: {first} blocks to train, {len(recording.blocks) - first} to test")
    return writer.finish(split)


def _sessions(uris: Sequence[str], options: SourceOptions) -> Iterator[Session]:
    seen: set[str] = set()
    for uri in uris:
        source = open_source(uri, options)
        if source.live:
            raise SourceError(f"{uri} is live: a contest is prepared from recordings")
        for session in source.sessions():
            if session.subject in seen:
                raise SourceError(
                    f"two recordings are of subject {session.subject!r}; name them apart, "
                    "e.g. FILE?subject=S01b"
                )
            seen.add(session.subject)
            yield session
        source.close()
    if not seen:
        raise SourceError("no recording was given to prepare a contest from")


def _training_persons(
    uris: Sequence[str], options: SourceOptions, key: bytes, split: Split
) -> set[str]:
    if split.by != "person":
        return set()
    persons = [session.subject for session in _sessions(uris, options)]
    if not 0 <= split.train < len(persons):
        raise SourceError(
            f"{split.train} of {len(persons)} persons can't train: some must be tested"
        )
    return set(sorted(persons, key=lambda person: _digest(key, "person", person))[: split.train])


def _first_test_block(recording: Recording, split: Split, trains: bool) -> int:
    if split.by == "person":
        return len(recording.blocks) if trains else 0
    if split.by == "block":
        if not 0 <= split.train < len(recording.blocks):
            raise SourceError(
                f"{recording.subject} has {len(recording.blocks)} blocks: {split.train} can't "
                "train, since some must be tested"
            )
        return split.train
    return 0


def _digest(key: bytes, *words: str) -> bytes:
    return hmac.new(key, "\0".join(words).encode(), hashlib.sha256).digest()


def in_memory(session: Session) -> Recording:
    """A session with all its blocks in memory."""
    by_block: dict[int, list[np.ndarray]] = {}
    for packet in session.packets(1 << 14):
        by_block.setdefault(packet.block, []).append(packet.samples)
    listed = session.block_triggers() or []
    blocks = [
        ArrayBlock(np.concatenate(by_block[number]), triggers)
        for number, (_, triggers) in enumerate(listed)
    ]
    return Recording(session.subject, session.rate, session.leads, blocks, session.angles)


def blocks_of(recording: Recording, first: int, stop: int) -> Recording:
    """Some blocks of a recording, with the rows of angles that belong to their samples."""
    lengths = [block.n_samples for block in recording.blocks]
    angles = recording.angles
    if angles is not None:
        bounds = (sum(lengths[:first]), sum(lengths[:stop]))
        rows = [int(bound * ANGLES_RATE // recording.rate) for bound in bounds]
        angles = angles[rows[0] : rows[1] if stop < len(lengths) else len(angles)]
    blocks = list(recording.blocks[first:stop])
    return Recording(recording.subject, recording.rate, recording.leads, blocks, angles)


def masked(recording: Recording, track: Track) -> Recording:
    """What a decoder is shown of a recording; no angles, no label."""
    mask = track.mask(recording.rate)
    blocks = [
        ArrayBlock(*mask.step(block.read(0, block.n_samples), block.triggers))
        for block in recording.blocks
    ]
    return Recording(recording.subject, recording.rate, recording.leads, blocks)


class _SetWriter:
    """Writes the files of a contest's sets and remembers them for the manifest."""

    def __init__(self, track: Track, out: Path, key: bytes) -> None:
        self._track, self._out, self._key = track, out, key
        self._files: list[Path] = []

    def train(self, recording: Recording) -> None:
        self._npz(recording, "train", "train", secret=False)

    def test(self, recording: Recording) -> None:
        if self._track.name == "emotion":
            seed = int.from_bytes(_digest(self._key, "clips", recording.subject)[:16], "big")
            recording = shuffled_clips(recording, np.random.default_rng(seed))
        blocks = recording.block_triggers()
        truth = read_truth(self._track, recording.rate, blocks, recording.angles)
        path = self._npz(recording, "organiser", "test", secret=True)
        line = json.dumps({**truth, "subject": recording.subject}).encode() + b"\n"
        truth_path = path.with_suffix(".truth.json")
        write_whole(truth_path, lambda file: file.write(line), secret=True)
        self._files.append(truth_path)
        self._npz(masked(recording, self._track), "test", "test", secret=False)

    def _npz(self, recording: Recording, folder: str, kind: str, *, secret: bool) -> Path:
        directory = self._out / folder
        directory.mkdir(parents=True, exist_ok=True, mode=0o700 if secret else 0o755)
        path = directory / f"{self._track.name}_{kind}_{recording.subject}.npz"
        shown = MASKED if folder == "test" else kind
        write_npz(recording, path, self._track.name, shown, secret=secret)
        self._files.append(path)
        return path

    def finish(self, split: Split) -> list[Path]:
        # A hash of labels can be guessed label by label: the public manifest names no secret file.
        secret = [file for file in self._files if file.parent.name == "organiser"]
        public = [file for file in self._files if file not in secret]
        manifests = [self._manifest(self._out / "manifest.json", split, public, secret=False)]
        if secret:
            path = self._out / "organiser" / "manifest.json"
            manifests.append(self._manifest(path, split, secret, secret=True))
        return [*self._files, *manifests]

    def _manifest(self, path: Path, split: Split, files: list[Path], *, secret: bool) -> Path:
        manifest = {
            "track": self._track.name,
            "split": {"by": split.by, "train": split.train},
            "key": _digest(self._key, "fingerprint").hex()[:16],
            "files": {str(file.relative_to(self._out)): _sha256(file) for file in files},
        }
        text = json.dumps(manifest, indent=2).encode() + b"\n"
        write_whole(path, lambda file: file.write(text), secret=secret)
        return path


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
