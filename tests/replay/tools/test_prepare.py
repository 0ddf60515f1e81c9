"""Contest sets: what is shown holds no label, the truth stays secret, and the key decides all."""

import json
import shutil
import stat
from itertools import pairwise

import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.player.plan import make_plan
from replay.sources import open_source
from replay.tools.inspect import inspect_uri
from replay.tools.prepare import prepare
from replay.tools.set_writer import Split
from tracks.common.leads import EMOTION_FIRST_BATCH, EMOTION_SECOND_BATCH
from tracks.common.truth import read_truth
from tracks.registry import TRACKS

pytestmark = pytest.mark.slow

KEY = b"0123456789abcdef"
SHORT = {
    "mi": "synthetic:mi?subjects=1&blocks=2&trials=3",
    "turing": "synthetic:turing?subjects=1&blocks=1",
    "erp": "synthetic:erp?subjects=1&trials=2",
    "ecog": "synthetic:ecog?subjects=1&blocks=2&seconds=8",
}


def write_emotion(path, *, leads=EMOTION_FIRST_BATCH, clips=(1, 13, 23), blocks=2):
    """A labelled emotion recording; its first lead holds the clip's number while a clip runs."""
    rate, triggers = 250, []
    rng, at = np.random.default_rng(1), 2000
    for block in range(blocks):
        at += 250
        triggers.append((at, 242))
        for clip in clips:
            number = clip + block
            begin, end = at + 500, at + 500 + 1500
            triggers += [(begin - 25, number), (begin, 240), (end, 241)]
            at = end + 300
        triggers.append((at, 243))
        at += 100
    triggers = [(0, 250), *triggers, (at + 50, 251)]
    data = rng.normal(40, 1, (len(leads), at + 100))
    for (start, code), (end, _) in pairwise(triggers):
        if code == 240:
            number = next(c for s, c in triggers if s == start - 25)
            data[0, start:end] = 1000 * number + 40
    for row, lead in enumerate(leads):
        data[row, :100] = EMOTION_SECOND_BATCH.index(
            {"T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8"}.get(lead, lead)
        )
    row = np.zeros(at + 100)
    for sample, code in triggers:
        row[sample] = code
    np.savez(path, data=np.vstack([data, row]), rate=rate, leads=np.array(leads))
    return path


def load(path):
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


@pytest.mark.parametrize("track", SHORT)
def test_the_shown_set_is_what_the_mask_shows_and_nothing_else(track, tmp_path):
    prepare(track, [SHORT[track]], tmp_path, KEY)
    for path in sorted((tmp_path / "test").iterdir()):
        shown = load(path)
        labelled = next(open_source(str(tmp_path / "organiser" / path.name)).sessions())
        mask = TRACKS[track].mask(labelled.rate)
        masked = [mask.step(packet.samples, packet.triggers) for packet in labelled.packets(10**6)]
        samples = np.concatenate([samples for samples, _ in masked])
        np.testing.assert_array_equal(shown["data"][:-1], samples.T)
        codes = [code for _, triggers in masked for _, code in triggers]
        assert list(shown["events"][:, 1]) == codes
        assert "angles" not in shown


@pytest.mark.parametrize("track", SHORT)
def test_a_masked_set_is_never_taken_for_a_labelled_one(track, tmp_path):
    prepare(track, [SHORT[track]], tmp_path, KEY)
    shown = str(next(iter(sorted((tmp_path / "test").iterdir()))))
    with pytest.raises(SourceError, match="is a masked test set without labels"):
        open_source(f"{shown}?track={track}")
    (session,) = inspect_uri(shown, SourceOptions(), track).sessions
    assert session.fits[0].breaks[-1] == "its labels are masked, so it has no truth"
    program = make_plan(open_source(shown), None)
    assert program.truths == (None,)
    assert next(iter(program.sessions[0].packets(40))).samples.shape[0] == 40


def test_mi_shows_zeros_in_cue_and_rest_and_no_class(tmp_path):
    prepare("mi", [SHORT["mi"]], tmp_path, KEY)
    shown = load(next(iter(sorted((tmp_path / "test").iterdir()))))
    assert set(shown["events"][:, 1]) <= {200, 202, 203, 241, 242, 243, 250, 251}
    starts = [int(sample) for sample, code in shown["events"] if code == 200]
    for start in starts:
        assert not shown["data"][:-1, start - 500 : start].any()
        assert shown["data"][:-1, start + 1 : start + 3999].any()


def test_the_truth_is_the_organisers_alone(tmp_path):
    prepare("erp", [SHORT["erp"]], tmp_path, KEY)
    organiser = tmp_path / "organiser"
    assert stat.S_IMODE(organiser.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in organiser.iterdir()} == {0o600}
    truth = json.loads(next(organiser.glob("*.truth.json")).read_text())
    session = next(open_source(str(next(organiser.glob("*.npz")))).sessions())
    again = read_truth(TRACKS["erp"], session.rate, session.block_triggers())
    assert truth["blocks"] == again["blocks"]
    public = json.loads((tmp_path / "manifest.json").read_text())
    assert all(name.startswith(("test/", "train/")) for name in public["files"])


