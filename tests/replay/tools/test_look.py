"""`bci-replay look`: filters, faults of leads, frames, and the page in a real browser."""

import base64
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from leaderboard.page.conftest import browser  # noqa: F401 - a fixture

from bci_stream.errors import PageError
from bci_stream.packet import Lead
from bci_stream.page_server import listen
from bci_stream.signal_quality import lead_quality, spectrum
from replay.model.events import code_with_text
from replay.model.recording import ArrayBlock, Recording
from replay.model.source import RawPacket
from replay.tools.look.live import LiveView, read_source
from replay.tools.look.server import serve
from replay.tools.look.signal import (
    ColumnMaker,
    DisplayFilter,
    FilterSettings,
    find_faults,
    flat_positions,
    in_decibels,
)

RATE, N = 250.0, 1000
NAMES = ("C3", "C4", "Cz", "Pz", "O1")


def block() -> np.ndarray:
    """C3 is good; C4 flat; Cz saturated; Pz has 50 Hz; O1 is bridged to C3."""
    rng, t = np.random.default_rng(0), np.arange(N) / RATE
    good = rng.normal(0, 10, N)
    clipped = np.clip(300 * np.sin(2 * np.pi * 3 * t) + rng.normal(0, 30, N), -200, 200)
    line = rng.normal(0, 5, N) + 40 * np.sin(2 * np.pi * 50 * t)
    return np.stack([good, np.zeros(N), clipped, line, good + rng.normal(0, 0.05, N)], 1).astype(
        "f4"
    )


def test_each_fault_is_found_and_nothing_else():
    faults = {fault.name: fault for fault in find_faults(block(), RATE, 50.0, NAMES)}
    assert [name for name in NAMES if faults[name].flat] == ["C4"]
    assert [name for name in NAMES if faults[name].saturated] == ["Cz"]
    assert [name for name in NAMES if faults[name].line] == ["Pz"]
    assert faults["Pz"].line_uv == pytest.approx(40, abs=1)
    assert {name: faults[name].bridged for name in NAMES if faults[name].bridged} == {
        "C3": ("O1",), "O1": ("C3",),
    }  # fmt: skip


def test_faults_are_those_of_the_organisers_page():
    rows = np.concatenate([block(), np.full((N, 1), np.nan, "f4")], axis=1)
    faults = find_faults(rows, RATE, 50.0, (*NAMES, "x"))
    for i, fault in enumerate(faults):
        quality = lead_quality(rows[:, i], RATE)
        flags = {"invalid": fault.invalid, "flat": fault.flat, "saturated": fault.saturated,
                 "line noise": fault.line}  # fmt: skip
        assert [name for name, is_so in flags.items() if is_so] == (
            [] if quality.verdict == "good" else [quality.verdict]
        )
        assert fault.rms_uv == pytest.approx(quality.spread_uv)
    assert faults[-1].invalid


def test_60_hz_is_sought_where_it_is_asked_for():
    t = np.arange(N) / RATE
    rows = 30 * np.sin(2 * np.pi * 60 * t)[:, None] + np.random.default_rng(0).normal(0, 3, (N, 1))
    assert find_faults(rows.astype("f4"), RATE, 60.0, ["C3"])[0].line
    assert not find_faults(rows.astype("f4"), RATE, 50.0, ["C3"])[0].line


def test_filters_remove_what_they_say_and_start_without_a_jump():
    t = np.arange(4 * N) / RATE
    rows = (1000 + 20 * np.sin(2 * np.pi * 10 * t) + 50 * np.sin(2 * np.pi * 50 * t))[:, None]
    made = DisplayFilter(FilterSettings(1.0, 40.0, 50.0), RATE)
    pieces = [made.step(piece) for piece in np.array_split(rows.astype("f4"), 37)]
    out = np.concatenate(pieces)
    assert np.abs(out[:50]).max() < 150
    assert np.abs(out[-N:]).max() == pytest.approx(20, abs=2)
    same = DisplayFilter(FilterSettings(0, 0, 0), RATE).step(rows.astype("f4"))
    np.testing.assert_array_equal(same, rows.astype("f4"))


def test_columns_do_not_depend_on_how_samples_come():
    rows = block()
    whole = ColumnMaker(7, 5).step(rows)
    maker = ColumnMaker(7, 5)
    pieces = [maker.step(piece) for piece in np.array_split(rows, 41)]
    for k in range(2):
        np.testing.assert_array_equal(np.concatenate([p[k] for p in pieces]), whole[k])
    assert (whole[0] <= whole[1]).all()


