"""Writes small recordings of every format, with a counter channel: any chunk of it proves its place."""

import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np

RATE = 250
N_SAMPLES = 1250
LEADS = ("C3", "Cz", "C4", "COUNT")
TRIGGERS = ((0, 250), (10, 242), (260, 11), (510, 12), (760, 21), (1249, 243))


def counted_rows() -> np.ndarray:
    """(leads, samples) in whole microvolts; the last lead counts samples."""
    rng = np.random.default_rng(3)
    waves = rng.integers(-200, 200, (len(LEADS) - 1, N_SAMPLES))
    return np.vstack([waves, np.arange(N_SAMPLES)]).astype(np.float64)


def stim_row() -> np.ndarray:
    row = np.zeros(N_SAMPLES)
    for sample, code in TRIGGERS:
        row[sample] = code
    return row


def _raw(data_uv, stim=None):
    import mne

    kinds, names, rows = ["eeg"] * len(LEADS), list(LEADS), data_uv * 1e-6
    if stim is not None:
        kinds, names, rows = [*kinds, "stim"], [*names, "STI 014"], np.vstack([rows, stim])
    info = mne.create_info(names, RATE, kinds)
    return mne.io.RawArray(rows, info, verbose="error")


def _annotated(data_uv):
    import mne

    raw = _raw(data_uv)
    onsets = [sample / RATE for sample, _ in TRIGGERS]
    raw.set_annotations(mne.Annotations(onsets, 0, [str(code) for _, code in TRIGGERS]))
    return raw


def _edf(path: Path, data, stim, suffix="edf") -> Path:
    import edfio

    signal = {"edf": edfio.EdfSignal, "bdf": edfio.BdfSignal}[suffix]
    document = {"edf": edfio.Edf, "bdf": edfio.Bdf}[suffix]
    notes = [edfio.EdfAnnotation(s / RATE, None, str(code)) for s, code in TRIGGERS]
    bound = 2 ** (15 if suffix == "edf" else 23)
    signals = [
        signal(
            row,
            RATE,
            label=name,
            physical_dimension="uV",
            physical_range=(-bound, bound - 1),
            digital_range=(-bound, bound - 1),
        )
        for name, row in zip(LEADS, data, strict=True)
    ]
    document(signals, data_record_duration=0.2, annotations=notes).write(path)
    return path


def _edf_with_stim(path: Path, data, stim) -> Path:
    import edfio

    bound = 2**15
    signals = [
        edfio.EdfSignal(
            row,
            RATE,
            label=name,
            physical_dimension=unit,
            physical_range=(-bound, bound - 1),
            digital_range=(-bound, bound - 1),
        )
        for name, row, unit in zip(
            (*LEADS, "TRIGGER"), [*data, stim], ["uV"] * len(LEADS) + [""], strict=True
        )
    ]
    edfio.Edf(signals, data_record_duration=0.2).write(path)
    return path


def _bdf(path: Path, data, stim) -> Path:
    return _edf(path, data, stim, "bdf")


def _fif(path: Path, data, stim) -> Path:
    _raw(data, stim).save(path, fmt="double", overwrite=True, verbose="error")
    return path


def _vhdr(path: Path, data, stim) -> Path:
    import pybv

    pybv.write_brainvision(
        data=data * 1e-6,
        sfreq=RATE,
        ch_names=list(LEADS),
        fname_base=path.stem,
        folder_out=path.parent,
        events=np.array(TRIGGERS),
        resolution=1.0,
        fmt="binary_float32",
        overwrite=True,
    )
    return path


def _set(path: Path, data, stim) -> Path:
    import mne

    mne.export.export_raw(path, _annotated(data), overwrite=True, verbose="error")
    return path


def _gdf(path: Path, data, stim) -> Path:
    """GDF 1.25 as its specification has it: int16, one second a record, an event table."""
    n, seconds = len(LEADS), N_SAMPLES // RATE
    data = data[:, : seconds * RATE].astype("<i2")
    head = b"GDF 1.25" + b" " * 160 + b"2020010100000000"
    head += struct.pack("<q", 256 * (n + 1)) + b"\0" * 44
    head += struct.pack("<qIII", seconds, 1, 1, n)
    head += b"".join(name.encode().ljust(16) for name in LEADS) + b" " * 80 * n
    head += b"uV".ljust(8) * n
    head += struct.pack(f"<{n}d", *[-32768.0] * n) + struct.pack(f"<{n}d", *[32767.0] * n)
    head += struct.pack(f"<{n}q", *[-32768] * n) + struct.pack(f"<{n}q", *[32767] * n)
    head += b" " * 80 * n + struct.pack(f"<{n}i", *[RATE] * n) + struct.pack(f"<{n}i", *[3] * n)
    head += b"\0" * 32 * n
    records = b"".join(
        data[:, second * RATE : (second + 1) * RATE].tobytes() for second in range(seconds)
    )
    kept = [trigger for trigger in TRIGGERS if trigger[0] < seconds * RATE]
    table = b"\x01" + RATE.to_bytes(3, "little") + struct.pack("<I", len(kept))
    table += struct.pack(f"<{len(kept)}I", *(sample + 1 for sample, _ in kept))
    table += struct.pack(f"<{len(kept)}H", *(code for _, code in kept))
    path.write_bytes(head + records + table)
    return path


