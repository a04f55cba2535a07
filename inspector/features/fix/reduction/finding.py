"""What a reproducer must show, and whether a run shows it: the same gb id, rule, cause or exception, at its line.

A line may have several findings, even several with the same gb id or kind. So a finding also has what distinguishes
it from those: what could not be called, the name whose change made torch compile again or made results differ.
"""

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.diagnosis.naming import (
    is_mixed,
    leading_change,
    title_of_break,
    title_of_change,
    title_of_failure,
)
from ctrace.inspector.diagnosis.root_causes import lead_of
from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.facts.diagnosis import Finding, RootCause, Symptom
from ctrace.inspector.facts.findings import Break, Cause, Danger, Owner
from ctrace.inspector.facts.guard_facts import UnmetGuard
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.fix.reduction.reduction_edits import HOOK
from ctrace.inspector.findings.recompiles.recompile_causes import cause_of
from ctrace.inspector.source.owners import owner_of
from ctrace.inspector.source.text import python_lines

_GB = re.compile(r"/gb(\d+)\.html|\b(GB\d{4})\b", re.IGNORECASE)
_QUOTED = re.compile(r'^\s*File "([^"\n]+)", line (\d+), in ', re.MULTILINE)
_ARGUMENTS = re.compile(r"[\[({<]")
_FUNCTION = re.compile(r"qualname: [\w.]+|(?:<(?:function|bound method) (?:\S*\.)?)([^\s.]+ (?:at 0x|of ))")
"""The name of a function, in Dynamo's words or in Python's; a longer name depends on where the function is defined."""
_END = re.compile(r"(?:\w+\.)?\w+\([^()]*\)$|\w+\W*$")
_NAME = re.compile(r"[A-Za-z_]\w*")
_REASON = re.compile(r"^.*?- \d+/\d+: (.*)$", re.MULTILINE)
_RECOMPILED = re.compile(r"Recompiling function \S+ in (.+):(\d+)$", re.MULTILINE)
DIFFERS = "compiled and eager results differ"
"""The message of the assertion in a reproducer of a wrong result."""
NOT_SHOWN = (Finding.ATTENTION,)
"""Findings that are not about correctness or capture: no short program is needed to show them."""


class Sought(Struct, frozen=True):
    """A finding, in a form that stays the same while the program shrinks."""

    JSON: ClassVar[str] = "id what title ids file|null_if_empty line|null_if_empty"
    id: str
    what: Finding
    words: str
    """The finding in a few words, such as GB0170."""
    ids: tuple[str, ...]
    """Ids of a break, the rule of a skip, the kind of a recompilation, or the type of an exception."""
    shape: str = ""
    """The shape of an exception's message; numbers and names do not count."""
    same: tuple[str, ...] = ()
    """What distinguishes it from other findings with these ids; empty: nothing has to."""
    others: tuple[str, ...] = ()
    """For a wrong result, the names whose changes explain other wrong results of the run."""
    file: str = ""
    line: int = 0
    """The place in the target."""
    column: int | None = None
    """Where in the line, in bytes; None: not known."""
    library: str = ""
    """The library's file if the place is in a package; its line must stay."""
    function: str = ""
    title: str = ""


def chosen(causes: Iterable[RootCause], site: str | None) -> RootCause:
    """Return the root cause that the user named: by id, as `file.py:12`, or by default the first that can be shown.

    Raises:
        TargetError: there is no such finding.
    """
    known = [each for each in causes if any(symptom.what not in NOT_SHOWN for symptom in each.symptoms)]
    if not known:
        raise TargetError(
            "there is no finding to reproduce: the target compiles without breaks, recompilations or errors",
            "ctrace explain shows what torch.compile did",
        )
    if site is None:  # an expected finding only if there is no other: nobody has to do anything about it
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


def at_the_same_line(cause: RootCause, causes: Iterable[RootCause]) -> list[RootCause]:
    """Return the other findings at a finding's line."""
    known = (each for each in causes if each.symptoms and each.file is not None and each.id != cause.id)
    return [each for each in known if (each.file, each.line) == (cause.file, cause.line)]


def sought(cause: RootCause, session: Session) -> Sought:
    """Return what a reproducer of a root cause must show: the finding that its title describes."""
    made = _sought(cause, lead_of(cause, session), session)
    is_library = bool(made.file) and owner_of(made.file, session.environment.prefixes) is not Owner.USER
    return replace(made, library=made.file if is_library else "", title=cause.title)


