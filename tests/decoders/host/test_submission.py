"""Contestants' code runs unmodified, under every spelling of the interfaces it was written to."""

import py_compile
import re
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from bci_stream.packet import Packet
from decoders.host.environment import Environment, _prefix_of, find_interpreter
from decoders.host.limits import (
    EnvironmentFailed,
    EnvironmentUnavailable,
    PackageError,
    SubmissionCrashed,
    SubmissionRefused,
)
from tests.decoders.host.conftest import Open, Write, info, packets, run

pytestmark = pytest.mark.slow

G1 = """
    from Algorithm.Interface.AlgorithmInterface import AlgorithmInterface
    from Algorithm.Interface.Model.ReportModel import ReportModel

    class AlgorithmImplement(AlgorithmInterface):
        def run(self):
            finished = False
            while not finished:
                model = self._problemInterface.getData()
                report = ReportModel()
                report.resultType = [model.startPosition, model.personID, len(model.data[0])]
                self._problemInterface.report(report)
                finished = model.finishedFlag
"""
G1_DOCUMENT = G1.replace("getData", "get_data")
G2 = """
    from Algorithm.Interface.AlgorithmInterface import AlgorithmInterface
    from Algorithm.Interface.Model.ReportModel import ReportModel

    class AlgorithmImplementMI(AlgorithmInterface):
        PARADIGMNAME = "MI"

        def __init__(self):
            super().__init__()
            assert self.task is None

        def run(self):
            end_flag = False
            while not end_flag:
                model = self.task.get_data()
                report_model = ReportModel()
                report_model.result = [model.start_pos, model.subject_id, len(model.data[0])]
                self.task.report(report_model)
                end_flag = model.finish_flag
"""
G2_ONLINE = """
    from AlgorithmSystem.AlgorithmImplement.Interface.AlgorithmInterface import AlgorithmInterface
    from AlgorithmSystem.AlgorithmImplement.Interface.Model.DataModel import DataModel

    class AlgorithmImplementSSVEP(AlgorithmInterface):
        def run(self):
            finish = False
            while not finish:
                model = self.algo_sys_mng.get_data()
                if not isinstance(model, DataModel):
                    continue
                self.algo_sys_mng.report([model.start_pos, model.subject_id, len(model.data[0])])
                finish = model.finish_flag
"""
G3 = """
    from Algorithm.AlgorithmInterface import AlgorithmInterface
    from Algorithm.impl.Length import length

    class AlgorithmImplement(AlgorithmInterface):
        def run(self):
            finish = False
            while not finish:
                model = self.comm_proxy.get_data()
                if model is None:
                    continue
                model.data = list(model.data)
                self.comm_proxy.report([model.start_pos, model.subject_id, length(model.data)])
                finish = model.finish_flag
"""
CASES = {
    "G1": {"Algorithm/AlgorithmImplement.py": G1},
    "G1, document's get_data": {"Algorithm/AlgorithmImplement.py": G1_DOCUMENT},
    "G2": {"Algorithm/AlgorithmImplementMI.py": G2},
    "G2, AlgorithmImplement folder": {
        "AlgorithmImplement/AlgorithmImplementMI.py": G2.replace(
            "from Algorithm.", "from AlgorithmImplement."
        ),
        "config.toml": 'unitImage = "x"',
    },
    "G2 online": {"AlgorithmSystem/AlgorithmImplement/SSVEP/AlgorithmImplementSSVEP.py": G2_ONLINE},
    "G3": {
        "Algorithm/impl/AlgorithmImplement.py": G3,
        "Algorithm/impl/Length.py": "def length(data):\n    return len(data[0])\n",
    },
}


@pytest.mark.parametrize("name", CASES)
def test_every_generation_that_pulls_gets_the_packets_in_order_with_its_own_spelling(
    name: str, write: Write, submitted: Open
) -> None:
    reported = run(submitted(write(CASES[name])), packets(4, subject="S7"))
    assert reported == [[[start, 7, 10]] for start in (0, 10, 20, 30)]


