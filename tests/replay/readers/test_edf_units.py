"""Units are what an EDF's or BDF's header states, however it spells them."""

import numpy as np
import pytest

from replay.sources import open_source

RATE = 250


def opened(path, parameters=""):
    (session,) = open_source(f"{path}{parameters}").sessions()
    return session


def write_edf(path, unit, values):
    import edfio

    bdf = path.suffix == ".bdf"
    signal, document = (edfio.BdfSignal, edfio.Bdf) if bdf else (edfio.EdfSignal, edfio.Edf)
    bounds = {"physical_range": (-32768, 32767), "digital_range": (-32768, 32767)}
    rows = [
        signal(values, RATE, label="C3", physical_dimension="uV", **bounds),
        signal(values, RATE, label="X", physical_dimension=unit, **bounds),
    ]
    document(rows, data_record_duration=0.2).write(path)
    return path


@pytest.mark.parametrize("suffix", [".edf", ".bdf"])
@pytest.mark.parametrize("unit", ["degC", "%", "l/min", "C", "mmHg"])
def test_what_is_no_voltage_keeps_its_numbers_and_its_unit(suffix, unit, tmp_path):
    values = np.arange(500.0)
    session = opened(write_edf(tmp_path / f"x{suffix}", unit, values))
    lead = session.leads[1]
    assert (lead.kind, lead.unit) == ("MISC", unit)
    assert session.notes == ()
    np.testing.assert_array_equal(next(session.packets(500)).samples[:, 1], values)


@pytest.mark.parametrize("suffix", [".edf", ".bdf"])
@pytest.mark.parametrize(
    ("unit", "factor"),
    [("uV", 1), ("uv", 1), ("UV", 1), ("mV", 1e3), ("mv", 1e3), ("V", 1e6), ("nV", 1e-3)],
)
def test_every_voltage_becomes_microvolts(suffix, unit, factor, tmp_path):
    values = np.arange(500.0)
    session = opened(write_edf(tmp_path / f"x{suffix}", unit, values))
    assert (session.leads[1].kind, session.leads[1].unit) == ("EEG", "microvolts")
    samples = next(session.packets(500)).samples[:, 1]
    np.testing.assert_allclose(samples, values * factor, rtol=1e-7)


def test_no_unit_is_microvolts_and_noted(tmp_path):
    session = opened(write_edf(tmp_path / "x.edf", "", np.arange(500.0)))
    assert (session.leads[1].kind, session.leads[1].unit) == ("EEG", "microvolts")
    assert "the file gives no unit for X: taken as microvolts" in session.notes[0]


@pytest.mark.parametrize("unit", ["uv", "nV", "degC", "", "mV"])
def test_a_channel_of_triggers_gives_its_numbers_whatever_its_unit(unit, tmp_path):
    codes = np.zeros(500)
    codes[[10, 300]] = 3, 4
    session = opened(write_edf(tmp_path / "x.edf", unit, codes), "?triggers=X")
    assert session.block_triggers() == [(500, ((10, 3), (300, 4)))]


@pytest.mark.parametrize("mu", ["\u00b5", "\u03bc"])
def test_a_mu_in_utf_8_is_one(mu, tmp_path):
    """EDF is ASCII by its specification, but a recorder may not know."""
    path = write_edf(tmp_path / "x.edf", "xyV", np.arange(500.0))
    content = path.read_bytes()
    assert content.count(b"xyV     ") == 1
    path.write_bytes(content.replace(b"xyV     ", f"{mu}V".encode().ljust(8)))
    lead = opened(path).leads[1]
    assert (lead.kind, lead.unit) == ("EEG", "microvolts")
