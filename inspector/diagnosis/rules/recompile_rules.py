"""Advice on state, flags and arguments that change between calls and cause recompilations."""

import re
from collections.abc import Iterator

from ctrace.inspector.diagnosis.decoding import is_switch, plain_name
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.naming import at, place_ahead
from ctrace.inspector.facts.diagnosis import Finding, RootCause, RootKind
from ctrace.inspector.facts.findings import Cause, CauseKind
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.trial import later_calls_of
from ctrace.inspector.knowledge.counting import first_of, named
from ctrace.inspector.source.text import any_keywords

_EXTRA_LENGTH = re.compile(r"len\((?:\w+\.)*kwargs\)")
_LENGTH_OF_NAME = re.compile(r"len\((?P<name>\w+)\)")
_KEYWORD = re.compile(r"\['(?:kwargs)'\]\['(?P<name>\w+)'\]")
_SAME = re.compile(r"(?P<one>.+) is (?P<other>.+)")
_VALUES = (CauseKind.ARGUMENT_VALUE, CauseKind.GLOBAL_VALUE, CauseKind.CLOSURE_VALUE)
_NAME = re.compile(r"'[A-Za-z_]\w*'")
"""A string such as `'mean'`, which may name a choice."""
_CHOICE = re.compile(rf"True|False|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|{_NAME.pattern}")
"""A flag, a member of an enum, a dtype, or a name."""
_NAMED = 4
"""How many modules a sentence names: the first ones show which part of the model switches."""
_FEW = 3
"""The most values that count as choices of a program, not as data."""


