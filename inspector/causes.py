"""From an unmet guard, as torch words it, to a cause: kind, subject in the user's names, expected and actual value.

Guard texts are those of 2.13: leaf guards of _C/_dynamo/guards.cpp ("tensor 'x' size mismatch at index 0. expected 4,
actual 8") and Python expressions of _dynamo/guards.py (`L['self'].step == 1`).
"""

import re
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from ctrace.inspector.model import Cause
from ctrace.inspector.names import user_name

_PARAMETER_HINT = ". Guard failed on a parameter, "
_TENSOR = re.compile(
    r"tensor '(?P<name>.*?)' (?P<what>size|stride|dtype|device|requires_grad|dispatch key set|rank) mismatch"
    r"(?: at index (?P<index>\d+))?\. expected (?P<was>.*?)(?:, actual (?P<now>.*))?$"
)
_TENSOR_KINDS = {
    "stride": "stride", "dtype": "dtype", "device": "device", "requires_grad": "requires_grad",
    "dispatch key set": "dispatch_keys", "rank": "size",
}  # fmt: skip
_RANGE = re.compile(r"^(?P<was>2) <= (?P<subject>.+)$|^(?P<subject2>.+) >= (?P<was2>2)$")
_COMPARISON = re.compile(r"^(?P<subject>.+?) (?P<op>==|!=|is not|is|<=|>=|<|>) (?P<was>.+)$")


def cause_of(guard: Mapping[str, Any], line: int | None, closure: Container[str] = ()) -> Cause:
    """Classify one unmet guard as our recompile hook wrote it.

    `line` is the user's line that made the guard, `closure` the names that the function takes from an enclosing one.
    """
    text = str(guard.get("guard", "")).strip().partition(_PARAMETER_HINT)[0]
    now = guard.get("now")
    cause = _tensor(text) or _global_state(text) or _expression(text, now, line) or Cause("other", text, line=line)
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
    attribute = {"rank": "dim()", "dispatch key set": "dispatch keys"}.get(what, what)
    return Cause(_TENSOR_KINDS[what], f"{name}.{attribute}", was.removesuffix("."), now.removesuffix("."))


def _size_kind(was: str, now: str) -> str:
    return "zero_one" if {was, now} & {"0", "1"} else "size"


def _global_state(text: str) -> Cause | None:
    match = re.match(r"GLOBAL_STATE changed: (?P<what>\S+)", text)
    if match is None:
        return None
    what = match["what"]
    kind = "autocast" if what.startswith("autocast") else "grad_mode" if what == "grad_mode" else "global_state"
    return Cause(kind, what)


def _expression(text: str, now: str | None, line: int | None) -> Cause | None:
    if match := _RANGE.match(text):
        subject = match["subject"] or match["subject2"]
        kind = "zero_one" if "size()" in subject or "stride()" in subject else "range"
        return Cause(kind, user_name(subject), "2 or more", now, line)
    if text.startswith("not ") and now in _EMPTY:
        return Cause("length", f"len({user_name(text[4:])})", "0", "1 or more", line)
    if text.startswith("len("):
        return _compared("length", text, now, line)
    for prefix, kind in _CHECKS:
        if text.startswith(prefix):
            return Cause(kind, user_name(text[len(prefix) :].split(",")[0].rstrip(")")), None, now, line)
    if _COMPARISON.match(text):
        return _compared(_comparison_kind(text), text, now, line)
    return None


_EMPTY = {f"builtins.{name}" for name in ("list", "dict", "tuple", "set")}
_CHECKS = (
    ("not ___dict_contains(", "key_order"),
    ("___dict_contains(", "key_order"),
    ("___check_type_id(", "type"),
    ("___check_obj_id(", "identity"),
    ("not hasattr(", "attribute_value"),
    ("hasattr(", "attribute_value"),
    ("check_no_aliasing(", "aliasing"),
    ("utils_device.CURRENT_DEVICE", "global_state"),
)


def _compared(kind: str, text: str, now: str | None, line: int | None) -> Cause:
    match = _COMPARISON.match(text)
    if match is None:
        return Cause(kind, user_name(text), None, now, line)
    return Cause(kind, user_name(match["subject"]), match["was"], now, line)


def _comparison_kind(text: str) -> str:
    subject, _, was = text.partition(" == ")
    if was == "" and " is " in text:
        return "none" if text.endswith("None") else "identity"
    if "size()[" in subject and "size()[" in was:
        return "duck_shape"
    if "size()[" in subject:
        return "size"
    if subject.endswith(".training"):
        return "training_mode"
    if "___stack" in subject:
        return "break_result"
    if subject.startswith("G["):
        return "global_value"
    if "__closure__" in subject or ".cell_contents" in subject:
        return "closure_value"
    inner = subject.removeprefix("L[")
    return "attribute_value" if "." in inner or "][" in inner else "argument_value"
