"""Batch-scheduled threads: those of the outlets of a replay without teams."""

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bci_stream.clock import ManualClock
from bci_stream.contest.contest import Contest
from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.memory import MemorySampleOutlet, MemoryTransport
from bci_stream.wire.transport import StreamSpec, Transport
from replay.model.recording import ArrayBlock, Recording
from replay.player.handshake import StartOn
from replay.player.plan import PlaybackPlan
from replay.player.player import Pace, Player, batch_scheduled_threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has SCHED_BATCH")


def in_a_thread(do: Callable[[], None]) -> None:
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


def policy() -> int:
    return os.sched_getscheduler(0)


def policies_of_a_thread_and_its_child() -> list[int]:
    found: list[int] = []

    def parent() -> None:
        found.append(policy())
        in_a_thread(lambda: found.append(policy()))

    in_a_thread(parent)
    return found


def test_threads_started_meanwhile_are_batch_scheduled_and_so_are_theirs() -> None:
    with batch_scheduled_threads():
        assert policies_of_a_thread_and_its_child() == [os.SCHED_BATCH, os.SCHED_BATCH]
    assert policies_of_a_thread_and_its_child() == [os.SCHED_OTHER, os.SCHED_OTHER]


def test_the_callers_policy_is_restored_also_after_an_error() -> None:
    with pytest.raises(ValueError, match="no outlet"), batch_scheduled_threads():
        raise ValueError("no outlet")
    assert policy() == os.SCHED_OTHER


def test_another_policy_is_kept() -> None:
    found: list[int] = []

    def chosen() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        with batch_scheduled_threads():
            found.append(policy())
        found.append(policy())

    in_a_thread(chosen)
    assert found == [os.SCHED_IDLE, os.SCHED_IDLE]


def test_without_permission_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", forbidden)
    with batch_scheduled_threads():
        assert policies_of_a_thread_and_its_child() == [os.SCHED_OTHER, os.SCHED_OTHER]


class PolicySpy(MemoryTransport):
    """Records the policies under which outlets are opened."""

    def __init__(self) -> None:
        super().__init__()
        self.policies: set[int] = set()

    def sample_outlet(self, spec: StreamSpec) -> MemorySampleOutlet:
        self.policies.add(policy())
        return super().sample_outlet(spec)


@pytest.mark.parametrize(
    ("live", "lockstep", "start_on", "expected"),
    [
        (False, False, "consumer", os.SCHED_BATCH),
        (False, False, "now", os.SCHED_BATCH),
        (True, False, "consumer", os.SCHED_OTHER),
        (False, True, "team", os.SCHED_OTHER),
        (False, False, "judge", os.SCHED_OTHER),
    ],
)
def test_only_a_recording_without_teams_has_batch_scheduled_outlets(
    tmp_path: Path, live: bool, lockstep: bool, start_on: StartOn, expected: int
) -> None:
    transport = PolicySpy()
    block = ArrayBlock(np.zeros((9, 1), np.float32), ())
    recording = Recording("S1", 250.0, (Lead("Cz"),), [block])
    Player(
        transport,
        ManualClock(),
        Contest("c", tmp_path),
        PlaybackPlan(None, (recording,), (None,), live=live),
        name="r",
        pace=Pace(lockstep=lockstep),
        start_on=start_on,
        stop=threading.Event(),
    )
    assert transport.policies == {expected}
    assert policy() == os.SCHED_OTHER


@pytest.mark.lsl
def test_all_threads_of_an_lsl_outlet_are_batch_scheduled(
    lsl_transport: Transport, contest: Contest
) -> None:
    def threads() -> set[int]:
        return {int(task.name) for task in Path("/proc/self/task").iterdir()}

    before = threads()
    with batch_scheduled_threads():
        outlet = lsl_transport.sample_outlet(names.signal_stream(contest.name, "r", 250.0, ()))
    started = threads() - before
    assert started
    assert {os.sched_getscheduler(one) for one in started} == {os.SCHED_BATCH}
    outlet.close()
