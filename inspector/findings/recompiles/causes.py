"""Turn torch's text for a failed guard into a cause: kind, subject in the user's names, expected and actual value.

Guard texts are those of 2.13: leaf guards of _C/_dynamo/guards.cpp ("tensor 'x' size mismatch at index 0. expected 4,
actual 8") and Python expressions of _dynamo/guards.py (`L['self'].step == 1`), which expressions.py parses.
"""

import re
from collections.abc import Container

from msgspec.structs import replace

from ctrace.inspector.facts.events.guards import UnmetGuard
from ctrace.inspector.facts.findings import Cause, CauseKind
from ctrace.inspector.findings.guards.failed_guard_text import PARAMETER_HINT, TENSOR, size_kind, type_name
from ctrace.inspector.findings.recompiles.expressions import expression, value_kind
from ctrace.inspector.source.names import closure_name, user_name

_TENSOR_KINDS = {
    "stride": CauseKind.STRIDE,
    "dtype": CauseKind.DTYPE,
    "device": CauseKind.DEVICE,
    "requires_grad": CauseKind.REQUIRES_GRAD,
    "dispatch key set": CauseKind.DISPATCH_KEYS,
    "rank": CauseKind.SIZE,
    "layout": CauseKind.LAYOUT,
}


def cause_of(guard: UnmetGuard, closure: Container[str] = ()) -> Cause:
    """Classify one failed guard that ctrace's hook recorded; the caller adds the line.

    `closure` has the function's closure variables.
    """
    text = guard.text.strip().partition(PARAMETER_HINT)[0]
    cause = _tensor(text) or _state(text, guard) or _entry(text, guard) or expression(text, guard.now)
    cause = replace(cause, subject=closure_name(cause.subject, guard.hint))
    if cause.kind is CauseKind.ARGUMENT_VALUE and re.split(r"[.\[]", cause.subject, maxsplit=1)[0] in closure:
        cause = replace(cause, kind=CauseKind.CLOSURE_VALUE)
    return _object(cause, guard) if cause.kind is CauseKind.IDENTITY else _other_type(cause)


def _tensor(text: str) -> Cause | None:
    match = TENSOR.match(text)
    if match is None:
        return None
    name, what, was, now = user_name(match["name"]), match["what"], match["was"], match["now"]
    if what == "requires_grad" and now is None:  # torch says only "expected requires_grad=0"
        was, now = ("True", "False") if was.endswith("=1") else ("False", "True")
    if what == "size":
        return Cause(size_kind(was, now), f"{name}.size({match['index']})", was, now)
    if what == "stride":
        return Cause(CauseKind.STRIDE, f"{name}.stride({match['index']})", was, now)
    now = now or "?"
    if what == "dtype":
        was, now = (_DTYPES.get(each.removesuffix("."), each) for each in (was, now))
    attribute = {"rank": "dim()", "dispatch key set": "dispatch keys"}.get(what, what)
    if "device index mismatch" in text:
        attribute = "device.index"
    return Cause(_TENSOR_KINDS[what], f"{name}.{attribute}", was.removesuffix("."), now.removesuffix("."))


_DTYPES = {
    "Byte": "torch.uint8", "Char": "torch.int8", "Short": "torch.int16", "Int": "torch.int32", "Long": "torch.int64",
    "Half": "torch.float16", "Float": "torch.float32", "Double": "torch.float64", "ComplexHalf": "torch.complex32",
    "ComplexFloat": "torch.complex64", "ComplexDouble": "torch.complex128", "Bool": "torch.bool",
    "BFloat16": "torch.bfloat16", "UInt16": "torch.uint16", "UInt32": "torch.uint32", "UInt64": "torch.uint64",
}  # fmt: skip
"""The dtypes that C++ names otherwise than Python (torch/headeronly/core/ScalarType.h, 2.13)."""
_GLOBAL_STATE = re.compile(r"GLOBAL_STATE changed: (?P<what>[^\s.]+)(?:\. expected (?P<was>.*), actual (?P<now>.*))?")
_MODES = "___check_torch_function_mode_stack("
_DEVICE = "utils_device.CURRENT_DEVICE == "