def test_the_same_key_gives_the_same_bytes_and_another_key_another_order(tmp_path):
    path = write_emotion(tmp_path / "p1.npz")
    for name, key in {"a": KEY, "b": KEY, "c": b"another key"}.items():
        prepare("emotion", [str(path)], tmp_path / name, key)
    read = {n: load(tmp_path / n / "organiser" / "emotion_test_p1.npz") for n in "abc"}
    orders = {n: [c for _, c in read[n]["events"] if 0 < c <= 28] for n in "abc"}
    manifests = [(tmp_path / n / "manifest.json").read_bytes() for n in "ab"]
    assert manifests[0] == manifests[1]
    assert orders["a"] == orders["b"] != orders["c"]
    assert sorted(orders["a"]) == sorted(orders["c"]) == [1, 2, 13, 14, 23, 24]


def test_every_emotion_clip_keeps_its_signal_its_length_and_its_label(tmp_path):
    path = write_emotion(tmp_path / "p1.npz")
    prepare("emotion", [str(path)], tmp_path / "set", KEY)
    made = load(tmp_path / "set" / "organiser" / "emotion_test_p1.npz")
    events = [tuple(map(int, event)) for event in made["events"]]
    clips = [(s, c) for s, c in events if 0 < c <= 28]
    for sample, number in clips:
        start = next(s for s, c in events if c == 240 and s > sample)
        end = next(s for s, c in events if c == 241 and s > sample)
        assert (start - sample, end - start) == (25, 1500)
        np.testing.assert_allclose(made["data"][0, start:end], 1000 * number, atol=1)
    truth = json.loads((tmp_path / "set/organiser/emotion_test_p1.truth.json").read_text())
    assert len(truth["clips"]) == len(clips)


def test_emotion_clips_are_baseline_corrected_by_the_samples_before_them(tmp_path):
    path = write_emotion(tmp_path / "p1.npz")
    prepare("emotion", [str(path)], tmp_path / "set", KEY)
    made = load(tmp_path / "set" / "organiser" / "emotion_test_p1.npz")
    for sample, code in made["events"]:
        if code == 240:
            before = made["data"][5, sample - 200 : sample]
            assert abs(before.mean()) < 0.5  # it was 40 in the recording


def test_emotion_comes_in_the_second_batchs_lead_order_from_either_batch(tmp_path):
    for number, leads in enumerate((EMOTION_FIRST_BATCH, EMOTION_SECOND_BATCH)):
        path = write_emotion(tmp_path / f"p{number}.npz", leads=leads)
        session = next(open_source(f"{path}?track=emotion").sessions())
        assert tuple(lead.name for lead in session.leads) == EMOTION_SECOND_BATCH
        first = next(session.packets(10)).samples[0]
        np.testing.assert_array_equal(first, np.arange(32))


def test_a_subjects_first_blocks_train_and_the_rest_is_tested(tmp_path):
    prepare("mi", [SHORT["mi"]], tmp_path, KEY, split=Split("block", 1))
    session = next(open_source(SHORT["mi"]).sessions())
    trained = next(open_source(str(tmp_path / "train")).sessions())
    tested = next(open_source(str(tmp_path / "organiser")).sessions())
    assert [*trained.block_triggers(), *tested.block_triggers()] == list(session.block_triggers())


def test_persons_are_split_by_the_key_and_none_is_in_both(tmp_path):
    uri = "synthetic:erp?subjects=3&trials=1"
    prepare("erp", [uri], tmp_path, KEY, split=Split("person", 1))
    train = {path.stem.split("_")[-1] for path in (tmp_path / "train").iterdir()}
    test = {path.stem.split("_")[-1] for path in (tmp_path / "test").iterdir()}
    assert (len(train), len(test), train & test) == (1, 2, set())


def test_ecogs_angles_are_split_with_their_blocks(tmp_path):
    prepare("ecog", [SHORT["ecog"]], tmp_path, KEY, split=Split("block", 1))
    session = next(open_source(SHORT["ecog"]).sessions())
    train = load(next((tmp_path / "train").iterdir()))["angles"]
    test = load(next((tmp_path / "organiser").glob("*.npz")))["angles"]
    np.testing.assert_array_equal(np.concatenate([train, test]), session.angles)
    first = session.block_triggers()[0][0]
    assert len(train) == first * 200 // 1000


@pytest.mark.parametrize(
    ("split", "message"),
    [(Split("block", 2), "can't train"), (Split("person", 1), "some must be tested")],
)
def test_a_split_that_leaves_nothing_to_test_is_refused(split, message, tmp_path):
    with pytest.raises(SourceError, match=message):
        prepare("mi", [SHORT["mi"]], tmp_path, KEY, split=split)


