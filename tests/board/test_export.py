"""Leaderboards as records and CSV."""

import csv
import io

import pytest

from bci_stream.leaderboard.ranking import COLUMNS, LeaderboardRow, to_csv, to_records


def test_records_and_csv_have_the_same_columns_with_the_rank_first() -> None:
    rows = [LeaderboardRow("a", "mi", rank=1, score=2.5, accuracy=0.5), LeaderboardRow("b", "mi")]
    assert list(to_records(rows)[0]) == list(COLUMNS)
    read = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert COLUMNS[0] == "rank"
    assert read[0]["score"] == "2.5"
    assert read[1]["rank"] == ""


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx"])
def test_a_name_that_a_spreadsheet_would_run_is_defused(name: str) -> None:
    read = list(csv.DictReader(io.StringIO(to_csv([LeaderboardRow(name, "mi")]), newline="")))
    assert read[0]["team"].startswith("'")


def test_names_with_commas_quotes_and_line_breaks_come_back_whole() -> None:
    name = 'a,"b"\nc'
    read = list(csv.DictReader(io.StringIO(to_csv([LeaderboardRow(name, "mi")]), newline="")))
    assert read[0]["team"] == name
