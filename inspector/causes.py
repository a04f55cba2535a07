"""From an unmet guard, as torch words it, to a cause: kind, subject in the user's names, expected and actual value.

Guard texts are those of 2.13: leaf guards of _C/_dynamo/guards.cpp ("tensor 'x' size mismatch at index 0. expected 4,
actual 8") and Python expressions of _dynamo/guards.py (`L['self'].step == 1`).
"""

import re
from collections.abc import Container
from dataclasses import replace

from ctrace.inspector.guard_events import UnmetGuard
from ctrace.inspector.model import Cause
from ctrace.inspector.names import user_name

_PARAMETER_HINT = ". Guard failed on a parameter, "
_TENSOR = re.compile(
    r"tensor '(?P<name>.*?)' (?:Tensor )?(?P<what>size|stride|dtype|device|layout|requires_grad|dispatch key set|rank)"
    r"(?: index)? mismatch(?: at index (?P<index>\d+))?\. "
    r"[Ee]xpected (?:device index to be )?(?P<was>.*?)(?:, actual (?P<now>.*))?$"
)
_TENSOR_KINDS = {
    "stride": "stride", "dtype": "dtype", "device": "device", "requires_grad": "requires_grad",
    "dispatch key set": "dispatch_keys", "rank": "size", "layout": "layout",
}  # fmt: skip
_BOUNDS = re.compile(
    r"^(?:(?P<low>-?\d+) <=? )?(?P<subject>[^<>=]+?)(?: (?:<=?) (?P<high>-?\d+)| >= (?P<least>-?\d+))?$"
)
_COMPARISON = re.compile(r"^(?P<subject>.+?) (?P<op>==|!=|is not|is|<=|>=|<|>) (?P<was>.+)$")


def cause_of(guard: UnmetGuard, closure: Container[str] = ()) -> Cause:
    """Classify one unmet guard as our recompile hook wrote it; which line made it is for the caller to say.

    `closure` holds the names that the function takes from an enclosing one.
    """
    text = guard.text.strip().partition(_PARAMETER_HINT)[0]
    cause = _tensor(text) or _global_state(text) or _expression(text, guard.now) or Cause("other", text)
    if cause.kind == "argument_value" and cause.subject.partition(".")[0] in closure:
        return replace(cause, kind="closure_value")
    return cause


def _tensor(text: str) -> Cause | None:
    match = _TENSOR.match(text)
    if match is None:
        return None
    name, what, was, now = user_name(match["name"]), match["what"], match["was"], match["now"]
    if what == "requires_grad" and now is None:  # "expected requires_grad=0", and nothing of the other
        was, now = ("True", "False") if was.endswith("=1") else ("False", "True")
    if what == "size":
        return Cause(_size_kind(was, now), f"{name}.size({match['index']})", was, now)
    if what == "stride":
        return Cause("stride", f"{name}.stride({match['index']})", was, now)
    now = now or "?"
    attribute = {"rank": "dim()", "dispatch key set": "dispatch keys"}.get(what, what)
    return Cause(_TENSOR_KINDS[what], f"{name}.{attribute}", was.removesuffix("."), now.removesuffix("."))


def _size_kind(was: str, now: str) -> str:
    return "zero_one" if {was, now} & {"0", "1"} else "size"


_GLOBAL_STATE = re.compile(r"GLOBAL_STATE changed: (?P<what>[^\s.]+)(?:\. expected (?P<was>.*), actual (?P<now>.*))?")


def _global_state(text: str) -> Cause | None:
    match = _GLOBAL_STATE.match(text)
    if match is None:
        return None
    what = match["what"]
    kind = "autocast" if what.startswith("autocast") else "grad_mode" if what == "grad_mode" else "global_state"
    return Cause(kind, what, match["was"], match["now"])


def _expression(text: str, now: str | None) -> Cause | None:
    return _bounds(text, now) or _container(text, now) or _check(text, now) or _comparison(text, now)


def _bounds(text: str, now: str | None) -> Cause | None:
    """Read `2 <= s`, `s >= 2`, `2 <= s <= 10`: torch itself sets 0 and 1 apart, other bounds come from a condition."""
    match = _BOUNDS.match(text)
    if match is None or ((low := match["low"] or match["least"]) is None and match["high"] is None):
        return None
    subject = match["subject"]
    is_size = "size()[" in subject or "stride()[" in subject
    apart = is_size and low == "2" and (now in ("0", "1") or (now is None and match["high"] is None))
    bounds = _bound_words(low, match["high"])
    return Cause("zero_one" if apart else "range", user_name(subject), bounds, now)


def _bound_words(low: str | None, high: str | None) -> str:
    if low and high:
        return f"{low} to {high}"
    return f"{low} or more" if low else f"{high} or less"


def _container(text: str, now: str | None) -> Cause | None:
    if match := _EMPTY.match(text):
        return Cause(
            "length", f"len({user_name(match['container'])})", "0", now if now and now.isdecimal() else "1 or more"
        )
    if text.startswith("len("):
        return _compared("length", text, now)
    if text.startswith("list(dict.keys("):
        return Cause("key_order", f"{user_name(text[len('list(dict.keys(') :].partition(')')[0])}", None, now)
    return None


_EMPTY = re.compile(r"not (?P<container>[^\s()]+)$")
"""Guard `SEQUENCE_LENGTH` of a container without items; every other `not` is that of a call."""


