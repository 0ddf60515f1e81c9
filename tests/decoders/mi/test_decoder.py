"""The mi decoder learns from blocks, reports at the last valid packet, and survives dead leads."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.errors import TruthError
from bci_stream.packet import Lead, SignalInfo
from decoders.mi import training
from decoders.mi.decoder import MiDecoder
from decoders.mi.model import MiModels
from decoders.mi.references import CspLda, Mdm, TangentSpaceLr, TangentSpaceSvm
from decoders.mi.trials import Windows
from decoders.model import Model, ModelError
from decoders.offline import run_offline
from replay.model.recording import ArrayBlock, Recording

pytestmark = pytest.mark.slow


def quiet(_text: str) -> None:
    pass


@pytest.fixture(scope="module")
def model(mi_session) -> Model:
    return training.fit([mi_session(blocks=2, seed=1)], seed=0, progress=quiet)


def shares(outcome) -> list[float]:
    verdicts = outcome.run.verdicts()
    return [float(np.mean([v.right[k] for v in verdicts])) for k in range(3)]


def test_it_decodes_what_it_was_trained_on(mi_session, model: Model) -> None:
    outcome = run_offline("mi", MiDecoder(model=model), [mi_session(blocks=1, trials=18, seed=2)])
    assert min(shares(outcome)) >= 0.8
    assert not outcome.run.refusals()


def test_a_gain_that_changed_since_training_is_recentred(mi_session, model: Model) -> None:
    louder = mi_session(blocks=1, trials=18, seed=2, gain=3.0)
    assert max(shares(run_offline("mi", MiDecoder(model=model), [louder]))) >= 0.8


def test_a_subjects_next_session_goes_on_from_its_last(mi_session, model: Model) -> None:
    """Two recordings of one person are re-centred as one of two blocks; another person's are not."""
    whole = mi_session(blocks=2, trials=4, seed=2, gain=3.0)
    parts = [replace(whole, blocks=[block]) for block in whole.blocks]
    other = replace(parts[1], subject="S2")

    def reported(*sessions: Recording) -> list[object]:
        events = run_offline("mi", MiDecoder(model=model), sessions).events
        return [event["result"] for event in events if event["kind"] == "report"]

    assert reported(*parts) == reported(whole)
    assert reported(parts[0], other)[12:] == reported(other)


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_dead_leads_cost_little(mi_session, model: Model, value: float) -> None:
    session = mi_session(blocks=1, trials=18, seed=2)
    data = session.blocks[0].data.copy()
    data[:, [0, 6]] = value
    dead = replace(session, blocks=[ArrayBlock(data, session.blocks[0].triggers)])
    assert max(shares(run_offline("mi", MiDecoder(model=model), [dead]))) >= 0.75


def test_missing_leads_cost_little(mi_session, model: Model) -> None:
    session = mi_session(blocks=1, trials=18, seed=2)
    data = np.ascontiguousarray(session.blocks[0].data[:, 1:])
    fewer = replace(
        session, leads=session.leads[1:], blocks=[ArrayBlock(data, session.blocks[0].triggers)]
    )
    assert max(shares(run_offline("mi", MiDecoder(model=model), [fewer]))) >= 0.75


def test_without_a_model_it_still_beats_chance(mi_session) -> None:
    outcome = run_offline("mi", MiDecoder(), [mi_session(blocks=1, trials=24, seed=3)])
    assert max(shares(outcome)) >= 0.5


def test_a_known_subject_has_its_own_part_and_an_unknown_one_the_general(mi_session) -> None:
    people = [mi_session(blocks=1, seed=s, subject=f"S{s}") for s in (1, 2)]
    both = training.fit(people, seed=0, progress=quiet)
    assert both.settings["subjects"] == ["S1", "S2"]
    general, first, second = both.array("weights")
    assert not np.allclose(first, second)
    models = MiModels.of(both)
    assert np.array_equal(models.model_of("S2").weights, second)
    assert np.array_equal(models.model_of("S3").weights, general)


