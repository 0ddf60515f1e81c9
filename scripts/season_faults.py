"""kill -9 of a season's server, its workers and its log processes at random, and what must hold afterwards.

    python -m scripts.season_faults --submissions 100 --kills 60
    python -m scripts.season_faults --submissions 100 --kills 30 --cluster

With --cluster units run on a Dask cluster of this machine; its scheduler and workers are killed, too.
Each submission is two units: its check and its run. Units are short (`scripts.season_rig`); server, store,
queue, uploads, verification and scoring are the real ones. Prints a Markdown table.
"""

import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import click
import psutil

from bci_stream.contest.contest import Contest, TrackPlan, load_contest
from bci_stream.contest.keys import read_team_file
from bci_stream.runlog import score_run
from bci_stream.season.client import SeasonClient, SeasonError, ServerAway
from bci_stream.season.results import first_difference
from bci_stream.season.storage.store import SeasonStore, open_season_store
from bci_stream.season.units.jobs import UnitJob, file_sha256, read_outcome, write_job
from scripts.season_rig import do_unit, package

ROOT = Path(__file__).resolve().parents[1]
TEAMS = ("alice", "bob", "carol", "dave")
START_S = 120.0
END_S = 3600.0
QUIET_S = (0.0, 1.5)
"""Before a kill, at random."""
LOG_PROCESS = "--multiprocessing-fork"
"""In the command of a process of `LogPool`."""
ACCEPTED = ("passed", "rejected", "finished", "crashed", "timeout", "disqualified")


@dataclass
class FaultsReport:
    """What was done, what was found wrong."""

    submissions: int = 0
    units: int = 0
    server_kills: int = 0
    scheduler_kills: int = 0
    worker_kills: int = 0
    log_process_kills: int = 0
    attempts: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        of_units = self.scheduler_kills + self.worker_kills
        return self.server_kills + of_units + self.log_process_kills


