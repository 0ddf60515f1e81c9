"""What `prepare` refuses, and what its sets promise: whole clips, every code, no cue, no draft left."""

import shutil
import signal

import numpy as np
import pytest
from click.testing import CliRunner

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.cli import main
from replay.model.options import SourceOptions
from replay.model.recording import ArrayBlock, Recording
from replay.sources import open_source
from replay.tools.clip_shuffle import shuffled_clips
from replay.tools.inspect import inspect_uri
from replay.tools.prepare import prepare
from replay.tools.set_folder import _move
from replay.tools.set_writer import SetWriter, Split, write_npz
from replay.transform.masking import masked_recording
from tracks.common.leads import EMOTION_SECOND_BATCH
from tracks.common.truth import read_truth
from tracks.registry import TRACKS

KEY = b"0123456789abcdef"
CLIPS = [(2000, 3), (6000, 14), (10000, 7)]
"""Where the clips of a block are announced, and their numbers in the first one."""


def emotion_blocks(n_blocks=2):
    """The triggers of blocks with three clips of 8 s each."""
    return [
        [
            (100, 242),
            *(
                trigger
                for at, number in CLIPS
                for trigger in ((at, number + block), (at + 25, 240), (at + 2025, 241))
            ),
            (13000, 243),
        ]
        for block in range(n_blocks)
    ]


def recording_of(track, blocks, n_samples=13500, leads=EMOTION_SECOND_BATCH):
    rng = np.random.default_rng(1)
    arrays = [
        ArrayBlock(rng.normal(40, 1, (n_samples, len(leads))).astype(np.float32), tuple(triggers))
        for triggers in blocks
    ]
    return Recording("S1", TRACKS[track].rate, tuple(map(Lead, leads)), arrays)


def written(tmp_path, track, blocks, **how):
    path = tmp_path / "S1.npz"
    write_npz(recording_of(track, blocks, **how), path, track, "train", secret=False)
    return str(path)


def breaks_of(uri, track):
    (session,) = inspect_uri(uri, SourceOptions(), track).sessions
    return session.fits[0].breaks


def without(code, blocks, block=1):
    """The first trigger of that code is taken from a block."""
    at = next(i for i, (_, own) in enumerate(blocks[block]) if own == code)
    del blocks[block][at]
    return blocks


def recoded(old, new, blocks, block=1):
    blocks[block] = [(at, new if code == old else code) for at, code in blocks[block]]
    return blocks


BROKEN_CLIPS = {
    "no 241": (without(241, emotion_blocks()), "block 1, sample 6000 "),
    "no 240": (without(240, emotion_blocks()), "block 1, sample 4025 "),
    "no number": (without(4, emotion_blocks()), "block 1, sample 2025 "),
    "number 29": (recoded(4, 29, emotion_blocks()), "block 1, sample 2025 "),
    "240 before the number": (
        recoded(99, 240, recoded(240, 4, recoded(4, 99, emotion_blocks()))),
        "block 1, sample 2000 ",
    ),
    "a clip twice": (recoded(4, 14, emotion_blocks()), "block 1, sample 2000 "),
}


@pytest.mark.parametrize("what", BROKEN_CLIPS)
@pytest.mark.parametrize("train_blocks", [0, 1, 2])
def test_a_broken_clip_is_refused_at_its_place_in_the_source(what, train_blocks, tmp_path):
    blocks, place = BROKEN_CLIPS[what]
    uri = written(tmp_path, "emotion", [*blocks, emotion_blocks(3)[2]])
    split = Split("block", train_blocks) if train_blocks else Split()
    with pytest.raises(SourceError, match=r"S1\.npz, subject S1: ") as refused:
        prepare("emotion", [uri], tmp_path / "set", KEY, split=split)
    (found,) = breaks_of(uri, "emotion")
    assert found.startswith(place)
    assert str(refused.value).endswith(found)
    assert [path.name for path in tmp_path.iterdir()] == ["S1.npz"]


