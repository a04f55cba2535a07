"""Models of a check that run in forks of one process: each is as isolated as in a new process."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Command
from tests.support.observing import observable
from tests.support.places import ROOT
from tests.support.warm import WarmServer

INSTALLED = {**os.environ, "PYTHONPATH": str(ROOT)}
linux = pytest.mark.skipif(sys.platform != "linux", reason="forks are served on Linux only")
pytestmark = linux


@pytest.fixture
def ctrace(fresh_ctrace: Command) -> Command:
    """Runs new processes, with which forks are compared."""
    return fresh_ctrace


@pytest.fixture
def warm_ctrace(tmp_path: Path, warm_server: WarmServer | None) -> Command:
    """Runs checks whose forks are those of the tests' own server: for what does not depend on how it started."""
    return Command(tmp_path, warm_server)


PLAIN = """
import torch
{code}
model = torch.nn.Linear(4, 4)
def inputs(): return (torch.rand(2, 4),)
def larger(): return (torch.rand(3, 4),)
scenarios = {{"larger": larger}}
"""
DEEDS = {
    "config": "torch._dynamo.config.recompile_limit = 1\ntorch._dynamo.config.assume_static_by_default = False",
    "patch": "import torch._dynamo as d\nd.eval_frame.innermost_fn = None",
    "path": "import sys; sys.path[:] = ['/nowhere']",
    "folder": "import os; os.chdir('/')",
    "handler": "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "thread": "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "variable": "import os; os.environ['TORCHDYNAMO_SUPPRESS_ERRORS'] = '1'",
    "hidden": "import os; getattr(os, 'env' + 'iron')['TORCHDYNAMO_SUPPRESS_ERRORS'] = '1'",
    "exit": "import os; os._exit(3)",
    "crash": "import ctypes; ctypes.string_at(0)",
    "memory": "held = bytearray(1 << 28)",
    "prints": "print('x' * 200_000); import sys; print('y', file=sys.stderr)",
    "hooks": "import atexit, warnings; atexit.register(print, 'bye'); warnings.simplefilter('error')",
    "seed": "import random; torch.manual_seed(0); random.seed(0)",
    "modules": "import sys; sys.modules['json'] = None",
}
"""Changes that the models make to their process while loading."""
DEEDS["several"] = "\n".join(DEEDS[name] for name in ("config", "prints", "thread", "seed", "hooks"))
FEW = ("several", "hidden", "crash")
"""What stays in the process, what asks for a new one, and what ends it; `test_check.py` has a model that exits."""


def compared(report: dict[str, Any]) -> dict[str, Any]:
    """Return the data that must not depend on the process: everything but times, runs and process ids."""
    text = json.dumps(report)
    text = re.sub(r'"seconds": [\d.e-]+', '"seconds": 0', text)
    text = re.sub(r'"run": "[\w-]+"', '"run": ""', text)
    found: dict[str, Any] = json.loads(text)
    return found


def written(ctrace: Command, names: tuple[str, ...]) -> list[str]:
    """Write the models, and one that does nothing, which is checked last."""
    for name in names:
        ctrace.write(f"a_{name}.py", PLAIN.format(code=DEEDS[name]))
    ctrace.write("z_plain.py", PLAIN.format(code=""))
    return [*(f"a_{name}.py" for name in names), "z_plain.py"]


def same_both_ways(ctrace: Command, names: tuple[str, ...]) -> None:
    models = written(ctrace, names)
    forked = ctrace("check", *models, "--json", "-j", "1", "--no-cache")
    fresh = ctrace("check", *models, "--json", "-j", "2", "--no-cache", "--fresh-processes", timeout=900)
    assert compared(forked.report) == compared(fresh.report)
    assert forked.code == fresh.code
    plain = next(job for job in forked.report["jobs"] if job["model"] == "z_plain.py")
    assert (plain["exit"], plain["counts"]["graphs"], plain["coverage"]) == (0, 2, 100.0)


@pytest.mark.long
def test_a_models_changes_to_its_process_end_with_it(ctrace: Command) -> None:
    same_both_ways(ctrace, FEW)


@pytest.mark.slow
def test_other_changes_end_with_the_process_too(ctrace: Command) -> None:
    same_both_ways(ctrace, tuple(name for name in DEEDS if name not in FEW))


