"""A code is one Python file of a submission, as far as it can be known without running it.

Sources are parsed; compiled files are searched for the names in them. Nothing is executed, and
nothing is unmarshalled.
"""

import ast
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from decoders.host.interface import INTERFACES

BASE = "AlgorithmInterface"
"""The class that the algorithms of G1 to G4 build on."""

MOST_CODE_BYTES = 4 << 20
"""What is larger is no code that a person wrote, and would take long to look through."""

_FRAMEWORK_FILES = re.compile(
    r"(^|/)(Interface/(\w+Interface|Model/\w+)|method/(interface|model)/\w+|AlgorithmInterface)\.pyc?$"
)
_NAME_IN_SOURCE = re.compile(rb"[A-Za-z_][A-Za-z0-9_.]{2,}")


@dataclass(frozen=True, slots=True)
class Code:
    """path: from the submission's root; names: that stand in it; classes: with their bases."""

    path: PurePosixPath
    names: frozenset[str]
    classes: dict[str, frozenset[str]] = field(default_factory=dict)

    @property
    def builds_on_interface(self) -> bool:
        if self.path.suffix == ".pyc":
            return BASE in self.names
        return any(BASE in bases for bases in self.classes.values())

    def speaks(self, interface: str) -> bool:
        """Does it use names that only this generation's submissions use?"""
        facts = INTERFACES[interface]
        by_import = (
            name for name in self.names if facts.imports and name.startswith(facts.imports)
        )
        return bool(facts.marks & self.names) or any(by_import)


def read_codes(root: Path) -> list[Code]:
    """The submission's files, a source before the compiled file of its name.

    Its own copies of framework modules are left out: they don't say which of them it uses.
    """
    codes: dict[PurePosixPath, Code] = {}
    for path in [*sorted(root.rglob("*.py")), *sorted(root.rglob("*.pyc"))]:
        relative = PurePosixPath(path.relative_to(root).as_posix())
        if not _FRAMEWORK_FILES.search(str(relative)) and relative.stem != "__init__":
            codes.setdefault(relative.with_suffix(""), _read_code(path, relative))
    return list(codes.values())


def _read_code(path: Path, relative: PurePosixPath) -> Code:
    if path.stat().st_size > MOST_CODE_BYTES:
        return Code(relative, frozenset())
    text = path.read_bytes()
    if path.suffix == ".pyc":
        return Code(relative, _names_in_compiled(text))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of their escape sequences; they are not ours to mend
            return _parsed(ast.parse(text), relative)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last one: nested too deep
        # Another Python's syntax: its names can still be found.
        return Code(relative, _names_in_source(text))


def _parsed(tree: ast.Module, relative: PurePosixPath) -> Code:
    names: set[str] = set()
    classes: dict[str, frozenset[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ClassDef):
            bases = (ast.unparse(base).rpartition(".")[2] for base in node.bases)
            classes[node.name] = frozenset(bases)
    return Code(relative, frozenset(names), classes)


def _names_in_source(text: bytes) -> frozenset[str]:
    found = {name.decode() for name in _NAME_IN_SOURCE.findall(text)}
    return frozenset(found | {part for name in found for part in name.split(".")})


def _names_in_compiled(text: bytes) -> frozenset[str]:
    """Names that tell an interface; a compiled file keeps each name behind its length."""
    marks = {BASE, *(mark for each in INTERFACES.values() for mark in each.marks)}
    imports = {begin for each in INTERFACES.values() for begin in each.imports}
    return frozenset(
        {mark for mark in marks if bytes([len(mark)]) + mark.encode() in text}
        | {begin for begin in imports if begin.encode() in text}
    )
