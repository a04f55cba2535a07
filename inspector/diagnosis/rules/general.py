"""Advice for any kind of finding: that of the advice tables, without a trial (`known_fixes`); a last resort for breaks
and recompilations (`last_resort`); and another place for torch.compile (`other_places`): the largest modules that none
of the findings pass through.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from ctrace.inspector.diagnosis.attribute_changes import LISTS, compile_statements, expression_of, members_by_list
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene, package_of
from ctrace.inspector.diagnosis.naming import at, place_ahead
from ctrace.inspector.diagnosis.rules.counter_rules import counters
from ctrace.inspector.edits.line_edits import covers
from ctrace.inspector.facts.diagnosis import Finding, RootCause, RootKind
from ctrace.inspector.facts.findings import Break, CauseKind, Owner
from ctrace.inspector.facts.trial import Part, Trial
from ctrace.inspector.findings.graphs.attention_view import answer_of
from ctrace.inspector.findings.recompiles.recompile_view import telling
from ctrace.inspector.knowledge.counting import framed, named
from ctrace.inspector.source.text import nodes_of, parsed

_NO_ADVICE = (
    "report an issue",
    "file an issue",
    "please report",
    "open an issue",
    "raise an issue",
    "may result in an error when running in eager",
    "this graph break is fundamental",
)
"""What hints say that torch writes for its own developers, that an eager call has answered, or that name no change
(2.13, _dynamo/graph_break_hints.py)."""
_IN_CODE = frozenset(
    (
        RootKind.ATTRIBUTE_VALUE,
        RootKind.CLOSURE_VALUE,
        RootKind.GLOBAL_VALUE,
        RootKind.IDENTITY,
        RootKind.KEY_ORDER,
        RootKind.LENGTH,
        RootKind.TYPE,
    )
)
"""Changes of what the code itself keeps: in a package, no user can do what the tables say."""
_OBSERVED = "GB0088"
"""The id of a break at an exception that nothing in the compiled code catches."""
_INTERNAL = re.compile(r"__(?!main__\.)")
"""How torch's names for values passed across a break begin: `___stack0`, `__resume_frame_values[1]`."""


