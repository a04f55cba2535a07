"""Programs run under ctrace as without it, and the log survives any kind of exit.

Tests about the process itself run new processes (`fresh_ctrace`).
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.conftest import Command
from tests.support.places import ROOT

COMPILES = """\
import os, sys, torch

@torch.compile(backend="eager")
def f(x):
    return x * 2 + 1

f(torch.randn(3))
"""


@pytest.mark.long
def test_a_program_sees_its_own_environment(fresh_ctrace: Command) -> None:
    fresh_ctrace.write("sub/helper.py", "NAME = 'helper of the program'\n")
    fresh_ctrace.write(
        "sub/program.py",
        COMPILES
        + "import helper, inspect\n"
        + "print(sys.argv, __name__, os.path.basename(__file__), os.getcwd() == os.environ['WANTED'], helper.NAME)\n"
        + "print(sys.stdin.read(), sys.modules['__main__'].f is f, [p for p in sys.path if 'ctrace' in p])\n"
        + "print('talk', file=sys.stderr)\n",
    )
    result = fresh_ctrace(
        "run", "sub/program.py", "--epochs", "1", "-o", "x", stdin="input", WANTED=str(fresh_ctrace.folder)
    )
    assert result.code == 0, result.err
    first, second = result.out.splitlines()
    assert first == "['sub/program.py', '--epochs', '1', '-o', 'x'] __main__ program.py True helper of the program"
    assert second.startswith("input True")
    assert str(ROOT) not in second
    assert "talk\n" in result.err
    assert "COMPILED" in result.err


def test_explain_keeps_stdout_for_the_report(ctrace: Command) -> None:
    ctrace.write("program.py", COMPILES + "print('chatter')\n")
    result = ctrace("explain", "program.py", "--json")
    assert result.report["verdict"] == "compiled"
    assert "chatter" in result.err


@pytest.mark.long
def test_a_module_runs_as_with_python_m(fresh_ctrace: Command) -> None:
    fresh_ctrace.write("pkg/__init__.py", "")
    fresh_ctrace.write("pkg/tool.py", COMPILES + "print(sys.argv[1:], __package__, __spec__.name)\n")
    result = fresh_ctrace("run", "-m", "pkg.tool", "--verbose", "x")
    assert result.out == "['--verbose', 'x'] pkg pkg.tool\n"
    assert result.code == 0


@pytest.mark.long
def test_a_process_that_the_program_spawns_finds_its_functions(fresh_ctrace: Command) -> None:
    fresh_ctrace.write(
        "program.py",
        "import multiprocessing\n\ndef double(x):\n    return 2 * x\n\n"
        "if __name__ == '__main__':\n    import torch\n    torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n        print(pool.map(double, [1, 2]))\n",
    )
    result = fresh_ctrace("run", "program.py")
    assert result.out == "[2, 4]\n"
    assert result.code == 0


def test_emitting_changes_neither_numbers_nor_control_flow(ctrace: Command) -> None:
    ctrace.write(
        "program.py",
        "import torch\n"
        "torch.manual_seed(0)\n"
        "net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))\n"
        "x = torch.randn(4, 8)\n"
        "def step(model):\n"
        "    torch.manual_seed(1)\n"
        "    net.zero_grad()\n"
        "    loss = model(x).square().mean()\n"
        "    loss.backward()\n"
        "    return loss.item(), [p.grad.clone() for p in net.parameters()]\n"
        "eager, compiled = step(net), step(torch.compile(net))\n"
        "assert eager[0] == compiled[0]\n"
        "assert all(torch.equal(a, b) for a, b in zip(eager[1], compiled[1]))\n",
    )
    result = ctrace("explain", "program.py", "--json")
    assert result.code == 0, result.err
    assert {kernel["stage"] for kernel in result.report["kernels"]} == {"forward", "backward"}


def test_a_backward_that_never_runs_is_not_emitted(ctrace: Command) -> None:
    ctrace.write(
        "program.py",
        "import torch\nx = torch.ones(3, requires_grad=True)\ntorch.compile(lambda x: torch.exp(x).sum())(x)\n",
    )
    report = ctrace("explain", "program.py", "--json").report
    assert {kernel["stage"] for kernel in report["kernels"]} == {"forward"}


@pytest.mark.long
def test_no_compiler_is_needed(ctrace: Command) -> None:
    ctrace.write("model.py", "import torch\nmodel = torch.nn.Linear(4, 4)\ndef inputs(): return (torch.ones(2, 4),)\n")
    result = ctrace("explain", "model.py", "--json", "--train", PATH="/nowhere", CXX="", CC="")
    assert result.code == 0, result.err
    assert result.report["verdict"] == "compiled"
    assert result.report["problems"] == []


ENDINGS = [
    pytest.param("os._exit(7)", "crash", "Exit", marks=pytest.mark.slow),
    pytest.param("os.abort()", "crash", "SIGABRT", marks=pytest.mark.slow),
    ("import ctypes; ctypes.string_at(0)", "crash", "SIGSEGV"),
    pytest.param("os.kill(os.getpid(), 9)", "crash", "SIGKILL", marks=pytest.mark.slow),
    pytest.param("sys.exit(3)", "run", "SystemExit", marks=pytest.mark.slow),
    ("raise ValueError('no such luck')", "run", "ValueError"),
    ("import signal; signal.raise_signal(signal.SIGINT)", "interrupt", "KeyboardInterrupt"),
]


@pytest.mark.parametrize(("code", "phase", "kind"), ENDINGS, ids=str)
def test_recorded_data_survives(code: str, phase: str, kind: str, ctrace: Command) -> None:
    ctrace.write("program.py", f"{COMPILES}\n{code}\n")
    result = ctrace("explain", "program.py", "--json")
    assert result.code == 3
    report = result.report
    assert report["verdict"] == ("incomplete" if phase == "interrupt" else "failed")
    assert (report["error"]["phase"], report["error"]["type"]) == (phase, kind)
    assert [graph["function"] for graph in report["graphs"]] == ["f"]
    assert "inspector/" not in result.err  # the traceback is the user's


def test_recorded_data_survives_the_end_of_a_new_process(fresh_ctrace: Command) -> None:
    test_recorded_data_survives("os._exit(7)", "crash", "Exit", fresh_ctrace)


@pytest.mark.parametrize("code", ["sys.exit(0)", "os._exit(0)", "import ctypes; ctypes.CDLL(None)._exit(0)"])
def test_exit_code_zero_is_no_failure(code: str, ctrace: Command) -> None:
    ctrace.write("program.py", f"{COMPILES}\n{code}\n")
    result = ctrace("run", "program.py")
    assert (result.code, result.err.split()[0]) == (0, "COMPILED"), result.err
    assert ("The program ended itself" in " ".join(result.err.split())) == (code != "sys.exit(0)")
    assert ctrace("explain", "--json").report["verdict"] == "compiled"  # read again, with no end mark in the log


@pytest.mark.long
def test_timeout(ctrace: Command) -> None:
    ctrace.write("program.py", f"{COMPILES}\nimport time; time.sleep(600)\n")
    result = ctrace("explain", "program.py", "--json", "--timeout", "15")
    assert result.code == 3
    assert result.report["error"]["phase"] == "timeout"
    assert len(result.report["graphs"]) == 1


@pytest.mark.long
def test_ctrl_c_ends_the_program_and_reports(ctrace: Command) -> None:
    ctrace.write("program.py", f"{COMPILES}\nprint('ready', flush=True)\nimport time; time.sleep(600)\n")
    boot = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from ctrace.cli.main import app; app()"
    child = subprocess.Popen(
        [sys.executable, "-c", boot, "run", "program.py"],
        cwd=ctrace.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    os.killpg(child.pid, signal.SIGINT)  # like a terminal, to all processes of the group
    _, talk = child.communicate(timeout=60)
    assert child.returncode == 3
    assert "interrupted" in talk
    assert "1 graph" in talk


COLLECTING = """\
import gc
import sys
from pathlib import Path

