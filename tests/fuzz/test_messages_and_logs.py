"""Damaged contest files, run logs, model files and messages of the wire: read, or refused with our error."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.contest.contest import load_contest
from bci_stream.contest.keys import read_key
from bci_stream.runlog import score_run
from bci_stream.wire import messages
from decoders.model import Model, load_model, save_model
from tests.fuzz.damage import damaged, examples, read_within_limits

CONTEST = b"""name = "spring-2026"
pace = "realtime"
teams = ["alpha", "beta"]

[tracks.mi]
recordings = ["run1.edf?events=T1=11", "synthetic:mi"]
rules = { window_tolerance_s = 0.1 }

[tracks.erp]
recordings = ["synthetic:erp"]

[limits]
compute_factor = 2.0
memory_mb = 1024
strength = "auto"

[qualify]
top = 3
least_score = 1.5
"""
LOGS = sorted((Path(__file__).parents[1] / "golden").glob("*-1.jsonl.gz"))
READERS = {
    "control": messages.read_control,
    "results": messages.read_results,
    "judge": messages.read_judge,
    "truth": messages.read_sealed,
}
MESSAGES = {
    "control": '{"kind":"packet","i":1,"session":0,"block":0,"start":40,"n":40,"triggers":[[3,200]]}',
    "results": '{"kind":"report","contest":"c","run":"r","team":"t","seq":4,"packet":3,"result":2}',
    "judge": '{"kind":"go","run":"r"}',
    "truth": '{"kind":"truth","session":0,"subject":"S1","packet":0,"rate":1000.0,"leads":64,'
    '"packet_samples":40,"n_samples":100,"event":{"blocks":[[1,2,3]]}}',
}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)


def test_the_contest_is_read(tmp_path):
    (tmp_path / "contest.toml").write_bytes(CONTEST)
    assert list(load_contest(tmp_path).tracks) == ["mi", "erp"]


@examples(150)
@given(content=damaged(CONTEST, head=1.0))
def test_a_damaged_contest_file_is_read_or_refused(content, tmp_path):
    (tmp_path / "contest.toml").write_bytes(content)
    read_within_limits(lambda: load_contest(tmp_path))


@examples(60)
@given(values=st.dictionaries(st.sampled_from(["name", "track", "recordings", "rules", "tracks",
       "pace", "teams", "limits", "qualify"]), JSON))  # fmt: skip
def test_a_contest_file_with_any_values_is_read_or_refused(values, tmp_path):
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    (tmp_path / "contest.toml").write_text("\n".join(lines), errors="replace")
    read_within_limits(lambda: load_contest(tmp_path))


@examples(60)
@given(content=st.binary(max_size=100))
def test_any_key_file_is_read_or_refused(content, tmp_path):
    path = tmp_path / "x.key"
    path.write_bytes(content)
    path.chmod(0o600)
    read_within_limits(lambda: read_key(path))


@pytest.fixture(scope="module")
def short_logs() -> list[list[bytes]]:
    """The beginnings of golden logs of all tracks, as lines, with all their truth."""
    found = []
    for log in LOGS:
        lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
        truth = [line for line in lines[40:] if b'"truth"' in line[:40]]
        found.append(lines[:40] + truth[:3])
    return found


def score(path: Path) -> None:
    result = score_run(path).result()
    assert math.isfinite(result["score"])
    json.dumps(result)


@examples(150)
@given(data=st.data())
def test_a_damaged_run_log_is_scored_or_refused(short_logs, tmp_path, data):
    lines = data.draw(st.sampled_from(short_logs))
    path = tmp_path / "run.jsonl"
    path.write_bytes(data.draw(damaged(b"".join(lines), head=0.3)))
    read_within_limits(lambda: score(path))


@examples(150)
@given(data=st.data())
def test_a_run_log_with_any_value_is_scored_or_refused(short_logs, tmp_path, data):
    lines = list(data.draw(st.sampled_from(short_logs)))
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.integers(0, len(lines) - 1))
        event = json.loads(lines[number])
        event[data.draw(st.sampled_from(sorted(event)))] = data.draw(JSON)
        lines[number] = json.dumps(event).encode() + b"\n"
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(lines))
    read_within_limits(lambda: score(path))


@examples(30)
@given(data=st.data())
def test_a_damaged_packed_run_log_is_scored_or_refused(tmp_path, data):
    path = tmp_path / "run.jsonl.gz"
    path.write_bytes(data.draw(damaged(data.draw(st.sampled_from(LOGS)).read_bytes())))
    read_within_limits(lambda: score(path))


@pytest.mark.parametrize("stream", READERS)
@examples(150)
@given(data=st.data())
def test_a_damaged_message_is_read_or_refused(stream, data):
    content = data.draw(damaged(MESSAGES[stream].encode(), head=1.0))
    read_within_limits(lambda: READERS[stream](content.decode("utf-8", "surrogateescape")))


@pytest.mark.parametrize("stream", READERS)
@examples(60)
@given(data=st.data())
def test_a_message_with_any_values_is_read_or_refused(stream, data):
    event = json.loads(MESSAGES[stream])
    for key in data.draw(st.lists(st.sampled_from(sorted(event)), max_size=3)):
        event[key] = data.draw(JSON)
    read_within_limits(lambda: READERS[stream](json.dumps(event)))


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"kind":' * 100_000, "9" * 200_000, "\ud800", "\0"]
)
@pytest.mark.parametrize("stream", READERS)
def test_a_text_that_is_hard_to_read_is_refused(stream, text):
    read_within_limits(lambda: READERS[stream](text))


@examples(80)
@given(data=st.data())
def test_a_damaged_model_file_is_read_or_refused(tmp_path, data):
    path = tmp_path / "x.model"
    arrays = {"filters": np.arange(12.0).reshape(3, 4), "means": np.ones(4, dtype=np.float32)}
    save_model(Model("mi", "csp", arrays, {"leads": ["C3", "C4"]}, {"seed": 1}), path)
    path.write_bytes(data.draw(damaged(path.read_bytes(), head=1.0)))

    def read() -> None:
        model = load_model(path)
        model.names("leads")
        model.array("filters", (3, 4))

    read_within_limits(read)
