"""Model files: every way to name a model and its inputs, and every way to get it wrong."""

import pytest

from tests.integration.conftest import Command

NET = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x, mask=None):
        return self.linear(x) if mask is None else self.linear(x) * mask

net = Net()
def make(): return Net()
def double(x): return x * 2
"""
MODEL = f"{NET}\nmodel = net\ndef inputs(): return (torch.ones(2, 4),)\n"


def _explained(ctrace: Command, *words: str) -> dict:
    result = ctrace("explain", *words, "--json", "--backend", "eager")
    assert result.code == 0, result.err
    return result.report


@pytest.mark.long
def test_model_file_with_scenarios(ctrace: Command) -> None:
    scenarios = "scenarios = {'wide': lambda: (torch.ones(5, 4),), 'masked': lambda: {'x': torch.ones(2, 4), 'mask': torch.ones(4)}}\n"
    ctrace.write("model.py", MODEL + scenarios)
    report = _explained(ctrace, "model.py")
    assert [(each["name"], each["calls"]) for each in report["scenarios"]] == [("base", 2), ("wide", 2), ("masked", 2)]
    assert all(each["ops"] == each["compiled"] > 0 for each in report["scenarios"])
    assert report["coverage"]["ops"] == report["coverage"]["compiled"] > 0
    assert [cause["kind"] for each in report["recompiles"] for cause in each["causes"]]


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["Net", "net.linear", *(pytest.param(name, marks=pytest.mark.slow) for name in ("net", "make", "double"))]
)
def test_other_objects_of_a_file(name: str, ctrace: Command) -> None:
    ctrace.write("net.py", NET)
    report = _explained(ctrace, f"net.py:{name}", "--input", "float32[2,4]")
    assert report["verdict"] == "compiled"


@pytest.mark.long
def test_object_of_a_module(ctrace: Command) -> None:
    ctrace.write("pkg/__init__.py", "")
    ctrace.write("pkg/net.py", NET)
    assert _explained(ctrace, "pkg.net:net", "--input", "float32[2,4]")["target"]["name"] == "pkg.net:net"


@pytest.mark.long
def test_inputs_by_name_and_dynamic_letters_and_vary(ctrace: Command) -> None:
    ctrace.write("net.py", NET)
    words = ("net.py:net", "--input", "x=float32[n,4]", "--input", "mask=float32[4]", "--vary", "0=5,6")
    report = _explained(ctrace, *words)
    assert [each["name"] for each in report["scenarios"]] == ["base", "dim0=5", "dim0=6"]
    assert report["recompiles"] == []  # n is dynamic from the start


@pytest.mark.long
def test_vary_recompiles(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    report = _explained(ctrace, "model.py", "--vary", "0=3,1")
    assert [cause["kind"] for each in report["recompiles"] for cause in each["causes"]] == ["size", "zero_one"]


@pytest.mark.long
def test_fullgraph_makes_a_break_a_failure(ctrace: Command) -> None:
    ctrace.write("model.py", "import torch\ndef model(x):\n    print(x)\n    return x + 1\ninputs = (torch.ones(2),)\n")
    assert ctrace("explain", "model.py", "--json", "--backend", "eager").report["verdict"] == "partial"
    result = ctrace("explain", "model.py", "--json", "--fullgraph", "--backend", "eager")
    assert (result.code, result.report["verdict"], result.report["breaks"]) == (3, "failed", [])


def test_build_runs_the_kernels(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    report = ctrace("explain", "model.py", "--json", "--build").report
    assert report["verdict"] == "compiled"
    assert report["environment"]["built"] is True
    assert report["kernels"]
    assert list((ctrace.folder / "cache").rglob("*.py"))  # the wrapper that was loaded and run


@pytest.mark.long
def test_a_saved_run_is_shown_again_without_running(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    first = _explained(ctrace, "model.py")
    ctrace.write("model.py", "raise SystemExit('it was run again')\n")
    repeated = ctrace("explain", "--json").report
    assert repeated == first
    (run,) = (path.name for path in (ctrace.folder / ".ctrace").glob("*/"))
    assert ctrace("explain", run, "--json").report == first
    log = ctrace.folder / ".ctrace" / run / "trace.log"
    log.write_bytes(log.read_bytes()[:-900])
    cut = ctrace("explain", run, "--json")
    assert cut.code == 0
    assert cut.report["problems"]


WRONG = {
    "no such file": (("explain", "modle.py"), "there is no file modle.py", "did you mean model.py?"),
    "syntax error": (("explain", "broken.py"), "broken.py, line 1", "correct the file"),
    "nothing to explain": (("explain", "empty.py"), "empty.py defines no `model`", "add `model"),
    "no such name": (("explain", "model.py:nett"), "there is no nett in model.py", "did you mean net?"),
    "no inputs": (("explain", "bare.py"), "bare.py defines no `inputs`", "--input"),
    "inputs do not match": (
        ("explain", "model.py:net.linear", "--input", "1", "--input", "2"),
        "do not match",
        "it takes",
    ),
    "unreadable input": (("explain", "model.py", "--input", "float32[2,"), "cannot be read", "write a tensor"),
    "no such dtype": (("explain", "model.py", "--input", "float23[2]"), "no dtype 'float23'", "did you mean float32?"),
    "unreadable vary": (("explain", "model.py", "--vary", "0"), "cannot be read", "--vary"),
    "no such dimension": (("explain", "model.py", "--vary", "7=2"), "no input has a dimension 7", "count dimensions"),
    "no such thing to vary": (
        ("explain", "model.py", "--vary", "dytpe=float64"),
        "cannot vary 'dytpe'",
        "did you mean dtype?",
    ),
    "no such strides": (
        ("explain", "model.py", "--vary", "stride=channels_last", "--backend", "eager"),
        "this changes no input",
        "drop it",
    ),
    "no modes": (
        ("explain", "flat.py", "--vary", "mode=eval", "--backend", "eager"),
        "the model is not an nn.Module",
        "a function",
    ),
    "no gradient": (
        ("explain", "flat.py", "--train"),
        "no output of the model requires a gradient",
        "drop --train",
    ),
    "no such backend": (("explain", "model.py", "--backend", "egaer"), "--backend egaer", "did you mean eager?"),
    "no such mode": (
        ("explain", "model.py", "--mode", "max-autotun"),
        "--mode max-autotun",
        "did you mean max-autotune?",
    ),
    "no such module": (("explain", "nowhere.net:x"), "there is no module nowhere", "check the name"),
    "no such run": (("explain", "20260101-000000-x"), "there is no file", "name a Python file"),
    "no program": (("run",), "needs a program", "ctrace run train.py"),
    "options for a program": (("explain", "program.py", "--train"), "is a program", "use only --build"),
    "folder of -o": (("explain", "model.py", "-o", "no/such/x.json"), "there is no folder", "name another file"),
}

SLOW = {"no such dimension", "no such strides", "no gradient", "no such mode", "no inputs"}
"""The child process finds this error, like others that are quick to find."""


@pytest.mark.long
@pytest.mark.parametrize("case", [pytest.param(case, marks=pytest.mark.slow if case in SLOW else ()) for case in WRONG])
def test_bad_input_gets_two_lines(case: str, ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    ctrace.write("broken.py", "def x(:\n")
    ctrace.write("bare.py", "import torch\nmodel = torch.abs\n")
    ctrace.write("empty.py", "import torch\n")
    ctrace.write("flat.py", "import torch\nmodel = torch.abs\ninputs = (torch.ones(2),)\n")
    ctrace.write("program.py", "import torch\ntorch.compile(abs)\n")
    words, what, todo = WRONG[case]
    result = ctrace(*words)
    first, second = result.err.strip().splitlines()[-2:]
    assert result.code == 2
    assert first.startswith("ctrace: ")
    assert what in first
    assert todo in second
    assert result.out == ""
    assert "Traceback" not in result.err
    assert not list((ctrace.folder / ".ctrace").glob("*/"))  # a failed command saves no run


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "phase"),
    [
        ("import torch\n1 / 0\nmodel = inputs = None\n", "load"),
        ("import torch\ndef model(x): raise ValueError('no such luck')\ninputs = (torch.ones(2),)\n", "eager"),
    ],
)
def test_a_model_that_fails_without_compile(text: str, phase: str, ctrace: Command) -> None:
    ctrace.write("model.py", text)
    result = ctrace("explain", "model.py", "--json")
    assert result.code == 3
    assert result.report["error"]["phase"] == phase
    assert 'model.py", line 2' in result.err
    assert "inspector/" not in result.err


@pytest.mark.long
def test_a_log_of_a_newer_ctrace(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    _explained(ctrace, "model.py")
    (log,) = (ctrace.folder / ".ctrace").glob("*/trace.log")
    ctrace.write("other.log", log.read_text().replace("ctrace_start", "ctrace_other"))
    assert ctrace("explain", "other.log", "--json").report["unknown"] == {"artifact:ctrace_other": 1}


@pytest.mark.long
def test_ops_of_tritons_autotuner_do_not_count_as_the_models(ctrace: Command) -> None:
    pytest.importorskip("triton")
    ctrace.write(
        "model.py",
        "import os, torch, triton\n"
        "tune = {'torch': torch}\n"
        "file = os.path.join(os.path.dirname(triton.__file__), 'testing.py')\n"
        "exec(compile('def bench(): torch.zeros(3).add_(1)', file, 'exec'), tune)\n"
        "def model(x):\n"
        "    if not torch.compiler.is_compiling(): tune['bench']()\n"
        "    return x.sin() + 1\n"
        "inputs = (torch.ones(2),)\n",
    )
    report = ctrace("explain", "model.py", "--json", "--backend", "eager").report
    assert report["coverage"] == {"ops": 2, "compiled": 2}
