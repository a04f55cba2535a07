"""Advice on shapes that depend on data (masks, nonzero, experts that select their rows: `data_dependent_shapes`), and
on sizes that change from call to call (`dynamic_sizes`).
"""

import ast
import re
from collections.abc import Iterator

from ctrace.inspector.diagnosis.decoding import growth_in, is_switch, plain_name, sized
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene, in_library, package_of
from ctrace.inspector.diagnosis.naming import at, break_kind, place_ahead
from ctrace.inspector.diagnosis.preconditions import marking_was_refuted
from ctrace.inspector.diagnosis.rules.value_rules import at_break, scalar_questions
from ctrace.inspector.edits.line_edits import covers, functions_at, qualified_name, statement_at
from ctrace.inspector.edits.torch_options import called_line, marked_line, option_line
from ctrace.inspector.facts.diagnosis import RootCause, RootKind
from ctrace.inspector.facts.findings import Break, Cause, CauseKind
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.facts.shape_facts import ConditionKind, Dimension, DimKind
from ctrace.inspector.facts.trial import Marked, Trial
from ctrace.inspector.findings.shape_view import by_function
from ctrace.inspector.findings.shapes_document import marks
from ctrace.inspector.knowledge.counting import count, framed
from ctrace.inspector.source.attribute_writes import FUNCTIONS, last_name
from ctrace.inspector.source.text import nodes_of, parsed

_SHAPES = Trial(settings=(("capture_scalar_outputs", True), ("capture_dynamic_output_shape_ops", True)))
_SWITCH = f"{option_line('capture_dynamic_output_shape_ops')} and capture_scalar_outputs = True"
_EXPERTS = ("set_experts_implementation", "batched_mm")
_DECORATOR = "use_experts_implementation"
"""The transformers decorator of experts with a selectable implementation (integrations/moe.py, 5.0)."""
_CHOOSING = frozenset(("masked_select", "nonzero", "argwhere", "unique", "unique_consecutive"))
_REDUCING = frozenset(("max", "min", "aminmax"))


