"""Describe a root cause: its kind, a title in the user's terms, and the place (`described`).

A training step that is compiled as a whole is one cause, although torch breaks at backward() and in the optimizer's
wrapper (`steps`).
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from msgspec.structs import replace

from ctrace.inspector.errors import telling_line
from ctrace.inspector.facts.diagnosis import Finding, RootCause, RootKind, Symptom
from ctrace.inspector.facts.findings import Break, BreakKind, Cause, CauseKind, Danger, Frame, Owner, Recompile, Skip
from ctrace.inspector.facts.outcome import Failure
from ctrace.inspector.facts.passes import Attention
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.attention_view import answer_of
from ctrace.inspector.findings.recompiles.recompile_causes import OBJECTS
from ctrace.inspector.findings.recompiles.recompile_view import other_reason, telling
from ctrace.inspector.source.source_names import user_name
from ctrace.inspector.source.text import nodes_of, parsed

# "Unsupported Tensor.backward() call" (2.13, _dynamo/graph_break_registry.json).
BACKWARD = ("GB0123",)
# Torch breaks the graph around a step, or disables Dynamo in it (2.13, torch/optim/optimizer.py).
_OPTIMIZER = re.compile(r"\bOptimizer\.\w+|torch\.optim\.|\b[A-Z]\w*\.step\b.*torch/optim")
_AUTOGRAD = re.compile(r"[/\\]torch[/\\](?:_tensor\.py|autograd[/\\])")
_IN_OPTIM = re.compile(r"[/\\]torch[/\\]optim[/\\]")


def is_backward(each: Break) -> bool:
    """Whether compiled code runs a backward pass.

    A line such as `compiled(x).backward()` also calls backward, but the break may be inside the compiled call.
    """
    if set(each.gb) & set(BACKWARD):
        return True
    named = re.search(r"\.backward\(|autograd\.(?:grad|backward)\(", each.source) is not None
    return named and all(_leads_to_backward(path[-1], each) for path in each.paths if path)


def _leads_to_backward(frame: Frame, each: Break) -> bool:
    """Whether a break's innermost frame is at the user's line, or in torch's autograd."""
    at_line = (frame.file, frame.line) == (each.file, each.line)
    return at_line or "backward" in frame.function or _AUTOGRAD.search(frame.file) is not None


def is_of_optimizer(each: Break) -> bool:
    """Whether a break is at torch's wrapper around an optimizer, which breaks the graph or disables Dynamo."""
    inside = any(_IN_OPTIM.search(frame.file) for path in each.paths for frame in path)
    return inside or _OPTIMIZER.search(f"{each.called} {each.reason}") is not None


def steps(session: Session) -> Iterator[list[int]]:
    """Yield the breaks of each training function: at its optimizer, at its backward pass and after it."""
    by_function: dict[tuple[str, str], list[int]] = {}
    for index, each in enumerate(session.breaks):
        by_function.setdefault((each.file, each.function), []).append(index)
    for indices in by_function.values():
        breaks = {index: session.breaks[index] for index in indices}
        own = [index for index, each in breaks.items() if is_backward(each) or is_of_optimizer(each)]
        backward = [breaks[index].line for index in own if is_backward(breaks[index])]
        # What comes after the backward would not be compiled either if only the model were.
        after = [index for index, each in breaks.items() if backward and each.line >= min(backward)]
        if own:
            yield sorted({*own, *after})


