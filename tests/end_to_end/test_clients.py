"""Clients in other languages, written from docs/protocol.md alone, take part in a run over LSL."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pylsl
import pytest
from processes import ROOT, Processes

from bci_stream.contest.contest import load_contest

CLIENTS = ROOT / "scripts" / "clients"
SOURCE = "synthetic:mi?subjects=1&blocks=1&trials=6"
OPEN = 'name = "open"\ntrack = "mi"\nresults = "signed"\nteams = ["{team}"]\n'
C_SCORE = 10 / 3  # 8 of 18 right


def compiled(folder: Path) -> Path:
    """The C client, linked against the liblsl of pylsl's wheel."""
    library = Path(pylsl.__file__).parent / "lib"
    compiler = shutil.which("cc")
    if compiler is None or not (library / "liblsl.so").exists():
        pytest.skip("a C compiler, or liblsl.so in pylsl's wheel, is missing")
    program = folder / "client"
    command = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"]
    command += ["-o", str(program), str(CLIENTS / "client.c"), f"-L{library}", "-llsl", "-lm"]
    command += [f"-Wl,-rpath,{library}"]
    checked = subprocess.run([*command, *SANITIZED], capture_output=True, check=False)
    if checked.returncode or "Sanitizer" in _usage(program):
        subprocess.run(command, check=True)  # no sanitizers here, or none that may look for leaks
    return program


SANITIZED = ["-g", "-fsanitize=address,undefined"]
"""The client ends with an error if it reads or writes out of bounds, or loses memory."""


def _usage(program: Path) -> str:
    return subprocess.run([str(program)], text=True, capture_output=True, check=False).stderr


def octave_folder(folder: Path) -> Path:
    """A folder that stands in for liblsl-Matlab in Octave, over the liblsl of pylsl's wheel."""
    library = Path(pylsl.__file__).parent / "lib"
    if shutil.which("octave-cli") is None or shutil.which("mkoctfile") is None:
        pytest.skip("octave-cli or mkoctfile is not installed")
    made = shutil.copytree(Path(__file__).parent / "octave", folder / "octave")
    linked = [f"-L{library}", "-llsl", f"-Wl,-rpath,{library}"]
    subprocess.run(["mkoctfile", "--mex", "lsl_call.c", *linked], cwd=made, check=True)
    return made


def judged(processes: Processes, command: list[str], team: str) -> tuple[str, Path]:
    """What a client writes in a run of an open contest, and the run's log.

    command: ends before contest, team, token file and session.
    """
    path = processes.folder / "contest.toml"
    path.write_text(OPEN.format(team=team))
    token = load_contest(path).keys.token_file(team)
    judge = processes.start(
        "bci_stream.judge", "live", "--no-web", "--wait", "60", "--contest", str(path)
    )
    played = ("start", SOURCE, "--track", "mi", "--pace", "lockstep", "--foreground")
    processes.start("replay", *played, "--wait", "60", "--contest", str(path))
    session = processes.env["BCI_LSL_SESSION"]
    client = subprocess.run(
        [*command, "open", team, str(token), session],
        text=True, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert client.returncode == 0, client.stderr
    out, _ = judge.communicate(timeout=60)
    assert judge.returncode == 0, out
    (log,) = (processes.folder / "runs").glob("*.jsonl")
    return client.stdout, log


@pytest.mark.lsl
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_c_client_takes_part_in_an_open_contest_and_scores(processes: Processes) -> None:
    out, log = judged(processes, [str(compiled(processes.folder))], "c")
    kinds = [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    assert kinds.count("packet") == int(out.split()[1])
    assert kinds.count("report") == 6 * 3
    result = json.loads(processes.run("bci_stream.judge", "score", str(log), "--json"))
    assert result["end"] == "finished"
    assert result["score"] == pytest.approx(C_SCORE)


@pytest.mark.lsl
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_matlab_text_scores_in_octave_what_the_c_client_does(processes: Processes) -> None:
    script = processes.folder / "run.m"
    folders = f"addpath('{octave_folder(processes.folder)}', '{CLIENTS}');\n"
    script.write_text(f"{folders}given = argv();\nclient(given{{:}});\n")
    command = ["octave-cli", "--no-gui", "--norc", str(script)]
    _, log = judged(processes, command, "m")
    result = json.loads(processes.run("bci_stream.judge", "score", str(log), "--json"))
    assert result["end"] == "finished"
    assert result["score"] == pytest.approx(C_SCORE)


def test_a_client_without_a_token_or_a_replay_gives_the_reason(processes: Processes) -> None:
    program = compiled(processes.folder)
    (processes.folder / "token").write_text("12 no token")
    for words, why in (
        ([], "usage: client CONTEST TEAM TOKEN_FILE"),
        (["open", "c", "absent"], "the token file can't be read"),
        (["open", "c", "token"], "a token is 64 hexadecimal digits"),
    ):
        done = subprocess.run(
            [str(program), *words],
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
            cwd=processes.folder,
        )
        assert done.returncode == 1
        assert why in done.stderr


def test_the_matlab_text_sends_and_reads_the_messages_of_the_c_client() -> None:
    """Also where there is no Octave: it names every message and every field that the C client does."""
    wanted = {"hello", "join", "ready", "next", "report", "done", "offer", "welcome", "refused"}
    wanted |= {
        "session",
        "packet",
        "stopped",
        "closed",
        "proof",
        "signal",
        "finish",
        "nonce",
        "digest",
    }
    for name in ("client.c", "client.m"):
        text = (CLIENTS / name).read_text()
        assert wanted <= set(re.findall(r"\b[a-z]+\b", text)), name
