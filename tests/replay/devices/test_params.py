"""A device's parameters: mistakes are reported before anything is contacted."""

import pytest

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.devices.params import DeviceParams, apply_montage, default_leads, read_montage
from replay.devices.registry import open_device
from tracks.registry import TRACKS

RAW = {"channels": "64", "rate": "1000"}


@pytest.mark.parametrize(
    ("rest", "params", "message"),
    [
        ("//", RAW, "write neuracle://HOST:PORT"),
        ("//host:port", RAW, "write neuracle://HOST:PORT"),
        ("//host:99999", RAW, "write neuracle://HOST:PORT"),
        ("//::1", RAW, r"IPv6 address stands in brackets: neuracle://\["),
        ("//[::1]:0", RAW, "write neuracle://HOST:PORT"),
        ("//[host]", RAW, "write neuracle://HOST:PORT"),
        ("//host", {}, "channels= must be a whole number from 1 to 1024, got nothing"),
        ("//host", {"channels": "0", "rate": "1000"}, "channels= .* got 0"),
        ("//host", {"channels": "64"}, "rate= must be a number from 1 to 100000, got nothing"),
        ("//host", {**RAW, "rate": "nan"}, "rate= must be .* got nan"),
        (
            "//host",
            {**RAW, "protocol": "tcp"},
            "protocol= must be one of raw, heeg, jellyfish, got tcp",
        ),
        ("//host", {**RAW, "trigger": "int"}, "trigger= must be one of auto, float, uint"),
        ("//host", {**RAW, "triggers": "x"}, "triggers= must be one of edge, each"),
        ("//host", {**RAW, "color": "red"}, "has no parameter color; it takes .*protocol"),
        ("//host", {**RAW, "montage": "C3,C4"}, "names 2 leads, but the device has 64"),
        ("//host", {**RAW, "montage": "C3,C3"}, "names C3 twice"),
        ("//host", {**RAW, "montage": "/no/file"}, "no track .*no readable file"),
        ("//host", {**RAW, "until": "70000"}, "until= must be"),
        ("//host", {"protocol": "heeg", "channels": "3"}, "has no parameter channels"),
    ],
)
def test_wrong_parameters_are_reported(rest, params, message):
    with pytest.raises(SourceError, match=message):
        open_device("neuracle", rest, params)


def test_an_unknown_kind_of_device_is_reported():
    with pytest.raises(SourceError, match="choose one of neuracle, lsl, brainflow"):
        open_device("biosemi", "x", {})


def test_the_uri_is_kept():
    source = open_device("neuracle", "//amp:8712", RAW)
    assert source.uri == "neuracle://amp:8712?channels=64&rate=1000"
    assert source.live


@pytest.mark.parametrize("name", list(TRACKS))
def test_a_track_is_a_montage_with_its_kinds(name):
    leads = read_montage(name)
    assert leads is not None
    assert tuple(lead.name for lead in leads) == tuple(TRACKS[name].leads)
    kinds = {lead.name: lead.kind for lead in leads}
    assert all(kinds[lead] == kind for lead, kind in TRACKS[name].lead_kinds.items())


def test_names_from_a_file_and_names_with_commas(tmp_path):
    path = tmp_path / "cap.txt"
    path.write_text("C3\nCz\nC4\n")
    expected = (Lead("C3"), Lead("Cz"), Lead("C4"))
    assert read_montage(str(path)) == read_montage("C3, Cz,C4") == expected


def test_without_a_montage_leads_are_numbered():
    assert read_montage(None) is None
    assert apply_montage(None, default_leads(2)) == (Lead("ch1"), Lead("ch2"))


def test_a_number_has_its_bounds_included():
    assert DeviceParams("x", {"n": "1"}).number("n", None, 1, 5) == 1
    assert DeviceParams("x", {"n": "5"}).number("n", None, 1, 5) == 5
    assert DeviceParams("x", {}).number("n", 3, 1, 5) == 3
