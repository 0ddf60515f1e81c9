"""Submissions of 2026: stages, leads by name, calibration sets, and what the host measures of them."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bci_stream.contest.contest import Contest
from bci_stream.errors import ContestError
from bci_stream.judge.contest_run import ContestEntry, Journal, Outcome
from bci_stream.judge.run_command import _measured_table, with_calibration
from decoders.decoder_options import played_persons
from decoders.host.calibration import MOST_A_CLASS, CalibrationSets, find_places
from decoders.host.detect import detect
from decoders.host.inside import stages
from decoders.host.limits import SubmissionCrashed, SubmissionDisqualified, SubmissionRefused
from decoders.host.submission import SubmissionDecoder
from decoders.offline import OfflineRun, run_offline
from replay.model.source import Session
from replay.service import secret_seed
from replay.synthetic.registry import open_synthetic
from tests.decoders.host import twins
from tests.decoders.host.conftest import Open, Write, info
from tests.decoders.host.test_endings import judged

pytestmark = pytest.mark.usefixtures("hostable")

SMALL_SET = "subjects=2&blocks=1&trials=3"
TRAINING = f"synthetic:mi?{SMALL_SET}&set=train"

CODE = """
    import json
    from Algorithm.method.interface.AlgorithmInterface import AlgorithmInterface
    from Algorithm.method.model.AlgorithmObject import (
        AlgorithmCalibrationProgressObject, AlgorithmResultObject, CalibrationStageResultObject,
        StageContextObject,
    )
    from Algorithm.service.SourceReceiver.ContinuousDataSourceReceiver import (
        ContinuousDataSourceReceiver,
    )

    class AlgorithmImplement(AlgorithmInterface):
        def get_required_channel_labels(self):
            return {"eeg_1": ["Cz", "c3"]}

        async def calibrate(self):
            source = self._proxy.get_source("eeg_1")
            device = await source.get_device()
            self.facts = [device.channel_number, device.channel_label]
            while True:
                found = await source.get_calibration()
                progress = AlgorithmCalibrationProgressObject(progress=0.5)
                await self._proxy.report_calibration_progress(progress)
                for session, part in found.session_data_dict.items():
                    self.facts += [session, part["data"].shape, part["label"], part["data"][0, :, 0]]
                if found.finish_flag:
                    break
            self.stage = StageContextObject(subject_id=found.subject_id, session_id=found.session_id)
            self.facts += [found.subject_id, found.exp_name, found.stage_seed]
            assert self._proxy.get_algorithm_config()["predict_timeout_seconds"] == 1.0
            return CalibrationStageResultObject(stage_context=self.stage, calibration_ready=True)

        async def run(self):
            source, reported = self._proxy.get_source("eeg_1"), False
            while True:
                packet = await source.get_data()
                if packet.finish_flag:
                    return False
                if ContinuousDataSourceReceiver.is_return_to_calibration_marker(packet):
                    assert packet.other_information["session_id"] != self.stage.session_id
                    return True
                if not reported:
                    reported = True
                    self.facts += [packet.data.shape, packet.other_information["session_id"]]
                    await self._proxy.report(AlgorithmResultObject(result=self.facts))
                    await self._proxy.report(AlgorithmResultObject(result=self.predict(packet)))

        def predict(self, trial):
            return json.dumps({"predict_label": 2})

        async def shutdown_runtime(self):
            print("shut down", flush=True)
