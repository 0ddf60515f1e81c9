"""The worker of one team: feeds packets from the wire to a decoder and sends its reports."""

import threading
import time
from collections.abc import Sequence

from bci_stream.errors import BciError, LostError, RefusedError
from bci_stream.packet import Lead, SignalInfo
from bci_stream.wire.client import TeamClient
from bci_stream.wire.messages import Offer
from decoders.decoder import (
    ChannelChooser,
    Decoder,
    DecoderError,
    DecoderFailure,
    json_value,
    reports_of,
)
from decoders.model import ModelError
from decoders.progress import WorkerProgress
from tracks.registry import TRACKS


class Worker:
    """Runs a decoder with a TeamClient. progress: kept up to date for another thread."""

    def __init__(
        self,
        client: TeamClient,
        decoder: Decoder,
        *,
        track: str,
        join_s: float,
        stop: threading.Event,
        progress: WorkerProgress | None = None,
    ) -> None:
        self._client = client
        self._decoder = decoder
        self._track = track
        self._join_s = join_s
        self._stop = stop
        self.progress = progress or WorkerProgress(client.team)
        self._has_begun = False

    def run(self) -> None:
        """Take part in one run. If the decoder raises, the run ends as crashed and the error is raised.

        Raises LostError where the replay ended before the run began.
        """
        offer = self._client.join(self._track, self._choose, self._join_s)
        self.progress.joined(offer)
        try:
            self._work()
        except KeyboardInterrupt:
            self._client.leave("stopped", "interrupted")
            raise
        except DecoderFailure as error:
            for result in error.results:  # reported before the failure: they count
                self._client.report(json_value(result))
            self._client.leave(error.ending, str(error))
            raise
        except (DecoderError, ModelError) as error:  # such as a model of another rate
            self._client.leave("crashed", str(error))
            raise
        except BciError as error:
            self._client.leave("stopped", str(error))
            raise
        except Exception as error:
            self._client.leave("crashed", f"{type(error).__name__}: {error}")
            raise
        early = self._stop.is_set() or self._client.stopped_early
        if self._has_begun or not early:
            self._client.leave("stopped" if early else "finished")
            return
        self._client.leave("stopped", timeout_s=0.0)  # the judge has no run of the team to close
        if self._client.stopped_early:
            raise LostError(
                f"the run never began: replay {offer.name!r} ended before its first packet "
                f"({self._client.stop_reason or 'it gave no reason'}); start again when there is another one"
            )

    def _work(self) -> None:
        for item in self._client.stream():
            if isinstance(item, SignalInfo):
                self._has_begun = True
                self.progress.session(item)
                self._decoder.start(item)
                continue
            begun = time.perf_counter()
            for result in reports_of(self._decoder, item):
                self._client.report(json_value(result))
                self.progress.reports += 1
            self.progress.packet(item, time.perf_counter() - begun)
            self.progress.behind_s = self._client.behind_s

    def _choose(self, offer: Offer) -> dict[str, list[int]]:
        if not isinstance(self._decoder, ChannelChooser):
            raise RefusedError(
                f"track {offer.track!r} sends {offer.choose} chosen leads: the decoder needs a method "
                "choose(info, count) that returns their numbers (from 1)"
            )
        kind = TRACKS[offer.track].lead_kind
        leads = tuple(Lead(name, kind) for name in offer.leads)
        return {
            subject: [int(number) for number in self._chosen(offer, subject, leads)]
            for subject in offer.subjects
        }

    def _chosen(self, offer: Offer, subject: str, leads: tuple[Lead, ...]) -> Sequence[int]:
        info = SignalInfo(offer.track, subject, offer.rate, leads, offer.packet_samples)
        assert isinstance(self._decoder, ChannelChooser)
        return self._decoder.choose(info, offer.choose or len(leads))
