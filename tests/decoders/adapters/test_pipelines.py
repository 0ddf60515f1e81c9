"""Estimators as decoders: on every track, from every kind of file, under the laws of decoders."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from mne.decoding import Vectorizer
from pyriemann.classification import MDM
from pyriemann.estimation import Covariances
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

import bci_stream as bci
from bci_stream.errors import TruthError
from decoders.adapters.estimators import dumps, load_pipeline, loads
from decoders.adapters.online import Online, WindowPlan, as_online, parse_options
from decoders.adapters.pipeline import PipelineDecoder, class_scores
from decoders.adapters.training import best_leads, fit_pipeline
from decoders.adapters.windows import Recentring, covariance
from decoders.checks import sample_session
from decoders.cli import main as decode
from decoders.decoder import DecoderError
from decoders.model import ModelError, load_model, save_model
from decoders.registry import is_pipeline, load
from replay.synthetic.registry import open_synthetic, write_recordings
from tests.decoders.laws import CAUSAL, broken

pytest.importorskip("skops", reason="skops is not installed (pip install bci-stream[pipelines])")

ROOT = Path(__file__).parents[3]


def mdm():
    return make_pipeline(Covariances("oas"), MDM())


def lda():
    return make_pipeline(Vectorizer(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"))


BY_TRACK = {
    "mi": mdm,
    "turing": mdm,
    "emotion": mdm,
    "erp": lda,
    "ecog": lambda: make_pipeline(Vectorizer(), Ridge(1e3)),
}
LEAST = {"mi": 30.0, "turing": 60.0, "emotion": 0.9, "erp": 50.0, "ecog": 80.0}
"""On their own training data: windows and labels belong together."""


@pytest.mark.slow
@pytest.mark.parametrize("track", BY_TRACK)
def test_an_estimator_keeps_the_laws_of_decoders_on_every_track(
    track, mi_session, erp_session
) -> None:
    small = {"mi": lambda: mi_session(blocks=1, trials=3), "erp": lambda: erp_session(text="AZ")}
    session = small.get(track, lambda: sample_session(track))()
    online = Online(BY_TRACK[track](), recentre=track in ("mi", "turing"))
    model = fit_pipeline(online, track, [session])
    result = bci.evaluate(PipelineDecoder(model), session, track, progress=False)
    assert result.score > LEAST[track]
    assert (
        broken(track, lambda: PipelineDecoder(model), session, None if track == "mi" else CAUSAL)
        == []
    )


@pytest.mark.slow
def test_the_worked_example_of_the_docs_scores_better_than_chance() -> None:
    text = (ROOT / "docs/pipelines.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.S)
    assert len(example.splitlines()) < 30
    found: dict = {}
    exec(example, found)  # noqa: S102 - our own page
    assert found["result"].score > 3
    assert found["result"].accuracy() > 0.6


def test_a_held_out_block_is_decoded_by_windows_of_one_length_or_growing(mi_session) -> None:
    session = mi_session(blocks=2, trials=6)
    for options in ({}, {"length_s": 1.5, "recentre": True}):
        result = bci.evaluate(Online(mdm(), **options), session, "mi", progress=False)
        assert result.note == "a block left out"
        assert result.accuracy() > 0.8
        assert {v.answers[2].when for v in result.verdicts} == {3.96}


def test_two_classes_are_enough(mi_session) -> None:
    session = mi_session(blocks=2, trials=6)
    truth = [code for _, triggers in session.block_triggers() for _, code in triggers]
    assert 31 in truth
    blocks = [_without_feet(block) for block in session.blocks]
    result = bci.evaluate(mdm(), replace(session, blocks=blocks), "mi", progress=False)
    assert {v.label for v in result.verdicts} == {"left", "right"}
    assert {a.class_name for v in result.verdicts for a in v.answers} == {"left", "right"}
    assert result.accuracy() > 0.8


def _without_feet(block):
    kept, feet = [], False
    for sample, code in block.triggers:
        feet = feet or code == 31
        if not feet:
            kept.append((sample, code))
        feet = feet and code != 241
    return replace(block, triggers=tuple(kept))


def test_a_speller_is_made_of_flashes(erp_session) -> None:
    sessions = [erp_session(text="BCIZ", seed=k, subject=f"S{k}") for k in (1, 2)]
    result = bci.evaluate(Online(lda(), sequences=2), sessions, "erp", progress=False)
    assert result.accuracy() == 1.0
    assert {answer.when for v in result.verdicts for answer in v.answers} == {2}


class Twice(BaseEstimator, ClassifierMixin):
    """A user's own class, which skops does not trust; without probabilities."""

    def fit(self, x, y):
        self.classes_ = np.unique(y)
        self.mean_ = np.array([covariance(np.hstack(x[y == k])) for k in self.classes_])
        return self

    def predict(self, x):
        far = [[np.abs(covariance(one) - mean).sum() for mean in self.mean_] for one in x]
        return self.classes_[np.argmin(far, axis=1)]


