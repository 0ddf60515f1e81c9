"""Recordings written to files hold what docs/recordings-npz.md says."""

from pathlib import Path

import numpy as np
import pytest

from replay.synthetic.registry import open_synthetic, write_recordings
from tracks.registry import BUILT_IN

SHORT: dict[str, dict[str, str]] = {
    "mi": {"blocks": "2", "trials": "1"},
    "turing": {"blocks": "2", "rounds": "1", "trials": "1"},
    "emotion": {"blocks": "2", "pace": "0.02"},
    "ecog": {"blocks": "2", "trials": "1", "seconds": "4"},
    "erp": {"blocks": "2", "trials": "1"},
}


@pytest.mark.parametrize("track", BUILT_IN)
def test_a_file_holds_signal_labels_blocks_and_angles(track: str, tmp_path: Path) -> None:
    source = open_synthetic(track, SHORT[track] | {"subjects": "1"})
    (session,) = source.sessions()
    (path,) = write_recordings(source, tmp_path)
    assert path == tmp_path / f"{track}_test_{session.subject}.npz"
    with np.load(path, allow_pickle=False) as file:
        assert file["data"].dtype == np.float32
        assert float(file["rate"]) == session.rate
        assert file["leads"].tolist() == [lead.name for lead in session.leads]
        assert file["kinds"].tolist() == [lead.kind for lead in session.leads]
        assert (str(file["track"]), str(file["set"])) == (track, "test")
        assert str(file["subject"]) == session.subject
        bounds = [*file["block_starts"].tolist(), file["data"].shape[1]]
        for block, start, stop in zip(session.blocks, bounds, bounds[1:], strict=False):
            piece = file["data"][:, start:stop]
            np.testing.assert_array_equal(piece[:-1].T, block.read(0, block.n_samples))
            found = tuple((int(i), int(piece[-1, i])) for i in np.flatnonzero(piece[-1]))
            assert found == block.triggers
        assert ("angles" in file) == (track == "ecog")
        if session.angles is not None:
            np.testing.assert_array_equal(file["angles"], session.angles)


def test_writing_again_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    source = open_synthetic("erp", SHORT["erp"] | {"subjects": "2"})
    first = write_recordings(source, tmp_path / "deep" / "er")
    again = write_recordings(source, tmp_path / "deep" / "er")
    assert first == again
    assert sorted((tmp_path / "deep" / "er").iterdir()) == sorted(first)


def test_a_place_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    source = open_synthetic("erp", SHORT["erp"] | {"subjects": "1"})
    with pytest.raises(OSError, match="file"):
        write_recordings(source, tmp_path / "file" / "er")