_KINDS_OF_GB = {
    RootKind.TENSOR_BRANCH: ("GB0034", "GB0035", "GB0170", "GB0360"),
    RootKind.TENSOR_VALUE: ("GB0124", "GB0109", "GB0033", "GB0070", "GB0038", "GB7596", "GB0218"),
    RootKind.DYNAMIC_OUTPUT: ("GB0036", "GB0037", "GB0246"),
    RootKind.OUTPUT: ("GB0291", "GB0296"),
    RootKind.DISABLED: ("GB0098", "GB0099"),
    RootKind.BACKEND: ("GB0219",),
}
"""Kinds of root causes, keyed by id in torch/_dynamo/graph_break_registry.json (2.13)."""
_BY_GB = {id_: kind for kind, ids in _KINDS_OF_GB.items() for id_ in ids}
_OUTPUTS = frozenset(("print", "log", "warn", "clock"))
_CALLS = (
    "skipped",
    "Attempted to call function",
    "Unsupported function call",
    "custom op",
    "Missing FakeTensor kernel",
)
_ORDER = (
    CauseKind.TRAINING_MODE,
    CauseKind.GRAD_MODE,
    CauseKind.AUTOCAST,
    CauseKind.GLOBAL_STATE,
    CauseKind.DTYPE,
    CauseKind.DEVICE,
    CauseKind.LAYOUT,
    CauseKind.RANGE,
    CauseKind.DUCK_SHAPE,
    CauseKind.ZERO_ONE,
    CauseKind.SIZE,
    CauseKind.NONE,
    CauseKind.TYPE,
    CauseKind.LENGTH,
    CauseKind.KEY_ORDER,
    CauseKind.ATTRIBUTE_VALUE,
    CauseKind.ARGUMENT_VALUE,
    CauseKind.GLOBAL_VALUE,
    CauseKind.CLOSURE_VALUE,
    CauseKind.BREAK_RESULT,
    CauseKind.REQUIRES_GRAD,
    CauseKind.DISPATCH_KEYS,
    CauseKind.ALIASING,
    CauseKind.IDENTITY,
    CauseKind.STRIDE,
    CauseKind.OTHER,
)
"""Kinds of causes of recompilations; of several that are in as many of them, the first in this order explains the
others."""


_FOLLOWING = (CauseKind.STRIDE, CauseKind.DISPATCH_KEYS, CauseKind.REQUIRES_GRAD)
"""Kinds of changes that follow from others."""
_OF_LAYOUT = (CauseKind.STRIDE, CauseKind.DISPATCH_KEYS)
"""Kinds of changes that may follow from another size or mode."""
_SEVERAL = 2
"""The fewest changes of a group that a title can count; one change is named by itself."""
_TENSOR_CHECK = re.compile(r"(?:TENSOR_MATCH: )?check_tensor\((?P<source>[^,]+),.*\)")


def described(lead: Symptom, members: list[Symptom], session: Session) -> RootCause:
    """Describe a root cause by its leading finding; the caller adds id and cost."""
    match lead.what:
        case Finding.FAILURE:
            return _failure(session)
        case Finding.DANGER:
            return _danger(session.dangers[lead.index])
        case Finding.BREAK:
            breaks = [session.breaks[each.index] for each in members if each.what is Finding.BREAK]
            cause = _training_step(breaks) or _break(session.breaks[lead.index])
            again = [session.recompiles[each.index] for each in members if each.what is Finding.RECOMPILE]
            shared = [each for each in again if each.shared_by and each.causes]
            title = ""
            if shared:
                title = f"Because of the break, {title_of_shared(shared)}"
            return replace(cause, detail=cause.detail or title or _where_dynamo_cannot_resume(members, session))
        case Finding.SKIP:
            return _skip(session.skips[lead.index])
        case Finding.RECOMPILE:
            mine = [session.recompiles[each.index] for each in members if each.what is Finding.RECOMPILE]
            return _recompiles(mine, session)
        case Finding.ATTENTION:
            return _attention(session.attention[lead.index])


def _where_dynamo_cannot_resume(members: list[Symptom], session: Session) -> str:
    """Say why functions run eagerly as a whole because of a break, such as one in a loop; empty if none does."""
    skips = (session.skips[each.index] for each in members if each.what is Finding.SKIP)
    return next((skip.reason for skip in skips if skip.break_index is not None), "")


def _made(kind: RootKind, title: str, file: str | None, line: int | None, function: str | None) -> RootCause:
    return RootCause("", kind, title, file, line, function, ())


def _failure(session: Session) -> RootCause:
    failure = session.failure
    assert failure is not None
    return _made(RootKind.FAILURE, title_of_failure(failure), failure.file, failure.line, None)


def title_of_failure(failure: Failure) -> str:
    """Return the title of a failure: the first line of the exception."""
    return f"{failure.type}: {telling_line(failure.message)}"


