"""Advice on printing, logging, warnings, clocks and counting in compiled code."""

import ast
from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.naming import at, break_kind, place_ahead
from ctrace.inspector.diagnosis.rules.value_rules import at_break
from ctrace.inspector.edits.eager_only import chosen, head
from ctrace.inspector.edits.line_edits import Change, covers, line_edits, nodes_around, source_of, statement_at
from ctrace.inspector.edits.torch_options import ignored_line
from ctrace.inspector.facts.diagnosis import RootCause, RootKind
from ctrace.inspector.facts.findings import Break
from ctrace.inspector.facts.trial import LineEdit, Trial
from ctrace.inspector.findings.breaks.break_fold import logger_method
from ctrace.inspector.knowledge.counting import framed
from ctrace.inspector.source.constructs import is_clock_call
from ctrace.inspector.source.text import parsed

_NAMED = 4
"""How many statements the advice names; it only counts the rest."""


def printing(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to guard all statements that write output; the trial makes that edit."""
    causes = [cause for cause in scene.causes if cause.kind is RootKind.OUTPUT and scene.is_users(cause.file)]
    if not causes:
        return
    breaks = [each for cause in causes for each in scene.breaks(cause)]
    edits = [edit for each in breaks for edit in [_edit(scene, each)] if edit is not None]
    trial = None
    # A statement that no edit can guard would still break the graph in the trial.
    if len(edits) == len(breaks):
        trial = Trial(edits=tuple(dict.fromkeys(edits)))
    more = ""
    if len(causes) > _NAMED:
        more = f" and {len(causes) - _NAMED} more"
    what, others = _written(scene, causes[0]), ", ".join(at(cause) for cause in causes[1:_NAMED])
    also = framed(" The same at ", others, f"{more}.")
    text = f"{at(causes[0])}: remove {what}, or guard it with `{head()}`.{also}"
    short = f"remove {what} at {', '.join(at(cause) for cause in causes[:_NAMED])}{more}"
    yield Candidate(text, tuple(cause.id for cause in causes), trial, worth=80, short=short)


def clocks(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to read clocks in eager only, also those of a function that the break kept Dynamo from; the trial does."""
    for cause in scene.causes:
        for each in scene.breaks(cause):
            torch, text = scene.torch_name(each.file), scene.session.listings.get(each.file, "")
            if not torch or each.construct != "clock" or not scene.is_users(each.file):
                continue
            calls = _clocks_around(text, each.line)
            if not calls:
                continue
            # In parentheses: without them, the `else` would take all of `time.time() - start`.
            changes: list[Change] = [(call, f"({chosen(torch, source_of(text, call), '0.0')})") for call in calls]
            edits = line_edits(each.file, text, changes)
            others = [str(line) for line in dict.fromkeys(call.lineno for call in calls) if line != each.line]
            also = framed(", also at line ", " and ".join(others))
            shown = f"`{chosen(torch, source_of(text, calls[0]), '0.0')}`"
            advice = f"{at(cause)}: remove the clock, or read it in eager only{also}: {shown}."
            if edits:
                yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=81, only_checked=True)
            break


