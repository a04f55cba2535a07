"""Check proved repairs with torch alone, which knows nothing of ctrace: eager results and the number of graphs.

Each text, before and after a repair, runs in a new process on the same fresh random inputs; results must be equal bit
for bit, or within rounding for a repair that declares changed arithmetic, and graphs must not become more. Of repairs
that change no file, only those that call a method of the model first can be checked.
usage: check_repairs.py REPORT.json
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

CHILD = """
import contextlib, importlib.machinery as machinery, io, json, os, random, runpy, sys, types
changed = json.loads(os.environ["CHECK_CHANGED"])
original = machinery.SourceFileLoader.get_code
def get_code(self, name):
    path = os.path.realpath(self.get_filename(name))
    return compile(changed[path], path, "exec") if path in changed else original(self, name)
machinery.SourceFileLoader.get_code = get_code
import torch
file, out, mode = sys.argv[1:]
graphs = []
def counting(module, inputs):
    graphs.append(1)
    return module.forward
text = changed.get(os.path.realpath(file)) or open(file).read()
sys.path.insert(0, os.path.dirname(file))
torch.manual_seed(0)
module = types.ModuleType("checked_model")
sys.modules["checked_model"] = module
module.__file__ = file
printed = io.StringIO()
results = []
compile_ = torch.compile
def counted(model=None, **options):
    options = {k: v for k, v in options.items() if k in ("dynamic", "fullgraph")}
    return compile_(model, backend=counting, **options) if model is not None else (lambda f: counted(f, **options))
if mode == "program":
    torch.compile = counted
    if os.environ.get("CHECK_EAGER"):
        torch.compile = lambda model=None, **options: model if model is not None else (lambda f: f)
    module.__name__ = "__main__"
    sys.modules["__main__"] = module
    sys.argv = [file]
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(text, file, "exec"), module.__dict__)
        except Exception as error:
            results.append(f"{type(error).__name__}")
else:
    exec(compile(text, file, "exec"), module.__dict__)
    made = module.model if isinstance(module.model, torch.nn.Module) or not callable(module.model) else None
    method, _, word = os.environ.get("CHECK_CALL", "").partition(" ")
    def fresh():
        torch.manual_seed(0)
        import copy, inspect
        built = copy.deepcopy(made) if made is not None else module.model
        built = built() if made is None and not inspect.signature(built).parameters else built
        if method:
            getattr(built, method)(word)
        return built
    def call(model, args):
        if isinstance(args, dict):
            return model(**args)
        return model(*(args if isinstance(args, (tuple, list)) else (args,)))
    ways = [module.inputs if callable(module.inputs) else (lambda: module.inputs)]
    ways += [each for each in getattr(module, "scenarios", {}).values() if callable(each)]
    if os.environ.get("CHECK_EAGER"):
        for number in range(12):
            for way in ways:
                torch.manual_seed(1000 + number)
                factor = [1.0, -1.0, 3.0, 0.01, 100.0, -20.0][number % 6]
                args = way()
                args = torch.utils._pytree.tree_map(
                    lambda v: torch.randn_like(v) * factor if isinstance(v, torch.Tensor) and v.is_floating_point()
                    and number >= 2 else v, args)
                with contextlib.redirect_stdout(printed):
                    try:
                        found = call(fresh(), args)
                    except Exception as error:
                        found = type(error).__name__
                leaves = torch.utils._pytree.tree_leaves(found)
                results.append([v.detach() if isinstance(v, torch.Tensor) else repr(v) if not hasattr(v, "__dict__")
                                else type(v).__name__ for v in leaves])
    else:
        model = compile_(fresh(), backend=counting)
        for way in [each for each in ways for _ in range(2)]:
            torch.manual_seed(1)
            with contextlib.redirect_stdout(printed), contextlib.suppress(Exception):
                call(model, way())