def test_the_spectrum_has_its_peak_where_the_signal_has():
    t = np.arange(N) / RATE
    hz, db = in_decibels(*spectrum(np.sin(2 * np.pi * 12 * t)[:, None].astype("f4"), RATE))
    assert hz[db[:, 0].argmax()] == pytest.approx(12)
    assert hz[-1] <= 100


def test_leads_lie_on_the_head_by_position_or_name():
    places = flat_positions((Lead("x", position=(0.0, 0.0, 0.1)), Lead("C3"), Lead("AUX")))
    assert places[0] == pytest.approx((0, 0), abs=1e-6)
    assert places[1] is not None
    assert places[1][0] < -0.2
    assert places[2] is None


def recording() -> Recording:
    rows = np.tile(block(), (8, 1))
    leads = tuple(Lead(name) for name in NAMES)
    triggers = tuple((at, code_with_text(11, "left")) for at in range(100, len(rows), 150))
    return Recording("S1", RATE, leads, [ArrayBlock(rows, triggers)])


def test_a_frame_has_what_is_new():
    view = LiveView(recording(), lambda: 5.0)
    view.add(RawPacket(block()[:500], ((100, 11),), 0, 0, False, 4.5))
    view.add(RawPacket(block()[:500], (), 520, 0, False, 4.9))
    frame = view.frame()
    assert (frame["samples"], frame["lost"], frame["gaps"]) == (1000, 20, 1)
    assert frame["lag_ms"] == pytest.approx(100)
    assert [(one["code"], one["s"]) for one in frame["triggers"]] == [(11, 0.4)]
    values = np.frombuffer(base64.b64decode(frame["data"]), "<f4")
    assert values.size == 2 * frame["n"] * len(NAMES) == 2 * 250 * len(NAMES)
    assert len(frame["faults"]) == len(NAMES)
    again = view.frame()
    assert "data" not in again
    assert again["first"] == 250


def test_a_frame_has_the_spectrum_of_each_lead_in_tenths_of_a_decibel():
    view = LiveView(recording())
    view.add(RawPacket(block(), (), 0, 0, False))
    found = view.frame()["spectrum"]
    hz, db = in_decibels(*spectrum(block(), RATE))
    np.testing.assert_allclose(found["hz"], hz)
    tenths = np.frombuffer(base64.b64decode(found["tenths_db"]), "<i2").reshape(len(NAMES), -1)
    np.testing.assert_allclose(tenths / 10, db.T, atol=0.051)


def test_faults_are_not_sought_while_nobody_looks():
    view = LiveView(recording(), lambda: 5.0)
    view.add(RawPacket(block(), (), 0, 0, False))
    assert "faults" not in view.frame(judged=False)
    assert "faults" in view.frame()


def test_a_lead_with_infinite_values_does_not_spoil_the_others():
    rows = block()
    rows[100:110, 3] = np.inf
    view = LiveView(recording())
    view.add(RawPacket(rows, (), 0, 0, False))
    faults = {fault["name"]: fault for fault in view.frame()["faults"]}
    assert faults["Pz"]["invalid"]
    assert [name for name in NAMES if faults[name]["invalid"]] == ["Pz"]
    assert faults["C3"]["bridged"] == ("O1",)


def test_channels_in_ohm_are_impedances():
    leads = (Lead("C3"), Lead("Z-C3", "MISC", "ohm"))
    rows = np.array([[1, 5000], [2, 6000]], dtype=np.float32)
    view = LiveView(Recording("S1", RATE, leads, [ArrayBlock(rows, ())]))
    view.add(RawPacket(rows, (), 0, 0, False))
    assert view.frame()["kiloohm"] == [6.0]
    assert [lead.name for lead in view.leads] == ["C3"]
    assert view.describe()["impedance"] == ["Z-C3"]


def test_a_port_that_is_taken_is_named():
    taken = listen("127.0.0.1", 0)
    with pytest.raises(PageError, match=r"can't be served on 127.0.0.1:\d+: .* with --port"):
        listen("127.0.0.1", taken.getsockname()[1])
    taken.close()


class OneRecording:
    """A source with the recording of these tests."""

    uri, track, live, device = "test", None, False, None

    def sessions(self) -> Iterator[Recording]:
        yield recording()

    def close(self) -> None:
        pass


@pytest.fixture
def page_url() -> Iterator[str]:
    import asyncio

    stop, session, listening = threading.Event(), recording(), listen("127.0.0.1", 0)
    view = LiveView(session, name="run1.edf")
    reading = threading.Thread(target=read_source, args=(OneRecording(), session, view, stop))
    serving = threading.Thread(target=lambda: asyncio.run(serve(view, listening, stop)))
    reading.start()
    serving.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    stop.set()
    reading.join(10)
    serving.join(10)
    assert not serving.is_alive()


