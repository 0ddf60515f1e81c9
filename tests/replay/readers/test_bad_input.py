"""Bad input gets one clear error of ours, before anything is played; nothing of it is executed."""

import os
import pickle
import random
import struct
import subprocess
import threading
from contextlib import suppress

import numpy as np
import pytest

from bci_stream.clock import ManualClock
from bci_stream.contest.contest import Contest
from bci_stream.errors import LostError, SourceError
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import Stopped, read_control
from replay.player.plan import make_plan
from replay.player.player import Pace, Player
from replay.readers.guard import check_file
from replay.sources import open_source

FORMATS = (
    "run.edf", "stim.edf", "run.bdf", "run_raw.fif", "run.gdf", "run.cnt", "run.vhdr",
    "run.npz", "run.npy", "run.xdf",
)  # fmt: skip
SLOW_FORMATS = ("run.set", "run.mat", "run.pkl")  # each try starts a child process: see guard
PARAMETERS = {"run.npy": "?rate=250&leads=C3,Cz,C4,COUNT", "run.pkl": "?leads=C3,Cz,C4,COUNT"}


def play(uri: str) -> int:
    """Open a source, play a little of each session, look at all its triggers."""
    played = 0
    for session in open_source(uri).sessions():
        packets = session.packets(40)
        played += sum(len(packet.samples) for packet, _ in zip(packets, range(5), strict=False))
        packets.close()
        session.block_triggers()
    return played


