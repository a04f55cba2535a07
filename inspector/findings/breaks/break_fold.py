"""Build the breaks of a run (`breaks_of`): group torch's reports by site, and give each site a reason and a fix.

`parse_break` parses torch's report of a graph break: gb ids, reason, hints and the user's stack. The text (2.13,
_dynamo/symbolic_convert.py:5026) has a header, the reason with explanation, hints and a link that contains the gb id,
then the user's traceback and Dynamo's.
"""

import re
from enum import StrEnum
from pathlib import PurePath

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.findings import Advice, Break, BreakKind, Frame, Owner, UserLine
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.advice import AdviceEntry, advice_on_break
from ctrace.inspector.log.collected_log import CollectedLog
from ctrace.inspector.source.constructs import Construct, construct_at, is_bare_call
from ctrace.inspector.source.owners import frame_outside_torch, owner_of, user_frame_or_last
from ctrace.inspector.source.stacks import frames_in
from ctrace.inspector.source.text import text_around

_GB = re.compile(r"/gb/gb(\d+)\.html", re.IGNORECASE)
_HEADER = re.compile(r"Graph break in user code at (?P<file>.*):(?P<line>\d+)")
_DISABLED = frozenset(("GB0098", "GB0099"))
_UNBACKED = re.compile(r"GuardOnDataDependentSymNode: Could not guard on data-dependent expression ")
"""How torch names a condition on a symbol without a value (2.11 to 2.15, fx/experimental/symbolic_shapes.py)."""
CONSEQUENCE = "\n*** While handling this graph break"
"""What comes before a break that torch met while it handled another one."""
_LOOP = re.compile(r"^graph break in loop$", re.MULTILINE)


class BreakOutcome(StrEnum):
    """How Dynamo went on after a break in the function that it was compiling."""

    CUT = "cut"
    """It ends the graph at the break, runs the statement in Python, and compiles a function that resumes after it."""
    REST_IN_EAGER = "rest_in_eager"
    """It ends the graph at an earlier point, and runs the rest in Python."""
    SKIPPED = "skipped"
    """It runs the whole function in Python."""


class ParsedBreak(Struct, frozen=True):
    """One of torch's reports of a break, parsed."""

    gb: tuple[str, ...]
    title: str
    explanation: str
    hints: tuple[str, ...]
    context: str
    frames: tuple[Frame, ...]
    """Outermost first; the break is at the last frame."""
    outcome: BreakOutcome = BreakOutcome.CUT
    in_loop: bool = False
    """Whether Dynamo gave up on the function because the break is in a loop."""
    is_unbacked: bool = False
    """Whether Dynamo could not decide a condition on a size or number that has no value while it compiles."""

    @property
    def is_disabled(self) -> bool:
        """Whether `torch.compiler.disable` excludes a function from compilation."""
        return not _DISABLED.isdisjoint(self.gb)


def parse_break(text: str) -> ParsedBreak:
    """Parse one report; a part that it lacks stays empty."""
    head, _, dynamo = text.partition("\nUser code traceback:\n")
    user, _, _ = dynamo.partition("\n\n")
    # The text after "another graph break occurred" is a consequence: Dynamo skips the function for the first break.
    reason, _, consequence = head.partition("Graph Break Reason: ")[2].partition(CONSEQUENCE)
    reason = f"\n{reason}"
    title, explanation, hints, context = _parts_of_reason(reason)
    frames = frames_in(user) or _header_frame(head)
    gb = tuple(dict.fromkeys(f"GB{number}" for number in _GB.findall(reason)))
    in_loop = _LOOP.search(consequence) is not None
    return ParsedBreak(
        gb=gb,
        title=title,
        explanation=explanation,
        hints=hints,
        context=context,
        frames=frames,
        outcome=_outcome(head),
        in_loop=in_loop,
        is_unbacked=_UNBACKED.search(dynamo) is not None,
    )


def _outcome(head: str) -> BreakOutcome:
    """Read the outcome from torch's first lines (2.11 and 2.13, _dynamo/symbolic_convert.py, `log_graph_break`)."""
    if "Skipping the function and falling back to eager" in head or "results in a skip" in head:
        return BreakOutcome.SKIPPED
    if "then skipping the rest of the function" in head:
        return BreakOutcome.REST_IN_EAGER
    return BreakOutcome.CUT