def only_classes(session: Recording, classes: tuple[int, ...]) -> Recording:
    """The trials of some classes only."""
    blocks = []
    for block in session.blocks:
        kept, inside = [], True
        for place, code in block.triggers:
            if 11 <= code <= 33:
                inside = code // 10 in classes
            if inside or code == 242:
                kept.append((place, code))
        blocks.append(ArrayBlock(block.data, tuple(kept)))
    return replace(session, blocks=blocks)


@pytest.mark.parametrize("classes", [(1, 2), (2, 3)])
def test_two_classes_are_enough(mi_session, classes: tuple[int, ...]) -> None:
    training_session = only_classes(mi_session(blocks=1, seed=1), classes)
    test = only_classes(mi_session(blocks=1, trials=18, seed=2), classes)
    for fit, decoder in (
        (training.fit, MiDecoder),
        (Mdm.fit, Mdm),
        (TangentSpaceSvm.fit, TangentSpaceSvm),
    ):
        trained = fit([training_session], seed=0, progress=quiet)
        outcome = run_offline("mi", decoder(model=trained), [test])
        reported = {event["result"] for event in outcome.events if event["kind"] == "report"}
        assert reported <= set(classes)
        assert max(shares(outcome)) >= 0.8


def test_a_model_of_an_older_version_still_works(mi_session, model: Model) -> None:
    """Without classes and bounds in it: three classes, nothing is bounded."""
    arrays = {name: value for name, value in model.arrays.items() if name != "bounds"}
    settings = {name: value for name, value in model.settings.items() if name != "classes"}
    older = replace(model, arrays=arrays, settings=settings)
    outcome = run_offline("mi", MiDecoder(model=older), [mi_session(blocks=1, trials=9, seed=2)])
    assert min(shares(outcome)) >= 0.7


def test_an_artefact_is_bounded(mi_session, model: Model) -> None:
    """A lead that jumps by millivolts in a trial costs no certainty that is not there."""
    found: list[np.ndarray] = []
    decoder = MiDecoder(model=model, watch=lambda _number, scores: found.append(scores))
    session = mi_session(blocks=1, trials=9, seed=2)
    data = session.blocks[0].data.copy()
    data[:, 2] *= 1000
    run_offline(
        "mi", decoder, [replace(session, blocks=[ArrayBlock(data, session.blocks[0].triggers)])]
    )
    part = MiModels.of(model).general
    most = (part.bounds[:, None] * np.linalg.norm(part.weights, axis=-1)).sum(axis=0).max()
    assert min(float(scores.min()) for scores in found) > -2 * most - np.log(3)


@pytest.mark.parametrize(
    ("names", "used"),
    [
        (["C3", "Cz", "C4"], 3),
        (["Pz", "Cz", "T6", "C4", "C3", "F3"], 6),  # few motor leads: all
        ([f"{row}{k}" for row in ("FC", "C", "CP", "F", "P") for k in range(1, 7)], 18),
        ([f"X{k}" for k in range(64)], 24),
    ],
)
def test_all_leads_are_used_where_few_are_over_the_motor_cortex(
    names: list[str], used: int
) -> None:
    leads = training.training_leads([[Lead(name) for name in names]])
    assert len(leads) == used
    assert [name for name in map(str.upper, names) if name in leads] == list(leads)


@pytest.mark.parametrize("reference", [CspLda, Mdm, TangentSpaceLr, TangentSpaceSvm])
def test_references_decode_too(mi_session, reference) -> None:
    trained = reference.fit([mi_session(blocks=2, seed=1)], seed=0, progress=quiet)
    session = mi_session(blocks=1, trials=18, seed=2)
    outcome = run_offline("mi", reference(model=trained), [session])
    assert max(shares(outcome)) >= 0.6
    with pytest.raises(ModelError, match="needs a model"):
        reference()


