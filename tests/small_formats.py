"""Writes small recordings of formats that MNE or another library reads, as their readers expect them."""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

RATE = 250
N = 1000
NAMES = ("C3", "CZ", "C4")
EVENTS = ((100, 1), (400, 2), (700, 1))


def rows() -> np.ndarray:
    """(leads, samples): whole numbers, as the files store them."""
    return np.random.default_rng(5).integers(-200, 200, (len(NAMES), N))


def persyst(folder: Path) -> Path:
    rows().T.astype("<i2").tofile(folder / "run.dat")
    channels = "".join(f"{name}-Ref={k}\n" for k, name in enumerate(NAMES, 1))
    comments = "".join(f"{at / RATE:.6f},0.0,0,100,{code}\n" for at, code in EVENTS)
    (folder / "run.lay").write_text(
        f"[FileInfo]\nFile=run.dat\nFileType=Interleaved\nSamplingRate={RATE}\nHeaderLength=0\n"
        f"Calibration=1.0\nWaveformCount={len(NAMES)}\nDataType=0\n[ChannelMap]\n{channels}"
        "[Patient]\nFirst=A\nLast=B\nSex=Female\nHand=Right\nBirthDate=01/02/1990\n"
        "TestDate=01/02/2020\nTestTime=10:00:00\n[Comments]\n" + comments
    )
    return folder / "run.lay"


def eximia(folder: Path) -> Path:
    data = np.zeros((N, 64), dtype="<i2")
    data[:, 4:] = np.random.default_rng(1).integers(-200, 200, (N, 60))
    data.tofile(folder / "run.nxe")
    return folder / "run.nxe"


def nicolet(folder: Path) -> Path:
    rows().T.astype("<i2").tofile(folder / "run.data")
    (folder / "run.head").write_text(
        f"start_ts=2020-01-02 10:00:00.000\nnum_samples={N}\nsample_freq={RATE}\n"
        f"conversion_factor=0.5\nnum_channels={len(NAMES)}\nelec_names=[{','.join(NAMES)}]\n"
        "pat_id=1\nadm_id=1\nrec_id=1\nduration_in_sec=4\nsample_bytes=2\n"
    )
    return folder / "run.data"


def nedf(folder: Path) -> Path:
    montage = "".join(f"<Channel_{k}>{name}</Channel_{k}>" for k, name in enumerate(NAMES, 1))
    header = (
        "<?xml version='1.0'?><nedf><NEDFversion>1.4</NEDFversion>"
        "<NumberOfChannelsOfAccelerometer>3</NumberOfChannelsOfAccelerometer>"
        f"<EEGSettings><TotalNumberOfChannels>{len(NAMES)}</TotalNumberOfChannels>"
        f"<EEGSamplingRate>500</EEGSamplingRate><NumberOfRecordsOfEEG>{N}</NumberOfRecordsOfEEG>"
        f"<EEGMontage>{montage}</EEGMontage></EEGSettings>"
        "<StepDetails><StartDate_firstEEGTimestamp>0</StartDate_firstEEGTimestamp></StepDetails></nedf>"
    )
    codes = dict(EVENTS)
    with (folder / "run.nedf").open("wb") as file:
        file.write(header.encode().ljust(10240, b"\0"))
        for start in range(0, N, 5):
            file.write(struct.pack(">3H", 1, 2, 3))
            for at in range(start, start + 5):
                words = rows()[:, at].astype(">i4").view("u1").reshape(-1, 4)[:, 1:]
                file.write(words.tobytes() + struct.pack(">i", codes.get(at, 0)))
    return folder / "run.nedf"


def snirf(folder: Path) -> Path:
    import h5py

    with h5py.File(folder / "run.snirf", "w") as file:
        file["formatVersion"] = "1.1"
        nirs = file.create_group("nirs")
        for key, value in (("SubjectID", "A"), ("MeasurementDate", "2020-01-02"),
                           ("MeasurementTime", "10:00:00Z"), ("LengthUnit", "mm"),
                           ("TimeUnit", "s"), ("FrequencyUnit", "Hz")):  # fmt: skip
            nirs[f"metaDataTags/{key}"] = value
        nirs["probe/wavelengths"] = np.array([760.0, 850.0])
        nirs["probe/sourcePos3D"] = np.array([[0.0, 0.0, 80.0]])
        nirs["probe/detectorPos3D"] = np.array([[30.0, 0.0, 80.0]])
        nirs["probe/sourceLabels"] = np.array([b"S1"])
        nirs["probe/detectorLabels"] = np.array([b"D1"])
        nirs["data1/dataTimeSeries"] = np.abs(rows()[:2].T).astype(float) + 1
        nirs["data1/time"] = np.arange(N) / 10
        for k in (1, 2):
            for key, number in (("sourceIndex", 1), ("detectorIndex", 1), ("wavelengthIndex", k),
                                ("dataType", 1), ("dataTypeIndex", 1)):  # fmt: skip
                nirs[f"data1/measurementList{k}/{key}"] = number
        nirs["stim1/name"] = "7"
        nirs["stim1/data"] = np.array([[10.0, 1.0, 1.0]])
    return folder / "run.snirf"


