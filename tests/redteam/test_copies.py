"""Programs between replay, teams and judge: what they copy or change is refused, with the reason."""

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs
from playground import WAIT_S, play
from redteam.attacks import Attacker, Speller, attacking, check_run, what

from bci_stream.contest.contest import Contest
from bci_stream.errors import WireError
from bci_stream.wire import names
from bci_stream.wire.crypto import seal_results, unseal_results
from bci_stream.wire.handshake import ControlReader, Handshake, UnverifiedError
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import Go, Join, ReportMessage, Stopped, Welcome, encode
from bci_stream.wire.results import ResultsPublisher
from bci_stream.wire.transport import Lead, StreamSpec
from bci_stream.wire.verify import JudgeVerifier, MessageVerifier
from replay.player.inlets import FromTeam, ReplayInlets


def test_a_welcome_that_names_another_signal_stream_is_refused(sealed, undisturbed) -> None:
    """A5: what is copied or changed is refused with the reason, and the team joins the real replay."""

    def swap_signal(a: Attacker) -> None:
        outlet = a.outlet("control", "a")
        for text in a.read("control", "r"):
            a.sent += 1
            outlet.push(text.replace('"signal_uid":"', '"signal_uid":"x'))

    transport = MemoryTransport()
    with attacking(transport, sealed, swap_signal):
        played = play(transport, sealed, what(), {"alice": Speller()})
    check_run(played, undisturbed)
    if any("replay 'a'" in line for line in played.logged):  # it was found before the real one
        reasons = ("another program has copied it", "is not signed by this contest's key")
        assert any(reason in line for line in played.logged for reason in reasons)


def test_a_replay_that_names_its_own_streams_in_copied_messages_is_refused(
    sealed, undisturbed
) -> None:
    """A5 in full: the proof is the real one, and both uids are those of the program in between."""

    def stand_between(a: Attacker) -> None:
        control = a.outlet("control", "a")
        lead = StreamSpec("x", "EEG", names.source_id(a.contest, "signal", "r"), "float32", 250.0,
                          leads=(Lead("x"),) * 65)  # fmt: skip
        signal = a.sample_outlet(lead)
        for text in a.read("control", "r"):
            message = json.loads(text)
            for field, uid in (("control_uid", control.uid), ("signal_uid", signal.uid)):
                if field in message:
                    message[field] = uid
            control.push(json.dumps(message, separators=(",", ":")))
            signal.push(np.full((10, 65), -777.0, np.float32), a.transport.now())
            a.sent += 1

    transport = MemoryTransport()
    with attacking(transport, sealed, stand_between) as (attacker,):
        speller = Speller()
        played = play(transport, sealed, what(), {"alice": speller})
        assert attacker.sent > 0
    check_run(played, undisturbed)
    assert not any((packet.samples == -777.0).any() for packet in speller.packets)


def test_a_signed_message_of_another_run_is_refused(sealed) -> None:
    """Recorded in an earlier run of this contest, whose key is the same."""
    transport = MemoryTransport()
    outlet = transport.text_outlet(names.text_stream(sealed.name, "control", "r"))
    (found,) = transport.visible("")
    control = ControlReader(transport.text_inlet(found, 1.0), "r", sealed.keys.public_key())
    for run in ("run", "earlier"):
        outlet.push(sealed.keys.signing_key().sign(encode(Stopped("over", run=run)), "control"))
    control.run = "earlier"
    with pytest.raises(UnverifiedError, match="is of run 'run', not of 'earlier'"):
        control.pull(0.0)


@pytest.mark.parametrize("changed", [{"nonce": "earlier"}, {"control_uid": "other"}])
def test_a_signed_welcome_of_another_join_or_stream_is_refused(sealed, changed) -> None:
    transport = MemoryTransport()
    publisher = ResultsPublisher(transport, sealed.name, "alice", sealed.keys.token("alice"))
    key = sealed.keys.public_key()
    handshake = Handshake(transport, publisher, "erp", dict, 1.0, threading.Event(), key)  # type: ignore[arg-type]
    welcome = Welcome("run", "alice", "signal", "proof", "nonce", "uid", "signal's uid")
    handshake._check_welcome(welcome, "r", "nonce", "uid")
    with pytest.raises(UnverifiedError, match="another program stands between"):
        handshake._check_welcome(structs.replace(welcome, **changed), "r", "nonce", "uid")


class ChangingTransport(MemoryTransport):
    """A network on which somebody changes one sample in packet 20 of the signal."""

    def sample_outlet(self, spec: StreamSpec) -> Any:
        outlet = super().sample_outlet(spec)
        if "/signal/" in spec.source_id:
            push, packets = outlet.push, []

            def changed(samples: Any, stamps: Any) -> float:
                if len(samples) == 10:  # neither a probe nor a warm-up
                    packets.append(samples)
                if len(packets) == 20 and len(samples):
                    samples = samples.copy()
                    samples[0, 0] += 1.0
                return push(samples, stamps)

            outlet.push = changed  # type: ignore[method-assign]
        return outlet


@pytest.mark.parametrize("pace", ["lockstep", "4"])
def test_changed_samples_are_refused(sealed, pace) -> None:
    played = play(ChangingTransport(), sealed, what(), {"alice": Speller()}, pace=pace)
    error = played.errors["alice"]
    assert isinstance(error, UnverifiedError)
    assert "are not those that the replay signed" in str(error)