"""
PLACE = "Algorithm/method/impl/AlgorithmImplement.py"


def sessions(chosen: str = SMALL_SET) -> list[Session]:
    return list(
        open_synthetic("mi", dict(part.split("=") for part in chosen.split("&"))).sessions()
    )


def reports(outcome: OfflineRun) -> list[object]:
    return [event["result"] for event in outcome.events if event["kind"] == "report"]


def played(decoder: SubmissionDecoder, shown: Sequence[Session]) -> list[object]:
    return reports(run_offline("mi", decoder, shown))


def test_each_subject_is_a_stage_that_is_calibrated_on_its_own_training_set(
    write: Write, submitted: Open
) -> None:
    decoder = submitted(write({PLACE: CODE}), calibration=[TRAINING])
    test, training = sessions(), sessions(f"{SMALL_SET}&set=train")
    first, label, second, other = played(decoder, test)
    assert (label, other) == (2, 2)
    for number, (facts, trained) in enumerate(zip((first, second), training, strict=True), 1):
        count, names, session, shape, labels, values, subject, track, seed, packet, stage = facts  # type: ignore[misc]
        assert (count, names) == (2, ["Cz", "c3"])
        assert (session, subject, track) == (f"S0{number}-1", f"S0{number}", "MI")
        assert (shape, packet) == ([3, 2, 4000], [3, 40])
        assert (seed, stage) == (number, number)
        assert sorted(labels) == [1, 2, 3]
        assert values == pytest.approx(imagery_start(trained))
    decoder.close()
    assert decoder.log.read_text() == "shut down\n"
    assert decoder.measured.leads == 2
    assert {subject: dict(c) for subject, c in decoder.measured.trials.items()} == {
        "S01": {1: 1, 2: 1, 3: 1},
        "S02": {1: 1, 2: 1, 3: 1},
    }
    figures = decoder.measured.figures()
    assert (figures["leads"], figures["calibration"]) == (2, 1)
    assert figures["size_mib"] == pytest.approx(len(CODE) / (1 << 20), abs=0.001)
    assert 0 < figures["reaction_ms"] < 60_000


def imagery_start(session: Session) -> list[float]:
    """Cz and C3 at the first imagery of a labelled session."""
    names = [lead.name for lead in session.leads]
    samples = np.concatenate([packet.samples for packet in session.packets(1000)])
    blocks = session.block_triggers()
    assert blocks is not None
    at = next(position for position, code in blocks[0][1] if code in (11, 21, 31))
    return [float(samples[at, names.index(name)]) for name in ("Cz", "C3")]


def test_without_a_training_set_there_is_nothing_to_calibrate_on(
    write: Write, submitted: Open
) -> None:
    decoder = submitted(write({PLACE: CODE}))
    (facts, _) = played(decoder, sessions("subjects=1&blocks=1&trials=3"))
    assert facts == [2, ["Cz", "c3"], "S01", "MI", 1, [3, 40], 1]
    assert decoder.measured.figures()["calibration"] == 0


def test_no_more_than_ten_trials_of_a_class_are_handed_over() -> None:
    sets = CalibrationSets("mi", ["synthetic:mi?subjects=1&blocks=2&trials=33&set=train"])
    names = [lead.name for lead in sessions()[0].leads]
    given: list[int] = []
    finish = False
    while not finish:
        body, labels = sets.next("S01", names, [0])
        facts, data = stages.read_set(body)
        finish = facts["finish"]
        given += labels
        assert all(len(part["label"]) == len(labels) for part in data.values())
    assert sorted(given) == sorted([1, 2, 3] * MOST_A_CLASS)
    assert stages.read_set(sets.next("S01", names, [0])[0]) == (
        {"session": "", "labels": [], "finish": True, "shape": [0]},
        {},
    )


def test_without_numpy_a_set_is_lists_of_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = CalibrationSets("mi", [TRAINING])
    body, _ = sets.next("S01", [lead.name for lead in sessions()[0].leads], [3, 1])
    _, arrays = stages.read_set(body)
    monkeypatch.setitem(stages.sys.modules, "numpy", None)
    _, lists = stages.read_set(body)
    assert lists["S01-1"]["data"] == arrays["S01-1"]["data"].tolist()
    assert lists["S01-1"]["label"] == arrays["S01-1"]["label"].tolist()


@pytest.mark.parametrize(
    ("required", "why"),
    [
        (["Cz", "XX9"], "a lead 'XX9', which this recording does not have; it has C3, Cz"),
        (["Cz", "Cz"], "1 to 8 different ones"),
        ([f"C{number}" for number in range(9)], "1 to 8 different ones"),
        ("Cz3", "a lead 'Cz3'"),
    ],
)
def test_leads_that_break_the_rules_are_refused(required: object, why: str) -> None:
    with pytest.raises(SubmissionRefused, match=why):
        find_places(required, ["C3", "Cz"])


def test_leads_are_refused_before_any_data(write: Write, submitted: Open) -> None:
    decoder = submitted(write({PLACE: CODE}), calibration=[TRAINING])
    with pytest.raises(SubmissionRefused, match="a lead 'Cz', which this recording does not have"):
        decoder.start(info())
    assert decoder.measured.trials == {}


def test_all_leads_are_handed_over_where_none_are_named() -> None:
    assert find_places([], ["C3", "Cz"]) == [0, 1]
    assert find_places(["CZ"], ["C3", "Cz"]) == [1]


def test_leads_can_not_be_changed_after_the_first_data(write: Write, submitted: Open) -> None:
    late = "self.facts = [device.channel_number, device.channel_label]"
    code = CODE.replace(
        late, f"{late}; await source.get_calibration(); source.set_required_channel_labels(['Pz'])"
    )
    with pytest.raises(SubmissionCrashed, match="chosen before the first packet"):
        played(submitted(write({PLACE: code})), sessions("subjects=1&blocks=1&trials=3"))


def test_a_calibration_that_gives_up_is_a_crash_with_the_reason(
    write: Write, submitted: Open
) -> None:
    code = CODE.replace("stage_context=self.stage, calibration_ready=True", "")
    with pytest.raises(SubmissionCrashed, match="gave no stage and is not ready"):
        played(submitted(write({PLACE: code})), sessions("subjects=1&blocks=1&trials=3"))


def test_another_interface_gets_no_calibration_set(write: Write, submitted: Open) -> None:
    """The message written straight into the pipe, by a submission of 2023."""
    code = """
        import os
        from Algorithm.AlgorithmInterface import AlgorithmInterface

        class AlgorithmImplement(AlgorithmInterface):
            def run(self):
                self.comm_proxy._feed.pipe.send(b"k")
                self.comm_proxy.get_data()
    """
    decoder = submitted(
        write({"Algorithm/impl/AlgorithmImplement.py": code}), calibration=[TRAINING]
    )
    with pytest.raises(SubmissionDisqualified, match="calibrate unrequested"):
        decoder.start(info())


def test_its_own_copy_of_the_framework_s_service_is_left_in_place(
    write: Write, submitted: Open
) -> None:
    own = "class ContinuousDataSourceReceiver:\n    is_return_to_calibration_marker = lambda _: 1 / 0\n"
    files = {
        PLACE: CODE,
        "Algorithm/service/SourceReceiver/ContinuousDataSourceReceiver.py": own,
    }
    with pytest.raises(SubmissionCrashed, match="ZeroDivisionError"):
        played(submitted(write(files)), sessions("subjects=1&blocks=1&trials=3"))


def test_it_is_recognised_with_and_without_a_configuration(write: Write) -> None:
    root = write({PLACE: CODE})
    assert detect(root, "mi").interface == "g5"
    yml = f"method:\n  method_class_file: {PLACE}\n  method_class_name: AlgorithmImplement\n"
    write({"Algorithm/config/AlgorithmConfig.yml": yml})
    assert detect(root, "mi").interface == "g5"
    assert detect(root, "mi", "g4").interface == "g4"


@pytest.mark.parametrize(
    ("result", "label"),
    [
        ('{"predict_label": 3}', 3),
        ({"predict_label": 1}, 1),
        ("2", "2"),
        ("{not json", "{not json"),
        ('{"other": 1}', '{"other": 1}'),
        (5, 5),
    ],
)
def test_a_predicted_label_is_read_from_its_json(result: object, label: object) -> None:
    assert stages.predicted(result) == label


# --- in a contest ----------------------------------------------------------------------------


def entry(*recordings: str) -> ContestEntry:
    return ContestEntry("a", "mi", recordings, ("--submission", "/a"))


def test_a_recording_that_is_played_is_never_calibrated_on(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    for given, shown in (
        ("synthetic:mi?set=test&seed=3", "synthetic:mi?trials=2"),
        (str(folder / "a.edf"), str(folder / "a.edf")),
        (str(folder), f"{folder}/a.edf?rate=250"),
    ):
        with pytest.raises(ContestError, match="its labels would reach"):
            with_calibration([entry(shown)], (given,))
    (found,) = with_calibration([entry(str(folder / "b.edf"))], (str(folder / "a.edf"),))
    assert found.decoder_arguments[2:] == ("--calibration", str(folder / "a.edf"))


def test_synthetic_recordings_are_calibrated_on_their_training_set_and_files_on_none() -> None:
    (found,) = with_calibration([entry("synthetic:mi?subjects=2&trials=2&set=test")], ())
    assert found.decoder_arguments[2:] == ("--calibration", "synthetic:mi?subjects=2&set=train")
    (found,) = with_calibration([entry("a.edf")], ())
    assert found.decoder_arguments == ("--submission", "/a")
    decoder = ContestEntry("a", "mi", ("synthetic:mi",), ("--decoder", "mi-riemann"))
    assert with_calibration([decoder], ("b.edf",)) == [decoder]


def test_in_a_contest_with_keys_the_training_set_is_of_the_persons_that_are_played(
    tmp_path: Path,
) -> None:
    sealed = Contest("cup", tmp_path, results="sealed")
    given = ("synthetic:mi?subjects=1&set=train", "a.edf")
    assert played_persons(given, sealed) == given  # a team's own machine: the key is not here
    sealed.keys.token("a")  # makes the keys
    made, file = played_persons(given, sealed)
    assert made == secret_seed(given[0], sealed) != given[0]
    assert file == "a.edf"
    assert "set=train" in made


def test_what_was_measured_is_kept_and_shown(tmp_path: Path) -> None:
    figures = {"leads": 3, "calibration": 2.5, "size_mib": 0.25, "reaction_ms": 12.5}
    outcome = Outcome(entry("r"), "finished", measured=figures)
    journal = Journal(tmp_path / "journal")
    journal.add(outcome)
    assert journal.done()[outcome.entry].measured == figures
    table = _measured_table([outcome, Outcome(entry("s"), "finished")])
    assert table is not None
    assert [list(column.cells) for column in table.columns] == [
        ["a"], ["3"], ["2.5"], ["0.25"], ["12.5"],
    ]  # fmt: skip
    assert _measured_table([Outcome(entry("s"), "finished")]) is None
    line = json.loads(journal.path.read_text())
    del line["measured"]  # as journals of earlier versions
    journal.path.write_text(json.dumps(line))
    assert journal.done()[outcome.entry].measured == {}


@pytest.mark.slow
@pytest.mark.lsl
def test_a_contest_hosts_it_and_its_result_has_what_was_measured(tmp_path: Path) -> None:
    training = "synthetic:mi?subjects=1&blocks=1&trials=3&set=train"
    (outcome,) = judged(twins.TEMPLATES / "g5", tmp_path, "--calibration", training)
    assert outcome["reason"] == "finished"
    measured = outcome["measured"]
    assert (measured["leads"], measured["calibration"]) == (3, 1)
    log = [json.loads(line) for line in Path(outcome["log"]).read_text().splitlines()]
    assert sum(event["kind"] == "report" for event in log) == 2 * 3
    assert all(event["result"] in (1, 2, 3) for event in log if event["kind"] == "report")