def _sought(cause: RootCause, lead: Symptom, session: Session) -> Sought:
    match lead.what:
        case Finding.BREAK:
            each = session.breaks[lead.index]
            words = "graph break"
            if each.gb:
                words = each.gb[0]
            about = Sought(cause.id, lead.what, words, each.gb, same=_about_break(each))
            return replace(about, file=each.file, line=each.line, column=_column(each, session), function=each.function)
        case Finding.SKIP:
            skip = session.skips[lead.index]
            words = f"{skip.function} runs eagerly ({skip.rule})"
            about = Sought(cause.id, lead.what, words, (skip.rule,))
            return replace(about, file=skip.file, line=skip.line, function=skip.function)
        case Finding.RECOMPILE:
            return _of_recompiles(cause, session)
        case Finding.DANGER:
            danger = session.dangers[lead.index]
            same = tuple(words_of(danger))
            # Statements with these words are dropped at once: else the smaller program shows another danger.
            others = {word for each in session.dangers for word in words_of(each)} - set(same)
            about = Sought(cause.id, lead.what, "wrong result", ("AssertionError",), DIFFERS)
            return replace(about, same=same, others=tuple(sorted(others)))
        case _:
            # By the shape of its message: numbers and names change while the program shrinks.
            failure = session.failure
            assert failure is not None
            about = Sought(cause.id, Finding.FAILURE, failure.type, (failure.type,), shape_of(failure.message))
            return replace(about, file=failure.file or "", line=failure.line or 0)


def _of_recompiles(cause: RootCause, session: Session) -> Sought:
    mine = [session.recompiles[each.index] for each in cause.symptoms if each.what is Finding.RECOMPILE]
    again, kind = mine[0], ""
    same: tuple[str, ...] = ()
    if any(each.causes for each in mine):
        again, leading = leading_change(mine, session)
        kind = str(leading.kind)
        if not is_mixed(mine):  # else its title names several submodules
            same = (_last_names(leading.subject),)
    about = Sought(cause.id, Finding.RECOMPILE, f"recompilation ({kind})", (kind,), same=same)
    return replace(about, file=again.file, line=again.line, function=again.function)


def _column(each: Break, session: Session) -> int | None:
    """Return where in its line a break's code begins, in bytes as Python's trees count them."""
    lines = python_lines(session.listings.get(each.file, ""))
    whole = ""
    if each.line <= len(lines):
        whole = lines[each.line - 1]
    at = -1
    if each.source:
        at = whole.find(each.source)
    if at < 0 or each.span is None:
        return None
    return len(whole[: at + each.span[0]].encode())


def _about_break(each: Break) -> tuple[str, ...]:
    """Return what stays the same while the code around a break shrinks: the construct, its title, what was called."""
    function = _FUNCTION.search(each.called)  # the name of its module is another one in a program of one file
    if function:
        called = function[1] or function[0]
    else:
        called = _ARGUMENTS.split(each.called)[0].strip()
    return each.construct, each.title, called


def _last_names(subject: str) -> str:
    """Return the end of a name: `training` of `model.fc.training`, `x.size(0)` of `self.x.size(0)`."""
    found = _END.search(subject)
    if found:
        return found[0]
    return subject


def words_of(danger: Danger) -> Iterator[str]:
    """Yield what the statement that makes results differ mentions: the name that it changes, or `hook`."""
    if danger.kind == "hook":
        yield HOOK
    elif danger.kind == "closure":
        yield from _NAME.findall(danger.subject)[:1]
    # `get_default_dtype` is set by `set_default_dtype`, and `default_dtype` is part of that name.
    elif danger.kind == "torch_switch":
        yield danger.subject.removesuffix("()").rpartition(".")[2].removeprefix("get_").removeprefix("get")
    elif danger.proven and danger.kind != "cache":
        names = _NAME.findall(danger.subject)
        yield from names[-1:]


