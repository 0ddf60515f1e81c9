"""A hostile pickle gives one clear error: it executes nothing, does not hang and takes no gigabytes."""

import pickle
import struct
import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.readers.arrays.pickle_child import load_arrays
from replay.sources import open_source

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)
DATA = np.random.default_rng(0).normal(0, 20, (8, 500))
FAR_TOO_LONG_S = 120.0
GIGABYTES = 4


def opened(path, parameters="?rate=100&triggers=none"):
    (session,) = open_source(f"{path}{parameters}").sessions()
    return session


def samples(path):
    session = opened(path)
    return next(session.packets(session.n_samples)).samples


def named(module, name):
    return f"c{module}\n{name}\n".encode()


def text(word):
    return b"X" + struct.pack("<I", len(word)) + word.encode()


def opened_elsewhere(path):
    """The error and peak memory (kB) of another process that opens a file, with limits of time and memory."""
    script = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_AS, ({GIGABYTES << 30}, {GIGABYTES << 30}))\n"
        "from replay.sources import open_source\n"
        "try:\n    open_source(sys.argv[1])\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
        # Not ru_maxrss, which begins with the peak of the process that started this one.
        "status = open('/proc/self/status').read()\n"
        "print(status.partition('VmHWM:')[2].split()[0])\n"
    )
    command = [sys.executable, "-c", script, f"{path}?rate=100"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FAR_TOO_LONG_S)
    assert done.returncode == 0, done.stderr
    found, peak_kb = done.stdout.rsplit("\n", 2)[:2]
    return found, int(peak_kb)


def laughs(leaf, times=60, depth=5):
    """A few hundred bytes that expand to times ** (depth + 1) values."""
    kind = type(leaf)
    for _ in range(depth):
        leaf = kind([leaf]) * times
    return leaf


@pytest.mark.parametrize("content", [{"data": laughs([0] * 60)}, laughs((0,) * 60)])
def test_a_list_that_names_the_same_lists_again_and_again_is_refused_at_once(content, tmp_path):
    path = tmp_path / "laughs.pkl"
    path.write_bytes(pickle.dumps(content))
    assert path.stat().st_size < 1000
    found, _ = opened_elsewhere(path)
    assert found.startswith("SourceError")
    assert f"its lists stand for {60**6} values" in found
    assert "save the data as a numpy array" in found


def test_the_same_array_again_and_again_is_refused_too(tmp_path):
    path = tmp_path / "arrays.pkl"
    path.write_bytes(pickle.dumps([np.zeros(10_000)] * 100_000))
    with pytest.raises(SourceError, match=f"its lists stand for {10**9} values"):
        opened(path)


def test_one_long_text_does_not_widen_all_the_others(tmp_path):
    path = tmp_path / "texts.pkl"
    path.write_bytes(pickle.dumps({"data": DATA, "leads": ["x" * 100_000, *["y"] * 100_000]}))
    with pytest.raises(SourceError, match="100001 values of up to 400000 bytes"):
        opened(path)


def test_a_list_that_holds_itself_is_refused(tmp_path):
    endless: list = []
    endless.append(endless)
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(endless))
    with pytest.raises(SourceError, match="nested too deeply"):
        opened(tmp_path / "x.pkl")


def test_a_key_that_takes_for_ever_to_hash_is_refused_after_the_deadline(tmp_path, monkeypatch):
    path = tmp_path / "key.pkl"
    path.write_bytes(b"\x80\x04}" + pickle.dumps(laughs((0,) * 60), 4)[11:-1] + b"Ns.")
    monkeypatch.setattr("replay.readers.arrays.pickles.DEADLINE_S", 2.0)
    with pytest.raises(SourceError, match=r"key\.pkl was not read within 2 s"):
        opened(path)


@pytest.mark.parametrize(
    "claim",
    [
        b"\x80\x02Nr\xff\xff\xff\x0f.",  # a memo of a quarter of a milliard places
        b"\x80\x05\x96" + struct.pack("<Q", 3 << 30) + b".",  # a bytearray of 3 GB
    ],
)
def test_what_a_few_bytes_claim_is_not_made_room_for(claim, tmp_path):
    (tmp_path / "claim.pkl").write_bytes(claim)
    found, peak_kb = opened_elsewhere(tmp_path / "claim.pkl")
    assert found.startswith("SourceError")
    assert peak_kb < 500_000


def test_an_array_whose_type_takes_for_ever_to_spell_is_refused(tmp_path):
    endless = pickle.dumps(laughs([0] * 60), 2)[2:-1]
    dtype = named("numpy", "dtype") + endless + b"\x85R"
    array = b"\x80\x02" + named("numpy.core.numeric", "_frombuffer")
    array += b"(U\x00" + dtype + b")U\x01CtR."
    (tmp_path / "x.pkl").write_bytes(array)
    found, _ = opened_elsewhere(tmp_path / "x.pkl")
    assert "an array of 'list' holds objects" in found


