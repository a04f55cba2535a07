"""`ctrace time --compile` in real processes: outcomes of caches against torch's own counters.

Each situation is a run of its own, with private caches that are kept between them. `aot_eager` asks no cache that it
could miss for long, so the default tests take seconds; those that build kernels are slow ones.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Command, Result
from tests.reports.test_perfetto import check_format

MODEL = """\
import atexit, json, torch
from torch._dynamo.utils import counters
{before}
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
    def forward(self, x):
        return {body}
model = Net()
def inputs(): return (torch.rand(4, 8),)
def tell():
    groups = ("inductor", "aot_autograd", "dynamo_cache")
    found = {{name: n for group in groups for name, n in counters[group].items() if "cache_" in name}}
    json.dump(found, open("counters.json", "w"))
atexit.register(tell)
"""
BODY = "self.linear(x).relu()"
UNCACHEABLE = """\
torch.library.define("mine::double", "(Tensor x) -> Tensor")
torch.library.impl("mine::double", "cpu", lambda x: x * 2)
torch.library.register_fake("mine::double", lambda x: x * 2)
import torch._inductor.config as inductor
inductor.post_grad_custom_post_pass = lambda graph: None
"""
UNPICKLABLE = """\
from torch._inductor.output_code import CompiledFxGraph
prepare = CompiledFxGraph.prepare_for_serialization
def spoil(graph):
    prepare(graph)
    graph.unpicklable = lambda: None
CompiledFxGraph.prepare_for_serialization = spoil
"""
OUTCOMES = {
    ("fx_graph", "hit"): "fxgraph_cache_hit",
    ("fx_graph", "miss"): "fxgraph_cache_miss",
    ("fx_graph", "bypass"): "fxgraph_cache_bypass",
    ("aot_autograd", "hit"): "autograd_cache_hit",
    ("aot_autograd", "miss"): "autograd_cache_miss",
    ("aot_autograd", "bypass"): "autograd_cache_bypass",
}
NO_GRAD = ("--vary", "grad=off")


def compiled(ctrace: Command, *words: str, before: str = "", body: str = BODY, own: str = "") -> dict[str, Any]:
    """Compile a version of the model; return the report, held against torch's counters."""
    ctrace.write("model.py", MODEL.format(before=before, body=body))
    words = ("time", "--compile", "model.py", *words, "--json")
    result = ctrace(*words, TORCHINDUCTOR_CACHE_DIR=own) if own else ctrace(*words)
    assert result.code == 0, result.err
    found: dict[str, Any] = result.report["compile"]
    counted = json.loads((ctrace.folder / "counters.json").read_text())
    for (cache, outcome), counter in OUTCOMES.items():
        number = sum((each["cache"], each["outcome"]) == (cache, outcome) for each in found["caches"])
        assert number == counted.get(counter, 0), (counter, counted, found["caches"])
    assert [each["what"] for each in result.report["problems"]] == []
    assert sum(found["phases"].values()) == pytest.approx(found["seconds"])
    assert sum(each["seconds"] for each in found["graphs"]) == pytest.approx(found["seconds"])
    return found


def outcomes(found: dict[str, Any]) -> set[tuple[str, str]]:
    return {(each["cache"], each["outcome"]) for each in found["caches"]}


def test_a_run_and_its_saved_view(ctrace: Command) -> None:
    """The quick one: no kernels, so only AOTAutograd is there, and torch asks no cache."""
    found = compiled(ctrace, "--backend", "aot_eager", "--perfetto", "trace.json")
    assert found["seconds"] > 0
    assert {"dynamo", "aot"} <= set(found["phases"])
    assert found["cache_use"]["kind"] == "private"
    again = ctrace("time", "--compile", "--json")
    assert again.report["compile"] == found
    trace = json.loads((ctrace.folder / "trace.json").read_text())["traceEvents"]
    assert sum(check_format(trace).values()) == pytest.approx(found["seconds"], rel=1e-6)


