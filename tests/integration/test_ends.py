"""Runs that end early: a model file cannot end the process, and every scenario that did not run is named."""

import json

import pytest
import torch

from tests.integration.conftest import Command

MODEL = """
import os, signal, sys, threading
import torch
model = torch.nn.Linear(4, 4)
def inputs(): return (torch.rand(2, 4),)
def ending():
    {code}
    return (torch.rand(3, 4),)
scenarios = {{"first": ending, "last": lambda: (torch.rand(5, 4),)}}
"""
ENDINGS = [
    "sys.exit(0)",
    "os._exit(0)",
    pytest.param("raise SystemExit", marks=pytest.mark.slow),
    pytest.param("raise SystemExit('so long')", marks=pytest.mark.slow),
    pytest.param(
        "each = threading.Thread(target=os._exit, args=(0,)); each.start(); each.join()", marks=pytest.mark.slow
    ),
    pytest.param("os.execv('/bin/true', ['true'])", marks=pytest.mark.slow),
    pytest.param("os.kill(os.getpid(), signal.SIGKILL)", marks=pytest.mark.slow),
    pytest.param("import ctypes; ctypes.CDLL(None)._exit(0)", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("code", ENDINGS)
def test_a_model_file_cannot_end_the_process(code: str, ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.format(code=code))
    result = ctrace("explain", "model.py", "--json")
    report = result.report
    assert (result.code, report["verdict"]) == (3, "failed"), result.err
    assert [(each["name"], each["outcome"]) for each in report["scenarios"]] == [
        ("base", "done"),
        ("first", "not_run"),
        ("last", "not_run"),
    ]
    shown = ctrace("breaks")
    assert (shown.code, shown.out.split()[0]) == (0, "FAILED")
    assert "Not run: scenarios first, last." in shown.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "name", "said"),
    [
        ("raise MemoryError", "MemoryError", "no message"),
        ("(lambda f: f(f))(lambda f: f(f))", "RecursionError", "maximum recursion depth exceeded"),
    ],
)
def test_an_exception_leaves_the_other_scenarios(code: str, name: str, said: str, ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.format(code=code))
    report = ctrace("explain", "model.py", "--json").report
    assert [(each["name"], each["calls"]) for each in report["scenarios"]] == [("base", 2), ("first", 1), ("last", 2)]
    assert (report["error"]["type"], report["error"]["message"]) == (name, said)


@pytest.mark.slow
@pytest.mark.parametrize("code", ENDINGS[:2])
def test_a_check_names_the_models_that_did_not_run(code: str, ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.format(code=code))
    result = ctrace("check", "model.py", "--json")
    assert result.code == 3, result.out
    assert "not run: scenarios first, last" in json.dumps(result.report)


@pytest.mark.parametrize("where", ["load", "inputs"])
def test_scenario_names_are_recorded_early(where: str, ctrace: Command) -> None:
    text = MODEL.format(code="pass")
    text = f"{text}\nsys.exit()" if where == "load" else text.replace("return (torch.rand(2, 4),)", "sys.exit(0)")
    ctrace.write("model.py", text)
    result = ctrace("explain", "model.py", "--json")
    assert (result.code, result.report["verdict"]) == (3, "failed")
    names = [each["name"] for each in result.report["scenarios"]]
    assert names == ([] if where == "load" else ["base", "first", "last"])


def test_a_returning_fork_is_not_another_run(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.format(code="os.fork()"))
    result = ctrace("explain", "model.py", "--json")
    assert (result.code, result.report["verdict"], result.report["error"]["type"]) == (3, "failed", "Fork")
    assert [each["outcome"] for each in result.report["scenarios"]] == ["done"] * 3
    assert result.report["coverage"]["ops"] == 6  # two per scenario


PROGRAM = """
import atexit, logging, os, sys, threading
import torch
compiled = torch.compile(lambda x: x.sin(), backend="eager")
other = torch.compile(lambda x: x.cos(), backend="eager")
compiled(torch.rand(3))
"""


@pytest.mark.parametrize(
    "code",
    [
        "threading.Thread(target=lambda: other(torch.rand(4))).start()",
        "atexit.register(lambda: other(torch.rand(4)))",
        "if not os.fork(): other(torch.rand(4)); raise ValueError('child')\nelse: os.wait()",
        "logging.disable(); logging.getLogger('torch.__trace').disabled = True; other(torch.rand(4))",
    ],
)
def test_late_compilations_are_recorded(code: str, ctrace: Command) -> None:
    if "fork" in code and torch.cuda.is_available():
        pytest.skip("torch compiles nothing in a fork of a process that has used CUDA")
    ctrace.write("program.py", PROGRAM + code)
    result = ctrace("explain", "program.py", "--json")
    assert (result.code, result.report["verdict"]) == (0, "compiled"), result.err
    assert len(result.report["graphs"]) == 2


def test_a_program_that_ends_while_it_compiles_is_incomplete(ctrace: Command) -> None:
    code = "torch.compile(lambda x: x + 1, backend=lambda *_: os._exit(0))(torch.rand(3))"
    ctrace.write("program.py", PROGRAM + code)
    result = ctrace("explain", "program.py", "--json")
    assert (result.code, result.report["verdict"]) == (3, "incomplete")
    assert [each["compilation"] for each in result.report["incomplete"]] == ["1/0"]
    repeated = ctrace("recompiles")
    assert (repeated.code, repeated.out.split()[0]) == (0, "INCOMPLETE")


def test_an_exception_keeps_its_type_whatever_its_message(ctrace: Command) -> None:
    ctrace.write("silent.py", "class Silent(Exception):\n    def __str__(self): raise RuntimeError\nraise Silent")
    result = ctrace("run", "silent.py")
    assert result.code == 3
    assert "Silent: <its __str__ raises RuntimeError>" in result.err


def test_a_message_of_megabytes_is_cut(ctrace: Command) -> None:
    ctrace.write("long.py", "raise ValueError('x' * 30_000_000)")
    result = ctrace("run", "long.py")
    assert result.code == 3
    assert len(result.out) + len(result.err) < 40_000
    assert "more characters)" in result.err


THREADS = """
import threading
import time

print("loading")
threading.Thread(target=time.sleep, args=(3600,)).start()

import torch

model = torch.nn.Linear(2, 2)
inputs = (torch.rand(1, 2),)
"""


@pytest.mark.long
def test_a_model_file_that_starts_threads_ends(ctrace: Command) -> None:
    ctrace.write("threads.py", THREADS)
    result = ctrace("explain", "threads.py", "--fast", "--json", timeout=120)
    assert (result.code, result.out.startswith("loading")) == (0, False)
    assert result.report["verdict"] == "compiled"
