"""Every command line in the README and in docs/ is one that the commands accept."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bci_stream.judge.cli import main as judge
from decoders.cli import main as decode
from replay.cli import main as replay

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += [
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
    *sorted((ROOT / "docs" / "zh").glob("*.md")),
]
COMMANDS: dict[str, click.Command] = {
    "bci-judge": judge,
    "bci-decode": decode,
    "bci-replay": replay,
}
BLOCK_LINE = re.compile(
    r"^(?:    |```\w*\n)?(?:\w*\$ )?((?:[A-Z_]+=\S+ )*bci-(?:judge|decode|replay) .*)$"
)
CONTROL = re.compile(r"\s(?:[|&><;]|\.\.\.|2>).*$")


def code_lines(page: Path) -> Iterator[str]:
    """The lines of a page's code blocks, indented or fenced; continued lines as one."""
    fenced, continued = False, ""
    for line in page.read_text("utf-8").splitlines():
        if line.startswith("```"):
            fenced = not fenced
            continue
        if not (fenced or line.startswith("    ") or continued):
            continue
        if line.endswith("\\"):
            continued += line[:-1]
            continue
        yield continued + line.strip() if continued else line
        continued = ""


def documented() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for line in code_lines(page):
            if found := BLOCK_LINE.match(line.strip()):
                yield page.relative_to(ROOT).as_posix(), found[1]


def words_of(line: str) -> list[str]:
    """The words of a command line, optional ones too, up to a comment, a redirection or an ellipsis."""
    words = shlex.split(CONTROL.sub("", re.sub(r"[][]", "", line)), comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words.pop(0)
    return words


def check(command: click.Command, words: list[str], *, whole: bool) -> None:
    """Raise a UsageError for a command, an option or an argument that does not exist or is missing."""
    context = click.Context(command)
    values, rest, _ = command.make_parser(context).parse_args(list(words))
    if isinstance(command, click.Group) and rest:
        below = command.get_command(context, rest[0])
        if below is None:
            raise click.UsageError(f"there is no command {rest[0]!r}")
        check(below, rest[1:], whole=whole)
        return
    if rest:
        raise click.UsageError(f"{rest} is too much")
    missing = [
        p.name for p in command.params if p.required and values.get(str(p.name)) in (None, ())
    ]
    if missing and whole:
        raise click.UsageError(f"{missing} is missing")


def test_there_are_many() -> None:
    assert len(list(documented())) > 100


@pytest.mark.parametrize(("page", "line"), sorted(set(documented())))
def test_a_documented_command_line_is_accepted(page: str, line: str) -> None:
    name, *words = words_of(line)
    check(COMMANDS[name], words, whole="..." not in line)


@pytest.mark.parametrize(
    "line",
    ["bci-judge nosuch", "bci-judge score --nosuch", "bci-decode train", "bci-judge go a b c"],
)
def test_one_that_is_not_accepted_is_found(line: str) -> None:
    name, *words = words_of(line)
    with pytest.raises(click.UsageError):
        check(COMMANDS[name], words, whole=True)