def inked(page: Any, canvas: str) -> int:
    """Number of pixels of a canvas that are drawn on."""
    return int(
        page.evaluate(
            "id => { const c = document.getElementById(id); const d = c.getContext('2d')"
            ".getImageData(0, 0, c.width, c.height).data; let n = 0;"
            " for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; }",
            canvas,
        )
    )


def test_the_page_shows_signal_faults_spectrum_and_triggers(browser, page_url, tmp_path):  # noqa: F811
    page = browser.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.goto(page_url)
    page.wait_for_selector("#leads label.bad:nth-child(5)")
    titles = page.eval_on_selector_all("#leads label", "boxes => boxes.map(b => b.title)")
    assert "flat" in titles[1]
    assert "saturated" in titles[2]
    assert "power line" in titles[3]
    assert "bridge to C3" in titles[4]
    page.wait_for_selector("#triggers li")
    assert "11 left" in page.inner_text("#triggers")
    assert "playing" in page.inner_text("#status")
    assert "no gaps" in page.inner_text("#status")
    for canvas in ("traces", "spectrum", "head"):
        assert inked(page, canvas) > 200, canvas
    assert page.inner_text("#title") == "run1.edf: 5 leads at 250 Hz"
    assert page.inner_text("#faults").splitlines()[:2] == ["C3: bridge to O1", "C4: flat"]
    page.select_option("#notch", "60")
    page.select_option("#scale", "200")
    page.click("#none")
    page.wait_for_selector("#leads:not(:has(input:checked))")
    page.click("#all")
    page.click("#pause")
    assert page.inner_text("#pause") == "go on"
    page.screenshot(path=str(tmp_path / "look.png"))
    page.close()
    assert errors == []


FAKE_SOCKET = """
window.WebSocket = class extends EventTarget {
  constructor() { super(); window.socket = this; }
  give(message) { this.dispatchEvent(new MessageEvent("message", { data: JSON.stringify(message) })); }
};
"""


def test_columns_that_did_not_come_are_empty_and_not_those_of_20_s_ago(browser, page_url):  # noqa: F811
    page = browser.new_page(viewport={"width": 1000, "height": 500})
    page.add_init_script(FAKE_SOCKET)
    page.goto(page_url)
    leads = [{"name": "C3", "kind": "EEG", "unit": "microvolts", "place": None}]
    source = {"kind": "source", "name": "x", "rate": 60, "columns": 60, "leads": leads, "impedance": [],
              "filter": {"highpass": 1, "lowpass": 40, "notch": 50}}  # fmt: skip
    messages = [source]
    for first, n in ((0, 60), (1260, 30)):  # the second 1 stands where second 21 would
        data = base64.b64encode(np.zeros((2, n), "<f4").tobytes()).decode()
        frame = {"kind": "frame", "first": first, "n": n, "data": data, "triggers": [], "kiloohm": [],
                 "state": "playing", "detail": "", "samples": 1, "lost": 0, "gaps": 0,
                 "lag_ms": None}  # fmt: skip
        messages.append(frame)
    # At once, so that the page draws nothing between them.
    page.evaluate("messages => messages.forEach((message) => socket.give(message))", messages)
    page.wait_for_function("() => document.getElementById('traces').width > 300")
    inked_share = """([from, to]) => { const c = document.getElementById('traces'), wide = c.width - 64;
      const d = c.getContext('2d').getImageData(64 + from * wide, 0, (to - from) * wide, c.height - 20).data;
      let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n; }"""
    # The window is 5 s: seconds 16.5 to 21.5, of which only the last half second came.
    page.wait_for_function(f"() => ({inked_share})([0.92, 0.98]) > 0")
    assert page.evaluate(inked_share, [0.0, 0.89]) == 0
    page.close()


def test_a_page_of_another_host_gets_no_signal(page_url):
    request = urllib.request.Request(f"{page_url}frames", headers={"Origin": "http://evil.example"})
    with pytest.raises(urllib.error.HTTPError, match="403") as caught:
        urllib.request.urlopen(request, timeout=30)
    caught.value.close()


@pytest.mark.slow
def test_the_command_serves_its_page_and_ends_on_ctrl_c(processes, write):
    command = [sys.executable, "-u", "-m", "replay", "look", str(write("run.edf")), "--no-browser",
               "--port", "0"]  # fmt: skip
    process = processes.start_program(command, stderr=subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "4 leads at 250 Hz: http://127.0.0.1:" in line
    url = line.split()[-4]
    with urllib.request.urlopen(url, timeout=30) as page:
        assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
