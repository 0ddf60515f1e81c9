"""Tries packages as contestants ship them, and prints the table of docs/submissions.md.

    python scripts/try_submissions.py [--only NAME ...]

The packages are written here, after what real ones of 2019 to 2026 look like: one for each interface, and
one for each trouble that was met. Each is dry-run as by `bci-decode check`; those with pins need a package
registry. The same imagery algorithm is in all mi packages: it reports 2, 3 and 4 s after the trigger.
"""

import argparse
import logging
import re
import sys
import tarfile
import tempfile
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bci_stream.errors import BciError
from decoders.host.check import check_submission, dry_run_calibration
from decoders.host.detect import detect
from decoders.host.package import lay_out
from decoders.host.submission import open_submission

MOMENTS = "(50, 75, 99)"
"""Packets after the trigger's: the last ones before 2, 3 and 4 s."""

PULLS = """
    IMPORTS
    class CLASS(AlgorithmInterface):
        def run(self):
            finish, seen = False, -(10**6)
            while not finish:
                model = self.PROXY.GET()
                seen = 0 if 200 in list(model.data[-1]) else seen + 1
                if seen in MOMENTS:
                    REPORT
                finish = model.FINISH
"""
OLD = "from ROOT.Interface.AlgorithmInterface import AlgorithmInterface"
REPORT_MODEL = "from ROOT.Interface.Model.ReportModel import ReportModel"
G3_BASE = "from Algorithm.AlgorithmInterface import AlgorithmInterface"


def pulls(
    imports: str, proxy: str, report: str, *, name: str = "AlgorithmImplement",
    root: str = "Algorithm", get: str = "get_data", finish: str = "finish_flag",
) -> str:  # fmt: skip
    """An algorithm of G1 to G3."""
    parts = {
        "IMPORTS": imports.replace("ROOT", root), "CLASS": name, "PROXY": proxy, "GET": get,
        "MOMENTS": MOMENTS, "REPORT": report, "FINISH": finish,
    }  # fmt: skip
    text = PULLS
    for word, value in parts.items():
        text = text.replace(word, value)
    return text


def g3(head: str = "", result: str = "1", name: str = "AlgorithmImplement") -> str:
    return head + textwrap.dedent(
        pulls(G3_BASE, "comm_proxy", f"self.comm_proxy.report({result})", name=name)
    )


OLD_REPORT = f"{OLD}; {REPORT_MODEL}"
G1 = pulls(
    OLD_REPORT, "_problemInterface",
    "self._problemInterface.report(ReportModel(resultType=1))", get="getData", finish="finishedFlag",
)  # fmt: skip
G2 = pulls(OLD_REPORT, "task", "self.task.report(ReportModel(1))", name="AlgorithmImplementMI")
G4 = f"""
    from Algorithm.method.interface.AlgorithmInterface import AlgorithmInterface
    from Algorithm.method.model.AlgorithmObject import DATA, AlgorithmResultObject

    class Mine(AlgorithmInterface):
        async def run(self):
            source, seen = self._proxy.get_source(LABEL), -(10**6)
            device = await source.get_device()
            while True:
                packet = await source.get_data()
                if packet.finish_flag:
                    return
                assert isinstance(packet, DATA) and len(packet.data) == device.channel_number + 1
                seen = 0 if 200 in list(packet.data[-1]) else seen + 1
                if seen in {MOMENTS}:
                    await self._proxy.report(AlgorithmResultObject(result="1"))
"""
G5 = f"""
    import json
    from Algorithm.method.interface.AlgorithmInterface import AlgorithmInterface
    from Algorithm.method.model.AlgorithmObject import (
        AlgorithmResultObject, CalibrationStageResultObject, StageContextObject,
    )
    from Algorithm.service.SourceReceiver.ContinuousDataSourceReceiver import (
        ContinuousDataSourceReceiver,
    )

    class Mine(AlgorithmInterface):
        def get_required_channel_labels(self):
            return {{"eeg_1": ["C3", "Cz", "C4"]}}

        async def calibrate(self):
            found = await self._proxy.get_source("eeg_1").get_calibration()
            self.labels = [label for part in found.session_data_dict.values() for label in part["label"]]
            stage = StageContextObject(subject_id=found.subject_id, session_id=found.session_id)
            return CalibrationStageResultObject(stage_context=stage, calibration_ready=True)

        async def run(self):
            source, seen = self._proxy.get_source("eeg_1"), -(10**6)
            while True:
                packet = await source.get_data()
                if packet.finish_flag:
                    return False
                if ContinuousDataSourceReceiver.is_return_to_calibration_marker(packet):
                    return True
                seen = 0 if 200 in list(packet.data[-1]) else seen + 1
                if seen in {MOMENTS}:
                    await self._proxy.report(AlgorithmResultObject(result=self.predict(packet)))

        def predict(self, trial):
            return json.dumps({{"predict_label": int(self.labels[0])}})
"""
YML = "method:\n  method_class_file: Algorithm/method/impl/Mine.py\n  method_class_name: Mine\n"
IMPL = "Algorithm/impl/AlgorithmImplement.py"