def _danger(each: Danger) -> RootCause:
    subject = ""
    if each.subject:
        subject = f" after {each.subject} changed"
    title = f"Compiled code gives other results than eager{subject}"
    cause = _made(RootKind.WRONG_RESULT, title, each.file, each.line, None)
    return replace(cause, why=each.why)


def title_of_break(each: Break) -> str:
    """Return the title of a break: what it is, and the code that broke."""
    shown = ""
    if each.expression:
        shown = f": `{each.expression}`"
    return f"{_sentence(each.title) or 'A graph break'}{shown}"


def _break(each: Break) -> RootCause:
    cause = _made(break_kind(each), title_of_break(each), each.file, each.line, each.function)
    return replace(cause, source=each.source, why=each.reason)


def _training_step(breaks: list[Break]) -> RootCause | None:
    """Describe the breaks of a compiled training step; return None if they belong to no training step."""
    if not any(is_backward(each) or is_of_optimizer(each) for each in breaks):
        return None
    # The user's first line, since the breaks in torch lead there.
    first = min((each for each in breaks if each.owner is Owner.USER), key=lambda each: each.line, default=breaks[0])
    if any(map(is_backward, breaks)):
        title = f"the whole training step is compiled: {first.function} runs backward and breaks there"
        return replace(
            _made(RootKind.TRAINING_STEP, title, first.file, first.line, first.function), source=first.source
        )
    title = "torch keeps Dynamo out of its own wrapper around an optimizer"
    cause = _made(RootKind.TRAINING_STEP, title, first.file, first.line, first.function)
    return replace(
        cause, source=first.source, expected="The step itself is compiled; only the wrapper around it is not."
    )


def break_kind(each: Break) -> RootKind:
    """Classify a break by what the user wrote, then by torch's id, then by its title."""
    if each.kind is BreakKind.DISABLED:
        return RootKind.DISABLED
    # Torch has one id for several things that the user wrote, so these come first.
    if each.construct in _OUTPUTS:
        return RootKind.OUTPUT
    if each.construct == "cast":
        return RootKind.TENSOR_VALUE
    known = next((_BY_GB[id_] for id_ in each.gb if id_ in _BY_GB), None)
    if known is not None:
        return known
    text = f"{each.title} {each.reason}"
    if any(part in text for part in _CALLS):
        return RootKind.UNSUPPORTED_CALL
    if each.owner is Owner.USER:
        return RootKind.UNSUPPORTED_PYTHON
    return RootKind.UNSUPPORTED_CALL


def break_kind_of(gb: str) -> RootKind | None:
    """Classify a break by torch's id, such as `GB0170`; None if only its text shows the kind."""
    return _BY_GB.get(gb)


def _skip(each: Skip) -> RootCause:
    cause = _made(RootKind.NOT_TRACED, f"{each.function} {each.outcome}", each.file, each.line, each.function)
    return replace(cause, why=each.reason)


def _recompiles(mine: list[Recompile], session: Session) -> RootCause:
    causes = [(each, cause) for each in mine for cause in each.causes]
    first = mine[0]
    expected = _why_expected(mine)
    if not causes:
        cause = _made(
            RootKind.OTHER, f"{first.function} recompiles; torch logs no reason", first.file, first.line, first.function
        )
        return replace(cause, why=_readable(first.reason), expected=expected)
    recompile, leading = leading_change(mine, session)
    same = [cause for _, cause in causes if (cause.kind, cause.subject) == (leading.kind, leading.subject)]
    values = list(dict.fromkeys(value for cause in same for value in (cause.was, cause.now) if value is not None))
    placed = next((cause for cause in same if cause.line is not None), leading)
    if all(each.shared_by for each in mine):
        title = title_of_shared(mine)
    elif is_mixed(mine):
        title = _of_submodules(mine)
    else:
        title = _change(leading, values)
    cause = _made(
        RootKind(leading.kind),
        title,
        placed.file or recompile.file,
        placed.line or recompile.line,
        recompile.function,
    )
    reason = next((text for each in mine if (text := other_reason(each)) is not None), None)
    # To change only the leading cause would not help; that explains torch's reason, too.
    detail = (
        _share_of(leading, mine)
        or _changed_too(leading, mine)
        or (f"torch reports: {reason}" if reason is not None else "")
    )
    return replace(cause, why=telling(same).reason, expected=expected, detail=detail)


