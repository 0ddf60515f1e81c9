"""Child processes of a submission work in its sandbox, with the framework's modules importable there."""

from dataclasses import replace

import pytest

from decoders.host.environment import Environment, _prefix_of, find_interpreter, installed_versions
from decoders.host.requested import MAGIC_NUMBERS
from tests.decoders.host.conftest import SMALL, Open, Write, needs_bubblewrap, packets, run

pytestmark = [pytest.mark.usefixtures("hostable"), pytest.mark.slow]

ROOMY = replace(
    SMALL, start_s=100, step_s=100, end_s=100, processes=16, threads=200, memory_bytes=2 << 30
)

WORK = """
    from Algorithm.AlgorithmInterface import AlgorithmInterface
    from Algorithm.Interface.Model.DataModel import DataModel
    from Algorithm.impl import helper

    def square(value):
        return value * value

    def start_of(model):
        return [model.start_pos, isinstance(model, DataModel), helper.NAME]
"""
HELPER = "from Algorithm.method.model.AlgorithmObject import AlgorithmResultObject\nNAME = 'mine'\n"
HEAD = """
    import os, sys, subprocess
    from Algorithm.AlgorithmInterface import AlgorithmInterface
    from Algorithm.impl.work import square, start_of

    class AlgorithmImplement(AlgorithmInterface):
        def run(self):
            finish = False
            while not finish:
                model = self.comm_proxy.get_data()
                self.comm_proxy.report(self.result(model))
                finish = model.finish_flag

        def result(self, model):
"""


def package(body: str) -> dict[str, str]:
    lines = "".join(f"            {line}\n" for line in body.strip().splitlines())
    return {
        "Algorithm/impl/AlgorithmImplement.py": HEAD + lines,
        "Algorithm/impl/work.py": WORK,
        "Algorithm/impl/helper.py": HELPER,
    }


MULTIPROCESSING = """
import multiprocessing
with multiprocessing.get_context("METHOD").Pool(2) as pool:
    return [pool.map(square, [1, 2, 3]), pool.apply(start_of, (model,))]
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_multiprocessing_works_by_every_start_method(
    method: str, write: Write, submitted: Open
) -> None:
    files = package(MULTIPROCESSING.replace("METHOD", method))
    decoder = submitted(write(files), limits=ROOMY)
    assert run(decoder, packets(2)) == [
        [[[1, 4, 9], [0, True, "mine"]]],
        [[[1, 4, 9], [10, True, "mine"]]],
    ]


def test_the_workers_of_joblib_work(write: Write, submitted: Open) -> None:
    pytest.importorskip("joblib")
    body = """
import joblib
with joblib.parallel_backend("loky", n_jobs=2):
    squares = joblib.Parallel()(joblib.delayed(square)(number) for number in (1, 2, 3))
    starts = joblib.Parallel()(joblib.delayed(start_of)(model) for _ in range(2))
return [squares, starts[1]]
"""
    decoder = submitted(write(package(body)), limits=ROOMY)
    assert run(decoder, packets(1)) == [[[[1, 4, 9], [0, True, "mine"]]]]


def test_the_workers_of_a_torch_data_loader_work(write: Write, submitted: Open) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    body = """
from torch.utils.data import DataLoader
for method in ("fork", "spawn", "forkserver"):
    loader = DataLoader(Rows(), batch_size=2, num_workers=2, multiprocessing_context=method)
    assert [batch.tolist() for batch in loader] == [[0, 1], [4, 9]], method
return "loaded"
"""
    files = package(body)
    files["Algorithm/impl/work.py"] += """
    class Rows:
        def __len__(self):
            return 4

        def __getitem__(self, place):
            return square(place)
"""
    files["Algorithm/impl/AlgorithmImplement.py"] = files[
        "Algorithm/impl/AlgorithmImplement.py"
    ].replace("square, start_of", "square, start_of, Rows")
    decoder = submitted(write(files), limits=replace(ROOMY, memory_bytes=4 << 30))
    assert run(decoder, packets(1)) == [["loaded"]]


def test_subprocesses_import_the_framework_and_the_submission_s_own_modules(
    write: Write, submitted: Open
) -> None:
    body = """
code = "import Algorithm.impl.work as w; print(w.square(5), w.AlgorithmInterface.__module__)"
scripts = [[sys.executable, "-c", code], [sys.executable, "Algorithm/impl/script.py"]]
return [subprocess.check_output(script, text=True).strip() for script in scripts]
"""
    files = package(body)
    files["Algorithm/impl/script.py"] = "from Algorithm.impl import helper\nprint(helper.NAME)\n"
    decoder = submitted(write(files), limits=ROOMY)
    assert run(decoder, packets(1)) == [[["25 Algorithm.Interface.AlgorithmInterface", "mine"]]]


def test_a_child_has_no_more_rights_than_its_parent(write: Write, submitted: Open) -> None:
    body = """
code = "import os, resource; print(os.getuid(), resource.getrlimit(resource.RLIMIT_NOFILE)[1])"
child = subprocess.check_output([sys.executable, "-c", code], text=True).split()
return [int(child[0]) == os.getuid(), int(child[1])]
"""
    decoder = submitted(write(package(body)), limits=replace(ROOMY, open_files=99))
    assert run(decoder, packets(1)) == [[[True, 99]]]


@needs_bubblewrap
@pytest.mark.parametrize("version", sorted(MAGIC_NUMBERS.values()))
def test_workers_work_on_every_python(
    version: str, write: Write, submitted: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bare interpreters, without numpy: packets are lists there."""
    if version not in installed_versions():
        pytest.skip(f"Python {version} is not installed")
    python = find_interpreter(version)
    bare = Environment(python, python, (_prefix_of(python),), "bare")
    monkeypatch.setattr("decoders.host.prepare.environment_for", lambda *_: bare)
    decoder = submitted(write(package(MULTIPROCESSING.replace("METHOD", "spawn"))), limits=ROOMY)
    assert run(decoder, packets(1)) == [[[[1, 4, 9], [0, True, "mine"]]]]
