"""Chance decoders report in time, and are right as often as chance is."""

import numpy as np

from decoders.chance import ErpChance, MiChance, TuringChance
from decoders.offline import run_offline


def test_mi_chance_gives_three_valid_reports_a_trial(mi_session) -> None:
    outcome = run_offline("mi", MiChance(), [mi_session(blocks=1, trials=12)])
    verdicts = outcome.run.verdicts()
    assert all(len(v.answers) == 3 for v in verdicts)
    assert not outcome.run.refusals()
    right = [flag for v in verdicts for flag in v.right]
    assert 0.05 < np.mean(right) < 0.7


def test_erp_chance_uses_one_sequence(erp_session) -> None:
    outcome = run_offline("erp", ErpChance(), [erp_session(text="AB")])
    assert [v.charged_s for v in outcome.run.verdicts()] == [1.8, 1.8]


def test_another_seed_guesses_otherwise(mi_session) -> None:
    session = mi_session(blocks=1, trials=12)
    said = [
        [e["result"] for e in run_offline("mi", MiChance(seed), [session]).events if "result" in e]
        for seed in (0, 0, 1)
    ]
    assert said[0] == said[1] != said[2]


def test_turing_chance_keeps_to_the_tasks_that_are_allowed() -> None:
    chance = TuringChance()
    chance.start(None)
    guesses = {behaviour: set() for behaviour in range(1, 10)}
    for behaviour in guesses:
        for _ in range(60):
            guesses[behaviour].update(chance._guesses(behaviour << 3))
    assert guesses[1] == {1, 3, 7}
    assert guesses[5] == {5, 7}
    assert guesses[9] == {2, 4, 6, 7}
    assert chance._guesses(240) == chance._guesses(7) == []
