"""The decoder that the documentation shows is a decoder: it keeps the laws."""

import re
from pathlib import Path

from decoders.checks import check, sample_session

PAGE = Path(__file__).parents[2] / "docs" / "decoders.md"


def test_the_decoder_in_thirty_lines_keeps_the_laws() -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) <= 30
    scope: dict[str, type] = {}
    exec(compile(code, "docs/decoders.md", "exec"), scope)  # noqa: S102 - our own page
    session = sample_session("mi")
    assert [law.detail for law in check("mi", scope["Mine"], session) if not law.ok] == []