def switched_state(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to keep state constant between calls, unless its change is expected."""
    # A run that trains needs a graph with a backward, and its evaluation one without.
    trains = any(kernel.stage is Stage.BACKWARD for kernel in scene.session.kernels)
    for cause in scene.causes:
        if cause.kind is RootKind.GRAD_MODE and not cause.expected and not trains:
            text = (
                "If you only run inference, call the model under torch.no_grad() each time, the first time too; if you "
                "train and evaluate, each needs its graph."
            )
            yield Candidate(text, (cause.id,), worth=20)
        elif cause.kind is RootKind.TRAINING_MODE and not cause.expected:
            place = place_ahead(cause)
            text = (
                f"{place}switch all submodules at once ({_switched(scene, cause)}), with train() or eval() of what "
                "contains them: each mix of their training flags costs a graph."
            )
            yield Candidate(text, (cause.id,), worth=50)


def settled_state(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Say that nothing needs to change where the first calls set what the code keeps, and no later call compiled."""
    later = later_calls_of(scene.session.trials)
    # The trial repeats the run's calls and makes more: where it counts more recompilations, the later calls compiled.
    if later is None or later.limit_hit or later.recompiles != len(scene.session.recompiles):
        return
    for cause in scene.causes:
        mine = scene.recompiles(cause)
        is_of_recompiles = all(each.what is Finding.RECOMPILE for each in cause.symptoms)
        is_kept = cause.kind in _KEPT or (cause.kind in _OF_TENSORS and _is_of_modules(scene, cause))
        # In the first call (0), no earlier one can have set what changed.
        if not is_kept or cause.expected or not is_of_recompiles or not all(each.call for each in mine):
            continue
        number = named(len(mine), "one more graph", f"{len(mine)} more graphs")
        text = (
            f"Nothing to change: {cause.title}. The first calls compile {number} for it, and calls "
            f"{scene.session.calls + 1} to {later.calls} compiled none."
        )
        yield Candidate(text, (cause.id,), is_no_change=True)


_KEPT = frozenset(
    (
        RootKind.ATTRIBUTE_VALUE,
        RootKind.CLOSURE_VALUE,
        RootKind.GLOBAL_VALUE,
        RootKind.IDENTITY,
        RootKind.LENGTH,
        RootKind.TYPE,
    )
)
"""Changes of what code keeps from one call to the next, such as a flag of the first call, or a table made in it."""


_OF_TENSORS = frozenset(
    (
        RootKind.DISPATCH_KEYS,
        RootKind.DTYPE,
        RootKind.LAYOUT,
        RootKind.REQUIRES_GRAD,
        RootKind.SIZE,
        RootKind.STRIDE,
        RootKind.ZERO_ONE,
    )
)
"""Changes of tensors, which may be a module's own, such as a buffer that the first call replaces."""


def _is_of_modules(scene: DiagnosisScene, cause: RootCause) -> bool:
    """Whether all that changed is a module's."""
    subjects = [each.subject for each in scene.guards(cause)]
    return bool(subjects) and all(each.startswith(("self.", "model.")) for each in subjects)


def _switched(scene: DiagnosisScene, cause: RootCause) -> str:
    found = [
        each.subject.removesuffix(".training") for each in scene.guards(cause) if each.kind is CauseKind.TRAINING_MODE
    ]
    return first_of(list(dict.fromkeys(found)), _NAMED)


def flags(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Explain that each value of a flag, enum member or dtype costs a graph, which is right if all are needed."""
    for cause in scene.causes:
        guards = [
            each
            for each in scene.guards(cause)
            if each.kind in (CauseKind.ARGUMENT_VALUE, CauseKind.GLOBAL_VALUE, CauseKind.CLOSURE_VALUE)
        ]
        values = {each.was or "" for each in guards} | {each.now or "" for each in guards}
        if not guards or cause.expected or len(values) > _FEW or not all(map(_CHOICE.fullmatch, values)):
            continue
        names = list(dict.fromkeys(plain_name(each.subject) for each in guards))
        number = "all"
        if len(values) < _FEW:
            number = "both"
        text = (
            f"Nothing to change if you need {number} values of {', '.join(names[:3])}: each costs one graph, compiled "
            "once. Otherwise always pass the same value."
        )
        if all(map(_NAME.fullmatch, values)):
            text += " Keep strings that are new in each call, such as a request id, out of compiled code."
        yield Candidate(text, (cause.id,), worth=30, is_no_change=True)


def extra_keywords(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to pass the same keyword arguments in each call to a function that takes any, as `**options`."""
    for cause in scene.causes:
        found = [
            (match["name"], guard)
            for each in scene.recompiles(cause)
            for guard in each.causes
            if (match := _LENGTH_OF_NAME.fullmatch(guard.subject))
            and match["name"] == any_keywords(scene.session.listings.get(each.file, ""), each.function, each.line)
        ]
        if not found or any(name == "kwargs" for name, _ in found):  # `optional_arguments` knows which were left out
            continue
        name = found[0][0]
        counts = dict.fromkeys(value for _, guard in found for value in (guard.was, guard.now) if value is not None)
        start = "Pass"
        if at(cause) and scene.is_users(cause.file):
            start = f"{at(cause)}: pass"
        text = (
            f"{start} the same keyword arguments in each call: calls with {' and '.join(counts)} of them in **{name} "
            "need separate graphs. Nothing to change if you need both."
        )
        yield Candidate(text, (cause.id,), worth=55)


def optional_arguments(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to always pass an argument that some calls omit."""
    for cause in scene.causes:
        # A switch from a prompt to single tokens has advice of its own (`cache_rules.generation`).
        if any(is_switch(scene.session, each) for each in scene.recompiles(cause)):
            continue
        names = list(dict.fromkeys(_left_out(scene, cause)))
        if not names:
            continue
        name = names[0]
        if _varies_in_size(scene, name):
            text = (
                f"Nothing to change: {name} is None in some calls and of several sizes in others, and an empty tensor "
                "in place of None would cost a graph, too."
            )
            yield Candidate(text, (cause.id,), worth=30, is_no_change=True)
            continue
        if not _holds_tensor(scene, cause, name):
            text = (
                f"Nothing to change if you need calls with and without {name}: each case costs a graph, compiled once. "
                f"Otherwise always pass {name}."
            )
            yield Candidate(text, (cause.id,), worth=30, is_no_change=True)
            continue
        neutral = "a neutral value if there is none"
        if "mask" in name:
            neutral = "one that masks nothing if there is none"
        start = "Always pass"
        if scene.is_users(cause.file) and (place := place_ahead(cause)):
            start = f"{place}always pass"
        text = f"{start} {', '.join(names[:3])} ({neutral}): calls with and without a tensor need separate graphs."
        yield Candidate(text, (cause.id,), worth=55)


def _holds_tensor(scene: DiagnosisScene, cause: RootCause, name: str) -> bool:
    """Whether an argument that some calls omit is a tensor, or not known to be anything else, in the others."""
    values: set[str | None] = set()
    for guard in scene.guards(cause):
        if plain_name(guard.subject) == name:
            values |= {guard.was, guard.now}
    values -= {None, "None", "NoneType"}
    return not values or any("tensor" in value.lower() or value == "not None" for value in values if value)


def _varies_in_size(scene: DiagnosisScene, name: str) -> bool:
    """Whether a tensor, or those in a container, had several sizes, as a cache that grows has."""
    return any(
        guard.kind in (CauseKind.SIZE, CauseKind.ZERO_ONE) and re.match(rf"{re.escape(name)}[.\[]", guard.subject)
        for each in scene.session.recompiles
        for guard in each.causes
    )


def _left_out(scene: DiagnosisScene, cause: RootCause) -> Iterator[str]:
    """Return the arguments that are a tensor in one call and None, or missing, in another."""
    for each in scene.recompiles(cause):
        for guard in each.causes:
            if _is_optional(guard):
                yield plain_name(guard.subject)
        if any(_EXTRA_LENGTH.fullmatch(guard.subject) for guard in each.causes):
            one, other = _keywords(scene, each.nearest or ""), _keywords(scene, each.compilation)
            yield from (name for name in (*one, *other) if (name in one) != (name in other))


def _is_optional(guard: Cause) -> bool:
    """Whether an argument, not its attribute or item, is a tensor in one call and None in another."""
    if not plain_name(guard.subject).isidentifier():
        return False
    values = {guard.was or "", guard.now or ""}
    is_none = any(value in ("None", "NoneType") or "NoneType" in value for value in values)
    is_other = any("Tensor" in value or "tensor" in value or value in ("not None",) for value in values)
    return guard.kind in (CauseKind.NONE, CauseKind.TYPE) and is_none and (is_other or guard.kind is CauseKind.NONE)


def _keywords(scene: DiagnosisScene, compilation: str) -> list[str]:
    found = [each for each in scene.session.shapes if each.compilation == compilation]
    names = [match["name"] for shaped in found for each in shaped.tensors if (match := _KEYWORD.search(each.source))]
    return list(dict.fromkeys(names))


def parts_of_a_mesh(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to take each part of a device mesh once: `mesh["tp"]` is another object each time (2.13)."""
    for cause in scene.causes:
        guards = list(scene.guards(cause))
        if guards and all(each.kind is CauseKind.ALIASING and _MESH.search(each.subject) for each in guards):
            text = (
                f'{at(cause)}: take each part of the mesh once, before the loop over the blocks (tp = mesh["tp"]): '
                'every mesh["tp"] is another object, and torch compiles the blocks again for it.'
            )
            yield Candidate(text, (cause.id,))


_MESH = re.compile(r"\bis \S*\.device_mesh$|\.device_mesh is ")


def one_tensor_twice(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer a clone if two inputs are the same tensor only in some calls."""
    for cause in scene.causes:
        guard = next((each for each in scene.guards(cause) if each.kind is CauseKind.ALIASING), None)
        match = None
        if guard is not None:
            match = _SAME.fullmatch(guard.subject)
        # `x is None` has the same form, and there is nothing to clone.
        if cause.kind is not RootKind.ALIASING or match is None or "None" in (match["one"], match["other"]):
            continue
        one, other = plain_name(match["one"]), plain_name(match["other"])
        text = (
            f"{at(cause)}: pass {other}.clone() where {one} and {other} are the same tensor, unless a write to one "
            "must be visible in the other: one tensor for two inputs costs a separate graph."
        )
        yield Candidate(text, (cause.id,), worth=50)
