"""Lab Streaming Layer as a transport: the one module that touches pylsl."""

import contextlib
import time
from collections.abc import Sequence

import numpy as np
import pylsl
from numpy.typing import NDArray
from pylsl.info import XMLElement
from pylsl.lib import fmt2string
from pylsl.util import LostError as LslLostError
from pylsl.util import TimeoutError as LslTimeoutError

from bci_stream.errors import LostError, NotFoundError, WireError
from bci_stream.packet import FloatArray, Lead
from bci_stream.wire.network import Scope, config
from bci_stream.wire.transport import (
    MAX_TEXT_BYTES,
    MOST_TEXTS,
    FoundStream,
    StreamSpec,
    number_text,
)

BUFFER_S = 360
"""How long a slow consumer may fall behind before LSL drops its oldest samples (without an error)."""

TEXTS_A_BUFFER_UNIT = 100
"""LSL counts the buffer of an irregular stream in hundreds of samples."""

TEXTS_AT_ONCE, LENGTH_AT_ONCE, TEXTS_A_CALL, SHORT = 256, 1 << 22, 16, 10_000
"""Limits for one pull, in texts and characters: a flooded stream must not delay the reader's others. One
call of liblsl brings up to TEXTS_A_CALL texts if they are SHORT on average, else one."""

MOST_SLOTS = 8
"""How many values the buffer of a text inlet may have for each text that it is to keep."""

MOST_SAMPLES = 4_000_000
"""How many samples the buffer of a signal may have: liblsl takes about 20 bytes for each before one has
arrived. That of a stream of more than 11 kHz is shorter than BUFFER_S."""

MOST_RATE, MOST_VALUES = 500_000.0, 100_000_000
"""The highest rate of a signal, in Hz, and how many values liblsl may reserve memory for: it does so for 5 s,
for 128 samples where there is no rate."""

FIRST_OFFSET_S = 5.0
"""How long the first measurement of a clock offset may take."""

MOST_DESCRIPTORS = 65_536

_FORMATS = {"float32": pylsl.cf_float32, "int32": pylsl.cf_int32, "string": pylsl.cf_string}


class LslTransport:
    """LSL with one configuration a process: liblsl reads its settings once, before its first use."""

    def __init__(self, scope: Scope = "machine", session: str = "default") -> None:
        pylsl.set_config_content(config(scope, session))
        _allow_descriptors()

    def now(self) -> float:
        return float(pylsl.local_clock())

    def watch(self, prefix: str) -> "LslWatch":
        return LslWatch(prefix)

    def text_outlet(self, spec: StreamSpec) -> "LslTextOutlet":
        return LslTextOutlet(spec)

    def text_inlet(
        self,
        found: FoundStream,
        timeout_s: float,
        most_texts: int = MOST_TEXTS,
        *,
        measure_clock: bool = False,
    ) -> "LslTextInlet":
        return LslTextInlet(found, timeout_s, most_texts, measure_clock)

    def sample_outlet(self, spec: StreamSpec) -> "LslSampleOutlet":
        return LslSampleOutlet(spec)

    def sample_inlet(self, found: FoundStream, timeout_s: float) -> "LslSampleInlet":
        return LslSampleInlet(found, timeout_s)


class LslWatch:
    """A standing search: liblsl asks again and again in a thread of its own."""

    def __init__(self, prefix: str) -> None:
        self._resolver = pylsl.ContinuousResolver(pred=f"starts-with(source_id,{_quoted(prefix)})")

    def found(self) -> list[FoundStream]:
        found = []
        for info in self._resolver.results():
            # A stream of another program may have a name that is not UTF-8, or that would control the
            # terminal on which it is listed; it is none of ours.
            with contextlib.suppress(UnicodeDecodeError):
                identity = (info.name(), info.type(), info.source_id(), info.uid())
                if "".join(identity).isprintable():
                    found.append(FoundStream(*identity, info))
        return found

    def close(self) -> None:
        del self._resolver


