"""`bci_stream.evaluate` and `score`: the figures of the command line, as tables and plots."""

import doctest
import json
import sys
import time
from pathlib import Path

import matplotlib as mpl
import pytest
from click.testing import CliRunner
from matplotlib import pyplot as plt

import bci_stream as bci
from bci_stream.errors import BciError, LogError, RuleError, SourceError
from bci_stream.judge.cli import main as judge
from decoders.decoder import DecoderError
from decoders.model import save_model
from decoders.notebook import evaluate as evaluate_module
from decoders.notebook import evaluation, recording, replaying
from decoders.train import cross_validate, figure_of, recipe_of
from replay.synthetic.registry import open_synthetic, write_recordings
from tracks.registry import TRACKS

ROOT = Path(__file__).parents[3]
SMALL = "synthetic:mi?subjects=1&blocks=1&trials=1"
AXES = {
    "turing": "data used (s)",
    "erp": "data used (sequences)",
    "emotion": "second of the block",
}
TRAINING = "synthetic:mi?subjects=1&blocks=1&trials=6&set=train"


@pytest.fixture(autouse=True)
def no_windows():
    with mpl.rc_context({"backend": "Agg"}):
        yield
    plt.close("all")


@pytest.fixture
def two(mi_session):
    """Two small sessions, six trials each."""
    return [mi_session(blocks=1, trials=6, seed=k, subject=f"S0{k}") for k in (1, 2)]


@pytest.fixture
def chance(two):
    return bci.evaluate("mi-chance", two, "mi", progress=False)


class NumpyAnswers:
    """Reports NumPy integers, which the wire carries as plain ones."""

    def start(self, info):
        self.seen = 0

    def step(self, packet):
        import numpy as np

        if any(code == 200 for _, code in packet.triggers):
            self.seen = 1
            return []
        self.seen += bool(self.seen)
        return [np.int64(2)] if self.seen in (20, 21, 22) else []


def test_scores_and_verdicts(chance) -> None:
    assert chance.track == "mi"
    assert [session["trials"] for session in chance.sessions] == [6, 6]
    assert chance.score == pytest.approx(sum(s["score"] for s in chance.sessions) / 2)
    assert len(chance.verdicts) == 12
    assert chance.accuracy() == sum(s["right"] for s in chance.sessions) / 36
    assert any("report 1" in line for line in chance.explain())
    assert "S02" in repr(chance)
    assert "<td>S02</td>" in chance._repr_html_()


def test_the_table_has_a_row_for_each_trial_or_report(chance) -> None:
    table = chance.table()
    assert len(table) == 12
    assert list(table.columns[:5]) == ["subject", "session", "block", "trial", "label"]
    wrong = table[table.counts == "wrong"]
    assert len(wrong)
    assert wrong.reason.str.contains("instead of").all()
    answers = chance.table(answers=True)
    assert len(answers) == 36
    assert answers.right.sum() == sum(session["right"] for session in chance.sessions)


