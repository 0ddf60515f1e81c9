"""Every format gives the same samples and the same triggers, each at its own place."""

import numpy as np
import pytest

from replay.sources import open_source

RATE, N_SAMPLES = 250, 1250
TRIGGERS = ((0, 250), (10, 242), (260, 11), (510, 12), (760, 21), (1249, 243))


def only_session(uri: str):
    (session,) = open_source(uri).sessions()
    return session


@pytest.fixture(scope="module")
def session(recording):
    """Opened once for all tests: some formats are read in a child process."""
    return only_session(recording)


def test_every_format_arrives_bit_exact_as_float32_microvolts(session, counted):
    packets = list(session.packets(10))
    samples = np.concatenate([packet.samples for packet in packets])
    assert samples.dtype == np.float32
    assert samples.flags.c_contiguous
    np.testing.assert_array_equal(samples, counted.T.astype(np.float32))


def test_the_counter_proves_the_place_of_every_packet(session):
    counter = [lead.name for lead in session.leads].index("COUNT")
    for packet in session.packets(7):
        assert packet.samples[0, counter] == packet.start
        assert packet.samples.flags.c_contiguous


def test_triggers_are_on_their_exact_sample(session):
    found = [
        (packet.start + offset, code)
        for packet in session.packets(10)
        for offset, code in packet.triggers
    ]
    assert found == list(TRIGGERS)
    assert session.block_triggers() == [(N_SAMPLES, TRIGGERS)]


def test_names_kinds_units_and_rate_are_right(session):
    assert [lead.name for lead in session.leads] == ["C3", "Cz", "C4", "COUNT"]
    assert {lead.kind for lead in session.leads} == {"EEG"}
    assert {lead.unit for lead in session.leads} == {"microvolts"}
    assert session.rate == RATE
    assert session.n_samples == N_SAMPLES


@pytest.mark.parametrize("packet_samples", [1, 7, 10, 250, 1250, 5000])
def test_only_the_last_packet_is_shorter(write, packet_samples):
    session = only_session(str(write("run.edf")))
    sizes = [len(packet.samples) for packet in session.packets(packet_samples)]
    assert sum(sizes) == N_SAMPLES
    assert all(size == packet_samples for size in sizes[:-1])
    assert 0 < sizes[-1] <= packet_samples


def test_a_recording_can_be_played_again_from_its_beginning(session):
    first, again = (list(session.packets(100)) for _ in range(2))
    assert len(first) == len(again)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)
        assert one.triggers == other.triggers


def test_positions_of_leads_are_those_of_the_file(tmp_path, counted):
    import mne

    info = mne.create_info(["C3", "Cz", "C4", "Oz"], RATE, "eeg")
    raw = mne.io.RawArray(counted * 1e-6, info, verbose="error")
    places = {name: [0.01 * k, 0.02, 0.1] for k, name in enumerate(info.ch_names)}
    raw.set_montage(mne.channels.make_dig_montage(places, coord_frame="head"))
    raw.save(tmp_path / "placed_raw.fif", verbose="error")
    session = only_session(str(tmp_path / "placed_raw.fif"))
    for lead in session.leads:
        np.testing.assert_allclose(lead.position, places[lead.name], atol=1e-6)


def test_what_is_no_voltage_is_not_scaled(tmp_path):
    import mne

    info = mne.create_info(["Cz", "COUNT"], RATE, ["eeg", "misc"])
    counter = np.arange(500.0)
    raw = mne.io.RawArray(np.vstack([counter * 1e-6, counter]), info, verbose="error")
    raw.save(tmp_path / "misc_raw.fif", fmt="double", verbose="error")
    session = only_session(str(tmp_path / "misc_raw.fif"))
    samples = np.concatenate([packet.samples for packet in session.packets(40)])
    np.testing.assert_array_equal(samples[:, 1], counter.astype(np.float32))
    assert session.leads[1].kind == "MISC"
