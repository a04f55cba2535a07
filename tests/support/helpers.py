"""Shared by several test files: a writer of small trace logs, and the recorded logs."""

import hashlib
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, Self

from hypothesis import settings
from hypothesis import strategies as st

from ctrace.inspector.facts.session import Failure, Session
from ctrace.inspector.log.dispatch import decode
from ctrace.inspector.log.reader import Broken, LogEntry, parse, read
from ctrace.inspector.session.build import build
from tests.support.places import DATA
from tests.support.sampling import examples

PROJECT = "/home/user/project"
MODEL = f"{PROJECT}/model.py"
SITE = "/venv/lib/python3.11/site-packages"
HOME = f"{SITE}/ctrace/inspector/capture"
PREFIXES = {"/usr/lib/python3.11": "library", SITE: "library"}
TORCH_PREFIXES = {f"{SITE}/torch": "torch"}
CAUSE_KINDS = frozenset(
    (
        "size", "zero_one", "range", "duck_shape", "stride", "dtype", "device", "layout", "requires_grad",
        "dispatch_keys", "grad_mode", "autocast", "global_state", "training_mode", "attribute_value",
        "argument_value", "global_value", "closure_value", "break_result", "length", "key_order", "none", "type",
        "identity", "aliasing", "other",
    )
)  # fmt: skip
"""All words for causes."""

Place = tuple[str, int, str]
"""File, line and function."""

REST_IN_EAGER = (
    "Encountered graph break that we cannot resume from. Compiling up to the previous resumable state, "
    "then skipping the rest of the function. Graph break encountered:"
)
SKIPPED = (
    "Failed to handle graph break gracefully. Skipping the function and falling back to eager. Graph break encountered:"
)
"""The start of torch's report of a break after which the function does not resume (2.13)."""

GUARD_COST = {
    "cold": 40.0, "warm": 6.0, "plain": {"cold": 41.0, "warm": 6.0}, "root": {"cold": 4.0, "warm": 1.0}, "epilogue": 0.5,
    "parts": [{"source": "L['x']", "depth": 0, "guards": 3, "cold": 9.0, "warm": 2.0}],
    "kinds": [{"kind": "TENSOR_MATCH", "number": 3, "warm": 1.5}],
}  # fmt: skip
"""The cost of guards, as ctrace's hook writes it."""

fuzzing = settings(deadline=None, derandomize=True, database=None, max_examples=examples(40))
"""For property tests: the same examples on every run, so that failures are reproducible."""
_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
any_json = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)