def test_a_saved_run_of_explain(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.format(before="", body=BODY))
    assert ctrace("explain", "model.py", "--backend", "aot_eager").code == 0
    result = ctrace("time", "--compile")
    assert result.code == 0
    assert "caches were off" in " ".join(result.out.split())
    refused = ctrace("time", "--compile", "--user-caches")
    assert (refused.code, len(refused.err.splitlines())) == (2, 2)


@pytest.mark.long
def test_a_folder_of_torchs_own_logs(ctrace: Command) -> None:
    ctrace.write("program.py", "import torch\ntorch.compile(lambda x: x.sin(), backend='aot_eager')(torch.rand(3))\n")
    done = ctrace("run", "program.py", TORCH_TRACE=str(ctrace.folder / "logs"))
    assert done.code == 0, done.err
    result = ctrace("time", "--compile", "logs", "--json", "--perfetto", "trace.json")
    assert result.code == 0, result.err
    assert result.report["compile"]["seconds"] > 0
    check_format(json.loads((ctrace.folder / "trace.json").read_text())["traceEvents"])


def lines(result: Result) -> list[str]:
    assert "Traceback" not in result.err
    return result.err.splitlines()


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--perfetto", "x.json"), "--perfetto needs --compile"),
        (("--all",), "--all needs --compile"),
        (("--user-caches",), "--user-caches needs --compile"),
        (("--compile", "--modes", "default"), "--compile and --modes exclude each other"),
        (("--compile", "--threads", "1"), "--compile and --threads exclude each other"),
        (("--compile", "--perfetto", "no/such/x.json"), "no/such/x.json: there is no folder no/such"),
        (("--compile", "--perfetto", "."), ". is a folder"),
    ],
)
def test_wrong_options(ctrace: Command, words: tuple[str, ...], what: str) -> None:
    ctrace.write("model.py", MODEL.format(before="", body=BODY))
    result = ctrace("time", "model.py", *words)
    assert result.code == 2
    assert lines(result)[0] == f"ctrace: {what}"
    assert len(lines(result)) == 2


def test_a_run_that_compiles_nothing(ctrace: Command) -> None:
    ctrace.write("program.py", "print('no torch here')\n")
    assert ctrace("run", "program.py").code == 0
    result = ctrace("time", "--compile")
    assert result.code == 0
    assert "No compile time" in result.out
    refused = ctrace("time", "--compile", "--perfetto", "trace.json")
    assert (refused.code, len(lines(refused))) == (2, 2)
    assert not (ctrace.folder / "trace.json").exists()


def test_a_run_that_crashes_shows_what_it_compiled(ctrace: Command) -> None:
    ctrace.write(
        "program.py",
        "import os, torch\ntorch.compile(lambda x: x.sin(), backend='aot_eager')(torch.rand(3))\nos.abort()\n",
    )
    result = ctrace("time", "--compile", "program.py", "--json")
    assert result.code == 3
    assert result.report["compile"]["seconds"] > 0
    assert result.report["compile"]["cache_use"]["kind"] == "private"


def test_a_newer_log_is_refused_and_no_run_at_all_too(ctrace: Command) -> None:
    assert ctrace("time", "--compile").code == 2
    ctrace.write("program.py", "import torch\n")
    ctrace("run", "program.py")
    (log,) = (ctrace.folder / ".ctrace").glob("*/trace.log")
    log.write_text(log.read_text().replace('"schema": 1', '"schema": 9'))
    changed = ctrace("time", "--compile")
    assert changed.code == 2 or "damaged" in changed.out


@pytest.mark.slow
def test_cold_warm_and_changed(ctrace: Command) -> None:
    cold = compiled(ctrace, *NO_GRAD)
    assert ("fx_graph", "miss") in outcomes(cold)
    assert all(
        "no earlier run" in each["why"] for each in cold["caches"] if each["outcome"] == "miss" and not each["against"]
    )
    warm = compiled(ctrace, *NO_GRAD)
    assert ("aot_autograd", "hit") in outcomes(warm)
    assert ("fx_graph", "hit") in outcomes(warm)
    assert warm["seconds"] < cold["seconds"]

    source = compiled(ctrace, *NO_GRAD, body="self.linear(x).sigmoid()")
    assert differing(source, "fx_graph") == {"gm"}
    assert differing(source, "aot_autograd") == {"gm"}
    config = compiled(ctrace, *NO_GRAD, before="import torch._inductor.config as c; c.epilogue_fusion = False")
    assert differing(config, "fx_graph") == {"inductor_config[epilogue_fusion]"}
    option = compiled(ctrace, *NO_GRAD, before="torch.use_deterministic_algorithms(True)")
    assert "deterministic_algorithms_settings" in differing(option, "fx_graph")


