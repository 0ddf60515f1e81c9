"""Does a test fail wherever a rule is changed? Mutates tracks/*.py, one small change at a time.

    nice -n 10 python scripts/mutate_tracks.py [tracks/ecog.py ...]        # default: all of tracks/

Each number (a whole one up and down), truth value, text of a table, comparison, and/or/not, sign,
operator, min/max, ceil/floor and any/all is changed in a copy of the project, and tests/tracks is run
there until a test fails. Texts within functions are words to a human, not rules, and are left alone,
as docstrings and type hints are. Prints, for each file, how many mutants were killed, and every survivor;
one that stands in tests/tracks/mutants.md changes nothing that a rule can tell, and is counted apart.
Exit code 1 where another one survives.
"""

import argparse
import ast
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("tracks", "bci_stream", "tests", "docs")
EQUIVALENT = ROOT / "tests" / "tracks" / "mutants.md"
TIMEOUT_S = 120
OPTIONS = (
    "-x",
    "--assert=plain",
    "-pno:cacheprovider",
    "-Werror",
    "--hypothesis-seed=0",
    "--import-mode=importlib",
    "--confcutdir=tests/tracks",
    "-k not costs_the_same",  # of time, not of rules
)
SLOW = ("laws", "run", "itr")

NEAR = {
    "angles": "ecog",
    "clips": "emotion docs",
    "codes": "trials masks truth decided",
    "events": "trials run",
    "exact": "mi run",
    "itr": "mi erp itr",
    "prediction": "ecog decided",
    "registry": "masks run",
    "rules": "decided run",
    "seconds": "emotion decided",
    "track": "run decided",
    "trials": "trials decided mi turing erp",
    "verdict": "verdict turing erp emotion run",
    **{
        stem: f"{stem} decided truth masks reading"
        for stem in ("ecog", "emotion", "erp", "mi", "turing")
    },
}
"""Which tests of tests/tracks are tried first; a file that is not here has one of its own name."""

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.USub: ast.UAdd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
FUNCTIONS = {
    "min": "max",
    "max": "min",
    "ceil": "floor",
    "floor": "ceil",
    "any": "all",
    "all": "any",
    "minimum": "maximum",
    "maximum": "minimum",
}


@dataclass(frozen=True)
class Mutant:
    """A file with one change. `name` says which, in words that outlive a moved line."""

    name: str
    line: int
    text: str


