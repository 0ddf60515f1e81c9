"""The source: what a URI's parameters do, determinism, one block in memory at a time."""

import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.model.recording import Recording
from replay.synthetic.registry import open_synthetic, recording_sets
from replay.synthetic.source import SyntheticSource
from tracks.registry import BUILT_IN, TRACKS

SHORT: dict[str, dict[str, str]] = {
    "mi": {"blocks": "2", "trials": "2"},
    "turing": {"blocks": "2", "trials": "2"},
    "emotion": {"blocks": "2", "pace": "0.02"},
    "ecog": {"blocks": "2", "trials": "1", "seconds": "6"},
    "erp": {"blocks": "2", "trials": "1"},
}
ALL_SETS = [(track, name) for track in BUILT_IN for name in recording_sets(track)]


def short(track: str, name: str = "test", **params: str) -> SyntheticSource:
    return open_synthetic(track, {"set": name, **SHORT[track], **params})


def samples(session: Recording) -> list[np.ndarray]:
    return [block.read(0, block.n_samples) for block in session.blocks]


@pytest.mark.parametrize(("track", "name"), ALL_SETS)
def test_the_same_uri_gives_the_same_recording_bit_for_bit(track: str, name: str) -> None:
    first, again = (next(short(track, name, seed="7").sessions()) for _ in range(2))
    assert first.block_triggers() == again.block_triggers()
    for a, b in zip(samples(first), samples(again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_block_does_not_depend_on_which_was_read_before() -> None:
    forward, backward = (next(short("erp").sessions()) for _ in range(2))
    expected = samples(forward)
    got = [block.read(0, block.n_samples) for block in reversed(backward.blocks)][::-1]
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_subject_does_not_depend_on_who_came_before() -> None:
    second = list(short("erp", subjects="2").sessions())[1]
    alone = next(short("erp", subjects="1", first_subject="102").sessions())
    assert second.subject == alone.subject == "S102"
    np.testing.assert_array_equal(samples(second)[0], samples(alone)[0])


@pytest.mark.parametrize("change", [{"seed": "8"}, {"first_subject": "5"}, {"difficulty": "0.9"}])
def test_another_seed_subject_or_difficulty_gives_another_signal(change: dict[str, str]) -> None:
    one, other = (next(short("erp", **params).sessions()) for params in ({}, change))
    assert not np.array_equal(samples(one)[0][:500], samples(other)[0][:500])


@pytest.mark.parametrize("track", BUILT_IN)
def test_leads_rate_and_kinds_are_the_tracks(track: str) -> None:

    rules = TRACKS[track]
    session = next(short(track).sessions())
    assert session.rate == rules.rate
    assert tuple(lead.name for lead in session.leads) == rules.leads
    for lead in session.leads:
        assert lead.kind == rules.lead_kinds.get(lead.name, "EEG")
        assert (lead.position is not None) == (lead.kind in ("EEG", "EOG"))


@pytest.mark.parametrize("track", BUILT_IN)
def test_samples_are_finite_float32_microvolts_c_contiguous(track: str) -> None:
    session = next(short(track).sessions())
    for packet in session.packets(session.blocks[0].n_samples // 3):
        assert packet.samples.dtype == np.float32
        assert packet.samples.flags.c_contiguous
        assert packet.samples.shape[1] == len(session.leads)
        assert np.isfinite(packet.samples).all()
        assert np.abs(packet.samples).max() < 5000


def test_one_block_at_a_time_lies_in_memory() -> None:
    session = next(short("erp").sessions())
    first, second = session.blocks
    kept = first.read(0, 5).base
    assert first.read(5, 9).base is kept
    second.read(0, 5)
    assert first.read(0, 5).base is not kept


def test_sets_share_people_where_the_document_trains_on_the_tested() -> None:
    def people(track: str, name: str) -> list[str]:
        return [session.subject for session in short(track, name).sessions()]

    assert people("mi", "train") == people("mi", "test") == ["S01", "S02"]
    assert people("turing", "train") == people("turing", "test")
    assert people("ecog", "calibration") == people("ecog", "test") == ["S02", "S03"]
    assert people("ecog", "train") == ["S01"]
    assert not set(people("emotion", "train")) & set(people("emotion", "test"))
    assert not set(people("erp", "train")) & set(people("erp", "test"))


def test_emotions_first_batch_has_its_own_names_and_order_for_the_same_places() -> None:
    from tracks.common.leads import EMOTION_FIRST_BATCH, OLD_NAMES

    first, second = (next(short("emotion", batch=batch).sessions()) for batch in "12")
    assert tuple(lead.name for lead in first.leads) == EMOTION_FIRST_BATCH
    names = [OLD_NAMES.get(name, name) for name in EMOTION_FIRST_BATCH]
    order = [names.index(lead.name) for lead in second.leads]
    places = [first.leads[i].position for i in order]
    assert places == [lead.position for lead in second.leads]


@pytest.mark.parametrize(
    ("track", "params", "words"),
    [
        ("p300", {}, ["p300", "mi, turing, emotion, ecog, erp"]),
        ("erp", {"set": "final"}, ["set", "train, test", "final"]),
        ("erp", {"colour": "red"}, ["colour", "subjects", "trials", "difficulty"]),
        ("turing", {"set": "train", "rounds": "3"}, ["rounds", "blocks"]),
        ("mi", {"blocks": "none"}, ["blocks", "whole number", "none"]),
        ("mi", {"blocks": "1.5"}, ["blocks", "whole number", "1.5"]),
        ("mi", {"trials": "0"}, ["trials", "1 to 1000", "0"]),
        ("mi", {"difficulty": "nan"}, ["difficulty", "0.0 to 1.0", "nan"]),
        ("emotion", {"pace": "2"}, ["pace", "0.02 to 1.0"]),
        ("ecog", {"seconds": ""}, ["seconds", "a number"]),
    ],
)
def test_a_wrong_parameter_is_named_with_what_is_allowed(
    track: str, params: dict[str, str], words: list[str]
) -> None:
    with pytest.raises(SourceError) as caught:
        open_synthetic(track, params)
    for word in words:
        assert word in str(caught.value)


def test_the_uri_says_what_was_asked_for() -> None:
    source = open_synthetic("erp", {"subjects": "1", "seed": "7"})
    assert (source.uri, source.track, source.live) == (
        "synthetic:erp?subjects=1&seed=7",
        "erp",
        False,
    )
