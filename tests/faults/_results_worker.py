"""Compile models with or without faults in the compiler, and print ctrace's verdict on their results.

Runs in the interpreter of the ctrace under test, all tries in one process: `python _results_worker.py ORDER.json`,
where the order lists `{"model", "precision", "fault", "backend"}`. Prints one JSON line for each.
"""

import contextlib
import importlib.util
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch._inductor import config

if TYPE_CHECKING:
    from tests.faults._results_models import FROM_TRANSFORMERS, MODELS, Made
else:
    from _results_models import FROM_TRANSFORMERS, MODELS, Made  # this runs as a script, beside it

from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.capture.inprocess import call_afresh
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.log.reader import read
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.session.build import build

aten = torch.ops.aten
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MODES = {"max-autotune": "max-autotune", "cudagraphs": "reduce-overhead"}
DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


class Autocast(torch.nn.Module):
    """A model under autocast, as a user would write it."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Any) -> Any:
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            return self.model(*args)


def prepared(made: Made, precision: str) -> Made:
    """Convert a model and its inputs to a precision, on the GPU if there is one."""
    if isinstance(made.model, torch.nn.Module):
        made.model.to(DEVICE)
    made = Made(made.model, tuple(arg.to(DEVICE) for arg in made.args), made.train)
    if precision == "autocast":
        return Made(Autocast(made.model), made.args, made.train)
    dtype = DTYPES.get(precision)
    if dtype is None:
        return made
    if isinstance(made.model, torch.nn.Module):
        made.model.to(dtype)
    return Made(made.model, tuple(arg.to(dtype) if arg.is_floating_point() else arg for arg in made.args), made.train)


Edit = Callable[[Any, Any], bool]
"""Changes a node of a graph and returns True, or returns False."""


def replaced(node: Any, make: Callable[[Any], Any]) -> bool:
    """Make the users of a node use the result of `make` instead."""
    with node.graph.inserting_after(node):
        other = make(node)
    other.meta = dict(node.meta)
    node.replace_all_uses_with(other, delete_user_cb=lambda user: user is not other)
    return True


def scaled(by: float, *targets: Any) -> Edit:
    return lambda graph, node: (
        node.target in targets and replaced(node, lambda node: graph.call_function(aten.mul.Tensor, (node, by)))
    )


def dropped_term(graph: Any, node: Any) -> bool:
    """Drop the second summand of a sum of two tensors."""
    if node.target is not aten.add.Tensor or not all(isinstance(arg, torch.fx.Node) for arg in node.args):
        return False
    first = node.args[0]
    if first.meta["val"].shape != node.meta["val"].shape or first.meta["val"].dtype != node.meta["val"].dtype:
        return False
    node.replace_all_uses_with(first)
    return True


def wrong_eps(graph: Any, node: Any) -> bool:
    """Add a thousand times the epsilon."""
    small = [arg for arg in node.args if isinstance(arg, float) and 0 < arg < 1e-3]
    if node.target is not aten.add.Tensor or not small:
        return False
    node.args = (node.args[0], small[0] * 1e4)
    return True


def wrong_divisor(graph: Any, node: Any) -> bool:
    """Divide a mean by one less."""
    if node.target not in (aten.mean.dim, aten.mean.default):
        return False
    count = node.args[0].meta["val"].numel() / node.meta["val"].numel()
    if count > 1000:  # one in a million is less than float32 rounding
        return False
    return replaced(node, lambda node: graph.call_function(aten.mul.Tensor, (node, count / (count - 1))))


def wrong_dim(graph: Any, node: Any) -> bool:
    """Take the largest value, or the sum, along another dimension of the same size."""
    if node.target not in (aten.sum.dim_IntList, aten.amax.default, aten.mean.dim):
        return False
    shape = node.args[0].meta["val"].shape
    if len(shape) < 2 or shape[-1] != shape[-2] or list(node.args[1]) != [-1]:
        return False
    node.args = (node.args[0], [-2], *node.args[2:])
    return True


def off_by_one_mask(graph: Any, node: Any) -> bool:
    """Exclude the diagonal from a mask, or include it."""
    others = {aten.gt.Tensor: aten.ge.Tensor, aten.ge.Tensor: aten.gt.Tensor, aten.le.Tensor: aten.lt.Tensor}
    if node.target not in others:
        return False
    node.target = others[node.target]
    return True


def one_value(graph: Any, node: Any) -> bool:
    """Change a single row's first value of an output."""
    if node.op != "output":
        return False
    (outputs,) = node.args
    first = next(each for each in outputs if each is not None and each.meta["val"].is_floating_point())
    value = first.meta["val"]
    with graph.inserting_before(node):
        picked = first
        for _ in value.shape:
            picked = graph.call_function(aten.select.int, (picked, 0, 0))
        more = graph.call_function(aten.add.Tensor, (graph.call_function(aten.mul.Tensor, (picked, 1.5)), 1.0))
        views = [first]
        for _ in value.shape[1:]:
            views.append(graph.call_function(aten.select.int, (views[-1], 0, 0)))
        back = more
        for view in reversed(views):
            back = graph.call_function(aten.select_scatter.default, (view, back, 0, 0))
    node.args = (tuple(back if each is first else each for each in outputs),)
    return True