def title_of_shared(mine: Sequence[Recompile]) -> str:
    """Return the title of recompilations of code that several modules, or calls with several objects, share."""
    first = mine[0]
    # That the first of several layers gets data without gradients says little about how they differ, and what their
    # hooks hold, such as the mesh of tensor parallelism, even less.
    leading = min(first.causes, key=lambda each: ("_hooks[" in each.subject, each.kind is CauseKind.REQUIRES_GRAD))
    same = [cause for each in mine for cause in each.causes if cause.subject == leading.subject]
    values = list(dict.fromkeys(value for cause in same for value in (cause.was, cause.now) if value is not None))
    kinds = {CauseKind.TYPE: "types of", CauseKind.IDENTITY: "objects as"}
    whose = ""
    if first.shared_by != OBJECTS:
        whose = f" of {first.shared_by}"
    took = ", ".join(_short(value) for value in values[:5]) + (", …" if len(values) > 5 else "")
    number = f"{max(len(values), 2)} {kinds.get(leading.kind, 'values of')} {leading.subject}"
    return f"{first.function}{whose} is compiled once for each of {number}" + (f": {took}" if took else "")


def _share_of(leading: Cause, mine: Sequence[Recompile]) -> str:
    """Say in how many of several recompilations the leading kind of change is, if it is not in all."""
    alike = sum(any(cause.kind is leading.kind for cause in each.causes) for each in mine)
    kind = leading.kind.replace("_", " ")
    if alike < len(mine):
        return f"{alike} of the {len(mine)} recompilations have a change of this kind ({kind})"
    return ""


def leading_change(mine: list[Recompile], session: Session) -> tuple[Recompile, Cause]:
    """Return the change that explains several recompilations best, and the first of them that has it.

    Raises:
        ValueError: torch logs no change for any of them.
    """
    causes = [(each, cause) for each in mine for cause in each.causes]
    among = Counter(key for each in mine for key in {_change_of(cause) for cause in each.causes})
    # What changed in most of them explains them best; of several such changes, the one that others follow from.
    recompile, leading = min(causes, key=lambda each: (-among[_change_of(each[1])], *_leading(each[1])))
    return _keying(recompile, leading, session) or (recompile, leading)


_COUNTERS = (CauseKind.ATTRIBUTE_VALUE, CauseKind.GLOBAL_VALUE)


def _keying(recompile: Recompile, leading: Cause, session: Session) -> tuple[Recompile, Cause] | None:
    """Return the counter under which the code stores the items of a container that grows: if the counter stays the
    same, the container stays, too, but not the other way around. None if there is none.
    """
    # `len(self.cache)` is `cache`.
    container = leading.subject.removeprefix("len(").removesuffix(")").rpartition(".")[2]
    if leading.kind is not CauseKind.LENGTH:
        return None
    tree = parsed(session.listings.get(recompile.file, ""))
    for node in nodes_of(tree):
        match node:
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=key, ctx=ast.Store()) if (
                name == container
            ):
                names = {getattr(each, "attr", getattr(each, "id", "")) for each in ast.walk(key)}
                for each in recompile.causes:
                    if each.kind in _COUNTERS and each.subject.rpartition(".")[2] in names:
                        return recompile, each
    return None


def _changed_too(leading: Cause, mine: list[Recompile]) -> str:
    """Name what else changed each time; empty if nothing did."""
    # Much else changes with a mode, and needs no change itself.
    if len(mine) < _SEVERAL or leading.kind in (CauseKind.TRAINING_MODE, CauseKind.GRAD_MODE):
        return ""
    in_each = set.intersection(*({_change_of(cause) for cause in each.causes} for each in mine))
    others = [
        cause.subject
        for cause in mine[0].causes
        if _change_of(cause) in in_each and cause.kind is not leading.kind and cause.kind not in _FOLLOWING
    ]
    if others:
        return f"Changed each time, too: {', '.join(dict.fromkeys(others))}"
    return ""