def _parts_of_reason(text: str) -> tuple[str, str, tuple[str, ...], str]:
    """Parse the last group of title, explanation, hints and context; the text before says what Dynamo was doing."""
    head, found, tail = text.rpartition("\n  Explanation: ")
    if not found:
        # A `UserError` of torch (_dynamo/exc.py, 2.13) has no such parts; its first line is the best title.
        return text.strip().partition("\n")[0], "", (), ""
    title = head.rstrip().rpartition("\n")[2].strip()
    body, _, context = tail.partition("\n  Developer debug context: ")
    explanation, *hints = re.split(r"\n  Hint: ", body)
    clean = tuple(" ".join(hint.split()) for hint in hints)
    return title, " ".join(explanation.split()), clean, context.partition("\n\n")[0].strip()


def _header_frame(text: str) -> tuple[Frame, ...]:
    match = _HEADER.search(text)
    if match:
        return (Frame(match["file"], int(match["line"]), ""),)
    return ()


_BRANCHES = frozenset(("GB0034", "GB0035", "GB0170"))
_CALLEE = re.compile(
    r"builtin (?P<builtin>\w+) |call_method .*\) (?P<method>\w+) [(\[]"
    r"|module: .*, qualname: (?:\w+\.)*(?P<skipped>\w+),"
)
_LOGGER = re.compile(r"^method: <\w*Logger .*?>\.(?P<name>\w+), args")
"""How torch names a method of a logger (_dynamo/variables/misc.py, 2.11 to 2.13)."""
_BUILTIN = re.compile(r"<built-in method (?P<name>\w+) of type object at 0x[0-9a-f]+>")
"""How torch names one of its functions in a context; the address differs between runs."""
_SKIPPED_FILE = re.compile(r"skip reason: file is under skip directory \((?P<file>.+)\)$")
"""Torch skips the folders of some libraries, which it finds by name, so also a user's file with such a name
(_dynamo/trace_rules.py:THIRDPARTY_SKIPLIST, 2.13).
"""
_EXPLICIT = "GB0025"
_NOT_TRACED = "GB0007"
_SiteKey = tuple[tuple[str, ...], str, int]


class Report(Struct, frozen=True):
    """One of torch's reports of a break, with the compilation that broke."""

    compilation: str
    parsed: ParsedBreak
    site: int
    """The index of the report's site in `Session.breaks`."""


def reports_of(raw: CollectedLog) -> tuple[Report, ...]:
    """Parse all reports, and number their sites by first occurrence."""
    sites: dict[_SiteKey, int] = {}
    reports = []
    for reported in raw.breaks:
        parsed = parse_break(reported.text)
        # A report without a traceback and without torch's header, as in a cut log, names no line that it could be shown
        # at.
        if parsed.frames:
            site = sites.setdefault(_key(parsed, raw), len(sites))
            reports.append(Report(reported.id, parsed, site))
    return tuple(reports)


def breaks_of(raw: CollectedLog, reports: tuple[Report, ...]) -> tuple[Break, ...]:
    """Combine the reports of each site into one break."""
    sites = grouped(reports, lambda report: report.site)
    return tuple(_break(sites[index], raw) for index in sorted(sites))


def _key(parsed: ParsedBreak, raw: CollectedLog) -> _SiteKey:
    # The user's line alone does not tell sites apart: one call of a library may break in several of its lines, each
    # with a fix of its own, and two of the user's lines may lead to one of them.
    frame = frame_outside_torch(parsed.frames, raw.prefixes, raw.home)
    return parsed.gb, frame.file, frame.line


