"""Offline runs: a decoder over recordings in this process, in lockstep, judged by the track's rules.

The decoder gets the packets that the wire would carry: masked, of the track's length, TRIGGER last.
"""

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import thread_time
from typing import Any

from bci_stream.errors import RuleError
from bci_stream.packet import Packet, SignalInfo
from decoders.decoder import ChannelChooser, Decoder, json_value, reports_of
from replay.model.source import Session
from replay.transform.masking import masked_packets
from tracks.common.truth import read_truth
from tracks.registry import TRACKS
from tracks.run import Run
from tracks.track import Track

LogEvent = dict[str, Any]


@dataclass
class OfflineRun:
    """The log and the judged run.

    events: the run log without measured times. compute_s: the decoder's CPU time for each packet.
    """

    run: Run = field(default_factory=Run)
    events: list[LogEvent] = field(default_factory=list)
    compute_s: list[float] = field(default_factory=list)

    @property
    def result(self) -> dict[str, Any]:
        return self.run.result()

    @property
    def score(self) -> float:
        return float(self.result["score"])

    def count(self, kind: str) -> int:
        """The number of events of a kind."""
        return sum(event["kind"] == kind for event in self.events)

    def write(self, event: LogEvent) -> None:
        """Append a line to the log, and judge it."""
        self.events.append(event)
        self.run.feed(event)

    def begin(self, track: Track, rules: dict[str, object] | None = None) -> None:
        self.write({"kind": "run", "v": 1, "track": track.name, "team": "", "rules": rules or {}})

    def stream(
        self,
        track: Track,
        decoder: Decoder,
        sessions: Sequence[Session],
        on_packet: Callable[[Packet], None] | None = None,
    ) -> None:
        """Stream the sessions through the decoder. Raises what the decoder raises."""
        for number, session in enumerate(sessions):
            info, places = introduce(track, decoder, session)
            self.write(_session_line(info))
            self.write(truth_line(track, session))
            decoder.start(info)
            last = number == len(sessions) - 1
            for packet in masked_packets(track, session, places, last=last):
                self._step(decoder, packet)
                if on_packet is not None:
                    on_packet(packet)

    def report(self, results: Sequence[object]) -> None:
        """Write results as the wire carries them, so that NumPy's numbers count here as they do there."""
        for result in results:
            self.write({"kind": "report", "result": json_value(result)})

    def end(self, reason: str) -> None:
        self.write({"kind": "end", "reason": reason})

    def _step(self, decoder: Decoder, packet: Packet) -> None:
        triggers = [[offset, code] for offset, code in packet.triggers]
        self.write({"kind": "packet", "start": packet.start, "n": packet.n, "triggers": triggers})
        gc.disable()  # do not charge the log's garbage to the decoder
        begun = thread_time()
        try:
            results = reports_of(decoder, packet)
        finally:
            self.compute_s.append(thread_time() - begun)
            gc.enable()
        self.report(results)


def run_offline(
    track_name: str,
    decoder: Decoder,
    sessions: Sequence[Session],
    rules: dict[str, object] | None = None,
    on_packet: Callable[[Packet], None] | None = None,
) -> OfflineRun:
    """Stream the sessions through the decoder and judge its reports."""
    track = track_of(track_name).under(rules or {})
    outcome = OfflineRun()
    outcome.begin(track, rules)
    outcome.stream(track, decoder, sessions, on_packet)
    outcome.end("finished")
    return outcome


def track_of(name: str) -> Track:
    """The track of that name. Raises RuleError with the names there are."""
    if name not in TRACKS:
        raise RuleError(f"unknown track {name!r}; choose one of {', '.join(TRACKS)}")
    return TRACKS[name]


def introduce(
    track: Track, decoder: Decoder, session: Session
) -> tuple[SignalInfo, list[int] | None]:
    """The facts of a session for the decoder, and the indices of the leads it chose (None: all)."""
    info = SignalInfo(
        track=track.name,
        subject=session.subject,
        rate=session.rate,
        leads=session.leads,
        packet_samples=track.packet_samples_at(session.rate),
    )
    if track.choose_leads is None or len(session.leads) <= track.choose_leads:
        return info, None
    places = chosen_places(track, decoder, info)
    leads = tuple(session.leads[place] for place in places)
    return SignalInfo(info.track, info.subject, info.rate, leads, info.packet_samples), places


def chosen_places(track: Track, decoder: Decoder, info: SignalInfo) -> list[int]:
    """The indices of the leads that a decoder chooses. Raises RuleError if they break the rules."""
    count = track.choose_leads or len(info.leads)
    if not isinstance(decoder, ChannelChooser):
        raise RuleError(
            f"track {info.track}: a decoder must choose {count} leads; give it a method choose()"
        )
    chosen = track.check_leads(decoder.choose(info, count), len(info.leads))
    return [number - 1 for number in chosen]


def truth_line(track: Track, session: Session) -> LogEvent:
    """The labels of a recorded session, as one line of the log."""
    blocks = session.block_triggers()
    if blocks is None:
        raise RuleError(f"session {session.subject!r} is live: its labels are not known beforehand")
    return read_truth(track, session.rate, blocks, session.angles)


def _session_line(info: SignalInfo) -> LogEvent:
    return {
        "kind": "session",
        "subject": info.subject,
        "rate": info.rate,
        "leads": list(info.lead_names),
        "packet_samples": info.packet_samples,
    }