G4 = """
    import asyncio
    from Algorithm.method.interface.AlgorithmInterface import AlgorithmInterface
    from Algorithm.method.interface.SourceReceiverReaderInterface import (
        SourceReceiverReaderInterface,
    )
    from Algorithm.method.model.AlgorithmObject import (
        AlgorithmContinuousDataObject, AlgorithmDataObject, AlgorithmDeviceObject,
        AlgorithmResultObject,
    )
    import sibling

    class Mine(AlgorithmInterface):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            assert self._proxy is None and self._end_flag is False

        async def run(self):
            assert self._proxy.get_challenge_config()["track"] == "mi"
            source = self._proxy.get_source('eeg_1')
            assert source.get_source_label() == "eeg_1"
            assert self._proxy.get_source().get_source_label() == "eeg_1"
            assert self._proxy.get_source(source_label="x").get_source_label() == "x"
            assert isinstance(source, SourceReceiverReaderInterface)
            device = await source.get_device()
            assert isinstance(device, AlgorithmDeviceObject)
            assert device.other_information == device.other_config_map == {}
            place = [device.data_type, device.channel_number, device.sample_rate]
            place.append(device.channel_label)
            await self._proxy.report(AlgorithmResultObject(result=place))
            while not self._end_flag:
                packet = await source.get_data()
                assert isinstance(packet, AlgorithmContinuousDataObject)
                assert isinstance(packet, AlgorithmDataObject)
                if packet.finish_flag:
                    assert packet.data is None and packet.start_position is None
                    break
                assert len(packet.data) == device.channel_number + 1
                asyncio.create_task(self.later(packet.start_position))
                self._proxy.report(AlgorithmResultObject(str(packet.subject_id)))
            sibling.done()

        async def later(self, position):
            await self._proxy.report(AlgorithmResultObject(position))
"""
G4_FILES = {
    "Algorithm/method/impl/Mine.py": G4,
    "Algorithm/method/impl/sibling.py": "def done():\n    print('the end was reached')\n",
    "Algorithm/config/AlgorithmConfig.yml": """
        method:
          method_class_file: Algorithm/method/impl/Mine.py
          method_class_name: Mine
    """,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("positions", "starts"), [(None, [0, 10, 20, 30]), ("block", [0, 10, 0, 10])]
)
def test_g4_runs_as_a_coroutine_and_ends_on_an_extra_empty_packet(
    positions: str | None, starts: list[int], write: Write, submitted: Open
) -> None:
    decoder = submitted(write(G4_FILES), positions=positions)
    reported = run(decoder, packets(4, blocks=2))
    device = ["EEG", 4, 250.0, ["E1", "E2", "E3", "E4"]]
    assert reported == [
        [device, "S1", starts[0]],
        *(["S1", start] for start in starts[1:]),
    ]
    decoder.close()
    assert "the end was reached" in decoder.log.read_text()


MY_ALGORITHM = """
    class MyAlgorithm:
        def __init__(self):
            self.seen = 0

        def get_data(self, packet):
            self.seen += 1

        def algorithm(self):
            return self.seen
"""


def test_my_algorithm_is_asked_after_each_five_packets_between_the_block_marks(
    write: Write, submitted: Open
) -> None:
    fed = packets(14)
    marks = {1: 242, 12: 243}
    fed = [
        Packet(p.samples, ((3, marks[k]),) if k in marks else (), p.start, 0, "S1", p.finish)
        for k, p in enumerate(fed)
    ]
    decoder = submitted(write({"Algorithm/MyAlgorithm.py": MY_ALGORITHM}), "emotion")
    assert run(decoder, fed) == [[7] if k == 6 else [12] if k == 11 else [] for k in range(14)]