def counters(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to count in eager only, for a statement such as `Op.calls += 1` that Dynamo cannot trace; the trial does.

    Attributes of modules are no such case: they are traced, and other rules advise on the recompilations.
    """
    for cause in scene.causes:
        for each in scene.breaks(cause):
            text = scene.session.listings.get(each.file, "")
            statement = statement_at(text, each.line)
            if statement is None or not scene.is_users(each.file) or not _counts(statement):
                continue
            edit = _guarded(scene, each, statement)
            if edit is None:
                continue
            advice = (
                f"{at(cause)}: count in eager only, `{edit.text.strip()}`: compiled calls then leave it out. To count "
                "compiled calls too, do so around the compiled call."
            )
            yield Candidate(advice, (cause.id,), Trial(edits=(edit,)), worth=78, only_checked=True)


def _counts(statement: ast.stmt) -> bool:
    """Whether a statement changes an attribute of something other than `self` by a constant."""
    match statement:
        case ast.AugAssign(target=ast.Attribute(value=ast.Name(id=owner)), value=ast.Constant()):
            return owner != "self"
    return False


def _clocks_around(text: str, line: int) -> list[ast.Call]:
    """Return the calls that read a clock, of the innermost function around a line that reads one; none if none is."""
    inside = nodes_around(text, line)
    calls = [node for node in inside if isinstance(node, ast.Call) and is_clock_call(node)]
    if any(covers(call, line) for call in calls):
        return calls
    return []


def _written(scene: DiagnosisScene, cause: RootCause) -> str:
    breaks = scene.breaks(cause)
    shown = next((each.expression for each in breaks if break_kind(each) is RootKind.OUTPUT), "")
    if shown:
        return f"`{shown}`"
    return "the statement"


def loggers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer the setting that drops a logger's methods from compiled code, for lines outside of the user's code."""
    found: dict[str, list[RootCause]] = {}
    if _all_users(scene):
        return
    for cause, each in scene.breaks_of((RootKind.OUTPUT,)):
        name = logger_method(each.called)
        if name and not scene.is_users(each.file):
            found.setdefault(name, []).append(cause)
    for name, causes in found.items():
        method = f"logging:Logger.{name}"
        text = f"{at(causes[0])}: {ignored_line(method)}: compiled code then drops the message."
        trial = Trial(ignored=(method,))
        yield Candidate(text, tuple(cause.id for cause in causes), trial, worth=80, only_checked=True)


def warnings_of_libraries(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer the setting that drops warnings from compiled code, for a library's code that warns."""
    causes = [
        cause
        for cause in scene.causes
        if any(_WARN in each.called and not scene.is_users(each.place.file) for each in scene.breaks(cause))
    ]
    if causes:
        place = place_ahead(causes[0])
        text = f"{place}{ignored_line(_WARNINGS)}: compiled code then drops the warning of the library."
        trial = Trial(ignored=(_WARNINGS,))
        yield Candidate(text, tuple(cause.id for cause in causes), trial, worth=79, only_checked=True)


_WARNINGS = "warnings:warn"
_WARN = "module: _warnings, qualname: warn"
"""How torch names warnings.warn in the reason of a break."""


def filters(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to set filters of warnings before the compiled call; the trial removes the statement."""
    for cause in scene.causes:
        for each in filter(lambda broken: scene.is_users(broken.file), scene.breaks(cause)):
            statement = _statement_at(scene.session.listings.get(each.file, ""), each.line)
            match statement:
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="warnings"), attr=name))) if (
                    name in _FILTERS
                ):
                    text = scene.session.listings[each.file]
                    edits = line_edits(each.file, text, [(statement, "pass")])
                    call = source_of(text, statement)
                    advice = f"{at_break(each)}: remove `{call}`, and call it once before the compiled model is called."
                    yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=79, only_checked=True)
                    break


_FILTERS = frozenset(("filterwarnings", "resetwarnings", "simplefilter"))


def _all_users(scene: DiagnosisScene) -> bool:
    return all(scene.is_users(each.file) for each in scene.session.breaks)


def _edit(scene: DiagnosisScene, each: Break) -> LineEdit | None:
    """Guard a simple statement; return None if it is not alone on its line, or if the file does not import torch."""
    statement = _statement_at(scene.session.listings.get(each.file, ""), each.line)
    if statement is not None:
        return _guarded(scene, each, statement)
    return None


def _guarded(scene: DiagnosisScene, each: Break, statement: ast.stmt) -> LineEdit | None:
    line, name = scene.line(each.file, each.line), scene.torch_name(each.file)
    if not name or statement.lineno != each.line:
        return None
    indent = line[: len(line) - len(line.lstrip())]
    # In `if x: print(x)`, no other `if` fits before the call. Columns of `ast` count bytes.
    if len(indent.encode()) != statement.col_offset:
        return None
    return LineEdit(each.file, each.line, f"{indent}{head(name)} {line.lstrip()}", line.strip())


def _statement_at(text: str, line: int) -> ast.stmt | None:
    """Return the innermost statement at a line that is a bare call."""
    tree = parsed(text)
    calls = [
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and covers(node, line)
    ]
    # Of `print(a); print(b)`, the break does not say which.
    if len(calls) == 1:
        return calls[-1]
    return None