def test_lists_of_numbers_are_read_and_a_row_may_be_there_twice(tmp_path):
    row = [float(n * n % 7) for n in range(500)]
    (tmp_path / "rows.pkl").write_bytes(pickle.dumps([row, row, [0.5] * 500]))
    np.testing.assert_array_equal(samples(tmp_path / "rows.pkl").T, [row, row, [0.5] * 500])


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "data",
    [DATA, np.asfortranarray(DATA), DATA.astype(">f4"), DATA[:, ::2], DATA.astype(np.int16)],
    ids=["C", "F", "big endian", "with gaps", "integers"],
)
def test_every_array_that_numpy_pickles_is_read(data, protocol):
    given = {"data": data, "rate": np.float64(100), "leads": np.array(list("abcdefgh"))}
    given["events"] = np.zeros((0, 3), dtype=int)
    content = pickle.dumps(given, protocol)
    read = load_arrays(BytesIO(content), len(content))
    assert read.keys() == given.keys()
    for name, array in read.items():
        np.testing.assert_array_equal(array, given[name])


def test_the_arrays_of_a_child_process_are_those_of_the_file(tmp_path):
    given = {"data": DATA, "rate": np.float64(100), "leads": np.array(list("abcdefgh")), "file": 1}
    (tmp_path / "good.pkl").write_bytes(pickle.dumps(given))
    session = opened(tmp_path / "good.pkl", "?triggers=none")
    assert [lead.name for lead in session.leads] == list("abcdefgh")
    np.testing.assert_array_equal(samples(tmp_path / "good.pkl").T, DATA.astype(np.float32))


@pytest.mark.parametrize("bare", [False, True], ids=["_frombuffer", "_reconstruct"])
def test_a_number_is_no_arrays_bytes(bare, tmp_path):
    """bytes(n) makes n zeros: 80 bytes would open as hours of silence."""
    size = b"J" + struct.pack("<i", 8 * 8 * 1000)
    shape = b"K\x08M" + struct.pack("<H", 1000) + b"\x86"
    dtype = named("numpy", "dtype") + text("f8") + b"\x85R"
    array = named("numpy.core.numeric", "_frombuffer") + b"(" + size + dtype + shape
    array += text("C") + b"tR"
    if bare:
        array = named("numpy.core.multiarray", "_reconstruct") + b"(" + named("numpy", "ndarray")
        array += b"K\x00\x85" + text("b") + b"tR("
        array += b"K\x01" + shape + dtype + b"\x89" + size + b"tb"
    (tmp_path / "silence.pkl").write_bytes(b"\x80\x02" + array + b".")
    with pytest.raises(
        SourceError,
        match=r"can't be read as pickle: (a bytes-like object is required|pickle data|.*not)",
    ):
        opened(tmp_path / "silence.pkl")


@pytest.mark.parametrize(
    "name", [("numpy", "dtype"), ("numpy", "ndarray"), ("_codecs", "encode")], ids=".".join
)
def test_a_pickle_that_changes_what_it_names_spoils_no_other(name, tmp_path):
    changed = named(*name) + b"N}" + text("__init__") + named("numpy", "ndarray") + b"s\x86b0"
    (tmp_path / "evil.pkl").write_bytes(b"\x80\x02" + changed + b"N.")
    with pytest.raises(SourceError, match="can't be read as pickle"):
        opened(tmp_path / "evil.pkl")
    (tmp_path / "good.pkl").write_bytes(pickle.dumps({"data": DATA, "rate": np.float64(100)}))
    np.testing.assert_array_equal(samples(tmp_path / "good.pkl").T, DATA.astype(np.float32))


@pytest.mark.parametrize(
    "content", [{1, 2}, {"data": frozenset([1])}, {(1, 2): DATA}], ids=["set", "frozenset", "key"]
)
def test_what_no_recording_holds_is_refused(content, tmp_path):
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(content, 4))
    with pytest.raises(SourceError, match="can't be read as pickle"):
        opened(tmp_path / "x.pkl")


def test_a_pickle_that_asks_for_much_memory_is_refused(tmp_path):
    """LONG_BINPUT with a great number: the unpickler's memo would take 13 GB. Found by Atheris."""
    path = tmp_path / "x.pkl"
    path.write_bytes(b"\x80\x04]r2222\x85.")
    with pytest.raises(SourceError, match="more memory than a recording of its size"):
        open_source(str(path))
