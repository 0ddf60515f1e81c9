"""The code in docs/howto/add-a-format.md adds a format."""

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.readers.formats import FORMATS, FileFormat
from replay.sources import open_source

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "add-a-format.md"


@pytest.fixture
def csvbci(monkeypatch):
    """The format of the page: its module, and its line in the table."""
    reader, line = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    module = types.ModuleType("replay.readers.csvbci")
    exec(compile(reader, str(PAGE), "exec"), module.__dict__)  # noqa: S102 - code of our own page
    monkeypatch.setitem(sys.modules, module.__name__, module)
    entries = eval(f"{{{line}}}", {"FileFormat": FileFormat})
    for suffix, entry in entries.items():
        monkeypatch.setitem(FORMATS, suffix, entry)


def test_the_format_of_the_page_is_played(csvbci, tmp_path):
    path = tmp_path / "run.csvbci"
    rows = [f"{k},{-k},{11 if k == 30 else 0}" for k in range(100)]
    path.write_text("rate,250\nC3,C4,TRIGGER\n" + "\n".join(rows) + "\n")
    (session,) = open_source(str(path)).sessions()
    assert session.rate == 250
    assert [lead.name for lead in session.leads] == ["C3", "C4"]
    assert session.block_triggers() == [(100, ((30, 11),))]
    samples = next(session.packets(100)).samples
    np.testing.assert_array_equal(samples, [(k, -k) for k in range(100)])


@pytest.mark.parametrize(
    "text", ["rate,250\nC3\n1,2\n", "rate,fast\nC3\n1\n", "C3\n1\n", "rate,250\n"]
)
def test_a_damaged_file_of_the_format_is_one_error(text, csvbci, tmp_path):
    (tmp_path / "run.csvbci").write_text(text)
    with pytest.raises(SourceError, match=r"run\.csvbci"):
        open_source(str(tmp_path / "run.csvbci"))


def test_every_reader_of_the_table_exists():
    for entry in FORMATS.values():
        assert callable(entry.load_reader())
