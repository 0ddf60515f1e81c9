"""XDF files that are cut off are saved as far as they go; lost samples of a recording are counted."""

import struct

import numpy as np
import pytest
import pyxdf
from click.testing import CliRunner
from small_recordings import XdfWriter, stream_header

from bci_stream.errors import SourceError
from replay.cli import main
from replay.readers.xdf_chunks import deduced, read_samples
from replay.sources import open_source
from replay.tools.xdf_file import count_streams, salvage_xdf

RATE, N = 100, 500


def xdf(path, drop=()):
    kept = np.setdiff1d(np.arange(N), drop)
    times, values = 50 + kept / RATE, kept.astype(np.float32)[:, None]
    with path.open("wb") as file:
        writer = XdfWriter(file)
        writer.stream(1, stream_header("Signal", "EEG", 1, RATE, "float32", ""))
        writer.stream(2, stream_header("Marks", "Markers", 1, 0, "string", ""))
        for begin in range(0, len(kept), 50):
            part = slice(begin, begin + 50)
            writer.samples(1, values[part], times[part])
            writer.samples(2, [["7"]], [times[begin]])
        writer.finish(1, times[0], times[-1], len(kept))
        writer.finish(2, times[0], times[-1], 10)
    return path


def test_samples_are_counted_and_so_are_those_that_are_missing(tmp_path):
    counts = count_streams(xdf(tmp_path / "x.xdf", drop=[*range(100, 120), 301]))
    assert [str(count) for count in counts] == [
        "Signal (EEG): 479 samples, 21 lost in 2 gaps",
        "Marks (Markers): 10 samples",
    ]


def test_chunks_hold_what_pyxdf_reads_and_stamps_that_are_left_out_are_deduced(tmp_path):
    path = tmp_path / "x.xdf"
    values = np.arange(12, dtype=np.int16).reshape(6, 2)
    with path.open("wb") as file:
        writer = XdfWriter(file)
        writer.stream(4, stream_header("S", "EEG", 2, RATE, "int16", ""))
        body = b"".join(
            (b"\x08" + struct.pack("<d", 50 + k / RATE) if k in (0, 3) else b"\0") + row.tobytes()
            for k, row in enumerate(values)
        )
        writer._chunk(3, struct.pack("<IBB", 4, 1, 6) + body)
        writer.finish(4, 50, 50.05, 6)
    header, chunk = read_samples(path)
    np.testing.assert_array_equal(chunk.values, values)
    (stream,), _ = pyxdf.load_xdf(path, dejitter_timestamps=False, synchronize_clocks=False)
    np.testing.assert_array_equal(stream["time_series"], values)
    np.testing.assert_allclose(deduced(chunk.stamps, header.rate), stream["time_stamps"])
    assert str(count_streams(path)[0]) == "S (EEG): 6 samples, none lost"
    path.write_bytes(b"no XDF")
    with pytest.raises(SourceError, match="does not begin with 'XDF:'"):
        count_streams(path)


@pytest.mark.parametrize("share", [0.35, 0.5, 0.77, 0.9])
def test_a_file_that_is_cut_off_is_saved_as_far_as_it_goes(tmp_path, share):
    whole = xdf(tmp_path / "x.xdf").read_bytes()
    cut = tmp_path / "cut.xdf"
    cut.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(
        SourceError, match=r"`bci-replay record NEW.xdf --from .*cut.xdf` saves what"
    ):
        open_source(str(cut))
    saved = tmp_path / "saved.xdf"
    ended = CliRunner().invoke(main, ["record", str(saved), "--from", str(cut)])
    assert ended.exit_code == 0, ended.output
    assert "which is cut off" in ended.output
    assert "2 streams closed (Signal, Marks)" in ended.output
    streams, _ = pyxdf.load_xdf(str(saved))
    signal = next(s for s in streams if s["info"]["name"] == ["Signal"])
    n = len(signal["time_series"])
    assert n == int(signal["footer"]["info"]["sample_count"][0])
    assert n >= 50 * int(share * 10 - 1)
    np.testing.assert_array_equal(signal["time_series"][:, 0], np.arange(n))
    (session,) = open_source(str(saved)).sessions()
    assert session.n_samples == n


def test_a_whole_file_is_copied_as_it_is(tmp_path):
    whole = xdf(tmp_path / "x.xdf")
    ended = CliRunner().invoke(main, ["record", str(tmp_path / "y.xdf"), "--from", str(whole)])
    assert "which is whole" in ended.output
    assert (tmp_path / "y.xdf").read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("content", "message"), [(b"RIFF", "is no XDF file"), (b"XDF:\4", "cut off before")]
)
def test_what_can_not_be_saved_is_refused(content, message, tmp_path):
    (tmp_path / "cut.xdf").write_bytes(content)
    with pytest.raises(SourceError, match=message):
        salvage_xdf(tmp_path / "cut.xdf", tmp_path / "out.xdf")
    assert not (tmp_path / "out.xdf").exists() or content == b"RIFF"


def test_a_file_is_not_saved_onto_itself(tmp_path):
    path = xdf(tmp_path / "x.xdf")
    ended = CliRunner().invoke(main, ["record", str(path), "--from", str(path), "--overwrite"])
    assert ended.exit_code == 1
    assert "is the file itself" in ended.output
    assert path.stat().st_size
