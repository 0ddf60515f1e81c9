"""The contract of a transport; LSL and memory keep the same one."""

import threading

import numpy as np
import pytest

from bci_stream.errors import LostError, NotFoundError
from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.handshake import wait_for_stream
from bci_stream.wire.transport import FoundStream, StreamSpec, Transport, number_text

WAIT_S = 20.0
LEADS = (Lead("Cz", "EEG", "microvolts", (0.0, 0.01, 0.09)), Lead("ECG", "ECG"))


def find(transport: Transport, source_id: str) -> FoundStream:
    return wait_for_stream(transport, source_id, source_id, WAIT_S, threading.Event())


def pull_texts(inlet: object, count: int) -> list[str]:
    texts: list[str] = []
    while len(texts) < count:
        more = inlet.pull(WAIT_S)  # type: ignore[attr-defined]
        assert more, f"only {len(texts)} of {count} texts came"
        texts += [text for text, _ in more]
    return texts


def pull_all(inlet: object, count: int) -> np.ndarray:
    samples, stamps = inlet.pull(count, WAIT_S)  # type: ignore[attr-defined]
    assert len(samples) == len(stamps) == count
    return samples


def _pull_for_ever(inlet: object) -> None:
    for _ in range(1000):
        inlet.pull(0.1)  # type: ignore[attr-defined]


class TestTexts:
    def test_all_arrive_in_order_with_their_stamps(self, transport, contest) -> None:
        spec = names.text_stream(contest.name, "results", "alice")
        outlet = transport.text_outlet(spec)
        inlet = transport.text_inlet(find(transport, spec.source_id), WAIT_S)
        outlet.push("probe")
        pull_texts(inlet, 1)
        sent = [f"text {k} äöü 脑机" for k in range(500)]
        for k, text in enumerate(sent):
            outlet.push(text, 1000.0 + k)
        received: list[tuple[str, float]] = []
        while len(received) < len(sent):
            received += inlet.pull(WAIT_S)
        assert [text for text, _ in received] == sent
        assert [stamp for _, stamp in received] == [1000.0 + k for k in range(500)]

    def test_a_pull_ends_without_a_text(self, transport, contest) -> None:
        spec = names.text_stream(contest.name, "results", "alice")
        outlet = transport.text_outlet(spec)
        inlet = transport.text_inlet(find(transport, spec.source_id), WAIT_S)
        assert inlet.pull(0.01) == []
        outlet.close()

    def test_a_text_of_a_megabyte_arrives_whole(self, transport, contest) -> None:
        spec = names.text_stream(contest.name, "truth", "r")
        outlet = transport.text_outlet(spec)
        inlet = transport.text_inlet(find(transport, spec.source_id), WAIT_S)
        outlet.push("probe")
        pull_texts(inlet, 1)
        outlet.push("x" * 1_000_000 + "end")
        assert pull_texts(inlet, 1)[0].endswith("xend")

    def test_a_stream_whose_owner_is_gone_raises_lost_error(self, transport, contest) -> None:
        spec = names.text_stream(contest.name, "results", "alice")
        outlet = transport.text_outlet(spec)
        inlet = transport.text_inlet(find(transport, spec.source_id), WAIT_S)
        outlet.close()
        with pytest.raises(LostError, match="alice"):
            _pull_for_ever(inlet)


