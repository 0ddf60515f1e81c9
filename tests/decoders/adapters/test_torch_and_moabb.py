"""Torch modules and real MOABB datasets, where these packages are installed."""

import numpy as np
import pytest

import bci_stream as bci
from decoders.adapters.online import Online, as_online
from decoders.adapters.pipeline import PipelineDecoder
from decoders.adapters.training import fit_pipeline
from decoders.checks import check
from decoders.decoder import DecoderError


def test_a_torch_module_is_trained_saved_and_decodes(mi_session) -> None:
    torch = pytest.importorskip(
        "torch", reason="torch is not installed (pip install bci-stream[torch])"
    )

    class LogPower(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = torch.nn.Conv1d(8, 8, 1, bias=False)
            self.out = torch.nn.Linear(8, 3)

        def forward(self, x):
            return self.out(torch.log(self.mix(x).var(dim=2) + 1e-6))

    torch.manual_seed(0)
    from decoders.adapters.torch_module import TorchClassifier

    session = mi_session(blocks=1, trials=18)
    online = Online(TorchClassifier(LogPower(), epochs=150, rate=1e-2), length_s=1.5)
    model = fit_pipeline(online, "mi", [session])
    assert model.settings["format"] == "torch"
    result = bci.evaluate(PipelineDecoder(model, online=online), session, "mi", progress=False)
    assert result.accuracy() > 0.8
    small = mi_session(blocks=1, trials=2, seed=5)
    laws = check("mi", lambda: PipelineDecoder(model, online=online), small)
    assert [law for law in laws if not law.ok] == []
    with pytest.raises(DecoderError, match="say where the module is"):
        PipelineDecoder(model)
    with pytest.raises(DecoderError, match="do not fit"):
        PipelineDecoder(model, online=Online(TorchClassifier(torch.nn.Linear(2, 2))))
    assert as_online(LogPower()).__name__ == "LogPower"


@pytest.mark.filterwarnings("default")
def test_a_module_of_braindecode_is_trained(mi_session) -> None:
    pytest.importorskip("torch", reason="torch is not installed (pip install bci-stream[torch])")
    models = pytest.importorskip("braindecode.models", reason="braindecode needs torch")
    from decoders.adapters.torch_module import TorchClassifier

    net = models.ShallowFBCSPNet(8, 3, n_times=187, final_conv_length="auto")
    online = Online(TorchClassifier(net, epochs=2), length_s=1.5)
    session = mi_session(blocks=1, trials=6)
    model = fit_pipeline(online, "mi", [session])
    decoder = PipelineDecoder(model, online=online)
    assert len(bci.evaluate(decoder, session, "mi", progress=False).verdicts) == 6


def test_without_torch_the_extra_is_named(monkeypatch) -> None:
    import sys

    from decoders.adapters.torch_module import TorchClassifier

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DecoderError, match=r"pip install bci-stream\[torch\]"):
        TorchClassifier(object()).fit(np.zeros((2, 2, 2)), [0, 1])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # MOABB's own
def test_a_moabb_dataset_is_evaluated_with_one_line() -> None:
    pytest.importorskip("moabb", reason="moabb is not installed (pip install bci-stream[moabb])")
    from moabb.datasets.fake import FakeDataset
    from pyriemann.classification import MDM
    from pyriemann.estimation import Covariances
    from sklearn.pipeline import make_pipeline

    dataset = FakeDataset(
        event_list=("left_hand", "right_hand"), n_sessions=1, n_runs=2, n_subjects=2,
        duration=60, n_events=8, seed=3,
    )  # fmt: skip
    pipeline = make_pipeline(Covariances("oas"), MDM())
    result = bci.evaluate(pipeline, dataset, "mi", subjects=[1, 2], progress=False)
    assert {session["subject"] for session in result.sessions} == {"FakeDataset-1", "FakeDataset-2"}
    assert len(result.verdicts) == 32
    assert {v.label for v in result.verdicts} == {"left", "right"}
    # FakeDataset's last trial of a run has 3 s of data, so its third report never comes.
    assert sum(v.answers[2].when == 3.96 for v in result.verdicts) == 28