@dataclass(frozen=True)
class TriedPackage:
    """about: what is particular; packed: as a .tar.gz; rules: what the contest changes."""

    about: str
    files: dict[str, str]
    track: str = "mi"
    packed: bool = False
    options: dict[str, str] = field(default_factory=dict)
    rules: dict[str, object] = field(default_factory=dict)


POOL = """
import joblib, multiprocessing, subprocess, sys
def square(number):
    return number * number
"""
SPAWN = "[1 for pool in [multiprocessing.get_context('spawn').Pool(2)] if pool.map(square, [1])][0]"
CHILD = "import Algorithm.AlgorithmInterface as found; print(1 if found.AlgorithmInterface else 0)"
SUBPROCESS = f"int(subprocess.check_output([sys.executable, '-c', {CHILD!r}]))"
LOKY = "joblib.Parallel(2)(joblib.delayed(square)(number) for number in (1, 2))[0]"
PINS = "MarkupSafe==2.1.1\n"
RELICS = (
    "-f https://example.org/stable.html\n--extra-index-url https://example.org/simple\n"
    "MarkupSafe @ file:///croot/markupsafe_1654597864307/work\npkg-resources==0.0.0\npywin32==305\n"
)

PACKAGES: dict[str, TriedPackage] = {
    "g1": TriedPackage("G1, camelCase", {"Algorithm/AlgorithmImplement.py": G1}),
    "g1-document": TriedPackage(
        "G1 with the ERP document's `get_data`",
        {"Algorithm/AlgorithmImplement.py": G1.replace("getData", "get_data")},
    ),
    "g2": TriedPackage("G2, `PARADIGMNAME`", {"Algorithm/AlgorithmImplementMI.py": G2}),
    "g2-folder": TriedPackage(
        "G2 in `AlgorithmImplement/`, with config.toml",
        {
            "AlgorithmImplement/AlgorithmImplementMI.py": G2.replace(
                "from Algorithm.", "from AlgorithmImplement."
            ),
            "config.toml": 'unitImage = "registry/eeg:2"\ncommand = "python main.py"\n',
        },
    ),
    "g2-online": TriedPackage(
        "G2 online",
        {
            "AlgorithmSystem/AlgorithmImplement/MI/AlgorithmImplementMI.py": pulls(
                OLD,
                "algo_sys_mng",
                "self.algo_sys_mng.report(1)",
                name="AlgorithmImplementMI",
                root="AlgorithmSystem.AlgorithmImplement",
            )
        },
    ),
    "g3": TriedPackage(
        "G3 as .tar.gz with config.json and an empty requirements.txt",
        {
            IMPL: g3("import numpy, scipy, sklearn\n"),
            "config.json": '{"unitImage": "x", "command": "python main.py"}',
            "requirements.txt": "",
        },
        packed=True,
    ),
    "g4": TriedPackage(
        "G4 with AlgorithmConfig.yml",
        {
            "Algorithm/method/impl/Mine.py": G4.replace(
                "DATA", "AlgorithmContinuousDataObject"
            ).replace("LABEL", "'eeg_1'"),
            "Algorithm/config/AlgorithmConfig.yml": YML,
        },
    ),
    "g4-document": TriedPackage(
        "G4 with the document's names",
        {
            "Algorithm/method/impl/Mine.py": G4.replace("DATA", "AlgorithmDataObject").replace(
                "LABEL", ""
            ),
        },
    ),
    "my_algorithm": TriedPackage(
        "emotion document",
        {
            "Algorithm/MyAlgorithm.py": "class MyAlgorithm:\n    def get_data(self, packet): pass\n"
            "    def algorithm(self): return 1\n"
        },
        "emotion",
    ),
    "ecog": TriedPackage(
        "ecog (our interface)",
        {
            "Algorithm/EcogAlgorithm.py": "class EcogAlgorithm:\n"
            "    def choose_channels(self, subject, count): return list(range(1, count + 1))\n"
            "    def get_data(self, packet): pass\n"
            "    def algorithm(self): return [[0.0] * 8] * 8\n"
        },
        "ecog",
    ),
    "tag": TriedPackage(
        "pins, and a `__pycache__/*.cpython-38.pyc`",
        {
            IMPL: g3("import markupsafe\n"),
            "Algorithm/impl/__pycache__/AlgorithmImplement.cpython-38.pyc": "",
            "requirements.txt": PINS,
        },
    ),
    "pins": TriedPackage(
        "pins that only older Pythons have wheels for",
        {IMPL: g3("import markupsafe\n"), "requirements.txt": PINS},
    ),
    "freeze": TriedPackage(
        "`name @ file://`, `-f URL`, relics of `pip freeze`",
        {IMPL: g3("import markupsafe\n"), "requirements.txt": RELICS},
    ),
    "bad-pin": TriedPackage(
        "a pin that no registry has",
        {IMPL: g3(), "requirements.txt": "MarkupSafe==0.0.99\n"},
        options={"python": f"{sys.version_info.major}.{sys.version_info.minor}"},
    ),
    "old-tag": TriedPackage(
        "no pins, and a `__pycache__/*.cpython-36.pyc`",
        {
            IMPL: g3("import markupsafe\n"),
            "Algorithm/impl/__pycache__/AlgorithmImplement.cpython-36.pyc": "",
            "requirements.txt": "MarkupSafe\n",
        },
    ),
    "pkg_resources": TriedPackage(
        "imports `pkg_resources`",
        {IMPL: g3("import pkg_resources\n"), "requirements.txt": "MarkupSafe\n"},
    ),
    "lookalikes": TriedPackage(
        "`AlgorithmImplementMI.py` beside `..._MI_EA.py`",
        {
            "Algorithm/AlgorithmImplementMI.py": G2,
            "Algorithm/AlgorithmImplementMI_MI_EA.py": G2.replace("MI(", "MI_MI_EA("),
        },
    ),
    "inside": TriedPackage(
        "the inside of `Algorithm/impl`",
        {
            "AlgorithmImplement.py": g3("from Algorithm.impl.net import VALUE\n", "VALUE"),
            "net.py": "VALUE = 1\n",
        },
    ),
    "spawn": TriedPackage("multiprocessing spawn", {IMPL: g3(POOL, SPAWN)}),
    "forkserver": TriedPackage(
        "multiprocessing forkserver", {IMPL: g3(POOL, SPAWN.replace("spawn", "forkserver"))}
    ),
    "subprocess": TriedPackage(
        "a subprocess that imports the framework", {IMPL: g3(POOL, SUBPROCESS)}
    ),
    "loky": TriedPackage("joblib's loky", {IMPL: g3(POOL, LOKY)}),
    "codes-2022": TriedPackage(
        "mi of 2022, waits for code 249", {IMPL: g3().replace("200 in", "249 in")}
    ),
    "profile-2022": TriedPackage(
        'the same in a contest with `profile = "2022"`, results 201 to 203',
        {IMPL: g3(result="201").replace("200 in", "249 in")},
        rules={"profile": "2022"},
    ),
    "calibrate-2026": TriedPackage(
        "calibrate, run and predict of 2026, leads by name", {"Algorithm/method/impl/Mine.py": G5}
    ),
    "calibrate-copies": TriedPackage(
        "2026 with its own copy of `Algorithm/service`, and AlgorithmConfig.yml",
        {
            "Algorithm/method/impl/Mine.py": G5,
            "Algorithm/config/AlgorithmConfig.yml": YML,
            "Algorithm/service/SourceReceiver/__init__.py": "",
            "Algorithm/service/SourceReceiver/ContinuousDataSourceReceiver.py": """
                class ContinuousDataSourceReceiver:
                    @staticmethod
                    def is_return_to_calibration_marker(packet):
                        return False
            """,
        },
    ),
}


