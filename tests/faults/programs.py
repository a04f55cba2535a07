"""Misbehaving programs: they must not crash ctrace, be reported better than they are, or outlive it.

`run` and `explain` run each as a program, `explain` and `check` as a model file; the expected exit code follows from
how it ends in plain Python.
"""

import itertools
import json
import random
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults._tree import tree
from tests.faults.study import Bench, Result, Study, Try

_HANG_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Program:
    """What a program does, and how it ends."""

    code: str
    fails: bool = False
    """Whether it ends with an error, a signal or a nonzero exit code."""
    exits: bool = False
    """Whether it ends the process itself, which a model file must not."""
    damages: bool = False
    """Whether it damages what ctrace writes, so that the run may be reported as cut off or failed."""


_FORK = "if os.fork() == 0:\n    {}\n"
PROGRAMS = {
    # What it starts.
    "leaves a process": Program("import subprocess; subprocess.Popen(['sleep', '600'])"),
    "leaves a session": Program("import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)"),
    "leaves a daemon": Program(
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.closerange(0, 64); time.sleep(600)\n"
        "    os._exit(0)\nos.wait()"
    ),
    "leaves a deaf process": Program(
        "import subprocess; subprocess.Popen([sys.executable, '-c', 'import signal, time; "
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'])"
    ),
    "leaves zombies": Program("for _ in range(20):\n    if os.fork() == 0: os._exit(0)"),
    "forks and ends the fork": Program(_FORK.format("os._exit(5)") + "os.wait()"),
    "forks and both go on": Program("child = os.fork()\nif child: os.wait()"),
    "a daemon thread": Program(
        "import threading; threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
    ),
    "a thread that goes on": Program("import threading; threading.Thread(target=time.sleep, args=(1,)).start()"),
    "a pool that is not shut": Program("import concurrent.futures as c; c.ThreadPoolExecutor(2).submit(int)"),
    "a manager": Program("import multiprocessing as m\nmanager = m.get_context('fork').Manager()"),
    # How it ends.
    "os._exit(0)": Program("os._exit(0)", fails=True, exits=True),
    "os._exit(7)": Program("os._exit(7)", fails=True, exits=True),
    "sys.exit()": Program("sys.exit()", exits=True),
    "sys.exit(0)": Program("sys.exit(0)", exits=True),
    "sys.exit(3)": Program("sys.exit(3)", fails=True, exits=True),
    "sys.exit with text": Program("sys.exit('bye')", fails=True, exits=True),
    "sys.exit of an odd object": Program("sys.exit(object())", fails=True, exits=True),
    "sys.exit(2**70)": Program("sys.exit(2**70)", fails=True, exits=True),
    "ends in a thread": Program(
        "import threading; t = threading.Thread(target=os._exit, args=(0,)); t.start(); t.join()",
        exits=True,
    ),
    "kills itself": Program("os.kill(os.getpid(), 9)", fails=True, exits=True),
    "terminates itself": Program("os.kill(os.getpid(), 15); time.sleep(5)", fails=True, exits=True),
    "aborts": Program("os.abort()", fails=True, exits=True),
    "interrupts itself": Program("import signal; signal.raise_signal(signal.SIGINT)", fails=True, exits=True),
    "a segmentation fault": Program("import ctypes; ctypes.string_at(0)", fails=True, exits=True),
    "execs another program": Program("os.execv('/bin/true', ['true'])", fails=True, exits=True),
    "signals its parent": Program("os.kill(os.getppid(), 15)"),
    "kills its parent": Program("os.kill(os.getppid(), 9); time.sleep(1)", fails=True, exits=True),
    "ignores all signals": Program("import signal\nfor n in (1, 2, 3, 13, 15, 17): signal.signal(n, signal.SIG_IGN)"),
    "handles all signals": Program(
        "import signal\nfor n in signal.valid_signals() - {9, 19, 32, 33}: signal.signal(n, lambda *_: None)"
    ),
    "blocks all signals": Program("import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())"),
    "an alarm": Program("import signal; signal.alarm(1); time.sleep(5)", fails=True, exits=True),
    "raises": Program("raise ValueError('no luck')", fails=True),
    "raises with an odd text": Program(
        "class Odd(Exception):\n    def __str__(self): raise RuntimeError('no text')\nraise Odd", fails=True
    ),
    "raises a group": Program("raise ExceptionGroup('many', [ValueError(str(n)) for n in range(50)])", fails=True),
    "raises BaseException": Program("raise BaseException('base')", fails=True),
    "raises GeneratorExit": Program("raise GeneratorExit", fails=True),
    "raises long text": Program("raise ValueError('x' * 5_000_000)", fails=True),
    "raises escape codes": Program("raise ValueError('\\x1b[2J\\x1b]0;title\\x07\\u202e\\x00')", fails=True),
    "raises a cycle of causes": Program(
        "a, b = ValueError('a'), ValueError('b'); a.__cause__, b.__cause__ = b, a\nraise a", fails=True
    ),
    "a syntax error at run time": Program("exec('def (')", fails=True),
    "deep recursion": Program("def deep(): deep()\ndeep()", fails=True),
    "deep recursion, caught": Program("def deep(): deep()\ntry: deep()\nexcept RecursionError: pass"),
    "no recursion allowed": Program("sys.setrecursionlimit(90)", damages=True),
    # What exit functions do.
    "atexit prints": Program("import atexit; atexit.register(print, 'bye')"),
    "atexit raises": Program("import atexit; atexit.register(lambda: 1 / 0)"),
    "atexit leaves": Program("import atexit; atexit.register(os._exit, 4)", damages=True),
    "atexit starts a process": Program(
        "import atexit, subprocess; atexit.register(subprocess.Popen, ['sleep', '600'], start_new_session=True)"
    ),
    # stdio.
    "closes stdio": Program("os.close(0); os.close(1); os.close(2)"),
    "closes all files": Program("os.closerange(3, 512)"),
    "closes all files and opens others": Program(
        "os.closerange(3, 512)\nfiles = [open('mine%d.txt' % n, 'w') for n in range(20)]\n"
        "for f in files: f.write('mine'); f.flush()"
    ),
    "closes sys.stdout": Program("sys.stdout.close(); sys.stderr.close()"),
    "sys.stdout is None": Program("sys.stdout = sys.stderr = None"),
    "replaces sys.stdout": Program("import io; sys.stdout = sys.stderr = io.StringIO()"),
    # Python itself exits with 120 where it cannot flush sys.stdout at the end.
    "a broken sys.stdout": Program(
        "class Broken:\n    def write(self, _): raise OSError('no')\nsys.stdout = Broken()", damages=True
    ),
    "stdout elsewhere": Program("os.dup2(os.open('out.txt', os.O_CREAT | os.O_WRONLY), 1)"),
    "reads stdin": Program("sys.stdin.read()"),
    "input()": Program("input('name? ')", fails=True),
    "200 MB of output": Program("for _ in range(200): sys.stdout.write('x' * (1 << 20))"),
    "a long line": Program("sys.stderr.write('y' * 3_000_000)"),
    "binary output": Program("os.write(1, bytes(range(256)) * 100)"),
    "prints escape codes": Program("print('\\x1b[2J\\x1b[?1049h\\x1b]0;x\\x07')"),
    "switches off output": Program("os.close(1); os.open('/dev/full', os.O_WRONLY); print('x' * 100000)", fails=True),
    # Files and folders.
    "deletes .ctrace": Program("import shutil; shutil.rmtree('.ctrace')", damages=True),
    "empties its run": Program("import glob\nfor f in glob.glob('.ctrace/*/*'): os.remove(f)", damages=True),
    "deletes the working directory": Program(
        "import shutil; os.makedirs('deep'); os.chdir('deep'); shutil.rmtree(os.getcwd())"
    ),
    "deletes itself": Program("os.remove(__file__)"),
    "changes itself": Program("open(__file__, 'w').write('\\n' * 9 + 'x = (')"),
    "changes the folder": Program("os.chdir('/')"),
    "no rights for its files": Program("os.umask(0o777)", damages=True),
    "truncates the log": Program(
        "import glob\nfor f in glob.glob('.ctrace/*/trace.log'): os.truncate(f, 0)", damages=True
    ),
    "writes into the log": Program(
        "import glob\nfor f in glob.glob('.ctrace/*/trace.log'): open(f, 'ab').write(bytes(range(256)))", damages=True
    ),
    # What Python is made of.
    "replaces builtins": Program("import builtins; builtins.open = builtins.print = builtins.len = None", damages=True),
    "replaces os functions": Program("os.write = os.open = os.getpid = os.waitpid = os.close = None"),
    "replaces time": Program("time.time = time.perf_counter = time.monotonic = lambda: 0"),
    "replaces json": Program("import json; json.dumps = json.loads = None"),
    "replaces isinstance": Program("import builtins; builtins.isinstance = lambda *_: True", damages=True),
    "empties sys.modules": Program("sys.modules.clear()", damages=True),
    "drops our modules": Program(
        "for name in [n for n in sys.modules if 'ctrace' in n]: del sys.modules[name]", damages=True
    ),
    "replaces __main__": Program("sys.modules['__main__'] = None"),
    "empties sys.path": Program("sys.path.clear()", damages=True),
    "empties sys.meta_path": Program("sys.meta_path.clear()", damages=True),
    "empties sys.argv": Program("sys.argv = None"),
    "replaces excepthook": Program("sys.excepthook = lambda *_: print('hook')\nraise ValueError('no')", fails=True),
    "a broken excepthook": Program("sys.excepthook = None\nraise ValueError('no')", fails=True),
    "an excepthook that leaves": Program(
        "sys.excepthook = lambda *_: os._exit(0)\nraise ValueError('no')", fails=True, exits=True
    ),
    "traces": Program("sys.settrace(lambda *_: None); sys.setprofile(lambda *_: None)"),
    "warnings are errors": Program("import warnings; warnings.simplefilter('error')"),
    "switches logging off": Program("import logging; logging.disable(10**9); logging.shutdown()"),
    "empties the environment": Program("os.environ.clear()"),
    "another locale": Program("import locale; locale.setlocale(locale.LC_ALL, 'C')"),
    "another encoding": Program("sys.stdout.reconfigure(encoding='ascii'); sys.stdout.reconfigure(errors='strict')"),
    "no collector": Program("import gc; gc.disable(); gc.freeze()"),
    "a collector in a hurry": Program("import gc; gc.set_threshold(1)"),
    "a destructor that raises": Program("class Bad:\n    def __del__(self): raise ValueError('del')\nbad = Bad()"),
    "a destructor that leaves": Program("class Bad:\n    def __del__(self): os._exit(0)\nbad = Bad()", damages=True),
    "a weak reference that raises": Program(
        "import weakref\nclass It: pass\nit = It(); ref = weakref.ref(it, lambda _: 1 / 0); del it"
    ),
    "few files": Program("import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))", damages=True),
    "few processes": Program("import resource; resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))", damages=True),
    "short files": Program("import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))", damages=True),
    "little time": Program(
        "import resource; resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\nwhile True: pass", fails=True, exits=True
    ),
    "no core": Program("os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); os.nice(19)"),
    "another session": Program("os.setpgid(0, 0) if os.getpgrp() != os.getpid() else None"),
    # torch.
    "patches torch.compile": Program("import torch; torch.compile = lambda f, **_: f"),
    "patches Dynamo": Program(
        "import torch._dynamo; torch._dynamo.optimize = torch._dynamo.reset = None", damages=True
    ),
    "resets Dynamo": Program("import torch; torch.compile(len, backend='eager')([]); torch._dynamo.reset()"),
    "a backend that raises": Program(
        "import torch\ndef bad(*_): raise ValueError('no')\ntorch.compile(lambda x: x + 1, backend=bad)(torch.ones(2))",
        fails=True,
    ),
    "a backend that leaves": Program(
        "import torch\ntorch.compile(lambda x: x + 1, backend=lambda *_: os._exit(0))(torch.ones(2))",
        fails=True,
        exits=True,
    ),
    "torch traces elsewhere": Program(
        "import torch, logging\nlogging.getLogger('torch.__trace').handlers.clear()\n"
        "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))"
    ),
}
_HEAD = "import os, sys, time\n"
_MODEL = "inputs = (1,)\ndef model(x): return x\n"
_WAYS = ("run", "explain", "check")


