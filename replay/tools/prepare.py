"""Preparing the sets of a contest from labelled recordings.

    OUT/train/       labelled recordings for the teams
    OUT/test/        what a decoder sees: masked, without labels
    OUT/organiser/   the test recordings with labels, which bci-replay plays masked, and their truth; only the
                     owner may read them (mode 0600)
    OUT/manifest.json, OUT/organiser/manifest.json   the files of the sets with their SHA-256

The same recordings and key give the same files.
"""

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bci_stream.errors import BciError, SourceError
from replay.model.options import SourceOptions, track_named
from replay.model.recording import ArrayBlock, Recording
from replay.model.source import Session
from replay.sources import open_source
from replay.tools.set_folder import drafted
from replay.tools.set_writer import SetWriter, Split, digest
from tracks.common.angles import row_at
from tracks.common.numbers import exact_rate
from tracks.rules import Rules

logger = logging.getLogger(__name__)


def prepare(
    track: str,
    uris: Sequence[str],
    out: Path,
    key: bytes,
    *,
    rules: Rules | None = None,
    split: Split | None = None,
    options: SourceOptions | None = None,
    overwrite: bool = False,
) -> list[Path]:
    """Make a contest's sets from labelled recordings; returns the files, in order.

    rules: changes of the track's rules. overwrite: remove sets that are in `out`.
    Raises SourceError if labels break the rules or a sample is not finite; then no set is made.
    """
    judged, split = track_named(track).under(rules or {}), split or Split()
    if not key:
        raise SourceError("a contest's key may not be empty: make one with `bci-judge init`")
    source_options = dataclasses.replace(options or SourceOptions(), track=track)
    with drafted(out, uris, overwrite=overwrite) as draft:
        trained = _training_persons(uris, source_options, key, split)
        writer = SetWriter(judged, draft, key)
        for uri, session in _sessions(uris, source_options):
            for note in session.notes:
                logger.info("%s", note)
            first = _write_sets(writer, uri, session, split, session.subject in trained)
            n_blocks = len(session.block_triggers() or ())
            counts = (session.subject, first, n_blocks - first)
            logger.info("%s: %d blocks to train, %d to test", *counts)
        made = writer.finish(split)
    return [out / file.relative_to(draft) for file in made]


def _write_sets(writer: SetWriter, uri: str, session: Session, split: Split, trains: bool) -> int:
    """Write the files of one subject; returns the number of its training blocks."""
    recording = in_memory(session)
    first = _first_test_block(recording, split, trains)
    try:
        if first:
            writer.train(blocks_of(recording, 0, first))
        if first < len(recording.blocks):
            writer.test(blocks_of(recording, first, len(recording.blocks)))
    except BciError as error:
        raise SourceError(f"{uri}, subject {session.subject}: {error}") from error
    return first


def _sessions(uris: Sequence[str], options: SourceOptions) -> Iterator[tuple[str, Session]]:
    """Every session, with its URI."""
    seen: set[str] = set()
    for uri in uris:
        source = open_source(uri, options)
        if source.live:
            raise SourceError(f"{uri} is live: sets are prepared from recordings")
        for session in source.sessions():
            if session.subject in seen:
                raise SourceError(
                    f"{uri}: there is a recording of subject {session.subject!r} already; name "
                    "them apart, e.g. FILE?subject=S01b"
                )
            seen.add(session.subject)
            yield uri, session
        source.close()
    if not seen:
        raise SourceError("no recording was given to prepare a contest from")


def _training_persons(
    uris: Sequence[str], options: SourceOptions, key: bytes, split: Split
) -> set[str]:
    if split.by != "person":
        return set()
    persons = [session.subject for _, session in _sessions(uris, options)]
    if not 0 <= split.train < len(persons):
        raise SourceError(
            f"{split.train} of {len(persons)} persons can't train: some must be tested"
        )
    return set(sorted(persons, key=lambda person: digest(key, "person", person))[: split.train])


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
        rows = [row_at(bound, exact_rate(recording.rate)) for bound in bounds]
        angles = angles[rows[0] : rows[1] if stop < len(lengths) else len(angles)]
    blocks = list(recording.blocks[first:stop])
    return Recording(recording.subject, recording.rate, recording.leads, blocks, angles)
