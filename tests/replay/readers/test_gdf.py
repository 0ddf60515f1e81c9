"""GDF of both versions: rates, units and event rates are those of the header."""

import struct

import numpy as np
import pytest

from replay.sources import open_source

SECONDS = 6
FAST, SLOW = 250, 50


def opened(path):
    (session,) = open_source(str(path)).sessions()
    return session


def samples_of(session):
    return np.concatenate([packet.samples for packet in session.packets(70)])


def triggers(session):
    return [trigger for _, own in session.block_triggers() for trigger in own]


def counting(rate, start=0):
    return start + np.arange(SECONDS * rate, dtype=float)


def write_gdf_1(path, rows, rates, event_rate=FAST, event=(0, 1), unit="uV"):
    """GDF 1.25, as in conftest."""
    n = len(rows)
    head = b"GDF 1.25" + b" " * 160 + b"2020010100000000"
    head += struct.pack("<q", 256 * (n + 1)) + b"\0" * 44 + struct.pack("<qIII", SECONDS, 1, 1, n)
    head += b"".join(f"L{k}".encode().ljust(16) for k in range(n)) + b" " * 80 * n
    head += unit.encode().ljust(8) * n
    head += struct.pack(f"<{n}d", *[-32768.0] * n) + struct.pack(f"<{n}d", *[32767.0] * n)
    head += struct.pack(f"<{n}q", *[-32768] * n) + struct.pack(f"<{n}q", *[32767] * n)
    head += b" " * 80 * n + struct.pack(f"<{n}i", *rates) + struct.pack(f"<{n}i", *[3] * n)
    head += b"\0" * 32 * n
    place, code = event
    table = b"\x01" + event_rate.to_bytes(3, "little") + struct.pack("<IIH", 1, place + 1, code)
    path.write_bytes(head + records(rows, rates) + table)
    return path


CODES = {"uV": 4275, "mV": 4274, "V": 4256, "degC": 6048, "": 0}


def write_gdf_2(path, rows, rates, event_rate=FAST, event=(0, 1), unit="uV"):
    """GDF 2.20, in which units are codes."""
    n = len(rows)
    head = b"GDF 2.20".ljust(184, b"\0") + struct.pack("<H", n + 1)
    head = head.ljust(236, b"\0") + struct.pack("<qIIHH", SECONDS, 1, 1, n, 0)
    head += b"".join(f"L{k}".encode().ljust(16) for k in range(n)) + b" " * 86 * n
    head += struct.pack(f"<{n}H", *[CODES[unit]] * n)
    head += 2 * (struct.pack(f"<{n}d", *[-32768.0] * n) + struct.pack(f"<{n}d", *[32767.0] * n))
    head += b"\0" * 80 * n
    head += struct.pack(f"<{n}i", *rates) + struct.pack(f"<{n}i", *[3] * n) + b"\0" * 32 * n
    place, code = event
    table = b"\x01\x01\0\0" + struct.pack("<fIH", event_rate, place + 1, code)
    path.write_bytes(head + records(rows, rates) + table)
    return path


def records(rows, rates):
    return b"".join(
        row[second * rate : (second + 1) * rate].astype("<i2").tobytes()
        for second in range(SECONDS)
        for row, rate in zip(rows, rates, strict=True)
    )


@pytest.fixture(params=[write_gdf_1, write_gdf_2])
def write_gdf(request, tmp_path):
    return lambda *facts, **more: request.param(tmp_path / "x.gdf", *facts, **more)


def test_a_gdfs_slower_channels_are_held_too(write_gdf):
    rows = [counting(SLOW, 900), counting(FAST)]
    session = opened(write_gdf(rows, [SLOW, FAST], FAST, (260, 7)))
    held = rows[0][np.arange(SECONDS * FAST) * SLOW // FAST]
    expected = np.array([held, rows[1]], dtype=np.float32)
    np.testing.assert_array_equal(samples_of(session), expected.T)
    assert triggers(session) == [(260, 7)]
    assert any("L0 (50 Hz)" in note for note in session.notes)


@pytest.mark.parametrize(("event_rate", "place"), [(1000, 4000), (50, 200), (0, 1000), (250, 1000)])
def test_a_gdfs_events_may_be_counted_at_a_rate_of_their_own(event_rate, place, write_gdf):
    path = write_gdf([counting(FAST)], [FAST], event_rate, (place, 7))
    session = opened(path)
    assert triggers(session) == [(1000, 7)]
    is_noted = any(f"counted at {event_rate} Hz" in note for note in session.notes)
    assert is_noted == (event_rate in (1000, 50))


@pytest.mark.parametrize(("unit", "factor"), [("uV", 1), ("mV", 1e3), ("V", 1e6)])
def test_a_gdfs_voltages_become_microvolts(unit, factor, write_gdf):
    session = opened(write_gdf([counting(FAST)], [FAST], unit=unit))
    assert (session.leads[0].kind, session.leads[0].unit) == ("EEG", "microvolts")
    np.testing.assert_allclose(samples_of(session)[:, 0], counting(FAST) * factor, rtol=1e-7)


@pytest.mark.parametrize(
    ("unit", "kind", "stated"), [("degC", "MISC", "degC"), ("", "EEG", "microvolts")]
)
def test_a_gdf_that_states_no_voltage_keeps_its_numbers(unit, kind, stated, write_gdf):
    session = opened(write_gdf([counting(FAST)], [FAST], unit=unit))
    assert (session.leads[0].kind, session.leads[0].unit) == (kind, stated)
    np.testing.assert_array_equal(samples_of(session)[:, 0], counting(FAST))
    assert session.notes == (
        ("x.gdf: the file gives no unit for L0: taken as microvolts",) if not unit else ()
    )