def test_my_algorithm_is_not_asked_in_a_block_that_ended_with_its_subject(
    write: Write, submitted: Open
) -> None:
    decoder = submitted(write({"Algorithm/MyAlgorithm.py": MY_ALGORITHM}), "emotion")
    reported: list[object] = []
    for subject, triggers in (("S1", ((0, 242),)), ("S2", ())):
        decoder.start(info(subject, 4, "emotion"))
        for place, packet in enumerate(packets(8, subject=subject)):
            seen = triggers if place == 0 else ()
            given = Packet(packet.samples, seen, packet.start, 0, subject, finish=False)
            reported += decoder.step(given)
    assert reported == [6]


ECOG = """
    class EcogAlgorithm:
        def choose_channels(self, subject, count):
            return CHOSEN

        def get_data(self, packet):
            self.packet = packet

        def algorithm(self):
            return [[self.packet[0][-1]] * 8]
"""


def test_ecog_names_its_channels_first_and_reports_after_each_packet(
    write: Write, submitted: Open
) -> None:
    chosen = ECOG.replace("CHOSEN", "list(range(9, 33))")
    decoder = submitted(write({"Algorithm/EcogAlgorithm.py": chosen}), "ecog")
    assert decoder.choose(info("S2", 32, "ecog"), 24) == list(range(9, 33))
    assert run(decoder, packets(2, n=2, leads=24)) == [[[[25.0] * 8]], [[[1025.0] * 8]]]


@pytest.mark.parametrize(
    "named", ["list(range(1, 24))", "[1] * 24", "list(range(0, 24))", "'all'", "[True] * 24"]
)
def test_channels_that_break_the_rules_are_refused_before_any_data(
    named: str, write: Write, submitted: Open
) -> None:
    decoder = submitted(
        write({"Algorithm/EcogAlgorithm.py": ECOG.replace("CHOSEN", named)}), "ecog"
    )
    with pytest.raises(
        SubmissionRefused, match=r"exactly 24 distinct channels|whole numbers of 1-32"
    ):
        decoder.choose(info("S2", 32, "ecog"), 24)


RESULTS = """
    import numpy as np
    from Algorithm.AlgorithmInterface import AlgorithmInterface

    class Odd:
        def __repr__(self):
            return "3"

    class AlgorithmImplement(AlgorithmInterface):
        def run(self):
            data = self.comm_proxy.get_data().data
            assert data.dtype == np.float64 and data.flags["C_CONTIGUOUS"] and data.flags.writeable
            for value in (2, "2", np.int64(2), np.float64(2), np.array([2]), np.array(2), (1, 2),
                          True, np.bool_(True), None, float("nan"), np.inf, Odd(), 10**30,
                          "x" * 10**6):
                self.comm_proxy.report(value)
"""


def test_results_cross_as_the_values_they_are_and_nothing_else_can_look_like_one(
    write: Write, submitted: Open
) -> None:
    pytest.importorskip("numpy")
    reported = run(submitted(write({"Algorithm/impl/AlgorithmImplement.py": RESULTS})), packets(1))[
        0
    ]
    assert reported[:12] == [2, "2", 2, 2.0, [2], 2, [1, 2], True, True, None, None, None]
    assert reported[12] == "<Odd: 3>"
    assert str(reported[13]).startswith("<int: 1000")
    assert reported[14] == "<report of 1000002 bytes>"
    assert [type(value) for value in reported[:4]] == [int, str, int, float]


LOCKSTEP = """
    from Algorithm.AlgorithmInterface import AlgorithmInterface

    class AlgorithmImplement(AlgorithmInterface):
        def run(self):
            self.comm_proxy.report("before")
            for turn in range(3):
                model = self.comm_proxy.get_data()
                for _ in range(turn):
                    self.comm_proxy.report(turn)
            self.comm_proxy.report("after")
            self.comm_proxy.get_data()
"""


def test_a_report_belongs_to_the_last_packet_given_before_it_and_reading_on_is_a_crash(
    write: Write, submitted: Open
) -> None:
    decoder = submitted(write({"Algorithm/impl/AlgorithmImplement.py": LOCKSTEP}))
    decoder.start(info())
    first, second, last = packets(3)
    assert decoder.step(first) == ["before"]
    assert decoder.step(second) == [1]
    with pytest.raises(SubmissionCrashed, match="finish flag") as crash:
        decoder.step(last)
    assert crash.value.results == [2, 2, "after"]
    assert crash.value.ending == "crashed"