import torch

inside = []


def backend(graph, inputs):
    inside.append(gc.get_threshold()[2])
    return graph.forward


before = gc.get_threshold()[2]
torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
Path(sys.argv[1]).write_text(f"{before} {inside[0]} {gc.get_threshold()[2]}")
"""


def test_full_collections_are_rarer_only_while_torch_compiles(ctrace: Command, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(COLLECTING)
    ctrace("run", "program.py", "thresholds.txt")
    before, inside, after = (int(each) for each in (tmp_path / "thresholds.txt").read_text().split())
    assert after == before
    assert inside == (100 if before else 0)  # Python 3.14 has no such threshold


def test_a_models_prints_are_marked_and_torchs_warning_is_a_note(ctrace: Command) -> None:
    ctrace.write(
        "talker.py",
        "import torch\n\ndef model(x):\n    print('item', x.mean().item())\n    return x + 1\n\ninputs = (torch.ones(4),)\n",
    )
    result = ctrace("explain", "--fast", "--json", "talker.py")
    lines = result.err.splitlines()
    assert lines[:2] == ["output of talker.py", "| item 1.0"]
    assert lines[2].startswith("| (last line, ")
    assert lines[3:] == ["ctrace: torch warned 1 time about a graph break: see ctrace breaks"]
    assert result.report["breaks"]
