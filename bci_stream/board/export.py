"""Leaderboards as JSON records and CSV."""

import csv
import io
from collections.abc import Iterable
from dataclasses import asdict, fields
from typing import Any

from bci_stream.board.standing import Row

COLUMNS = ("rank", *(field.name for field in fields(Row) if field.name != "rank"))
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def to_records(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One dict a row, its keys in the order of COLUMNS."""
    return [{name: values[name] for name in COLUMNS} for values in map(asdict, rows)]


def to_csv(rows: Iterable[Row]) -> str:
    """A header line and a line a row; empty where there is no value."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for record in to_records(rows):
        writer.writerow({name: _cell(value) for name, value in record.items()})
    return text.getvalue()


def _cell(value: object) -> object:
    """A spreadsheet runs text that looks like a formula, and teams choose their own names."""
    if isinstance(value, str) and value.startswith(FORMULA_STARTS):
        return f"'{value}"
    return value
