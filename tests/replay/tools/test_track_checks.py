"""What can be judged but breaks a track's rules gives a warning; a correct recording has none."""

from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from replay.model.options import SourceOptions
from replay.sources import open_source
from replay.tools.inspect import TrackFit, inspect_uri
from replay.tools.inspect_view import SHOWN_WARNINGS, render
from tracks.common.truth import JITTER_S, read_truth
from tracks.erp import FLASHES, SEQUENCES
from tracks.registry import TRACKS

MI_TRIAL = ((500, 11), (2500, 12), (3500, 13), (4500, 241))
CLIP = ((10, 242), (475, 5), (500, 240), (1750, 241), (1800, 243))
TASK = ((100, 240), (850, 9), (3350, 241))


def speller(sequences=SEQUENCES):
    """A trial of erp, flashes 150 ms apart."""
    triggers, now = [(100, 101)], 350
    for _ in range(sequences):
        for group in FLASHES:
            triggers.append((now, group))
            now += 37
        triggers.append((now, 200))
        now += 213
    return (*triggers, (now, 241))


def changed(triggers, **moved):
    """Triggers of some codes at another sample, or left out (None): c241=1000."""
    places = {int(name[1:]): sample for name, sample in moved.items()}
    kept = ((places.get(code, sample), code) for sample, code in triggers)
    return tuple((sample, code) for sample, code in kept if sample is not None)


def warnings(track, triggers, n_samples=15_000):
    """Of one block that the truth reader takes."""
    read_truth(TRACKS[track], TRACKS[track].rate, [(n_samples, triggers)])
    return TRACKS[track].warnings(TRACKS[track].rate, [(n_samples, triggers)])


@pytest.mark.parametrize(
    ("track", "triggers"),
    [
        ("mi", MI_TRIAL),
        ("emotion", CLIP),
        ("turing", TASK),
        ("erp", speller()),
        ("erp", speller(15)),
    ],
)
def test_a_trial_that_keeps_the_rules_has_no_warning(track, triggers):
    assert warnings(track, triggers) == []


@pytest.mark.parametrize("part", ["test", "train"])
@pytest.mark.parametrize("track", TRACKS)
def test_a_synthetic_recording_has_no_warning(track, part):
    for session in open_source(f"synthetic:{track}?subjects=1&set={part}").sessions():
        assert TRACKS[track].warnings(session.rate, session.block_triggers()) == []


@pytest.mark.parametrize(
    ("track", "uri"),
    [
        ("mi", "mi/S001R04.edf?events=T1=11+12@2+13@3+241@4,T2=21+22@2+23@3+241@4,T0=0"),
        ("mi", "mi/S001R06.edf?events=T1=11+12@2+13@3+241@4,T2=31+32@2+33@3+241@4,T0=0"),
        ("erp", "p300/bci2000_6x6_run1.npz"),
        ("emotion", "emotion/p02.npz"),
    ],
)
def test_a_real_recording_has_no_warning(track, uri, real_data):
    if not (real_data / uri.partition("?")[0]).exists():
        pytest.skip(f"no {uri}")
    (session,) = open_source(f"{real_data / uri}").sessions()
    read_truth(TRACKS[track], session.rate, session.block_triggers())
    assert TRACKS[track].warnings(session.rate, session.block_triggers()) == []


def test_jitter_is_no_warning():
    off = round(0.05 * 1000)
    assert warnings("mi", changed(MI_TRIAL, c12=2500 + off, c13=3500 - off, c241=4500 - off)) == []
    off = round(0.05 * 250)
    assert warnings("emotion", changed(CLIP, c5=475 - off)) == []
    assert JITTER_S >= 0.05


def test_what_a_rule_leaves_open_is_no_warning():
    assert warnings("mi", changed(MI_TRIAL, c12=None, c13=None, c241=None)) == []
    assert warnings("mi", changed(MI_TRIAL, c241=5000)) == []
    assert warnings("turing", ((850, 9),)) == []


def test_a_clip_of_a_block_that_never_began():
    (warning,) = warnings("emotion", changed(CLIP, c242=None))
    assert warning == (
        "block 0, sample 500 (2.000 s): clip 5 outside a block, so no second of it is decided on; "
        "expected 242 before it: a clip of a block that never began is 0"
    )


def test_a_clip_after_the_blocks_end_and_one_in_a_block_of_the_file_without_242():
    late = ((2000, 6), (2025, 240), (3000, 241))
    (warning,) = warnings("emotion", (*CLIP, *late))
    assert "sample 2025 (8.100 s): clip 6 outside a block" in warning
    (warning,) = TRACKS["emotion"].warnings(250, [(4000, CLIP), (4000, late)])
    assert warning.startswith("block 1, sample 2025 (8.100 s): clip 6 outside a block")


def test_a_clip_of_less_than_a_second():
    (warning,) = warnings("emotion", changed(CLIP, c241=700))
    assert "sample 500 (2.000 s): clip 5 of 0.8 s, so no second of it counts" in warning
    assert "at least 3 s" in warning