class LslTextOutlet:
    def __init__(self, spec: StreamSpec) -> None:
        most = MOST_TEXTS // TEXTS_A_BUFFER_UNIT
        self._outlet = pylsl.StreamOutlet(_stream_info(spec), max_buffered=most)
        self.uid = str(self._outlet.get_info().uid())

    def push(self, text: str, stamp: float = 0.0) -> None:
        self._outlet.push_sample([text], stamp)

    def has_consumers(self) -> bool:
        return bool(self._outlet.have_consumers())

    def close(self) -> None:
        del self._outlet


class LslTextInlet:
    def __init__(
        self, found: FoundStream, timeout_s: float, most_texts: int, measure_clock: bool
    ) -> None:
        self._name = found.name
        self._offset_s = 0.0
        buffer = max(1, most_texts // TEXTS_A_BUFFER_UNIT)
        _check_buffer(found, buffer, MOST_SLOTS * most_texts)
        self._inlet = _inlet(found, buffer)
        if measure_clock:  # before the connection, so that no flood fills memory meanwhile
            self._offset_s = _clock_offset_s(self._inlet, 0.0, timeout_s)
        _connect(self._inlet, found, timeout_s)

    def pull(self, timeout_s: float) -> list[tuple[str, float]]:
        texts: list[tuple[str, float]] = []
        try:
            raw, stamp = self._inlet.pull_sample(timeout_s)
            if raw is not None:
                texts.append((_text(raw[0]), stamp))
                self._pull_more(texts)
        except LslLostError as error:
            if not texts:
                raise _lost(self._name) from error
        return texts

    def _pull_more(self, texts: list[tuple[str, float]]) -> None:
        """Add the texts that wait: each call of liblsl gives way to the process's other threads."""
        length = len(texts[0][0])
        while (
            len(texts) < TEXTS_AT_ONCE
            and length < LENGTH_AT_ONCE
            and self._inlet.samples_available()
        ):
            most = TEXTS_A_CALL if length < SHORT * len(texts) else 1
            rows, stamps = self._inlet.pull_chunk(0.0, max_samples=most)
            more = [(_text(row[0]), float(stamp)) for row, stamp in zip(rows, stamps, strict=True)]
            length += sum(len(text) for text, _ in more)
            texts += more

    def clock_offset_s(self) -> float:
        inlet = getattr(self, "_inlet", None)
        if inlet is not None:  # else another thread has closed it
            self._offset_s = _clock_offset_s(inlet, self._offset_s)
        return self._offset_s

    def close(self) -> None:
        del self._inlet


class LslSampleOutlet:
    def __init__(self, spec: StreamSpec) -> None:
        self._outlet = pylsl.StreamOutlet(_stream_info(spec), max_buffered=BUFFER_S)
        self.uid = str(self._outlet.get_info().uid())

    def push(
        self, samples: FloatArray | NDArray[np.int32], stamps: float | Sequence[float]
    ) -> float:
        # liblsl reads as many stamps as there are samples, past the end of a list that is too short.
        if not isinstance(stamps, float) and len(stamps) != len(samples):
            raise ValueError(f"{len(samples)} samples need as many stamps, got {len(stamps)}")
        left_at = float(pylsl.local_clock())
        self._outlet.push_chunk(samples, stamps)
        return left_at

    def has_consumers(self) -> bool:
        return bool(self._outlet.have_consumers())

    def close(self) -> None:
        del self._outlet


class LslSampleInlet:
    def __init__(self, found: FoundStream, timeout_s: float) -> None:
        self._offset_s = 0.0
        self._inlet = _inlet(found, _signal_buffer_s(found))
        _connect(self._inlet, found, timeout_s)
        try:
            self.spec = _spec(self._inlet.info(timeout=timeout_s))
        except (LslTimeoutError, LslLostError) as error:
            raise _lost(found.name) from error
        self._dtype = self._inlet.np_dtype
        if self._dtype is None:
            raise WireError(f"stream {found.name!r} holds texts, not samples")

    def pull(self, n: int, timeout_s: float) -> tuple[FloatArray, NDArray[np.float64]]:
        into = np.empty((n, self.spec.channels), dtype=self._dtype)
        try:
            samples, stamps = self._inlet.pull_chunk(
                timeout_s, max_samples=n, dest_obj=into, as_numpy=True
            )
        except LslLostError as error:
            raise _lost(self.spec.name) from error
        if self._dtype not in (np.float32, np.int32):  # a stream of other software
            samples = samples.astype(np.float32)
        return samples, np.array(stamps, dtype=np.float64)

    def clock_offset_s(self) -> float:
        self._offset_s = _clock_offset_s(self._inlet, self._offset_s)
        return self._offset_s

    def close(self) -> None:
        del self._inlet


def _allow_descriptors() -> None:
    """Let this process open MOST_DESCRIPTORS files and connections, if the system allows that.

    Anyone may hold connections to an outlet: those of an attacker left none for logs and recordings.
    """
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def streams_now(queries: Sequence[str], seconds: float) -> list[list[tuple[str, str, str, str]]]:
    """(uid, name, type, format) of the streams that each query has found after this time."""
    searches = [pylsl.ContinuousResolver(pred=query) for query in queries]
    time.sleep(seconds)
    return [
        [
            (info.uid(), info.name(), info.type(), fmt2string[info.channel_format()])
            for info in search.results()
        ]
        for search in searches
    ]


def _text(value: object) -> str:
    """A text as liblsl gives it: bytes, or a number if the stream is numeric."""
    if isinstance(value, bytes):
        return value[:MAX_TEXT_BYTES].decode("utf-8", "replace")
    return number_text(value)  # type: ignore[arg-type]


def _inlet(found: FoundStream, buffer: int) -> pylsl.StreamInlet:
    # recover=False: a lost source is an error at once. With recover=True a pull from a lost source
    # exceeded its own timeout by minutes (liblsl 1.18 beta 6).
    # as_numpy: raw bytes, because pylsl raises for a text that is not UTF-8.
    return pylsl.StreamInlet(found.handle, max_buflen=buffer, recover=False, as_numpy=True)


def _connect(inlet: pylsl.StreamInlet, found: FoundStream, timeout_s: float) -> None:
    """From now on the stream's samples are sent to the inlet; raises NotFoundError."""
    try:
        inlet.open_stream(timeout=timeout_s)
    except (LslTimeoutError, LslLostError) as error:
        raise NotFoundError(
            f"stream {found.name!r} was seen but could not be opened within {timeout_s:g} s: "
            "its owner may have just ended; start it again"
        ) from error


def _check_buffer(found: FoundStream, buffer: int, most: int) -> None:
    """Raise WireError for a stream whose inlet would have a buffer of more than so many values.

    liblsl allocates it from the rate and the channels that the stream names, some 90 bytes a text, before
    anything arrives.
    """
    info = found.handle
    assert isinstance(info, pylsl.StreamInfo)
    rate, channels = info.nominal_srate(), info.channel_count()
    if not (rate >= 0 and channels * buffer * (rate or TEXTS_A_BUFFER_UNIT) <= most):
        raise WireError(
            f"stream {found.name!r} is no stream of texts: it names {channels} channels at {rate:g} Hz, "
            "where one channel without a rate is expected"
        )


def _signal_buffer_s(found: FoundStream) -> int:
    """How many seconds of a signal are buffered.

    Raises WireError for a rate or a number of channels for which liblsl would need gigabytes: anyone can
    announce such a stream, and the memory is taken before a sample arrives.
    """
    info = found.handle
    assert isinstance(info, pylsl.StreamInfo)
    rate, channels = info.nominal_srate(), info.channel_count()
    if not (0 <= rate <= MOST_RATE and channels * max(5 * rate, 128) <= MOST_VALUES):
        raise WireError(
            f"stream {found.name!r} names {channels} channels at {rate:g} Hz; signals of at most "
            f"{MOST_RATE:g} Hz and {MOST_VALUES // 5:,} values a second are read"
        )
    return int(min(BUFFER_S, MOST_SAMPLES / rate)) if rate else BUFFER_S


def _clock_offset_s(
    inlet: pylsl.StreamInlet, last_s: float, timeout_s: float = FIRST_OFFSET_S
) -> float:
    """liblsl measures it again every 5 s in a thread of its own; last_s: if that is not possible now."""
    try:
        return float(inlet.time_correction(timeout=timeout_s))
    except (LslTimeoutError, LslLostError):
        return last_s


def _lost(name: str) -> LostError:
    return LostError(f"stream {name!r} is gone: its owner ended or the network broke")


def _quoted(text: str) -> str:
    if "'" in text:
        raise ValueError(f"a stream's name may hold no quote, got {text!r}")
    return f"'{text}'"


def _stream_info(spec: StreamSpec) -> pylsl.StreamInfo:
    info = pylsl.StreamInfo(
        spec.name, spec.type, spec.channels, spec.rate, _FORMATS[spec.format], spec.source_id
    )
    desc = info.desc()
    if spec.leads:
        channels = desc.append_child("channels")
        for lead in spec.leads:
            _describe_lead(channels.append_child("channel"), lead)
        desc.append_child("reference").append_child_value("label", "unknown")
        desc.append_child("acquisition").append_child_value("manufacturer", "bci-stream")
        # A device may lose samples. Without this, readers of XDF draw one line through the stamps, which are
        # even already, and a gap moves the markers of the whole recording.
        desc.append_child("synchronization").append_child_value("can_drop_samples", "true")
    if spec.meta:
        meta = desc.append_child("bci")
        for key, value in spec.meta.items():
            meta.append_child_value(key, value)
    return info


def _describe_lead(channel: XMLElement, lead: Lead) -> None:
    channel.append_child_value("label", lead.name)
    channel.append_child_value("unit", lead.unit)
    channel.append_child_value("type", lead.kind)
    if lead.position is not None:
        location = channel.append_child("location")
        for axis, metres in zip("XYZ", lead.position, strict=True):
            location.append_child_value(axis, f"{metres * 1000:.3f}")
        loc = channel.append_child("loc")  # MNE-LSL's own, in metres
        for axis, metres in zip("xyz", lead.position, strict=True):
            loc.append_child_value(f"R0{axis}", f"{metres:.6f}")


def _spec(info: pylsl.StreamInfo) -> StreamSpec:
    names = {number: name for name, number in _FORMATS.items()}
    return StreamSpec(
        info.name(),
        info.type(),
        info.source_id(),
        names.get(info.channel_format(), "float32"),  # type: ignore[arg-type]
        info.nominal_srate(),
        _leads(info),
        _meta(info),
    )


def _leads(info: pylsl.StreamInfo) -> tuple[Lead, ...]:
    leads = []
    channel = info.desc().child("channels").child("channel")
    for number in range(info.channel_count()):
        name = channel.child_value("label") or f"ch{number + 1}"
        kind = channel.child_value("type") or "EEG"
        leads.append(Lead(name, kind, channel.child_value("unit"), _position(channel)))
        channel = channel.next_sibling("channel")
    return tuple(leads)


def _position(channel: XMLElement) -> tuple[float, float, float] | None:
    location = channel.child("location")
    try:
        x, y, z = (float(location.child_value(axis)) / 1000 for axis in "XYZ")
    except ValueError:
        return None
    return x, y, z


def _meta(info: pylsl.StreamInfo) -> dict[str, str]:
    meta = {}
    child = info.desc().child("bci").first_child()
    while not child.empty():
        meta[child.name()] = child.child_value()
        child = child.next_sibling()
    return meta


def stream_host(found: FoundStream) -> str:
    """The name of the host that a stream comes from."""
    info = found.handle
    assert isinstance(info, pylsl.StreamInfo)
    return str(info.hostname())


def lsl_version() -> str:
    """The versions of pylsl and of the liblsl that it has loaded."""
    version = pylsl.library_version()
    return f"pylsl {pylsl.__version__}, liblsl {version // 100}.{version % 100}"
