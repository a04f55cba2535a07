"""What a reproducer must show, and whether a run shows it: the same gb id, rule, cause or exception, at its line."""

import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.log.events.guards import UnmetGuard
from ctrace.inspector.model.diagnosis import Finding, RootCause, Symptom
from ctrace.inspector.model.findings import Owner
from ctrace.inspector.model.session import Session
from ctrace.inspector.recompiles.causes import cause_of
from ctrace.inspector.source.owners import owner_of

_GB = re.compile(r"/gb(\d+)\.html|\b(GB\d{4})\b", re.IGNORECASE)
_QUOTED = re.compile(r'^\s*File "([^"\n]+)", line (\d+), in ', re.MULTILINE)
_REASON = re.compile(r"^.*?- \d+/\d+: (.*)$", re.MULTILINE)
_RECOMPILED = re.compile(r"Recompiling function \S+ in (.+):(\d+)$", re.MULTILINE)
DIFFERS = "compiled and eager results differ"
"""The message of the assertion in a reproducer of a wrong result."""
NOT_SHOWN = (Finding.ATTENTION,)
"""Findings that are not about correctness or capture: no short program is needed to show them."""


class Sought(Struct, frozen=True):
    """A finding, in a form that stays the same while the program shrinks."""

    id: str
    what: Finding
    words: str
    """The finding in a few words, such as GB0170."""
    ids: tuple[str, ...]
    """Ids of a break, the rule of a skip, the kind of a recompilation, or the type of an exception."""
    shape: str = ""
    """The shape of an exception's message; numbers and names do not count."""
    file: str = ""
    line: int = 0
    """The place in the target."""
    library: str = ""
    """The library's file if the place is in a package; its line must stay."""
    function: str = ""
    title: str = ""


def chosen(causes: Iterable[RootCause], site: str | None) -> RootCause:
    """Return the root cause that the user named: by id, as `file.py:12`, or by default the first that can be shown.

    Raises:
        TargetError: there is no such finding.
    """
    known = [each for each in causes if each.symptoms and _lead(each).what not in NOT_SHOWN]
    if not known:
        raise TargetError(
            "there is no finding to reproduce: the target compiles without breaks, recompilations or errors",
            "ctrace explain shows what torch.compile did",
        )
    if site is None:
        return next((each for each in known if not each.expected), known[0])
    name, _, line = site.rpartition(":")
    for each in known:
        is_there = each.file is not None and bool(name) and each.file.endswith(name) and str(each.line) == line
        if site == each.id or is_there:
            return each
    names = [*(each.id for each in known), *(_place(each) for each in known if each.file)]
    raise TargetError(f"{site}: there is no such finding", did_you_mean(site, names))


def _place(cause: RootCause) -> str:
    return f"{(cause.file or '').rpartition('/')[2]}:{cause.line}"


def _lead(cause: RootCause) -> Symptom:
    """Return the finding that stands for a cause: a break rather than the skip or recompilation that follows it."""
    order = (Finding.FAILURE, Finding.DANGER, Finding.BREAK, Finding.SKIP, Finding.RECOMPILE, Finding.ATTENTION)
    return min(cause.symptoms, key=lambda each: order.index(each.what))


def sought(cause: RootCause, session: Session) -> Sought:
    """Return what a reproducer of a root cause must show."""
    lead = _lead(cause)
    made = _sought(cause, lead, session)
    is_library = bool(made.file) and owner_of(made.file, session.environment.prefixes) is not Owner.USER
    return Sought(
        made.id,
        made.what,
        made.words,
        made.ids,
        made.shape,
        made.file,
        made.line,
        made.file if is_library else "",
        made.function,
        cause.title,
    )


