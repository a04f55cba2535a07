"""Say what plain torch.compile does to a case. This process imports torch and the case, and knows nothing of ctrace.

`_truth_oracle.py` serves requests: it imports torch once, reads one JSON request a line from standard input, forks a
process for each call of a case, and writes one JSON answer a line. A fork has its own process group, an empty home,
limits of time and memory, and ends with all that it started. See `answer` for a request's fields.

What is counted, and where torch 2.13 says it:

- graphs: calls of the backend, which is ours and runs each graph as it was captured
- sites: places of the entries `dynamo_graph_break_reason` of the structured trace, by innermost frame outside of torch
  and gb id (torch/_dynamo/symbolic_convert.py:log_graph_break). No counter of torch's counts breaks right
- recompiles: compilations that succeeded beyond a frame's first (the entries `compilation_metrics`)
- limit: functions that Dynamo gave up because they were compiled too often (`fail_reason` of the same entries)
- outside: ops that the profiler saw outside of every graph, in a call that compiled nothing; a composed op counts as
  the ops it calls
"""

import contextlib
import ctypes
import functools
import gc
import importlib
import importlib.machinery
import importlib.util
import json
import linecache
import logging
import os
import random
import re
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

_BROKE = re.compile(r"Graph break in user code at (?P<file>.*):(?P<line>\d+)")
_LINK = re.compile(r"/gb/gb(\d+)\.html", re.IGNORECASE)
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)', re.MULTILINE)
_LIBRARY = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3\.\d+[/\\]|^<")
_HUNK = re.compile(r"^@@ -(?P<start>\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_GRAPH, _COMPILE = "truth: graph", "truth: compile"
_M_PERTURB = -6
"""The name of a setting in glibc's malloc.h."""
_MOST_TEXT = 400
_MOST_CALLS_LISTED = 12


class Trace(logging.Handler):
    """Keeps what torch's structured trace says about breaks, compilations and limits."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.breaks: Counter[tuple[str, int, str]] = Counter()
        self.users: dict[tuple[str, int, str], set[tuple[str, int]]] = {}
        self.why: dict[tuple[str, int, str], str] = {}
        self.made: list[str] = []
        self.reasons: list[str] = []
        self.limits: list[str] = []
        self.failures: list[str] = []
        self.starts = 0

    def emit(self, record: logging.LogRecord) -> None:
        about = getattr(record, "metadata", {})
        payload = str(getattr(record, "payload", "") or "")
        name = about.get("artifact", {}).get("name")
        compilation = f"{about.get('frame_id')}/{about.get('frame_compile_id')}"
        if name == "dynamo_graph_break_reason":
            self._broke(payload)
        elif name == "recompile_reasons":
            self.reasons.append(f"{compilation}: {payload[:_MOST_TEXT]}")
        elif "dynamo_start" in about:
            self.starts += 1
        elif "compilation_metrics" in about:
            self._compiled(compilation, about["compilation_metrics"])

    def _broke(self, text: str) -> None:
        match = _BROKE.match(text)
        if match is None:
            return
        head, _, stack = text.partition("\nUser code traceback:\n")
        reason = head.partition("\n*** While handling this graph break")[0]
        gb = ",".join(dict.fromkeys(f"GB{number}" for number in _LINK.findall(reason)))
        frames = [(each["file"], int(each["line"])) for each in _FRAME.finditer(stack.partition("\n\n")[0])]
        own = [each for each in frames if not _LIBRARY.search(each[0]) and each[0] != __file__]
        # Torch traces some calls, such as that of a class, through polyfills of its own: they are no place of a break.
        others = (f"{Path(sys.modules['torch'].__file__ or '').parent}{os.sep}", __file__)
        innermost = next((each for each in reversed(frames) if not each[0].startswith(others)), None)
        place = (*(innermost or (match["file"], int(match["line"]))), gb)
        self.breaks[place] += 1
        # Torch leaves out a caller that has the name of what it calls (exc.py:collapse_resume_frames, 2.13).
        last = (own or frames or [place[:2]])[-1]
        self.users.setdefault(place, set()).add(last)
        self.why.setdefault(place, reason.partition("Graph Break Reason: ")[2][:_MOST_TEXT])

    def _compiled(self, compilation: str, metrics: dict[str, Any]) -> None:
        reason = str(metrics.get("fail_reason") or "")
        if metrics.get("fail_type") is None:
            self.made.append(compilation)
        elif "recompile limit" in reason or "recompile_limit" in reason:
            self.limits.append(f"{metrics.get('co_filename')}:{metrics.get('co_firstlineno')} {metrics.get('co_name')}")
        else:
            self.failures.append(f"{metrics.get('fail_type')}: {reason[:_MOST_TEXT]}")

    def counts(self) -> dict[str, Any]:
        frames = Counter(each.partition("/")[0] for each in set(self.made))
        return {
            "sites": [
                {
                    "file": file,
                    "line": line,
                    "gb": gb,
                    "users": sorted(self.users[file, line, gb]),
                    "times": times,
                    "why": self.why[file, line, gb],
                }
                for (file, line, gb), times in self.breaks.items()
            ],
            "recompiles": sum(number - 1 for number in frames.values()),
            "reasons": self.reasons[:50],
            "limit": sorted(set(self.limits)),
            "failures": self.failures[:10],
        }


class Counting:
    """A backend that counts graphs and runs each as it was captured."""

    def __init__(self) -> None:
        self.graphs = 0
        self.ops = 0

    def __call__(self, graph: Any, _inputs: Any) -> Any:
        torch: Any = importlib.import_module("torch")
        self.graphs += 1
        self.ops += sum(node.op.startswith("call_") for node in graph.graph.nodes)

        @torch.compiler.disable  # type: ignore[untyped-decorator]
        def run(*args: Any) -> Any:
            with torch.profiler.record_function(_GRAPH):
                return graph.forward(*args)

        return run


def serve() -> None:
    """Answer the requests of standard input until it ends."""
    import torch
    import torch._dynamo
    import torch._dynamo.convert_frame
    import torch.profiler

    torch.set_num_threads(1)
    for each in _imported_by_a_compile():
        with contextlib.suppress(ImportError):
            importlib.import_module(each)
    gc.collect()
    gc.freeze()  # a collection in a fork would copy every page
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(forked(request)), flush=True)


def _imported_by_a_compile() -> list[str]:
    """Return what torch imports when it compiles a first function, so that forks need not import it again."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        import torch

        before = set(sys.modules)
        torch.compile(torch.nn.Linear(2, 2), backend="eager")(torch.zeros(1, 2))
        os.write(writing, "\n".join(sorted(set(sys.modules) - before)).encode()[: 1 << 16])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        names = pipe.read().split()
    os.waitpid(pid, 0)
    return [each for each in names if each.startswith("torch.")]


def forked(request: dict[str, Any]) -> dict[str, Any]:
    """Answer a request in a fork with a process group of its own; a fork that ends early or late is an answer, too."""
    result = Path(request["folder"]) / "answer.json"
    result.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        _in_fork(request, result)
    status = _waited(pid, request["seconds"])
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    answered: dict[str, Any] = json.loads(result.read_text()) if result.exists() else {}
    if status is None:
        return {**answered, "ended": f"ran out of time ({request['seconds']:.0f} s)"}
    if os.WIFSIGNALED(status):
        return {**answered, "ended": f"killed by signal {os.WTERMSIG(status)}"}
    return answered or {"ended": f"exit status {os.WEXITSTATUS(status)} without an answer"}


def _waited(pid: int, seconds: float) -> int | None:
    """Return the status of a process that ended in time; kill the group of one that did not."""
    until, pause = time.monotonic() + seconds, 0.01
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _in_fork(request: dict[str, Any], result: Path) -> None:
    os.setpgid(0, 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(Path(request["folder"]) / f"oracle-{request['what']}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if request.get("memory"):
        resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ.update(request.get("environment", {}))
    os.chdir(request["folder"])

    def keep(found: dict[str, Any]) -> None:
        partial = result.with_suffix(".new")
        partial.write_text(json.dumps(found))
        partial.replace(result)

    try:
        keep(answer(request, keep))
    except BaseException as error:
        traceback.print_exc()
        keep({"ended": f"{type(error).__name__}: {error}"[:_MOST_TEXT]})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def answer(request: dict[str, Any], keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Load a case and call it, in eager or compiled.

    `file` is the model file, `what` "eager" or "compiled", `calls` how often to call, `train` whether to run the
    backward, `change` what to change first (see `_Change`), `paths` folders to import from, `counted_at` the calls
    after which counts are taken, `fill` a byte for the memory that the case does not write itself. `keep` saves what is
    known so far, for a fork that is killed later.
    """
    if request.get("fill"):
        # What malloc returns has the complement of this byte everywhere (mallopt(3), M_PERTURB).
        ctypes.CDLL(None).mallopt(_M_PERTURB, request["fill"])
    sys.path[:0] = [str(Path(request["file"]).parent), *request.get("paths", [])]
    sys.argv = [request["file"]]
    change = _Change(request.get("change") or {})
    try:
        change.install()
        known = _loaded(Path(request["file"]))
        model = known["model"]
        import torch

        if not isinstance(model, torch.nn.Module) and _is_factory(model):
            model = model()
    except BaseException as error:
        return {"not_loaded": _described(error), "change": change.report}
    _seed()
    made = known["inputs"]
    call = _Call(model, made if callable(made) else lambda: made, change, train=bool(request.get("train")))
    if request["what"] == "eager":
        return {**_eagerly(call, request["calls"]), "versions": _versions(request.get("packages", []))}
    found = _compiled(call, request, keep)
    return {**found, "change": change.report}


def _seed() -> None:
    """Let two runs draw the same numbers: a result that differs then was changed, also in training."""
    import torch

    random.seed(0)
    torch.manual_seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)


def _is_factory(model: Any) -> bool:
    import inspect

    try:
        return not inspect.signature(model).parameters
    except (TypeError, ValueError):
        return False


def _versions(packages: list[str]) -> dict[str, str]:
    from importlib import metadata

    import torch

    found = {"torch": str(torch.__version__), "python": sys.version.split()[0]}
    for each in packages:
        try:
            found[each] = metadata.version(each)
        except metadata.PackageNotFoundError:
            found[each] = "not installed"
    return found


def _loaded(path: Path) -> dict[str, Any]:
    """Import a model file as a module, which Dynamo looks up by its name."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return vars(module)


class _Call:
    """Calls a model as the case asks: with new inputs each time, and with the backward if it trains."""

    def __init__(self, model: Any, made: Callable[[], Any], change: "_Change", *, train: bool) -> None:
        import torch

        self.model, self._made, self._change, self._train = model, made, change, train
        if train and isinstance(model, torch.nn.Module):
            model.train()

    def prepared(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = self._made()
        args, kwargs = ((), given) if isinstance(given, dict) else (tuple(given), {})
        self._change.mark(self.model, args, kwargs)
        return args, kwargs

    def __call__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._change.around():
            result = function(*args, **kwargs)
        if self._train:
            _sum(result).backward()
        return result


def _sum(result: Any) -> Any:
    import torch
    from torch.utils import _pytree

    leaves = [each for each in _pytree.tree_leaves(result) if isinstance(each, torch.Tensor) and each.requires_grad]
    return sum(each.sum() for each in leaves)


def _eagerly(call: _Call, calls: int) -> dict[str, Any]:
    """Call the model without torch.compile; count the ops of the first call, and those of the second in another way."""
    torch: Any = importlib.import_module("torch")
    modes: Any = importlib.import_module("torch.utils._python_dispatch")
    # Distributions validate no arguments in a process that compiles (torch/_dynamo/eval_frame.py:TorchPatcher, 2.13).
    torch.compile(torch.nn.Identity(), backend="eager")

    class Ops(modes.TorchDispatchMode):  # type: ignore[misc]
        ops = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.ops += getattr(func, "namespace", "") == "aten"
            return func(*args, **(kwargs or {}))

    prints: list[Any] = []
    found: dict[str, Any] = {"prints": prints, "error": None}
    try:
        for index in range(calls):
            args, kwargs = call.prepared()
            # A mode sees autograd save results, as those of an LSTM, and the profiler not all that a mode does.
            watched = (_profiler(), Ops())
            with watched[index] if index < len(watched) else contextlib.nullcontext():
                result = call(call.model, args, kwargs)
            if index == 0:
                found["ops"] = _outside(watched[0])["ops"]
            elif index == 1:
                found["dispatched"] = watched[1].ops
            prints.append(_print(result))
    except BaseException as error:
        found["error"] = _described(error)
    return found


def _compiled(call: _Call, request: dict[str, Any], keep: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Compile the model and call it; count after each of the calls of `counted_at`."""

    trace, backend = Trace(), Counting()
    torch_trace = logging.getLogger("torch.__trace")
    torch_trace.setLevel(logging.DEBUG)
    torch_trace.addHandler(trace)
    _mark_compiles()
    found: dict[str, Any] = {"error": None, "prints": [], "calls": 0, "outside": {}, "seconds": []}
    function = call._change.compiled(call.model, backend)
    for index in range(request["calls"]):
        began, starts, watched = time.monotonic(), trace.starts, False
        try:
            args, kwargs = call.prepared()
            # Where nothing broke in two calls, a later call of the same graphs needs no second look.
            watched = index + 1 in request["counted_at"] and not request.get("train")
            watched = watched and (index < request["counted_at"][0] or bool(trace.breaks or trace.limits))
            with _profiler() if watched else contextlib.nullcontext() as profile:
                result = call(function, args, kwargs)
            found["prints"].append(_print(result))
        except BaseException as error:
            found["error"] = {**_described(error), "call": index}
        found["seconds"].append(round(time.monotonic() - began, 3))
        found["calls"] = index + 1
        if watched and profile is not None and not found["error"] and trace.starts == starts:
            found["outside"][str(index + 1)] = _outside(profile)
        if index + 1 in request["counted_at"] or found["error"]:
            found[f"after_{index + 1}"] = {"graphs": backend.graphs, "ops": backend.ops, **trace.counts()}
            keep(found)
        if found["error"]:
            break
    found["last"] = {"graphs": backend.graphs, "ops": backend.ops, **trace.counts()}
    return found


def _mark_compiles() -> None:
    """Let the profiler see when Dynamo compiles: what it dispatches then, it does not run for the model."""
    torch: Any = importlib.import_module("torch")
    from torch._dynamo.callback import callback_handler

    open_marks: list[Any] = []

    def start(*_: Any) -> None:
        open_marks.append(torch.profiler.record_function(_COMPILE).__enter__())

    def end(*_: Any) -> None:
        if open_marks:
            open_marks.pop().__exit__(None, None, None)

    callback_handler.register_start_callback(start)
    callback_handler.register_end_callback(end)


def _profiler() -> Any:
    import torch

    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], acc_events=True)


def _outside(profile: Any) -> dict[str, Any]:
    """Count the ops that ran in no graph, by name: those that a dispatcher sees, as eager counts are made of them.

    An op that is only composed of others, such as `aten::item` or `aten::to`, counts as what it calls.
    """
    names: Counter[str] = Counter()
    for event in profile.events():
        if not event.name.startswith("aten::") or _is_composed(event.name):
            continue
        above, parent = [], event.cpu_parent
        while parent is not None:
            above.append(parent.name)
            parent = parent.cpu_parent
        is_inside = any(each.startswith("aten::") and not _is_composed(each) for each in above)
        if not is_inside and _GRAPH not in above and _COMPILE not in above:
            names[event.name] += 1
    return {"ops": names.total(), "names": dict(names.most_common(8))}


@functools.cache
def _is_composed(name: str) -> bool:
    """Whether an op, named without its overload, has no kernel of its own below autograd."""
    torch: Any = importlib.import_module("torch")
    found = getattr(torch.ops.aten, name.removeprefix("aten::"), None)
    overloads = [f"{name}.{each}".removesuffix(".default") for each in found.overloads()] if found else []
    # TorchScript has overloads of its own, such as aten::add.t, that no dispatcher knows.
    known = [each for each in overloads if torch._C._dispatch_has_kernel(each)]
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(each, "CompositeImplicitAutograd") for each in known)


def _print(result: Any) -> Any:
    """Return shapes and sums of an output's tensors, to compare outputs across processes."""
    import torch
    from torch.utils import _pytree

    found = []
    for leaf in _pytree.tree_leaves(result)[:_MOST_CALLS_LISTED]:
        if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu" and leaf.layout == torch.strided:
            try:
                values = leaf.detach().to(torch.float64)
                found.append([list(leaf.shape), float(values.sum()), float(values.abs().sum())])
            except (RuntimeError, TypeError, NotImplementedError):
                found.append([type(leaf).__name__])
        elif isinstance(leaf, int | float):
            found.append([type(leaf).__name__, float(leaf)])
        else:
            found.append([type(leaf).__name__])
    return found


def _described(error: BaseException) -> dict[str, str]:
    text = str(error)
    cause = error.__cause__
    return {
        "type": type(error).__name__,
        "message": text[:_MOST_TEXT],
        "cause": "" if cause is None else f"{type(cause).__name__}: {cause}"[:_MOST_TEXT],
        "trace": traceback.format_exc()[-1500:],
    }


class _Change:
    """What a piece of advice says to change, carried out in plain torch.

    `settings` are statements to run before anything is compiled, `arguments` go to torch.compile, `patches` are unified
    diffs of files, `lines` new texts of single lines, `texts` new texts of files, `place` are statements to run in
    place of `model = torch.compile(model)`, `marked` dimensions to mark dynamic, `grad` "off" calls it under no_grad,
    `model` statements to run on the model first. A change that does not apply is said in `report`.
    """

    def __init__(self, change: dict[str, Any]) -> None:
        self._change = change
        self.report: list[str] = []
        self._texts: dict[str, str] = {}
        for patch in change.get("patches", []):
            self._patch(patch["file"], patch["text"])
        for line in change.get("lines", []):
            self._line(line["file"], line["line"], line["text"])
        for whole in change.get("texts", []):
            self._texts[str(Path(whole["file"]).resolve())] = whole["text"]

    def _text(self, file: str) -> str:
        path = str(Path(file).resolve())
        if path not in self._texts:
            self._texts[path] = Path(path).read_text(encoding="utf-8")
        return self._texts[path]

    def _line(self, file: str, line: int, text: str) -> None:
        lines = self._text(file).split("\n")
        lines[line - 1] = text
        self._texts[str(Path(file).resolve())] = "\n".join(lines)

    def _patch(self, file: str, diff: str) -> None:
        try:
            self._texts[str(Path(file).resolve())] = patched(self._text(file), diff)
        except (ValueError, OSError) as error:
            self.report.append(f"{Path(file).name}: {error}")

    def install(self) -> None:
        """Import changed files with their new text from now on; those on disk do not change."""
        texts = self._texts
        loader: Any = importlib.machinery.SourceFileLoader
        original = loader.get_data

        def get_data(self: Any, path: str) -> bytes:
            real = os.path.realpath(path)
            if real in texts:
                return texts[real].encode()
            if real.endswith(".pyc") and _source_of(real) in texts:
                raise OSError("its source is changed")
            return bytes(original(self, path))

        def cache_nothing(*_: Any, **__: Any) -> None:
            """Bytecode of a changed file must not outlive this process."""

        if texts:
            loader.get_data, loader._cache_bytecode = get_data, cache_nothing
        for file, text in texts.items():
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)

    def compiled(self, model: Any, backend: Any) -> Any:
        """Compile the model as the change says."""
        torch: Any = importlib.import_module("torch")
        for each in self._change.get("settings", []):
            self._run(each, {"torch": torch})
        for each in self._change.get("model", []):
            self._run(each, {"torch": torch, "model": model})
        for each in self._change.get("ignored", []):
            module, _, name = each.partition(":")
            found: Any = importlib.import_module(module)
            for part in name.split("."):
                found = getattr(found, part)
            torch._dynamo.config.ignore_logging_functions.add(found)
        arguments = dict(self._change.get("arguments", {}))
        place = self._change.get("place")
        if not place:
            return torch.compile(model, backend=backend, **arguments)
        plain = torch.compile

        def compile_with(*args: Any, **kwargs: Any) -> Any:
            return plain(*args, **{**arguments, **kwargs, "backend": backend})

        names = {"torch": torch, "model": model}
        torch.compile = compile_with
        try:
            self._run(place, names)
        finally:
            torch.compile = plain
        return names["model"]

    def mark(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Mark dimensions dynamic in this call's arguments."""
        import inspect

        import torch

        for each in self._change.get("marked", []):
            name = str(each["argument"])
            if name.isdigit():
                value = args[int(name)]
            else:
                function = model.forward if isinstance(model, torch.nn.Module) else model
                value = inspect.signature(function).bind(*args, **kwargs).arguments[name]
            torch._dynamo.mark_dynamic(value, int(each["dim"]))

    def around(self) -> Any:
        """Return the context to call the model in."""
        import torch

        return torch.no_grad() if self._change.get("grad") == "off" else contextlib.nullcontext()

    def _run(self, text: str, names: dict[str, Any]) -> None:
        try:
            exec(text, names)
        except Exception as error:
            self.report.append(f"{text!r}: {type(error).__name__}: {error}")


def _source_of(cached: str) -> str:
    try:
        return os.path.realpath(importlib.util.source_from_cache(cached))
    except ValueError:
        return ""


def patched(text: str, diff: str) -> str:
    """Apply a unified diff of one file.

    Raises:
        ValueError: a hunk does not fit.
    """
    lines, result, at = text.split("\n"), [], 0
    body = diff.split("\n")
    if not any(_HUNK.match(each) for each in body):
        raise ValueError("the patch has no hunk")
    for each in body:
        if match := _HUNK.match(each):
            start = max(int(match["start"]) - 1, 0)
            result += lines[at:start]
            at = start
        elif each.startswith(("--- ", "+++ ", "diff ", "index ", "\\")) or (not each and each is body[-1]):
            continue
        elif each.startswith("+"):
            result.append(each[1:])
        else:
            if at >= len(lines) or lines[at] != each[1:]:
                raise ValueError(f"the patch does not fit line {at + 1}")
            result += lines[at : at + 1] if not each.startswith("-") else []
            at += 1
    return "\n".join([*result, *lines[at:]])


if __name__ == "__main__":
    if len(sys.argv) > 1:  # one request, for a look by hand
        print(json.dumps(forked(json.loads(Path(sys.argv[1]).read_text())), indent=1))
    else:
        serve()