def test_returning_before_the_finish_flag_is_a_crash_that_keeps_the_reports(
    write: Write, submitted: Open
) -> None:
    early = LOCKSTEP.replace("range(3)", "range(1)").replace(
        "            self.comm_proxy.get_data()\n", ""
    )
    decoder = submitted(write({"Algorithm/impl/AlgorithmImplement.py": early}))
    decoder.start(info())
    with pytest.raises(SubmissionCrashed, match="returned before the finish flag") as crash:
        decoder.step(packets(2)[0])
    assert crash.value.results == ["before", "after"]


FAILS = """
    from Algorithm.AlgorithmInterface import AlgorithmInterface

    class AlgorithmImplement(AlgorithmInterface):
        def run(self):
            self.comm_proxy.get_data()
            self.helper()

        def helper(self):
            raise KeyError("the model has no class 7")
"""


def test_the_log_shows_their_traceback_and_none_of_ours(write: Write, submitted: Open) -> None:
    decoder = submitted(write({"Algorithm/impl/AlgorithmImplement.py": FAILS}))
    with pytest.raises(SubmissionCrashed, match="KeyError: 'the model has no class 7'"):
        run(decoder, packets(2))
    decoder.close()
    log = decoder.log.read_text()
    assert "in helper" in log
    assert "/host/" not in log


FAILS_FAR = """
    import json

    try:
        json.loads("{")
    except ValueError as error:
        raise RuntimeError("no model") from error
"""


def test_a_traceback_begins_at_their_first_line_even_where_an_import_failed(
    write: Write, submitted: Open
) -> None:
    helped = "from Algorithm.impl import helper\n" + textwrap.dedent(FAILS)
    files = {
        "Algorithm/impl/AlgorithmImplement.py": helped,
        "Algorithm/impl/helper.py": FAILS_FAR,
    }
    decoder = submitted(write(files))
    with pytest.raises(SubmissionCrashed, match="RuntimeError: no model"):
        run(decoder, packets(2))
    decoder.close()
    places = re.findall(r'File "(\S+)", line \d+, in (\S+)', decoder.log.read_text())
    names = [(Path(file).name, function) for file, function in places]
    assert names == [
        ("helper.py", "<module>"),
        ("__init__.py", "loads"),
        ("decoder.py", "decode"),
        ("decoder.py", "raw_decode"),
        ("AlgorithmImplement.py", "<module>"),
        ("helper.py", "<module>"),
    ]


FILES = """
    import os
    from Algorithm.AlgorithmInterface import AlgorithmInterface
    from Algorithm.AlgorithmInterface import AlgorithmInterface as Again

    class AlgorithmImplement(AlgorithmInterface):
        def run(self):
            with open("Algorithm/impl/model.txt") as model, open("cache.txt", "w") as cache:
                cache.write(model.read())
            here = open(os.path.join(os.path.dirname(__file__), "model.txt")).read()
            self.comm_proxy.get_data()
            self.comm_proxy.report([open("cache.txt").read(), here, AlgorithmInterface is Again])
"""


def test_it_stands_in_the_framework_root_and_may_write_there_but_its_package_stays_as_it_was(
    write: Write, submitted: Open
) -> None:
    root = write(
        {
            "Algorithm/impl/AlgorithmImplement.py": FILES,
            "Algorithm/impl/model.txt": "weights",
            "Algorithm/AlgorithmInterface.py": "raise RuntimeError('their copy of the framework')",
        }
    )
    assert run(submitted(root), packets(1)) == [[["weights", "weights", True]]]
    assert not (root / "cache.txt").exists()


