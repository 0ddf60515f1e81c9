"""A note is told once, and never becomes a flood."""

from replay.devices.status import MOST_TEXTS, Notes


def test_a_text_is_told_once():
    notes = Notes()
    notes.add("one")
    notes.add("one")
    assert notes.take() == ["one"]
    notes.add("one")
    notes.add("two")
    assert notes.take() == ["two"]
    assert notes.take() == []


def test_many_different_texts_are_counted_and_memory_is_bounded():
    notes = Notes()
    for i in range(MOST_TEXTS + 12_345):
        notes.add(f"frame {i} is broken")
    told = notes.take()
    assert told[:MOST_TEXTS] == [f"frame {i} is broken" for i in range(MOST_TEXTS)]
    counts = [int(text.split()[0]) for text in told[MOST_TEXTS:]]
    assert counts == [1, 10, 100, 1000, 10_000]
    assert "protocol=" in told[-1]
    assert len(notes._told) == MOST_TEXTS
