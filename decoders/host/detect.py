"""Detects the interface of a submission, and the class to run."""

import ast
import re
import warnings
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from decoders.host.limits import PackageError
from decoders.host.package import FRAMEWORK_FOLDERS, read_small
from tracks.registry import TRACKS, available_tracks


@dataclass(frozen=True, slots=True)
class Interface:
    """How a generation is recognised, and how its packets differ.

    marks: names that only this generation's submissions use.
    imports: prefixes of framework modules that only this generation has.
    positions: whether start positions count per `block` or `continuous` by default.
    extra_finish: the finish flag comes on an extra empty packet, not on the last one.
    """

    title: str
    marks: frozenset[str]
    imports: tuple[str, ...] = ()
    positions: str = "block"
    extra_finish: bool = False


INTERFACES = {
    "g5": Interface(
        "G5 (2026): AlgorithmInterface with calibrate(), run() -> bool and predict()",
        frozenset(
            {
                "calibrate",
                "get_calibration",
                "get_required_channel_labels",
                "AlgorithmCalibrationObject",
                "CalibrationStageResultObject",
            }
        ),
        positions="continuous",
        extra_finish=True,
    ),
    "g4": Interface(
        "G4 async (2024): AlgorithmInterface with self._proxy and async run()",
        frozenset({"_proxy", "set_proxy", "get_source", "AlgorithmResultObject"}),
        ("Algorithm.method.interface", "Algorithm.method.model"),
        positions="continuous",
        extra_finish=True,
    ),
    "g3": Interface(
        "G3 (2023): AlgorithmInterface with self.comm_proxy",
        frozenset({"comm_proxy"}),
        ("Algorithm.AlgorithmInterface",),
    ),
    "g2-online": Interface(
        "G2 online (2022): AlgorithmInterface with self.algo_sys_mng",
        frozenset({"algo_sys_mng", "set_algorithm_system_manager"}),
        ("AlgorithmSystem.AlgorithmImplement.Interface",),
    ),
    "g1": Interface(
        "G1 camelCase (2019-21): AlgorithmInterface with self._problemInterface",
        frozenset({"_problemInterface", "setProblemInterface"}),
    ),
    "g2": Interface(
        "G2 snake_case (2022): AlgorithmInterface with self.task",
        frozenset({"PARADIGMNAME", "set_task", "task"}),
        ("Algorithm.Interface",),
    ),
    "my_algorithm": Interface(
        "emotion: class MyAlgorithm with get_data(packet) and algorithm()",
        frozenset({"MyAlgorithm"}),
    ),
    "ecog": Interface(
        "ecog: class EcogAlgorithm with choose_channels, get_data(packet) and algorithm()",
        frozenset({"EcogAlgorithm"}),
    ),
}
"""In the order of detection: from the most to the least specific names."""


BASE = "AlgorithmInterface"
"""The base class of the algorithms of G1 to G5."""

MOST_CODE_BYTES = 1 << 20
"""Larger files are not parsed: a syntax tree takes up to 600 times the memory of its source."""

_FRAMEWORK_FILES = re.compile(
    r"(^|/)(Interface/(\w+Interface|Model/\w+)|method/(interface|model)/\w+|AlgorithmInterface)\.pyc?$"
)
_NAME_IN_SOURCE = re.compile(rb"[A-Za-z_][A-Za-z0-9_.]{2,}")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """path: from the submission's root; names: used in it; classes: with their bases.

    too_large: above MOST_CODE_BYTES, so that nothing of it is known.
    """

    path: PurePosixPath
    names: frozenset[str]
    classes: dict[str, frozenset[str]] = field(default_factory=dict)
    too_large: bool = False

    @property
    def builds_on_interface(self) -> bool:
        if self.path.suffix == ".pyc":
            return BASE in self.names
        return any(BASE in bases for bases in self.classes.values())

    def uses(self, interface: str) -> bool:
        """Whether it uses names that only submissions of this generation use."""
        facts = INTERFACES[interface]
        by_import = (
            name for name in self.names if facts.imports and name.startswith(facts.imports)
        )
        return bool(facts.marks & self.names) or any(by_import)


def read_source_files(root: Path) -> list[SourceFile]:
    """The submission's files, a source in preference to the compiled file of its name.

    Copies of framework modules are left out: they do not show which one is used.
    """
    files: dict[PurePosixPath, SourceFile] = {}
    for path in [*sorted(root.rglob("*.py")), *sorted(root.rglob("*.pyc"))]:
        relative = PurePosixPath(path.relative_to(root).as_posix())
        if "__pycache__" in relative.parts:
            continue
        if not _FRAMEWORK_FILES.search(str(relative)) and relative.stem != "__init__":
            files.setdefault(relative.with_suffix(""), _read_code(path, relative))
    return list(files.values())