def test_runs_of_single_classes_train_as_one_session(mi_session, model: Model) -> None:
    """Feet recorded in a run of their own: seen from its own mean, the run would show nothing."""
    session = mi_session(blocks=1, trials=24, seed=1)
    block = session.blocks[0]
    runs = []
    for classes in ((1, 2), (3,)):
        keep = [(p, c) for p, c in block.triggers if c // 10 in classes or c == 242]
        runs.append(replace(session, blocks=[ArrayBlock(block.data, tuple(keep))]))
    split = training.fit(runs, seed=0, progress=quiet)
    outcome = run_offline("mi", MiDecoder(model=split), [mi_session(blocks=1, trials=18, seed=2)])
    assert max(shares(outcome)) >= 0.8


def test_training_needs_every_class(mi_session) -> None:
    session = mi_session(blocks=1, trials=6)
    block = session.blocks[0]
    left_only = [(p, code) for p, code in block.triggers if code // 10 in (1, 24)]
    with pytest.raises(TruthError, match=r"got left 2, right 0, feet 0"):
        training.fit(
            [replace(session, blocks=[ArrayBlock(block.data, tuple(left_only))])],
            seed=0,
            progress=quiet,
        )


@settings(max_examples=60, deadline=None)
@given(
    offset=st.integers(0, 39),
    rate_and_packet=st.sampled_from(
        [(1000, 40), (160, 6), (250, 10), (256, 10), (128, 5), (200, 8)]
    ),
)
def test_reports_are_valid_wherever_the_trigger_falls(
    offset: int, rate_and_packet: tuple[int, int]
) -> None:
    """The judge finds all three in time: none too late, none missing."""
    rate, packet = rate_and_packet
    start = 20 * packet + offset % packet
    codes = [(start, 11), (start + 2 * rate, 12), (start + 3 * rate, 13), (start + 4 * rate, 241)]
    data = np.random.default_rng(0).normal(0, 10, (start + 5 * rate, 3)).astype(np.float32)
    leads = (Lead("C3"), Lead("Cz"), Lead("C4"))
    session = Recording("S", float(rate), leads, [ArrayBlock(data, ((0, 242), *codes))])
    outcome = run_offline("mi", MiDecoder(), [session])
    (verdict,) = outcome.run.verdicts()
    assert len(verdict.answers) == 3
    causes = {answer.reason.cause.code for answer in verdict.answers if answer.reason is not None}
    assert causes <= {"wrong_class"}
    used = [answer.when for answer in verdict.answers]
    for k, limit_s in enumerate((2, 3, 4)):  # and not a packet too early
        assert used[k] > limit_s - (2.001 if k == 2 else 1.001) * packet / rate


def test_windows_are_as_long_as_the_rules_allow() -> None:
    windows = Windows.of(SignalInfo("mi", "S", 1000.0, (), 40))
    assert windows.ends == (2000, 3000, 3961)


def test_a_model_with_anything_wrong_is_refused_at_once(model: Model, spoilt_models) -> None:
    """None may fail later, in the middle of a run; `bands_hz` is there for people to read."""
    for name, wrong in spoilt_models(model):
        if name.startswith("setting bands_hz"):
            continue
        with pytest.raises(ModelError, match="Train it again"):
            pytest.fail(f"taken: {name}, {MiDecoder(model=wrong)}")


@pytest.mark.parametrize("reference", [CspLda, Mdm, TangentSpaceLr, TangentSpaceSvm])
def test_a_references_model_with_anything_wrong_is_refused_at_once(
    mi_session, spoilt_models, reference
) -> None:
    trained = reference.fit([mi_session(blocks=1, seed=1)], seed=0, progress=quiet)
    for name, wrong in spoilt_models(trained):
        with pytest.raises(ModelError, match="Train it again"):
            pytest.fail(f"taken: {name}, {reference(model=wrong)}")
