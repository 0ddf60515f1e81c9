"""
A season on one machine
=======================

``bci-judge serve`` takes submissions, checks them, runs each in its sandbox, and ranks the teams. Two teams
upload here: one with a template of the rule documents' interface, one that always reports class 1.
"""

import csv
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import bci_stream

BIN = Path(sys.executable).parent
TEMPLATES = Path(bci_stream.__file__).parents[1] / "scripts" / "templates"
folder = Path(tempfile.mkdtemp())
settings = os.environ | {"BCI_HOME": str(folder / "home")}


def command(line: str) -> str:
    """Run a command in the season's folder, and return what it printed."""
    program, *words = line.split()
    run = subprocess.run(
        [BIN / program, *words],
        cwd=folder,
        env=settings,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return run.stdout + run.stderr


# %%
# The organiser makes a contest with a file for each team, and names a short recording.

print(command("bci-judge init cup --track mi --team alice --team bob"))
contest_file = folder / "cup" / "contest.toml"
short = "synthetic:mi?set=test&subjects=1&blocks=1&trials=6"
contest_file.write_text(contest_file.read_text().replace("synthetic:mi?set=test", short))

# %%
# The teams' packages. Nothing of ours is imported in them but the interface.

shutil.copytree(TEMPLATES / "g4", folder / "alice")
always = folder / "bob" / "Algorithm" / "impl" / "AlgorithmImplement.py"
always.parent.mkdir(parents=True)
always.write_text(
    """
from Algorithm.AlgorithmInterface import AlgorithmInterface

class AlgorithmImplement(AlgorithmInterface):
    def run(self):
        finish, since = False, None
        while not finish:
            model = self.comm_proxy.get_data()
            for code in model.data[-1]:
                since = 0 if code == 200 else since
            if since is not None:
                since += 1
                if since in (51, 76, 99):  # packets of 40 ms: after 2, 3 and just under 4 s
                    self.comm_proxy.report(1)
            finish = model.finish_flag
"""
)
for team in ("alice", "bob"):
    shutil.make_archive(str(folder / team), "gztar", folder / team)

# %%
# The server runs until it is stopped; `submit` uploads, and ends with the score.

serving = [BIN / "bci-judge", "serve", "--contest", "cup", "--port", "0", "--engine", "local:2"]
with (folder / "serve.log").open("w") as log:
    server = subprocess.Popen(serving, cwd=folder, env=settings, stdout=log, stderr=log)
try:
    address = None
    while address is None and server.poll() is None:
        address = re.search(r"http://\S+", (folder / "serve.log").read_text())
    assert address is not None, (folder / "serve.log").read_text()
    for team in ("alice", "bob"):
        where = f"--server {address[0].rstrip('/')} --team-file cup/keys/{team}.bci"
        print(command(f"bci-decode submit {team}.tar.gz --track mi {where}"))
finally:
    server.terminate()
    server.wait(60)

# %%
# Everything is in the store beside the contest file, and can be exported.

made = list(
    csv.DictReader(io.StringIO(command("bci-judge season export --contest cup --form csv")))
)
fig, ax = plt.subplots(figsize=(5, 2.2), layout="constrained")
ax.barh([row["team"] for row in made], [float(row["score"] or 0) for row in made])
ax.set(xlabel="score (bits per minute)", title="One submission a team, judged")
ax.invert_yaxis()
plt.show()
shutil.rmtree(folder)