def stale_buffer(graph: Any, node: Any) -> bool:
    """Drop the write to a buffer."""
    if node.target is not aten.copy_.default:
        return False
    node.replace_all_uses_with(node.args[1])
    graph.erase_node(node)
    return True


EDITS: dict[str, Edit] = {
    "exp": scaled(1.01, aten.exp.default),
    "product": scaled(1.5, aten.mm.default, aten.addmm.default, aten.bmm.default, aten.convolution.default),
    "dropped": dropped_term,
    "eps": wrong_eps,
    "divisor": wrong_divisor,
    "dim": wrong_dim,
    "mask": off_by_one_mask,
    "one": one_value,
    "stale": stale_buffer,
}


@contextlib.contextmanager
def fault(name: str) -> Iterator[list[str]]:
    """Put a fault into the compiler, and list its changes."""
    done: list[str] = []

    def edit(graph: Any) -> None:
        for node in list(graph.nodes):
            if not done and EDITS[name](graph, node):
                done.append(str(node))
        graph.eliminate_dead_code()

    if name == "relu":
        part = "triton" if DEVICE == "cuda" else "cpp"
        with config.patch({f"{part}.inject_relu_bug_TESTING_ONLY": "accuracy"}):
            yield ["relu"]
    elif name:
        with config.patch({"post_grad_custom_post_pass": edit}):
            yield done
    else:
        yield ["none"]


@contextlib.contextmanager
def precise(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision if precision in ("high", "medium") else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def tried(model: str, precision: str, name: str, backend: str) -> dict[str, Any]:
    """Compile one model, and return ctrace's verdict."""
    torch.manual_seed(0)
    made = prepared({**MODELS, **FROM_TRANSFORMERS}[model](), precision)
    options = Options(build=True, train=made.train, mode=MODES.get(precision), backend=backend or None)
    with tempfile.TemporaryDirectory() as folder, precise(precision), fault(name) as done:
        log = Path(folder) / "trace.log"
        with torch.set_grad_enabled(made.train):
            call_afresh(
                log, made.model, {"base": Way(lambda: Call(made.args, {}), ScenarioKind.BASE)}, options, calls=1
            )
        session = build(read(log))
    (scenario,) = session.scenarios
    comparison = getattr(scenario, "comparison", None)
    return {
        "put_in": done,
        "dangers": [(each.kind, each.difference) for each in session.dangers],
        "compared": scenario.compared,
        "not_compared": scenario.not_compared,
        "problems": [each.what for each in session.problems],
        "rule": comparison
        and [str(comparison.rule), comparison.eager_error, comparison.compiled_error, comparison.no_reference],
    }


def main() -> None:
    warnings.simplefilter("ignore")
    for order in json.loads(Path(sys.argv[1]).read_text()):
        if order["model"] in FROM_TRANSFORMERS and importlib.util.find_spec("transformers") is None:
            continue
        try:
            said = tried(order["model"], order["precision"], order["fault"], order["backend"])
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:300]}
        print(json.dumps({**order, **said}), flush=True)


if __name__ == "__main__":
    main()