def bci2000(folder: Path) -> Path:
    """int16, gains of 0.5 uV, and a state of 8 bits."""
    names = " ".join(NAMES)
    body = (
        "[ State Vector Definition ] \r\nStimulusCode 8 0 0 0\r\n"
        "[ Parameter Definition ] \r\n"
        f"Source:Signal intlist SourceChGain= {len(NAMES)} 0.5 0.5 0.5 1 % % // gains\r\n"
        f"Source:Signal list SourceChOffset= {len(NAMES)} 0 0 0 0 % % // offsets\r\n"
        f"Source:Signal list ChannelNames= {len(NAMES)} {names} // names\r\n"
        f"Source:Signal int SamplingRate= {RATE}Hz {RATE}Hz 1 % // rate\r\n"
        "Source:Signal int SampleBlockSize= 10 10 1 % // block\r\n"
        "Storage:Session string StorageTime= Thu%20Jan%2002%2010:00:00%202020 // time\r\n\r\n"
    )
    first = "BCI2000V= 1.1 HeaderLen= {:6d} SourceCh= 3 StatevectorLen= 1 DataFormat= int16 \r\n"
    length = len(first.format(0)) + len(body)
    codes = dict(EVENTS)
    with (folder / "run.dat").open("wb") as file:
        file.write((first.format(length) + body).encode())
        for at, sample in enumerate(rows().T.astype("<i2")):
            file.write(sample.tobytes() + bytes([codes.get(at, 0)]))
    return folder / "run.dat"


def nwb(folder: Path) -> Path:
    from pynwb import NWBHDF5IO, NWBFile
    from pynwb.ecephys import ElectricalSeries

    file = NWBFile(
        session_description="test",
        identifier="id",
        session_start_time=datetime(2020, 1, 2, tzinfo=UTC),
    )
    device = file.create_device(name="amp")
    group = file.create_electrode_group(name="scalp", description="d", location="l", device=device)
    file.add_electrode_column(name="label", description="name of the lead")
    for name in NAMES:
        file.add_electrode(location="scalp", group=group, label=name)
    electrodes = file.create_electrode_table_region(
        region=list(range(len(NAMES))), description="all"
    )
    series = ElectricalSeries(
        name="eeg",
        data=rows().T.astype(np.int16),
        electrodes=electrodes,
        rate=float(RATE),
        conversion=0.5e-6,
    )
    file.add_acquisition(series)
    file.add_trial_column(name="label", description="what is shown")
    for at, code in EVENTS:
        file.add_trial(start_time=at / RATE, stop_time=at / RATE + 0.5, label=str(code))
    with NWBHDF5IO(str(folder / "run.nwb"), "w") as out:
        out.write(file)
    return folder / "run.nwb"


def ahdr(folder: Path) -> Path:
    """As a V-Amp writes it: one channel more in the data than the header states; a marker past the end."""
    noise = np.random.default_rng(6).integers(-9, 9, (1, N))
    np.vstack([rows(), noise]).T.astype("<i2").tofile(folder / "run.eeg")
    channels = "".join(f"Ch{k}={name},,0.5,\u00b5V\n" for k, name in enumerate(NAMES, 1))
    marks = [(at + 1, f"S{code:3d}") for at, code in EVENTS] + [(N + 50, "S  9")]
    listed = "".join(f"Mk{k}=Stimulus,{text},{at},1,0\n" for k, (at, text) in enumerate(marks, 1))
    (folder / "run.amrk").write_text(
        "Brain Vision Data Exchange Marker File, Version 1.0\n[Common infos]\nCodepage=UTF-8\n"
        f"DataFile=run.eeg\n[Marker infos]\n{listed}"
    )
    (folder / "run.ahdr").write_text(
        "Brain Vision Data Exchange Header File Version 2.0\n[Common Infos]\nCodepage=UTF-8\n"
        "DataFile=run.eeg\nMarkerFile=run.amrk\nDataFormat=BINARY\nDataOrientation=MULTIPLEXED\n"
        f"NumberOfChannels={len(NAMES)}\nSamplingInterval={1e6 / RATE:g}\n[Binary Infos]\n"
        f"BinaryFormat=INT_16\n[Channel Infos]\n{channels}"
    )
    return folder / "run.ahdr"


