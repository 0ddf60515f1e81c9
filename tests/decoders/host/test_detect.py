"""What a submission was written to is found out without running any of it."""

import py_compile
from pathlib import Path

import pytest

from decoders.host.detect import detect
from decoders.host.limits import PackageError
from decoders.host.requested import requested_environment
from tests.decoders.host.conftest import Write

BASE = "from Algorithm.Interface.AlgorithmInterface import AlgorithmInterface\n"
EXPLODES = "raise RuntimeError('detection ran it')\n"


def algorithm(name: str, body: str, head: str = BASE) -> str:
    run = f"    def run(self):\n        {body}\n"
    return f"{head}class {name}(AlgorithmInterface):\n{run}{EXPLODES}"


G4_HEAD = "from Algorithm.method.interface.AlgorithmInterface import AlgorithmInterface\n"
YML = "method:\n  method_class_file: Algorithm/method/impl/Mine.py\n  method_class_name: Mine\n"
CASES = {
    "g1": {"Algorithm/Ours.py": algorithm("Ours", "self._problemInterface.getData()")},
    "g2": {"Algorithm/AlgorithmImplementMI.py": algorithm("AlgorithmImplementMI", "self.task")},
    "g2-online": {"AlgorithmImplement/S.py": algorithm("S", "self.algo_sys_mng.get_data()")},
    "g3": {"Algorithm/impl/AlgorithmImplement.py": algorithm("A", "self.comm_proxy.get_data()")},
    "g4": {"Algorithm/method/impl/Mine.py": algorithm("Mine", "pass", G4_HEAD)},
    "my_algorithm": {"Algorithm/MyAlgorithm.py": f"class MyAlgorithm: pass\n{EXPLODES}"},
    "ecog": {"Algorithm/EcogAlgorithm.py": f"class EcogAlgorithm: pass\n{EXPLODES}"},
}
TRACK = {"my_algorithm": "emotion", "ecog": "ecog"}


@pytest.mark.parametrize("interface", CASES)
def test_each_generation_is_reported_by_its_names(interface: str, write: Write) -> None:
    entry = detect(write(CASES[interface]), TRACK.get(interface, "mi"))
    assert entry.interface == interface
    assert [entry.file] == list(CASES[interface])


@pytest.mark.parametrize("interface", CASES)
def test_compiled_files_tell_it_too(interface: str, write: Write) -> None:
    root = write(CASES[interface])
    for source in list(root.rglob("*.py")):
        py_compile.compile(str(source), str(source.with_suffix(".pyc")), doraise=True)
        source.unlink()
    assert detect(root, TRACK.get(interface, "mi")).interface == interface


def test_the_g4_configuration_names_the_class_and_its_folder_goes_on_the_path(write: Write) -> None:
    entry = detect(write(CASES["g4"] | {"Algorithm/config/AlgorithmConfig.yml": YML}), "mi")
    assert (entry.module, entry.class_name) == ("Mine", "Mine")
    assert entry.folders == ("Algorithm/method/impl",)


@pytest.mark.parametrize(
    ("yml", "observed"),
    [
        (YML.replace("Mine.py", "Yours.py"), "Yours.py', which the submission does not hold"),
        ("method: 3", "has no `method:`"),
        ("a: b: c", "is no YAML"),
    ],
)
def test_a_wrong_g4_configuration_is_reported(yml: str, observed: str, write: Write) -> None:
    with pytest.raises(PackageError, match=observed):
        detect(write(CASES["g4"] | {"Algorithm/config/AlgorithmConfig.yml": yml}), "mi")


def test_a_base_class_of_their_own_between_is_seen_through(write: Write) -> None:
    files = {
        "Algorithm/Base.py": algorithm("Base", "self.comm_proxy.get_data()"),
        "Algorithm/AlgorithmImplement.py": "from Algorithm.Base import Base\nclass A(Base): pass",
    }
    entry = detect(write(files), "mi")
    assert (entry.interface, entry.file) == ("g3", "Algorithm/AlgorithmImplement.py")


def test_a_copy_of_the_framework_in_it_misleads_nobody(write: Write) -> None:
    copy = "class AlgorithmInterface:\n    algo_sys_mng = _proxy = 1\n"
    names = ("Algorithm/Interface/AlgorithmInterface.py", "Algorithm/AlgorithmInterface.py")
    copies = dict.fromkeys((*names, "Algorithm/method/interface/AlgorithmInterface.py"), copy)
    assert detect(write(CASES["g2"] | copies), "mi").interface == "g2"


def test_of_several_algorithms_the_one_named_after_the_track_is_taken(write: Write) -> None:
    other = {
        "Algorithm/AlgorithmImplementSSVEP.py": algorithm("AlgorithmImplementSSVEP", "self.task")
    }
    root = write(CASES["g2"] | other)
    assert detect(root, "mi").file == "Algorithm/AlgorithmImplementMI.py"
    with pytest.raises(PackageError, match=r"several algorithms.*--interface"):
        detect(root, "turing")
    forced = detect(root, "turing", "g2:Algorithm/AlgorithmImplementSSVEP.py")
    assert forced.class_name == "AlgorithmImplementSSVEP"