def test_a_clip_that_trains_is_not_tested_too(tmp_path):
    uri = written(tmp_path, "emotion", recoded(4, 3, emotion_blocks()))
    with pytest.raises(SourceError, match=r"block 1, sample 2000 .*clip 3 twice"):
        prepare("emotion", [uri], tmp_path / "set", KEY, split=Split("block", 1))


MI_TRIAL = [(2000, 11), (4000, 12), (5000, 13), (6000, 241)]
MI_LEADS = ("C3", "Cz", "C4")


def mi_person(folder, subject, blocks):
    folder.mkdir(exist_ok=True)
    made = recording_of("mi", blocks, n_samples=8000, leads=MI_LEADS)
    path = folder / f"{subject}.npz"
    write_npz(made, path, "mi", "train", secret=False)
    return f"{path}?subject={subject}"


@pytest.mark.parametrize("split", [Split("block", 1), Split("person", 2)])
def test_labels_that_break_the_rules_do_not_train(split, tmp_path):
    bad = [(2000, 11), (4000, 22)]  # another class within the trial
    blocks = [[(0, 242), *trial] for trial in (bad, MI_TRIAL)]
    persons = [mi_person(tmp_path / "in", f"S{number}", blocks) for number in range(3)]
    with pytest.raises(
        SourceError, match=r"its training blocks: block 0, sample 4000 .*22 without"
    ):
        prepare("mi", persons, tmp_path / "set", KEY, split=split)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_training_part_without_any_label_is_refused(tmp_path):
    uri = mi_person(tmp_path, "S1", [[(0, 242)], [(0, 242), *MI_TRIAL]])
    with pytest.raises(SourceError, match="its training blocks: the recording holds no label"):
        prepare("mi", [uri], tmp_path / "set", KEY, split=Split("block", 1))


def test_what_trains_is_what_inspect_takes(tmp_path):
    uri = written(tmp_path, "emotion", emotion_blocks(3))
    prepare("emotion", [uri], tmp_path / "set", KEY, split=Split("block", 1))
    for folder in ("train", "organiser"):
        (path,) = (tmp_path / "set" / folder).glob("*.npz")
        assert breaks_of(str(path), "emotion") == ()


# --- the codes of the sets ----------------------------------------------------------------------


@pytest.mark.parametrize("n_blocks", [1, 2])
def test_every_code_is_on_a_sample_of_its_own(n_blocks, tmp_path):
    uri = written(tmp_path, "emotion", emotion_blocks(n_blocks))
    prepare("emotion", [uri], tmp_path / "set", KEY)
    for folder in ("organiser", "test"):
        with np.load(tmp_path / "set" / folder / "emotion_test_S1.npz") as made:
            row, events = made["data"][-1], made["events"]
        in_row = [(int(at), int(row[at])) for at in np.flatnonzero(row)]
        assert in_row == [tuple(event) for event in events.tolist()]
        assert in_row[:2] == [(0, 250), (1, 242)]
        assert in_row[-2:] == [(len(row) - 2, 243), (len(row) - 1, 251)]


def test_codes_keep_their_order_where_a_clip_has_no_fixation_and_no_tail():
    made = shuffled_clips(
        recording_of("emotion", [[(0, 5), (25, 240), (999, 241)]], n_samples=1000),
        np.random.default_rng(0),
    )
    (block,) = made.blocks
    assert [code for _, code in block.triggers] == [250, 242, 5, 240, 241, 243, 251]
    assert read_truth(TRACKS["emotion"], 250, made.block_triggers())["clips"] == [
        {"block": 0, "start": 25, "end": 999, "label": 1}
    ]


