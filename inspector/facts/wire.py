"""How ctrace's own records are declared: each is one Struct, which a hook fills, the log decodes and a session keeps.

A field's name is its name in the log, unless it says another. Numbers have limits, since a damaged log has any.
"""

from typing import Annotated, Any, ClassVar, get_args, get_origin

from msgspec import UNSET, Meta, Struct, field, to_builtins
from msgspec.structs import fields

MOST = 10**30
"""The largest number to accept: above all sizes and rates, and far below float overflow."""
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Number = Annotated[float, Meta(ge=float(-MOST), le=float(MOST))]
# `\Z`, because a line break may follow `$`; and nine digits, because Python reads no number of thousands of digits.
Place = Annotated[str, Meta(pattern=r"\A(?s:.+):[0-9]{1,9}\Z")]
"""`file:line`"""
# No payload of ctrace has fields of these names, so that decoding one leaves the field unset.
_NEEDED, _OPTIONAL = "<compile id>", "<compile id, if any>"
# `Any`, so that a field of any type may have a default that is no value of its type.
COMPILATION: Any = field(default=UNSET, name=_NEEDED)
"""The field with the compilation that a record belongs to. A record names it in its first line, not in its payload."""
MAYBE_COMPILATION: Any = field(default=UNSET, name=_OPTIONAL)
"""The same for a record that may belong to none."""


def titled(record: Struct) -> dict[str, Any]:
    """Return the values of the fields whose type declares a title, by title: what a comparison tells of a record."""
    found = {}
    for known in fields(record):
        if get_origin(known.type) is Annotated:
            titles = [each.title for each in get_args(known.type)[1:] if isinstance(each, Meta) and each.title]
            found.update(dict.fromkeys(titles, getattr(record, known.name)))
    return found


class Record(Struct, frozen=True):
    """A record that ctrace writes; a subclass names its kind, which the log has as `ctrace_<kind>`."""

    KIND: ClassVar[str]


# By keyword only: `id` has a default, and the fields of most subclasses have none.
class OfCompilation(Record, frozen=True, kw_only=True):
    """A record about one compilation."""

    id: str = COMPILATION


class OfGraph(Record, frozen=True, kw_only=True):
    """A record about the graph of one compilation."""

    graph: str = COMPILATION


def header_field(kind: type[Record]) -> tuple[str, bool]:
    """Return the field of the compilation, and whether a record must have one; empty: it has no such field."""
    for name, written in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True):
        if written in (_NEEDED, _OPTIONAL):
            return name, written == _NEEDED
    return "", False


def payload_of(record: Record) -> Any:
    """Return what the log has of a record, as plain data."""
    return to_builtins(record, enc_hook=_plain)


def _plain(value: object) -> object:
    """Return a value as JSON has it: a number of a subclass, such as numpy's, as a number, anything else as text."""
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)