def _break(reports: list[Report], raw: CollectedLog) -> Break:
    first = reports[0].parsed
    if first.is_disabled:
        kind = BreakKind.DISABLED
    else:
        kind = BreakKind.BREAK
    frame = user_frame_or_last(first.frames, raw.prefixes)
    construct = _construct(first, frame, raw)
    owner = owner_of(first.frames[-1].file, raw.prefixes)
    inside = frame_outside_torch(first.frames, raw.prefixes, raw.home)
    # A user changes the user's line, but what Dynamo could not trace may stand in a library that the line calls.
    broken, place = construct, ""
    # Torch's text on the case is more certain than the shape of the user's statement, so it goes first.
    known = advice_on_break(first.gb, _case(first, owner, raw) or _effect(first, frame, raw) or construct.kind)
    # If the advice is on the very call in the user's line, e.g. `open(path)`, the library's line below adds nothing.
    is_own_call = known is not None and construct.expression.startswith(f"{known.it}(")
    if owner is Owner.LIBRARY and first.frames[-1] != frame and not is_own_call:
        broken = _construct(first, first.frames[-1], raw)
        place = f"{PurePath(first.frames[-1].file).name}:{first.frames[-1].line}"
    expression = _called_by_a_wrapper(broken.expression, first.context) or broken.expression
    if owner is Owner.TORCH and first.frames[-1] != frame and _WRAPPER.search(first.frames[-1].file):
        # The user's line calls a wrapped model; the code of the wrapper is what Dynamo could not trace.
        expression, place = "", f"{PurePath(first.frames[-1].file).name}:{first.frames[-1].line}"
        construct = replace(construct, expression="")
    about, advice = None, Advice()
    title, fix = first.title, _first_hint(first)
    if known is not None:
        about = known.about(expression, place)
        advice = _advice(known, first)
        title, fix = about.title, about.fix
        # The entry's code shows the call before the region, which is impossible here, so the code goes, too.
        if construct.needs and not place and _is_moved(known):
            fix, advice = _after_the_call(construct.expression, construct.needs), Advice()
        # "Once" would be wrong for a call whose arguments differ from call to call.
        elif not construct.is_constant and not place:
            fix = fix.replace(_ONCE, "outside of the compiled region")
    is_users_line = (inside.file, inside.line) == (frame.file, frame.line)
    return Break(
        gb=first.gb,
        kind=kind,
        owner=owner,
        file=frame.file,
        line=frame.line,
        function=frame.function,
        source=frame.source,
        reason=_reason(first, about),
        fix=fix,
        times=len(reports),
        compilations=tuple(dict.fromkeys(report.compilation for report in reports)),
        paths=tuple(dict.fromkeys(_path(report.parsed.frames, raw) for report in reports)),
        span=construct.span or frame.span,
        expression=construct.expression,
        advice=advice,
        construct=construct.kind,
        title=title,
        torch_hint=known is None,
        called=first.context,
        inside=None if is_users_line else inside,
        reached_from=_user_lines(reports, raw),
    )


def _called_by_a_wrapper(expression: str, context: str) -> str:
    """Return the name of the function that a line like `func(*args, **kwds)` calls, if torch's context has it.

    contextlib and decorators call a function so: their line says nothing of what Dynamo could not trace.
    """
    match = _QUALNAME.search(context)
    if match and _PASSES_ALL.fullmatch(expression):
        return match["name"]
    return ""


_PASSES_ALL = re.compile(r"[\w.]+\(\*\w+, \*\*\w+\)")
_QUALNAME = re.compile(r"^module: [\w.]+, qualname: (?P<name>[\w.]+), skip reason:")
"""How torch names a function that it skips (_dynamo/variables/functions.py, 2.13)."""
_WRAPPER = re.compile(r"[/\\]torch[/\\](?:distributed|nn[/\\]parallel)[/\\]")
"""Code of torch around a model: DDP, FSDP and what they call."""
_MOVED = re.compile(
    r"(?:Move|Make|Compute|Call|Convert|Read) \{it\} [^.]*\bbefore the compiled (?:call|region)\b"
    r"|Call \{it\} (?:once )?outside of the compiled region\b"
)
_ONCE = "once outside of the compiled region and keep the result"
"""What advice says of a call whose result is always the same."""


def _is_moved(known: AdviceEntry) -> bool:
    """Whether advice is to do the same before the compiled call, or outside of it."""
    return _MOVED.match(known.fix) is not None


def _after_the_call(expression: str, needs: tuple[str, ...]) -> str:
    """Advise on what cannot come before the compiled call, as it needs variables that compiled code computes."""
    names = " and ".join(f"`{name}`" for name in needs)
    return (
        f"Return {names}, and compute `{expression}`, and what uses it, after the compiled call: it needs what the "
        "compiled code computes."
    )


def _user_lines(reports: list[Report], raw: CollectedLog) -> tuple[UserLine, ...]:
    """Group the reports of a site by the user's line that led to it."""
    lines: dict[tuple[str, int], list[Report]] = {}
    for report in reports:
        frame = user_frame_or_last(report.parsed.frames, raw.prefixes)
        lines.setdefault((frame.file, frame.line), []).append(report)
    return tuple(_user_line(same, raw) for same in lines.values())


def _user_line(reports: list[Report], raw: CollectedLog) -> UserLine:
    first = reports[0].parsed
    frame = user_frame_or_last(first.frames, raw.prefixes)
    return UserLine(
        replace(frame, span=_construct(first, frame, raw).span or frame.span),
        owner_of(first.frames[-1].file, raw.prefixes),
        len(reports),
        tuple(dict.fromkeys(report.compilation for report in reports)),
    )


def logger_method(called: str) -> str:
    """Return the logger method that Dynamo did not trace; empty if the break is not at a logger method."""
    match = _LOGGER.match(called)
    if match is not None:
        return match["name"]
    return ""


