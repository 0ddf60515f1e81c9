"""What `bci-judge score` prints."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from bci_stream.errors import LogError
from bci_stream.judge.score_command import render, score_log
from bci_stream.runlog import score_run

GOLDEN = Path(__file__).parents[1] / "golden"


def shown(name):
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render(score_run(GOLDEN / f"{name}.jsonl.gz")))
    return capture.get()


def test_json_is_one_object_with_the_score(capsys):
    score_log(GOLDEN / "mi-2.jsonl.gz", as_json=True)
    result = json.loads(capsys.readouterr().out)
    assert (result["track"], result["team"], result["end"]) == ("mi", "t2", "finished")
    assert result["score"] == pytest.approx(0.5698819085169101, abs=1e-9)
    assert result["sessions"][0]["subject"] == "S01"
    assert (result["sessions"][0]["trials"], result["sessions"][0]["answers"]) == (12, 36)


def test_json_of_a_run_with_nothing_left(capsys):
    score_log(GOLDEN / "ecog-outage-1.jsonl.gz", as_json=True)
    result = json.loads(capsys.readouterr().out)
    assert (result["score"], result["void"]) == (0, True)
    (session,) = result["sessions"]
    assert (session["score"], session["void"], session["void_rows"]) == (None, 3, 750)


def test_the_default_output_is_a_table(capsys):
    score_log(GOLDEN / "mi-2.jsonl.gz", as_json=False)
    assert "Motor imagery, subject S01" in capsys.readouterr().out


def test_people_read_blocks_and_trials_counted_from_1_and_programs_from_0():
    table = [line.split("│")[1:3] for line in shown("turing-5").splitlines() if "│" in line]
    places = [(int(block), int(trial)) for block, trial in table if block.strip().isdigit()]
    verdicts = score_run(GOLDEN / "turing-5.jsonl.gz").verdicts()
    assert places == [(v.block + 1, v.trial + 1) for v in verdicts]
    assert min(places) == (1, 1)


def test_a_broken_log_is_a_log_error(tmp_path):
    with pytest.raises(LogError):
        score_log(tmp_path / "none", as_json=True)


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (
            "mi-2",
            [
                "feet (2.96 s)",
                "report 1: at 2.96 s, limit 2.00 s",
                "after the submission point (241) was received",
                "left instead of feet",
                "no report 3",
                "before a trial's first packet",
                "report 4: beyond the three",
                "S01: 0.5699 bits/min (15 of 36 right)",
                "report 1, T = 2 s: 4 of 12 right, 0.0000 bits/min",
                "t2 · mi · 0.5699 bits/min",
                "ended as finished",
            ],
        ),
        (
            "turing-5",
            [
                "no report: wrong, charged 5 s",
                "wrong, 5.00 s",
                "Right-MI (13.12 s)",
                "report 2: only the first report counts",
                "block 1: 3 of 7 right, 6 needed: 0",
            ],
        ),
        ("turing-1", ["report at 5.00 s: must be below 5.00 s", "missing: its trigger never came"]),
        (
            "erp-1",
            [
                "P (1 sequence)",
                "Y (4 sequences), H (4 sequences)",
                "U instead of 6",
                "right, 7.20 s",
                "2 of 4 right: more than half must be, so 0",
            ],
        ),
        ("erp-2", ["report after the trial's end (241): wrong, charged 9 s"]),
        (
            "emotion-2",
            [
                "6 of 7 seconds right",
                "1 more",
                "'3' (second 30)",
                "second 30: '3' is no int of 0-8",
                "the mean of 8 clips",
            ],
        ),
        ("emotion-4", ["second 12: took 0.51 s, limit 0.5 s", "second 9: no report"]),
        (
            "ecog-1",
            [
                "rows 44-293",
                "1.25 s of angles",
                "NRMSE",
                "rows without a report: the last value held",
                "not rows of 8 numbers within +-1e+06",
                "block 1: 55.6690, the mean of 3 trials",
            ],
        ),
        (
            "mi-outage-1",
            [
                "void: decided by the organiser (wrong cue shown)",
                "S01: void: nothing is left, so it is left out",
                "t227 · mi · 0.0000 bits/min (void: nothing is left to score)",
            ],
        ),
        (
            "emotion-outage-2",
            [
                "2 of 9 seconds right",
                "seconds 37, 38: void: outage",
                "void: decided by the organiser (subject moved)",
                "void: 1 trial, 10 seconds",
            ],
        ),
        ("ecog-outage-4", ["7 of 250 rows left out: void: outage (–)", "void: 2 trials, 386 rows"]),
        ("turing-outage-4", ["void: 7 trials"]),
        ("mi-1", ["ended as timeout: every session and the run score 0", "S02: 0.0000"]),
    ],
)
def test_the_table_shows_what_counted_and_why_not(name, texts):
    text = shown(name)
    for expected in texts:
        assert expected in text


def test_control_characters_in_a_name_are_escaped(tmp_path):
    path = tmp_path / "run.jsonl"
    lines = [
        {"kind": "run", "v": 1, "track": "erp", "team": "\x1b[2J", "rules": {}},
        {"kind": "session", "subject": "\ud800", "rate": 250},
        {"kind": "truth", "blocks": [["A"]]},
        {"kind": "report", "result": "\x1b[2J"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    console = Console(width=200, color_system=None)
    with console.capture() as capture:
        console.print(render(score_run(path)))
    assert "\x1b" not in capture.get()
    assert r"'\x1b[2J' · erp" in capture.get()
    assert r"subject '\ud800'" in capture.get()


def test_a_log_without_an_end_is_marked(tmp_path):
    path = tmp_path / "run.jsonl"
    lines = [
        {"kind": "run", "v": 1, "track": "erp", "team": "[red]t[/]", "rules": {}},
        {"kind": "session", "subject": "[bold]S", "rate": 250},
        {"kind": "truth", "blocks": [["A"]]},
        {"kind": "packet", "start": 0, "n": 10, "triggers": [[0, 101]]},
        {"kind": "packet", "start": 0, "n": 10, "triggers": []},
        {"kind": "report", "result": "[link=x]" * 20},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render(score_run(path)))
    text = capture.get()
    assert "no end line: scored as it stands" in text
    assert "subject [bold]S" in text
    assert "[red]t[/]" in text  # what a team wrote is shown, not obeyed
    assert "'[link=x][link=x]" in text


def test_surplus_reports_are_listed_once(tmp_path):
    path = tmp_path / "run.jsonl"
    lines = [
        {"kind": "run", "v": 1, "track": "mi", "team": "t", "rules": {}},
        {"kind": "session", "subject": "S", "rate": 1000},
        {"kind": "truth", "blocks": [[1]]},
        {"kind": "packet", "start": 0, "n": 40, "triggers": [[0, 200]]},
        {"kind": "packet", "start": 40, "n": 40, "triggers": []},
        *({"kind": "report", "result": 1} for _ in range(6)),
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    console = Console(width=200)
    with console.capture() as capture:
        console.print(render(score_run(path)))
    assert "right right right │ reports 4-6: beyond the three" in capture.get()
