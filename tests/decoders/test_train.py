"""Training leaves a model with its figure, earned on what was left out, and where it came from."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bci_stream.errors import SourceError
from decoders.chance import MiChance
from decoders.decoder import DecoderError
from decoders.folds import MAX_FOLDS, SessionPart, judged_together, left_out
from decoders.model import ModelError, load_model
from decoders.offline import run_offline
from decoders.registry import DECODERS, find_trainer, load
from decoders.train import train
from replay.model.options import SourceOptions
from replay.model.recording import ArrayBlock, Recording
from tracks.common.trials import itr_bits_per_min as itr

pytestmark = pytest.mark.slow


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch):
    """Sessions by name, where URIs are opened."""
    sessions: dict[str, list[Recording]] = {}

    class Source:
        live, track = False, None

        def __init__(self, uri: str, options: SourceOptions) -> None:
            self.uri = uri
            assert options.track

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
    assert min(trained.figure.folds) <= trained.figure.score <= max(trained.figure.folds)
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


def test_of_many_people_a_fifth_is_left_out_at_a_time(erp_session) -> None:
    session = erp_session(text="A")
    people = [replace(session, subject=f"S{number:02d}") for number in range(12)]
    folds, note = left_out("emotion", people)
    assert note == "1/5 of the people left out"
    assert sorted(s.subject for fold in folds for s in fold.test) == [p.subject for p in people]
    for fold in folds:
        assert len(fold.training) + len(fold.test) == 12
        assert not {s.subject for s in fold.training} & {s.subject for s in fold.test}


def test_blocks_are_left_out_in_at_most_five_parts(mi_session) -> None:
    sessions = [mi_session(blocks=4, trials=3), mi_session(blocks=3, trials=3)]
    folds, _ = left_out("mi", sessions)
    assert len(folds) == MAX_FOLDS
    tested = [(s.whole, b) for fold in folds for s in fold.test for b in s.kept]
    assert len(tested) == 7
    for fold in folds:
        kept = sum(len(s.kept) for s in fold.training)
        assert kept + sum(len(s.kept) for s in fold.test) == 7


def one_class(session: Recording, *classes: int) -> Recording:
    block = session.blocks[0]
    kept = [(at, code) for at, code in block.triggers if code // 10 in classes or code == 242]
    return replace(session, blocks=[ArrayBlock(block.data, tuple(kept))])


def test_runs_of_single_classes_are_left_out_together(opened, mi_session, tmp_path: Path) -> None:
    """As public recordings have them: hands in one file, feet in the next."""
    runs = [
        one_class(mi_session(blocks=1, trials=12, seed=seed), *classes)
        for seed in (1, 2)
        for classes in ((1, 2), (3,))
    ]
    folds, note = left_out("mi", runs)
    assert [[s.whole for s in fold.test] for fold in folds] == [runs[:2], runs[2:]]
    assert note == "blocks that make up all classes left out"
    opened["runs"] = runs
    figure = train("mi", ["runs"], tmp_path / "m.model").figure
    assert figure.score > 5
    assert min(figure.folds) <= figure.score <= max(figure.folds)
    assert left_out("mi", runs[:2]) == (
        [],
        "one set of all classes of one person: nothing can be left out",
    )


def test_what_was_left_out_is_judged_as_one_session(mi_session) -> None:
    """Two blocks one by one, or both in one session: the same trials give the same score."""
    session = mi_session(blocks=2, trials=9)
    parts = [run_offline("mi", MiChance(), [SessionPart(session, (k,))]) for k in (0, 1)]
    flags = [verdict.right for part in parts for verdict in part.run.verdicts()]
    shares = np.mean(flags, axis=0)
    expected = np.mean([itr(18 * p, 18, 3, t) for p, t in zip(shares, (2, 3, 4), strict=True)])
    assert judged_together(parts) == pytest.approx(expected)


def test_recordings_that_can_not_do_without_a_part_have_no_figure(
    opened, mi_session, tmp_path: Path
) -> None:
    people = [one_class(mi_session(blocks=1, trials=6), 1, 2, 3)]
    lonely = one_class(replace(mi_session(blocks=1, trials=6), subject="S2"), 1)
    opened["both"] = [*people, lonely]
    figure = train("mi", ["both"], tmp_path / "m.model").figure
    assert len(figure.folds) == 1
    assert "needs at least 2 trials of two or more classes" in figure.note


def test_one_block_has_no_figure_and_a_note(opened, mi_session, tmp_path: Path) -> None:
    opened["one"] = [mi_session(blocks=1, trials=6)]
    figure = train("mi", ["one"], tmp_path / "m.model").figure
    assert figure.score is None
    assert "nothing can be left out" in str(figure)


def test_what_can_not_be_trained_is_refused(opened, tmp_path: Path) -> None:
    opened["empty"] = []
    with pytest.raises(DecoderError, match="can't be trained"):
        train("mi", ["empty"], tmp_path / "m", decoder="mi-chance")
    with pytest.raises(SourceError, match="no session"):
        train("mi", ["empty"], tmp_path / "m")


@pytest.mark.parametrize("place", [".", "no_such_folder/mi.npz"])
def test_a_place_that_takes_no_model_is_refused_before_training(place: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="folder"):
        train("mi", ["no such recording either"], tmp_path / place)


@pytest.mark.parametrize("name", sorted(name for name, entry in DECODERS.items() if entry.trainer))
def test_every_trainer_is_there(name: str) -> None:
    assert name in DECODERS
    assert callable(find_trainer(name))


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