class Plain:
    """A decoder in MetaBCI's manner: fit and predict, nothing of scikit-learn."""

    def fit(self, x, y):
        self.classes_, self.inner = np.unique(y), Twice().fit(x, y)

    def predict(self, x):
        return self.inner.predict(x)


def test_what_skops_does_not_know_needs_trust(mi_session) -> None:
    session = mi_session(blocks=1, trials=6)
    model = fit_pipeline(Online(Twice()), "mi", [session])
    with pytest.raises(DecoderError, match=r"not trusted: .*Twice.*--trust"):
        PipelineDecoder(model)
    trusted = PipelineDecoder(model, trust=True)
    assert bci.evaluate(trusted, session, "mi", progress=False).accuracy() > 0.5


def test_metabcis_manner_needs_no_scikit_learn(mi_session) -> None:
    session = mi_session(blocks=2, trials=6)
    result = bci.evaluate(Plain(), session, "mi", progress=False)
    assert result.name == "Plain"
    assert result.accuracy() > 0.5


def test_a_pickle_is_refused_without_trust(tmp_path, mi_session) -> None:
    import joblib

    x = np.random.default_rng(0).normal(size=(6, 3, 50))
    fitted = mdm().fit(x, [1, 2, 3, 1, 2, 3])
    joblib.dump(fitted, tmp_path / "clf.joblib")
    with pytest.raises(DecoderError, match=r"is a pickle, which can run any code.*--trust"):
        load_pipeline(str(tmp_path / "clf.joblib"))
    assert load_pipeline(str(tmp_path / "clf.joblib"), trust=True).estimator.steps
    form, data = dumps(fitted)
    assert form == "skops"
    (tmp_path / "clf.skops").write_bytes(data)
    again = load_pipeline(str(tmp_path / "clf.skops")).estimator
    assert np.array_equal(again.predict(x), fitted.predict(x))
    with pytest.raises(DecoderError, match="can't be loaded"):
        loads(data[:-50], "cut.skops")


class Unsavable(Twice):
    def fit(self, x, y):
        super().fit(x, y)
        self.hidden_ = (value for value in ())  # no library can save a generator
        return self


def test_what_can_not_be_saved_is_named(mi_session) -> None:
    with pytest.raises(DecoderError, match="can't be saved with skops"):
        fit_pipeline(Online(Unsavable()), "mi", [mi_session(blocks=1, trials=6)])


def test_a_lambda_is_named_before_a_model_is_written() -> None:
    """skops writes it, and can't read it again."""
    from sklearn.preprocessing import FunctionTransformer

    step = FunctionTransformer(lambda x: x.var(axis=-1))
    with pytest.raises(DecoderError, match=r"can't be saved with skops .*lambda"):
        dumps(step)
    with pytest.raises(DecoderError, match=r"as a pickle neither .*no lambda"):
        dumps(step, trust=True)


FILES = {
    "my.py:clf": "from sklearn.linear_model import LogisticRegression as L\nclf = L()",
    "made.py:make": "def make():\n    from sklearn.linear_model import LogisticRegression\n"
    "    return LogisticRegression()",
    "listed.py": "from sklearn.linear_model import LogisticRegression as L\n"
    "PIPELINES = [{'name': 'lr', 'paradigms': ['x'], 'pipeline': L()}]",
    "many.py:lr": "from sklearn.linear_model import LogisticRegression as L\n"
    "PIPELINES = [{'name': n, 'pipeline': L()} for n in ('lr', 'other')]",
    "moabb.yml": "name: lr\nparadigms: [LeftRightImagery]\npipeline:\n"
    "  - {name: LogisticRegression, from: sklearn.linear_model, parameters: {C: 2.0}}\n",
}


