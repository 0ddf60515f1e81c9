"""Writing the files of a contest's sets, and the manifests that list them."""

import hashlib
import hmac
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.files import atomic_write
from replay.model.recording import ArrayBlock, Recording
from replay.readers.arrays.layout import MASKED, SUBJECT_ID
from replay.tools.set_folder import MANIFEST, ORGANISER, TEST, TRAIN
from replay.transform.masking import masked_recording
from tracks.common.masks import Triggers
from tracks.common.truth import Angles, TruthEvent, read_truth
from tracks.errors import RuleError
from tracks.registry import load_object
from tracks.track import Track


def write_npz(recording: Recording, path: Path, track: str, kind: str, *, secret: bool) -> None:
    """Write a recording with its triggers. secret: only the owner may read the file."""
    if not SUBJECT_ID.fullmatch(recording.subject):
        raise SourceError(
            f"a subject's id has 1 to 64 letters, digits and . _ -, got {recording.subject!r}; "
            "rename it, e.g. FILE?subject=S01"
        )
    lengths = [block.n_samples for block in recording.blocks]
    starts = np.cumsum([0, *lengths])
    triggers = [
        (int(start) + sample, code)
        for start, block in zip(starts, recording.blocks, strict=False)
        for sample, code in block.triggers
    ]
    arrays: dict[str, Any] = {
        "data": _data(recording, int(starts[-1]), tuple(triggers)),
        "rate": np.float64(recording.rate),
        "leads": np.array([lead.name for lead in recording.leads]),
        "kinds": np.array([lead.kind for lead in recording.leads]),
        # All triggers on their own sample; the row of data can hold one code for each sample.
        "events": np.array(triggers, dtype=np.int64).reshape(-1, 2),
        "block_starts": starts[:-1],
        "track": np.array(track),
        "subject": np.array(recording.subject),
        "set": np.array(kind),
    }
    if recording.angles is not None:
        arrays["angles"] = recording.angles
    atomic_write(path, lambda file: np.savez(file, **arrays), secret=secret)


def _data(recording: Recording, n_samples: int, triggers: Triggers) -> np.ndarray[Any, Any]:
    data = np.zeros((len(recording.leads) + 1, n_samples), dtype=np.float32)
    start = 0
    for block in recording.blocks:
        stop = start + block.n_samples
        data[:-1, start:stop] = block.read(0, block.n_samples).T
        start = stop
    for sample, code in triggers:
        free = sample if not data[-1, sample] else min(sample + 1, n_samples - 1)
        data[-1, free] = code
    return data


@dataclass(frozen=True)
class Split:
    """What becomes training data: nothing, the first blocks of each subject, or some persons."""

    by: Literal["none", "block", "person"] = "none"
    train: int = 0


class SetWriter:
    """Writes the files of a contest's sets and their manifests."""

    def __init__(self, track: Track, out: Path, key: bytes) -> None:
        self._track, self._out, self._key = track, out, key
        self._files: list[Path] = []
        self._trained: dict[str, tuple[list[tuple[int, Triggers]], Angles]] = {}

    def train(self, recording: Recording) -> None:
        """Write the training blocks of a subject."""
        self._truth(recording, "its training blocks")
        self._trained[recording.subject] = list(recording.block_triggers()), recording.angles
        self._npz(_labelled(recording, self._track), TRAIN, "train", secret=False)

    def test(self, recording: Recording) -> None:
        """Write the test blocks of a subject."""
        self._check_source(recording)
        if self._track.rearrange_test:
            rearrange = load_object(self._track.rearrange_test)
            seed = int.from_bytes(digest(self._key, "clips", recording.subject)[:16], "big")
            recording = rearrange(recording, np.random.default_rng(seed))
        truth = self._truth(recording, "its test blocks")
        path = self._npz(recording, ORGANISER, "test", secret=True)
        line = json.dumps({**truth, "subject": recording.subject}).encode() + b"\n"
        truth_path = path.with_suffix(".truth.json")
        atomic_write(truth_path, lambda file: file.write(line), secret=True)
        self._files.append(truth_path)
        self._npz(masked_recording(self._track, recording), TEST, "test", secret=False)

    def _check_source(self, tested: Recording) -> None:
        """Refuse a subject whose labels break the rules.

        All its blocks are checked together, so that an error names the place in the recording.
        """
        trained, angles = self._trained.pop(tested.subject, ([], None))
        blocks = [*trained, *tested.block_triggers()]
        read_truth(self._track, tested.rate, blocks, _joined(angles, tested.angles))

    def _truth(self, recording: Recording, part: str) -> TruthEvent:
        blocks = recording.block_triggers()
        try:
            return read_truth(self._track, recording.rate, blocks, recording.angles)
        except RuleError as error:
            raise SourceError(f"{part}: {error}") from error

    def _npz(self, recording: Recording, folder: str, kind: str, *, secret: bool) -> Path:
        directory = self._out / folder
        directory.mkdir(parents=True, exist_ok=True, mode=0o700 if secret else 0o755)
        path = directory / f"{self._track.name}_{kind}_{recording.subject}.npz"
        shown = MASKED if folder == TEST else kind
        write_npz(recording, path, self._track.name, shown, secret=secret)
        self._files.append(path)
        return path

    def finish(self, split: Split) -> list[Path]:
        # Labels can be guessed from a hash of them, so the public manifest lists no secret file.
        secret = [file for file in self._files if file.parent.name == ORGANISER]
        public = [file for file in self._files if file not in secret]
        manifests = [self._manifest(self._out / MANIFEST, split, public, secret=False)]
        if secret:
            path = self._out / ORGANISER / MANIFEST
            manifests.append(self._manifest(path, split, secret, secret=True))
        return [*self._files, *manifests]

    def _manifest(self, path: Path, split: Split, files: list[Path], *, secret: bool) -> Path:
        manifest = {
            "track": self._track.name,
            "split": {"by": split.by, "train": split.train},
            "key": digest(self._key, "fingerprint").hex()[:16],
            "files": {str(file.relative_to(self._out)): _sha256(file) for file in files},
        }
        text = json.dumps(manifest, indent=2).encode() + b"\n"
        atomic_write(path, lambda file: file.write(text), secret=secret)
        return path


def _labelled(recording: Recording, track: Track) -> Recording:
    """The masked samples with all labels: mi's cue and rest are zero here, too."""
    masked = masked_recording(track, recording)
    blocks = [
        ArrayBlock(block.read(0, block.n_samples), labelled.triggers)
        for block, labelled in zip(masked.blocks, recording.blocks, strict=True)
    ]
    return replace(recording, blocks=blocks)


def _joined(first: Angles, rest: Angles) -> Angles:
    return rest if first is None or rest is None else np.concatenate([first, rest])


def digest(key: bytes, *words: str) -> bytes:
    """HMAC-SHA256 of the NUL-joined words under the key."""
    return hmac.new(key, "\0".join(words).encode(), hashlib.sha256).digest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
