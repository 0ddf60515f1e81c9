"""The worker of a team: how it ends a run whose decoder fails."""

import threading
from types import SimpleNamespace

import pytest

from bci_stream.errors import LostError
from bci_stream.packet import Lead, SignalInfo
from decoders.decoder import DecoderError
from decoders.model import ModelError
from decoders.worker import Worker


class OneSession:
    """A client whose run begins with a session."""

    team = "alice"
    stopped_early = False

    def __init__(self):
        self.left = []

    def join(self, *_):
        return SimpleNamespace(name="r", run="1", track="mi", pace="lockstep", subjects=("S1",))

    def stream(self):
        yield SignalInfo("mi", "S1", 250.0, (Lead("C3"),), 10)

    def leave(self, *ending):
        self.left.append(ending)


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (DecoderError("a model of 125 Hz"), "crashed"),
        (ModelError("a damaged model"), "crashed"),
        (ValueError("a bug"), "crashed"),
        (LostError("the replay is gone"), "stopped"),
    ],
)
def test_a_fault_of_the_decoder_is_a_crash_and_one_of_the_wire_is_not(error, ending) -> None:
    class Fails:
        def start(self, info):
            raise error

        def step(self, packet):
            return []

    client = OneSession()
    worker = Worker(client, Fails(), track="mi", join_s=1, stop=threading.Event())
    with pytest.raises(type(error)):
        worker.run()
    ((reason, detail),) = client.left
    assert (reason, str(error) in detail) == (ending, True)
