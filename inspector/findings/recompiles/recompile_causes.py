"""Turn torch's text for a failed guard into a cause (`cause_of`): kind, subject in the user's names, both values.

Guard texts are those of 2.13: leaf guards of _C/_dynamo/guards.cpp ("tensor 'x' size mismatch at index 0. expected 4,
actual 8") and Python expressions of _dynamo/guards.py (`L['self'].step == 1`, `2 <= L['x'].size()[0] <= 10`), which
`expression` parses.

`helper_check` classifies guards that call one of torch's helpers: iterators, copy-on-write tensors, the current stream.
The texts are those of _dynamo/guards.py: the helpers for iterators since 2.11, for copy-on-write since 2.14, for
reversed lists and streams since 2.15.

`shared_by` recognizes code that a run compiles once for each of several modules, functions or types. Layers of one
class share the code of their methods, and calls of a decorator share the code of its inner function. A guard then fails
because another one runs, not because something changed over time.
"""

import re
from collections.abc import Container, Sequence
from itertools import takewhile

from msgspec.structs import replace

from ctrace.inspector.facts.findings import Cause, CauseKind, Frame, Owner
from ctrace.inspector.facts.guard_facts import UnmetGuard
from ctrace.inspector.findings.guard_tree import (
    EXPECTED_TENSOR,
    PARAMETER_HINT,
    TENSOR,
    size_kind,
    type_name,
)
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.source.owners import frame_outside_torch, owner_of
from ctrace.inspector.source.source_names import closure_name, user_name

ITERATOR = re.compile(r"___(?P<what>tuple_iterator_len|list_reverseiterator_len)\((?P<source>.+)\) == (?P<was>\d+)$")
_POSITION = re.compile(r"___normalize_(?:range|count)_iter\((?P<source>.+)\) == (?P<was>.+)$")
_LAZY_COPY = re.compile(r"___cow_tensor_matches\((?P<source>.+), (?P<was>True|False)\)$")
_STREAM = re.compile(r"(?P<source>.+) (?P<op>==|!=) ___get_current_stream\(.*\)$")
POSITION = "position of "
LAZY_COPY = " is a lazy copy"
STREAM = " is the current stream"


def helper_check(text: str, now: str | None) -> Cause | None:
    """Classify a guard that calls one of these helpers; return None for any other guard."""
    if match := ITERATOR.match(text):
        return Cause(CauseKind.LENGTH, f"items left in {user_name(match['source'])}", match["was"], now)
    if match := _POSITION.match(text):
        return Cause(CauseKind.ARGUMENT_VALUE, f"{POSITION}{user_name(match['source'])}", match["was"], now)
    if match := _LAZY_COPY.match(text):
        return _flag(CauseKind.OTHER, f"{user_name(match['source'])}{LAZY_COPY}", match["was"] == "True")
    if match := _STREAM.match(text):
        return _flag(CauseKind.GLOBAL_STATE, f"{user_name(match['source'])}{STREAM}", match["op"] == "==")
    return None


def _flag(kind: CauseKind, subject: str, was: bool) -> Cause:
    return Cause(kind, subject, str(was), str(not was))


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
    # Torch appends this hint to the text of any property of a parameter, where it would be taken for the new value.
    text = guard.text.strip().partition(PARAMETER_HINT)[0]
    # `expression` accepts any text, so torch's prose goes first.
    cause = _tensor(text) or _state(text, guard) or _entry(text, guard) or expression(text, guard.now)
    cause = replace(cause, subject=closure_name(cause.subject, guard.hint))
    # Torch writes a variable of an enclosing function like an argument, `L['scale']`; only the record tells them apart.
    if cause.kind is CauseKind.ARGUMENT_VALUE and re.split(r"[.\[]", cause.subject, maxsplit=1)[0] in closure:
        cause = replace(cause, kind=CauseKind.CLOSURE_VALUE)
    if cause.kind is CauseKind.IDENTITY:
        return _object(cause, guard)
    return _other_type(cause)


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
    # Here torch writes numbers alone, "Expected device index to be 0, actual 1", which would be no values of `device`.
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
    # Torch found no failed guard when it checked again (2.13, guards.py:5266), so there is none to name.
    if text.startswith("Unexpected recompilation"):
        return Cause(CauseKind.OTHER, "nothing that the log shows")
    if not text.startswith(_BACKEND):
        return None
    # The text of 2.13 describes both backends; where torch names none, ctrace's hook has recorded their names.
    backends = _TORCHS_BACKENDS.search(text)
    return Cause(CauseKind.OTHER, "backend", *_apart(*(backends.groups() if backends else (guard.was, guard.now))))