def cases(seed: int) -> list[tuple[str, str]]:
    """Yield every program once in random order with the commands in rotation, then with the other commands."""
    names = sorted(PROGRAMS)
    random.Random(seed).shuffle(names)
    return [(name, _WAYS[(at + turn) % 3]) for turn in range(3) for at, name in enumerate(names)]


def tried(name: str, way: str, ctrace: tuple[str, ...], folder: Path) -> Try:
    """Run a program with one command, and judge the result."""
    folder.mkdir()
    what = f"{way}: {name}"
    program = PROGRAMS[name]
    (folder / "program.py").write_text(_HEAD + program.code + "\n")
    (folder / "model.py").write_text(_HEAD + _MODEL + program.code + "\n")
    words = {
        "run": ["run", "--json", "-o", "report.json", "program.py"],
        "explain": ["explain", "--json", "-o", "report.json", "model.py"],
        "check": ["check", "--json", "-o", "report.json", "model.py"],
    }[way]
    with tree([*ctrace, *words], folder) as running:
        try:
            code = running.process.wait(_HANG_SECONDS)
        except subprocess.TimeoutExpired:
            return Try(what, Result.CRASH, f"still runs after {_HANG_SECONDS} s")
        if left := running.left():
            return Try(what, Result.LEFT, str(left))
        _, err = running.output()
    return _judged(what, way, program, code, err, folder)