def mutants(source: str, stem: str) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines."""
    lines = source.splitlines()
    found = []
    for number, node in enumerate(_rules(ast.parse(source))):
        for variant in range(len(_changes(node))):
            tree = ast.parse(source)
            target = next(n for k, n in enumerate(_rules(tree)) if k == number)
            before = ast.unparse(target)
            _changes(target)[variant].apply()
            line = target.lineno
            where = f"{stem}: {lines[line - 1].strip()} | column {target.col_offset}"
            name = f"{where}: {before} -> {ast.unparse(target)}"
            found.append(Mutant(name, line, ast.unparse(tree)))
    return _told_apart(sorted(found, key=lambda mutant: mutant.line))


def _told_apart(found: list[Mutant]) -> list[Mutant]:
    """The same change of the same line may stand twice in a file."""
    seen = Counter[str]()
    apart = []
    for mutant in found:
        seen[mutant.name] += 1
        times = seen[mutant.name]
        apart.append(replace(mutant, name=f"{mutant.name} (no. {times})") if times > 1 else mutant)
    return apart


@dataclass(frozen=True)
class Change:
    """Sets one field of a node of the syntax tree."""

    node: ast.AST
    field: str
    value: object

    def apply(self) -> None:
        setattr(self.node, self.field, self.value)


def _rules(node: ast.AST, in_function: bool = False) -> Iterator[ast.expr]:
    """The expressions below a node that may hold a rule: no docstring, no message, no type hint."""
    in_function = in_function or isinstance(node, ast.FunctionDef)
    for child in _children(node):
        if _is_docstring(child) or (in_function and _is_text(child)):
            continue
        if isinstance(child, ast.expr):
            yield child
        yield from _rules(child, in_function)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            yield from (c for c in (value if isinstance(value, list) else [value]) if _is_node(c))


def _is_node(value: object) -> TypeGuard[ast.AST]:
    return isinstance(value, ast.AST)


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _changes(node: ast.expr) -> list[Change]:
    match node:
        case ast.Constant(value=bool(value)):
            return [Change(node, "value", not value)]
        case ast.Constant(value=int(value)):
            return [Change(node, "value", value + 1), Change(node, "value", value - 1)]
        case ast.Constant(value=float(value)):
            return [Change(node, "value", value * 1.25 + 0.125)]
        case ast.Constant(value=str(value)):
            return [Change(node, "value", value[:-1] or "?")]
        case ast.Compare(ops=ops):
            swapped = [OPERATORS[type(op)]() for op in ops]
            return [
                Change(node, "ops", [*ops[:k], new, *ops[k + 1 :]]) for k, new in enumerate(swapped)
            ]
        case ast.BoolOp(op=op) | ast.BinOp(op=op) | ast.UnaryOp(op=op) if type(op) in OPERATORS:
            return [Change(node, "op", OPERATORS[type(op)]())]
        case ast.UnaryOp(op=ast.Not()):
            # "not not x" is x's truth: the change that keeps the tree's shape.
            return [Change(node, "operand", ast.UnaryOp(ast.Not(), node.operand))]
        case ast.Name(id=name) if name in FUNCTIONS:
            return [Change(node, "id", FUNCTIONS[name])]
        case ast.Attribute(attr=name) if name in FUNCTIONS:
            return [Change(node, "attr", FUNCTIONS[name])]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "files", nargs="*", type=Path, default=sorted((ROOT / "tracks").glob("*.py"))
    )
    files = [file.resolve() for file in parser.parse_args().files]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        _go_to(copy)
        if _fails(_tests("")):
            sys.exit("the tests fail without any change: nothing can be said of mutants")
        totals: Counter[str] = Counter()
        for file in files:
            totals += _try_all(copy / "tracks" / file.name)
    print(_summary("all", totals))
    return 1 if totals["survived"] else 0


def _try_all(file: Path) -> Counter[str]:
    begun, counts = time.monotonic(), Counter[str]()
    original, equivalent = file.read_text(), EQUIVALENT.read_text()
    for mutant in mutants(original, file.stem):
        file.write_text(mutant.text)
        if f"    {mutant.name}\n" in equivalent:
            counts["equivalent"] += 1
        elif _fails(_tests(file.stem)):
            counts["killed"] += 1
        else:
            counts["survived"] += 1
            print(f"  survived, line {mutant.line}: {mutant.name}", flush=True)
    file.write_text(original)
    print(_summary(file.name, counts), f"({time.monotonic() - begun:.0f} s)", flush=True)
    return counts


def _summary(name: str, counts: Counter[str]) -> str:
    return (
        f"{name}: {counts.total()} mutants, {counts['killed']} killed, "
        f"{counts['equivalent']} known to change nothing, {counts['survived']} survived"
    )


def _go_to(copy: Path) -> None:
    """Work in the copy, with all that tests need but the rulebook itself already imported."""
    import gzip  # noqa: F401
    import json  # noqa: F401

    import hypothesis  # noqa: F401
    import msgspec  # noqa: F401
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import rich.table  # noqa: F401

    os.chdir(copy)
    sys.path[:] = [str(copy), str(copy / "tests"), *(p for p in sys.path if Path(p) != ROOT)]
    sys.dont_write_bytecode = True


def _tests(stem: str) -> list[list[str]]:
    """The nearest first, the slowest last."""
    folder = Path("tests/tracks")
    near = [folder / f"test_{name}.py" for name in NEAR.get(stem, stem).split()]
    slow = [folder / f"test_{name}.py" for name in SLOW]
    others = [test for test in sorted(folder.glob("test_*.py")) if test not in (*near, *slow)]
    stages = (near, others, [test for test in slow if test not in near])
    return [[str(test) for test in stage if test.exists()] for stage in stages]


def _fails(stages: list[list[str]]) -> bool:
    """Whether one of the tests fails, in a process of its own; one that never ends fails too."""
    child = os.fork()
    if not child:
        signal.alarm(TIMEOUT_S)
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
        os.dup2(sys.stdout.fileno(), 1)
        os.dup2(sys.stdout.fileno(), 2)
        import pytest

        os._exit(any(pytest.main([*OPTIONS, *tests]) != 0 for tests in stages if tests))
    return os.waitpid(child, 0)[1] != 0


if __name__ == "__main__":
    sys.exit(main())
