"""The table of formats in docs/recordings-formats.md is what the code has and what the tests write.

`python tests/replay/readers/test_formats_table.py` prints the table for the page.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import small_formats  # noqa: E402
import small_recordings  # noqa: E402

from replay.readers.formats import FORMATS  # noqa: E402
from replay.readers.mne.any_format import ANT, READERS  # noqa: E402

PAGE = ROOT / "docs" / "recordings-formats.md"
MNE_ONLY = "MNE's testing files, where they are present"
EXTRAS = {"NWB": "bci-stream[nwb]", "BCI2000 or Curry": "bci-stream[bci2000], curryreader",
          "CNT": f"ANT: {ANT.needs}", "MATLAB": "7.3: bci-stream[matlab73]",
          "EEGLAB": "7.3: bci-stream[matlab73]"}  # fmt: skip


def _written() -> dict[str, list[str]]:
    """Suffix to the small files that the tests write."""
    found: dict[str, list[str]] = {}
    for name in small_recordings.WRITERS:
        found.setdefault(Path(name).suffix, []).append(name)
    for form, suffix in (("Persyst", ".lay"), ("eXimia", ".nxe"), ("Nicolet", ".data"), ("NEDF", ".nedf"),
                         ("SNIRF", ".snirf"), ("BCI2000", ".dat"), ("NWB", ".nwb"),
                         ("FIF, compressed", ".fif.gz"), ("EyeLink", ".asc"), ("BOXY", ".txt"),
                         ("OPM", ".bin"), ("BrainVision .ahdr", ".ahdr"),
                         ("EGI MFF", ".mff"), ("Artemis123", ".bin"), ("NIRx", ".hdr"),
                         ("Curry", ".cdt"), ("NSx", ".ns2"),
                         ("EEGLAB 7.3", ".set")):  # fmt: skip
        assert form in small_formats.WRITERS
        found.setdefault(suffix, []).append(f"a small {form} file")
    return found


def table() -> list[str]:
    suffixes: dict[str, list[str]] = {}
    for suffix, form in FORMATS.items():
        suffixes.setdefault(form.name, []).append(suffix)
    written = _written()
    lines = ["| format | suffixes | needs | parameters | tested with |", "|---|---|---|---|---|"]
    for name, own in suffixes.items():
        reader = READERS.get(own[0])
        needs = EXTRAS.get(name) or (reader.needs if reader else "") or "-"
        taken = ", ".join(f"`{p}`" for p in FORMATS[own[0]].parameters) or "-"
        tests = (
            ", ".join(dict.fromkeys(file for s in own for file in written.get(s, ()))) or MNE_ONLY
        )
        lines.append(
            f"| {name} | {' '.join(f'`{s}`' for s in own)} | {needs} | {taken} | {tests} |"
        )
    return lines


def test_the_page_has_this_table():
    assert "\n".join(table()) in PAGE.read_text()


if __name__ == "__main__":
    print("\n".join(table()))
