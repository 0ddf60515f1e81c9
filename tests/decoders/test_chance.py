"""Chance decoders report when a decoder would, and are right as often as chance is."""

import subprocess
import sys

import numpy as np
import pytest

from bci_stream.packet import Lead, Packet, SignalInfo
from decoders.chance import ErpChance, MiChance, TuringChance, tasks_of
from decoders.offline import run_offline


def test_mi_chance_gives_three_valid_reports_a_trial(mi_session) -> None:
    outcome = run_offline("mi", MiChance(), [mi_session(blocks=1, trials=12)])
    verdicts = outcome.run.verdicts()
    assert all(len(v.answers) == 3 for v in verdicts)
    assert not outcome.run.refusals()
    right = [flag for v in verdicts for flag in v.right]
    assert 0.05 < np.mean(right) < 0.7


def test_mi_chance_leaves_room_for_the_grace_of_real_time(mi_session) -> None:
    """Less one packet each report still lies in its own trial, and uses nearly its window."""
    outcome = run_offline("mi", MiChance(), [mi_session(blocks=1, trials=6)])
    for verdict in outcome.run.verdicts():
        for answer, limit_s in zip(verdict.answers, (2, 3, 4), strict=True):
            assert answer.when is not None
            assert limit_s - 0.1 < answer.when <= limit_s


def test_erp_chance_uses_one_sequence(erp_session) -> None:
    outcome = run_offline("erp", ErpChance(), [erp_session(text="AB")])
    assert [v.charged_s for v in outcome.run.verdicts()] == [1.8, 1.8]
    assert not outcome.run.refusals()


@pytest.mark.parametrize("packet_samples", [1, 7, 10])
def test_turing_chance_reports_once_a_trial_after_a_second(packet_samples: int) -> None:
    chance = TuringChance()
    chance.start(SignalInfo("turing", "S", 250.0, (Lead("Oz"),), packet_samples))
    used, reports = 0, []
    for number in range(2000 // packet_samples):
        triggers = ((0, 8 * 5),) if number == 3 else ()
        used += packet_samples * (number > 3)
        samples = np.zeros((packet_samples, 2), np.float32)
        reports += [(used, task) for task in chance.step(Packet(samples, triggers))]
    ((used_then, task),) = reports
    assert 250 <= used_then < 250 + packet_samples
    assert task in (5, 7)


def test_another_seed_guesses_otherwise(mi_session) -> None:
    session = mi_session(blocks=1, trials=12)
    reported = [
        [e["result"] for e in run_offline("mi", MiChance(seed), [session]).events if "result" in e]
        for seed in (0, 0, 1)
    ]
    assert reported[0] == reported[1] != reported[2]


def test_turing_chance_keeps_to_the_tasks_that_are_allowed() -> None:
    assert set(tasks_of(1 << 3)) == {1, 3, 7}
    assert set(tasks_of(5 << 3)) == {5, 7}
    assert set(tasks_of(9 << 3)) == {2, 4, 6, 7}
    assert tasks_of(240) == tasks_of(7) == ()


def test_a_chance_decoder_starts_without_scipy() -> None:
    """Its import takes a second, in each process of a contest."""
    code = "import sys, decoders.chance, decoders.worker; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