def test_exact_names_win_over_lookalikes(write: Write) -> None:
    names = ("MI_MI_EA", "_MI_EA", "MI_old", "_backup")
    others = {
        f"Algorithm/AlgorithmImplement{name}.py": algorithm(
            f"AlgorithmImplement{name}", "self.comm_proxy"
        )
        for name in names
    }
    entry = detect(write(CASES["g2"] | others), "mi")
    assert (entry.file, entry.interface) == ("Algorithm/AlgorithmImplementMI.py", "g2")


def test_the_class_with_the_file_s_name_wins_over_another_on_the_base_class(write: Write) -> None:
    code = algorithm("Helper", "self.comm_proxy").replace(
        EXPLODES, "class AlgorithmImplement(Helper): pass\n"
    )
    entry = detect(write({"Algorithm/impl/AlgorithmImplement.py": code}), "mi")
    assert entry.class_name == "AlgorithmImplement"


def test_a_copy_of_an_older_algorithm_beside_the_exact_name_is_passed_over(write: Write) -> None:
    others = {"Algorithm/impl/Old.py": algorithm("Old", "self._proxy.get_source()", G4_HEAD)}
    assert detect(write(CASES["g3"] | others), "mi").interface == "g3"


def test_advice_names_the_interface_that_was_found(write: Write) -> None:
    files = {f"Algorithm/impl/{name}.py": algorithm(name, "self.comm_proxy") for name in ("A", "B")}
    with pytest.raises(PackageError, match=r"--interface g3:Algorithm/impl/A\.py"):
        detect(write(files), "mi")


def test_cache_files_are_no_algorithms(write: Write) -> None:
    root = write(CASES["g2"])
    cache = root / "Algorithm/__pycache__"
    cache.mkdir()
    for name in ("AlgorithmImplementMI", "AlgorithmImplementERP"):
        (cache / f"{name}.cpython-38.pyc").write_bytes(b"\x12AlgorithmInterface\x0acomm_proxy")
    assert detect(root, "mi").file == "Algorithm/AlgorithmImplementMI.py"


def test_the_interface_can_be_forced(write: Write) -> None:
    assert detect(write(CASES["g2"]), "mi", "g3").interface == "g3"
    with pytest.raises(PackageError, match="unknown interface; the interfaces are g5, g4, g3"):
        detect(write(CASES["g2"]), "mi", "g9")
    with pytest.raises(PackageError, match="has no such file"):
        detect(write(CASES["g2"]), "mi", "g2:Algorithm/Nothing.py")


def test_what_was_looked_for_is_listed_when_nothing_is_found(write: Write) -> None:
    root = write({"Algorithm/notes.py": "x = 1"})
    with pytest.raises(PackageError) as error:
        detect(root, "mi")
    for part in (
        "AlgorithmConfig.yml",
        "AlgorithmImplement*.py",
        "comm_proxy",
        "Algorithm/notes.py",
    ):
        assert part in str(error.value)


def test_a_submission_for_another_track_is_refused(write: Write) -> None:
    with pytest.raises(PackageError, match=r"for emotion .*not for mi"):
        detect(write(CASES["my_algorithm"]), "mi")


def test_another_pythons_syntax_is_no_obstacle(write: Write) -> None:
    files = {"Algorithm/AlgorithmImplement.py": "print 'two'\nself.comm_proxy.get_data()\n"}
    assert detect(write(files), "mi").interface == "g3"


def test_an_empty_root_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="no Python file"):
        detect(tmp_path, "mi")


@pytest.mark.parametrize(
    "source", ['"-" * 200_000 + "1"', '"a" + ".b" * 200_000', '"(" * 500', "'x = \"\\\\d\"'"]
)
def test_sources_that_are_made_to_break_a_parser_break_nothing_here(
    source: str, write: Write
) -> None:
    root = write({**CASES["g2"], "Algorithm/Other.py": ""})
    (root / "Algorithm/Other.py").write_text(eval(source))
    assert detect(root, "mi").file == "Algorithm/AlgorithmImplementMI.py"


@pytest.mark.parametrize("name", ["config.toml", "config.json", "requirements.txt"])
def test_settings_that_are_made_to_break_a_parser_are_shown_as_theirs(
    name: str, write: Write
) -> None:
    root = write({**CASES["g2"]})
    (root / name).write_text(("unitImage = " if name == "config.toml" else "") + "[" * 100_000)
    with pytest.raises(PackageError):
        requested_environment(root)
    (root / name).write_text("#" * (2 << 20))
    with pytest.raises(PackageError, match=f"{name} has 2097152 bytes"):
        requested_environment(root)


def test_a_config_that_nests_too_deep_is_reported_as_theirs(write: Write) -> None:
    root = write({**CASES["g2"]})
    config = root / "Algorithm/config/AlgorithmConfig.yml"
    config.parent.mkdir()
    config.write_text("[" * 2000)
    with pytest.raises(PackageError, match="is no YAML"):
        detect(root, "mi")
