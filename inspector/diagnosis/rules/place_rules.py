"""Offer another place for torch.compile: the largest modules that none of the findings pass through."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from ctrace.inspector.diagnosis.attribute_changes import LISTS, compile_statements, expression_of, members_by_list
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.naming import place_ahead
from ctrace.inspector.facts.diagnosis import Finding, RootCause
from ctrace.inspector.facts.findings import CauseKind
from ctrace.inspector.facts.trial import Part, Trial

_SLOW = frozenset((Finding.BREAK, Finding.SKIP, Finding.RECOMPILE))
_MOST = 6
"""The most modules or lists of modules that one piece of advice names: a longer list is no small change."""
_IN_TORCH = "/torch/nn/"
_MODEL = "model"


def other_places(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to compile only what runs without a break and without a recompilation; a trial decides."""
    causes = [each for each in scene.causes if not each.expected and _SLOW & {one.what for one in each.symptoms}]
    parts = {each.path: each for each in scene.session.parts}
    found = _largest_clean(parts, set(_places(scene, causes))) if causes and parts else []
    if not found:
        return
    trial = Trial(parts=tuple(each.path for each in found))
    tried = scene.tried(trial)
    shown = [each for each in found if tried is None or _was_compiled(each, tried.compiled)]
    statements = compile_statements([each.path for each in shown], parts)
    if not shown or len(statements) > _MOST:
        return
    place = place_ahead(causes[0]) if scene.is_users(causes[0].file) else ""
    whole = "model" if _MODEL in parts else "function"
    text = (
        f"{place}{'compile' if place else 'Compile'} {_joined(shown, parts)} instead of the whole {whole}: "
        f"{'; '.join(f'`{each}`' for each in statements)}. {_rest(scene, trial, shown)}"
    )
    change = Trial(parts=tuple(each.path for each in shown))
    yield Candidate(text, tuple(each.id for each in causes), trial, worth=_WORTH, only_checked=True, change=change)


def _rest(scene: DiagnosisScene, trial: Trial, shown: list[Part]) -> str:
    """Say what runs eagerly, and on what the advice depends if few ops are left in graphs."""
    effect = scene.effect(trial)
    if effect is not None and not effect.keeps_most:
        return f"That pays if {'it takes' if len(shown) == 1 else 'they take'} most of the time: the rest runs eagerly."
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