def _object(cause: Cause, guard: UnmetGuard) -> Cause:
    """Refine a cause about an object's identity; an enum member counts as a value."""
    was, now = _apart(guard.was and type_name(guard.was), cause.now)
    cause = replace(cause, was=was, now=now)
    # An object that went missing needs the advice on None, whatever its identity was.
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
    if other:
        return replace(as_value, kind=CauseKind.TYPE, was=owner, now=literal_type(guard.now) or now)
    return as_value


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


_BOUNDS = re.compile(
    r"^(?:(?P<low>-?\d+) <=? )?(?P<subject>[^<>=]+?)(?: (?:<=?) (?P<high>-?\d+)| >= (?P<least>-?\d+))?$"
)
_COMPARISON = re.compile(r"^(?P<subject>.+?) (?P<op>==|!=|is not|is|<=|>=|<|>) (?P<was>.+)$")


def expression(text: str, now: str | None) -> Cause:
    """Classify an expression that is false; `now` is the current value, if known."""
    # `_comparison` takes any text with an operator, e.g. `len(x) == 3` or `hasattr(m, 'a') == False`, so it comes last.
    readers = (helper_check, _bounds, _container, _attribute, _check, _comparison)
    return next((cause for read in readers if (cause := read(text, now))), None) or Cause(
        CauseKind.OTHER, user_name(text)
    )


def _bounds(text: str, now: str | None) -> Cause | None:
    """Parse `2 <= s`, `s >= 2`, `2 <= s <= 10`: torch excludes 0 and 1, other bounds come from a condition."""
    match = _BOUNDS.match(text)
    if match is None or ((low := match["low"] or match["least"]) is None and match["high"] is None):
        return None
    subject = match["subject"]
    is_size = any(sign in subject for sign in ("size()[", "stride()[", "storage_offset()"))
    # `2 <= s` alone is torch's own exclusion of 0 and 1. With an upper bound it may come from a condition in the code,
    # so only a call with 0 or 1 shows which one failed.
    apart = is_size and low == "2" and (now in ("0", "1") or (now is None and match["high"] is None))
    bounds = _bound_words(low, match["high"])
    return Cause(CauseKind.ZERO_ONE if apart else CauseKind.RANGE, user_name(subject), bounds, now)


def _bound_words(low: str | None, high: str | None) -> str:
    if low and high:
        return f"{low} to {high}"
    if low:
        return f"{low} or more"
    return f"{high} or less"


_EMPTY = re.compile(r"not (?P<container>[^\s()]+|[LG]\[\S*\(dict\.keys\([^()]*\)\)\[\d+\]\S*)$")
"""The guard `SEQUENCE_LENGTH` on an empty container; in other guards, `not` negates a call."""
_KEY_AT = re.compile(r"list\(dict\.keys\((?P<dict>.+)\)\)\[\d+\] == (?P<was>.+)$")
_CONTAINS = re.compile(r"(?P<no>not )?___dict_contains\((?P<key>.+), (?P<dict>[LG]\[.*)\)$")
_ITEM = re.compile(r"(?P<no>not )?set\.__contains__\((?P<set>.+), (?P<item>[^,]+)\)$")


def _container(text: str, now: str | None) -> Cause | None:
    if match := _EMPTY.match(text):
        # Torch's own log does not say how long the container is now.
        length = "1 or more"
        if now and now.isdecimal():
            length = now
        return Cause(CauseKind.LENGTH, f"len({user_name(match['container'])})", "0", length)
    if match := _KEY_AT.match(text):
        return Cause(CauseKind.KEY_ORDER, user_name(match["dict"]), user_name(match["was"]), now)
    if match := _CONTAINS.match(text):
        return _membership(CauseKind.KEY_ORDER, match["key"], match["dict"], absent=bool(match["no"]))
    if match := _ITEM.match(text):
        return _membership(CauseKind.OTHER, match["item"], match["set"], absent=bool(match["no"]))
    if text.startswith("len("):
        return _compared(CauseKind.LENGTH, text, now)
    return None