def _cnt(path: Path, data, stim) -> Path:
    """Neuroscan CNT: int16, multiplexed; its events point behind the sample that they mark."""
    n = len(LEADS)
    begin = 900 + 75 * n
    end = begin + 2 * n * N_SAMPLES
    head = bytearray(begin)
    head[:12] = b"Version 3.0\0"
    struct.pack_into("<H", head, 370, n)
    struct.pack_into("<H", head, 376, RATE)
    struct.pack_into("<i", head, 864, N_SAMPLES)
    struct.pack_into("<i", head, 886, end)
    for k, name in enumerate(LEADS):
        at = 900 + 75 * k
        head[at : at + len(name)] = name.encode()
        struct.pack_into("<ff", head, at + 19, 0.1 * k, 0.2)
        struct.pack_into("<f", head, at + 59, 204.8)
        struct.pack_into("<f", head, at + 71, 1.0)
    events = b"".join(
        struct.pack("<HBbi", code, 0, 0, begin + 2 * n * (sample + 1)) for sample, code in TRIGGERS
    )
    table = struct.pack("<bii", 1, len(events), 0) + events
    path.write_bytes(bytes(head) + data.T.astype("<i2").tobytes() + table)
    return path


def _npz(path: Path, data, stim) -> Path:
    np.savez(
        path, data=np.vstack([data, stim]).astype(np.float32), rate=RATE, leads=np.array(LEADS)
    )
    return path


def _npy(path: Path, data, stim) -> Path:
    np.save(path, np.vstack([data, stim]))
    return path


def _mat(path: Path, data, stim) -> Path:
    from scipy.io import savemat

    leads = np.array(LEADS, dtype=object)
    savemat(path, {"data": np.vstack([data, stim]), "fs": float(RATE), "labels": leads})
    return path


def _pkl(path: Path, data, stim) -> Path:
    path.write_bytes(pickle.dumps({"data": np.vstack([data, stim]), "rate": np.float64(RATE)}))
    return path


class XdfWriter:
    """XDF as its specification has it: just enough to make small files."""

    def __init__(self, file) -> None:
        self._file = file
        file.write(b"XDF:")
        self._chunk(1, b"<?xml version='1.0'?><info><version>1.0</version></info>")

    def stream(self, number: int, header: str) -> None:
        self._chunk(2, struct.pack("<I", number) + header.encode())

    def samples(self, number: int, values, times) -> None:
        rows = b"".join(
            b"\x08" + struct.pack("<d", time) + self._row(row)
            for row, time in zip(values, times, strict=True)
        )
        self._chunk(3, struct.pack("<IBI", number, 4, len(values)) + rows)

    def _row(self, row) -> bytes:
        if isinstance(row, np.ndarray):
            return row.tobytes()
        texts = [text.encode() for text in row]
        return b"".join(b"\x04" + struct.pack("<I", len(text)) + text for text in texts)

    def clock_offset(self, number: int, time: float, offset: float) -> None:
        self._chunk(4, struct.pack("<Idd", number, time, offset))

    def finish(self, number: int, first: float, last: float, count: int) -> None:
        text = (
            f"<?xml version='1.0'?><info><first_timestamp>{first}</first_timestamp>"
            f"<last_timestamp>{last}</last_timestamp><sample_count>{count}</sample_count></info>"
        )
        self._chunk(6, struct.pack("<I", number) + text.encode())

    def _chunk(self, tag: int, content: bytes) -> None:
        self._file.write(b"\x04" + struct.pack("<IH", len(content) + 2, tag) + content)


def _xdf(path: Path, data, stim) -> Path:
    with path.open("wb") as file:
        writer = XdfWriter(file)
        channels = "".join(
            f"<channel><label>{name}</label><unit>microvolts</unit><type>EEG</type></channel>"
            for name in LEADS
        )
        writer.stream(1, stream_header("Signal", "EEG", len(LEADS), RATE, "float32", channels))
        writer.stream(2, stream_header("Marks", "Markers", 1, 0, "string", ""))
        times = 1000 + np.arange(N_SAMPLES) / RATE
        writer.clock_offset(1, 1000.0, 0.25)
        writer.clock_offset(2, 1000.0, 0.25)
        for start in range(0, N_SAMPLES, 100):
            piece = slice(start, start + 100)
            writer.samples(1, data[:, piece].T.astype(np.float32), times[piece])
        marks = [s for s, _ in TRIGGERS]
        writer.samples(2, [[str(code)] for _, code in TRIGGERS], times[marks])
        writer.finish(1, times[0], times[-1], N_SAMPLES)
        writer.finish(2, times[marks[0]], times[marks[-1]], len(marks))
    return path


def stream_header(name, kind, channels, rate, form, described) -> str:
    return (
        f"<?xml version='1.0'?><info><name>{name}</name><type>{kind}</type>"
        f"<channel_count>{channels}</channel_count><nominal_srate>{rate}</nominal_srate>"
        f"<channel_format>{form}</channel_format><source_id>{name}-1</source_id>"
        f"<desc><channels>{described}</channels></desc></info>"
    )


WRITERS: dict[str, Callable[..., Path]] = {
    "run.edf": _edf,
    "stim.edf": _edf_with_stim,
    "run.bdf": _bdf,
    "run_raw.fif": _fif,
    "run.gdf": _gdf,
    "run.cnt": _cnt,
    "run.vhdr": _vhdr,
    "run.set": _set,
    "run.npz": _npz,
    "run.npy": _npy,
    "run.mat": _mat,
    "run.pkl": _pkl,
    "run.xdf": _xdf,
}
PARAMETERS = {"run.npy": "?rate=250&leads=C3,Cz,C4,COUNT", "run.pkl": "?leads=C3,Cz,C4,COUNT"}


def write_recording(name: str, folder: Path) -> Path:
    """Write a small recording; name: one of WRITERS."""
    return WRITERS[name](folder / name, counted_rows(), stim_row())