def differing(found: dict[str, Any], cache: str) -> set[str]:
    """Return the components that differ in each missed key of a cache."""
    missed = [each for each in found["caches"] if (each["cache"], each["outcome"]) == (cache, "miss")]
    assert missed
    return {one["component"] for each in missed for one in each["differs"]}


@pytest.mark.slow
def test_bypassed(ctrace: Command) -> None:
    found = compiled(ctrace, *NO_GRAD, before=UNCACHEABLE)
    bypassed = [each for each in found["caches"] if each["outcome"] == "bypass"]
    assert {each["cache"] for each in bypassed} == {"aot_autograd", "fx_graph"}
    assert all("post grad custom" in each["why"] or "custom" in each["why"].lower() for each in bypassed)


@pytest.mark.slow
def test_unpicklable(ctrace: Command) -> None:
    found = compiled(ctrace, *NO_GRAD, before=UNPICKLABLE)
    (fx,) = [each for each in found["caches"] if each["cache"] == "fx_graph"][:1]
    assert fx["outcome"] == "miss"
    assert fx["stored"] is False
    assert "cannot be pickled" in fx["not_stored"]


@pytest.mark.slow
def test_users_own_caches(ctrace: Command) -> None:
    own = str(ctrace.folder / "own")
    first = compiled(ctrace, *NO_GRAD, "--user-caches", own=own)
    assert first["cache_use"] == {"kind": "user", "folder": own, "switched_off": ["precompile"]}
    assert Path(own, "fxgraph").is_dir()
    second = compiled(ctrace, *NO_GRAD, "--user-caches", own=own)
    assert ("fx_graph", "hit") in outcomes(second)


@pytest.mark.long
def test_explain_without_inductor_compares_too(ctrace: Command) -> None:
    """The quick one; the facts of the run are those of a run without the comparison."""
    ctrace.write("model.py", MODEL.format(before="", body=BODY))
    built = ctrace("explain", "model.py", "--build", "--backend", "aot_eager", "--json")
    assert built.code == 0, built.err
    assert built.report["speed"]["speedup"]["rounds"] == 9
    assert "Speed" in ctrace("explain").out
    plain = ctrace("graphs", "model.py", "--build", "--backend", "aot_eager")
    assert plain.code == 0, plain.err
    without = ctrace("explain", "--json").report
    assert without["speed"] is None
    changing = {"speed", "time", "compilations", "metrics"}  # seconds
    assert {name: each for name, each in built.report.items() if name not in changing} == {
        name: each for name, each in without.items() if name not in changing
    }


def test_a_program_is_not_compared(ctrace: Command) -> None:
    ctrace.write("program.py", "import torch\ntorch.compile(lambda x: x.sin(), backend='aot_eager')(torch.rand(3))\n")
    result = ctrace("explain", "program.py", "--build")
    assert "not measured, because a program calls torch.compile itself" in " ".join(result.out.split())


@pytest.mark.slow
def test_explain_build_compares_with_eager(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.format(before="", body=BODY))
    built = ctrace("explain", "model.py", "--build", "--json", *NO_GRAD)
    assert built.code == 0, built.err
    speed = built.report["speed"]
    assert speed["verdict"] in ("faster", "slower", "no_difference", "undecided")
    assert speed["speedup"]["low"] <= speed["speedup"]["median"] <= speed["speedup"]["high"]
    assert built.report["time"]["total"] > 0
    assert "Speed" in ctrace("explain").out
    assert ctrace("explain", "--json").report["speed"] == speed
