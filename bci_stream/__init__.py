"""Real-time BCI contests over Lab Streaming Layer: the public API.

>>> import bci_stream as bci
>>> result = bci.evaluate("mi-chance", "synthetic:mi?subjects=1&blocks=1&trials=2", progress=False)
>>> result.sessions[0]["trials"]
2

docs/python-api.md shows more of `open`, `evaluate`, `score` and `replay`. Names are imported on first use, so
that `import bci_stream` costs nothing. Our own modules import from where a name is defined, never from here.
"""

from importlib import import_module
from typing import Any

_DEFINED_IN = {
    # notebooks
    "open": "decoders.notebook.recording:open_recording",
    "evaluate": "decoders.notebook.evaluate",
    "score": "decoders.notebook.evaluation:score_log",
    "replay": "decoders.notebook.replaying",
    "Evaluation": "decoders.notebook.evaluation",
    "Online": "decoders.adapters.online",
    # signals
    "Packet": "bci_stream.packet",
    "SignalInfo": "bci_stream.packet",
    "Lead": "bci_stream.packet",
    # recordings and devices
    "open_source": "replay.sources",
    "masked_packets": "replay.transform.masking",
    # decoders
    "Decoder": "decoders.decoder",
    "load_decoder": "decoders.registry:load",
    "run_offline": "decoders.offline",
    # taking part in a contest
    "TeamClient": "bci_stream.wire.client",
    "LslTransport": "bci_stream.wire.lsl",
    "MemoryTransport": "bci_stream.wire.memory",
    # contests and their results
    "Contest": "bci_stream.contest.contest",
    "load_contest": "bci_stream.contest.contest",
    "TRACKS": "tracks.registry",
    "read_log": "bci_stream.runlog",
    "score_run": "bci_stream.runlog",
    "BciError": "bci_stream.errors",
}

__all__ = sorted(_DEFINED_IN)


def __getattr__(name: str) -> Any:
    if name not in _DEFINED_IN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, original = _DEFINED_IN[name].partition(":")
    value = globals()[name] = getattr(import_module(module), original or name)
    return value


def __dir__() -> list[str]:
    return __all__