def test_an_empty_key_is_refused(tmp_path):
    with pytest.raises(SourceError, match="key"):
        prepare("mi", [SHORT["mi"]], tmp_path, b"")


ERP3 = "synthetic:erp?subjects=3&trials=1"


def files_in(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def persons_in(folder):
    return {path.stem.split("_")[-1] for path in folder.glob("*.npz")}


def test_a_folder_that_holds_sets_is_not_written_to_again_unasked(tmp_path):
    out = tmp_path / "set"
    prepare("erp", [ERP3], out, KEY, split=Split("person", 2))
    before = files_in(out)
    with pytest.raises(SourceError, match=r"holds sets already \(train/.*--overwrite"):
        prepare("erp", [ERP3], out, KEY, split=Split("person", 1))
    assert files_in(out) == before


def test_labels_of_a_person_who_trained_before_are_removed_when_they_are_tested(tmp_path):
    out, fresh = tmp_path / "set", tmp_path / "fresh"
    prepare("erp", [ERP3], out, KEY, split=Split("person", 2))
    prepare("erp", [ERP3], out, KEY, split=Split("person", 1), overwrite=True)
    prepare("erp", [ERP3], fresh, KEY, split=Split("person", 1))
    assert not persons_in(out / "train") & persons_in(out / "test")
    assert files_in(out) == files_in(fresh)


def test_what_an_unfinished_older_prepare_left_is_found_without_a_manifest(tmp_path):
    left = tmp_path / "set" / "train" / "mi_train_S1.npz"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"labels")
    with pytest.raises(SourceError, match="holds sets already"):
        prepare("erp", [SHORT["erp"]], tmp_path / "set", KEY)
    prepare("erp", [SHORT["erp"]], tmp_path / "set", KEY, overwrite=True)
    assert not left.parent.exists()


def test_overwriting_takes_nothing_that_is_not_ours(tmp_path):
    out = tmp_path / "set"
    prepare("erp", [SHORT["erp"]], out, KEY)
    others = {"README.md": b"mine", "test/notes.txt": b"mine too", "train/S1.edf": b"recording"}
    for name, content in others.items():
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_bytes(content)
    prepare("erp", [SHORT["erp"]], out, KEY, overwrite=True)
    assert others.items() <= files_in(out).items()


def test_another_ones_manifest_is_never_replaced(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "a web page"}')
    with pytest.raises(SourceError, match=r"manifest\.json was not made by `prepare`"):
        prepare("erp", [SHORT["erp"]], tmp_path, KEY, overwrite=True)


def test_recordings_are_never_removed_as_sets_of_their_own(tmp_path):
    prepare("erp", [ERP3], tmp_path / "set", KEY, split=Split("person", 2))
    before = files_in(tmp_path / "set")
    for source in ("set", "set/train", "set/train?files=subjects"):
        with pytest.raises(SourceError, match="is in a folder of the sets"):
            prepare("erp", [str(tmp_path / source)], tmp_path / "set", KEY, overwrite=True)
    assert files_in(tmp_path / "set") == before


def test_a_prepare_that_fails_midway_leaves_everything_as_it_was(tmp_path):
    good = write_emotion(tmp_path / "p1.npz")
    bad = write_emotion(tmp_path / "p2.npz", clips=())
    prepare("emotion", [str(good)], tmp_path / "set", KEY)
    before = files_in(tmp_path)
    for out, overwrite in (("set", True), ("new", False)):
        with pytest.raises(SourceError, match=r"p2\.npz, subject p2: "):
            prepare("emotion", [str(good), str(bad)], tmp_path / out, KEY, overwrite=overwrite)
    assert files_in(tmp_path) == before
    assert not (tmp_path / "new").exists()


def test_a_file_that_can_not_take_its_place_puts_the_old_sets_back(tmp_path):
    out = tmp_path / "set"
    prepare("erp", [SHORT["erp"]], out, KEY)
    shutil.rmtree(out / "test")
    (out / "test").write_text("a file where a folder should be")
    before = files_in(tmp_path)
    with pytest.raises(OSError, match="set"):
        prepare("erp", [SHORT["erp"]], out, KEY, overwrite=True)
    assert files_in(tmp_path) == before


def test_a_recording_of_another_track_is_named(tmp_path):
    path = tmp_path / "erp.npz"
    prepare("erp", [SHORT["erp"]], tmp_path / "set", KEY)
    next((tmp_path / "set" / "organiser").glob("*.npz")).rename(path)
    with pytest.raises(SourceError, match=r"erp\.npz, subject S\d+: .*(expected|no label)"):
        prepare("mi", [f"{path}"], tmp_path / "other", KEY)


def test_a_subject_whose_set_could_not_be_read_back_is_refused(tmp_path):
    path = write_emotion(tmp_path / "person [1].npz")
    with pytest.raises(SourceError, match=r"got 'person \[1\]'; rename it"):
        prepare("emotion", [str(path)], tmp_path / "set", KEY)
    prepare("emotion", [f"{path}?subject=S01"], tmp_path / "set", KEY)
