"""A stranger's stream of numbers can be read as texts: markers are often integers."""

import threading

import numpy as np
import pytest

from bci_stream.wire import names
from bci_stream.wire.handshake import wait_for_stream
from bci_stream.wire.transport import StreamSpec, number_text

WAIT_S = 20.0


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
