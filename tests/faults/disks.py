"""Full or read-only disks: the run is shown with its exit code, reported as not saved, and leaves no files.

Each kind is a line of shell that spoils the working folder of a command, in a separate mount namespace if it mounts
something. As root, permissions are tried without the capability to bypass them.
"""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults.study import Bench, Result, Study, Try

MODEL = "import torch\nmodel = torch.nn.Linear(2, 2)\ninputs = (torch.rand(3, 2),)\n"
_BREAKING = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        x = torch.relu(x)
        print("a break")
        return x + 1
model = Model()
inputs = (torch.rand(2, 3),)
"""
_SECOND = "import os\nif os.path.exists('seen'):\n    {}\nopen('seen', 'w').close()\n"
"""What the file does when it is imported again, to try the advice."""
_SECONDS = 300
_SMALL = 'mount -t tmpfs -o {} tmpfs . && cd "$PWD" && cp ../m.py .'
_OBEYING = "setpriv --bounding-set -dac_override,-dac_read_search,-fowner --inh-caps -all -- "
"""Prefix of a command that makes root obey permissions."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to spoil a disk."""

    name: str
    before: str = ":"
    """Shell code to run in the working folder before the command."""
    program: str = ""
    """Python code that the model's file runs when imported."""
    prefix: str = ""
    """Prefix of the command."""
    more: str = ""
    """Suffix of the command."""
    code: int = 0
    is_saved: bool = False
    is_shown: bool = True
    breaks: bool = False
    """Whether the model has a graph break, so that there is advice to try."""

    @property
    def mounts(self) -> bool:
        """Whether it needs a mount namespace."""
        return "mount" in self.before


KINDS = (
    Kind("the disk is full", _SMALL.format("size=64k") + "; head -c 100000 /dev/zero > fill 2> /dev/null"),
    Kind("the disk fills early in the log", _SMALL.format("size=64k")),
    Kind("the disk fills late in the log", _SMALL.format("size=144k")),
    Kind("no inodes are left", _SMALL.format("size=10m,nr_inodes=4")),
    Kind("the program fills the disk", _SMALL.format("size=1m"), "try:\n    open('fill', 'wb', 0).write(b'.' * 2_000_000)\nexcept OSError: pass\n"),
    Kind("a read-only folder", "mount --bind . . && mount -o remount,ro,bind . && cd \"$PWD\""),
    Kind("a folder that may not be written", "chmod 555 .", prefix=_OBEYING),
    Kind(".ctrace is a file", "echo x > .ctrace"),
    Kind(".ctrace is a link to nowhere", "ln -s nowhere/at/all .ctrace"),
    Kind(".ctrace is a link to /proc", "ln -s /proc .ctrace"),
    Kind(".ctrace may not be written", "mkdir .ctrace && chmod 555 .ctrace", prefix=_OBEYING),
    Kind("the program deletes .ctrace", program="import shutil; shutil.rmtree('.ctrace')\n"),
    Kind("the program replaces .ctrace by a file", program="import shutil; shutil.rmtree('.ctrace'); open('.ctrace', 'w').write('x')\n"),
    Kind("the program replaces its run by a link", program="import glob, os, shutil\nfor each in glob.glob('.ctrace/2*'):\n    shutil.rmtree(each); os.mkdir('else'); os.symlink('../else', each)\n"),
    Kind(".ctrace is a link to itself", "ln -s .ctrace .ctrace"),
    Kind("the program deletes .ctrace while advice is tried", program=_SECOND.format("import shutil; shutil.rmtree('.ctrace', True)"), breaks=True),
    Kind("the program deletes temporary files", program="import shutil, tempfile; shutil.rmtree(tempfile.gettempdir())\n", before="mkdir ../tmp", prefix="env TMPDIR=../tmp ", is_saved=True),
    Kind("the program deletes temporary files while advice is tried", program=_SECOND.format("import shutil, tempfile; shutil.rmtree(tempfile.gettempdir(), True)"), before="mkdir ../tmp", prefix="env TMPDIR=../tmp ", is_saved=True, breaks=True),
    Kind("the program makes .ctrace read-only", program="import glob, os\nfor each in ('.ctrace', *glob.glob('.ctrace/2*')): os.chmod(each, 0o555)\n", prefix=_OBEYING),
    Kind("files of 4 KiB at most", prefix="prlimit --fsize=4096 -- "),
    Kind("no file may grow", prefix="prlimit --fsize=0 -- "),
    Kind("32 open files", prefix="prlimit --nofile=32 -- ", is_saved=True),
    Kind("TMPDIR may not be written", prefix="env TMPDIR=/proc ", is_saved=True),
    Kind("the cache may not be written", prefix="env XDG_CACHE_HOME=/dev/null XDG_STATE_HOME=/dev/null ", is_saved=True),
    Kind("stdout is full", more=" > /dev/full", code=2, is_saved=True, is_shown=False),
)  # fmt: skip
COMMANDS = {"explain": ("explain", "COMPILED"), "check": ("check", "HOLDS")}