def eeglab73(folder: Path) -> Path:
    """A .set of MATLAB 7.3, with MATLAB's text before the HDF5."""
    import h5py

    def text(group, name: str, value: str) -> None:
        group[name] = np.array([[ord(sign)] for sign in value], dtype=np.uint16)
        group[name].attrs["MATLAB_class"] = np.bytes_("char")

    path = folder / "run.set"
    with h5py.File(path, "w", userblock_size=512) as file:
        eeg = file.create_group("EEG")
        eeg.attrs["MATLAB_class"] = np.bytes_("struct")
        for key, number in (("nbchan", len(NAMES)), ("trials", 1), ("pnts", N), ("srate", RATE),
                            ("xmin", 0.0), ("xmax", (N - 1) / RATE)):  # fmt: skip
            eeg[key] = np.array([[float(number)]])
            eeg[key].attrs["MATLAB_class"] = np.bytes_("double")
        eeg["data"] = rows().T.astype(np.float32)
        eeg["data"].attrs["MATLAB_class"] = np.bytes_("single")
        for group, fields in (("chanlocs", {"labels": NAMES}),
                              ("event", {"type": [str(c) for _, c in EVENTS],
                                         "latency": [a + 1 for a, _ in EVENTS]})):  # fmt: skip
            made = eeg.create_group(group)
            made.attrs["MATLAB_class"] = np.bytes_("struct")
            for field, values in fields.items():
                references = []
                for k, value in enumerate(values):
                    place = f"#refs#/{group}_{field}_{k}"
                    if isinstance(value, str):
                        text(file, place, value)
                    else:
                        file[place] = np.array([[float(value)]])
                        file[place].attrs["MATLAB_class"] = np.bytes_("double")
                    references.append([file[place].ref])
                made[field] = np.array(references, dtype=h5py.ref_dtype)
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + b"\0" * 8 + b"\x00\x02IM"
    with path.open("r+b") as file:
        file.write(head)
    return path


def fif_gz(folder: Path) -> Path:
    import mne

    raw = mne.io.RawArray(rows() * 1e-6, mne.create_info(list(NAMES), RATE, "eeg"), verbose="error")
    onsets, texts = [at / RATE for at, _ in EVENTS], [str(code) for _, code in EVENTS]
    raw.set_annotations(mne.Annotations(onsets, 0, texts))
    raw.save(folder / "x_raw.fif.gz", verbose="error")
    return folder / "x_raw.fif.gz"


def eyelink(folder: Path) -> Path:
    """A monocular recording at 500 Hz: gaze in pixels, and the size of the pupil."""
    first = 1000
    lines = ["** CONVERTED FROM x.edf using edfapi 4.2.1", "** DATE: Tue Mar 14 15:29:53 2023",
             "** TYPE: EDF_FILE BINARY EVENT SAMPLE TAGGED", "** VERSION: EYELINK II 1",
             "** SOURCE: EYELINK CL", "** EYELINK II CL v6.14 Mar  6 2020 (EyeLink Portable Duo)", "**", "",
             f"MSG\t{first - 10} DISPLAY_COORDS 0 0 1919 1079",
             f"START\t{first} \tLEFT\tSAMPLES\tEVENTS", "PRESCALER\t1", "VPRESCALER\t1",
             "PUPIL\tAREA", "EVENTS\tGAZE\tLEFT\tRATE\t 500.00\tTRACKING\tCR\tFILTER\t2",
             "SAMPLES\tGAZE\tLEFT\tRATE\t 500.00\tTRACKING\tCR\tFILTER\t2"]  # fmt: skip
    for k in range(200):
        if k == 50:
            lines.append(f"MSG\t{first + 2 * k} stimulus")
        lines.append(f"{first + 2 * k}\t  {900 + k}.5\t  {500 - k}.0\t  {1200 + k}.0\t...")
    lines.append(f"END\t{first + 400} \tSAMPLES\tEVENTS\tRES\t  39.35\t  36.59")
    path = folder / "x.asc"
    path.write_text("\n".join(lines) + "\n")
    return path