def damaged(whole: bytes, seed: int) -> bytes:
    """The bytes cut off, or with some bits flipped: in the header or anywhere."""
    chance = random.Random(seed)
    if seed % 3 == 0:
        return whole[: chance.randrange(len(whole))]
    changed = bytearray(whole)
    within = len(whole) if seed % 2 else min(len(whole), 2000)
    for _ in range(chance.choice([1, 3, 20])):
        changed[chance.randrange(within)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def fuzz(path, parameters: str, tries: int) -> tuple[int, int]:
    whole, outcomes = path.read_bytes(), [0, 0]
    for seed in range(tries):
        # A fresh name each time: a memory-mapped file must not be cut while it is mapped.
        broken = path.with_name(f"broken{seed}_{path.name}")
        broken.write_bytes(damaged(whole, seed))
        try:
            play(str(broken) + parameters)
            outcomes[0] += 1
        except SourceError:
            outcomes[1] += 1
        broken.unlink()
    return outcomes[0], outcomes[1]


@pytest.mark.parametrize("name", FORMATS)
def test_of_damaged_files_only_our_own_error_comes_out(name, write):
    _, refused = fuzz(write(name), PARAMETERS.get(name, ""), tries=24)
    assert refused > 0


@pytest.mark.parametrize("name", SLOW_FORMATS)
def test_of_damaged_files_that_a_child_reads_only_our_own_error_comes_out(name, write):
    _, refused = fuzz(write(name), PARAMETERS.get(name, ""), tries=3)
    assert refused > 0


@pytest.mark.parametrize("part", ["run.vmrk", "run.eeg"])
def test_the_other_files_of_a_brainvision_recording_may_be_damaged_too(part, write):
    header = write("run.vhdr")
    whole = header.with_name(part).read_bytes()
    for seed in range(12):
        header.with_name(part).write_bytes(damaged(whole, seed))
        with suppress(SourceError):  # anything else fails this test
            play(str(header))
    header.with_name(part).unlink()
    with pytest.raises(SourceError):
        play(str(header))


def test_a_parser_that_never_ends_is_not_waited_for_for_ever(monkeypatch, write):
    def stuck(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", stuck)
    with pytest.raises(SourceError, match="not read within 120 s"):
        play(str(write("run.mat")))


def test_a_parser_that_crashes_its_process_does_not_crash_ours(monkeypatch, write):
    real = subprocess.run

    def crashing(command, **options):
        return real([command[0], "-c", "import os, signal; os.kill(os.getpid(), 11)"], **options)

    monkeypatch.setattr(subprocess, "run", crashing)
    with pytest.raises(SourceError, match="crashes"):
        play(str(write("run.mat")))


@pytest.mark.parametrize("name", [*FORMATS, *SLOW_FORMATS])
def test_an_empty_file_is_called_empty(name, tmp_path):
    path = tmp_path / name
    path.write_bytes(b"")
    with pytest.raises(SourceError, match="is empty"):
        play(str(path))


@pytest.mark.parametrize(
    ("name", "wrong"), [("run.edf", "x.bdf"), ("run.npz", "x.edf"), ("run.xdf", "x.fif")]
)
def test_a_wrong_extension_is_reported(name, wrong, write, tmp_path):
    write(name).rename(tmp_path / wrong)
    with pytest.raises(SourceError, match="another format than its name says"):
        play(str(tmp_path / wrong))


def test_an_unknown_extension_is_reported_with_those_that_are_read(tmp_path):
    (tmp_path / "notes.md").write_text("hello")
    with pytest.raises(SourceError, match=r"\.edf.*\.xdf"):
        play(str(tmp_path / "notes.md"))


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(SourceError, match=r"no file or folder nowhere\.edf"):
        play("nowhere.edf")


@pytest.mark.parametrize("name", [*FORMATS, "run.pkl"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.97])
def test_a_file_that_is_cut_off_is_refused_and_not_played_short(name, share, write):
    path = write(name)
    if name == "run.vhdr":
        path = path.with_name("run.eeg")
    whole = path.read_bytes()
    # Not between two samples: a BrainVision header does not state their number, so that can't be seen.
    path.write_bytes(whole[: int(len(whole) * share) - 1])
    with pytest.raises(SourceError, match=r"(run|stim)[._]"):
        play(
            str(path.with_suffix(".vhdr") if name == "run.vhdr" else path)
            + PARAMETERS.get(name, "")
        )


@pytest.mark.parametrize("share", [0.1, 0.3, 0.7, 0.9, 0.97])
def test_brainvision_markers_that_are_cut_off_are_reported(share, write):
    header = write("run.vhdr")
    markers = header.with_name("run.vmrk")
    whole = markers.read_bytes()
    markers.write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(SourceError, match=r"run\.vmrk is cut off or damaged"):
        play(str(header))


def test_nan_ends_the_reading_with_its_lead_and_place_and_is_kept_when_asked(tmp_path):
    data = np.ones((2, 500))
    data[1, 123] = np.nan
    np.savez(tmp_path / "bad.npz", data=data, rate=250, leads=np.array(["C3", "C4"]))
    with pytest.raises(SourceError, match=r"bad.npz: lead C4 holds nan at sample 123 \(0\.492 s\)"):
        play(str(tmp_path / "bad.npz"))
    assert play(f"{tmp_path / 'bad.npz'}?nan=keep") == 200


@pytest.mark.parametrize("first", [0, 499])
def test_nan_at_the_ends_is_refused_before_the_start(first, tmp_path):
    data = np.ones((1, 500))
    data[0, first] = np.nan
    np.savez(tmp_path / "bad.npz", data=data, rate=250, leads=np.array(["C3"]))
    with pytest.raises(SourceError, match=f"C3 holds nan at sample {first}"):
        open_source(str(tmp_path / "bad.npz"))


def save_fif(path, data):
    import mne

    info = mne.create_info(["Fz", "Cz", "Pz"], 250, "eeg")
    mne.io.RawArray(data, info, verbose="error").save(path, verbose="error")


def save_brainvision(path, data):
    """By hand: pybv writes no NaN."""
    path.write_text(
        "Brain Vision Data Exchange Header File Version 1.0\n\n[Common Infos]\n"
        f"DataFile={path.stem}.eeg\nDataFormat=BINARY\nDataOrientation=MULTIPLEXED\n"
        "NumberOfChannels=3\nSamplingInterval=4000\n\n"
        "[Binary Infos]\nBinaryFormat=IEEE_FLOAT_32\n\n[Channel Infos]\n"
        "Ch1=Fz,,1,µV\nCh2=Cz,,1,µV\nCh3=Pz,,1,µV\n"
    )
    path.with_suffix(".eeg").write_bytes((data.T * 1e6).astype("<f4").tobytes())


@pytest.mark.parametrize(("name", "save"), [("x_raw.fif", save_fif), ("x.vhdr", save_brainvision)])
def test_nan_in_a_lazy_file_is_found_when_its_piece_is_read(name, save, tmp_path):
    volts = 1e-5 * np.random.default_rng(1).normal(size=(3, 9000))
    volts[1, 7123] = np.nan
    save(tmp_path / name, volts)
    (session,) = open_source(str(tmp_path / name)).sessions()
    packets = session.packets(100)
    assert len([next(packets) for _ in range(71)]) == 71
    with pytest.raises(SourceError, match=r"Cz holds nan at sample 7123 \(28\.492 s\)"):
        next(packets)
    # A lead that is not played does not matter.
    (session,) = open_source(f"{tmp_path / name}?select=Pz,Fz").sessions()
    sent = np.concatenate([packet.samples for packet in session.packets(100)])
    np.testing.assert_allclose(sent, 1e6 * volts[[2, 0]].T, rtol=1e-6)


@pytest.fixture
def spoilt(tmp_path):
    """A FIF whose lead counts samples, and is not a number at sample 15007."""
    import mne

    path = tmp_path / "bad_raw.fif"
    data = np.arange(20000.0).reshape(1, -1) * 1e-6
    data[0, 15007] = np.nan
    raw = mne.io.RawArray(data, mne.create_info(["Cz"], 250, "eeg"), verbose="error")
    raw.save(path, verbose="error")
    return open_source(str(path))


def test_all_packets_before_a_nan_are_read(spoilt):
    (session,) = spoilt.sessions()
    packets = session.packets(10)
    sent = [next(packets).samples[:, 0] for _ in range(1500)]
    assert np.concatenate(sent) == pytest.approx(np.arange(15000))
    with pytest.raises(SourceError, match="Cz holds nan at sample 15007"):
        next(packets)


def test_a_run_that_meets_nan_ends_with_its_reason_and_all_before_it_is_on_the_wire(
    spoilt, tmp_path
):
    clock = ManualClock()
    transport = MemoryTransport(clock.now)
    program = make_plan(spoilt, None)
    player = Player(
        transport,
        clock,
        Contest("c", tmp_path),
        program,
        name="r",
        pace=Pace(lockstep=False),
        start_on="now",
        stop=threading.Event(),
    )
    streams = {found.name: found for found in transport.visible("")}
    signal = transport.sample_inlet(streams["c-r-signal"], 1)
    control = transport.text_inlet(streams["c-r-control"], 1)
    with pytest.raises(SourceError, match="Cz holds nan at sample 15007"):
        player.play()
    samples, _ = signal.pull(20000, 0)
    assert samples[:, 0] == pytest.approx(np.arange(15000))
    with suppress(LostError):  # the stream has ended, and so does the pulling
        while texts := control.pull(0):
            last = read_control(texts[-1][0])
    assert isinstance(last, Stopped)
    assert "Cz holds nan at sample 15007" in last.reason


def test_no_triggers_is_an_error_for_a_track_and_none_without(tmp_path):
    np.savez(tmp_path / "quiet.npz", data=np.ones((2, 500)), rate=250, leads=np.array(["C3", "C4"]))
    assert play(str(tmp_path / "quiet.npz")) == 200
    with pytest.raises(SourceError, match="no triggers, and mi needs them"):
        open_source(f"{tmp_path / 'quiet.npz'}?track=mi")


class Hostile:
    """Unpickled by anybody else, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [0, 2, 5])
@pytest.mark.parametrize(
    "around",
    [
        lambda evil: evil,
        lambda evil: [np.zeros((33, 10)), evil],
        lambda evil: {"data": evil},
        lambda evil: np.array([evil]),
    ],
)
def test_a_pickle_with_code_in_it_is_refused_and_not_run(around, protocol, tmp_path):
    trace = tmp_path / "it-ran"
    data = pickle.dumps(around(Hostile(trace)), protocol)
    path = tmp_path / "evil.pkl"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"could run code|does not begin as"):
        open_source(str(path))
    assert not trace.exists()
    pickle.loads(data)  # noqa: S301 - the proof that this check can fail
    assert trace.exists()


def test_a_mat_without_the_variable_names_those_it_has(tmp_path):
    from scipy.io import savemat

    savemat(tmp_path / "x.mat", {"left": np.ones((3, 100)), "right": np.ones((3, 100))})
    with pytest.raises(SourceError, match=r"no variable `data`; it has left \(3 x 100"):
        open_source(str(tmp_path / "x.mat"))
    with pytest.raises(SourceError, match="no variable 'up'"):
        open_source(f"{tmp_path / 'x.mat'}?variable=up")


def test_check_file_distinguishes_a_folder_from_a_file(tmp_path):
    with pytest.raises(SourceError, match="can't be opened"):
        check_file(tmp_path, "EDF", ())


@pytest.mark.parametrize("version", [b"1.25", b"2.20"])
def test_a_gdf_with_more_channels_than_it_can_hold_is_refused_at_once(write, version):
    path = write("run.gdf")
    content = bytearray(path.read_bytes())
    content[4:8], content[252:256] = version, b"\xff\xff\xff\x7f"
    path.write_bytes(content)
    with pytest.raises(SourceError, match="too short for them"):
        open_source(str(path))


@pytest.mark.parametrize(("place", "value"), [(12, 36), (8, -16)])
def test_a_fif_whose_tags_run_in_a_circle_is_refused(write, place, value):
    """place: of the size, or of the next tag's place, in a tag's header."""
    path = write("run_raw.fif")
    content = bytearray(path.read_bytes())
    third_tag = 36 + 20
    struct.pack_into(">i", content, third_tag + place, value)
    path.write_bytes(content)
    with pytest.raises(SourceError, match="leads back"):
        open_source(str(path))