class KilledServer:
    """A season's server in a process that is killed and started again."""

    def __init__(self, folder: Path, store: str, slots: int, scheduler: str = "") -> None:
        self._command = [sys.executable, "-m", "scripts.season_rig", "serve", folder, store, slots]
        self._command += [scheduler] if scheduler else []
        self._port = folder / "port"
        self._log = folder.parent / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """The server's address, once it listens."""
        self._port.unlink(missing_ok=True)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [str(word) for word in self._command], env=env, cwd=ROOT, stdout=out, stderr=out
            )
        deadline = time.monotonic() + START_S
        while not (self._port.exists() and self._port.read_text()):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the server did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.02)
        return f"http://127.0.0.1:{self._port.read_text()}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def kill_a_child(self, chance: random.Random, word: str) -> bool:
        """Kill one of the server's processes whose command has a word; False if there is none now."""
        assert self._process is not None
        with suppress(psutil.Error):
            children = psutil.Process(self._process.pid).children()
            found = [child for child in children if word in child.cmdline()]
            if found:
                chance.choice(found).kill()
                return True
        return False

    def stop(self) -> None:
        """Stop it as Ctrl-C does, at most within START_S."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(START_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise


class KilledCluster:
    """A Dask scheduler and workers of one unit each, which are killed and started again."""

    def __init__(self, folder: Path, workers: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self._port}"
        self._log = folder / "cluster.log"
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * (1 + workers)

    def start(self) -> None:
        """Start what does not run, and wait until the scheduler has all workers."""
        for number, process in enumerate(self._processes):
            if process is None or process.poll() is not None:
                self._processes[number] = self._start(number)
        deadline = time.monotonic() + START_S
        while not self._is_complete():
            if time.monotonic() > deadline:
                raise SystemExit(f"the cluster did not start: {self._log.read_text()[-2000:]}")
            for number, process in enumerate(self._processes):
                if process is not None and process.poll() is not None:
                    self._processes[number] = self._start(number)  # it left with the old scheduler
            time.sleep(0.2)

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        words = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(self._port)]
        words += ["--no-show"]
        if number:
            words = ["distributed.cli.dask_worker", self.address, "--no-nanny", "--nthreads", "1"]
            words += ["--resources", "unit=1"]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", *words, "--no-dashboard"]
        with self._log.open("ab") as out:
            return subprocess.Popen(command, env=env, cwd=ROOT, stdout=out, stderr=out)

    def _is_complete(self) -> bool:
        from distributed import Client

        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            with Client(self.address, timeout=5, set_as_default=False) as client:
                found = client.scheduler_info(n_workers=-1)["workers"]
                return len(found) == len(self._processes) - 1
        except OSError:
            return False

    def kill(self, number: int) -> None:
        """0: the scheduler; others: workers."""
        process = self._processes[number]
        assert process is not None
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in reversed(self._processes):
            if process is not None and process.poll() is None:
                process.terminate()
                try:
                    process.wait(START_S)
                except subprocess.TimeoutExpired:
                    process.kill()


def run_faults(
    folder: Path,
    submissions: int,
    kills: int,
    seed: int,
    *,
    slots: int = 2,
    store: str = "",
    on_cluster: bool = False,
) -> FaultsReport:
    """Submit, kill at random until `kills` are made, wait for the end, and check everything.

    submissions: the same number for each team, so that each uses up its quota.
    """
    if submissions % len(TEAMS):
        raise click.UsageError(f"--submissions must be a multiple of {len(TEAMS)}, the teams")
    chance, report, began = random.Random(seed), FaultsReport(submissions), time.monotonic()
    contest = _contest(folder / "cup", quota=submissions // len(TEAMS))
    store = store or str(contest.folder / "season.sqlite")
    cluster = KilledCluster(folder, slots) if on_cluster else None
    if cluster is not None:
        cluster.start()
    server = KilledServer(contest.folder, store, slots, cluster.address if cluster else "")
    url = server.start()
    sent = _submit_all(contest, lambda: url, submissions)
    step = max(1, 2 * submissions // max(1, kills))
    while report.kills < kills and not _is_done(store, submissions):
        _wait_for_units(store, _units_done(store) + chance.randint(0, 2 * step), submissions)
        time.sleep(chance.uniform(*QUIET_S))
        targets = ["server", "worker", "log process"]
        target = chance.choice(targets if cluster is None else [*targets, "scheduler"])
        if target == "server":
            server.kill()
            report.server_kills += 1
            url = server.start()
        elif target == "log process":
            report.log_process_kills += server.kill_a_child(chance, LOG_PROCESS)
        elif cluster is None:
            report.worker_kills += server.kill_a_child(chance, "scripts.season_rig")
        else:
            number = 0 if target == "scheduler" else chance.randint(1, slots)
            cluster.kill(number)
            report.scheduler_kills += number == 0
            report.worker_kills += number > 0
            cluster.start()
    sent.join()
    deadline = time.monotonic() + END_S
    while not _is_done(store, submissions):
        if time.monotonic() > deadline:
            report.problems.append("not all submissions were judged in time")
            break
        time.sleep(0.2)
    _check_quota(contest, url, report)
    server.stop()
    if cluster is not None:
        cluster.stop()
    with closing(open_season_store(store)) as opened:
        _check(contest, opened, report, folder / "serial")
    report.seconds = time.monotonic() - began
    return report


def _contest(folder: Path, quota: int) -> Contest:
    folder.mkdir(parents=True)
    names = ", ".join(f'"{team}"' for team in TEAMS)
    (folder / "contest.toml").write_text(
        f'name = "cup"\nteams = [{names}]\n[tracks.erp]\n[[phases]]\nname = "open"\nquota = {quota}\n'
    )
    contest = load_contest(folder)
    for team in TEAMS:
        contest.keys.team_file(team, contest.name, contest.results)
    return contest


def _submit_all(contest: Contest, url: Callable[[], str], count: int) -> threading.Thread:
    """Upload while the server is killed; what did not arrive is sent again."""

    def submit_all() -> None:
        made = dict.fromkeys(TEAMS, 0)
        path = contest.folder.parent / "package.zip"
        for number in range(count):
            team = TEAMS[number % len(TEAMS)]
            path.write_bytes(package(seed=number))
            file = read_team_file(contest.folder / "keys" / f"{team}.bci")
            while True:
                client = SeasonClient(url(), file)
                try:
                    if len(client.submissions()) > made[team]:
                        break
                    client.submit(path, "erp", "", lambda _done, _size: None)
                except ServerAway:
                    time.sleep(0.05)
            made[team] += 1

    thread = threading.Thread(target=submit_all, name="submit")
    thread.start()
    return thread


def _units_done(store: str) -> int:
    with closing(open_season_store(store)) as opened:
        return sum(unit.state == "done" for unit in opened.units())


def _wait_for_units(store: str, wanted: int, submissions: int) -> None:
    """Let some units be done before the next kill, so that kills are spread over all of them."""
    deadline = time.monotonic() + START_S
    while _units_done(store) < wanted and not _is_done(store, submissions):
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def _is_done(store: str, count: int) -> bool:
    with closing(open_season_store(store)) as opened:
        made = opened.submissions()
    return len(made) == count and all(each.ended is not None for each in made)


def _check_quota(contest: Contest, url: str, report: FaultsReport) -> None:
    """Each team has used up its quota exactly, although units were tried several times."""
    path = contest.folder.parent / "package.zip"
    for team in TEAMS:
        client = SeasonClient(url, read_team_file(contest.folder / "keys" / f"{team}.bci"))
        try:
            client.submit(path, "erp", "", lambda _done, _size: None)
            report.problems.append(f"team {team} could submit beyond its quota")
        except SeasonError as error:
            if "used up" not in str(error):
                report.problems.append(f"team {team}: {error}")


def _check(contest: Contest, store: SeasonStore, report: FaultsReport, serial: Path) -> None:
    attempts, units = store.attempts(), store.units()
    report.units, report.attempts = len(units), len(attempts)
    for unit in units:
        mine = [a for a in attempts if (a.submission, a.number) == (unit.submission, unit.number)]
        taken = [a for a in mine if a.outcome in ACCEPTED]
        if len(taken) != 1 or unit.state != "done":
            outcomes = [a.outcome for a in mine]
            report.problems.append(f"unit {unit.submission}.{unit.number}: {unit.state} {outcomes}")
    for submission in store.submissions():
        about = f"submission {submission.id}"
        unit = store.units(submission.id)[-1]
        log = contest.folder / unit.log
        if submission.stage != "judged":
            report.problems.append(f"{about}: {submission.stage} ({submission.reason})")
            continue
        if file_sha256(log) != unit.log_sha256:
            report.problems.append(f"{about}: the log is not the one whose hash was stored")
        if score_run(log).result()["score"] != submission.score:
            report.problems.append(f"{about}: the score is not that of its log")
        undisturbed = _serial_log(contest, serial, submission.team, submission.id)
        if difference := first_difference(log, undisturbed):
            report.problems.append(f"{about}: not the log of a serial run: {difference}")
    for team in TEAMS:
        own = {s.id for s in store.submissions(team=team)}
        first = [a for a in attempts if a.number == 0 and a.attempt == 1 and a.submission in own]
        order = [a.submission for a in sorted(first, key=lambda a: a.began)]
        if order != sorted(order):
            report.problems.append(f"team {team}: units were begun in the order {order}")
    logs = list(contest.runs.rglob("*.jsonl"))
    if len(logs) != report.submissions:
        report.problems.append(f"{len(logs)} logs of {report.submissions} submissions")


def _serial_log(contest: Contest, folder: Path, team: str, number: int) -> Path:
    """The log of the same submission, run undisturbed in this process."""
    job = UnitJob(number, 1, 1, team, "erp", [])
    place = folder / job.name
    write_job(place, contest, TrackPlan(), job, contest.folder / "uploads" / str(number))
    do_unit(place, threading.Event())
    outcome = read_outcome(place)
    assert outcome is not None
    return place / "runs" / outcome.log


@click.command()
@click.option("--submissions", default=100, show_default=True, help="Two units each.")
@click.option("--kills", default=60, show_default=True)
@click.option("--seed", default=1, show_default=True)
@click.option("--slots", default=2, show_default=True)
@click.option("--store", default="", help="postgresql://... (default: SQLite)")
@click.option(
    "--cluster", is_flag=True, help="On a Dask cluster of this machine, which is killed, too."
)
def main(submissions: int, kills: int, seed: int, slots: int, store: str, cluster: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix="season-faults-"))
    report = run_faults(
        folder, submissions, kills, seed, slots=slots, store=store, on_cluster=cluster
    )
    for problem in report.problems:
        click.echo(f"PROBLEM: {problem}")
    click.echo(
        "| submissions | units | kills of the server | of the scheduler | of workers "
        "| of log processes | attempts | problems |"
    )
    click.echo("|---|---|---|---|---|---|---|---|")
    click.echo(
        f"| {report.submissions} | {report.units} | {report.server_kills} | {report.scheduler_kills} "
        f"| {report.worker_kills} | {report.log_process_kills} "
        f"| {report.attempts} | {len(report.problems)} |"
    )
    click.echo(f"{report.seconds:.0f} s; folder {folder}", err=True)
    if report.problems:
        raise SystemExit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
