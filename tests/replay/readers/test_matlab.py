"""A MATLAB file gives the same recording in every version: 4, 5 and 7.3."""

import numpy as np
import pytest
from scipy.io import savemat

from bci_stream.errors import SourceError
from replay.sources import open_source

pytestmark = pytest.mark.usefixtures("unprobed")

NAMES = ["Fp1", "Cz", "Oz4"]
DATA = np.random.default_rng(2).normal(0, 20, (3, 100))


def opened(path):
    (session,) = open_source(str(path)).sessions()
    return session


def in_version_73(path, struct=False, cell=True):
    """As MATLAB lays it out: turned matrices, texts as UTF-16, cells as references to them."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        root = file.create_group("EEG") if struct else file
        root.attrs["MATLAB_class"] = np.bytes_("struct")
        root["data"], root["fs"] = DATA.T, np.array([[250.0]])
        root["note"] = np.array([[0], [0]], dtype="u8")
        root["note"].attrs["MATLAB_empty"] = np.uint8(1)
        letters = [np.array([[ord(letter)] for letter in name], dtype="u2") for name in NAMES]
        if cell:
            names = root.create_dataset("ch_names", (1, 3), dtype=h5py.ref_dtype)
            for number, text in enumerate(letters):
                made = file.create_dataset(f"#refs#/{number}", data=text)
                made.attrs["MATLAB_class"] = np.bytes_("char")
                names[0, number] = made.ref
        else:
            padded = [
                np.pad(text, ((0, 3 - len(text)), (0, 0)), constant_values=32) for text in letters
            ]
            root["ch_names"] = np.hstack(padded)
            root["ch_names"].attrs["MATLAB_class"] = np.bytes_("char")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + b" " * 8 + b"\x00\x02IM")
    return path


@pytest.mark.parametrize("struct", [False, True])
@pytest.mark.parametrize("cell", [False, True])
def test_version_73_has_cells_texts_and_structs_as_version_5_has(struct, cell, tmp_path):
    session = opened(in_version_73(tmp_path / "new.mat", struct, cell))
    assert [lead.name for lead in session.leads] == NAMES
    assert session.rate == 250
    np.testing.assert_array_equal(next(session.packets(100)).samples, DATA.T.astype(np.float32))


def test_version_4_is_read(tmp_path):
    savemat(tmp_path / "old.mat", {"data": DATA, "fs": 250.0, "labels": NAMES}, format="4")
    session = opened(tmp_path / "old.mat")
    assert [lead.name for lead in session.leads] == NAMES
    np.testing.assert_array_equal(next(session.packets(100)).samples, DATA.T.astype(np.float32))


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_version_4_file_that_is_cut_off_is_refused(share, tmp_path):
    path = tmp_path / "old.mat"
    savemat(path, {"data": DATA, "fs": 250.0}, format="4")
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(SourceError, match=r"old\.mat"):
        opened(path)


def test_a_text_is_still_no_matlab_file(tmp_path):
    (tmp_path / "x.mat").write_text("hello")
    with pytest.raises(SourceError, match="another format than its name says"):
        opened(tmp_path / "x.mat")