@pytest.mark.parametrize("pause", [0, 50, 200])
def test_clips_that_follow_each_other_closely_keep_their_own_samples(pause):
    triggers, at = [(0, 242)], 1500
    for number in (1, 4, 7, 10):
        triggers += [(at, number), (at + 25, 240), (at + 525, 241)]
        at += 525 + pause
    source = recording_of("emotion", [sorted(triggers)], n_samples=at + 300)
    for number, sample in [(c, s) for s, c in triggers if c in (1, 4, 7, 10)]:
        source.blocks[0].data[sample + 25 : sample + 525] += 1000 * number
    (block,) = shuffled_clips(source, np.random.default_rng(3)).blocks
    clips = read_truth(TRACKS["emotion"], 250, [(block.n_samples, block.triggers)])["clips"]
    assert sorted(clip["label"] for clip in clips) == [0, 1, 2, 3]
    for clip in clips:
        inside = block.data[clip["start"] : clip["end"], 5]
        assert len(inside) == 500
        assert np.ptp(inside) < 20  # one clip's level, from its first sample to its last


# --- the mask of mi -----------------------------------------------------------------------------


def test_imagery_that_its_block_cuts_off_shows_nothing_of_the_next_block():
    blocks = [[(1000, 11), (7000, 11)], [(3000, 21)]]
    recording = recording_of("mi", blocks, n_samples=8000, leads=MI_LEADS)
    shown = masked_recording(TRACKS["mi"], recording)
    cut_off, following = (block.data for block in shown.blocks)
    assert cut_off[7000:].all()
    assert not following[:3000].any()
    assert following[3000:7000].all()


def test_also_in_what_trains_mis_cue_and_rest_are_zero_and_its_labels_stay(tmp_path):
    data = np.ones((12000, 1), np.float32)
    triggers = ((0, 242), (3000, 21), (5000, 22), (6000, 23), (7000, 241), (11999, 243))
    recording = Recording("S1", 1000.0, (Lead("C3"),), [ArrayBlock(data, triggers)])
    writer = SetWriter(TRACKS["mi"], tmp_path, KEY)
    writer.train(recording)
    (session,) = open_source(str(next((tmp_path / "train").glob("*.npz")))).sessions()
    samples = np.concatenate([packet.samples[:, 0] for packet in session.packets(1000)])
    assert samples.nonzero()[0] == pytest.approx(np.arange(3000, 7000))
    assert session.block_triggers() == [(12000, triggers)]


# --- a signal -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_leaves_no_draft_and_logs_it(number, tmp_path, monkeypatch):
    written = []

    def written_before_the_signal(path, *rest, **options):
        write_npz(path, *rest, **options)
        written.append(path)
        signal.raise_signal(number)

    monkeypatch.setattr("replay.tools.set_writer.write_npz", written_before_the_signal)
    before = signal.getsignal(number)
    words = ["prepare", "synthetic:mi?subjects=1&blocks=1&trials=1", "--track", "mi", "--out"]
    ended = CliRunner().invoke(main, [*words, str(tmp_path / "set")])
    assert ended.exit_code == 128 + number
    assert ended.output == f"stopped by {number.name}: the unfinished sets were removed\n"
    assert len(written) == 1
    assert not list(tmp_path.glob("**/*.npz"))
    assert not (tmp_path / "set").exists()
    assert signal.getsignal(number) is before


def test_a_signal_right_after_a_move_takes_that_move_back_too(tmp_path, monkeypatch):
    pairs = [(tmp_path / "a" / name, tmp_path / "b" / name) for name in ("1", "2")]
    (tmp_path / "a").mkdir()
    for old, _ in pairs:
        old.write_text(old.name)
    move = shutil.move

    def stopped_after_the_second(old, new):
        move(old, new)
        if new == pairs[1][1]:
            raise KeyboardInterrupt

    monkeypatch.setattr("replay.tools.set_folder.shutil.move", stopped_after_the_second)
    with pytest.raises(KeyboardInterrupt):
        _move(pairs)
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["1", "2"]
    assert not list((tmp_path / "b").iterdir())
