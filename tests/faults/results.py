"""Results against eager: a correct compilation must raise no alarm, and a faulty compiler must raise one.

A try compiles one model in one precision with real kernels, in one process for all of them (`_results_worker.py`), with
or without a fault in the compiler. Run by hand, the module prints the table by kind of try:
`python -m tests.faults --only "results against eager"`.
"""

import json
import random
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults.study import Bench, Result, Study, Try

_HERE = Path(__file__).parent
_PRECISIONS = ("fp32", "bf16", "autocast", "fp16")
_MATMULS = (
    "mlp", "mlp_train", "deep_mlp", "conv_batchnorm_train", "unet", "dit", "attention_causal", "lstm", "einsum", "experts",
    "llama", "bert",
)  # fmt: skip
"""What TF32, bfloat16 factors, autotuned matmuls and CUDA graphs (where there is a GPU) are tried with."""
_FASTER = ("high", "medium", "max-autotune", "cudagraphs")
_DECOMPOSED = "aot_eager_decomp_partition"
_TIMES = 5
"""Rounding could explain a fault with an error below this multiple of eager's."""


@dataclass(frozen=True)
class Order:
    """One try: a model, its precision, and the compiler's fault; empty: none."""

    model: str
    precision: str
    fault: str = ""
    backend: str = ""
    """Empty: Inductor builds kernels; Inductor's decompositions alone, run eagerly, take a tenth of the time."""


_FAULTS = {
    "relu": ("mlp_train", "conv_batchnorm_train", "conv_batchnorm_eval"),
    "exp": ("small_and_large_values", "cumulative"),
    "product": ("mlp", "dit", "einsum", "unet"),
    "dropped": ("dit", "rotary", "dit_train"),
    "eps": ("layernorm_chain_train", "rmsnorm", "conv_groupnorm"),
    "divisor": ("rmsnorm", "conv_batchnorm_train"),
    "dim": ("square_reductions",),
    "mask": ("attention_causal",),
    "one": ("mlp", "unet", "dit", "experts", "rmsnorm", "large_sum_of_signed"),
    "stale": ("conv_batchnorm_train",),
}


def orders() -> list[Order]:
    """Return all tries, in an order that makes any prefix a fair sample."""
    models = _names("MODELS") + _names("FROM_TRANSFORMERS")
    right = [Order(model, precision) for precision in _PRECISIONS for model in models]
    right += [Order(model, precision, backend=_DECOMPOSED) for precision in _PRECISIONS for model in models]
    right += [Order(model, precision) for precision in _FASTER for model in _MATMULS]
    wrong = [
        Order(model, precision, fault)
        for precision in _PRECISIONS
        for fault, models in _FAULTS.items()
        for model in models
    ]
    every = wrong + right
    random.Random(18).shuffle(every)
    return every


def _names(table: str) -> list[str]:
    """Read the names of the models without importing torch."""
    text = (_HERE / "_results_models.py").read_text()
    if table == "MODELS":
        return [part.partition("(")[0] for part in text.split("@model\ndef ")[1:]]
    body = text.partition("FROM_TRANSFORMERS = {")[2].partition("\n}")[0]
    return [line.split('"')[1] for line in body.splitlines() if line.startswith('    "')]


def judged(said: dict[str, Any]) -> Try | None:
    """Judge ctrace's verdict on one try; None: nothing to judge, for example because eager raises."""
    name = " ".join(filter(None, (said["fault"], said["model"], said["precision"], said["backend"])))
    if "error" in said:
        refused = said["error"].startswith(("EagerError", "TargetError"))
        return None if refused else Try(name, Result.CRASH, said["error"])
    if said["problems"]:
        return Try(name, Result.CRASH, said["problems"][0])
    if not said["put_in"]:  # the model has no place for this fault
        return None
    if not said["fault"]:
        return Try(name, Result.LIE if said["dangers"] else Result.FINE, _detail(said))
    found = bool(said["dangers"]) or bool(said["not_compared"]) or _explained(said)
    return Try(name, Result.FINE if found else Result.LIE, _detail(said))


def _explained(said: dict[str, Any]) -> bool:
    rule, eager, compiled, _ = said["rule"] or ("", None, None, "")
    return rule == "reference" and eager is not None and compiled is not None and compiled < _TIMES * eager


def _detail(said: dict[str, Any]) -> str:
    return json.dumps({key: said[key] for key in ("dangers", "not_compared", "rule") if said[key]})


def run(bench: Bench) -> Iterator[Try]:
    """Carry out the first tries of all."""
    command = [_python(bench), *words(bench, orders())]
    with subprocess.Popen(command, cwd=bench.scratch, stdout=subprocess.PIPE, stderr=sys.stderr, text=True) as worker:
        for line in worker.stdout or ():
            each = judged(json.loads(line)) if line.startswith("{") else None
            if each is not None:
                yield each
    if worker.returncode:
        yield Try(shlex.join(command), Result.CRASH, f"exit code {worker.returncode}")


def words(bench: Bench, chosen: list[Order]) -> list[str]:
    """Write the order for the first of some tries, and return the worker's file and arguments."""
    order = bench.scratch / "order.json"
    order.write_text(json.dumps([asdict(each) for each in chosen[: bench.tries]]))
    return [str(_HERE / "_results_worker.py"), str(order)]


def _python(bench: Bench) -> str:
    """Name the interpreter that the ctrace under test belongs to."""
    script = Path(bench.ctrace[0])
    return str(script.parent / "python") if script.name == "ctrace" else bench.ctrace[0]


FAULTS = Study("results against eager", len(orders()), run)
