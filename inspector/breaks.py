"""Breaks and skips of a run: torch's many reports folded into sites, each with its reason and what to do."""

from ctrace.inspector.advice import advice
from ctrace.inspector.model import Break, BreakKind, Failure, Frame, Owner, Skip
from ctrace.inspector.owners import owner_of
from ctrace.inspector.raw import Raw
from ctrace.inspector.recompiles import is_limit
from ctrace.inspector.sites import ParsedBreak, parse_break, resumed

_SiteKey = tuple[tuple[str, ...], str, int, Owner]


def breaks_of(raw: Raw) -> tuple[Break, ...]:
    """Fold all reports of one site into one break, in the order sites were first met."""
    sites: dict[_SiteKey, list[tuple[str, ParsedBreak]]] = {}
    for reported in raw.breaks:
        parsed = parse_break(reported.text)
        if parsed.frames:
            sites.setdefault(_key(parsed, raw), []).append((reported.id, parsed))
    return tuple(_break(key, reports, raw) for key, reports in sites.items())


def _key(parsed: ParsedBreak, raw: Raw) -> _SiteKey:
    frame = _user_frame(parsed.frames, raw)
    return parsed.gb, frame.file, frame.line, owner_of(parsed.frames[-1].file, raw.prefixes)


def _user_frame(frames: tuple[Frame, ...], raw: Raw) -> Frame:
    """Find the innermost frame of the user's own code; a stack without one keeps its innermost frame."""
    mine = [frame for frame in frames if owner_of(frame.file, raw.prefixes) is Owner.USER]
    return mine[-1] if mine else frames[-1]


def _break(key: _SiteKey, reports: list[tuple[str, ParsedBreak]], raw: Raw) -> Break:
    gb, file, line, owner = key
    first = reports[0][1]
    frame = _user_frame(first.frames, raw)
    known = next((advice("breaks")[id_] for id_ in gb if id_ in advice("breaks")), {})
    paths = dict.fromkeys(_path(parsed.frames, raw) for _, parsed in reports)
    return Break(
        gb=gb,
        kind=BreakKind.DISABLED if first.is_disabled else BreakKind.BREAK,
        owner=owner,
        file=file,
        line=line,
        function=frame.function,
        source=frame.source,
        reason=_reason(first, known),
        fix=known.get("fix") or (first.hints[0] if first.hints else ""),
        times=len(reports),
        compilations=tuple(dict.fromkeys(compile_id for compile_id, _ in reports)),
        paths=tuple(paths),
    )


def _path(frames: tuple[Frame, ...], raw: Raw) -> tuple[Frame, ...]:
    """Leave out the frames of whoever started the program, down to the first of the user's."""
    start = next((index for index, frame in enumerate(frames) if owner_of(frame.file, raw.prefixes) is Owner.USER), 0)
    return frames[start:]


def _reason(parsed: ParsedBreak, known: dict[str, str]) -> str:
    told = parsed.explanation or parsed.title
    if parsed.is_disabled:
        _, found, reason = told.rpartition("(reason: ")
        return f"{known.get('why', told)} Its author says: {reason.rstrip(')')}." if found else known.get("why", told)
    return known.get("why") or told


def skips_of(raw: Raw, breaks: tuple[Break, ...], failure: Failure | None) -> tuple[Skip, ...]:
    """Find the user's functions that Dynamo gave up; a failure that ended the run is not one of them."""
    skips: dict[tuple[str, str, int], Skip] = {}
    failed = [id_ for id_, measured in raw.metrics.items() if measured.fail_type]
    for compile_id in failed:
        measured = raw.metrics[compile_id]
        ended_run = failure is not None and compile_id == failed[-1] and failure.type in (measured.fail_type or "")
        start = raw.starts.get(compile_id)
        if is_limit(measured) or ended_run or start is None or not start.stack:
            continue
        frame = start.stack[-1]
        file, function = raw.files.get(frame.file, "?"), resumed(frame.name)[0]
        if owner_of(file, raw.prefixes) is Owner.USER:
            cause = next((index for index, each in enumerate(breaks) if compile_id in each.compilations), None)
            reason = breaks[cause].reason if cause is not None else _first_line(measured.fail_reason)
            skips.setdefault((function, file, frame.line), Skip(function, file, frame.line, reason, cause))
    return tuple(skips.values())


def _first_line(text: str | None) -> str:
    return (text or "torch gives no reason").strip().partition("\n")[0]
