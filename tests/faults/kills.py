"""Signals at random moments of commands that run programs, once or twice, to the command or its whole process group.

No started process may be alive 2 s later; files from before must still be intact.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.faults._tree import LIMIT_SECONDS, tree
from tests.faults.study import Bench, Result, Study, Try

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)
_LONGEST = 4.0
"""Seconds until the signal: the command starts, the program starts, torch is imported, and then it sleeps."""
_HANG_SECONDS = 30

_SLEEP = "import time\ntime.sleep(600)\n"
_CHILDREN = "import subprocess\nfor _ in range(3): subprocess.Popen(['sleep', '600'])\n"
_SESSION = "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\n"
_DAEMON = """\
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256)
        time.sleep(600)
    os._exit(0)
"""
_DEAF = """\
import signal
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
"""
_THREADS = "import threading, time\nfor _ in range(4): threading.Thread(target=time.sleep, args=(600,)).start()\n"
_POOL = """\
import multiprocessing, time
if __name__ == '__main__':
    for method in ('fork', 'spawn'):
        for _ in range(2): multiprocessing.get_context(method).Process(target=time.sleep, args=(600,)).start()
"""
_GRANDCHILDREN = """\
import subprocess, sys
subprocess.Popen([sys.executable, '-c', 'import subprocess, time; subprocess.Popen(["sleep", "600"]); time.sleep(600)'])
"""
_TORCH = "import torch\n"
_COMPILES = "import torch\ntorch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\n"

PROGRAMS = {
    "sleeps": _SLEEP,
    "children": _CHILDREN + _SLEEP,
    "a session": _SESSION + _SLEEP,
    "a daemon": _DAEMON + _SLEEP,
    "deaf": _DEAF + _CHILDREN + _DAEMON + _SLEEP,
    "threads": _THREADS + _SLEEP,
    "workers": _POOL + _SLEEP,
    "grandchildren": _GRANDCHILDREN + _SLEEP,
    "left behind": _CHILDREN + _DAEMON,
    "torch": _TORCH + _SESSION + _SLEEP,
    "compiled": _COMPILES + _DAEMON + _SLEEP,
}
_MODEL = "inputs = ()\ndef model(): pass\n"
COMMANDS = ("explain", "run", "check", "fix", "repro", "time")
_AGAIN_SECONDS = 0.3
"""Seconds between two signals: a user presses Ctrl-C again when nothing seems to happen."""


@dataclass(frozen=True, slots=True)
class Kill:
    """One signal at one moment of one command."""

    command: str
    program: str
    number: signal.Signals
    seconds: float
    is_to_group: bool
    is_repeated: bool = False

    def __str__(self) -> str:
        whom = "group" if self.is_to_group else "command"
        twice = " twice" if self.is_repeated else ""
        return f"{self.command}, {self.program}: {self.number.name}{twice} to the {whom} after {self.seconds:.2f} s"


def kills(seed: int) -> Iterator[Kill]:
    """Yield kills with every command and signal equally often."""
    chance = random.Random(seed)
    number = 0
    while True:
        command, which = COMMANDS[number % len(COMMANDS)], _SIGNALS[number // len(COMMANDS) % 4]
        program, seconds = chance.choice(list(PROGRAMS)), chance.uniform(0.05, _LONGEST)
        yield Kill(command, program, which, seconds, chance.random() < 0.4, chance.random() < 0.5)
        number += 1


def tried(kill: Kill, ctrace: tuple[str, ...], folder: Path) -> Try:
    """Run a command, kill it, and check what is left."""
    folder.mkdir()
    before = _prepared(folder, kill.program)
    words = {
        "run": ["run", "program.py"],
        "explain": ["explain", "model.py"],
        "check": ["check", "model.py", "other.py", "-j", "2", "--update"],
    }.get(kill.command, [kill.command, "model.py"])
    with tree([*ctrace, *words], folder, CTRACE_DIR=str(folder / ".ctrace")) as running:
        with suppress(subprocess.TimeoutExpired):
            code = running.process.wait(kill.seconds)
            return Try(str(kill), Result.LEFT, str(left)) if (left := running.left()) else Try(str(kill), Result.FINE)
        with suppress(ProcessLookupError):
            for number in range(1 + kill.is_repeated):
                time.sleep(_AGAIN_SECONDS * number)
                (os.killpg if kill.is_to_group else os.kill)(running.process.pid, kill.number)
        left = running.left()
        if left:
            return Try(str(kill), Result.LEFT, f"{len(left)} processes after {LIMIT_SECONDS:g} s: {left}")
        try:
            code = running.process.wait(_HANG_SECONDS)
        except subprocess.TimeoutExpired:
            return Try(str(kill), Result.CRASH, f"still runs after {_HANG_SECONDS} s")
        _, err = running.output()
    return _judged(
        kill, code, err, {name: (folder / name).read_bytes() for name in before if (folder / name).exists()}, before
    )


def _prepared(folder: Path, program: str) -> dict[str, bytes]:
    """Write the program, and what must survive: an older run, a policy and its lock."""
    text = PROGRAMS[program]
    (folder / "program.py").write_text(text)
    for name in ("model.py", "other.py"):
        (folder / name).write_text(_MODEL + text)
    old = folder / ".ctrace" / "20200101-000000-old"
    old.mkdir(parents=True)
    (old / "run.json").write_text(
        '{"schema": 1, "created": 1577836800.0, "pid": 1, "status": "done", "seconds": 1.0,'
        ' "target": {"path": "old.py", "name": null, "args": []}, "failure": null, "summary": {}}'
    )
    (old / "trace.log").write_text("")
    (folder / "ctrace.yaml").write_text("version: 1\nmodels:\n  - {path: model.py}\n  - {path: other.py}\n")
    (folder / "ctrace.lock").write_text("# ctrace.lock 1: of an earlier day\n")
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _judged(kill: Kill, code: int, err: str, after: dict[str, bytes], before: dict[str, bytes]) -> Try:
    changed = [name for name in before if after.get(name) != before[name]]
    if changed:
        return Try(str(kill), Result.LOSS, f"{', '.join(changed)}: changed or gone")
    if code == 70 or any(mark in err for mark in ("this is a bug in ctrace", "cli/main.py", "Exception ignored")):
        return Try(str(kill), Result.CRASH, err[-300:])
    if code == 0:
        return Try(str(kill), Result.LIE, "exit code 0")
    return Try(str(kill), Result.FINE)


def _run(bench: Bench) -> Iterator[Try]:
    for number, kill in zip(range(bench.tries), kills(bench.seed), strict=False):
        yield tried(kill, bench.ctrace, bench.scratch / str(number))


FAULTS = Study("kills at random moments", 100, _run)
