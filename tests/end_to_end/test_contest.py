"""Replay, decoder and judge together, on both transports: nothing is lost, and the score is the log's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playground import Recorder, counter_recording, erp_recording, play, program

from bci_stream.errors import RefusedError
from bci_stream.packet import Packet
from bci_stream.runlog import score_run
from bci_stream.wire import names
from bci_stream.wire.memory import MemoryTransport
from tracks.registry import TRACKS

MEASURED = ("t", "elapsed_s", "compute_s")
OF_ONE_RUN = ("h", "message")
"""The hash covers the measured times; the team's message names the run."""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_times(path: Path) -> list[str]:
    """The log's lines, but for the seal, what was measured and what differs in each run."""
    left_out = (*MEASURED, *OF_ONE_RUN)
    return [
        json.dumps({key: value for key, value in event.items() if key not in left_out})
        for event in lines(path)
        if event["kind"] != "seal"
    ]


def reports_at(numbers: dict[int, object]) -> Recorder:
    return Recorder(lambda number, packet: [numbers[number]] if number in numbers else [])


def check_every_sample(packets: list[Packet], n_samples: int) -> None:
    """The counter lead proves that no sample is lost, repeated or out of order."""
    assert np.concatenate([p.signal[:, 0] for p in packets]).tolist() == list(range(n_samples))
    assert [p.start for p in packets] == list(range(0, n_samples, 10))
    assert packets[-1].n == n_samples % 10 or n_samples % 10 == 0


@pytest.mark.parametrize("pace", ["lockstep", "20"])
def test_every_sample_reaches_the_decoder_and_every_report_the_log(
    transport, contest, pace
) -> None:
    recording = erp_recording()
    decoder = reports_at({9: "E", 24: 20})
    played = play(transport, contest, program("erp", recording), {"alice": decoder}, pace=pace)
    assert played.errors == {}
    run = played.runs["alice"]
    assert (run.ended, run.detail) == ("finished", "")
    check_every_sample(decoder.packets, recording.n_samples)
    assert [p.finish for p in decoder.packets] == [False] * (len(decoder.packets) - 1) + [True]
    log = lines(run.path)
    assert sum(event["kind"] == "packet" for event in log) == len(decoder.packets)
    assert [event["result"] for event in log if event["kind"] == "report"] == ["E", 20]
    assert score_run(run.path).result() == run.run.result()


def test_what_a_decoder_sees_is_masked_and_whole(transport, contest) -> None:
    decoder = Recorder()
    play(transport, contest, program("erp", erp_recording()), {"alice": decoder})
    codes = [code for packet in decoder.packets for _, code in packet.triggers]
    assert codes.count(101) == 2
    assert not {105, 120} & set(codes)
    column = np.concatenate([packet.samples[:, -1] for packet in decoder.packets])
    assert column[column > 0].tolist() == codes
    info = decoder.infos[0]
    assert info.lead_names == TRACKS["erp"].leads
    assert {lead.kind for lead in info.leads} == {"EEG", "ECG", "EOG"}


def test_lockstep_gives_the_same_log_in_three_runs_and_in_memory(
    lsl_transport, contest, tmp_path
) -> None:
    logs = []
    for where in (lsl_transport, lsl_transport, lsl_transport, MemoryTransport()):
        decoder = reports_at({9: "E", 12: [1, None], 24: 1.5})
        what = program("erp", erp_recording(), erp_recording((136,), "S02"))
        played = play(where, contest, what, {"alice": decoder})
        assert played.errors == {}
        logs.append(without_times(played.runs["alice"].path))
    assert logs[0] == logs[1] == logs[2] == logs[3]


def test_each_subject_begins_with_its_own_facts(transport, contest) -> None:
    decoder = Recorder()
    what = program("erp", erp_recording(), erp_recording((136,), "S02"))
    played = play(transport, contest, what, {"alice": decoder})
    assert [info.subject for info in decoder.infos] == ["S01", "S02"]
    kinds = [event["kind"] for event in lines(played.runs["alice"].path)]
    assert kinds.count("session") == kinds.count("truth") == 2


def test_many_teams_in_real_time_are_judged_apart(transport, contest) -> None:
    teams = {f"team{k}": reports_at({9: k}) for k in range(4)}
    played = play(transport, contest, program("erp", erp_recording()), teams, pace="5")
    assert played.errors == {}
    for k in range(4):
        run = played.runs[f"team{k}"]
        assert run.ended == "finished"
        assert [e["result"] for e in lines(run.path) if e["kind"] == "report"] == [k]
        check_every_sample(teams[f"team{k}"].packets, erp_recording().n_samples)