def test_compiled_files_run_without_their_sources(write: Write, submitted: Open) -> None:
    root = write({"Algorithm/AlgorithmImplementMI.py": G2})
    source = root / "Algorithm/AlgorithmImplementMI.py"
    py_compile.compile(str(source), str(source.with_suffix(".pyc")), doraise=True)
    source.unlink()
    decoder = submitted(root)
    assert decoder.prepared.entry.interface == "g2"
    assert run(decoder, packets(2)) == [[[0, 1, 10]], [[10, 1, 10]]]


def test_a_second_subject_has_its_own_number_and_the_same_process_goes_on(
    write: Write, submitted: Open
) -> None:
    decoder = submitted(write({"Algorithm/AlgorithmImplementMI.py": G2}))
    first = packets(2, subject="anna")
    decoder.start(info("anna"))
    kept = Packet(first[1].samples, (), 10, 0, "anna", finish=False)
    reported = [*decoder.step(first[0]), *decoder.step(kept)]
    decoder.start(info("ben"))
    reported += decoder.step(packets(1, subject="ben")[0])
    assert reported == [[0, 1, 10], [10, 1, 10], [0, 2, 10]]


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13"])
def test_the_shim_runs_on_every_python_even_without_numpy(
    version: str, write: Write, submitted: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        interpreter = find_interpreter(version)
    except EnvironmentFailed as absent:
        pytest.skip(str(absent))
    bare = Environment(interpreter, interpreter, (_prefix_of(interpreter),), "bare")
    monkeypatch.setattr("decoders.host.prepare.environment_for", lambda *_: bare)
    assert run(submitted(write(CASES["G2"])), packets(2)) == [[[0, 1, 10]], [[10, 1, 10]]]
    assert run(submitted(write(G4_FILES), interface="g4"), packets(1))[0][1:] == ["S1", 0]


def test_start_positions_are_checked(write: Write) -> None:
    from decoders.host.submission import SubmissionDecoder

    with pytest.raises(PackageError, match="per block or continuous"):
        SubmissionDecoder(write(CASES["G2"]), "mi", positions="sideways")


def test_the_packet_is_not_changed_by_what_the_submission_does_to_its_copy(
    write: Write, submitted: Open
) -> None:
    spoils = G2.replace("report_model =", "model.data[0][0] = 99\n                report_model =")
    fed = packets(1)
    before = fed[0].samples.copy()
    run(submitted(write({"Algorithm/AlgorithmImplementMI.py": spoils})), fed)
    assert np.array_equal(fed[0].samples, before)


def test_the_host_names_what_it_runs_and_how_strongly_it_is_contained(
    write: Write, submitted: Open
) -> None:
    title = submitted(write(CASES["G3"])).title
    assert "G3 (2023)" in title
    assert "comm_proxy" in title
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in title
    assert "contained by" in title


def test_a_log_that_was_named_outlives_the_submission(
    tmp_path: Path, write: Write, submitted: Open
) -> None:
    talks = G2.replace("def run(self):", "def run(self):\n            print('hello')")
    decoder = submitted(
        write({"Algorithm/AlgorithmImplementMI.py": talks}), log=tmp_path / "team.log"
    )
    run(decoder, packets(1))
    decoder.close()
    assert (tmp_path / "team.log").read_text() == "hello\n"
    assert not decoder.prepared.folder.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full: this is not Linux")
def test_a_full_disk_under_its_log_costs_the_team_nothing(write: Write, submitted: Open) -> None:
    talks = G2.replace("model = self", "print('hello' * 9999, flush=True); model = self")
    decoder = submitted(write({"Algorithm/AlgorithmImplementMI.py": talks}), log=Path("/dev/full"))
    assert run(decoder, packets(3)) == [[[start, 1, 10]] for start in (0, 10, 20)]


def test_a_log_that_can_not_be_made_is_our_fault(
    tmp_path: Path, write: Write, submitted: Open
) -> None:
    log = tmp_path / "absent" / "team.log"
    decoder = submitted(write({"Algorithm/AlgorithmImplementMI.py": G2}), log=log)
    with pytest.raises(EnvironmentUnavailable, match="no fault of the team"):
        decoder.start(info())