def _sought(cause: RootCause, lead: Symptom, session: Session) -> Sought:
    match lead.what:
        case Finding.BREAK:
            each = session.breaks[lead.index]
            words = each.gb[0] if each.gb else "graph break"
            return Sought(cause.id, lead.what, words, each.gb, "", each.file, each.line, "", each.function)
        case Finding.SKIP:
            skip = session.skips[lead.index]
            words = f"{skip.function} runs eagerly ({skip.rule})"
            return Sought(cause.id, lead.what, words, (skip.rule,), "", skip.file, skip.line, "", skip.function)
        case Finding.RECOMPILE:
            again = session.recompiles[lead.index]
            kinds = tuple(dict.fromkeys(str(each.kind) for each in again.causes))
            kind = str(cause.kind) if str(cause.kind) in kinds or not kinds else kinds[0]
            words = f"recompilation ({kind})"
            return Sought(cause.id, lead.what, words, (kind,), "", again.file, again.line, "", again.function)
        case Finding.DANGER:
            return Sought(cause.id, lead.what, "wrong result", ("AssertionError",), DIFFERS)
        case _:
            failure = session.failure
            assert failure is not None
            return Sought(
                cause.id,
                Finding.FAILURE,
                failure.type,
                (failure.type,),
                shape_of(failure.message),
                failure.file or "",
                failure.line or 0,
            )


def shape_of(message: str) -> str:
    """Return the first line of a message without its numbers, quoted parts and names."""
    first = next((line for line in message.splitlines() if line.strip()), "")
    text = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|L\[[^ ]*|<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]", "_", first)
    text = re.sub(r"0x[0-9a-f]+|\d+(?:\.\d+)?|\b[su]\d+\b", "#", text)
    return " ".join(text.split())[:160]


def is_shown(what: Sought, session: Session, file: str, lines: tuple[int, ...]) -> bool:
    """Whether a run of the program `file` shows the finding, in its own code at one of `lines`."""
    return any(_is_there(what, place, file, lines) for place in _places(what, session))


def _is_there(what: Sought, place: tuple[str, int], file: str, lines: tuple[int, ...]) -> bool:
    if what.library:
        return place == (what.library, what.line)
    return place[0] == file and (place[1] in lines or not lines)


def _places(what: Sought, session: Session) -> Iterator[tuple[str, int]]:
    """Yield the places at which a run shows a finding with the same id."""
    match what.what:
        case Finding.BREAK:
            yield from _breaks(what, session)
        case Finding.SKIP:
            yield from ((skip.file, skip.line) for skip in session.skips if skip.rule in what.ids)
        case Finding.RECOMPILE:
            yield from _recompiles(what, session)
        case _:
            failure = session.failure
            if failure is not None and failure.type in what.ids and shape_of(failure.message) == what.shape:
                yield failure.file or "", failure.line or 0


def _breaks(what: Sought, session: Session) -> Iterator[tuple[str, int]]:
    for each in session.breaks:
        if each.gb[:1] == what.ids[:1]:
            yield each.file, each.line
            if what.library:  # a break's own line is the innermost one of the user, who calls the library here
                yield from ((frame.file, frame.line) for path in each.paths for frame in path)
    failure = session.failure
    if failure is not None and set(what.ids[:1]) <= gbs_of(failure.message):
        yield from quoted_places(failure.message)


def _recompiles(what: Sought, session: Session) -> Iterator[tuple[str, int]]:
    for again in session.recompiles:
        if any(str(each.kind) in what.ids for each in again.causes):
            yield again.file, again.line
    failure = session.failure
    if failure is not None and reason_kinds(failure.message) & set(what.ids):
        yield from recompiled_places(failure.message)


def gbs_of(message: str) -> set[str]:
    """Return the gb ids that a text of torch names."""
    return {f"GB{number}" if number else name.upper() for number, name in _GB.findall(message)}


def reason_kinds(message: str) -> set[str]:
    """Return the kinds of the failed guards that torch names where it recompiles."""
    texts = [each.partition("  # ")[0] for each in _REASON.findall(message)]
    return {str(cause_of(UnmetGuard(text)).kind) for text in texts}


def recompiled_places(message: str) -> list[tuple[str, int]]:
    """Return the functions that torch recompiles, as file and line."""
    return [(match[1], int(match[2])) for match in _RECOMPILED.finditer(message)]


def quoted_places(message: str) -> list[tuple[str, int]]:
    """Return the places of the user's stack that an exception of torch quotes."""
    _, _, stack = message.partition("from user code")
    return [(match[1], int(match[2])) for match in _QUOTED.finditer(stack)][-1:]
