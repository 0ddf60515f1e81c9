"""The template submissions' own algorithms as native decoders: the same core, no host between."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bci_stream.packet import Packet, SignalInfo
from tracks.registry import TRACKS

TEMPLATES = Path(__file__).parents[3] / "scripts" / "templates"


def core(file: str, name: str) -> Any:
    """A class of a template's own file, which imports nothing of the frameworks."""
    spec = importlib.util.spec_from_file_location(name, TEMPLATES / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


class Twin:
    """Feeds a core that takes a packet and gives a result or None."""

    def __init__(self) -> None:
        self.core = self.make()

    def make(self) -> Any:
        raise NotImplementedError

    def start(self, info: SignalInfo) -> None:
        """The submissions know nothing of subjects, so their twins don't either."""

    def step(self, packet: Packet) -> Sequence[object]:
        result = self.core.step(packet.data.astype(np.float64))
        return [] if result is None else [result]


class G2Twin(Twin):
    def make(self) -> Any:
        return core("g2/Algorithm/TaskReader.py", "TaskReader")()


class G3Twin(Twin):
    def make(self) -> Any:
        return core("g3/Algorithm/impl/Speller.py", "Speller")()


class G4Twin(Twin):
    def make(self) -> Any:
        reader = core("g4/Algorithm/method/impl/ImageryReader.py", "ImageryReader")()
        reader.start(float(TRACKS["mi"].rate))
        return reader


class MyAlgorithmTwin(Twin):
    """Asks after each five packets from 242 to 243; the test's recordings have whole blocks."""

    packets: int | None = None

    def make(self) -> Any:
        return core("my_algorithm/Algorithm/MyAlgorithm.py", "MyAlgorithm")()

    def step(self, packet: Packet) -> Sequence[object]:
        self.core.get_data(packet.data.astype(np.float64))
        due = self.packets is not None and (self.packets + 1) % 5 == 0
        if self.packets is not None:
            self.packets += 1
        for _, code in packet.triggers:
            if code in (242, 243):
                self.packets = 0 if code == 242 else None
        return [self.core.algorithm()] if due else []
