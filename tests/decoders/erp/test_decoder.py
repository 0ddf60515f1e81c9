"""The erp decoder spells without training, in time, and with any layout."""

from pathlib import Path

import numpy as np
import pytest

from bci_stream.errors import RuleError
from bci_stream.packet import Lead, SignalInfo
from decoders.erp import training
from decoders.erp.decoder import BayesDecoder
from decoders.erp.flashes import FlashFeatures, choose_leads
from decoders.erp.references import XdawnLda, xdawn_lda
from decoders.model import ModelError, load_model, save_model
from decoders.offline import run_offline
from tests.decoders.laws import CAUSAL, broken
from tracks.common.leads import NEUSEN_64, NEUSEN_64_KINDS

pytestmark = pytest.mark.slow

ROWS_AND_COLUMNS = (
    *("ABCDEF", "GHIJKL", "MNOPQR", "STUVWX", "YZ1234", "56789_"),
    *("AGMSY5", "BHNTZ6", "CIOU17", "DJPV28", "EKQW39", "FLRX4_"),
)


def quiet(_text: str) -> None:
    pass


def test_it_spells_without_training_and_faster_as_it_learns(erp_session) -> None:
    session = erp_session(text="BRAIN_SIGNAL", amplitude_uv=6.0)
    outcome = run_offline("erp", BayesDecoder(), [session])
    verdicts = outcome.run.verdicts()
    assert [v.right[0] for v in verdicts].count(True) >= 11
    used = [v.answers[0].when for v in verdicts]
    assert np.mean(used[-4:]) < np.mean(used[:2])
    assert not outcome.run.refusals()


def test_every_report_comes_before_the_next_sequence_counts(erp_session) -> None:
    """Made at the end of a sequence: at most two of the next one's flashes have been seen by then."""
    outcome = run_offline("erp", BayesDecoder(), [erp_session(text="HELLO")])
    flashes = 0
    reports = 0
    for event in outcome.events:
        for _, code in event.get("triggers", ()):
            flashes = flashes + 1 if 1 <= code <= 12 else 0 if code == 101 else flashes
        if event["kind"] == "report":
            reports += 1
            assert flashes % 12 <= 2
            assert flashes >= 12
    assert reports == 5


def test_rows_and_columns_work_as_well(erp_session) -> None:
    session = erp_session(text="T3OF", groups=ROWS_AND_COLUMNS, seed=4)
    outcome = run_offline("erp", BayesDecoder(groups=ROWS_AND_COLUMNS), [session])
    assert [v.right[0] for v in outcome.run.verdicts()].count(True) >= 3


def test_training_on_others_helps_a_weak_subject(erp_session) -> None:
    others = [erp_session(text="TRAINING", seed=s, subject=f"S{s}") for s in (10, 11)]
    model = training.fit(others, seed=0, progress=quiet)
    weak = erp_session(text="QUICKFOX", seed=5, amplitude_uv=6.0)
    trained = run_offline("erp", BayesDecoder(model=model), [weak])
    untrained = run_offline("erp", BayesDecoder(), [weak])
    assert trained.score > untrained.score


def test_what_one_subject_showed_helps_the_next(erp_session) -> None:
    first = erp_session(text="FIRSTSUBJECT", seed=10)
    weak = erp_session(text="QUICKFOX", seed=5, amplitude_uv=6.0, subject="S2")
    after = run_offline("erp", BayesDecoder(), [first, weak]).result["sessions"][1]["score"]
    alone = run_offline("erp", BayesDecoder(), [weak]).score
    assert after > alone


def test_without_early_stopping_every_report_waits_for_the_last_sequence(erp_session) -> None:
    outcome = run_offline(
        "erp", BayesDecoder(max_sequences=3, early=False), [erp_session(text="HELLO")]
    )
    assert {v.answers[0].when for v in outcome.run.verdicts()} == {3}


def test_with_others_template_it_keeps_the_laws(erp_session) -> None:
    model = training.fit([erp_session(text="AB")], seed=0, progress=quiet)
    session = erp_session(text="CD", seed=2)
    assert broken("erp", lambda: BayesDecoder(model=model), session, CAUSAL) == []


def test_a_model_survives_its_file(erp_session, tmp_path: Path) -> None:
    model = training.fit([erp_session(text="AB")], seed=0, progress=quiet)
    save_model(model, tmp_path / "erp.model")
    again = load_model(tmp_path / "erp.model")
    test = erp_session(text="XY", seed=7)
    one = run_offline("erp", BayesDecoder(model=model), [test])
    other = run_offline("erp", BayesDecoder(model=again), [test])
    assert one.events == other.events


def test_a_spoilt_model_is_refused_with_one_of_our_errors(erp_session, spoilt_models) -> None:
    model = training.fit([erp_session(text="AB")], seed=0, progress=quiet)
    refused = 0
    for _, wrong in spoilt_models(model):
        try:
            BayesDecoder(model=wrong)
        except (ModelError, RuleError):
            refused += 1
    assert refused >= 12


def test_the_reference_spells_when_trained(erp_session) -> None:
    model = XdawnLda.fit([erp_session(text="TRAINING")], seed=0, progress=quiet)
    outcome = run_offline("erp", XdawnLda(model=model), [erp_session(text="HELLO", seed=3)])
    assert [v.right[0] for v in outcome.run.verdicts()].count(True) >= 4
    with pytest.raises(ModelError, match="needs a model"):
        XdawnLda()


def test_it_looks_at_known_leads_of_many_and_at_no_eye() -> None:
    leads = [Lead(name, NEUSEN_64_KINDS.get(name, "EEG")) for name in NEUSEN_64]
    chosen = [leads[place].name for place in choose_leads(leads)]
    assert len(chosen) == 20
    assert {"Cz", "Pz", "PO7", "PO8"} <= set(chosen)
    unnamed = [Lead(f"ch{k}") for k in range(64)]
    assert len(choose_leads(unnamed)) == 20
    few = [Lead("A"), Lead("ECG", "ECG"), Lead("B")]
    assert choose_leads(few) == [0, 2]


def test_white_features_have_unit_noise(erp_session) -> None:
    session = erp_session(text="ABC", amplitude_uv=0.0)
    features = FlashFeatures(SignalInfo("erp", "S", session.rate, session.leads, 5))
    found = []
    for packet in session.packets(125):
        found += features.feed(packet.samples, 0)
    white = np.array([vector for _, vector in found[20:]]) @ features.whitener().T
    assert np.std(white) == pytest.approx(1, abs=0.15)


def test_the_reference_learns_from_live_leads_where_one_recorded_nothing() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 6 == 0
    vectors = rng.normal(size=(120, 5, 4)) + labels[:, None, None]
    vectors[:, :, 2] = 0
    weights, _, energy = xdawn_lda(vectors.reshape(120, -1), labels, 4)
    assert np.isfinite(weights).all()
    assert (weights.reshape(5, 4)[:, 2] == 0).all()
    assert energy > 1