def _membership(kind: CauseKind, item: str, container: str, *, absent: bool) -> Cause:
    return Cause(kind, f"{user_name(item)} in {user_name(container)}", str(not absent), str(absent))


_HASATTR = re.compile(r"(?P<no>not )?hasattr\((?P<object>.+), '(?P<name>\w+)'\)(?: == (?P<is>True|False))?$")
_MARKS = {
    "_dynamo_dynamic_indices": "mark_dynamic",
    "_dynamo_weak_dynamic_indices": "maybe_mark_dynamic",
    "_dynamo_unbacked_indices": "mark_unbacked",
    "_dynamo_strict_unbacked_indices": "mark_unbacked",
    "_dynamo_static_indices": "mark_static",
}
"""The attributes in which torch stores marks on dimensions (_dynamo/guards.py, 2.11 to 2.13)."""
_MARKED = re.compile(
    r"\(\(?(?:getattr\()?(?P<object>[LG]\[.*?)(?:, '|\.)(?P<name>_dynamo_\w+).*\.issubset\((?P<was>\{.*?\})\)"
)
_NO_VALUE = "getattr failed on source "
_LAST_KEY = re.compile(r"(?P<dict>.+)\[(?P<key>'[^']*')\]$")


def _attribute(text: str, now: str | None) -> Cause | None:
    """Parse a guard on whether an attribute, a key or a mark exists."""
    if text.startswith(_NO_VALUE):
        source = text.removeprefix(_NO_VALUE)
        item = _LAST_KEY.match(source)
        # `L['x']` is an argument that is missing, no key of a dict.
        if item and item["dict"] not in ("L", "G"):
            return _membership(CauseKind.KEY_ORDER, item["key"], item["dict"], absent=False)
        return Cause(CauseKind.ATTRIBUTE_VALUE, user_name(source), "there", "missing")
    if match := _MARKED.match(text):
        return Cause(CauseKind.OTHER, _mark(match), match["was"], "other dimensions")
    match = _HASATTR.match(text)
    if match is None:
        return None
    # `not hasattr(m, 'a')` and `hasattr(m, 'a') == False` both say that the attribute was missing.
    was_there = (match["is"] != "False") is not bool(match["no"])
    was, now = ("there", "missing") if was_there else ("missing", "there")
    if match["name"] in _MARKS:
        return Cause(CauseKind.OTHER, _mark(match), was, now)
    return Cause(CauseKind.ATTRIBUTE_VALUE, f"{user_name(match['object'])}.{match['name']}", was, now)


def _mark(match: re.Match[str]) -> str:
    return f"{_MARKS.get(match['name'], match['name'])} on {user_name(match['object'])}"


_CLASS = re.compile(r"<class '(?P<name>[^']*)'>")
_CHECK = re.compile(
    r"___check_(?P<what>type_id|obj_id)\((?P<source>.+?)(?:, \d+)?\)(?:, type=(?:<\w+ '(?P<type>[^']*)'>|.*))?$",
    re.DOTALL,
)
"""After `type=`, 2.13 writes a class, 2.11 the object itself (guards.py:2105)."""
_OVERLAP = re.compile(r"check_overlapping\(overlapping=\[(?P<yes>.*?)\], non_overlapping=\[(?P<no>.*?)\]\)$")
_NAN = re.compile(r"not math\.isnan\((?P<source>.*)\)$")


def _cause_of_type(subject: str, was: str | None, now: str | None) -> Cause:
    if now == "NoneType":
        return Cause(CauseKind.NONE, subject, was, "None")
    return Cause(CauseKind.TYPE, subject, was, now)