def _why_expected(mine: list[Recompile]) -> str:
    """Return why recompilations are expected; empty if one is not, or if submodules were switched one by one."""
    # One switch between training and evaluation is expected, but not a model that is half of each.
    if not all(each.expected for each in mine) or is_mixed(mine):
        return ""
    return next((each.why_expected for each in mine if each.why_expected), "")


def is_mixed(mine: list[Recompile]) -> bool:
    """Whether submodules were switched one by one: some to training and others to evaluation in the same call."""
    for each in mine:
        flags = {(cause.was, cause.now) for cause in each.causes if cause.kind is CauseKind.TRAINING_MODE}
        if len(flags) > 1:
            return True
    return False


def _readable(reason: str) -> str:
    """Replace torch's text for a check on a whole tensor by a description."""
    return _TENSOR_CHECK.sub(lambda found: f"a property of the tensor `{user_name(found['source'])}` differs", reason)


def _change_of(cause: Cause) -> tuple[CauseKind, str]:
    """Return what changed; the training mode is one change, however many submodules have it."""
    return cause.kind, "" if cause.kind is CauseKind.TRAINING_MODE else cause.subject


def _leading(cause: Cause) -> tuple[int, int, int, int]:
    """Return a sort key: what becomes dynamic comes after what does not, unless that may follow from it."""
    if cause.kind in _ORDER:
        order = _ORDER.index(cause.kind)
    else:
        order = len(_ORDER)
    if cause.is_open and cause.expected:
        consequence = 1
    elif cause.kind in _OF_LAYOUT:
        consequence = 2
    else:
        consequence = 0
    # Of one kind, what the caller names is nearer to the user than a part of it.
    return consequence, order, cause.subject.count("."), len(cause.subject)


def title_of_change(cause: Cause) -> str:
    """Return the title of one change that made torch compile again."""
    return _change(cause, [value for value in (cause.was, cause.now) if value is not None])


def _change(cause: Cause, values: list[str]) -> str:
    if cause.kind is CauseKind.TRAINING_MODE:
        return "The model was called in training mode and in evaluation mode"
    if cause.kind is CauseKind.GRAD_MODE:
        return "The model was called with gradients on and off"
    took = " → ".join(_short(value) for value in values[:5]) + (" → …" if len(values) > 5 else "")
    return f"{cause.subject} changed" + (f": {took}" if took else "")


def _of_submodules(mine: list[Recompile]) -> str:
    found = [cause.subject for each in mine for cause in each.causes if cause.kind is CauseKind.TRAINING_MODE]
    names = [name.removesuffix(".training") for name in dict.fromkeys(found)]
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"submodules were switched to training or evaluation one by one: {shown}"


def _sentence(text: str) -> str:
    """Capitalize a text, unless it starts with a name such as `torch._dynamo.graph_break`."""
    if text.partition(" ")[0].isalpha():
        return f"{text[:1].upper()}{text[1:]}"
    return text


def _short(value: str) -> str:
    if len(value) <= 40:
        return value
    return f"{value[:18]}…{value[-18:]}"


def _attention(each: Attention) -> RootCause:
    answer = answer_of(each)
    lines = (each.why and each.why.lines) or each.lines
    file, _, line = (lines[0] if lines else "").rpartition(":")
    detail = ""
    if answer.title:
        detail = f" ({answer.title})"
    # What is wrong is no matter of speed.
    if each.is_wrong:
        kind = RootKind.WRONG_RESULT
    else:
        kind = RootKind.ATTENTION
    cause = _made(
        kind, f"{_sentence(answer.sentence)}{detail}", file or None, int(line) if line.isdecimal() else None, None
    )
    return replace(cause, why=answer.why)


def at(cause: RootCause) -> str:
    """Return `file.py:12`; empty if the place is not known."""
    if cause.file and cause.line:
        return f"{PurePath(cause.file).name}:{cause.line}"
    return ""


def place_ahead(cause: RootCause) -> str:
    """Return the cause's place with a colon, to begin a sentence with; empty if the place is not known."""
    place = at(cause)
    if place:
        return f"{place}: "
    return ""