def _case(parsed: ParsedBreak, owner: Owner, raw: CollectedLog) -> str:
    """Return the special case of the advice, which depends on torch's text and on the owner of the code."""
    if (skipped := _SKIPPED_FILE.search(parsed.context)) and owner_of(skipped["file"], raw.prefixes) is Owner.USER:
        return "namesake"
    if parsed.is_unbacked and not _BRANCHES.isdisjoint(parsed.gb):
        return "unbacked"
    if case := triton_case(parsed):
        return case
    if _EXPLICIT in parsed.gb and owner is not Owner.USER:
        return "foreign"
    return ""


def _effect(parsed: ParsedBreak, frame: Frame, raw: CollectedLog) -> str:
    """Return `effect` if the code drops what a call that Dynamo skips returns."""
    if _NOT_TRACED in parsed.gb and is_bare_call(*text_around(raw.listings, frame)):
        return "effect"
    return ""


def _advice(known: AdviceEntry, parsed: ParsedBreak) -> Advice:
    """Return the code of an advice entry, with its switch if the switch helps with this call."""
    fitting = known.calling(logger_method(parsed.context))
    return Advice(fitting.before, fitting.after, fitting.switch, fitting.risk)


def _construct(parsed: ParsedBreak, frame: Frame, raw: CollectedLog) -> Construct:
    """Find the user's code that broke; torch 2.11 logs no columns, but names the function of a call."""
    text, line = text_around(raw.listings, frame)
    callee = _CALLEE.match(parsed.context)
    name = ""
    if callee:
        name = callee["builtin"] or callee["method"] or callee["skipped"]
    # These ids are about a condition: without columns, it is the test of the `if`, `while` or `assert`, no call in it.
    branches = not _BRANCHES.isdisjoint(parsed.gb)
    return construct_at(text, line, frame.span, branches=branches, callee=name)


def _path(frames: tuple[Frame, ...], raw: CollectedLog) -> tuple[Frame, ...]:
    """Drop the frames before the user's first frame, which start the program, and torch's frames after it."""
    owners = [owner_of(frame.file, raw.prefixes) for frame in frames]
    last = len(frames) - 1
    if Owner.USER in owners:
        start = owners.index(Owner.USER)
    else:
        # A library's model that ctrace calls directly has no frame of the user: leave out ctrace's own calls instead.
        ours = [at for at in range(last) if raw.home and frames[at].file.startswith(raw.home)]
        start = 0
        if ours:
            start = ours[-1] + 1
    return tuple(
        frame for at, frame in enumerate(frames) if at == last or (at >= start and owners[at] is not Owner.TORCH)
    )


def _reason(parsed: ParsedBreak, known: AdviceEntry | None) -> str:
    """Return ctrace's explanation with torch's detail for this case; without one, return torch's explanation."""
    if known is None:
        return parsed.explanation or parsed.title
    why = known.why
    if parsed.is_disabled:
        author = parsed.explanation.partition("(reason: ")[2].removesuffix(")")
        # Without a reason, torch writes `(reason: None)` (2.13, _dynamo/variables/functions.py).
        if author not in ("", "None"):
            return f"{why} Its author says: {author}."
        return why
    detail = {"explanation": parsed.explanation, "context": parsed.context}.get(known.shows)
    if not detail:
        return why
    named = _BUILTIN.sub(r"torch.\g<name>", detail)
    return f"{why} Torch says: {named}"


def _first_hint(parsed: ParsedBreak) -> str:
    if parsed.hints:
        return parsed.hints[0]
    return ""


_LIMIT = "GB0361"
_PHRASES = {
    "are supported for triton.autotune": "triton_autotune",
    "pre_hook and post_hook": "triton_hooks",
    "num_ctas": "triton_ctas",
    "multiple @triton.autotune": "triton_autotuned_twice",
    "only a single grid": "triton_two_grids",
    "with a grid": "triton_no_grid",
    "Only tuple grids": "triton_grid",
    "at most rank 3": "triton_rank",
    "must return constant": "triton_heuristics",
    "Unexpected argument type": "triton_argument",
}
"""The special case in advice/breaks/ for each phrase in torch's explanation; the first match counts."""
_LAUNCHER = re.compile(r"[/\\]triton[/\\]runtime[/\\]jit\.py$")


def triton_case(parsed: ParsedBreak) -> str:
    """Return the special case of a break, as in `GB0361/triton_hooks`; empty if it is not about a Triton kernel.

    Dynamo traces into Triton's launcher only if it does not recognize the kernel: torch finds no device for it.
    """
    if _LIMIT in parsed.gb:
        return next((case for phrase, case in _PHRASES.items() if phrase in parsed.explanation), "")
    if any(_LAUNCHER.search(frame.file) for frame in parsed.frames):
        return "triton_unseen"
    return ""
