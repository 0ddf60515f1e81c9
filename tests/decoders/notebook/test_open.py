"""`bci_stream.open`: recordings of every kind as one object, with MNE on both sides."""

import numpy as np
import pytest

import bci_stream as bci
from bci_stream.errors import SourceError
from tracks.registry import TRACKS

SMALL = {"subjects": 1, "blocks": 2, "trials": 1}


@pytest.fixture(scope="module")
def small():
    return bci.open("synthetic:mi", track="mi", **SMALL)


def test_a_recording_shows_its_sessions(small) -> None:
    assert (small.track, small.subjects, len(small)) == ("mi", ["S01"], 1)
    assert "S01, 64 leads, 1000 Hz" in repr(small)
    html = small._repr_html_()
    assert "<td>64 leads</td>" in html
    assert "?subjects=1&amp;blocks=2" in html


def test_its_packets_are_masked_and_its_triggers_are_not(small) -> None:
    shown = {code for packet in small.packets() for _, code in packet.triggers}
    assert not shown & {11, 21, 31}
    assert {code for _, code in small.triggers()} & {11, 21, 31}


def test_to_mne_and_back_is_the_same_recording(small) -> None:
    raw = small.to_mne()
    assert raw.get_channel_types(unique=True) == ["eeg", "ecg", "eog"]
    assert [text for text in raw.annotations.description if text.startswith("EDGE")]
    codes = [int(text) for text in raw.annotations.description if text.isdecimal()]
    assert codes == [code for _, code in small.triggers()]
    again = bci.open(raw, track="mi")
    assert again.triggers() == small.triggers()
    one, other = (np.concatenate([p.signal for p in each.packets()]) for each in (small, again))
    assert np.allclose(one, other, atol=1e-3)


def test_a_file_takes_options_as_a_notebook_writes_them(tmp_path) -> None:
    import mne

    info = mne.create_info(["C3", "C4", "Cz"], 250.0, "eeg")
    raw = mne.io.RawArray(np.zeros((3, 2500)), info, verbose="error")
    raw.set_annotations(mne.Annotations([1.0, 3.0], [0, 0], ["T1", "T,2"]))
    raw.save(tmp_path / "a_raw.fif", verbose="error")
    with bci.open(
        tmp_path / "a_raw.fif",
        events={"T1": 11, "T,2": "21+22@2"},
        select=["C4", "C3"],
        resample=125,
    ) as opened:
        assert [lead.name for lead in opened.sessions[0].leads] == ["C4", "C3"]
        assert opened.sessions[0].rate == 125
        assert [code for _, code in opened.triggers()] == [11, 21, 22]
    assert opened.track is None


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        (3, {}, "can't be opened: give a file"),
        ("absent.edf", {}, "no file or folder"),
        ("synthetic:mi", {"track": "erp"}, "for track mi, not erp"),
        ("neuracle://127.0.0.1:1?channels=8&rate=250", {}, r"a live device.*bci_stream\.replay"),
        ("synthetic:mi", {"colour": 3}, "colour"),
    ],
)
def test_what_can_not_be_opened_is_named(given, options, message) -> None:
    with pytest.raises(SourceError, match=message):
        bci.open(given, **options)


def test_a_session_that_is_not_there_is_named(small) -> None:
    with pytest.raises(SourceError, match="has no session 3; it has 0 to 0"):
        small.to_mne(3)


class Tiny:
    """What MOABB's datasets have, with three trials of 4 s."""

    subject_list = (1, 2)
    interval = (1.0, 4.0)

    def __init__(self, names=("left_hand", "right_hand", "rest")) -> None:
        self.event_id = {name: code for code, name in enumerate(names, start=1)}

    def get_data(self, subjects):
        import mne

        info = mne.create_info(["C3", "C4", "stim"], 250.0, ["eeg", "eeg", "stim"])
        stim = np.zeros(5000)
        stim[[500, 1750, 3000]] = [1, 2, 3]
        rows = np.vstack([np.full((2, 5000), 1e-6), stim])
        return {subjects[0]: {"0": {"0": mne.io.RawArray(rows, info, verbose="error")}}}


def test_a_moabb_dataset_is_read_by_the_names_of_its_events() -> None:
    opened = bci.open(Tiny(), track="mi", resample=250)
    assert opened.subjects == ["Tiny-1", "Tiny-2"]
    assert opened.triggers()[:5] == ((750, 11), (1250, 12), (1500, 13), (1750, 241), (2000, 21))
    assert 31 not in {code for _, code in opened.triggers()}
    assert bci.open(Tiny(), track="mi", subjects=[2]).subjects == ["Tiny-2"]


def test_a_dataset_that_names_no_class_of_the_track_is_refused() -> None:
    with pytest.raises(SourceError, match=r"name no class of mi \(left, right, feet\)"):
        bci.open(Tiny(("Target", "NonTarget")), track="mi")
    with pytest.raises(SourceError, match="track erp can't be read from the classes"):
        bci.open(Tiny(), track="erp")
    with pytest.raises(SourceError, match="no subject is asked for"):
        bci.open(Tiny(), track="mi", subjects=[])


def test_only_tracks_whose_classes_make_trials_have_events_for_them() -> None:
    assert TRACKS["mi"].trial_events(2, 0.5) == "21@0.5+22@2.5+23@3.5+241@4.5"
    assert TRACKS["erp"].trial_events is None
