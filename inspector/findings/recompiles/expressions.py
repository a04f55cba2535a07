"""Classify guards that are Python expressions: `L['self'].step == 1`, `2 <= L['x'].size()[0] <= 10`."""

import re

from ctrace.inspector.facts.findings import Cause, CauseKind
from ctrace.inspector.findings.guards.failed_guard_text import EXPECTED_TENSOR, size_kind, type_name
from ctrace.inspector.findings.recompiles.helper_checks import helper_check
from ctrace.inspector.source.names import user_name

_BOUNDS = re.compile(
    r"^(?:(?P<low>-?\d+) <=? )?(?P<subject>[^<>=]+?)(?: (?:<=?) (?P<high>-?\d+)| >= (?P<least>-?\d+))?$"
)
_COMPARISON = re.compile(r"^(?P<subject>.+?) (?P<op>==|!=|is not|is|<=|>=|<|>) (?P<was>.+)$")


def expression(text: str, now: str | None) -> Cause:
    """Classify an expression that is false; `now` is the current value, if known."""
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
    apart = is_size and low == "2" and (now in ("0", "1") or (now is None and match["high"] is None))
    bounds = _bound_words(low, match["high"])
    return Cause(CauseKind.ZERO_ONE if apart else CauseKind.RANGE, user_name(subject), bounds, now)


def _bound_words(low: str | None, high: str | None) -> str:
    if low and high:
        return f"{low} to {high}"
    return f"{low} or more" if low else f"{high} or less"


_EMPTY = re.compile(r"not (?P<container>[^\s()]+|[LG]\[\S*\(dict\.keys\([^()]*\)\)\[\d+\]\S*)$")
"""The guard `SEQUENCE_LENGTH` on an empty container; in other guards, `not` negates a call."""
_KEY_AT = re.compile(r"list\(dict\.keys\((?P<dict>.+)\)\)\[\d+\] == (?P<was>.+)$")
_CONTAINS = re.compile(r"(?P<no>not )?___dict_contains\((?P<key>.+), (?P<dict>[LG]\[.*)\)$")
_ITEM = re.compile(r"(?P<no>not )?set\.__contains__\((?P<set>.+), (?P<item>[^,]+)\)$")


def _container(text: str, now: str | None) -> Cause | None:
    if match := _EMPTY.match(text):
        length = now if now and now.isdecimal() else "1 or more"
        return Cause(CauseKind.LENGTH, f"len({user_name(match['container'])})", "0", length)
    if match := _KEY_AT.match(text):
        return Cause(CauseKind.KEY_ORDER, user_name(match["dict"]), user_name(match["was"]), now)
    if match := _CONTAINS.match(text):
        return _membership(CauseKind.KEY_ORDER, match["key"], match["dict"], absent=bool(match["no"]))
    if match := _ITEM.match(text):
        return _membership(CauseKind.OTHER, match["item"], match["set"], absent=bool(match["no"]))
    return _compared(CauseKind.LENGTH, text, now) if text.startswith("len(") else None


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
        if item and item["dict"] not in ("L", "G"):
            return _membership(CauseKind.KEY_ORDER, item["key"], item["dict"], absent=False)
        return Cause(CauseKind.ATTRIBUTE_VALUE, user_name(source), "there", "missing")
    if match := _MARKED.match(text):
        return Cause(CauseKind.OTHER, _mark(match), match["was"], "other dimensions")
    match = _HASATTR.match(text)
    if match is None:
        return None
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


def _other_type(subject: str, was: str | None, now: str | None) -> Cause:
    if now == "NoneType":
        return Cause(CauseKind.NONE, subject, was, "None")
    return Cause(CauseKind.TYPE, subject, was, now)


def _check(text: str, now: str | None) -> Cause | None:
    now = now and type_name(now)
    if match := EXPECTED_TENSOR.match(text):
        found = type_name(_CLASS.sub(r"\1", match["found"]))
        return _other_type(user_name(match["name"]), match["was"] or "Tensor", found)
    if match := _CHECK.match(text):
        subject = user_name(match["source"])
        if match["what"] == "obj_id":
            return Cause(CauseKind.IDENTITY, subject.removesuffix(".__code__"), None, now)
        was = match["type"] and type_name(match["type"])
        return _other_type(subject, was, now)
    if text.startswith(("Duplicate tensor", "check_no_aliasing(")):
        return Cause(CauseKind.ALIASING, user_name(text), None, None)
    if match := _OVERLAP.match(text):
        was = "shared" if match["yes"] else "apart"
        names = [user_name(each) for each in re.split(r", (?=[LG]\[)", match["yes"] or match["no"])]
        return Cause(CauseKind.ALIASING, f"memory of {' and '.join(names)}", was, now)
    if match := _NAN.match(text):
        return Cause(CauseKind.OTHER, user_name(match["source"]), "a number", "nan")
    return None


def _comparison(text: str, now: str | None) -> Cause | None:
    match = _COMPARISON.match(text)
    return _compared(_comparison_kind(*match.groups()), text, now) if match else None


def _compared(kind: CauseKind, text: str, now: str | None) -> Cause:
    match = _COMPARISON.match(text)
    if match is None:
        return Cause(kind, user_name(text), None, now)
    if kind is CauseKind.ALIASING:
        apart = match["op"] in ("is", "==")
        sign = "==" if match["op"] == "==" else "is"
        subject = f"{user_name(match['subject'])} {sign} {user_name(match['was'])}"
        return Cause(kind, subject, str(apart), str(not apart))
    was = user_name(match["was"]) if kind in (CauseKind.DUCK_SHAPE, CauseKind.RANGE) else match["was"]
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
    return CauseKind.ALIASING if was.startswith(("L[", "G[")) else CauseKind.IDENTITY


def value_kind(source: str) -> CauseKind:
    """Classify a value by its origin, which torch's name for it shows."""
    for sign, kind in _SOURCES:
        if sign.search(source):
            return kind
    inner = _QUOTED.sub("", source.removeprefix("L["))
    return CauseKind.ATTRIBUTE_VALUE if "." in inner else CauseKind.ARGUMENT_VALUE


_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def _size_comparison_kind(subject: str, was: str) -> CauseKind:
    """Distinguish a specialized size from a condition, such as `(x.size(0) % 8) == 0`."""
    if not _ONE_SIZE.search(subject):
        return CauseKind.RANGE
    if was.isdecimal():
        return size_kind(was, "")
    return CauseKind.DUCK_SHAPE if _ONE_SIZE.search(was) else CauseKind.RANGE


_ONE_SIZE = re.compile(r"^(?:[^\s*']|'[^']*')+\.size\(\)\[\d+\]$")
_SOURCES = (
    (re.compile(r"\.training$"), CauseKind.TRAINING_MODE),
    (re.compile(r"\.storage_offset\(\)$"), CauseKind.ALIASING),
    (re.compile(r"___stack"), CauseKind.BREAK_RESULT),
    (re.compile(r"__closure__|\.cell_contents"), CauseKind.CLOSURE_VALUE),
    (re.compile(r"\bG\["), CauseKind.GLOBAL_VALUE),
)
