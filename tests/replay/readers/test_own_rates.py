"""Channels with rates of their own: each value is held until the next, with a note."""

import numpy as np
import pytest

from replay.sources import open_source

SECONDS = 6
FAST, SLOW = 250, 50


def opened(path, parameters=""):
    (session,) = open_source(f"{path}{parameters}").sessions()
    return session


def samples_of(session, packet_samples=70):
    return np.concatenate([packet.samples for packet in session.packets(packet_samples)])


def triggers(session):
    return [trigger for _, own in session.block_triggers() for trigger in own]


def write_edf(path, rows):
    """rows: {name: (values, rate, unit)}"""
    import edfio

    bdf = path.suffix == ".bdf"
    signal, document = (edfio.BdfSignal, edfio.Bdf) if bdf else (edfio.EdfSignal, edfio.Edf)
    bounds = {"physical_range": (-32768, 32767), "digital_range": (-32768, 32767)}
    document(
        [
            signal(values, rate, label=name, physical_dimension=unit, **bounds)
            for name, (values, rate, unit) in rows.items()
        ],
        data_record_duration=1,
        annotations=[edfio.EdfAnnotation(1.5, None, "7")],
    ).write(path)
    return path


def counting(rate, start=0):
    return start + np.arange(SECONDS * rate, dtype=float)


def held(values, rate, stream_rate):
    return values[np.arange(SECONDS * stream_rate) * rate // stream_rate]


@pytest.mark.parametrize("suffix", [".edf", ".bdf"])
@pytest.mark.parametrize("slow", [50, 1, 200])
@pytest.mark.parametrize("packet_samples", [1, 70, 1500])
def test_a_slower_channel_holds_its_value_wherever_packets_end(
    suffix, slow, packet_samples, tmp_path
):
    rows = {
        "RESP": (counting(slow, 5000), slow, "uV"),
        "C3": (counting(FAST), FAST, "uV"),
        "C4": (-counting(FAST), FAST, "uV"),
    }
    session = opened(write_edf(tmp_path / f"x{suffix}", rows))
    assert session.rate == FAST
    assert [lead.name for lead in session.leads] == ["RESP", "C3", "C4"]
    expected = [held(rows["RESP"][0], slow, FAST), rows["C3"][0], rows["C4"][0]]
    found = samples_of(session, packet_samples)
    np.testing.assert_array_equal(found, np.array(expected, dtype=np.float32).T)
    assert any(f"RESP ({slow} Hz): slower than" in note for note in session.notes)
    assert triggers(session) == [(375, 7)]


def test_files_of_one_rate_have_no_note(tmp_path):
    path = write_edf(tmp_path / "x.edf", {"C3": (counting(FAST), FAST, "uV")})
    assert opened(path).notes == ()


def test_a_slower_lead_can_be_selected(tmp_path):
    rows = {"C3": (counting(FAST), FAST, "uV"), "RESP": (counting(SLOW), SLOW, "mV")}
    session = opened(write_edf(tmp_path / "x.edf", rows), "?select=RESP")
    expected = held(rows["RESP"][0], SLOW, FAST) * 1e3
    np.testing.assert_array_equal(samples_of(session)[:, 0], expected.astype(np.float32))


@pytest.mark.parametrize("suffix", [".edf", ".bdf"])
@pytest.mark.parametrize("name", ["TRIGGER", "DIN", "MARK"])
@pytest.mark.parametrize("rate", [50, 1000])
def test_a_trigger_channel_of_another_rate_marks_the_sample_of_its_time(
    suffix, name, rate, tmp_path
):
    codes = np.zeros(SECONDS * rate)
    codes[[rate // 2, 3 * rate]] = 11, 12  # at 0.5 and 3 s, one of its samples long
    rows = {"C3": (counting(FAST), FAST, "uV"), name: (codes, rate, "")}
    session = opened(write_edf(tmp_path / f"x{suffix}", rows), f"?triggers={name}")
    stream = max(rate, FAST)
    assert session.rate == stream
    assert session.n_samples == SECONDS * stream
    assert triggers(session) == [(stream // 2, 11), (3 * stream, 12)]
    np.testing.assert_array_equal(samples_of(session)[:, 0], held(counting(FAST), FAST, stream))