class TestSamples:
    def test_all_arrive_bit_exact_in_order_however_they_are_cut(self, transport, contest) -> None:
        spec = names.signal_stream(contest.name, "r", 250.0, LEADS)
        outlet = transport.sample_outlet(spec)
        inlet = transport.sample_inlet(find(transport, spec.source_id), WAIT_S)
        outlet.push(np.zeros((1, 3), dtype=np.float32), transport.now())
        pull_all(inlet, 1)
        rng = np.random.default_rng(1)
        sent = rng.normal(size=(500, 3)).astype(np.float32)
        for start in range(0, 500, 10):
            outlet.push(sent[start : start + 10], 2000.0 + start / 250)
        received = np.concatenate([pull_all(inlet, n) for n in (7, 93, 1, 399)])
        np.testing.assert_array_equal(received, sent)

    def test_pushing_no_samples_sends_nothing(self, transport, contest) -> None:
        spec = names.signal_stream(contest.name, "r", 250.0, LEADS)
        outlet = transport.sample_outlet(spec)
        inlet = transport.sample_inlet(find(transport, spec.source_id), WAIT_S)
        outlet.push(np.zeros((1, 3), dtype=np.float32), transport.now())
        pull_all(inlet, 1)
        outlet.push(np.zeros((0, 3), dtype=np.float32), transport.now())
        outlet.push(np.ones((2, 3), dtype=np.float32), transport.now())
        assert (pull_all(inlet, 2) == 1).all()
        assert len(inlet.pull(1, 0.0)[0]) == 0

    def test_the_stamp_is_the_last_samples(self, transport, contest) -> None:
        spec = names.signal_stream(contest.name, "r", 250.0, LEADS)
        outlet = transport.sample_outlet(spec)
        inlet = transport.sample_inlet(find(transport, spec.source_id), WAIT_S)
        outlet.push(np.zeros((1, 3), dtype=np.float32), transport.now())
        pull_all(inlet, 1)
        outlet.push(np.zeros((10, 3), dtype=np.float32), 2000.0)
        _, stamps = inlet.pull(10, WAIT_S)
        np.testing.assert_allclose(stamps, 2000.0 - np.arange(9, -1, -1) / 250, atol=1e-6)

    def test_each_sample_may_have_its_own_stamp(self, transport, contest) -> None:
        spec = names.code_stream(contest.name, "r")
        outlet = transport.sample_outlet(spec)
        inlet = transport.sample_inlet(find(transport, spec.source_id), WAIT_S)
        outlet.push(np.array([[0]], dtype=np.int32), [1.0])
        pull_all(inlet, 1)
        outlet.push(np.array([[11], [12]], dtype=np.int32), [5.0, 7.5])
        samples, stamps = inlet.pull(2, WAIT_S)
        assert samples.ravel().tolist() == [11, 12]
        assert stamps.tolist() == [5.0, 7.5]

    def test_the_description_arrives(self, transport, contest) -> None:
        spec = names.signal_stream(contest.name, "r", 250.0, LEADS, track="erp")
        outlet = transport.sample_outlet(spec)
        inlet = transport.sample_inlet(find(transport, spec.source_id), WAIT_S)
        assert inlet.spec == spec
        outlet.close()

    def test_has_consumers(self, transport, contest) -> None:
        spec = names.signal_stream(contest.name, "r", 250.0, LEADS)
        outlet = transport.sample_outlet(spec)
        assert not outlet.has_consumers()
        inlet = transport.sample_inlet(find(transport, spec.source_id), WAIT_S)
        outlet.push(np.zeros((1, 3), dtype=np.float32), transport.now())
        pull_all(inlet, 1)
        assert outlet.has_consumers()


class TestFinding:
    def test_contests_do_not_see_each_other(self, transport, contest) -> None:
        mine = transport.text_outlet(names.text_stream(contest.name, "control", "r"))
        other = transport.text_outlet(names.text_stream(contest.name + "x", "control", "r"))
        found = find(transport, names.source_id(contest.name, "control", "r"))
        watch = transport.watch(names.prefix(contest.name, "control"))
        find(transport, names.source_id(contest.name + "x", "control", "r"))
        assert {f.source_id for f in watch.found()} <= {found.source_id}
        mine.close()
        other.close()

    def test_more_than_32_streams_are_found(self, transport, contest) -> None:
        specs = [names.text_stream(contest.name, "results", f"team{n}") for n in range(50)]
        outlets = [transport.text_outlet(spec) for spec in specs]
        watch = transport.watch(names.prefix(contest.name, "results"))
        deadline = transport.now() + WAIT_S
        while len(watch.found()) < len(specs) and transport.now() < deadline:
            threading.Event().wait(0.02)
        assert {found.source_id for found in watch.found()} == {spec.source_id for spec in specs}
        for outlet in outlets:
            outlet.close()

    def test_a_search_that_fails_lists_the_streams_that_exist(self, transport, contest) -> None:
        outlet = transport.text_outlet(names.text_stream(contest.name, "control", "other"))
        find(transport, names.source_id(contest.name, "control", "other"))
        with pytest.raises(NotFoundError, match=r"waited 0.05 s for the moon.*streams found"):
            wait_for_stream(transport, "bci/nowhere/", "the moon", 0.05, threading.Event())
        outlet.close()


def test_names_that_would_break_a_stream_id_are_refused() -> None:
    from bci_stream.errors import ContestError

    for bad in ("", "a/b", "a b", "x" * 65, "it's", "名"):
        with pytest.raises(ContestError, match="can't be used"):
            names.checked_name(bad, "team")


def test_specs_of_one_channel_have_one_channel() -> None:
    assert StreamSpec("n", "Markers", "s").channels == 1


@pytest.mark.parametrize("form", ["int32", "float32"])
def test_a_stream_of_numbers_gives_its_first_channel_as_texts(transport, contest, form) -> None:
    source_id = names.source_id(contest.name, "codes", form)
    outlet = transport.sample_outlet(StreamSpec("codes", "Markers", source_id, form))
    found = wait_for_stream(transport, source_id, "codes", WAIT_S, threading.Event())
    inlet = transport.text_inlet(found, WAIT_S)
    outlet.push(np.array([[7], [51]], dtype=form), [5.0, 6.5])
    received: list[tuple[str, float]] = []
    while len(received) < 2:
        more = inlet.pull(WAIT_S)
        assert more, "no number came"
        received += more
    assert received == [("7", 5.0), ("51", 6.5)]
    outlet.close()


@pytest.mark.parametrize(
    ("number", "text"),
    [(7, "7"), (7.0, "7"), (np.int32(-4), "-4"), (0.5, "0.5"), (float("nan"), "nan")],
)
def test_a_whole_number_has_no_point(number, text) -> None:
    assert number_text(number) == text