def _state(text: str, guard: UnmetGuard) -> Cause | None:
    """Parse a guard on torch's global state."""
    if text.startswith(_MODES):
        return Cause(CauseKind.GLOBAL_STATE, "torch function modes", guard.was, guard.now)
    if text.startswith(_DEVICE):
        was, now = (_unset(each) for each in (text.removeprefix(_DEVICE), guard.now))
        return Cause(CauseKind.GLOBAL_STATE, "default device", was, now)
    match = _GLOBAL_STATE.match(text)
    if match is None:
        return None
    what = match["what"]
    if what.startswith("autocast"):
        kind = CauseKind.AUTOCAST
    elif what == "grad_mode":
        kind = CauseKind.GRAD_MODE
    else:
        kind = CauseKind.GLOBAL_STATE
    return Cause(kind, what, match["was"], match["now"])


def _unset(device: str | None) -> str | None:
    """Write a default device briefly: `cuda:0` for torch's `device(type='cuda', index=0)`."""
    parts = re.findall(r"type='(\w+)'|index=(\d+)", device or "")
    named = ":".join(kind or index for kind, index in parts)
    return named or ("not set" if device == "None" else device)


_BACKEND = "BACKEND_MATCH failure"
_TORCHS_BACKENDS = re.compile(
    r"Cached backend: (?P<was>.*?) \(id=0x\w+\)\. New backend: (?P<now>.*?) \(id=0x\w+\)\. ", re.DOTALL
)
_GONE = re.compile(r"Cache line invalidated because (?P<source>.*) got deallocated")


def _entry(text: str, guard: UnmetGuard) -> Cause | None:
    """Parse a reason about the cache entry as a whole."""
    if match := _GONE.match(text):
        return Cause(CauseKind.IDENTITY, user_name(match["source"]))
    if text.startswith("Unexpected recompilation"):
        return Cause(CauseKind.OTHER, "nothing that the log shows")
    if not text.startswith(_BACKEND):
        return None
    backends = _TORCHS_BACKENDS.search(text)
    return Cause(CauseKind.OTHER, "backend", *_apart(*(backends.groups() if backends else (guard.was, guard.now))))


def _object(cause: Cause, guard: UnmetGuard) -> Cause:
    """Refine a cause about an object's identity; an enum member counts as a value."""
    was, now = _apart(guard.was and type_name(guard.was), cause.now)
    cause = replace(cause, was=was, now=now)
    if now == "None":
        return replace(cause, kind=CauseKind.NONE)
    match = _MEMBER.match(guard.text)
    if match is None or guard.was is None:
        return cause
    owner = guard.was.rpartition(".")[0]  # of `Mode.FAST`, which has the class `models.Mode`
    is_member = bool(owner) and (f".{match['type']}".endswith(f".{owner}") or match["member"] == guard.was)
    if not is_member:
        return cause
    other = (guard.now or "").rpartition(".")[0] != owner
    as_value = replace(cause, kind=value_kind(match["source"]))
    return replace(as_value, kind=CauseKind.TYPE, was=owner, now=literal_type(guard.now) or now) if other else as_value


_MEMBER = re.compile(
    r"___check_obj_id\((?P<source>.+), \d+\), type=<(?:(?:class|enum) '(?P<type>[^']*)'|(?P<member>[\w.]+): .*)>"
)
"""After `type=`, torch 2.11 writes the repr of an enum member: `<Mode.FAST: 1>`."""


def _apart(was: str | None, now: str | None) -> tuple[str | None, str | None]:
    """Distinguish two objects with the same name."""
    return was, f"another {now}" if now and was == now else now


_VALUES = frozenset(
    (
        CauseKind.ARGUMENT_VALUE,
        CauseKind.ATTRIBUTE_VALUE,
        CauseKind.GLOBAL_VALUE,
        CauseKind.CLOSURE_VALUE,
        CauseKind.BREAK_RESULT,
    )
)
_LITERALS = (
    ("NoneType", re.compile(r"None")),
    ("bool", re.compile(r"True|False")),
    ("int", re.compile(r"-?\d+")),
    ("float", re.compile(r"-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf|nan)")),
    ("str", re.compile(r"'.*'|\".*\"", re.DOTALL)),
)


def _other_type(cause: Cause) -> Cause:
    """Reclassify a changed value as a change of type: an int that became a float, a tensor or None."""
    was, now = literal_type(cause.was), literal_type(cause.now)
    if cause.kind not in _VALUES or not was or cause.now is None or was == now:
        return cause
    if now == "NoneType":
        return replace(cause, kind=CauseKind.NONE)
    return replace(cause, kind=CauseKind.TYPE, was=was, now=now or type_name(cause.now))


def literal_type(text: str | None) -> str:
    """Return the type of a Python literal, such as `int` or `NoneType`; empty for any other text."""
    return next((name for name, pattern in _LITERALS if pattern.fullmatch(text or "")), "")
