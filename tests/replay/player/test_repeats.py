"""Blocks that are played again: the run log judges them as it judged them the first time, on every track."""

from collections.abc import Sequence

import numpy as np
import pytest
from playground import counter_recording, program

from replay.model.recording import ArrayBlock, Recording
from replay.player.plan import PlaybackPlan
from replay.player.repeats import BlockRepeater
from replay.transform.masking import MaskedPacket
from tests.end_to_end.labelled_sessions import LABELS, labelled
from tracks.common.verdicts import Verdict
from tracks.registry import TRACKS
from tracks.run import Run


class KeptSamples:
    """A journal that keeps how much longer each session becomes."""

    def __init__(self) -> None:
        self.added: list[tuple[int, int]] = []

    def add_samples(self, session: int, n_samples: int) -> None:
        self.added.append((session, n_samples))


class Repeating:
    """A plan whose packets are taken as a player takes them."""

    def __init__(self, plan: PlaybackPlan, asked: Sequence[tuple[int, int]]) -> None:
        self.journal = KeptSamples()
        self.problems: list[str] = []
        repeater = BlockRepeater(
            plan,
            self.journal,  # type: ignore[arg-type]
            lambda: asked,
            stop=None,
            report=self.problems.append,
        )
        self.packets = [repeater.settle(packet) for packet in repeater.chain(plan.packets())]


def answers(track: str, packet: MaskedPacket, number: int) -> list[object]:
    """By the packet's place in its block, so that a block that is played again gets the same."""
    if track == "ecog":
        return [[[float(packet.start % 70)] * 8]]
    return [1 + number // 40 % 3] if number % 5 == 0 else []


def judged(track: str, plan: PlaybackPlan, packets: Sequence[MaskedPacket], void: bool) -> Run:
    run, place = Run(), 0
    run.feed({"kind": "run", "v": 1, "track": track, "team": "t", "rules": {}})
    run.feed({"kind": "session", "subject": "S01", "rate": plan.rate, "leads": 1})
    run.feed({**plan.truths[0], "kind": "truth"})  # type: ignore[dict-item]
    for packet in packets:
        place = 0 if packet.start == 0 else place + 1
        for event in packet.truth:
            run.feed({"kind": "truth", **event})
        triggers = [list(trigger) for trigger in packet.triggers]
        run.feed({"kind": "packet", "start": packet.start, "n": packet.n, "triggers": triggers})
        for result in answers(track, packet, place):
            run.feed({"kind": "report", "result": result})
    if void:
        run.feed({"kind": "void", "session": 0, "block": 0, "reason": "a cable"})
    run.feed({"kind": "end", "reason": "finished"})
    return run


def of_block(run: Run, block: int) -> list[tuple[object, ...]]:
    def facts(verdict: Verdict) -> tuple[object, ...]:
        label = verdict.label if verdict.right else None  # of ecog it names the rows
        return verdict.trial, label, verdict.right, verdict.share, verdict.charged_s

    return [facts(verdict) for verdict in run.verdicts() if verdict.block == block]


@pytest.mark.parametrize("track", TRACKS)
def test_the_score_is_what_it_was_before_the_block_was_void(track: str) -> None:
    labels = [of_block[:2] for of_block in LABELS[track]]
    plan = program(track, labelled(track, labels))
    once = judged(track, plan, list(plan.packets()), void=False)
    played = Repeating(plan, [(0, 0)])
    again = judged(track, plan, played.packets, void=True)
    new = len(labels)
    assert played.problems == []
    assert of_block(again, new) == of_block(once, 0)
    assert [v.void for v in again.verdicts()] == [v.block == 0 for v in again.verdicts()]
    assert again.result()["score"] == pytest.approx(once.result()["score"], rel=1e-12)
    finish = [packet.finish for packet in played.packets]
    assert finish == [False] * (len(finish) - 1) + [True]
    assert {packet.block for packet in played.packets} == set(range(new + 1))
    assert played.journal.added == [(0, plan.sessions[0].blocks[0].n_samples)]  # type: ignore[attr-defined]


def test_each_session_has_its_own_and_a_repeated_block_can_be_repeated() -> None:
    labels = [[1, 2], [3]]
    plan = program("mi", labelled("mi", labels, "S01"), labelled("mi", labels, "S02"))
    played = Repeating(plan, [(0, 1), (1, 0), (0, 2)])
    order = dict.fromkeys((packet.session, packet.block) for packet in played.packets)
    assert list(order) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2)]
    truths = [event for packet in played.packets for event in packet.truth]
    assert truths == [
        {"blocks": [[], [], [3]], "again_of": 1},
        {"blocks": [[], [], [], [3]], "again_of": 2},
        {"blocks": [[], [], [1, 2]], "again_of": 0},
    ]


def _without_blocks() -> Recording:
    return counter_recording("erp", [(100, ((5, 105), (90, 241)))])


def _two_blocks_in_one() -> Recording:
    recording = labelled("mi", [[1]])
    (block,) = recording.blocks
    triggers = (*block.triggers, (block.n_samples - 1, 242))
    return Recording(
        "S01", recording.rate, recording.leads, [ArrayBlock(block.read(0, 10**9), triggers)]
    )


def _angles_without_trials() -> Recording:
    angles = np.zeros((200, 8))
    return counter_recording("ecog", [(1000, ((0, 242),))], angles=angles)


@pytest.mark.parametrize(
    ("track", "recording", "why"),
    [
        ("erp", _without_blocks(), "0 block starts (242)"),
        ("mi", _two_blocks_in_one(), "not cut at each block start"),
        ("ecog", _angles_without_trials(), "all its rows of angles are one trial"),
    ],
)
def test_what_can_not_be_played_again_is_reported_and_the_run_ends_as_usual(
    track: str, recording: Recording, why: str
) -> None:
    played = Repeating(program(track, recording), [(0, 0)])
    assert why in played.problems[0]
    assert [packet.finish for packet in played.packets][-1]
    assert played.journal.added == []