def data_dependent_shapes(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to capture ops with a data-dependent output shape, or to keep the shape with a mask."""
    found = [cause for cause in scene.causes if cause.kind is RootKind.DYNAMIC_OUTPUT]
    # One candidate for all: the settings are global, so each cause would have the same trial.
    for cause in found[:1]:
        ids = tuple(each.id for each in found)
        advice = " ".join((f"{at(cause)}: set {_SWITCH}; or {_mask(scene, cause)}.", *shape_questions(scene)))
        yield Candidate(advice, ids, _SHAPES, 75, only_checked=True, short=f"set {_SWITCH}")
    # Advice on the code as well, for when the settings do not help; once where a function has several such lines.
    of_function: dict[tuple[str | None, str | None, str], list[RootCause]] = {}
    for cause in found:
        words = f"{_mask(scene, cause)}{_patch(scene, cause)}"
        of_function.setdefault((cause.file, cause.function, words), []).append(cause)
    for (_, _, words), mine in of_function.items():
        yield Candidate(f"{at(mine[0])}: {words}.", tuple(cause.id for cause in mine))


def shape_questions(scene: DiagnosisScene) -> tuple[str, ...]:
    """Return what the author has to allow before data-dependent shapes, and numbers with them, stay in the graph."""
    breaks = [each for each in scene.session.breaks if break_kind(each) is RootKind.DYNAMIC_OUTPUT]
    is_reduced = any(reduces_chosen(scene.session.listings.get(each.file, ""), each.line) for each in breaks)
    return (*([_NONE_CHOSEN] if is_reduced else []), *scalar_questions(scene))


_NONE_CHOSEN = (
    "Is at least one element always chosen? Of none, `max()` and `min()` raise; compiled, they return an infinity."
)


def _mask(scene: DiagnosisScene, cause: RootCause) -> str:
    if any(_routes(scene.session.listings.get(each.file, ""), each.line) for each in scene.breaks(cause)):
        return "run every expert on all rows and multiply by the mask, so that no size depends on the routing"
    called = {name for each in scene.breaks(cause) for name in _called_at(scene, each)}
    known = (words for name, words in _INSTEAD.items() if name in called)
    return next(known, "keep all rows and select with torch.where, so that no size depends on data")


_BEFORE = "call it before the compiled call and pass the result: its size depends on data"
_INSTEAD = {
    "bincount": "count with torch.zeros(length).index_add(0, index, ones), whose size you choose: the size of "
    "torch.bincount depends on data, even with minlength",
    "repeat_interleave": f"pass output_size to repeat_interleave, or {_BEFORE}",
    "unique": _BEFORE,
    "unique_consecutive": _BEFORE,
}
"""What to do instead of functions without a mask, keyed by name."""


def _called_at(scene: DiagnosisScene, each: Break) -> set[str]:
    """Return the names of the functions that the statement of a break calls on its line."""
    statement = statement_at(scene.session.listings.get(each.file, ""), each.line)
    calls = [node for node in nodes_of(statement) if isinstance(node, ast.Call)]
    named = [node.func for node in calls if covers(node, each.line)]
    return {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in named}


def _patch(scene: DiagnosisScene, cause: RootCause) -> str:
    """Name the function to replace in a package's code; empty for a user's file."""
    package = package_of(cause.file or "")
    if not package:
        return ""
    name = qualified_name(scene.session.listings.get(cause.file or "", ""), cause.line or -1)
    if name:
        return f" ({package}: replace {name} from your code, or report it there)"
    return in_library(cause.file or "")


def _routes(text: str, line: int) -> bool:
    """Whether the function at a line routes rows to experts: a loop calls its variable, or an item at that index."""
    for function in functions_at(text, line)[-1:]:
        for node in ast.walk(function):
            if isinstance(node, ast.For) and _calls_one_of(node, node.target):
                return True
            # A comprehension's parts are beside it, below an expression that the walk has passed already.
            if isinstance(node, ast.comprehension) and _calls_one_of(function, node.target):
                return True
    return False


def _calls_one_of(where: ast.AST, target: ast.expr) -> bool:
    names = {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
    for node in ast.walk(where):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in names:
                return True
            case ast.Call(func=ast.Subscript(slice=index)):
                if any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(index)):
                    return True
            case ast.Subscript(value=ast.Attribute(value=ast.Name(id="self")), slice=ast.Name(id=name)) if (
                name in names
            ):
                return True  # one weight per expert
    return False


def experts_of_transformers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer the library's switch for experts with a selectable implementation."""
    found = [cause for cause in scene.causes if any(_can_be_chosen(scene, each) for each in scene.breaks(cause))]
    if found:
        each = next(each for each in scene.breaks(found[0]) if _can_be_chosen(scene, each))
        text = (
            f"{at_break(each)}: use another experts implementation: {called_line(*_EXPERTS)}, or "
            'experts_implementation="batched_mm" in the config ("grouped_mm" on a GPU); '
            f"the one that {package_of(each.file) or 'the library'} runs here loops over the experts that were hit."
        )
        yield Candidate(text, tuple(cause.id for cause in found), Trial(calls=(_EXPERTS,)), worth=92)


def _can_be_chosen(scene: DiagnosisScene, each: Break) -> bool:
    places = [(each.file, each.line), *((frame.file, frame.line) for path in each.paths for frame in path)]
    return any(_is_decorated(scene.session.listings.get(file, ""), line) for file, line in places)


def _is_decorated(text: str, line: int) -> bool:
    if _DECORATOR not in text:
        return False
    tree = parsed(text)
    for node in nodes_of(tree):
        if isinstance(node, ast.ClassDef) and covers(node, line):
            return any(_DECORATOR in ast.unparse(each) for each in node.decorator_list)
    return False


_KINDS = (RootKind.SIZE, RootKind.DUCK_SHAPE, RootKind.STRIDE, RootKind.RANGE)
_OF_SIZES = frozenset((CauseKind.SIZE, CauseKind.ZERO_ONE, CauseKind.DUCK_SHAPE, CauseKind.STRIDE, CauseKind.RANGE))
_MARK = re.compile(r"torch\._dynamo\.mark_dynamic\((?P<name>[^,]+), (?P<dims>\d+|\[[\d, ]+\])\)")
_LISTED = "TORCH_COMPILE_DYNAMIC_SOURCES="


def unrolled_loops(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Name a loop over a size: Dynamo unrolls it, so a mark on the size does not help."""
    for cause in scene.causes:
        fixed = next(
            (each for each in _fixed(scene, cause) if each.fixed and each.fixed.kind is ConditionKind.NUMBER), None
        )
        if cause.kind not in _KINDS or fixed is None or fixed.fixed is None or not _is_loop(scene, fixed):
            continue
        guard = next(each for each in scene.guards(cause) if sized(each))
        place = place_ahead(cause)
        loop = framed("`", fixed.fixed.source.rstrip(":"), "`") or "the loop"
        pad = f"pad {plain_name(guard.subject)} to a few lengths"
        if scene.is_users(fixed.fixed.file):
            how = f"write {loop} with torch._higher_order_ops.scan, {pad}, or compile only what the loop calls"
        else:
            how = f"{pad}, since {loop} is library code"
        text = f"{place}{how}: Dynamo unrolls it for each length ({_took(scene, cause)}), so mark_dynamic would raise."
        yield Candidate(text, (cause.id,), worth=70)


def _is_loop(scene: DiagnosisScene, dim: Dimension) -> bool:
    """Whether the line that needs a size as a number is the head of a loop, or a part of a comprehension."""
    assert dim.fixed is not None
    line = dim.fixed.source.strip()
    if re.match(r"(?:async )?(?:for|while)\b", line) or re.search(r"\bfor\b .* \bin\b", line):
        return True
    tree = parsed(scene.session.listings.get(dim.fixed.file or "", ""))
    nodes = nodes_of(tree)
    return any(isinstance(node, (ast.For, ast.While)) and node.lineno == dim.fixed.line for node in nodes)


def _fixed(scene: DiagnosisScene, cause: RootCause) -> Iterator[Dimension]:
    """Yield the dimensions that a cause's compilations specialized on."""
    compiled = {each.compilation for each in scene.recompiles(cause)}
    names = {at_ for each in scene.guards(cause) if (at_ := sized(each))}
    for shaped in scene.session.shapes:
        if shaped.compilation not in compiled:
            continue
        for tensor in shaped.tensors:
            for dim in tensor.dims:
                if dim.kind is DimKind.SPECIALIZED and (tensor.name, dim.index) in names:
                    yield dim


def _took(scene: DiagnosisScene, cause: RootCause) -> str:
    guards = [each for each in scene.guards(cause) if each.kind is CauseKind.SIZE]
    values = dict.fromkeys(value for each in guards for value in (each.was, each.now) if value)
    return ", ".join(list(values)[:5])


def narrow_graphs(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Name the conditions that limit a graph to few sizes, if a trial showed that marking does not help."""
    if not marking_was_refuted(scene):
        return
    for cause in scene.causes:
        dim = next((each for each in _open(scene, cause) if each.conditions), None)
        if cause.kind not in _KINDS or dim is None:
            continue
        guard = next(each for each in scene.guards(cause) if sized(each))
        first = next((each for each in dim.conditions if each.line is not None), None)
        where = ""
        if first is not None:
            where = f" (first in {(first.file or '').rpartition('/')[2]}:{first.line})"
        conditions = f"{count(len(dim.conditions), 'condition')} on {plain_name(guard.subject)}{where}"
        text = (
            f"Pad to a few lengths: {conditions} limit a graph to few sizes ({_took(scene, cause)}); "
            "mark_dynamic was tried and does not help."
        )
        yield Candidate(text, (cause.id,), worth=45)


def _open(scene: DiagnosisScene, cause: RootCause) -> Iterator[Dimension]:
    """Yield the dimensions that stayed dynamic in a cause's compilations."""
    compiled = {each.compilation for each in scene.recompiles(cause)}
    names = {at_ for each in scene.guards(cause) if (at_ := sized(each))}
    for shaped in scene.session.shapes:
        if shaped.compilation not in compiled:
            continue
        for tensor in shaped.tensors:
            yield from (
                dim
                for dim in tensor.dims
                if (tensor.name, dim.index) in names and dim.kind in (DimKind.SYMBOLIC, DimKind.DUCK)
            )


def last_batches(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to drop a short last batch, if only dimension 0 shrinks, in one recompilation that is also the last."""
    for cause in scene.causes:
        guards = [each for each in scene.guards(cause) if each.kind in _OF_SIZES]
        if cause.kind not in (RootKind.SIZE, RootKind.ZERO_ONE) or not guards or not _all_shrink(scene, cause, guards):
            continue
        if not _comes_last(scene, cause):
            continue
        first = guards[0]
        what = f"{plain_name(first.subject)} {first.was} → {first.now}"
        # Torch specializes on a size of 1 also where the dimension is dynamic, so a mark does not help.
        if first.now == "1":
            text = (
                f"{what}: a batch of one gets its own graph. For a short last batch, use drop_last=True in the "
                "DataLoader; otherwise pad it to 2 and cut the result."
            )
        else:
            text = (
                f"{what}: a smaller batch costs one more graph, once. For a short last batch, use drop_last=True in "
                f"the DataLoader; or call {marked_line(_passed(scene, cause, first), 0)} on each batch "
                "before it goes to the model."
            )
        yield Candidate(text, (cause.id,), worth=40)


def _passed(scene: DiagnosisScene, cause: RootCause, guard: Cause) -> str:
    """Return a tensor's name in the user's code; `batch` if only torch's layers name it, such as `input`."""
    subject, _ = sized(guard) or ("", 0)
    name, file = plain_name(subject), scene.recompiles(cause)[0].file
    if re.search(rf"\bdef .*\b{re.escape(name)}\b", scene.session.listings.get(file, "")):
        return name
    return "batch"


def _comes_last(scene: DiagnosisScene, cause: RootCause) -> bool:
    """Whether the function did not recompile and no scenario ran after the call with the smaller size. Later calls that
    reuse a graph are not visible, because the log does not record calls.
    """
    mine = scene.recompiles(cause)
    frames = {each.compilation.partition("/")[0] for each in mine}
    of_frames = [each for each in scene.session.recompiles if each.compilation.partition("/")[0] in frames]
    named = [each.name for each in scene.session.scenarios if each.kind is not ScenarioKind.PROVOKED]
    is_last = all(each.scenario is None or each.scenario in named[-1:] for each in mine)
    return len(of_frames) == len(frames) and is_last


def _all_shrink(scene: DiagnosisScene, cause: RootCause, guards: list[Cause]) -> bool:
    """Whether each change reduces dimension 0 of an argument, by the same sizes."""
    places = [sized(each) for each in guards]
    changes = {(each.was, each.now) for each in guards}
    mine = scene.recompiles(cause)
    other = any(each.kind not in _OF_SIZES for one in mine for each in one.causes)
    if other or len(changes) != 1 or any(place is None or place[1] != 0 for place in places):
        return False
    was, now = next(iter(changes))
    shrinks = was is not None and now is not None and was.isdecimal() and now.isdecimal() and int(was) > int(now) > 0
    generates = any(is_switch(scene.session, each) or growth_in(scene.session, each) for each in mine)
    # `self.cache` or an attribute of an argument is no batch.
    is_argument = all(place is not None and "." not in plain_name(place[0]) for place in places)
    return shrinks and is_argument and not generates and any(guard.is_open or now == "1" for guard in guards)


def dynamic_sizes(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer mark_dynamic for the dimensions that varied and that nothing specializes; otherwise offer dynamic=True."""
    found = [cause for cause in scene.causes if cause.kind in _KINDS]
    if not found:
        return
    shown = marks(by_function(scene.session), scene.session.environment.torch)
    offered = [match for mark in shown if (match := _MARK.fullmatch(mark.line)) and _is_argument(match["name"])]
    ids = tuple(cause.id for cause in found)
    if offered:
        lines = [marked_line(plain_name(match["name"]), match["dims"]) for match in offered]
        marked = tuple(Marked(plain_name(match["name"]), dim) for match in offered for dim in _dims(match["dims"]))
        text = f"Before the first call: {'; '.join(lines[:3])}{' ...' if len(lines) > 3 else ''}"
        yield Candidate(f"{text}.", ids, Trial(marked=marked), worth=60, only_checked=True)
    listed = next((mark.line for mark in shown if mark.line.startswith(_LISTED)), "")
    # Only where no argument can be marked, which leaves all other sizes as they are.
    if listed and not offered:
        text = "Compile with dynamic=True, or make just these sizes dynamic in the environment"
        yield Candidate(f"{text}: {listed}.", ids, Trial(dynamic=True), worth=58, only_checked=True)


def _is_argument(name: str) -> bool:
    return plain_name(name).isidentifier()


def _dims(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def reduces_chosen(text: str, line: int) -> bool:
    """Whether a function takes the maximum or minimum of all that a line chooses, directly or by a name.

    `x[m].max()` raises in eager where nothing is chosen. Compiled with a size that depends on data, it returns
    -infinity (measured with 2.13, Inductor for a CPU); `amax`, `argmax`, `x[m][0]` and `topk` raise in both.
    """
    tree = parsed(text)
    functions = [each for each in nodes_of(tree) if isinstance(each, FUNCTIONS)]
    return any(
        _is_chosen(reduced, line, _names_of(function, line)) for function in functions for reduced in _reduced(function)
    )


def _reduced(function: ast.AST) -> Iterator[ast.expr]:
    """Yield what a function reduces to its maximum or minimum, over all dimensions."""
    for each in ast.walk(function):
        match each:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name), args=[given], keywords=[]):
                found = given
            case ast.Call(func=ast.Attribute(value=found, attr=name), args=[], keywords=[]):
                pass
            case _:
                continue
        if name in _REDUCING:
            yield found


def _names_of(function: ast.AST, line: int) -> set[str]:
    """Return the names that hold what a line chooses, or something computed from it."""
    names: set[str] = set()
    size = -1
    # Until nothing is added: in a loop, a name may be computed from one that is assigned below.
    while size != len(names):
        size = len(names)
        for each in ast.walk(function):
            if isinstance(each, ast.Assign) and _is_chosen(each.value, line, names):
                names |= {target.id for target in each.targets if isinstance(target, ast.Name)}
    return names


def _is_chosen(node: ast.expr, line: int, names: set[str]) -> bool:
    """Whether an expression has a name that holds what a line chooses, or chooses on that line."""
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name) if name in names:
                return True
            case ast.Call(func=called) if each.lineno <= line <= (each.end_lineno or 0):
                if last_name(called) in _CHOOSING:
                    return True
            case ast.Subscript(slice=index) if each.lineno <= line <= (each.end_lineno or 0):
                # What may be a mask; a number or a slice chooses as many elements whatever their values.
                if isinstance(index, ast.Name | ast.Compare | ast.UnaryOp | ast.BinOp | ast.Call | ast.Attribute):
                    return True
    return False