def boxy(folder: Path) -> Path:
    """Version 0.40, parsed: DC, AC and phase of each detector and source, and digaux."""
    names = ["time", *(f"A-{kind}{s}" for kind in ("DC", "AC", "Ph") for s in (1, 2)), "digaux"]
    lines = ["BOXY.EXE: file created with version 0.40", "1 Detector Channels", "2 External MUX Channels",
             "40.0 Updata Rate (Hz)", "#DATA BEGINS", "\t".join(names), ""]  # fmt: skip
    for k in range(80):
        values = [
            k / 40,
            *(100 * kind + s + k / 10 for kind in (1, 2, 3) for s in (1, 2)),
            7 * (k == 30),
        ]
        lines.append("\t".join(f"{value:.3f}" for value in values))
    path = folder / "x.txt"
    path.write_text("\n".join([*lines, "#DATA ENDS", ""]))
    return path


def opm(folder: Path) -> Path:
    """UCL's: big-endian float32, sample by sample, with channels.tsv and meg.json."""
    rows().T.astype(">f4").tofile(folder / "x_meg.bin")
    table = ["name\ttype\tunits\tstatus", *(f"{name}\tMEGMAG\tfT\tgood" for name in NAMES)]
    (folder / "x_channels.tsv").write_text("\n".join(table) + "\n")
    (folder / "x_meg.json").write_text(f'{{"SamplingFrequency": {RATE}, "PowerLineFrequency": 50}}')
    return folder / "x_meg.bin"


def artemis(folder: Path) -> Path:
    """Big-endian float32, sample by sample; the last channel holds the triggers."""
    triggers = np.zeros(N)
    for at, code in EVENTS:
        triggers[at] = code
    np.vstack([rows(), triggers]).T.astype(">f4").tofile(folder / "a.bin")
    facts = {"Project Name": "x", "Subject ID": "1", "Purpose": "", "Notes": "",
             "DAQ Sample Rate": RATE, "Temporal Filter Active?": "FALSE",
             "Decimation Active?": "FALSE", "Spatial Filter Active?": "FALSE",
             **{f"Head Tracking Channel {k}": "OFF" for k in range(1, 5)}}  # fmt: skip
    main = "".join(f"{key}\t{value}\n" for key, value in facts.items())
    scales = {"MEG_001": 1e15, "MEG_002": 1e15, "REF_001": 1e15, "TRG_001": 1}  # to femtotesla
    channels = "".join(f"{k}\t{one}\t1\tOff\tOff\tFALSE\tFALSE\n" for k, one in scales.items())
    (folder / "a.txt").write_text(
        f"<start main header>\n{main}<end main header>\n<start per channel header>\n{channels}"
        f"<end per channel header>\n<start length>\n{N}\n<end length>\n"
    )
    return folder / "a.bin"


def nirx(folder: Path) -> Path:
    """A NIRScout recording: two sources and two detectors, of which two pairs are channels."""
    from scipy.io import savemat

    light = np.random.default_rng(7).integers(1, 9, (2, N, 4)) / 8
    for number, table in enumerate(light, 1):
        np.savetxt(folder / f"n.wl{number}", table, "%.3f")
    pairs = ",".join(f"{s}-{d}:{2 * s + d - 2}" for s in (1, 2) for d in (1, 2))
    (folder / "n.hdr").write_text(
        '[GeneralInfo]\nDevice="NIRScout"\nNIRStar="15.2"\nDate="Thu, 02 Jan 2020"\nTime="10:00:00.00"\n'
        f'[ImagingParameters]\nWavelengths="760 850"\nSamplingRate={RATE}\n'
        f'[DataStructure]\nS-D-Key="{pairs}"\n'
    )
    (folder / "n.inf").write_text('[Subject Demographics]\nname="A B"\ngender="F"\nage=30\n')
    (folder / "n.evt").write_text(
        "".join(f"{at}\t{code & 1}\t{code >> 1}\t0\n" for at, code in EVENTS)
    )
    for name in ("n.set", "n.tpl", "n_config.txt", "n.dat"):
        (folder / name).write_text("\n")
    places = {f"coords_{kind}3": np.array([[8.0, 0, 5], [7.0, 3, 6]]) for kind in "sdc"}
    probes = {"index_c": np.array([[1, 2], [2, 1]]), **places}
    savemat(folder / "n_probeInfo.mat", {"probeInfo": {"probes": probes}})
    return folder / "n.hdr"