class Log:
    """Writes a trace log in torch's format, record by record; every method returns the log.

    `at` is a compile id, such as `"0/1"`, for records that belong to a compilation. Files are written as numbers;
    the first use of a number also writes the file's name.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._files: dict[str, int] = {}

    def line(self, text: str) -> Self:
        """Add an unchanged line."""
        self._lines.append(f"{text}\n")
        return self

    def record(
        self, kind: str, data: Any, *, at: str | None = None, attempt: int = 0, payload: str | None = None
    ) -> Self:
        """Add any record of torch, with the checksum of its payload."""
        fields = {kind: data}
        if at is not None:
            frame, _, number = at.partition("/")
            fields |= {"frame_id": int(frame), "frame_compile_id": int(number), "attempt": attempt}
        if payload is not None:
            fields["has_payload"] = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
        self.line(f"V0102 03:04:05.000006 77 torch/_logging/structured.py:28] {json.dumps(fields)}")
        if payload is not None:
            self.line("\t" + payload.replace("\n", "\n\t"))
        return self

    def artifact(self, name: str, payload: str, *, at: str | None = None) -> Self:
        """Add an artifact of torch."""
        return self.record("artifact", {"name": name, "encoding": "string"}, at=at, payload=payload)

    def ctrace(self, name: str, payload: Any, *, at: str | None = None) -> Self:
        """Add a record of ctrace."""
        return self.artifact(f"ctrace_{name}", json.dumps(payload), at=at)

    def started(self, schema: int = 1) -> Self:
        """Add the first records of a capture: its own versions and folders, then torch's."""
        versions = {"schema": schema, "ctrace": "0.1.0", "python": "3.11.7", "triton": None}
        self.ctrace("start", {**versions, "cwd": PROJECT, "prefixes": PREFIXES, "home": HOME})
        return self.ctrace("torch", {"torch": "2.13.0", "prefixes": TORCH_PREFIXES})

    def ended(self) -> Self:
        """Add the last records of a capture."""
        return self.ctrace("end", {})

    def frame(self, at: str, name: str = "forward", line: int = 8, file: str = MODEL, attempt: int = 0) -> Self:
        """Start a compilation of the function `name`."""
        stack = [{"filename": self.file(file), "line": line, "name": name}]
        return self.record("dynamo_start", {"stack": stack}, at=at, attempt=attempt)

    def file(self, name: str) -> int:
        """Return a file's number; write its name on first use."""
        if name not in self._files:
            self._files[name] = len(self._files)
            self.record("str", [name, self._files[name]])
        return self._files[name]

    def graph(self, at: str, ops: int = 2, backend: str = "eager") -> Self:
        """Add the records of a captured graph, torch's and ctrace's."""
        return self.ctrace("graph", {"backend": backend, "ops": ops}, at=at).record("dynamo_output_graph", {}, at=at)

    def compiled(self, at: str, name: str = "forward", line: int = 8, ops: int = 2) -> Self:
        """Add all records of a compilation with one graph."""
        return self.frame(at, name, line).graph(at, ops).metrics(at)

    def metrics(self, at: str, *, backward: bool = False, **values: Any) -> Self:
        """Add torch's metrics of a compilation."""
        return self.record("bwd_compilation_metrics" if backward else "compilation_metrics", values, at=at)

    def limit_hit(self, at: str) -> Self:
        """Add the record of a compilation that Dynamo refuses."""
        reason = "Dynamo recompile limit exceeded\n  Explanation: Dynamo attempted to recompile too often"
        return self.frame(at).metrics(at, fail_type="Unsupported", fail_reason=reason)

    def bytecode(
        self, at: str, name: str = "forward", line: int = 8, file: str = MODEL, callers: Iterable[Place] = ()
    ) -> Self:
        """Add the record of the bytecode hook, with the function's callers, outermost first."""
        seen = {"name": name, "qualname": f"Net.{name}", "file": file, "line": line, "callers": stack_of(callers)}
        return self.ctrace("bytecode", {**seen, "bytes_before": 48, "bytes_after": 164}, at=at)

    def gave_up(self, at: str, name: str = "forward", line: int = 8, file: str = MODEL, **values: Any) -> Self:
        """Add the records of a function on which Dynamo fails."""
        return self.frame(at, name, line, file).metrics(at, **{"fail_type": "Unsupported", **values})

    def left_alone(
        self,
        name: str = "forward",
        line: int = 8,
        *,
        rule: str = "no_tensor",
        file: str = MODEL,
        callers: Iterable[Place] = (),
        fullgraph: bool = False,
    ) -> Self:
        """Add the record of a function that Dynamo skips without trying."""
        code = {"name": name, "qualname": f"Net.{name}", "file": file, "line": line}
        stack = stack_of([*callers, (file, line, name)])
        return self.ctrace("frame", {**code, "rule": rule, "reason": None, "fullgraph": fullgraph, "stack": stack})

    def listing(self, text: str, file: str = MODEL) -> Self:
        """Add the text of a file."""
        return self.ctrace("listing", {"file": file, "text": text})

    def counters(self, **counts: Any) -> Self:
        """Add torch's counters: `frames`, `graph_break`, `stats` and `recompile_limit`."""
        return self.ctrace("counters", counts)

    def breaks(self, at: str, **parts: Any) -> Self:
        """Report a break; `parts` are those of `break_text`."""
        return self.artifact("dynamo_graph_break_reason", break_text(**parts), at=at)

    def symbol(self, at: str, source: str, name: str = "s0") -> Self:
        """Add the record of a new symbol for a size, a stride or a number."""
        return self.record("create_symbol", {"symbol": name, "val": "8", "vr": "[2, int_oo]", "source": source}, at=at)

    def symbol_fixed(self, at: str, name: str, value: str, line: int) -> Self:
        """Add the record of a model's line that specializes a symbol to one value."""
        stack = [{"filename": self.file(MODEL), "line": line, "name": "forward", "loc": ""}]
        asked = {"sources": [], "reason": "range()", "user_stack": stack, "stack": []}
        return self.record("symbolic_shape_specialization", {"symbol": name, "value": value, **asked}, at=at)

    def guards(self, at: str, tree: str) -> Self:
        """Add a guard tree as torch prints it."""
        return self.record("dynamo_cpp_guards_str", {}, at=at, payload=tree)

    def recompile(self, at: str, *entries: dict[str, Any]) -> Self:
        """Add the unmet guards of cache entries, newest first; `unmet` makes an entry."""
        return self.ctrace("recompile", {"entries": list(entries)}, at=at)

    def scenario(self, name: str, calls: int = 2) -> Self:
        """End a scenario."""
        return self.ctrace("scenario", {"name": name, "calls": calls})

    def ops(
        self,
        eager: int,
        left: int | None = None,
        *,
        scenario: str = "base",
        functions: Iterable[tuple[str, int, str, int]] = (),
        stacks: Iterable[tuple[Sequence[Place], int]] = (),
    ) -> Self:
        """Add the op counts of a scenario's call: all ops in eager, and those that ran eagerly when compiled.

        A function is its file, first line, qualified name and ops; a stack has its places and ops.
        """
        counted = [{"file": file, "line": line, "name": name, "ops": ops} for file, line, name, ops in functions]
        found = [{"frames": stack_of(places), "ops": ops} for places, ops in stacks]
        data = {"scenario": scenario, "eager": eager, "left": left, "functions": counted}
        return self.ctrace("ops", data if left is None else {**data, "stacks": found})

    def kernel(self, at: str, name: str, stacks: Sequence[str] = (), ops: Sequence[str] = (), **more: Any) -> Self:
        """Add a call of a kernel."""
        made = {"stage": "inference", "name": name, "language": "cpp", "ops": list(ops), "stacks": list(stacks)}
        return self.ctrace("kernel", {**made, **more}, at=at)

    @property
    def text(self) -> str:
        """The whole log."""
        return "".join(self._lines)

    def entries(self) -> list[LogEntry | Broken]:
        """Read the log."""
        return parsed(self.text)

    def session(self, failure: Failure | None = None, seconds: float | None = None) -> Session:
        """Read the log and build its session."""
        return build(self.entries(), failure=failure, seconds=seconds)


