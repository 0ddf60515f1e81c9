"""Opening a submission for a worker: announced, logged, and stopped with the run."""

import threading
from pathlib import Path

import pytest

from bci_stream.files import state_dir
from decoders.decoder import ChannelChooser
from decoders.host.limits import EnvironmentUnavailable, SubmissionStopped
from decoders.host.submission import open_submission
from tests.decoders.host.conftest import Write, info, packets

pytestmark = pytest.mark.usefixtures("hostable")

CODE = """
    import time
    from Algorithm.AlgorithmInterface import AlgorithmInterface

    class AlgorithmImplement(AlgorithmInterface):
        def run(self):
            print("it runs", flush=True)
            self.comm_proxy.get_data()
            self.comm_proxy.report(1)
            time.sleep(1000)
"""


def test_the_title_has_interface_and_isolation_and_the_log_is_in_the_state_folder(
    write: Write,
) -> None:
    root = write({"Algorithm/impl/AlgorithmImplement.py": CODE})
    decoder = open_submission(root, "mi")
    try:
        assert isinstance(decoder, ChannelChooser)
        assert "G3 (2023)" in decoder.title
        assert "contained by" in decoder.title
        assert decoder.log.is_relative_to(state_dir())
        decoder.start(info())
    finally:
        decoder.close()
    assert decoder.log.read_text() == "it runs\n"


def test_a_run_that_is_stopped_does_not_wait_for_the_submission(write: Write) -> None:
    stop = threading.Event()
    root = write({"Algorithm/impl/AlgorithmImplement.py": CODE})
    decoder = open_submission(root, "mi", stop=stop)
    try:
        decoder.start(info())
        timer = threading.Timer(0.2, stop.set)
        timer.start()
        with pytest.raises(SubmissionStopped) as stopped:
            decoder.step(packets(2)[0])
        timer.join()
    finally:
        decoder.close()
    assert stopped.value.ending == "stopped"
    assert stopped.value.results == [1]


def test_a_state_folder_that_can_not_be_made_is_no_fault_of_the_team(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BCI_HOME", str(tmp_path / "file" / "state"))
    with pytest.raises(EnvironmentUnavailable, match="no fault of the team"):
        open_submission(write({"Algorithm/impl/AlgorithmImplement.py": CODE}), "mi")