torch.save([results, printed.getvalue(), len(graphs)], out)
"""
_CALL = re.compile(r"model\.(\w+)\('(\w+)'\) before the first call")
_NAME = re.compile(r"^--- a/(.+)$", re.MULTILINE)


def main() -> int:
    """Check all proved repairs of a report; return 1 if one is wrong."""
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    tally: Counter[str] = Counter()
    for row in json.loads(Path(sys.argv[1]).read_text()):
        known: dict[str, Any] = {}
        for repair in row["repairs"]:
            verdict = _verdict(row, repair, known)
            tally[verdict.partition(":")[0]] += 1
            if not verdict.startswith("right"):
                print(f"{row['target']} {repair['name']}: {verdict}", flush=True)
    print(", ".join(f"{number} {verdict}" for verdict, number in tally.items()))
    return int(bool(tally["wrong"]))


def _verdict(row: dict[str, Any], repair: dict[str, Any], known: dict[str, Any]) -> str:
    """Compare both texts; `known` keeps what the unchanged text did."""
    called = _CALL.fullmatch(repair["how"] or "")
    if not repair["patch"] and called is None:
        return "not checked: it changes no file"
    call = " ".join(called.groups()) if called is not None else ""
    changed = _changed(repair["patch"]) if repair["patch"] else {}
    if repair["patch"] and not changed:
        return "wrong: the patch does not apply"
    if not known:
        known |= {"eager": _observed(row, {}, eager=True), "compiled": _observed(row, {}, eager=False)}
    eager, compiled = _observed(row, changed, call, eager=True), _observed(row, changed, call, eager=False)
    if known["eager"] is None or eager is None or known["compiled"] is None or compiled is None:
        return "not checked: it does not run alone"
    drops = bool(repair["question"])
    apart = _apart(known["eager"], eager, rounded=repair["changes_arithmetic"], printed=not drops)
    if apart:
        return f"wrong: eager differs: {apart}"
    before, after = known["compiled"][2], compiled[2]
    if after > before > 0:  # from none to one: nothing was compiled before
        return f"wrong: {before} graphs before, {after} after"
    return f"right: {before} -> {after} graphs"


def _changed(patch: str) -> dict[str, str]:
    """Apply a patch to copies; return the new texts by path."""
    with tempfile.TemporaryDirectory() as folder:
        names = _NAME.findall(patch)
        places = {name: Path(name) if Path(name).exists() else Path("/") / name for name in names}
        for name, place in places.items():
            copy = Path(folder) / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(place.read_bytes())
        ran = subprocess.run(["git", "apply", "-"], cwd=folder, input=patch.encode(), capture_output=True, check=False)
        if ran.returncode:
            return {}
        return {os.path.realpath(place): (Path(folder) / name).read_text() for name, place in places.items()}


def _observed(row: dict[str, Any], changed: dict[str, str], call: str = "", *, eager: bool) -> Any:
    text = Path(row["file"]).read_text()
    mode = "model" if re.search(r"^(?:def )?inputs\b", text, re.MULTILINE) else "program"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.pt"
        environment = {**os.environ, "CHECK_CHANGED": json.dumps(changed), "CTRACE_BENCH_MODEL": row["model"]}
        environment["CHECK_CALL"] = call
        environment |= {"CHECK_EAGER": "1"} if eager else {}
        command = [sys.executable, "-c", CHILD, row["file"], str(out), mode]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
        if not out.exists():
            print(ran.stderr[-300:], file=sys.stderr)
            return None
        return torch.load(out, weights_only=False)


def _apart(one: Any, other: Any, *, rounded: bool, printed: bool) -> str:
    if printed and one[1] != other[1]:
        return "it prints something else"
    before, after = list(_flat(one[0])), list(_flat(other[0]))
    if len(before) != len(after):
        return "another number of results"
    for was, now in zip(before, after, strict=True):
        if isinstance(was, torch.Tensor) and isinstance(now, torch.Tensor):
            if (was.dtype, was.shape) != (now.dtype, now.shape):
                return "another dtype or shape"
            same = _is_close(was, now) if rounded else _is_equal(was, now)
            if not same:
                return "other values"
        elif type(was) is not type(now) or was != now:
            return f"{str(was)[:60]} before, {str(now)[:60]} after"
    return ""


def _is_equal(was: torch.Tensor, now: torch.Tensor) -> bool:
    return torch.equal(was.contiguous().view(-1).view(torch.uint8), now.contiguous().view(-1).view(torch.uint8))


def _is_close(was: torch.Tensor, now: torch.Tensor) -> bool:
    return torch.allclose(was, now, rtol=1e-3, atol=1e-4, equal_nan=True)


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        for each in value:
            yield from _flat(each)
    else:
        yield value


if __name__ == "__main__":
    sys.exit(main())
