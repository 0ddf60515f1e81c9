"""With no report, `check` shows what the data had and what the code waits for."""

from pathlib import Path

from decoders.checks import check
from decoders.waiting import compared_numbers, describe_awaited, describe_data, source_files

EVENTS = [
    {"kind": "session", "rate": 1000.0, "leads": ["C3", "C4"], "packet_samples": 40},
    {"kind": "packet", "triggers": [[0, 200], [5, 241]]},
    {"kind": "packet", "triggers": [[0, 200]]},
]


def test_the_data_are_described() -> None:
    assert list(describe_data(EVENTS)) == [
        "the data had 1000 Hz, 2 leads and TRIGGER: packets of 3 x 40",
        "its triggers, with counts: 200 (2), 241 (1)",
    ]
    assert list(describe_data([])) == ["its triggers, with counts: none"]


def test_the_source_shows_what_it_waits_for(tmp_path: Path) -> None:
    path = tmp_path / "algorithm.py"
    path.write_text("START = 249\nif x == 3 or x in (200, 240) or 250.0 > y or True == z: pass\n")
    assert list(compared_numbers(path)) == [(249, 1), (200, 2), (240, 2)]
    (line,) = describe_awaited([path], {200, 241})
    assert line.endswith("never came: 240 (algorithm.py, line 2); 249 (algorithm.py, line 1)")
    assert list(describe_awaited([path], {200, 240, 249})) == []
    path.write_text("not python (")
    assert list(compared_numbers(path)) == []
    assert list(compared_numbers(tmp_path / "absent.py")) == []


class Of2022:
    """Waits for 2022's code."""

    def start(self, info):
        pass

    def step(self, packet):
        return [201 for _, code in packet.triggers if code == 249]


def test_a_decoder_of_another_year_is_told_by_its_check(mi_session) -> None:
    (law,) = check("mi", Of2022, mi_session(blocks=1, trials=2))
    assert "it never reported anything; the data had 125 Hz, 8 leads" in law.detail
    assert "200 (2)" in law.detail
    assert "never came: 249 (test_waiting.py, line " in law.detail
    assert source_files(object()) == []