class TestEcog:
    def recording(self, n_samples: int = 205):
        angles = np.arange(n_samples // 5 * 8, dtype=float).reshape(-1, 8)
        return counter_recording("ecog", [(n_samples, ())], "P2", angles)

    def test_only_the_chosen_leads_are_sent_in_their_order(self, transport, contest) -> None:
        class Picky(Recorder):
            def choose(self, info, count):
                return [32, *range(1, count)]

        decoder = Picky(lambda number, packet: [np.ones((8, 8))])
        played = play(transport, contest, program("ecog", self.recording()), {"alice": decoder})
        assert played.errors == {}
        assert decoder.infos[0].lead_names[:2] == ("ch32", "ch1")
        assert decoder.packets[0].signal[0].tolist() == [31e5, *(k * 1e5 for k in range(23))]
        log = lines(played.runs["alice"].path)
        assert log[1]["leads"] == 24
        assert sum(event["kind"] == "report" for event in log) == len(decoder.packets) == 6

    @pytest.mark.parametrize("channels", [range(1, 24), [1] * 24, range(24), range(10, 34)])
    def test_a_wrong_choice_is_refused_before_any_data(self, transport, contest, channels) -> None:
        class Wrong(Recorder):
            def choose(self, info, count):
                return list(channels)

        decoder = Wrong()
        played = play(transport, contest, program("ecog", self.recording()), {"alice": decoder})
        assert isinstance(played.errors["alice"], RefusedError)
        assert "1-32" in str(played.errors["alice"]) or "24 distinct" in str(played.errors["alice"])
        assert decoder.packets == []
        assert played.runs == {}


class TestTokens:
    def test_a_team_with_a_wrong_token_gets_no_data(self, contest) -> None:
        decoder = Recorder()
        contest_ = contest
        transport = MemoryTransport()
        import playground

        playground_wait, playground.WAIT_S = playground.WAIT_S, 1.5
        try:
            played = play(
                transport,
                contest_,
                program("erp", erp_recording()),
                {"mallory": decoder},
                tokens=lambda team: b"x" * 32,
            )
        finally:
            playground.WAIT_S = playground_wait
        assert decoder.packets == []
        assert played.runs == {}
        assert "mallory" in played.errors

    def test_a_second_team_is_refused_in_lockstep(self, contest) -> None:
        transport = MemoryTransport()
        first, second = Recorder(), Recorder()
        teams = {"alice": first, "bob": second}
        played = play(transport, contest, program("erp", erp_recording()), teams, expected=1)
        assert any("in lockstep each has its own" in text for text in played.logged)
        assert len(played.runs) == 1


class TestEnds:
    def test_a_decoder_that_raises_ends_its_own_run_as_crashed(self, transport, contest) -> None:
        def fail(number: int, packet: Packet) -> list[object]:
            if number == 20:
                raise ValueError("no more")
            return []

        played = play(
            transport, contest, program("erp", erp_recording()), {"alice": Recorder(fail)}
        )
        run = played.runs["alice"]
        assert (run.ended, run.detail) == ("crashed", "ValueError: no more")
        assert isinstance(played.errors["alice"], ValueError)

    def test_subjects_that_never_came_are_scored_as_missing(self, transport, contest) -> None:
        def fail(number: int, packet: Packet) -> list[object]:
            raise ValueError("at once")

        what = program("erp", erp_recording(), erp_recording((136,), "S02"))
        played = play(transport, contest, what, {"alice": Recorder(fail)})
        result = played.runs["alice"].run.result()
        assert [(s["subject"], s["trials"]) for s in result["sessions"]] == [("S01", 2), ("S02", 1)]
        assert score_run(played.runs["alice"].path).result() == result

    def test_a_crash_of_one_team_leaves_the_others_alone(self, transport, contest) -> None:
        def fail(number: int, packet: Packet) -> list[object]:
            raise RuntimeError("boom")

        teams = {"bad": Recorder(fail), "good": reports_at({9: "E"})}
        played = play(transport, contest, program("erp", erp_recording()), teams, pace="5")
        assert played.runs["bad"].ended == "crashed"
        assert played.runs["good"].ended == "finished"
        assert len(teams["good"].packets) == len(list(program_packets()))

    def test_a_decoder_over_its_compute_limit_ends_as_timeout(self, contest) -> None:
        from dataclasses import replace

        from bci_stream.contest.contest import Limits

        # Below 0, so that it is over however fast this machine is.
        limited = replace(contest, limits=Limits(compute_factor=0.0, compute_extra_s=-1.0))
        decoder = Recorder()
        played = play(
            MemoryTransport(), limited, program("erp", erp_recording()), {"alice": decoder}
        )
        run = played.runs["alice"]
        assert run.ended == "timeout"
        assert "limits.compute_factor" in run.detail
        assert run.run.result()["score"] == 0.0


def program_packets() -> Iterator[int]:
    n = erp_recording().n_samples
    return iter(range(0, n, 10))


def test_trigger_markers_carry_the_stamp_of_their_sample(contest) -> None:
    transport = MemoryTransport()
    inlets: dict[str, Any] = {}

    def listen(player, stop) -> None:
        for role in ("markers", "codes", "signal"):
            (found,) = transport.visible(names.prefix(contest.name, role))
            open_inlet = transport.text_inlet if role == "markers" else transport.sample_inlet
            inlets[role] = open_inlet(found, 1)

    received: dict[str, Any] = {"markers": [], "codes": [], "signal": []}

    def drain(number: int, packet: Packet) -> list[object]:
        received["markers"] += inlets["markers"].pull(0.0)
        for role in ("codes", "signal"):
            samples, stamps = inlets[role].pull(10**6, 0.0)
            received[role] += zip(samples[:, -1].tolist(), stamps.tolist(), strict=True)
        return []

    played = play(
        transport, contest, program("erp", erp_recording()), {"a": Recorder(drain)}, around=listen
    )
    assert played.errors == {}
    on_signal = [(code, stamp) for code, stamp in received["signal"] if code > 0]
    codes = received["codes"]
    assert [c for c, _ in codes] == [c for c, _ in on_signal][: len(codes)]
    assert [str(int(c)) for c, _ in codes] == [text for text, _ in received["markers"]]
    for (_, stamp), (_, sample_stamp) in zip(codes, on_signal, strict=False):
        assert abs(stamp - sample_stamp) < 1e-6