def test_a_clip_that_begins_long_after_its_number():
    (warning,) = warnings("emotion", changed(CLIP, c240=975))
    assert warning.endswith("240 2 s after its clip's number 5; expected 0.1 s")


def test_a_speller_trial_with_no_flash():
    (warning,) = warnings("erp", ((100, 101), (3000, 241)))
    assert warning == (
        "block 0, sample 100 (0.400 s): a trial with no sequences; expected 5 sequences of 12 flashes"
    )


def test_a_speller_trial_with_one_sequence():
    (warning,) = warnings("erp", speller(1))
    assert "a trial with 1 sequence;" in warning


@pytest.mark.parametrize("which", range(SEQUENCES))
def test_a_missing_200(which):
    triggers = speller()
    ends = [trigger for trigger in triggers if trigger[1] == 200]
    (warning,) = warnings("erp", tuple(each for each in triggers if each != ends[which]))
    last = which == SEQUENCES - 1
    expected = "a sequence without its 200" if last else "24 flashes without a 200 between them"
    assert expected in warning


def test_a_group_that_flashes_twice_in_a_sequence():
    triggers = list(speller())
    triggers[4] = (triggers[4][0], triggers[3][1])
    (warning,) = warnings("erp", tuple(triggers))
    assert f"sample {triggers[4][0]} " in warning
    assert "group 3 twice in a sequence; expected each of 12 groups once, then 200" in warning


def test_a_group_that_never_flashes_in_a_sequence():
    triggers = speller()
    (warning,) = warnings("erp", (*triggers[:4], *triggers[5:]))
    assert "a sequence without group 4" in warning


def test_a_submission_point_within_the_imagery():
    (warning,) = warnings("mi", ((500, 11), (1000, 241)))
    assert warning == (
        "block 0, sample 500 (0.500 s): 241 comes 0.5 s after 11; expected 4 s of imagery"
    )


def test_a_second_segment_too_early():
    (warning,) = warnings("mi", changed(MI_TRIAL, c12=800))
    assert warning == (
        "block 0, sample 800 (0.800 s): 12 0.3 s after the first segment; expected 2 s"
    )


def test_imagery_at_the_recordings_end():
    (warning,) = warnings("mi", (*MI_TRIAL, (9900, 21)), n_samples=10_000)
    assert "sample 9900 (9.900 s): the block's end comes 0.1 s after 21" in warning


def test_a_turing_task_that_ends_at_once():
    (warning,) = warnings("turing", changed(TASK, c241=950))
    assert warning.endswith("241 comes 0.4 s after 9; expected 5 s of task")


def fit_of(path, track="emotion"):
    (facts,) = inspect_uri(str(path), SourceOptions(), track).sessions
    return facts.fits[0]


def shown(path) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(render(inspect_uri(str(path), SourceOptions(), "emotion")))
    return console.file.getvalue()


def recording(path, events=CLIP, bad_lead=None):
    """Emotion's leads and one that it has not, with a NaN at sample 1100 if asked."""
    leads = [*TRACKS["emotion"].leads, "EXTRA"]
    data = np.ones((len(leads), 2000))
    if bad_lead:
        data[leads.index(bad_lead), 1100] = np.nan
    np.savez(path, data=data, rate=250, leads=np.array(leads), events=np.array(events))
    return path


def test_a_nan_in_a_lead_that_the_track_plays_is_a_no_with_its_place(tmp_path):
    path = recording(tmp_path / "x.npz", bad_lead="F3")
    fit = fit_of(path)
    assert fit == TrackFit(
        "emotion",
        (
            "block 0, sample 1100 (4.400 s): lead F3 is not a finite number; refused without ?nan=keep",
        ),
        (),
    )
    assert fit_of(f"{path}?nan=keep").fits


def test_a_nan_in_a_lead_that_is_not_played_is_no_reason_against(tmp_path):
    assert fit_of(recording(tmp_path / "x.npz", bad_lead="EXTRA")) == TrackFit("emotion", (), ())


def test_inspect_answers_yes_but_with_the_first_warnings_and_how_many_more(tmp_path):
    clips = [
        (200 * n + k, code) for n in range(5) for k, code in ((0, n + 1), (25, 240), (150, 241))
    ]
    path = recording(tmp_path / "x.npz", events=clips)
    fit = fit_of(path)
    assert fit.fits
    assert len(fit.warnings) == 10
    text = shown(path)
    assert "yes, but" in text
    assert text.count("expected") == SHOWN_WARNINGS
    assert "and 7 more" in text


def test_a_recording_without_warnings_is_a_plain_yes_and_one_that_does_not_fit_has_none(tmp_path):
    assert "yes, but" not in shown(recording(tmp_path / "x.npz"))
    broken = fit_of(recording(tmp_path / "y.npz", events=((10, 5), (500, 240))))
    assert broken.breaks
    assert broken.warnings == ()