def possible(kind: Kind) -> bool:
    """Whether this machine can spoil a disk like that; permissions and mounts need root on Linux."""
    if sys.platform != "linux" or shutil.which("prlimit") is None:
        return False
    if kind.mounts:
        return subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode == 0
    return not kind.prefix.startswith("setpriv") or (os.geteuid() == 0 and shutil.which("setpriv") is not None)


def attempt(bench: Bench, kind: Kind, command: str, folder: Path) -> Try:
    """Run a command in a spoiled folder, and judge the result."""
    work = folder / "work"
    work.mkdir(parents=True)
    for each in (folder, work):
        (each / "m.py").write_text(kind.program + (_BREAKING if kind.breaks else MODEL))
    verb, shown = COMMANDS[command]
    shown = {"explain": "PARTIAL", "check": "WORSE"}[command] if kind.breaks else shown
    line = f"{kind.prefix}{shlex.join([*bench.ctrace, verb, 'm.py'])}{kind.more}"
    # List the command's files inside the namespace, where the mounts are.
    script = f"cd work; {kind.before}; {line}; code=$?; ls -A > ../left 2>&1; ls -A .ctrace > ../runs 2>&1; exit $code"
    shell = ["bash", "-c", script]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache")}
    try:
        done = subprocess.run(
            ["unshare", "-m", *shell] if kind.mounts else shell,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Try(f"{command}: {kind.name}", Result.CRASH, "it hangs")
    finally:
        work.chmod(0o755)
    result, detail = _judged(kind, shown, done, folder)
    return Try(f"{command}: {kind.name}", result, detail)


def _judged(kind: Kind, shown: str, done: "subprocess.CompletedProcess[str]", folder: Path) -> tuple[Result, str]:
    said = (done.stdout + done.stderr)[-300:]
    if done.returncode in (70, 120) or "Traceback" in done.stderr:
        return Result.CRASH, f"exit code {done.returncode}: {said}"
    if done.returncode != (kind.code or (1 if shown == "WORSE" else 0)) or (kind.is_shown and shown not in done.stdout):
        return Result.LIE, f"exit code {done.returncode} instead of {kind.code}: {said}"
    if not kind.is_saved and "not saved" not in done.stderr:
        return Result.LIE, f"it does not say that the run was not saved: {said}"
    left = [name for name in (folder / "left").read_text().split() if name.startswith(".") and name != ".ctrace"]
    left += [name for name in (folder / "runs").read_text().split() if name.startswith(".trash")]
    return (Result.LEFT, " ".join(left)) if left else (Result.FINE, "")


def run(bench: Bench) -> Iterator[Try]:
    """Try each kind with each command."""
    pairs = [(kind, command) for command in COMMANDS for kind in KINDS if possible(kind)]
    for number, (kind, command) in enumerate(pairs[: bench.tries]):
        yield attempt(bench, kind, command, bench.scratch / str(number))


FAULTS = Study("full or forbidden disks", len(KINDS) * len(COMMANDS), run)
