"""Reading and writing run logs."""

import gzip
import json
import math
import os
import stat
from hashlib import sha256

import numpy as np
import pytest

from bci_stream.errors import LogError
from bci_stream.runlog import (
    RunLog,
    earlier_logs,
    encode,
    make_runs_folder,
    read_log,
    score_run,
)

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


def events(path):
    """The events of a log without their hashes."""
    return [{key: event[key] for key in event if key != "h"} for _, event in read_log(path)]


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
    assert events(path) == WHOLE
    log.close()
    log.close()


def test_flushed_lines_are_in_the_file(tmp_path):
    path = tmp_path / "run.jsonl"
    log = RunLog(path)
    for event in WHOLE:
        log.write(event)
    assert path.read_bytes() == b""
    log.flush()
    assert path.read_bytes().count(b"\n") == len(WHOLE) == log.lines
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
    assert events(path) == [RUN, SESSION]


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


# --- hash chain -------------------------------------------------------------------------------


def written_log(path, lines, append=False):
    log = RunLog(path, append=append)
    for event in lines:
        log.write(event)
    log.close()
    return log


def chain_by_definition(path):
    """(hashes in the log, hashes by the definition in docs/run-log.md)."""
    found, computed, previous = [], [], "0" * 64
    for line in path.read_text().splitlines():
        start = line.rindex(',"h":"')
        previous = sha256((previous + line[:start] + "}").encode()).hexdigest()
        found.append(line[start + 6 : -2])
        computed.append(previous)
    return found, computed


def test_each_line_ends_with_the_hash_of_itself_and_the_line_before(tmp_path):
    path = tmp_path / "run.jsonl"
    log = written_log(path, WHOLE)
    found, computed = chain_by_definition(path)
    assert found == computed
    assert len(set(found)) == len(WHOLE)
    assert (log.head, log.lines) == (found[-1], len(WHOLE))


def test_a_log_with_hashes_scores_as_without(tmp_path):
    written_log(tmp_path / "run.jsonl", [{**RUN, "v": 2}, *WHOLE[1:]])
    assert score_run(tmp_path / "run.jsonl").result()["score"] == pytest.approx(200)


def test_a_continued_log_continues_the_chain_after_its_last_whole_line(tmp_path):
    path = tmp_path / "erp-t-r1.jsonl"
    written_log(path, WHOLE[:4])
    with path.open("ab") as file:
        file.write(b'{"kind":"report","resu')  # was being written when the judge died
    assert [found for found, *_ in earlier_logs(tmp_path, "r1")] == ["t"]
    log = written_log(path, WHOLE[4:], append=True)
    found, computed = chain_by_definition(path)
    assert found == computed
    assert log.lines == len(WHOLE)
    assert events(path) == WHOLE


def test_a_log_of_version_1_is_continued_without_a_chain(write):
    path = write(*WHOLE[:3])
    log = written_log(path, WHOLE[3:], append=True)
    assert (log.head, log.lines) == ("", len(WHOLE))
    assert [event for _, event in read_log(path)] == WHOLE


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_line_that_could_not_be_written_is_not_in_the_chain(tmp_path):
    log = RunLog(tmp_path / "run.jsonl")
    log.write(RUN)
    log.flush()
    before = (log.head, log.lines)
    log._file.close()
    with open("/dev/full", "wb", buffering=0) as log._file:
        log.write(SESSION)
        with pytest.raises(LogError, match="No space left"):
            log.flush()
        assert (log.head, log.lines) == before


def test_only_the_owner_may_read_logs_and_their_folder(tmp_path):
    previous = os.umask(0)
    try:
        make_runs_folder(tmp_path / "contest" / "runs")
        written_log(tmp_path / "contest" / "runs" / "run.jsonl", [RUN])
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "contest" / "runs").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "contest" / "runs" / "run.jsonl").stat().st_mode) == 0o600