@pytest.mark.parametrize("first", ["copy", "original"])
def test_a_copied_message_does_not_take_the_place_of_the_original(sealed, first) -> None:
    """The copy is there before the team's own message, on a stream that was opened before the team's."""
    transport = MemoryTransport()
    copies = transport.text_outlet(names.text_stream(sealed.name, "results", "alice"))
    publisher = ResultsPublisher(
        transport, sealed.name, "alice", sealed.keys.token("alice"), sealed=True
    )
    verifier = MessageVerifier(sealed.name, {"run"}, sealed.token, sealed=True)
    key = sealed.keys.public_key()
    inlets = ReplayInlets(transport, sealed.name, "run", key, verifier, lockstep=True)
    deadline = transport.now() + WAIT_S
    while len(inlets._results._streams) < 2 and transport.now() < deadline:
        inlets._results.look()
    (own,) = [s for s in transport.visible("") if s.uid == publisher._outlet.uid]
    seen = transport.text_inlet(own, 1.0)
    publisher.run = "run"
    publisher.send(Join, nonce="n")
    ((text, _),) = seen.pull(1.0)
    copies.push(text)
    if first == "original":
        inlets._results._streams = dict(reversed(inlets._results._streams.items()))
    received = inlets.receive_results(0.0)
    assert [(type(event.message), event.uid) for event in received] == [(Join, own.uid)]
    assert all(isinstance(event, FromTeam) for event in received)
    assert verifier.dropped == {"copied": 1}
    inlets.close()
    publisher.close()


def test_a_judges_message_counts_on_its_own_stream_only(sealed) -> None:
    verifier = JudgeVerifier(sealed.name, sealed.keys.public_key())
    text = encode(Go(sealed.name, "run", 7, stream="judge's"))
    signed = sealed.keys.signing_key().sign(text, "judge")
    assert verifier.verify(signed, "another") is None
    assert isinstance(verifier.verify(signed, "judge's"), Go)
    assert verifier.verify(signed, "judge's") is None  # sent again


def test_another_team_can_neither_read_nor_send_a_teams_report(sealed) -> None:
    """A4: with sealed results."""
    alice, bob = sealed.keys.token("alice"), sealed.keys.token("bob")
    report = ReportMessage(sealed.name, "run", "alice", 1, 5, 0, stream="uid")
    text = seal_results(encode(report), alice, sealed.name, "alice", "run", 1)
    assert "report" not in text
    with pytest.raises(WireError):
        unseal_results(text, bob, sealed.name)
    verifier = MessageVerifier(sealed.name, {"run"}, sealed.token, sealed=True)
    for changed in (text.replace("alice", "bob", 1), text.replace(" run ", " run2 ", 1)):
        assert verifier.verify(changed) is None
    claimed = verifier.read(text)
    assert claimed is not None
    assert verifier.authenticate(claimed, "bob's stream", "bob") is None
    assert verifier.authenticate(claimed, "uid", "alice") == report


def test_results_of_short_reports_look_alike(sealed: Contest) -> None:
    token = sealed.keys.token("alice")

    def length(result: object) -> int:
        report = ReportMessage(sealed.name, "0" * 16, "alice", 1, result, 0, stream="u" * 36)
        return len(seal_results(encode(report), token, sealed.name, "alice", "0" * 16, 1))

    assert len({length(result) for result in (1, 36, "left", 2.5, None)}) == 1


VECTORS = Path(__file__).parents[2] / "docs" / "protocol.md"


def test_the_documents_test_vectors_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    from bci_stream.wire import crypto

    section = VECTORS.read_text().split("## Test vectors")[1]
    v = json.loads(section.split("```json")[1].split("```")[0])
    contest_key = bytes.fromhex(v["contest_key"])
    token = crypto.derived_key(contest_key, "team alice")
    assert token.hex() == v["token"]
    key = crypto.SigningKey(crypto.derived_key(contest_key, "sign"))
    assert key.public.raw.hex() == v["public_key"]
    for role in ("control", "judge"):
        assert key.sign(v["message"], role) == v[f"signed_{role}"]
        assert key.public.verified(v[f"signed_{role}"], role) == v["message"]
    assert crypto.sign(v["report"], token) == v["report_mac"]
    assert crypto.proof("r1", "alice", token) == v["proof"]
    monkeypatch.setattr(crypto.os, "urandom", lambda n: bytes.fromhex(v["nonce"])[:n])
    sealed = crypto.seal_results(v["report"], token, "c", "alice", "r1", 7)
    assert sealed == v["report_sealed"]
    assert crypto.unseal_results(sealed, token, "c") == (v["report"], "alice", "r1", 7)
    truth_key = crypto.derived_key(contest_key, "truth")
    assert crypto.seal_truth(v["truth"], truth_key, "r1", "u1") == v["truth_sealed"]
    assert crypto.unseal_truth(v["truth_sealed"], truth_key, "u1") == ("r1", v["truth"])
    samples = bytes.fromhex(v["samples"])
    assert crypto.sample_digest(samples) == v["digest"]
