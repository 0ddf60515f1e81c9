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
    ratio = BenchRatio("judge", "CPU", "bare reader", 1.5, 1.4, 1.6, 3, "at most 2")
    assert bench_all.table_rows([ratio]) == (
        "| judge | CPU | bare reader | 1.50 | 1.40 to 1.60 (3) | at most 2 |"
    )
    bench_all.draw([ratio], tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000
    assert all((bench_all.HERE / f"{name}.py").exists() for name in bench_all.BENCHES)


def test_what_fails_is_named_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(name: str, arguments: list[str], ratios: Path) -> bool:
        monkeypatch.setenv(FILE_VARIABLE, str(ratios))
        if name == "host":
            return False
        report_ratio(name, "time", "other", [1.0])
        return True

    monkeypatch.setattr(bench_all, "run_bench", run)
    monkeypatch.setattr("sys.argv", ["all", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit, match="failed: host"):
        bench_all.main()
    names = [row["bench"] for row in json.loads((tmp_path / "out.json").read_text())]
    assert names == [name for name in bench_all.BENCHES if name != "host"]
