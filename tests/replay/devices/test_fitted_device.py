"""A device's leads are fitted to its track as a recording's are; packets are touched only where they must."""

import numpy as np
import pytest

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.devices.adapt import adapt_session
from replay.model.options import SourceOptions
from replay.model.source import RawPacket
from replay.sources import open_source
from tracks.registry import TRACKS

NAMES = ("VEOL", "C4", "T3", "Cz", "Extra")


class Device:
    """A live source of one packet, whose lead k holds k."""

    uri = "neuracle://amp:8712"

    def __init__(self, *names: str, rate: float = 1000.0) -> None:
        self.subject, self.rate = "live", rate
        self.leads = tuple(Lead(name) for name in names)
        samples = np.tile(np.arange(len(names), dtype=np.float32), (40, 1))
        self.packet = RawPacket(samples, ((3, 11),), 80, 0, False, stamp=7.0)

    def packets(self, packet_samples):
        yield self.packet


def fitted(device: Device, track: str | None = None, **options):
    return adapt_session(device, device.uri, SourceOptions(track=track, **options))


def names(session) -> list[str]:
    return [lead.name for lead in session.leads]


def test_leads_come_in_the_tracks_order_under_its_names_and_all_of_it_is_said():
    session = fitted(Device(*NAMES), "mi")
    assert names(session) == ["Cz", "C4", "T7", "VEOL"]
    assert session.leads[-1].kind == "EOG"
    (packet,) = session.packets(40)
    assert packet.samples[0].tolist() == [3, 1, 2, 0]
    assert packet.samples.flags.c_contiguous
    assert (packet.triggers, packet.start, packet.stamp) == (((3, 11),), 80, 7.0)
    said = "\n".join(session.notes)
    for words in ("T3=T7", "mi's order", "left out: Extra", "60 of mi's leads are missing"):
        assert words in said


def test_missing_leads_can_be_sent_flat_or_refused():
    session = fitted(Device("C4", "Cz"), "mi", missing="zero")
    assert names(session) == list(TRACKS["mi"].leads)
    (packet,) = session.packets(40)
    assert packet.samples.shape == (40, 64)
    assert packet.samples.sum() == 40  # Cz, which is lead 1 of the device
    with pytest.raises(SourceError, match="lacks 62 of mi's leads"):
        fitted(Device("C4", "Cz"), "mi", missing="refuse")


@pytest.mark.parametrize("track", ["mi", None])
def test_leads_can_be_renamed_and_selected(track):
    session = fitted(Device("a", "b", "Cz"), track, rename={"a": "C3"}, select=("Cz", "C3"))
    assert names(session) == ["Cz", "C3"]
    (packet,) = session.packets(40)
    assert packet.samples[0].tolist() == [2, 0]


@pytest.mark.parametrize(
    ("track", "leads"), [("mi", TRACKS["mi"].leads), (None, NAMES), ("mi", ("ch1", "ch2", "ch3"))]
)
def test_packets_whose_leads_are_right_or_unnamed_pass_untouched(track, leads):
    device = Device(*leads)
    session = fitted(device, track)
    assert names(session) == list(leads)
    (packet,) = session.packets(40)
    assert packet is device.packet


def test_leads_without_names_are_sent_and_it_is_said_how_to_name_them():
    (note,) = fitted(Device("ch1", "ch2"), "mi").notes
    assert "none of mi's leads has its name here: all are sent as they are" in note
    assert "montage=" in note


def test_two_leads_of_one_place_are_told():
    with pytest.raises(SourceError, match="two leads of one name: Cz"):
        fitted(Device("a", "Cz"), "mi", rename={"a": "Cz"}, select=("Cz", "Cz"))


def test_another_rate_than_the_tracks_becomes_the_tracks_and_is_said():
    session = fitted(Device("Cz", rate=500.0), "mi")
    assert session.rate == 1000
    assert "resampled from 500 to 1000 Hz (the track's rate)" in session.notes[-1]
    packet = next(session.packets(40))
    assert packet.samples.shape == (40, 1)
    assert fitted(Device("Cz", rate=500.0)).rate == 500


def test_a_devices_uri_can_say_all_of_it():
    source = open_source(
        "neuracle://amp:8712?channels=3&rate=1000&select=ch2&missing=zero&rename=ch1=Cz"
    )
    assert source._options.select == ("ch2",)
    assert source._options.rename == {"ch1": "Cz"}
    assert source._options.missing == "zero"
    source.close()