def test_without_pandas_the_extra_is_named(chance, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(BciError, match=r"pip install bci-stream\[notebook\]"):
        chance.table()


@pytest.mark.parametrize("track", [track for track in TRACKS if track != "mi"])
def test_every_track_is_plotted(track) -> None:
    params = "&".join(f"{k}={v}" for k, v in TRACKS[track].sample_params.items())
    uri = f"synthetic:{track}?subjects=1&{params}"
    result = bci.evaluate(f"{track}-chance", uri, progress=False)
    axes = result.plot_trial(0)
    verdict = result.verdicts[0]
    assert axes.get_title(loc="left").startswith(f"{verdict.subject}, block 0, trial 0")
    if not TRACKS[track].classes:
        assert len(axes.lines) == 2 * len(TRACKS[track].traces.names)
        with pytest.raises(BciError, match="no classes to confuse"):
            result.plot_confusion()
        with pytest.raises(BciError, match="there is no accuracy"):
            result.plot_accuracy()
        return
    rows = [text.get_text() for text in axes.get_yticklabels()]
    assert verdict.label in rows
    own = plt.figure().add_subplot()
    assert result.plot_confusion(own) is own
    shown = {text.get_text() for text in own.get_yticklabels()}
    assert verdict.label in shown
    accuracy = result.plot_accuracy()
    assert accuracy.get_ylabel() == "accuracy"
    assert accuracy.get_xlabel() == AXES[track]
    if track == "erp":  # of some seventy triggers those of flashes are not named
        assert {text.get_text() for text in axes.texts} >= {" 200", " 241"}
        assert len(axes.texts) < 10


def test_the_time_line_has_triggers_and_reports(chance) -> None:
    axes = chance.plot_trial(0)
    assert {" 202", " 203"} <= {text.get_text() for text in axes.texts}
    drawn = [x for line in axes.lines if line.get_marker() == "o" for x in line.get_xdata()]
    assert sorted(drawn) == [answer.when for answer in chance.verdicts[0].answers]
    with pytest.raises(BciError, match="no trial 12; there are 0 to 11"):
        chance.plot_trial(12)


def test_a_saved_log_scores_the_same_here_and_on_the_command_line(chance, tmp_path) -> None:
    path = chance.save(tmp_path / "run.jsonl")
    again = bci.score(path)
    assert again.result == chance.result
    assert again.score == chance.score
    printed = CliRunner().invoke(judge, ["score", str(path), "--json"])
    assert json.loads(printed.stdout) == chance.result
    with pytest.raises(LogError, match="can't write the log"):
        chance.save(path)


def test_a_golden_log_is_scored_as_ever() -> None:
    golden = json.loads((ROOT / "tests/golden/expected.json").read_text())
    for name in ("mi-2", "erp-1", "ecog-1"):
        assert bci.score(ROOT / f"tests/golden/{name}.jsonl.gz").result["score"] == pytest.approx(
            _score(golden[name]), abs=1e-12
        )


def _score(expected):
    return expected["score"] if isinstance(expected, dict) else expected


@pytest.mark.slow
@pytest.mark.lsl
def test_evaluate_gives_what_bci_judge_run_gives(tmp_path, monkeypatch, processes) -> None:
    """Over LSL in three processes, and here: the same result, not one digit apart."""
    (path,) = write_recordings(
        open_synthetic("mi", {"subjects": "1", "blocks": "1", "trials": "3"}), tmp_path
    )
    (tmp_path / "numpy_answers.py").write_text(_source_of(NumpyAnswers))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("mi-riemann", "numpy_answers:NumpyAnswers")
    options = [word for name in names for word in ("--decoder", name)]
    played = ("--track", "mi", *options, "--recording", str(path), "--json")
    printed = processes.run("bci_stream.judge", "run", *played)
    outcomes = json.loads(printed[printed.index("[\n") : printed.rindex("]") + 1])
    for name, outcome in zip(names, outcomes, strict=True):
        result = bci.evaluate(name, path, "mi", progress=False)
        assert result.score == outcome["score"]
        assert result.sessions == outcome["sessions"]
        judged = bci.score(outcome["log"])
        assert judged.result["sessions"] == result.sessions
        assert judged.table().equals(result.table())


def _source_of(cls) -> str:
    import inspect

    return inspect.getsource(cls)


def test_cross_validation_is_the_figure_of_bci_decode_train(tmp_path, mi_session) -> None:
    uri = mi_session(blocks=2, trials=6)
    result = bci.evaluate("mi-mdm", uri, "mi", train="cv", progress=False)
    figure = figure_of("mi", *cross_validate("mi", recipe_of("mi-mdm", "mi"), [uri]))
    assert result.score == figure.score > 0
    assert len(result.parts) == len(figure.folds) == 2
    assert result.note == figure.note
    assert set(result.table().part) == {0, 1}
    with pytest.raises(LogError, match="a cross-validation has 2 runs"):
        result.save(tmp_path / "cv.jsonl")
    model = recipe_of("mi-mdm", "mi").fit([uri], seed=0, progress=lambda _: None)
    save_model(model, tmp_path / "m.npz")
    again = bci.evaluate("mi-mdm", uri, "mi", model=tmp_path / "m.npz", progress=False)
    assert again.score == bci.evaluate("mi-mdm", uri, "mi", train=uri, progress=False).score


def test_objects_and_classes_are_decoders_too(two) -> None:
    one = bci.evaluate(NumpyAnswers(), two, "mi", progress=False)
    assert one.name == "NumpyAnswers"
    assert one.sessions == bci.evaluate(NumpyAnswers, two, "mi", progress=False).sessions
    assert {answer.class_name for v in one.verdicts for answer in v.answers} == {"right"}


def test_rules_are_those_of_the_contest(two) -> None:
    plain = bci.evaluate(NumpyAnswers, two, "mi", progress=False)
    rules = {"window_tolerance_s": -1.99}
    strict = bci.evaluate(NumpyAnswers, two, "mi", rules=rules, progress=False)
    assert plain.accuracy() > strict.accuracy()


def test_rules_hold_in_a_cross_validation(mi_session) -> None:
    uri = mi_session(blocks=2, trials=6)
    rules = {"window_tolerance_s": -1.99}
    strict = bci.evaluate("mi-mdm", uri, "mi", train="cv", rules=rules, progress=False)
    assert len(strict.parts) == 2
    assert (strict.accuracy(), strict.score) == (0.0, 0.0)


def test_a_profile_s_rate_is_for_what_is_opened_here_and_in_training() -> None:
    """What is open already stays as it was opened, here at the rate of the profile."""
    rules = {"profile": "2023"}
    opened = bci.open(SMALL, track="mi", resample=250)
    same = [
        bci.evaluate(NumpyAnswers, given, "mi", rules=rules, progress=False)
        for given in (SMALL, opened)
    ]
    assert same[0].parts[0].events == same[1].parts[0].events
    trained = bci.evaluate("mi-mdm", opened, "mi", train=TRAINING, rules=rules, progress=False)
    assert trained.parts[0].events[1]["rate"] == 250


@pytest.mark.parametrize(
    ("decoder", "recordings", "options", "error", "message"),
    [
        ("mi-chance", [], {}, SourceError, "no recording is given"),
        ("mi-chance", SMALL, {"track": "chess"}, RuleError, "track 'chess'"),
        ("nobody", SMALL, {}, DecoderError, "unknown decoder 'nobody'"),
        (object(), SMALL, {}, DecoderError, r"no method start\(\)"),
        (NumpyAnswers, SMALL, {"train": SMALL}, DecoderError, "can't be trained"),
        (NumpyAnswers, SMALL, {"model": "m"}, DecoderError, "model= is for"),
        ("mi-mdm", SMALL, {"train": SMALL, "model": "m"}, DecoderError, "not both"),
        ("mi-chance", [SMALL, "synthetic:erp"], {}, SourceError, "give track="),
    ],
)
def test_mistakes_are_named(decoder, recordings, options, error, message) -> None:
    with pytest.raises(error, match=message):
        bci.evaluate(decoder, recordings, progress=False, **options)


def test_an_open_recording_is_taken_as_it_was_opened() -> None:
    opened = bci.open(SMALL, track="mi")
    assert bci.evaluate("mi-chance", opened, progress=False).sessions
    with pytest.raises(SourceError, match="open it with track='erp'"):
        bci.evaluate("erp-chance", opened, "erp", progress=False)
    with pytest.raises(SourceError, match="is open already: give resample"):
        bci.evaluate("mi-chance", opened, resample=250, progress=False)


def test_what_a_decoder_raises_is_raised(two) -> None:
    class Broken(NumpyAnswers):
        def step(self, packet):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        bci.evaluate(Broken, two, "mi", progress=False)


def test_a_progress_bar_is_shown_and_removed(capfd, two) -> None:
    bci.evaluate("mi-chance", two, "mi")
    assert "mi-chance on mi" in capfd.readouterr().err


@pytest.mark.parametrize("module", [bci, recording, evaluation, evaluate_module])
def test_the_examples_run(module, monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    assert doctest.testmod(module).failed == 0
    assert any(test.examples for test in doctest.DocTestFinder().find(module))


@pytest.mark.lsl
@pytest.mark.slow
def test_a_replay_plays_on_lsl_and_ends_with_its_block(lsl_transport) -> None:
    uri = "synthetic:mi?subjects=1&blocks=1&trials=1"
    with bci.replay(uri, pace=20.0) as playing:
        assert playing.status.state == "waiting"
        assert playing.name in repr(playing)
        source = f"bci/default/signal/{playing.name}"
        watch = lsl_transport.watch(source)
        deadline = time.monotonic() + 60
        while not (found := watch.found()) and time.monotonic() < deadline:
            pass
        watch.close()
        assert [stream.name for stream in found] == [playing.signal]
        process = playing._process
    assert process.exit_code() is not None
    with bci.replay(uri, pace=50.0, start="now") as playing:
        assert playing.wait(60.0).state == "finished"
    assert doctest.testmod(replaying).failed == 0


@pytest.mark.slow
def test_a_replay_that_can_not_start_says_why() -> None:
    with pytest.raises(SourceError, match=r"can't start: .*absent\.edf"):
        bci.replay("absent.edf")