def known_fixes(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Yield the advice tables' fix for each cause that is not expected."""
    integers = {cause.id for cause, _ in counters(scene)}  # whose rules have tried what there is to try
    for cause in scene.causes:
        # The author has disabled what is DISABLED, so it runs eagerly on purpose.
        if cause.expected or cause.kind is RootKind.DISABLED or cause.id in integers:
            continue
        text = _known(scene, cause)
        if text:
            place = at(cause)
            # The tables of advice have only words, no field that says this.
            is_no_change = text.startswith("Nothing")
            if place and not text.startswith(place) and not is_no_change:
                text = f"{place}: {text}"
            is_general = not _is_about_this(scene, cause)
            yield Candidate(text, (cause.id,), general=is_general, is_no_change=is_no_change)


def _known(scene: DiagnosisScene, cause: RootCause) -> str:
    found = next(filter(None, (_known_for_break(scene, each) for each in scene.breaks(cause))), "")
    if found:
        return found
    for skip in scene.skips(cause):
        # A skip that follows from a break goes away with the break.
        if skip.fix and skip.break_index is None:
            return skip.fix
    if cause.kind in _IN_CODE and not scene.is_users(cause.file):
        return ""
    # A recompilation may have other changes beside the one that the cause is about.
    guards = [each for each in scene.guards(cause) if each.fix and str(each.kind) == cause.kind]
    named = [each for each in guards if not _INTERNAL.match(each.subject)]
    leading = [each for each in named if cause.title.startswith(f"{each.subject} changed")] or named
    if leading:
        return telling([each for each in leading if each.subject == leading[0].subject]).fix
    for symptom in cause.symptoms:
        if symptom.what is Finding.ATTENTION:
            answer = answer_of(scene.session.attention[symptom.index])
            if answer.can_be_fixed:
                return answer.fix
            return ""
    return ""


def _known_for_break(scene: DiagnosisScene, each: Break) -> str:
    if _OBSERVED in each.gb and _raises_nothing(scene, each):
        what = framed("`", each.expression, "`") or "this line"
        return f"Not known what to change: Dynamo finds that {what} raises, and in eager it does not."
    # A hint of torch's is left to `last_resort`, behind what ctrace itself knows.
    if each.fix and not each.torch_hint and (each.owner is Owner.USER or _is_on_users_call(each)):
        return each.fix
    return ""


def _raises_nothing(scene: DiagnosisScene, each: Break) -> bool:
    """Whether a line at which Dynamo finds an exception raised none in the eager call: it came to its end, the line has
    no `raise`, and no caller in sight could have caught an exception.
    """
    # Without a count of ops, no eager call is known to have come to its end.
    if scene.session.coverage.ops is None:
        return False
    places = {(each.file, each.line), *((frame.file, frame.line) for frame in chain.from_iterable(each.paths))}
    for file, line in places:
        tree = parsed(scene.session.listings.get(file, ""))
        found = [node for node in nodes_of(tree) if _is_at(node, line)]
        if not found or any(isinstance(node, ast.Raise | ast.Try | ast.With) for node in found):
            return False
    return True


def _is_at(node: ast.AST, line: int) -> bool:
    return isinstance(node, ast.stmt) and covers(node, line)


def _is_on_users_call(each: Break) -> bool:
    """Whether the advice is on a call that the user's own line makes, such as copy.deepcopy(x), wherever it breaks."""
    return bool(each.expression) and f"`{each.expression}`" in each.reason


def _is_about_this(scene: DiagnosisScene, cause: RootCause) -> bool:
    """Whether the fix names the user's expression."""
    breaks = scene.breaks(cause)
    return not breaks or any(each.expression and each.expression in each.fix for each in breaks)


def last_resort(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Say about any other finding that nothing is known which would help, with torch's own hint if it has one."""
    for cause in scene.causes:
        found = {each.what for each in cause.symptoms}
        if cause.expected or cause.kind is RootKind.DISABLED or not found & _SLOW:
            continue
        breaks = scene.breaks(cause)
        if breaks:
            yield Candidate(_for_break(cause, breaks[0]), (cause.id,), general=True)
        elif any(each.fix and not _INTERNAL.match(each.subject) for each in scene.guards(cause)):
            yield Candidate(_for_recompile(scene, cause), (cause.id,), general=True)


_SLOW = frozenset((Finding.BREAK, Finding.RECOMPILE))


def _for_break(cause: RootCause, each: Break) -> str:
    place = place_ahead(cause)
    what = framed("`", each.expression, "`") or "this"
    if each.owner is not Owner.USER:
        why = f"cannot trace the code of {_library(each)} that it runs"
    elif each.torch_hint and each.fix and not any(part in each.fix.lower() for part in _NO_ADVICE):
        return f"{place}{each.fix}"
    else:
        why = "cannot trace it"
    return f"{place}Not known how to keep {what} in the graph: Dynamo {why}."


def _library(each: Break) -> str:
    """Name the package of a break's innermost frame."""
    return next((name for path in each.paths if path and (name := package_of(path[-1].file))), "a library")


def _for_recompile(scene: DiagnosisScene, cause: RootCause) -> str:
    place = place_ahead(cause)
    code = ""
    if cause.file and not scene.is_users(cause.file):
        code = framed(", in code of ", package_of(cause.file))
    return f"{place}Not known what to change: {cause.title[:1].lower()}{cause.title[1:]}{code}."


_COSTLY = frozenset((Finding.BREAK, Finding.SKIP, Finding.RECOMPILE))
_MOST = 6
"""The most modules or lists of modules that one piece of advice names: a longer list is no small change."""
_IN_TORCH = "/torch/nn/"
_MODEL = "model"


def other_places(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to compile only what runs without a break and without a recompilation; a trial decides."""
    causes = [each for each in scene.causes if not each.expected and _COSTLY & {one.what for one in each.symptoms}]
    parts = {each.path: each for each in scene.session.parts}
    if not causes or not parts:
        return
    found = _largest_clean(parts, set(_places(scene, causes)))
    if not found:
        return
    trial = Trial(parts=tuple(each.path for each in found))
    tried = scene.tried(trial)
    # After the trial, only what it compiled: the rest was never called, or Dynamo skipped it.
    shown = [each for each in found if tried is None or _was_compiled(each, tried.compiled)]
    statements = compile_statements([each.path for each in shown], parts)
    if not shown or len(statements) > _MOST:
        return
    start, whole = "Compile", "function"
    if scene.is_users(causes[0].file) and (place := place_ahead(causes[0])):
        start = f"{place}compile"
    if _MODEL in parts:
        whole = "model"
    text = (
        f"{start} {_joined(shown, parts)} instead of the whole {whole}: "
        f"{'; '.join(f'`{each}`' for each in statements)}. {_rest(scene, trial, shown)}"
    )
    change = Trial(parts=tuple(each.path for each in shown))
    yield Candidate(text, tuple(each.id for each in causes), trial, worth=_WORTH, only_checked=True, change=change)


def _rest(scene: DiagnosisScene, trial: Trial, shown: list[Part]) -> str:
    """Say what runs eagerly, and on what the advice depends if few ops are left in graphs."""
    effect = scene.effect(trial)
    if effect is not None and not effect.keeps_most:
        return f"That pays if {named(len(shown), 'it takes', 'they take')} most of the time: the rest runs eagerly."
    return "The rest runs eagerly, with what breaks or recompiles in it."


_WORTH = 45
"""After changes that would keep the whole model in one graph."""


def _places(scene: DiagnosisScene, causes: Iterable[RootCause]) -> Iterator[tuple[str, int]]:
    """Yield the lines that findings pass through, from the user's code to the innermost."""
    for cause in causes:
        for broken in scene.breaks(cause):
            yield broken.file, broken.line
            yield broken.place.file, broken.place.line
            yield from ((frame.file, frame.line) for frame in chain.from_iterable(broken.paths))
        for skip in scene.skips(cause):
            yield skip.file, skip.line
        for recompile in scene.recompiles(cause):
            kept = [each for each in recompile.causes if each.kind in _KEPT]
            if kept:
                yield recompile.file, recompile.line
            yield from ((each.file or recompile.file, each.line) for each in kept if each.line is not None)


_KEPT = frozenset(
    (
        CauseKind.ATTRIBUTE_VALUE,
        CauseKind.BREAK_RESULT,
        CauseKind.CLOSURE_VALUE,
        CauseKind.GLOBAL_VALUE,
        CauseKind.IDENTITY,
        CauseKind.KEY_ORDER,
        CauseKind.LENGTH,
    )
)
"""Changes of what code keeps or reads; other inputs recompile code wherever it is compiled."""


def _largest_clean(parts: Mapping[str, Part], places: set[tuple[str, int]]) -> list[Part]:
    """Return the outermost modules below those that findings pass through; a single layer of torch is too small."""
    by_file: dict[str, list[int]] = defaultdict(list)
    for file, line in places:
        by_file[file].append(line)
    touched: set[str] = set()
    for part in parts.values():
        if any(part.first <= line <= part.last for line in by_file.get(part.file, ())):
            touched |= {part.path, *_above(part.path)}
    chosen: list[Part] = []
    taken: set[str] = set()
    if _MODEL in parts and _MODEL not in touched:
        return []
    for part in parts.values():
        above = _above(part.path)
        if part.path in touched or part.kind in LISTS or any(path in taken for path in above):
            continue
        if above and _is_layer(part, parts):
            continue
        taken.add(part.path)
        chosen.append(part)
    return chosen


def _above(path: str) -> list[str]:
    names = path.split(".")
    return [".".join(names[:number]) for number in range(1, len(names))]


def _is_layer(part: Part, parts: Mapping[str, Part]) -> bool:
    """Whether a module is a single layer of torch."""
    is_of_torch = _IN_TORCH in part.file.replace("\\", "/")
    return is_of_torch and not any(path.startswith(f"{part.path}.") for path in parts)


def _was_compiled(part: Part, compiled: Iterable[str]) -> bool:
    """Whether a trial compiled a module's code; torch's own runs inside of a wrapper, which shows no place."""
    return _IN_TORCH in part.file.replace("\\", "/") or f"{part.file}:{part.first}" in compiled


def _joined(shown: list[Part], parts: Mapping[str, Part]) -> str:
    """Name the modules to compile in words."""
    names = []
    for parent, members in members_by_list([each.path for each in shown], parts).items():
        if parent:
            names.append(f"each of {expression_of(parent, parts)}")
        else:
            names += [expression_of(each, parts) for each in members]
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"
