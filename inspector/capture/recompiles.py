"""Why a function was compiled again: the guards that the new call did not meet, with expected and actual values.

Source: `convert_frame.get_and_maybe_log_recompilation_reasons` (2.13, guards.py:5344), called at the start of every
recompile with all cache entries, newest first, and the new call's locals.
"""

import ast
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from ctrace.inspector.capture.patch import patched
from ctrace.inspector.capture.recorder import Recorder
from ctrace.inspector.capture.sources import When

_LONG = 200


@contextmanager
def recompiles(recorder: Recorder, when: When) -> Iterator[None]:
    """Record the first unmet guard of each cache entry at every recompile."""
    with ExitStack() as patches:

        def install(_dynamo: ModuleType) -> None:
            from torch._dynamo import convert_frame

            name = "get_and_maybe_log_recompilation_reasons"
            original = getattr(convert_frame, name)

            def reasons(cache_entries: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
                with recorder.watching("the guards behind a recompile"):
                    entries = [_unmet(entry, frame.f_locals) for entry in _listed(cache_entries)]
                    recorder.record("recompile", {"entries": entries, "closure": list(frame.f_code.co_freevars)})
                return original(cache_entries, frame, *args, **kwargs)

            with recorder.watching("recompiles"):
                patches.enter_context(patched(convert_frame, name, reasons))

        when("torch._dynamo", install)
        yield


def _listed(entries: Any) -> list[Any]:
    """Give all cache entries: a list since 2.13, before that the first of a chain (2.11, guards.py:4721)."""
    if isinstance(entries, list):
        return entries
    listed = []
    while entries is not None:
        listed.append(entries)
        entries = entries.next
    return listed


def _unmet(entry: Any, f_locals: dict[str, Any]) -> dict[str, Any]:
    manager = entry.guard_manager
    described: dict[str, Any] = {"id": str(entry.compile_id), "unmet": []}
    if hasattr(manager, "invalidation_reason"):  # stands for an entry whose guarded object is gone (guards.py:4998)
        described["invalid"] = str(manager.invalidation_reason)
        return described
    scope = {"L": f_locals, "G": manager.global_scope.get("G", {}), **manager.closure_vars}
    info = manager.check_verbose(f_locals)
    parts = _failing(list(info.verbose_code_parts), manager.global_scope, scope)
    described["unmet"] = [_guard(part, manager.global_scope, scope) for part in parts]
    described["stack"] = _stack(getattr(info, "user_stack", None))
    return described


def _failing(parts: list[str], global_scope: dict[str, Any], scope: dict[str, Any]) -> list[str]:
    """Pick the parts that are false; one part alone is the one that failed, or already a message."""
    if len(parts) <= 1:
        return parts
    return [part for part in parts if _evaluate(part, global_scope, scope) in (False, _FAILED)]


_FAILED = object()


def _evaluate(expression: str, global_scope: dict[str, Any], scope: dict[str, Any]) -> Any:
    # Guard expressions come from torch itself, in this process, and torch evaluates them the same way (guards.py:5270).
    try:
        return eval(expression, dict(global_scope), scope)
    except Exception:  # an attribute or item on the way is gone, which is itself why the guard failed
        return _FAILED


def _guard(part: str, global_scope: dict[str, Any], scope: dict[str, Any]) -> dict[str, Any]:
    code, _, comment = part.partition("  # ")
    guard: dict[str, Any] = {"guard": code.strip(), "comment": comment.strip()}
    subject = _subject(code)
    if subject is not None:
        value = _evaluate(subject, global_scope, scope)
        guard["subject"] = subject
        guard["now"] = None if value is _FAILED else _short(value)
    return guard


def _subject(code: str) -> str | None:
    """Find what a comparison is about: the left side of `L['x'] == 3`, or the argument of a check."""
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except SyntaxError:
        return None
    match tree:
        case ast.Compare(left=ast.Constant(), comparators=[subject, *_]) | ast.Compare(left=subject):
            return ast.unparse(subject)
        case ast.Call(args=[first, *_]):
            return ast.unparse(first)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ast.unparse(operand)
    return None


def _short(value: Any) -> str:
    if isinstance(value, bool | int | float | str | None):
        return repr(value)[:_LONG]
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _stack(frames: Iterable[Any] | None) -> list[dict[str, Any]]:
    return [{"file": frame.filename, "line": frame.lineno, "name": frame.name} for frame in frames or ()]
