"""The table of `make bench`, without running a benchmark."""

import json
from pathlib import Path

import pytest

from scripts.bench import all as bench_all
from scripts.bench.ratios import FILE_VARIABLE, BenchRatio, number, read_ratios, report_ratio


def test_a_ratio_is_printed_and_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "ratios.jsonl"
    monkeypatch.setenv(FILE_VARIABLE, str(file))
    found = report_ratio(
        "lockstep", "packets a second", "bare LSL", [0.9, 0.7, 0.8], "at least 0.75"
    )
    assert capsys.readouterr().out == (
        "packets a second / bare LSL: 0.80 (0.70 to 0.90 in 3 turns); asked: at least 0.75\n"
    )
    assert read_ratios(file) == [found]


@pytest.mark.parametrize(("ratio", "text"), [(0.5, "0.50"), (0.02, "1/50"), (12.3, "12.30")])
def test_small_ratios_are_fractions(ratio: float, text: str) -> None:
    assert number(ratio) == text


def test_the_page_has_a_row_for_each_ratio_and_every_bench_exists(tmp_path: Path) -> None:
    ratio = BenchRatio("judge", "CPU", "bare reader", 1.5, 1.4, 1.6, 3, "at most 2", "today")
    assert bench_all.table_rows([ratio]) == (
        "| judge | CPU | bare reader | 1.50 | 1.40 to 1.60 (3) | at most 2 | today |"
    )
    bench_all.draw([ratio], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
    assert all((bench_all.HERE / f"{name}.py").exists() for name in bench_all.BENCHES)


def test_what_fails_is_named_and_keeps_its_old_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing: set[str] = set()

    def run(name: str, arguments: list[str], ratios: Path) -> bool:
        monkeypatch.setenv(FILE_VARIABLE, str(ratios))
        report_ratio(name, "time", "other", [2.0 if arguments else 1.0])
        return name not in failing

    def run_all(*options: str) -> dict[str, float]:
        monkeypatch.setattr("sys.argv", ["all", "--out", str(tmp_path / "out"), *options])
        try:
            bench_all.main()
        finally:
            rows = json.loads((tmp_path / "out.json").read_text())
        return {row["bench"]: row["ratio"] for row in rows}

    monkeypatch.setattr(bench_all, "run_bench", run)
    assert list(run_all("--quick")) == list(bench_all.BENCHES)
    failing.add("host")
    with pytest.raises(SystemExit, match="failed: host"):
        run_all("--only", "host", "--only", "judge")
    failing.clear()
    found = run_all("--only", "page")
    assert {name for name, ratio in found.items() if ratio == 1.0} == {"judge", "page"}
    assert found["host"] == 2.0