def _read_code(path: Path, relative: PurePosixPath) -> SourceFile:
    if path.stat().st_size > MOST_CODE_BYTES:
        return SourceFile(relative, frozenset(), too_large=True)
    text = path.read_bytes()
    if path.suffix == ".pyc":
        return SourceFile(relative, _names_in_compiled(text))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escape sequences in their source
            return _parsed(ast.parse(text), relative)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # MemoryError: nested too deep
        # The syntax of another Python: names can still be found.
        return SourceFile(relative, _names_in_source(text))


def _parsed(tree: ast.Module, relative: PurePosixPath) -> SourceFile:
    names: set[str] = set()
    classes: dict[str, frozenset[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ClassDef):
            bases = (ast.unparse(base).rpartition(".")[2] for base in node.bases)
            classes[node.name] = frozenset(bases)
    return SourceFile(relative, frozenset(names), classes)


def _names_in_source(text: bytes) -> frozenset[str]:
    found = {name.decode() for name in _NAME_IN_SOURCE.findall(text)}
    return frozenset(found | {part for name in found for part in name.split(".")})


def _names_in_compiled(text: bytes) -> frozenset[str]:
    """The marks and imports of INTERFACES; a .pyc file stores each name after its length."""
    marks = {BASE, *(mark for each in INTERFACES.values() for mark in each.marks)}
    imports = {begin for each in INTERFACES.values() for begin in each.imports}
    return frozenset(
        {mark for mark in marks if bytes([len(mark)]) + mark.encode() in text}
        | {begin for begin in imports if begin.encode() in text}
    )


_CONFIG = PurePosixPath("Algorithm/config/AlgorithmConfig.yml")
_ENTRY_STEM = "AlgorithmImplement"
_WHOLE_CLASS = {"my_algorithm": "MyAlgorithm", "ecog": "EcogAlgorithm"}


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """The class to run, and why it was chosen.

    module: to import; folders: added to sys.path, relative to the root.
    """

    interface: str
    file: str
    module: str
    class_name: str | None
    folders: tuple[str, ...]
    why: str


def detect(root: Path, track: str, forced: str | None = None) -> EntryPoint:
    """Find the entry point of the submission under `root`. Raises PackageError.

    forced: an interface (`g2`), or an interface and a file of it (`g2:Algorithm/Mine.py`).
    """
    name, _, file = (forced or "").partition(":")
    if name and name not in INTERFACES:
        raise PackageError(f"--interface {name}: unknown interface; {_known()}")
    files = read_source_files(root)
    entry = (
        _named_file(files, name, file)
        if file
        else _by_config(root, files, name) or _by_code(files, track, name)
    )
    if entry is None:
        raise PackageError(_nothing_found(files, name))
    if entry.interface not in TRACKS[track].interfaces:
        allowed = [each.name for each in available_tracks() if entry.interface in each.interfaces]
        raise PackageError(
            f"{entry.file} is a submission for {' or '.join(allowed)} ({entry.why}), not for "
            f"{track}; {_known()}"
        )
    return entry


# --- the ways to find it ---------------------------------------------------------------------


def _named_file(files: list[SourceFile], interface: str, file: str) -> EntryPoint:
    for source in files:
        if str(source.path) == file:
            return _entry(interface, source, "of --interface")
    raise PackageError(
        f"--interface {interface}:{file}: the submission has no such file; it has {_listed(files)}"
    )


def _by_config(root: Path, files: list[SourceFile], forced: str) -> EntryPoint | None:
    """G4 and 2026 name their class in AlgorithmConfig.yml."""
    if forced not in ("", "g4", "g5") or not (root / _CONFIG).is_file():
        return None
    method = _method_of(root / _CONFIG)
    file = PurePosixPath(_text_of(method, "method_class_file").replace("\\", "/"))
    for source in files:
        if source.path.with_suffix("") == file.with_suffix(""):
            name = _text_of(method, "method_class_name") or source.path.stem
            newer = any(source.uses("g5") for source in files)
            return EntryPoint(
                forced or ("g5" if newer else "g4"),
                str(source.path),
                file.stem,
                name,
                (str(file.parent),),
                f"{_CONFIG} names it",
            )
    raise PackageError(
        f"{_CONFIG}: method.method_class_file is {str(file)!r}, which the submission does not "
        f"hold; it has {_listed(files)}"
    )


def _method_of(config: Path) -> dict[str, object]:
    import yaml  # type: ignore[import-untyped, unused-ignore]

    try:
        content = yaml.safe_load(read_small(config))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PackageError(f"{_CONFIG} is no YAML: {error}") from error
    method = content.get("method") if isinstance(content, dict) else None
    if not isinstance(method, dict):
        raise PackageError(
            f"{_CONFIG} has no `method:` with method_class_file and method_class_name below it"
        )
    return method


def _text_of(method: dict[str, object], key: str) -> str:
    """A text of the configuration; "" where it is absent. No other value is turned into text:
    that of a few nested aliases would fill the memory."""
    value = method.get(key)
    if value is None or isinstance(value, str):
        return value or ""
    raise PackageError(f"{_CONFIG}: method.{key} is a {type(value).__name__}; it must be a text")


def _by_code(files: list[SourceFile], track: str, forced: str) -> EntryPoint | None:
    candidates = [
        (interface, source)
        for interface in ([forced] if forced else INTERFACES)
        for source in files
        if _is_entry(interface, source, files, bool(forced))
    ]
    if not candidates:
        return None
    exact = [each for each in candidates if _has_exact_name(each[1], track)]
    candidates = exact or candidates
    interface = candidates[0][0]
    best = _best([source for found, source in candidates if found == interface], track, interface)
    seen = sorted(INTERFACES[interface].marks & best.names)
    why = f"it uses {', '.join(seen)}" if seen else "of its name and its imports"
    return _entry(interface, best, why)


def _has_exact_name(source: SourceFile, track: str) -> bool:
    """AlgorithmImplement or AlgorithmImplementMI, not AlgorithmImplement_old or ..._MI_EA."""
    return source.path.stem.startswith(_ENTRY_STEM) and _own_name(source) in ("", track)


def _is_entry(interface: str, source: SourceFile, files: list[SourceFile], forced: bool) -> bool:
    """Whether the file has the class that the framework of that generation would run."""
    whole = _WHOLE_CLASS.get(interface)
    if whole is not None:
        return whole in source.classes or source.path.stem == whole
    holds_algorithm = source.path.stem.startswith(_ENTRY_STEM) or source.builds_on_interface
    return holds_algorithm and (
        forced or source.uses(interface) or _uses_indirectly(interface, source, files)
    )


def _uses_indirectly(interface: str, entry: SourceFile, files: list[SourceFile]) -> bool:
    """The entry uses no generation's names itself, but a file that it builds on does."""
    neutral = not any(entry.uses(other) for other in INTERFACES)
    return neutral and any(source.uses(interface) for source in files)


def _best(files: list[SourceFile], track: str, interface: str) -> SourceFile:
    """Among several algorithms of one submission: the one with the track as its name, or in it."""
    for fits in (
        lambda source: _own_name(source) == track,
        lambda source: _own_name(source) == "" and source.path.stem in source.classes,
        lambda source: _own_name(source) == "",
        lambda source: track in _own_name(source),
        lambda source: source.path.stem.startswith(_ENTRY_STEM),
    ):
        fitting = [source for source in files if fits(source)]
        if fitting:
            break
    fitting = fitting or files
    if len(fitting) == 1:
        return fitting[0]
    raise PackageError(
        f"the submission has several algorithms of {INTERFACES[interface].title}: "
        f"{_listed(fitting)}; choose the one for {track} with --interface NAME:FILE, for instance "
        f"--interface {interface}:{fitting[0].path}"
    )


def _own_name(source: SourceFile) -> str:
    return source.path.stem.removeprefix(_ENTRY_STEM).lower()


def _entry(interface: str, source: SourceFile, why: str) -> EntryPoint:
    folder = source.path.parent
    dotted = source.path.with_suffix("")
    by_base_name = interface in ("g4", "g5") or not all(
        part.isidentifier() for part in dotted.parts
    )
    module = dotted.name if by_base_name else ".".join(dotted.parts)
    class_name = _WHOLE_CLASS.get(interface) or _class_of(source)
    return EntryPoint(interface, str(source.path), module, class_name, (str(folder),), why)


def _class_of(source: SourceFile) -> str:
    """The class with the file's own name, else the only one on the framework's base class."""
    on_interface = [name for name, bases in source.classes.items() if BASE in bases]
    if source.path.stem in source.classes or len(on_interface) != 1:
        return source.path.stem
    return on_interface[0]


# --- messages --------------------------------------------------------------------------------


def _nothing_found(files: list[SourceFile], forced: str) -> str:
    looked = (
        INTERFACES[forced].title
        if forced
        else "; ".join(each.title for each in INTERFACES.values())
    )
    folders = ", ".join(f"{name}/" for name in FRAMEWORK_FOLDERS)
    return (
        f"no algorithm was found in the submission. Looked in {folders} for {_CONFIG}, for files "
        f"named {_ENTRY_STEM}*.py or .pyc, and for classes of: {looked}. It holds "
        f"{_listed(files)}. {_passed_over(files)}"
        "docs/submissions.md shows each interface; --interface says which one it is"
    )


def _passed_over(files: list[SourceFile]) -> str:
    large = [source for source in files if source.too_large]
    limit = f"larger than {MOST_CODE_BYTES >> 10} KiB"
    return f"Not read, because they are {limit}: {_listed(large)}. " if large else ""


def _known() -> str:
    return "the interfaces are " + ", ".join(INTERFACES)


def _listed(files: list[SourceFile], most: int = 8) -> str:
    shown = [str(source.path) for source in files[:most]]
    more = [f"and {len(files) - most} more"] if len(files) > most else []
    return ", ".join(shown + more) or "no Python file"
