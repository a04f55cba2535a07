"""Probe every hook by compiling one small function under all of them, and list what each recorded."""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from ctrace.inspector.capture.capture_hooks import capturing
from ctrace.inspector.capture.core.child_doors import child_door, has_child_door
from ctrace.inspector.capture.core.patch import patched_places
from ctrace.inspector.knowledge.hooks import HOOKS, PatchedPlace, missing_of
from ctrace.inspector.log.reader import LogEntry, read

_RECORDS = {
    "torch's structured trace": "dynamo_output_graph",
    "bytecode hook": "artifact:ctrace_bytecode",
    "graph breaks": "artifact:dynamo_graph_break_reason",
    "functions left alone": "artifact:ctrace_frame",
    "recompiles": "artifact:ctrace_recompile",
    "guards": "dynamo_cpp_guards_str",
    "where guards come from": "artifact:ctrace_guards",
    "symbols of sizes": "create_symbol",
    "graphs and backends": "artifact:ctrace_graph",
    "static and dynamic sizes": "artifact:ctrace_shapes",
    "graph passes": "artifact:ctrace_pass",
    "attention patterns": "artifact:ctrace_attention",
    "fusion rounds": "artifact:ctrace_fusion",
    "choices of kernels": "artifact:ctrace_autotune",
    "kernels and their lines": "artifact:ctrace_kernel",
    "buffers of kernels": "artifact:ctrace_generated",
    "emitted code": "inductor_output_code",
    "counters": "artifact:ctrace_counters",
    "compilation metrics": "compilation_metrics",
    "backward, when it runs": "bwd_compilation_metrics",
}


def main(_loaded: frozenset[str]) -> None:
    """Print a JSON list of findings; redirect torch's own output to stderr."""
    # The answer is read as JSON, and torch may print to stdout while it compiles.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    findings = [_device(), *_probe(), *([child_door("gpus").probe()] if has_child_door("gpus") else [])]
    answer.write(json.dumps(findings))
    answer.close()
    sys.stdout.flush()


def _device() -> dict[str, Any]:
    import torch

    found = "cpu, no GPU; kernels are C++"
    if torch.cuda.is_available():
        found = torch.cuda.get_device_name()
    return {"name": "device", "ok": True, "found": found}


def _probe() -> list[dict[str, Any]]:
    import torch

    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "trace.log"
        with capturing(log, build=False):
            _exercise()
            # Within the capture: by then, each hook has been installed or has failed.
            missing = missing_of(patched_places, torch.__version__, build=False)
        entries = [entry for entry in read(log) if isinstance(entry, LogEntry)]
    kinds = [entry.kind for entry in entries]
    problems = [json.loads(entry.payload)["what"] for entry in entries if entry.kind == "artifact:ctrace_problem"]
    findings = [_finding(name, kinds.count(kind)) for name, kind in _RECORDS.items()]
    findings.append(_places(missing))
    return [*findings, *({"name": "problem", "ok": False, "found": problem} for problem in problems)]


def _places(missing: list[PatchedPlace]) -> dict[str, Any]:
    """Say whether each place of the table of hooks is in this torch."""
    names = "; ".join(f"{each.place} ({each.tells})" for each in missing)
    return {
        "name": "places of torch that ctrace patches",
        "ok": not missing,
        "found": f"not in this torch: {names}" if missing else f"{len(HOOKS)} known, none is missing",
        "todo": "reports will lack what they tell; please report it with your torch version",
    }


def _finding(name: str, number: int) -> dict[str, Any]:
    return {
        "name": name,
        "ok": number > 0,
        "found": f"{number} recorded" if number else "nothing recorded: the hook does not match this version of torch",
        "todo": "reports will lack this; please report it with your torch version",
    }


def _exercise() -> None:
    """Compile code that breaks, recompiles, fuses and runs backward, an attention, a product, and code without ops."""
    import torch

    # Without an op, Dynamo leaves the function alone, which is recorded as well.
    @torch.compile
    def idle(x: Any) -> Any:
        return x

    idle(torch.rand(1))

    @torch.compile
    def attends(x: Any) -> Any:
        return (x @ x.transpose(-2, -1) / 2.0).softmax(-1) @ x

    attends(torch.rand(1, 2, 3, 4))

    @torch.compile
    def multiplies(x: Any) -> Any:
        return x @ x

    multiplies(torch.rand(16, 16))

    @torch.compile
    def probe(x: Any) -> Any:
        y = torch.exp(x * 2)
        # An explicit break: any other reason for one may go away with a new version of torch.
        torch._dynamo.graph_break()
        return y / y.sum(dim=-1, keepdim=True)

    # A second size, for a recompilation with a dynamic dimension.
    for rows in (3, 4):
        probe(torch.rand(rows, 5, requires_grad=True)).sum().backward()