def _check(text: str, now: str | None) -> Cause | None:
    if match := _WANTED_TENSOR.match(text):
        is_none = "NoneType" in match["found"]
        found = _CLASS.sub(r"\1", match["found"])
        return Cause("none" if is_none else "type", user_name(match["name"]), match["was"] or "Tensor", found)
    if text.startswith(("Duplicate tensor found", "check_no_aliasing(")):
        return Cause("aliasing", user_name(text), None, None)
    if match := _CONTAINS.match(text):
        return Cause("key_order", user_name(match["dict"]), None, None)
    for prefix, kind in _CHECKS:
        if text.startswith(prefix):
            subject = user_name(text[len(prefix) :].split(",")[0].rstrip(")"))
            wanted = _CLASS.search(text) if kind == "type" else None
            was = _type_name(wanted[1]) if wanted else None
            return Cause(kind, subject.removesuffix(".__code__"), was, now and _type_name(now))
    return None


_CLASS = re.compile(r"<class '(?P<name>[^']*)'>")


def _type_name(qualified: str) -> str:
    return qualified.removeprefix("builtins.").removeprefix("__main__.")


_WANTED_TENSOR = re.compile(
    r"expected type of '(?P<name>.*?)' to be a tensor type, ?'?(?P<was>\w+)?'? but found (?P<found>.*)$"
)
_CONTAINS = re.compile(r"(?:not )?___dict_contains\([^,]+, (?P<dict>.+)\)$")
_CHECKS = (
    ("___check_type_id(", "type"),
    ("___check_obj_id(", "identity"),
    ("not hasattr(", "attribute_value"),
    ("hasattr(", "attribute_value"),
    ("getattr failed on source ", "attribute_value"),
    ("utils_device.CURRENT_DEVICE", "global_state"),
)


def _comparison(text: str, now: str | None) -> Cause | None:
    match = _COMPARISON.match(text)
    return _compared(_comparison_kind(*match.groups()), text, now) if match else None


def _compared(kind: str, text: str, now: str | None) -> Cause:
    match = _COMPARISON.match(text)
    if match is None:
        return Cause(kind, user_name(text), None, now)
    if kind == "aliasing":
        apart = match["op"] == "is"
        return Cause(kind, f"{user_name(match['subject'])} is {user_name(match['was'])}", str(apart), str(not apart))
    was = user_name(match["was"]) if kind in ("duck_shape", "range") else match["was"]
    if kind == "range":
        was = _RANGE_WORDS[match["op"]].format(was)
    if kind == "none":
        now = now and _type_name(now)
    return Cause(kind, user_name(match["subject"]), was, now)


_RANGE_WORDS = {
    "==": "{}", "!=": "not {}", "<": "less than {}", ">": "more than {}", "<=": "{} or less", ">=": "{} or more",
}  # fmt: skip


def _comparison_kind(subject: str, op: str, was: str) -> str:
    if op.startswith("is"):
        return "none" if was == "None" else "aliasing" if was.startswith(("L[", "G[")) else "identity"
    if op[0] in "<>":
        return "range"
    if "size()[" in subject:
        return _size_comparison_kind(subject, op, was)
    for sign, kind in _SOURCES:
        if sign.search(subject):
            return kind
    inner = subject.removeprefix("L[")
    return "attribute_value" if "." in inner or "][" in inner else "argument_value"


def _size_comparison_kind(subject: str, op: str, was: str) -> str:
    """Tell the size that torch compiled in from a condition of the user's, such as `(x.size(0) % 8) == 0`."""
    if op == "!=" or not _ONE_SIZE.search(subject):
        return "range"
    if was.isdecimal():
        return _size_kind(was, "")
    return "duck_shape" if _ONE_SIZE.search(was) else "range"


_ONE_SIZE = re.compile(r"^(?:[^\s*']|'[^']*')+\.size\(\)\[\d+\]$")
_SOURCES = (
    (re.compile(r"\.training$"), "training_mode"),
    (re.compile(r"___stack"), "break_result"),
    (re.compile(r"__closure__|\.cell_contents"), "closure_value"),
    (re.compile(r"\bG\["), "global_value"),
)


def source_of(text: str) -> str | None:
    """Name what torch might have left open as torch does: `L['x'].size()[0]` or `L['n']`; None: no size, no number."""
    match = _TENSOR.match(text)
    if match is not None and match["index"] is not None:
        return f"{match['name']}.{match['what']}()[{match['index']}]"
    compared = _NUMBER.match(text)
    return compared["source"] if compared else None


_NUMBER = re.compile(r"(?P<source>\S+) == -?[\d.]+(?:e[+-]?\d+)?$")


def check_order(guard: UnmetGuard) -> int:
    """Say how late torch checks what this guard is about: a tensor's properties in their order, all else at the end."""
    if _WANTED_TENSOR.match(guard.text):
        return 0
    match = _TENSOR.match(guard.text)
    return _TENSOR_ORDER.index(match["what"]) if match else len(_TENSOR_ORDER)


_TENSOR_ORDER = ("type", "layout", "dispatch key set", "dtype", "device", "requires_grad", "rank", "size", "stride")
"""TensorCheck::check_verbose, torch/csrc/dynamo/guards.cpp (2.13)."""