def curry(folder: Path) -> Path:
    """Curry 8: samples, a description, and events."""
    rows().T.astype("<f4").tofile(folder / "run.cdt")
    moment = {"Year": 2020, "Month": 1, "Day": 2, "Hour": 10, "Min": 0, "Sec": 0, "Millisec": 0}
    facts = {"NumSamples": N, "NumChannels": len(NAMES), "NumTrials": 1, "SampleFreqHz": RATE,
             "TriggerOffsetUsec": 0, "DataFormat": "FLOAT", "DataByteOrder": "BINARY", "AmplifierInfo": "",
             "DataSampOrder": "SAMP", "SampleTimeUsec": 1e6 / RATE,
             **{f"Start{key}": value for key, value in moment.items()}}  # fmt: skip

    def section(name: str, values: dict[str, object]) -> str:
        lines = "".join(f"   {key} = {value}\n" for key, value in values.items())
        return f"{name} START\n{lines}{name} END\n\n"

    def table(name: str, lines: list[str]) -> str:
        text = "\n".join(lines)
        return (
            section(name, {}) + f"{name} START_LIST   # Do not edit!\n{text}\n{name} END_LIST\n\n"
        )

    places = [f"{x}\t0\t80" for x in (-60, 0, 60)]
    device = {"DataUnit": "uV", "NumSensors": len(NAMES), "NumChanThisGroup": len(NAMES)}
    (folder / "run.cdt.dpa").write_text(
        section("DATA_PARAMETERS", facts) + section("DEVICE_PARAMETERS", device)
        + table("LABELS", list(NAMES)) + table("SENSORS", places)
    )  # fmt: skip
    numbers = [f"{at}\t0\t{code}\t{at}\t{at}" + "\t0" * 6 for at, code in EVENTS]
    (folder / "run.cdt.cef").write_text(
        table("NUMBER_LIST", numbers) + table("REMARK_LIST", [""] * len(EVENTS))
    )
    return folder / "run.cdt"


def nsx(folder: Path) -> Path:
    """Blackrock's, version 3: a basic header, one for each channel, one of the data, samples."""
    size = 314 + 66 * len(NAMES)
    head = struct.pack("<8sBBI16s256sII8HI", b"BRSMPGRP", 3, 0, size, b"x", b"", 30_000 // RATE, 30_000,
                       2020, 1, 4, 2, 10, 0, 0, 0, len(NAMES))  # fmt: skip
    for number, name in enumerate(NAMES, 1):
        head += struct.pack("<2sH16sBBhhhh16sIIHIIH", b"CC", number, name.encode(), 0, number,
                            -2000, 2000, -1000, 1000, b"uV", 300, 1, 1, 100_000, 1, 1)  # fmt: skip
    with (folder / "run.ns2").open("wb") as file:
        file.write(head + struct.pack("<BQI", 1, 0, N) + rows().T.astype("<i2").tobytes())
    return folder / "run.ns2"


def mff(folder: Path) -> Path:
    """A net of 256 leads, because mffpy has the places of these; the first leads are `rows`."""
    from mffpy.writer import BinWriter, Writer

    data = np.zeros((257, N), dtype=np.float32)
    data[: len(NAMES)] = rows()
    begin = datetime(2020, 1, 2, 10, tzinfo=UTC)
    out, signal = Writer(str(folder / "run.mff")), BinWriter(sampling_rate=RATE)
    signal.add_block(data)
    out.addxml("fileInfo", recordTime=begin)
    out.addbin(signal)
    out.add_coordinates_and_sensor_layout("HydroCel GSN 256 1.0")
    times = [(begin + timedelta(seconds=at / RATE), str(code)) for at, code in EVENTS]
    events = [{"beginTime": at, "duration": 4_000_000, "code": code} for at, code in times]
    track = {"name": "x", "trackType": "EVNT", "events": events}
    out.addxml("eventTrack", filename="Events_x.xml", **track)
    out.write()
    return folder / "run.mff"


WRITERS: dict[str, Callable[[Path], Path]] = {
    "Persyst": persyst,
    "eXimia": eximia,
    "Nicolet": nicolet,
    "NEDF": nedf,
    "SNIRF": snirf,
    "BCI2000": bci2000,
    "NWB": nwb,
    "BrainVision .ahdr": ahdr,
    "EEGLAB 7.3": eeglab73,
    "FIF, compressed": fif_gz,
    "EyeLink": eyelink,
    "BOXY": boxy,
    "OPM": opm,
    "EGI MFF": mff,
    "Artemis123": artemis,
    "NIRx": nirx,
    "Curry": curry,
    "NSx": nsx,
}
