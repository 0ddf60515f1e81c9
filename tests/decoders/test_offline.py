"""An offline run gives a decoder what the wire would, and judges it by the track's rules."""

import numpy as np
import pytest

from bci_stream.errors import RuleError
from bci_stream.packet import Lead, SignalInfo, with_trigger
from decoders.chance import EcogConstant, MiChance
from decoders.offline import chosen_places, run_offline, track_of
from replay.transform.masking import masked_packets
from tracks.registry import TRACKS
from tracks.run import Run


def test_no_label_reaches_a_decoder(mi_session, erp_session) -> None:
    shown = {
        code
        for track, session in (
            ("mi", mi_session(blocks=1, trials=3)),
            ("erp", erp_session(text="XY")),
        )
        for packet in masked_packets(TRACKS[track], session)
        for _, code in packet.triggers
    }
    assert shown == {242, 200, 202, 203, 241, 101, *range(1, 13)}


def test_rest_and_cue_are_zeroed_as_on_the_wire(mi_session) -> None:
    packets = list(masked_packets(TRACKS["mi"], mi_session(blocks=1, trials=1)))
    silent = [not packet.signal.any() for packet in packets]
    assert silent[0]
    assert silent[-1]
    assert not all(silent)


def test_trigger_stands_last_and_finish_on_the_very_last_packet(mi_session) -> None:
    packets = list(masked_packets(TRACKS["mi"], mi_session(blocks=2, trials=1)))
    assert [packet.finish for packet in packets] == [False] * (len(packets) - 1) + [True]
    for packet in packets:
        column = {(i, int(code)) for i, code in enumerate(packet.samples[:, -1]) if code}
        assert column == set(packet.triggers)


def test_of_two_codes_on_one_sample_the_last_shows() -> None:
    whole = with_trigger(np.zeros((2, 1), dtype=np.float32), ((1, 241), (1, 101)))
    assert whole[:, -1].tolist() == [0, 101]


def test_the_log_judges_to_the_same_score(mi_session) -> None:
    outcome = run_offline("mi", MiChance(), [mi_session(blocks=1), mi_session(blocks=1, seed=2)])
    again = Run()
    for event in outcome.events:
        again.feed(event)
    assert again.result() == outcome.result
    assert len(outcome.compute_s) == sum(e["kind"] == "packet" for e in outcome.events)


def test_packets_are_the_tracks_at_any_rate() -> None:
    assert TRACKS["mi"].packet_samples_at(1000) == 40
    assert TRACKS["mi"].packet_samples_at(160) == 6
    assert TRACKS["emotion"].packet_samples_at(250) == 50


@pytest.mark.parametrize("numbers", [range(1, 24), [1] * 24, range(24), range(10, 34)])
def test_leads_must_be_chosen_as_the_rules_say(numbers) -> None:
    info = SignalInfo("ecog", "S", 1000.0, tuple(Lead(f"ch{k}") for k in range(32)), 40)

    class Chooser(EcogConstant):
        def choose(self, info, count):
            return numbers

    with pytest.raises(RuleError, match=r"exactly 24 distinct channels|whole numbers of 1-32"):
        chosen_places(TRACKS["ecog"], Chooser(), info)
    with pytest.raises(RuleError, match="must choose 24 leads"):
        chosen_places(TRACKS["ecog"], MiChance(), info)
    assert chosen_places(TRACKS["ecog"], EcogConstant(), info) == list(range(24))


def test_an_unknown_track_is_named() -> None:
    with pytest.raises(RuleError, match="track 'chess'"):
        track_of("chess")
