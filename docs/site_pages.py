"""Pages of the documentation that are made from the code: reasons in both languages, and link targets.

`docs/conf.py` calls `write_pages` and `write_inventories` before each build.
"""

import zlib
from pathlib import Path

import bci_stream
from tracks.common.words import CHINESE, ENGLISH

REASONS_HEAD = """\
# Messages and reasons

A verdict's reason, the end of a run and an alarm are codes with parameters;
`tracks/common/words.py` has the words, and this table is made from it. `{name}` is a parameter.

| code | English | Chinese |
|---|---|---|
"""


API_HEAD = """\
# Python API

`import bci_stream` gives these names; each is imported on first use. Names of other modules may change.

```{eval-rst}
.. currentmodule:: bci_stream

.. autosummary::
   :toctree: generated

"""


def write_pages(folder: Path) -> None:
    """Write the pages that change with the code; a page that is current is left alone."""
    _write_changed(folder / "messages.md", reasons_page())
    _write_changed(folder / "api.md", api_page())


def api_page() -> str:
    """A list of the public names, from which autosummary makes a page each."""
    names = (name for name in bci_stream.__all__ if not name.startswith("_"))
    return API_HEAD + "".join(f"   {name}\n" for name in names) + "```\n"


def reasons_page() -> str:
    """All reason codes with their words in English and Chinese."""
    rows = [f"| `{code}` | {ENGLISH[code]} | {CHINESE[code]} |" for code in sorted(ENGLISH)]
    return REASONS_HEAD + "\n".join(rows) + "\n"


def write_inventories(source: Path, target: Path) -> dict[str, tuple[str, str]]:
    """Make Sphinx inventories of source/*.txt; returns the mapping that intersphinx takes.

    The first line of a file is the address of that project's documentation; each other line is
    `ROLE NAME PATH`, where the path is relative to that address.
    """
    target.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for path in sorted(source.glob("*.txt")):
        address, *lines = path.read_text(encoding="utf-8").splitlines()
        inventory = target / f"{path.stem}.inv"
        inventory.write_bytes(_inventory(path.stem, lines))
        mapping[path.stem] = (address, str(inventory))
    return mapping


def _inventory(project: str, lines: list[str]) -> bytes:
    """An inventory of version 2: a plain head, then `name role priority path -` lines, compressed."""
    head = (
        f"# Sphinx inventory version 2\n# Project: {project}\n# Version: \n"
        "# The remainder of this file is compressed using zlib.\n"
    )
    rows = []
    for line in filter(None, lines):
        role, name, path = line.split()
        rows.append(f"{name} py:{role} 1 {path} -\n")
    return head.encode() + zlib.compress("".join(rows).encode())


def _write_changed(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
