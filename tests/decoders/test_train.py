"""Training leaves a model with its figure, earned on what was left out, and where it came from."""

from pathlib import Path

import numpy as np
import pytest

from bci_stream.errors import SourceError
from decoders.model import load_model
from decoders.offline import run_offline
from decoders.registry import DECODERS, DecoderError, load
from decoders.session_part import SessionPart
from decoders.train import MAX_FOLDS, TRAINERS, left_out, train, trainer
from replay.recording import ArrayBlock, Recording


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch):
    """Sessions by name, where URIs are opened."""
    sessions: dict[str, list[Recording]] = {}

    class Source:
        live, track = False, None

        def __init__(self, uri: str) -> None:
            self.uri = uri

        def sessions(self):
            return iter(sessions[self.uri])

        def close(self) -> None:
            pass

    monkeypatch.setattr("decoders.train.open_source", Source)
    return sessions


def test_a_model_is_trained_validated_and_decodes(opened, mi_session, tmp_path: Path) -> None:
    opened["train"] = [mi_session(blocks=2, trials=12, seed=1)]
    seen: list[tuple[float, str]] = []
    trained = train(
        "mi", ["train"], tmp_path / "m.model", seed=5, progress=lambda s, t: seen.append((s, t))
    )
    assert len(trained.figure.folds) == 2
    assert trained.figure.score == pytest.approx(np.mean(trained.figure.folds))
    assert trained.figure.score > 5
    shares = [share for share, _ in seen]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    model = load_model(tmp_path / "m.model")
    assert model.provenance["data"] == ["train"]
    assert model.provenance["seed"] == 5
    assert "bits/min" in str(model.provenance["figure"])
    assert "numpy" in model.provenance["versions"]
    decoder = load("mi-riemann", "mi", tmp_path / "m.model")
    assert run_offline("mi", decoder, [mi_session(blocks=1, trials=12, seed=9)]).score > 5


def test_the_figure_is_of_data_that_training_never_saw(opened, mi_session, tmp_path: Path) -> None:
    """Labels that mean nothing give a figure of nothing, however well training fits them."""
    session = mi_session(blocks=2, trials=12, seed=1, depth=0.0)
    opened["noise"] = [session]
    assert train("mi", ["noise"], tmp_path / "m.model").figure.score < 4


def test_people_are_left_out_where_the_track_tests_on_others(erp_session) -> None:
    people = [erp_session(text="A", subject=name) for name in ("S1", "S2", "S3")]
    folds, note = left_out("erp", people)
    assert [fold.name for fold in folds] == ["S1", "S2", "S3"]
    assert all(fold.name not in {s.subject for s in fold.training} for fold in folds)
    assert note == "a person left out"


def test_blocks_are_left_out_in_at_most_five_parts(mi_session) -> None:
    sessions = [mi_session(blocks=4, trials=3), mi_session(blocks=3, trials=3)]
    folds, _ = left_out("mi", sessions)
    assert len(folds) == MAX_FOLDS
    tested = [(s.whole, b) for fold in folds for s in fold.test for b in s.kept]
    assert len(tested) == 7
    for fold in folds:
        kept = sum(len(s.kept) for s in fold.training)
        assert kept + sum(len(s.kept) for s in fold.test) == 7


def test_one_block_has_no_figure_and_says_so(opened, mi_session, tmp_path: Path) -> None:
    opened["one"] = [mi_session(blocks=1, trials=6)]
    figure = train("mi", ["one"], tmp_path / "m.model").figure
    assert figure.score is None
    assert "nothing can be left out" in str(figure)


def test_what_can_not_be_trained_is_said(opened, tmp_path: Path) -> None:
    opened["empty"] = []
    with pytest.raises(DecoderError, match="can't be trained"):
        train("mi", ["empty"], tmp_path / "m", decoder="mi-chance")
    with pytest.raises(SourceError, match="no session"):
        train("mi", ["empty"], tmp_path / "m")


@pytest.mark.parametrize("name", sorted(TRAINERS))
def test_every_trainer_is_there(name: str) -> None:
    assert name in DECODERS
    assert callable(trainer(name))


def test_a_part_of_a_session_is_its_blocks_renumbered() -> None:
    blocks = [
        ArrayBlock(np.full((10 * (k + 1), 2), k, dtype=np.float32), ((k, 242),)) for k in range(3)
    ]
    angles = np.arange(12.0)[:, None] * np.ones(8)
    whole = Recording("S", 1000.0, (), blocks, angles)
    part = SessionPart(whole, (0, 2))
    assert part.n_samples == 40
    packets = list(part.packets(15))
    assert [(p.block, p.start, len(p.samples)) for p in packets] == [
        (0, 0, 10),
        (1, 0, 15),
        (1, 15, 15),
    ]
    assert part.block_triggers() == [(10, ((0, 242),)), (30, ((2, 242),))]
    assert part.angles is not None
    assert part.angles[:, 0].tolist() == [0, 1, 6, 7, 8, 9, 10, 11]