def _judged(what: str, way: str, program: Program, code: int, err: str, folder: Path) -> Try:
    if code == 70 or code < 0 or (code == 1 and way != "check") or "this is a bug in ctrace" in err:
        return Try(what, Result.CRASH, f"exit code {code}: {err[-300:]}")
    if "/inspector/" in err and "Traceback" in err:
        return Try(what, Result.CRASH, f"a traceback of ours: {err[-300:]}")
    if lost := [str(path) for path in folder.glob("mine*.txt") if path.read_text() != "mine"]:
        return Try(what, Result.LOSS, f"written into the program's own files: {lost}")
    ended = program.fails or (way != "run" and program.exits)
    expected = (
        {"run": (3,), "explain": (3,), "check": (3, 4)}[way]
        if ended
        else {"check": (4, 3)}.get(way, (0, 3) if program.damages else (0,))
    )
    if code not in expected:
        return Try(what, Result.LIE, f"exit code {code}, not {' or '.join(map(str, expected))}: {_verdict(folder)}")
    return Try(what, Result.FINE)


def _verdict(folder: Path) -> str:
    try:
        data = json.loads((folder / "report.json").read_text())
        return str(data.get("verdict"))
    except (OSError, ValueError) as error:
        return type(error).__name__


def _run(bench: Bench) -> Iterator[Try]:
    for number, (name, way) in enumerate(itertools.islice(cases(bench.seed), bench.tries)):
        yield tried(name, way, bench.ctrace, bench.scratch / str(number))


FAULTS = Study("misbehaving programs", len(PROGRAMS), _run)