def write_package(package: TriedPackage, folder: Path) -> Path:
    root = folder / "team"
    for name, text in package.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    if not package.packed:
        return root
    archive = folder / "team.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(root, arcname=".")
    return archive


def interface_of(package: TriedPackage, written: Path, into: Path) -> str:
    """The interface that is detected; the same on every machine, as `package.about` is."""
    return detect(lay_out(written, into), package.track).interface


def outcome(package: TriedPackage) -> tuple[str, str, str]:
    """The interface, the Python and how the dry run ended, for one row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        written = write_package(package, Path(folder))
        interface = interface_of(package, written, Path(folder) / "laid-out")
        try:
            decoder = open_submission(
                written, package.track, log=Path(folder) / "log",
                calibration=dry_run_calibration(package.track),
                **package.options,  # type: ignore[arg-type]
            )  # fmt: skip
        except BciError as error:
            return interface, "-", f"refused: {str(error)[:160]} ..."
        python = decoder.prepared.environment.title.replace("the host's own ", "own ")
        report = check_submission(decoder, package.track, package.rules)
    counted = re.search(r"(\d+ of \d+ answers would count)", report.text)
    ended = re.search(r"it would end as (.{1,90})", report.text)
    shown = f"{ended[1]} ..." if ended else counted[1] if counted else "finished"
    return interface, python, shown if ended or report.ok else f"{shown}: nothing would count"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=PACKAGES, default=list(PACKAGES))
    logging.getLogger("decoders").setLevel(logging.ERROR)
    print("| package | interface | run by | outcome |\n|---|---|---|---|")
    for name in parser.parse_args().only:
        package = PACKAGES[name]
        row = (cell.replace("|", "/") for cell in outcome(package))
        print(f"| `{name}`: {package.about} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
