"""Measure model files with torch, without ctrace: `python truth.py FILE...`, one JSON line for each.

Every scenario is called twice, with a backend that counts graphs; breaks and frames come from torch's own counters.
A file runs as a program in its own folder, so that it can import its neighbors.
"""

import contextlib
import hashlib
import importlib.util
import io
import json
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters


def truth_of(file: Path) -> dict[str, Any]:
    """Compile a model and count; `results` is a digest of its eager results."""
    sys.path.insert(0, str(file.parent))
    try:
        module, model = _loaded(file)
        results = [_call(model, given) for given in _inputs(module)]
        torch._dynamo.reset()
        counters.clear()
        graphs: list[int] = []

        def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., Any]:
            graphs.append(len(graph.graph.nodes))
            return graph.forward

        module, model = _loaded(file)
        compiled = torch.compile(model, backend=backend)
        for given in _inputs(module):
            for _ in range(2):
                _call(compiled, given)
    finally:
        sys.path.remove(str(file.parent))
    frames = counters["frames"]
    breaks = sum(counters["graph_break"].values()) + sum(counters["unimplemented"].values())
    found = {"graphs": len(graphs), "breaks": breaks, "left": frames["total"] - frames["ok"]}
    return {**found, "results": hashlib.sha256(b"".join(map(_bytes, results))).hexdigest()}


def _loaded(file: Path) -> tuple[types.ModuleType, Any]:
    torch.manual_seed(0)
    spec = importlib.util.spec_from_file_location(f"truth_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.model()
    torch.manual_seed(1)
    return module, model


def _inputs(module: types.ModuleType) -> list[Any]:
    return [make() for make in (module.inputs, *getattr(module, "scenarios", {}).values())]


def _call(model: Any, given: Any) -> Any:
    return model(**given) if isinstance(given, dict) else model(*given)


def _bytes(result: torch.Tensor) -> bytes:
    return bytes(result.detach().contiguous().numpy().tobytes())


def main(files: list[str]) -> None:
    """Print one line for each file; suppress the models' own output."""
    for file in files:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                found = truth_of(Path(file))
            except Exception as error:
                found = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"file": file, **found}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