def whole() -> Log:
    """A capture of one model, compiled as one graph and called twice."""
    return Log().started().compiled("0/0").scenario("base").ops(5, 0).ended()


def stack_of(places: Iterable[Place]) -> list[dict[str, Any]]:
    """Write a stack as in ctrace's own records."""
    return [{"file": file, "line": line, "name": name} for file, line, name in places]


def parsed(log: str | bytes) -> list[LogEntry | Broken]:
    """Read a log from memory, with lines split and decoded as in `read`."""
    data = log if isinstance(log, bytes) else log.encode("utf-8", "surrogatepass")
    return list(parse(io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="replace", newline="\n")))


def break_text(
    *,
    gb: Sequence[str] = ("0059",),
    title: str = "Failed to trace builtin operator",
    explanation: str = "Dynamo does not know how to trace `print`",
    hints: Sequence[str] = ("Avoid calling `print`.",),
    frames: Sequence[tuple[Any, ...]] = ((MODEL, 10, "forward", "print(x)"),),
    lead: str = "Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):",
    consequence: str = "",
    context: str = "builtin print [] False",
) -> str:
    """Write a break's text as torch 2.13 does; frames are file, line, function and source, outermost first.

    A fifth part of a frame is a line of carets below its source. `consequence` is the title of another break that this
    one causes.
    """
    file, line, *_ = frames[-1] if frames else (MODEL, 10)
    reason = [f"{title}", f"  Explanation: {explanation}", *(f"  Hint: {hint}" for hint in hints)]
    links = [f" For more details, please visit: https://example.org/break-site/gb/gb{id_}.html" for id_ in gb]
    if consequence:
        links += ["\n*** While handling this graph break, another graph break occurred: ***", f"\n{consequence}"]
    stack = ["\n    ".join((f'  File "{file}", line {line}, in {name}', *texts)) for file, line, name, *texts in frames]
    return "\n".join(
        (
            f"Graph break in user code at {file}:{line}",
            f"Graph Break Reason: {lead}",
            "",
            *reason,
            "",
            f"  Developer debug context: {context}",
            "",
            *links,
            "",
            "User code traceback:",
            *stack,
            "",
            "Traceback (most recent call last):",
            f'  File "{SITE}/torch/_dynamo/symbolic_convert.py", line 1076, in wrapper',
            "    return inner_fn(self, inst)",
            "",
        )
    )


def unmet(*guards: str, entry: str = "0/0", lines: Sequence[int] = (), **more: Any) -> dict[str, Any]:
    """Make a cache entry with unmet guards, as ctrace's recompile hook writes it; `lines` are the stack of each guard."""
    stack = stack_of((MODEL, line, "forward") for line in lines)
    shown = [{"guard": guard, "now": None, "stack": stack, "hint": "", **more} for guard in guards]
    return {"id": entry, "unmet": shown, "number": len(shown)}


def recorded(name: str) -> Session:
    """Build the session of a log in tests/data; `tests/support/record.py` made it from the script of that name."""
    return build(read(DATA / f"{name}.log"))


def decoded(name: str, data: Any, at: str = "0/0") -> Any:
    """Return one of ctrace's records, by its name in the log and its payload."""
    (entry,) = Log().ctrace(name, data, at=at).entries()
    assert isinstance(entry, LogEntry)
    return decode(entry)
