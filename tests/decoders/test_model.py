"""A model file gives back what was saved, and anything else is refused by its name."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from decoders.model import Model, ModelError, load_model, provenance, save_model

MODEL = Model(
    track="mi",
    decoder="mi-riemann",
    arrays={"weights": np.arange(6.0).reshape(2, 3), "leads": np.array(["C3", "C4"])},
    settings={"bands": [[8, 12]], "rate": 250},
    provenance=provenance(["synthetic:mi?seed=1"], seed=3, score=12.5),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    save_model(MODEL, tmp_path / "a.model")
    return tmp_path / "a.model"


def test_a_model_comes_back_as_it_was_saved(path: Path) -> None:
    again = load_model(path)
    assert (again.track, again.decoder) == ("mi", "mi-riemann")
    assert np.array_equal(again.array("weights"), MODEL.array("weights"))
    assert again.arrays["leads"].tolist() == ["C3", "C4"]
    assert again.settings == MODEL.settings
    assert again.provenance == MODEL.provenance
    assert again.provenance["seed"] == 3


def test_no_part_file_is_left_behind(path: Path) -> None:
    assert [p.name for p in path.parent.iterdir()] == ["a.model"]


def test_a_model_for_another_decoder_is_refused(path: Path) -> None:
    model = load_model(path)
    assert model.wanted_by("mi", "mi-riemann") is model
    with pytest.raises(ModelError, match="'mi-riemann' of track 'mi', not for 'erp-umm'"):
        model.wanted_by("erp", "erp-umm")


def test_a_missing_array_is_named(path: Path) -> None:
    with pytest.raises(ModelError, match="no array 'bias'"):
        load_model(path).array("bias")


def test_pickled_objects_are_never_saved_or_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (print, ("run",))

    np.savez(tmp_path / "trap.npz", header=np.array([Trap()], dtype=object))
    with pytest.raises(ModelError, match=r"trap\.npz"):
        load_model(tmp_path / "trap.npz")
    with pytest.raises(ValueError, match="Object arrays"):
        save_model(
            Model("mi", "x", {"a": np.array([object()], dtype=object)}), tmp_path / "b.model"
        )


def test_an_encrypted_archive_is_refused(path: Path) -> None:
    """zipfile says this with a RuntimeError."""
    whole = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = whole.find(signature)
        while place >= 0:
            whole[place + flags] |= 1
            place = whole.find(signature, place + 1)
    path.write_bytes(bytes(whole))
    with pytest.raises(ModelError, match=r"a\.model"):
        load_model(path)


def test_a_header_that_promises_more_than_there_is_is_refused(tmp_path: Path) -> None:
    huge = b"\x93NUMPY\x01\x00\x76\x00{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }"
    member = (huge % 10**14).ljust(127) + b"\n"
    with zipfile.ZipFile(tmp_path / "x.model", "w") as archive:
        archive.writestr("header.npy", member)
    with pytest.raises(ModelError, match=r"x\.model"):
        load_model(tmp_path / "x.model")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 not really a zip"])
def test_a_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.model").write_bytes(content)
    with pytest.raises(ModelError, match=r"x\.model"):
        load_model(tmp_path / "x.model")


def test_somebody_elses_npz_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    with pytest.raises(ModelError, match="not a model file of ours"):
        load_model(tmp_path / "x.npz")


def test_every_damaged_byte_is_found_or_harmless(path: Path) -> None:
    whole = path.read_bytes()
    refused = 0
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 0xFF
        path.write_bytes(bytes(damaged))
        try:
            again = load_model(path)
        except ModelError:
            refused += 1
        else:
            assert np.array_equal(again.array("weights"), MODEL.array("weights"))
    assert refused > len(whole) / 7 / 2
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError):
        load_model(path)


def test_a_file_that_is_not_there_and_a_folder_that_is_not(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        load_model(tmp_path / "none.model")
    with pytest.raises(ModelError, match="No such file"):
        save_model(MODEL, tmp_path / "no" / "folder.model")