def _check(text: str, now: str | None) -> Cause | None:
    now = now and type_name(now)
    if match := EXPECTED_TENSOR.match(text):
        found = type_name(_CLASS.sub(r"\1", match["found"]))
        return _cause_of_type(user_name(match["name"]), match["was"] or "Tensor", found)
    if match := _CHECK.match(text):
        subject = user_name(match["source"])
        if match["what"] == "obj_id":
            # Torch guards a function by its code object; in the user's words it is the function that changed.
            return Cause(CauseKind.IDENTITY, subject.removesuffix(".__code__"), None, now)
        was = match["type"] and type_name(match["type"])
        return _cause_of_type(subject, was, now)
    if text.startswith(("Duplicate tensor", "check_no_aliasing(")):
        return Cause(CauseKind.ALIASING, user_name(text), None, None)
    if match := _OVERLAP.match(text):
        was = "shared" if match["yes"] else "apart"
        # A key may contain a comma, so only one that a name follows separates two names.
        names = [user_name(each) for each in re.split(r", (?=[LG]\[)", match["yes"] or match["no"])]
        return Cause(CauseKind.ALIASING, f"memory of {' and '.join(names)}", was, now)
    if match := _NAN.match(text):
        return Cause(CauseKind.OTHER, user_name(match["source"]), "a number", "nan")
    return None


def _comparison(text: str, now: str | None) -> Cause | None:
    match = _COMPARISON.match(text)
    if match:
        return _compared(_comparison_kind(*match.groups()), text, now)
    return None


def _compared(kind: CauseKind, text: str, now: str | None) -> Cause:
    match = _COMPARISON.match(text)
    if match is None:
        return Cause(kind, user_name(text), None, now)
    if kind is CauseKind.ALIASING:
        apart = match["op"] in ("is", "==")
        sign = "==" if match["op"] == "==" else "is"
        subject = f"{user_name(match['subject'])} {sign} {user_name(match['was'])}"
        return Cause(kind, subject, str(apart), str(not apart))
    if kind in (CauseKind.DUCK_SHAPE, CauseKind.RANGE):
        was = user_name(match["was"])
    else:
        was = match["was"]
    if kind is CauseKind.RANGE:
        was = _RANGE_WORDS[match["op"]].format(was)
    if kind is CauseKind.NONE:
        now = now and type_name(now)
    return Cause(kind, user_name(match["subject"]), was, now)


_RANGE_WORDS = {
    "==": "{}", "!=": "not {}", "<": "less than {}", ">": "more than {}", "<=": "{} or less", ">=": "{} or more",
}  # fmt: skip


def _comparison_kind(subject: str, op: str, was: str) -> CauseKind:
    if op.startswith("is"):
        return _identity_kind(was)
    if op[0] in "<>!":
        return CauseKind.RANGE
    if "size()[" in subject or "stride()[" in subject:
        return _size_comparison_kind(subject, was)
    return value_kind(subject)


def _identity_kind(was: str) -> CauseKind:
    if was == "None":
        return CauseKind.NONE
    if was.startswith(("L[", "G[")):
        return CauseKind.ALIASING
    return CauseKind.IDENTITY


def value_kind(source: str) -> CauseKind:
    """Classify a value by its origin, which torch's name for it shows."""
    for sign, kind in _SOURCES:
        if sign.search(source):
            return kind
    # A dot in a key, such as `L['a.b']`, is no attribute.
    inner = _QUOTED.sub("", source.removeprefix("L["))
    if "." in inner:
        return CauseKind.ATTRIBUTE_VALUE
    return CauseKind.ARGUMENT_VALUE


_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def _size_comparison_kind(subject: str, was: str) -> CauseKind:
    """Distinguish a specialized size from a condition, such as `(x.size(0) % 8) == 0`."""
    # Arithmetic on a size, e.g. `L['x'].size()[0] % 8 == 0`, comes from a condition, not from a specialization.
    if not _ONE_SIZE.search(subject):
        return CauseKind.RANGE
    if was.isdecimal():
        return size_kind(was, "")
    if _ONE_SIZE.search(was):
        return CauseKind.DUCK_SHAPE
    return CauseKind.RANGE


_ONE_SIZE = re.compile(r"^(?:[^\s*']|'[^']*')+\.size\(\)\[\d+\]$")
_SOURCES = (
    # The first match counts: `G['model'].training` is a mode before it is the value of a global.
    (re.compile(r"\.training$"), CauseKind.TRAINING_MODE),
    (re.compile(r"\.storage_offset\(\)$"), CauseKind.ALIASING),
    (re.compile(r"___stack"), CauseKind.BREAK_RESULT),
    (re.compile(r"__closure__|\.cell_contents"), CauseKind.CLOSURE_VALUE),
    (re.compile(r"\bG\["), CauseKind.GLOBAL_VALUE),
)


