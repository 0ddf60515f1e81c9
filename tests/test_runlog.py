"""Reading and writing run logs."""

import gzip
import json
import math
import os

import numpy as np
import pytest

from bci_stream.errors import LogError
from bci_stream.runlog import RunLog, encode, read_log, score_run

RUN = {"kind": "run", "v": 1, "track": "turing", "team": "t", "rules": {}}
SESSION = {"kind": "session", "subject": "S01", "rate": 250, "leads": 64, "packet_samples": 10}
TRUTH = {"kind": "truth", "blocks": [[1]]}
TRIAL = [
    {"kind": "packet", "start": 0, "n": 10, "triggers": [[0, 16]]},
    {"kind": "packet", "start": 10, "n": 250, "triggers": []},
    {"kind": "report", "result": 1},
]
END = {"kind": "end", "reason": "finished"}
WHOLE = [RUN, SESSION, TRUTH, *TRIAL, END]


@pytest.fixture
def write(tmp_path):
    def written(*lines, newline=True):
        path = tmp_path / "run.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("\n".join(texts) + ("\n" if newline else ""))
        return path

    return written


def error(path):
    with pytest.raises(LogError) as caught:
        score_run(path)
    return str(caught.value)


def test_a_log_is_scored(write):
    assert score_run(write(*WHOLE)).result()["score"] == pytest.approx(200)


def test_a_compressed_log_is_scored(tmp_path):
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, WHOLE)).encode()))
    assert score_run(path).result()["score"] == pytest.approx(200)


def test_blank_lines_a_missing_last_newline_and_a_byte_order_mark_are_accepted(write):
    path = write(RUN, "", SESSION, "  ", TRUTH, *TRIAL, END, newline=False)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert score_run(path).result()["score"] == pytest.approx(200)


@pytest.mark.parametrize("line", ["{", "nonsense", '{"kind": "report", "result": }', "{'kind': 1}"])
def test_a_broken_line_is_named_by_its_number(write, line):
    assert "line 3: not a line of JSON" in error(write(RUN, SESSION, line, TRUTH))


@pytest.mark.parametrize("line", ["3", "[1, 2]", '"run"', "null"])
def test_a_line_that_is_not_an_object_is_named(write, line):
    assert "line 2: must be an object" in error(write(RUN, line))


def test_a_last_line_that_was_cut_off_is_reported_as_such(write):
    message = error(write(*WHOLE, '{"kind":"pac', newline=False))
    assert "line 8" in message
    assert "cut off" in message


def test_a_broken_line_in_the_middle_is_not_reported_as_cut_off(write):
    assert "cut off" not in error(write(RUN, "{", SESSION))


def test_bytes_that_are_not_text_are_named(tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(json.dumps(RUN).encode() + b'\n{"kind": "\xff"}\n')
    assert "line 2: not a line of JSON" in error(path)


def test_an_event_that_breaks_the_rules_is_named_by_its_line(write):
    assert "line 2: a session line needs the field `rate`" in error(
        write(RUN, {"kind": "session", "subject": "S"})
    )


def test_a_log_without_a_run_line_is_refused(write):
    assert "line 1: the run line must come first" in error(write(SESSION))
    assert "line 2: the log ends without a run line" in error(write({"kind": "note"}))


def test_an_empty_log_is_refused(tmp_path):
    path = tmp_path / "run.jsonl"
    path.touch()
    assert "line 1: the log ends without a run line" in error(path)


def test_a_log_without_truth_is_refused(write):
    assert "line 7: the log ends without a truth line" in error(write(RUN, SESSION, *TRIAL, END))


def test_an_empty_truth_line_is_not_truth(write):
    assert "without a truth line" in error(write(RUN, SESSION, {"kind": "truth"}, *TRIAL))


def test_a_missing_log_is_refused(tmp_path):
    assert "can't read the log" in error(tmp_path / "none.jsonl")
    assert "can't read the log" in error(tmp_path)


def test_a_damaged_archive_is_refused(tmp_path):
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(RUN).encode() * 99)[:40])
    assert "can't read the log" in error(path)
    broken = gzip.compress(b"")[:10] + b"\xff" * 40  # a good header, then no deflate stream
    path.write_bytes(broken)
    assert "can't read the log" in error(path)
    path.write_bytes(b"no archive")
    assert "can't read the log" in error(path)


@pytest.mark.parametrize(
    "result", ["NaN", "Infinity", "-Infinity", "1e400", "9" * 5000, r'"\ud800"']
)
def test_numbers_that_json_cannot_hold_are_read_and_name_no_class(write, result):
    path = write(RUN, SESSION, TRUTH, *TRIAL[:2], f'{{"kind":"report","result":{result}}}')
    run = score_run(path)
    assert run.verdicts()[0].right == (False,)
    assert run.verdicts()[0].charged_s == 1.0


def test_endless_nesting_is_refused(write):
    assert "line 2: not a line of JSON" in error(write(RUN, "[" * 100_000))


def test_what_was_written_is_read_back(tmp_path):
    path = tmp_path / "run.jsonl"
    log = RunLog(path)
    for event in WHOLE:
        log.write(event)
    log.sync()
    assert [event for _, event in read_log(path)] == WHOLE
    log.close()
    log.close()


def test_each_line_is_in_the_file_at_once(tmp_path):
    log = RunLog(tmp_path / "run.jsonl")
    for count, event in enumerate(WHOLE, start=1):
        log.write(event)
        assert (tmp_path / "run.jsonl").read_bytes().count(b"\n") == count
    log.close()


def test_a_log_is_never_overwritten(tmp_path):
    RunLog(tmp_path / "run.jsonl").close()
    with pytest.raises(LogError, match="never overwritten"):
        RunLog(tmp_path / "run.jsonl")


def test_an_unfinished_log_can_be_continued(tmp_path):
    path = tmp_path / "run.jsonl"
    for event, append in [(RUN, False), (SESSION, True)]:
        log = RunLog(path, append=append)
        log.write(event)
        log.close()
    assert [event for _, event in read_log(path)] == [RUN, SESSION]


def test_a_log_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(LogError, match="can't write the log"):
        RunLog(tmp_path / "none" / "run.jsonl")


def test_numpy_values_and_non_finite_numbers_are_written_as_valid_json():
    event = {
        "kind": "report",
        "result": [np.float32(0.5), math.nan, np.array([1.0, np.inf]), (1, "é")],
        "n": np.int64(3),
        "more": {"x": math.inf},
    }
    line = encode(event)
    assert line.endswith(b"\n")
    assert line.isascii()
    assert json.loads(line) == {
        "kind": "report",
        "result": [0.5, None, [1.0, None], [1, "é"]],
        "n": 3,
        "more": {"x": None},
    }


def test_a_line_never_holds_a_newline_of_its_own():
    assert encode({"result": "a\nb\u2028c"}).count(b"\n") == 1


def test_an_object_that_is_not_data_is_a_type_error():
    with pytest.raises(TypeError, match="can't be written to a run log"):
        encode({"result": object()})


def test_sync_writes_the_lines_to_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    log = RunLog(tmp_path / "run.jsonl")
    log.write(RUN)
    assert synced == []
    log.sync()
    assert len(synced) == 1
    log.close()