@pytest.mark.parametrize("spec", FILES)
def test_estimators_come_from_files(spec, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(spec.partition(":")[0]).write_text(FILES[spec])
    assert is_pipeline(spec)
    online = load_pipeline(spec)
    assert "LogisticRegression" in online.__name__
    with pytest.raises(DecoderError, match="is not fitted: train it"):
        load(spec, "mi")


@pytest.mark.parametrize(
    ("spec", "content", "message"),
    [
        ("absent.py:clf", None, "no file absent.py"),
        ("absent.yml", None, "no file absent.yml"),
        ("a.py:clf", "clf = 3", "a.py:clf is 3: give an estimator"),
        ("b.py:clf", "1 / 0", r"can't be imported: ZeroDivisionError"),
        ("c.py:clf", "x = 1", "the file has no 'clf'"),
        ("d.py", "PIPELINES = [{'name': n} for n in 'ab']", "choose one of its pipelines: a, b"),
        ("e.yml", "pipeline: [{name: No, from: sklearn}]", "no pipeline of MOABB's YAML"),
        ("f.py:clf", "def clf():\n    raise ValueError('mine')", "failed: ValueError: mine"),
    ],
)
def test_files_without_an_estimator_are_named(
    spec, content, message, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path(spec.partition(":")[0]).write_text(content)
    with pytest.raises(DecoderError, match=message):
        load_pipeline(spec)


def test_options_are_checked() -> None:
    assert parse_options(("band=8-30", "band=none", "recentre=true", "leads=C3, C4")) == {
        "band": (),
        "recentre": True,
        "leads": ("C3", "C4"),
    }
    for text, message in (
        ("colour=3", "write NAME=VALUE with one of band"),
        ("rate=fast", "could not convert"),
        ("recentre=1", "give true or false"),
    ):
        with pytest.raises(DecoderError, match=message):
            parse_options((text,))
    with pytest.raises(DecoderError, match="Online has no option 'colour'"):
        Online(mdm(), colour=3)
    with pytest.raises(DecoderError, match="is no estimator"):
        Online(3)
    with pytest.raises(DecoderError, match=r"band=\(30, 8\)"):
        Online(mdm(), band=(30, 8)).plan("mi")
    with pytest.raises(DecoderError, match="can't decode track eyes"):
        Online(mdm()).plan("eyes")
    plan = Online(mdm(), rate=100).plan("erp")
    assert WindowPlan.of_settings(json.loads(json.dumps(plan.settings()))) == plan
    assert as_online(PipelineDecoder) is None
    assert repr(Online(mdm(), rate=100)) == "Online(Covariances + MDM, rate=100)"


def test_mistakes_in_training_are_named(mi_session) -> None:
    session = mi_session(blocks=1, trials=6)
    with pytest.raises(DecoderError, match=r"can't be fitted to X \(6, 8, "):
        fit_pipeline(Online(LogisticRegression()), "mi", [session])  # it needs two dimensions
    with pytest.raises(DecoderError, match="windows can't be longer"):
        fit_pipeline(Online(mdm(), length_s=3), "mi", [session])
    with pytest.raises(DecoderError, match="leads NOSE are not in the recording"):
        fit_pipeline(Online(mdm(), leads=("Nose",)), "mi", [session])
    lefts = [replace(block, triggers=block.triggers[:2]) for block in session.blocks]
    with pytest.raises(TruthError, match="no labelled window"):
        fit_pipeline(Online(mdm()), "mi", [replace(session, blocks=_cut(lefts))])
    with pytest.raises(ModelError, match="a pipeline needs a model"):
        PipelineDecoder()


def test_trials_too_short_for_the_third_report_need_windows_of_one_length(mi_session) -> None:
    session = mi_session(blocks=1, trials=6)
    short = replace(session, blocks=[_ended_after_three_seconds(b) for b in session.blocks])
    with pytest.raises(TruthError, match=r"long enough for report 3.*\(length_s\)"):
        fit_pipeline(Online(mdm()), "mi", [short])
    assert fit_pipeline(Online(mdm(), length_s=1.5), "mi", [short]).arrays


def _ended_after_three_seconds(block):
    """Trials without their last second; a code of 3 s (13, 23, 33) gives its place to 241."""
    kept = [(at, 241 if code % 10 == 3 else code) for at, code in block.triggers if code != 241]
    return replace(block, triggers=tuple(kept))


def _cut(blocks):
    """One second of imagery, which is too short for any report."""
    return [
        replace(b, data=b.data[: b.triggers[-1][0] + 125]) for b in blocks if b.triggers[-1][1] < 99
    ]


def test_another_rate_than_the_trainings_is_refused(mi_session) -> None:
    model = fit_pipeline(Online(mdm()), "mi", [mi_session(blocks=1, trials=6)])
    other = bci.SignalInfo("mi", "S9", 160.0, mi_session().leads, 6)
    with pytest.raises(DecoderError, match="160 samples a second, those of the training 125"):
        PipelineDecoder(model).start(other)


def test_windows_that_an_estimator_can_not_take_are_named(mi_session) -> None:
    fitted = mdm().fit(np.random.default_rng(0).normal(size=(4, 2, 50)), [1, 1, 2, 2])
    with pytest.raises(DecoderError, match=r"fails on X \(1, \d+, \d+\) \(windows, leads, samples"):
        bci.evaluate(fitted, mi_session(), "mi", progress=False)


def test_scores_come_from_what_the_estimator_has() -> None:
    x = np.random.default_rng(0).normal(size=(20, 2))
    y = (x[:, 0] > 0).astype(int) + 1
    from sklearn.svm import LinearSVC

    for estimator in (LogisticRegression().fit(x, y), LinearSVC().fit(x, y)):
        scores = class_scores(estimator, x[:1])
        assert max(scores, key=scores.get) == estimator.predict(x[:1])[0]
    only = Twice().fit(x[:, :, None], y)
    assert list(class_scores(only, x[:1, :, None])) == [int(only.predict(x[:1, :, None])[0])]


def test_recentring_whitens_by_the_past() -> None:
    rng = np.random.default_rng(1)
    mix = rng.normal(size=(3, 3))
    recentring = Recentring(np.eye(3), known=False)
    for _ in range(300):
        y = recentring.apply(mix @ rng.normal(size=(3, 500)))
    assert np.allclose(covariance(y), np.eye(3), atol=0.3)


def test_the_leads_that_follow_the_angles_are_chosen() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(200, 5, 4))
    y = np.stack([x[:, 3, 1], x[:, 1, 0]], axis=1)
    assert best_leads(list(x), list(y), 2) == [1, 3]


@pytest.mark.slow
def test_train_check_and_run_by_the_command_line(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    params = {"subjects": "1", "blocks": "1", "trials": "6", "difficulty": "0.2"}
    (path,) = write_recordings(open_synthetic("mi", params), tmp_path)
    Path("my.py").write_text(
        "from pyriemann.classification import MDM\n"
        "from pyriemann.estimation import Covariances\n"
        "from sklearn.pipeline import make_pipeline\n"
        "clf = make_pipeline(Covariances('oas'), MDM())\n"
    )
    train = ["train", "--track", "mi", "--pipeline", "my.py:clf", "--online", "leads=C3,C4,Cz"]
    done = CliRunner().invoke(decode, [*train, str(path), "--out", "m.npz", "--no-validation"])
    assert done.exit_code == 0, done.output
    model = load_model(Path("m.npz"))
    assert (model.decoder, model.settings["format"]) == ("mi-pipeline", "skops")
    assert model.provenance["data"] == [str(path)]
    named = ["check", "--track", "mi", "--decoder", "mi-pipeline", "--model", "m.npz"]
    done = CliRunner().invoke(decode, named)
    assert done.exit_code == 0, done.output
    assert done.output.count("✔") == 9
    by_name = bci.evaluate("mi-pipeline", path, "mi", model="m.npz", progress=False)
    by_file = bci.evaluate("my.py:clf", path, "mi", model="m.npz", progress=False)
    assert by_name.result == by_file.result
    assert by_name.accuracy() > 0.6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "x", "--out", "m", "--pipeline", "a.py:b", "--decoder", "c"], "not both"),
        (["train", "x", "--out", "m", "--trust"], "for a --pipeline only"),
        (["check", "--online", "rate=3"], "for a --pipeline only"),
        (["check", "--pipeline", "a.py:b", "--decoder", "c"], "give one of --pipeline"),
        (["check", "--trust", "--decoder", "mi-mdm"], "--trust is for --pipeline"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(arguments, message) -> None:
    done = CliRunner().invoke(decode, [arguments[0], "--track", "mi", *arguments[1:]])
    assert done.exit_code == 2
    assert message in done.output


def test_a_model_of_another_kind_is_refused(tmp_path, mi_session) -> None:
    model = fit_pipeline(Online(mdm()), "mi", [mi_session(blocks=1, trials=6)])
    save_model(model, tmp_path / "m.npz")
    with pytest.raises(ModelError, match="not for 'erp-pipeline'"):
        load("erp-pipeline", "erp", tmp_path / "m.npz")
    assert isinstance(load("mi-pipeline", "mi", tmp_path / "m.npz"), PipelineDecoder)


def test_without_skops_the_extra_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(DecoderError, match=r"pip install bci-stream\[pipelines\]"):
        dumps([1])