_OF_MODULES = frozenset(
    (
        CauseKind.ATTRIBUTE_VALUE,
        CauseKind.TYPE,
        CauseKind.IDENTITY,
        CauseKind.LENGTH,
        CauseKind.KEY_ORDER,
        CauseKind.NONE,
        CauseKind.SIZE,
        CauseKind.ZERO_ONE,
        CauseKind.STRIDE,
        CauseKind.DTYPE,
    )
)
"""Kinds of causes in which two modules of one class may differ."""
_OF_CALLS = frozenset((CauseKind.TYPE, CauseKind.IDENTITY))
"""Kinds of causes in which two calls of one function may differ; a number may as well be counted up within a call."""
_OF_INPUTS = frozenset((CauseKind.SIZE, CauseKind.ZERO_ONE, CauseKind.STRIDE, CauseKind.DTYPE, CauseKind.REQUIRES_GRAD))
"""Kinds of causes in which the inputs of two modules may differ in one call: a wider layer gets a wider tensor, and the
second layer one that depends on weights."""
OBJECTS = "calls"
"""What shares a function that is no method of a module."""


def shared_by(raw: CollectedLog, compile_id: str, causes: Sequence[Cause], nearest: str | None) -> str:
    """Return what shares the code, such as `Layer modules`, if a recompilation is for another one; empty if not.

    A module that was not compiled for before is another one, if all that differs belongs to it, or is a size of its
    inputs in the same call of the model. For a function, two objects in the same call are two uses of it; torch's own
    log does not say which call it was.
    """
    if not causes or nearest is None:
        return ""
    mine = _module(raw, compile_id)
    kinds = {cause.kind for cause in causes}
    during = raw.during.get(compile_id)
    in_one_call = during is not None and during == raw.during.get(nearest)
    if mine is None:
        if in_one_call and kinds <= _OF_CALLS and _module(raw, nearest) is None:
            return OBJECTS
        return ""
    is_other = is_later_layer(raw, compile_id)
    receiver = raw.guard_places[compile_id].receiver  # it is a module, so it has a name
    of_module = [_is_of_module(cause, receiver) for cause in causes]
    # One difference between the modules is enough for a graph of its own, whatever their inputs are.
    rest = {cause.kind for cause, is_modules in zip(causes, of_module, strict=True) if not is_modules}
    differ = rest <= _OF_INPUTS and (any(of_module) or in_one_call)
    # Layers of one width differ in gradients only between the first and all others: two graphs, however many they are.
    differ = differ and kinds != {CauseKind.REQUIRES_GRAD}
    if is_other and differ:
        return f"{mine.rpartition(' ')[0]} modules"
    return ""


def is_later_layer(raw: CollectedLog, compile_id: str) -> bool:
    """Whether a method is compiled for a module, and was compiled for others of its class only."""
    mine = _module(raw, compile_id)
    frame = compile_id.partition("/")[0]
    # Only entries that existed at the time count; a module compiled later is no reason.
    earlier = takewhile(lambda each: each != compile_id, raw.seen)
    before = {_module(raw, each) for each in earlier if each.startswith(f"{frame}/") and raw.has_entry(each)}
    return mine is not None and None not in before and mine not in before


def _module(raw: CollectedLog, compile_id: str) -> str | None:
    placed = raw.guard_places.get(compile_id)
    if not placed:
        return None
    return placed.of_object


def _is_of_module(cause: Cause, receiver: str) -> bool:
    if cause.kind is CauseKind.ALIASING:  # `a is b`, of which both are the module's
        return all(each.startswith(f"{receiver}.") for each in cause.subject.split(" is "))
    return cause.kind in _OF_MODULES and cause.subject.removeprefix("len(").startswith(f"{receiver}.")


def caller_of(raw: CollectedLog, compile_id: str) -> Frame | None:
    """Return the frame outside of torch and of ctrace that called a compiled function; None if it is not known."""
    code = raw.bytecode.get(compile_id)
    if code is None or not code.callers:
        return None
    frame = frame_outside_torch(code.callers, raw.prefixes, raw.home)
    if owner_of(frame.file, raw.prefixes) is Owner.TORCH:
        return None
    return frame
