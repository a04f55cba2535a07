"""Count graphs, graph breaks and recompiles with torch alone: nothing of ctrace is imported.

    python tests/real/count.py FILE [--train] [--backend NAME] [--dynamic]

A model file is called as ctrace calls one: each scenario twice. A program runs as it is. Graphs are torch's own records
of what Dynamo handed to the backend, breaks are distinct places, recompiles are entries beyond a function's first.
"""

import argparse
import importlib.util
import json
import logging
import os
import re
import runpy
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

_BROKE = re.compile(r"Graph break in user code at (?P<place>\S+:\d+)")
_LINK = re.compile(r"gb/(gb\d+)\.html")


class Seen(logging.Handler):
    """Keeps the records of torch's structured trace about graphs, breaks and compilations."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.graphs: list[str] = []
        self.breaks: dict[str, str] = {}
        self.made: dict[str, set[str]] = defaultdict(set)
        self.reasons: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        about = getattr(record, "metadata", {})
        payload = str(getattr(record, "payload", "") or "")
        frame, entry = str(about.get("frame_id")), str(about.get("frame_compile_id"))
        name = about.get("artifact", {}).get("name")
        if "dynamo_output_graph" in about:
            self.graphs.append(f"{frame}/{entry}")
        elif name == "dynamo_graph_break_reason" and (match := _BROKE.match(payload)):
            links = _LINK.findall(payload)
            self.breaks.setdefault(f"{match['place']} {links[0] if links else ''}", payload.partition("Explanation")[0])
        elif name == "recompile_reasons":
            self.reasons.append(f"{frame}/{entry}: {payload[:300]}")
        elif "compilation_metrics" in about and about["compilation_metrics"].get("fail_type") is None:
            self.made[frame].add(entry)

    def counts(self) -> dict[str, Any]:
        return {
            "graphs": len(self.graphs),
            "breaks": len(self.breaks),
            "recompiles": sum(len(entries) - 1 for entries in self.made.values()),
            "sites": self.breaks,
            "reasons": self.reasons,
        }


def counted(path: Path, *, train: bool = False, backend: str = "eager", dynamic: bool | None = None) -> dict[str, Any]:
    """Run a model file or a program and count."""
    import torch

    seen = Seen()
    trace = logging.getLogger("torch.__trace")
    trace.setLevel(logging.DEBUG)
    trace.addHandler(seen)
    error = None
    try:
        if is_program(path):
            runpy.run_path(str(path), run_name="__main__")
        else:
            _call_all(torch, _loaded(path), train=train, backend=backend, dynamic=dynamic)
    except Exception as raised:
        error = f"{type(raised).__name__}: {str(raised)[:300]}"
    return {**seen.counts(), "error": error}


def is_program(path: Path) -> bool:
    return "def inputs" not in path.read_text(encoding="utf-8")


def _loaded(path: Path) -> dict[str, Any]:
    """Import a model file as a module, which Dynamo looks up by its name."""
    spec = importlib.util.spec_from_file_location("model_file", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["model_file"] = module
    spec.loader.exec_module(module)
    return vars(module)


def _call_all(torch: Any, known: dict[str, Any], *, train: bool, backend: str, dynamic: bool | None) -> None:
    model = known["model"]
    model = model if isinstance(model, torch.nn.Module) else model()
    if train:
        model.train()
    compiled = torch.compile(model, backend=backend, dynamic=dynamic)
    for make in (known["inputs"], *known.get("scenarios", {}).values()):
        for _ in range(2):
            given = make()
            result = compiled(**given) if isinstance(given, dict) else compiled(*given)
            if train:
                _leaves(torch, result).backward()


def _leaves(torch: Any, result: Any) -> Any:
    from torch.utils import _pytree

    leaves = [leaf for leaf in _pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    return sum(leaf.sum() for leaf in leaves)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--backend", default="eager")
    parser.add_argument("--dynamic", action="store_true", default=None)
    asked = parser.parse_args()
    os.environ.setdefault("TORCHDYNAMO_VERBOSE", "0")
    sys.argv = [str(asked.file)]
    result = counted(asked.file.resolve(), train=asked.train, backend=asked.backend, dynamic=asked.dynamic)
    print("COUNTED " + json.dumps(result))