WORLD = """
import atexit, json, logging, os, random, signal, sys, threading, warnings
from pathlib import Path
import torch
main = sys.modules["__main__"]
Path(__file__).with_suffix(".json").write_text(json.dumps({
    "argv": sys.argv, "path": sys.path, "cwd": os.getcwd(), "main": sorted(vars(main)), "name": __name__,
    "words": [each for each in sys.orig_argv if "order.json" not in each][:-1],
    "signals": {str(each): str(signal.getsignal(each)) for each in signal.valid_signals()},
    "mask": [int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "streams": [[each.name, each.encoding, each.errors, each.line_buffering, each.isatty(), each.seekable()]
                for each in (sys.stdin, sys.stdout, sys.stderr)],
    "stdin": sys.stdin.read(), "null": os.readlink("/proc/self/fd/0"),
    "threads": [threading.active_count(), [each.name for each in threading.enumerate()]],
    "logging": [logging.root.level, len(logging.root.handlers)], "excepthook": str(sys.excepthook),
    "leads": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()], "limit": sys.getrecursionlimit(),
    "finders": [type(each).__name__ for each in sys.meta_path],
    "variables": dict(os.environ.items()) if False else len(open("/proc/self/environ").read().split(chr(0))),
    "own": [name for name in sys.modules if name.startswith("ctrace.inspector.capture.fork")],
}))
Path(__file__).with_suffix(".random").write_text(f"{random.random()} {torch.rand(1).item()} {torch.initial_seed()}")
model = torch.nn.Linear(4, 4)
inputs = (torch.rand(2, 4),)
""".replace("dict(os.environ.items()) if False else ", "")


@pytest.mark.long
def test_a_forked_model_sees_the_same_process_as_alone(ctrace: Command) -> None:
    ctrace.write("one.py", WORLD)
    ctrace.write("two.py", WORLD)
    worlds, drawn = [], []
    for option in ("--no-cache", "--fresh-processes"):
        result = ctrace("check", "one.py", "two.py", "--no-cache", option)
        assert result.code == 0, result.out
        worlds.append([json.loads((ctrace.folder / f"{name}.json").read_text()) for name in ("one", "two")])
        found = [(ctrace.folder / f"{name}.random").read_text().split() for name in ("one", "two")]
        drawn.append(found)
    forked, fresh = worlds
    # A check starts generators with one number, so that a model without a seed counts the same each time.
    assert drawn[0] == drawn[1]
    assert drawn[0][0] == drawn[0][1]
    assert [bool(each.pop("own")) for each in (*forked, *fresh)] == [True, True, False, False]
    assert forked == fresh


@pytest.mark.long
@observable
def test_unchanged_models_reuse_the_last_check(warm_ctrace: Command) -> None:
    models = written(warm_ctrace, ("exit", "seed"))
    warm_ctrace.write("a_seed.py", PLAIN.format(code="from pathlib import Path\nPath('size').read_text()"))
    warm_ctrace.write("size", "4")
    first = warm_ctrace("check", *models, "--json")
    assert [job["reused"] for job in first.report["jobs"]] == [False, False, False]
    second = warm_ctrace("check", *models, "--json")
    reused = {job["model"]: job["reused"] for job in second.report["jobs"]}
    assert reused == {"a_exit.py": False, "a_seed.py": True, "z_plain.py": True}
    assert second.report["notes"][0] == (
        "2 of 3 models unchanged since the last check: results reused; --no-cache checks them again"
    )
    unlike = ("reused", "seconds", "run")
    for one, other in zip(first.report["jobs"], second.report["jobs"], strict=True):
        assert {k: v for k, v in one.items() if k not in unlike} == {k: v for k, v in other.items() if k not in unlike}
    warm_ctrace.write("size", "5")
    assert [job["reused"] for job in warm_ctrace("check", *models[1:], "--json").report["jobs"]] == [False, True]
    again = warm_ctrace("check", *models[1:], "--json", "--no-cache")
    assert not any(job["reused"] for job in again.report["jobs"])


def ours(folder: Path) -> list[int]:
    """Find the living processes that a check in this folder started."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = f"MARK={folder}\0".encode() in (each / "environ").read_bytes()
            state = (each / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if is_ours and state not in "ZX":
            found.append(int(each.name))
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_an_ended_check_leaves_no_processes(number: int, ctrace: Command) -> None:
    code = "import subprocess, time\nsubprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    up = "from pathlib import Path\nPath(__file__ + '.up').touch()\ntime.sleep(600)"
    for name in ("one", "two"):
        ctrace.write(f"{name}.py", PLAIN.format(code=code + up))
    command = [sys.executable, "-m", "ctrace", "check", "one.py", "two.py", "-j", "2"]
    environment = {**INSTALLED, "MARK": str(ctrace.folder)}
    with subprocess.Popen(command, cwd=ctrace.folder, env=environment, stderr=subprocess.DEVNULL) as check:
        deadline = time.monotonic() + 240
        while len(list(ctrace.folder.glob("*.up"))) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert len(ours(ctrace.folder)) >= 8  # the command, the server and a watcher; per model three
        check.send_signal(number)
        check.wait(120)
    deadline = time.monotonic() + 60
    while left := ours(ctrace.folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


@pytest.mark.long
def test_a_model_that_hangs_ends_alone(warm_ctrace: Command) -> None:
    warm_ctrace.write("hangs.py", PLAIN.format(code="import time; time.sleep(600)"))
    warm_ctrace.write("plain.py", PLAIN.format(code=""))
    warm_ctrace.write("ctrace.yaml", "models: [{path: hangs.py, timeout: 5}, plain.py]\n")
    result = warm_ctrace("check", "--json", "-j", "2")
    kinds = {job["model"]: [each["kind"] for each in job["findings"]] for job in result.report["jobs"]}
    assert kinds == {"hangs.py": ["timeout"], "plain.py": []}
