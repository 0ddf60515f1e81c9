"""Real-time BCI contests over Lab Streaming Layer: the public API.

>>> from bci_stream import open_source, run_offline, load_decoder
>>> sessions = list(open_source("synthetic:mi?set=test").sessions())
>>> run_offline("mi", load_decoder(None, "mi"), sessions).run.result()["score"]

Names are imported on first use, so that `import bci_stream` costs nothing. Our own modules import from
where a name is defined, never from here.
"""

from importlib import import_module
from typing import Any

_DEFINED_IN = {
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
