"""Run the commands of README and docs in a folder that has what they name; each capture is made once.

Run as a script, with a JSON list of folders and words on stdin, it writes what each command did into `RESULTS`, since a
program may print to stdout. It runs all in this one process, whose captures are forks of the warm server.
"""

import contextlib
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tests.support import inprocess, warm
from tests.support.places import DATA, ROOT

MODEL = '''"""Two kernels around a matrix product, at the lines that the pages name."""
import torch


from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x.relu().sum(-1) * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.down = nn.Linear(128, 32), nn.Linear(32, 8)

    def forward(self, x):
        x = torch.exp(x).cumsum(0)
        x = nn.functional.gelu(self.fc(x))















        # the line below is 42
        #
        return self.down(x)


torch.manual_seed(0)
model = Net()


def inputs():
    return (torch.rand(8, 128),)
'''
BRANCH = '''"""A branch on a tensor's value at line 26."""
import torch
from torch import nn


class Mask(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 4)















    def forward(self, x):
        if x.sum() > 0:
            x = x + 1
        return self.fc(x)


model = Mask()


def inputs():
    return (torch.rand(8, 16),)
'''
TRAIN = """import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
net = torch.nn.Linear(8, 4)
def inputs():
    return (torch.rand(2, 8),)
if __name__ == "__main__":
    step = torch.compile(net)
    for _ in range(parser.parse_args().epochs):
        step(torch.rand(2, 8)).sum().backward()
"""
TOOL = 'import argparse\nargparse.ArgumentParser(description="a tool").parse_args()\n'
RESULTS = "results.json"
GPUS = "mine: {extends: h100, clock: 1.2e9}\n"


class Ran(Struct):
    """What a command did."""

    code: int
    out: str
    err: str


def make(folder: Path) -> None:
    """Write what the pages name: models, a program, a package, logs, GPUs, and a repository with a branch."""
    files = {
        "model.py": MODEL, "net.py": MODEL, "x.py": MODEL, "train.py": TRAIN, "pkg/__init__.py": "", "pkg/tool.py": TOOL,
        "pkg/models.py": "import torch\ntiny = torch.nn.Linear(4, 2)\ndef inputs():\n    return (torch.rand(3, 4),)\n",
        "gpus.yaml": GPUS, "gpu.yaml": GPUS, "pyproject.toml": '[tool.ctrace]\ngpus = ["gpus.yaml"]\n',
        "branch/model.py": BRANCH, "branch/models/mask.py": BRANCH, "started/net.py": BRANCH,
    }  # fmt: skip
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    shutil.copytree(ROOT / "sample_models", folder / "sample_models")
    for name in ("logs", "branch/traces"):
        shutil.copytree(DATA / "ranks" / "shape", folder / name)
    (folder / "trace_dir").mkdir()
    for name in ("trace_dir/job.log", "job.log", "trace.log", "old.log", "branch/trace_dir/job.log"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(DATA / "sizes.torch.log", folder / name)
    shutil.copytree(folder / "trace_dir", folder / "traces")
    shutil.copy(DATA / "print_break.torch.log", folder / "new.log")
    (folder / "job.log.gz").write_bytes(gzip.compress((folder / "job.log").read_bytes()))
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (
        ["init", "-qb", "main"],
        ["add", "model.py", "branch/model.py"],
        ["commit", "-qm", "a"],
        ["checkout", "-qb", "mine"],
    ):
        subprocess.run([*git, *words], cwd=folder, check=True)


def _share_captures() -> None:
    """Make each capture once: the same target with the same options is the same run."""
    from ctrace.inspector.runs import run_capture, store

    made: dict[str, Any] = {}
    real = run_capture.capture

    def shared(resolved: Any, options: Any, **words: Any) -> Any:
        key = repr((resolved, options))
        if words.get("name") or words["child"].records_files:  # names the run, or goes on with the process
            return real(resolved, options, **words)
        if key not in made:
            made[key] = real(resolved, options, **words)
        return made[key]

    run_capture.capture = shared
    store.KEEP = 1000
    store.Store.__init__.__defaults__ = (None, 1000)


def _run(words: list[str], folder: Path) -> Ran:
    with contextlib.chdir(folder):
        ran = inprocess.ctrace(*words)
    if "CTRACE_TEST_TIMES" in os.environ:
        print(f"{ran.code} {' '.join(words)}", file=sys.stderr, flush=True)
    return Ran(ran.code, ran.out, ran.err)


def main(folder: Path) -> None:
    """Run the commands, each a list of a folder and words."""
    commands = json.load(sys.stdin)
    sys.stdin = open(os.devnull)  # noqa: SIM115, PTH123 - a command that reads it ends
    warm.use()
    _share_captures()
    done: dict[tuple[str, ...], Ran] = {}  # several commands may have one equivalent
    for where, *words in commands:
        if (where, *words) not in done:
            done[where, *words] = _run(words, folder / where)
    (folder / RESULTS).write_bytes(msgspec.json.encode([done[tuple(each)] for each in commands]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