def shape_of(message: str) -> str:
    """Return the first line of a message without its numbers, quoted parts and names."""
    first = next((line for line in message.splitlines() if line.strip()), "")
    text = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|L\[[^ ]*|<[^<>]*>|\([^()]*\)|\[[^\[\]]*\]", "_", first)
    text = re.sub(r"0x[0-9a-f]+|\d+(?:\.\d+)?|\b[su]\d+\b", "#", text)
    return " ".join(text.split())[:160]


def title_in(what: Sought, session: Session, file: str, lines: tuple[int, ...]) -> str:
    """Return the title of the finding as a run of a program shows it; empty if the run only has an exception of it."""
    if what.what is Finding.FAILURE and session.failure is not None:
        return title_of_failure(session.failure)
    if what.what is Finding.DANGER:
        return what.title
    return next((title for place, title in _titled(what, session) if _is_there(what, place, file, lines)), "")


def _titled(what: Sought, session: Session) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield the place and the title of each such finding of a run."""
    if what.what is Finding.BREAK:
        for broken in session.breaks:
            if _is_break(what, broken):
                title = title_of_break(broken)
                yield (broken.file, broken.line), title
                if what.library:  # a break's own line is the innermost one of the user, who calls the library here
                    yield from (((frame.file, frame.line), title) for path in broken.paths for frame in path)
    if what.what is Finding.SKIP:
        for skip in session.skips:
            if skip.rule in what.ids:
                yield (skip.file, skip.line), f"{skip.function} {skip.outcome}"
    if what.what is Finding.RECOMPILE:
        for again in session.recompiles:
            changes = [each for each in again.causes if _is_change(what, each)]
            yield from (((again.file, again.line), title_of_change(each)) for each in changes)


def _is_break(what: Sought, each: Break) -> bool:
    return each.gb[:1] == what.ids[:1] and _about_break(each) == (what.same or _about_break(each))


def is_shown(what: Sought, session: Session, file: str, lines: tuple[int, ...]) -> bool:
    """Whether a run of the program `file` shows the finding, in its own code at one of `lines`."""
    return any(_is_there(what, place, file, lines) for place in _places(what, session))


def _is_there(what: Sought, place: tuple[str, int], file: str, lines: tuple[int, ...]) -> bool:
    if what.library:  # the program of one file still calls the package, whose line stays where it is
        return place == (what.library, what.line)
    # Without a marked statement, such as for a failure of no line, the whole program is the place.
    return place[0] == file and (place[1] in lines or not lines)


def _places(what: Sought, session: Session) -> Iterator[tuple[str, int]]:
    """Yield the places at which a run shows a finding with the same id; an exception may stand for it."""
    yield from (place for place, _ in _titled(what, session))
    # With fullgraph=True, or a limit of one recompilation, torch raises what it would have reported.
    failure = session.failure
    if failure is None:
        return
    match what.what:
        case Finding.BREAK:
            if set(what.ids[:1]) <= gbs_of(failure.message) and is_called(what, failure.message):
                yield from quoted_places(failure.message)
        case Finding.RECOMPILE:
            if is_reason(what, failure.message):
                yield from recompiled_places(failure.message)
        case Finding.FAILURE | Finding.DANGER:
            if failure.type in what.ids and shape_of(failure.message) == what.shape:
                yield failure.file or "", failure.line or 0


def _is_change(what: Sought, cause: Cause) -> bool:
    return str(cause.kind) in what.ids and _last_names(cause.subject) in (what.same or (_last_names(cause.subject),))


def is_reason(what: Sought, message: str) -> bool:
    """Whether torch names the change that is sought where it recompiles."""
    return any(_is_change(what, each) for each in _reasons(message))


def is_called(what: Sought, message: str) -> bool:
    """Whether a text of torch names what could not be called, if the break has such a name."""
    called = ""
    if what.same:
        called = what.same[-1]
    return called in message


def gbs_of(message: str) -> set[str]:
    """Return the gb ids that a text of torch names."""
    return {f"GB{number}" if number else name.upper() for number, name in _GB.findall(message)}


def _reasons(message: str) -> Iterator[Cause]:
    """Yield the failed guards that torch names where it recompiles."""
    for each in _REASON.findall(message):
        # Behind this mark, torch quotes the line of code that made the guard, which the reduction changes.
        yield cause_of(UnmetGuard(each.partition("  # ")[0]))


def recompiled_places(message: str) -> list[tuple[str, int]]:
    """Return the functions that torch recompiles, as file and line."""
    return [(match[1], int(match[2])) for match in _RECOMPILED.finditer(message)]


def quoted_places(message: str) -> list[tuple[str, int]]:
    """Return the places of the user's stack that an exception of torch quotes."""
    # Above these words stand frames of torch (_dynamo/exc.py, 2.13); the last one below them broke.
    _, _, stack = message.partition("from user code")
    return [(match[1], int(match[2])) for match in _QUOTED.finditer(stack)][-1:]
