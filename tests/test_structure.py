"""The structure that CONTRIBUTING asks for: modules, folders, names and words."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("tracks", "bci_stream", "replay", "decoders")
MOST_MODULES = 380
"""239 after the restructuring; features add whole concepts."""
MOST_IN_A_FOLDER = 16
FEWEST_LINES = 40
"""A module below this size with a single importer belongs beside that importer."""

FIGURES_OF_SPEECH = re.compile(
    r"\b(said|told|hears?|heard|ear|stranger|strangers|nobody|anew|heeds?|heeded|believes?|chorus|testimony"
    r"|docket|lobby|hearing|whim)\b",
    re.IGNORECASE,
)


FIXED_NAMES = re.compile(r'tag="(said|told)"|`told`|"heard"|\bheard: |\.heard\b')
"""Names in the wire's version 1 and in `bci-replay status --json`."""


@cache
def modules() -> dict[str, Path]:
    return {_name(path): path for package in PACKAGES for path in (ROOT / package).rglob("*.py")}


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text("utf-8")) for name, path in modules().items()}


def _imported(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found & modules().keys()


def test_there_are_few_modules() -> None:
    assert len(modules()) < MOST_MODULES


def test_a_folder_fits_on_a_screen() -> None:
    folders = Counter(path.parent for path in modules().values())
    assert not {str(folder): n for folder, n in folders.items() if n > MOST_IN_A_FOLDER}


def test_a_small_module_has_several_importers() -> None:
    importers: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees().items():
        for other in _imported(tree):
            importers[other].add(name)
    small = {
        name: sorted(importers[name])
        for name, path in modules().items()
        if path.name not in ("__init__.py", "__main__.py")
        and len(path.read_text("utf-8").splitlines()) < FEWEST_LINES
        and len(importers[name]) == 1
    }
    assert not small


def test_no_two_classes_or_type_aliases_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, tree in trees().items():
        for name in _types_in(tree):
            places[name].append(module)
    assert not {name: where for name, where in places.items() if len(where) > 1}


def _types_in(tree: ast.Module) -> list[str]:
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    aliases = [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and isinstance(node.value, ast.Subscript | ast.BinOp)
        for target in ([node.target] if isinstance(node, ast.AnnAssign) else node.targets)
        if isinstance(target, ast.Name) and re.match(r"_?[A-Z][a-z]", target.id)
    ]
    return [name for name in (*classes, *aliases) if not name.startswith("_")]


@pytest.mark.parametrize(
    "files",
    [
        *(f"{package}/**/*.py" for package in (*PACKAGES, "scripts")),
        "bci_stream/**/static/*.js",
        "replay/**/static/*.js",
        "bci_stream/**/*.html",
        "docs/*.md",
        "docs/howto/*.md",
        "[!C]*.md",
        "CONTRIBUTING.md",
    ],
)
def test_names_and_prose_are_plain(files: str) -> None:
    paths = sorted(ROOT.glob(files))
    assert paths
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if FIGURES_OF_SPEECH.search(FIXED_NAMES.sub("", line))
    ]
    assert not found


def _thread_names(tree: ast.Module) -> Iterator[str]:
    """The literal names of the threads and pools that a module starts."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in ("Thread", "ThreadPoolExecutor", "thread_beside"):
            named = [k.value for k in node.keywords if k.arg in ("name", "thread_name_prefix")]
            given = [*named, *node.args[1:]]
            yield from (
                a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)
            )


def test_the_architecture_page_names_every_thread() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    names = {name for tree in trees().values() for name in _thread_names(tree)}
    assert len(names) > 15
    assert not {name for name in names if f"`{name}" not in page}
