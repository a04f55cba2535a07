"""Advice on code that reads the values of tensors as Python numbers, such as `.item()`."""

import ast
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene, in_library, package_of, short_place
from ctrace.inspector.diagnosis.naming import at, break_kind
from ctrace.inspector.edits.line_edits import (
    covers,
    functions_at,
    line_edits,
    nodes_around,
    shortened,
    source_of,
    statement_at,
    trial_of,
)
from ctrace.inspector.edits.tensors_for_numbers import detached
from ctrace.inspector.edits.torch_options import option_line
from ctrace.inspector.facts.diagnosis import RootCause, RootKind
from ctrace.inspector.facts.findings import Break, CauseKind
from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.knowledge.counting import framed
from ctrace.inspector.source.attribute_writes import ADDING
from ctrace.inspector.source.constructs import CASTS, is_index
from ctrace.inspector.source.number_errors import NumberErrors, number_errors
from ctrace.inspector.source.source_names import RESULT
from ctrace.inspector.source.text import nodes_of, parsed

SCALARS = Trial(settings=(("capture_scalar_outputs", True),))
_RECURRENT = "GB0014"
_LOOPS = (ast.For, ast.While)


def numbers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to capture `.item()` and similar calls in the graph; the trial shows whether that is enough.

    It is not where Python branches on the number: the branch then breaks the graph instead.
    """
    found = [
        cause
        for cause in scene.causes
        if any(map(_is_number, scene.breaks(cause)))
        and not any(_decides(scene, each) or _container_of(scene, each) for each in scene.breaks(cause))
    ]
    if found:
        bound = next((_tensor_bound(scene, each) for each in scene.breaks(found[0])), "")
        mask = framed("; or keep all positions and mask with torch.arange(size) < ", bound)
        switch = f"set {option_line('capture_scalar_outputs')}"
        stays = _moved(scene, SCALARS) or "the number then stays in the graph"
        ids = tuple(cause.id for cause in found)
        text = " ".join((f"{named(found)} {switch}: {stays}{mask}.", *scalar_questions(scene)))
        yield Candidate(text, ids, SCALARS, worth=70, only_checked=True, short=switch)


def _moved(scene: DiagnosisScene, trial: Trial) -> str:
    """Say where the graph breaks in a trial and did not before, such as at `net.py:8`; empty if nowhere."""
    tried = scene.tried(trial)
    if tried is None:
        return ""
    for place in scene.new_breaks(tried):
        return f"the graph then breaks at {short_place(place)} instead"
    return ""


def indexing_numbers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to stack what a number chooses from a list of modules or of other values: a tensor cannot index it."""
    for cause in scene.causes:
        for each in filter(_is_number, scene.breaks(cause)):
            container = _container_of(scene, each)
            if container is not None and scene.is_users(each.file):
                if container.holds_modules:
                    what = "the parameters of its modules"
                else:
                    what = "what it holds, if it is tensors,"
                line = ""
                if container.line != each.line:
                    line = f" (line {container.line})"
                text = (
                    f"{at_break(each)}: the number indexes `{container.name}`{line}, which Python does, not a tensor: "
                    f"stack {what} with torch.stack and choose with torch.index_select, or compute all results and "
                    "select one."
                )
                yield Candidate(text, (cause.id,))
                break


class _Container(NamedTuple):
    """A list that a number indexes."""

    name: str
    line: int
    """The line that indexes it."""
    holds_modules: bool


def _container_of(scene: DiagnosisScene, each: Break) -> _Container | None:
    """Return the list that the number of a break indexes, as far as the code shows that it is one."""
    text = scene.session.listings.get(each.file, "")
    statement, holders, tree = statement_at(text, each.line), functions_at(text, each.line), parsed(text)
    if statement is None or not holders or tree is None:
        return None
    read = _read_of(statement, each.line)
    if read is None:
        return None
    owners = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and covers(node, each.line)]
    owner = [tree, *owners][-1]
    # Attributes of the class, variables of the function; a parameter may be anything, whatever its name is elsewhere.
    attributes = {name: kind for name, kind in _lists(owner).items() if "." in name}
    taken = {each.arg for each in ast.walk(holders[-1]) if isinstance(each, ast.arg)}
    lists = {**attributes, **{name: kind for name, kind in _lists(holders[-1]).items() if name not in taken}}
    names: set[str] = set()
    if getattr(statement, "value", None) is read[0]:  # `at = i.item()`, and then `layers[at]`
        names = _assigned(statement)
    for node in ast.walk(holders[-1]):
        match node:
            case ast.Subscript(value=value, slice=index, ctx=ast.Load()) if node.lineno >= each.line:
                is_it = index is read[0] or (isinstance(index, ast.Name) and index.id in names)
                name = ast.unparse(value)
                if is_it and name in lists:
                    return _Container(name, node.lineno, lists[name])
    return None


def _lists(owner: ast.AST) -> dict[str, bool]:
    """Return the variables and attributes to which code assigns only lists, and whether they are lists of modules."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(owner):
        match node:
            case (
                ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value)
                | ast.AnnAssign(target=ast.Name() | ast.Attribute() as target, value=ast.expr() as value)
            ):
                found.setdefault(ast.unparse(target), set()).add(_kind_of(value))
    # A name that is also assigned anything else may not be a list where it is indexed.
    return {name: kinds == {"modules"} for name, kinds in found.items() if kinds in ({"modules"}, {"list"})}


def _kind_of(value: ast.expr) -> str:
    """Say what an expression makes: `modules`, `list`, or empty for anything else."""
    match value:
        case ast.List() | ast.ListComp() | ast.Tuple():
            return "list"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return {"ModuleList": "modules", "Sequential": "modules", "ParameterList": "list", "list": "list"}.get(
                name, ""
            )
    return ""


def _is_number(each: Break) -> bool:
    return break_kind(each) is RootKind.TENSOR_VALUE


def kept_numbers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to store the tensor if the code only stores its number."""
    for cause, each, statement in _reads(scene):
        call = _read_of(statement, each.line)
        if call is None or not _is_stored(statement):
            continue
        text = scene.session.listings[each.file]
        tensor = source_of(text, call[1])
        if _collects(statement):  # such as `self.losses.append(loss.item())`
            advice = (
                f"{at_break(each)}: return `{tensor}` and collect it outside of the compiled call: here each call "
                "reads it on the host and changes the container, which compiled code guards on."
            )
            # The trial drops the statement, as the code that collects is the caller's, which is not on this line.
            edits = line_edits(each.file, text, [(statement, "pass")])
        else:
            kept = _detached(text, call[1])
            advice = (
                f"{at_break(each)}: store the tensor, `{kept}`, and convert it to a number after the compiled call."
            )
            edits = line_edits(each.file, text, [(call[0], kept)])
        yield Candidate(advice, (cause.id,), trial_of(edits), worth=78)


def used_numbers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to compute with the tensor instead of its number, if the trial succeeds."""
    for cause, each, statement in _reads(scene):
        call = _read_of(statement, each.line)
        if call is None or _is_stored(statement) or _tests(statement, each.line) or _container_of(scene, each):
            continue
        text = scene.session.listings[each.file]
        kept = kept_tensor(text, call[1])
        edits = line_edits(each.file, text, [(call[0], kept)])
        if not edits:
            continue
        trial = Trial(edits=edits)
        if _breaks_at_branch(scene, trial, each):
            continue  # Python needs the number at that branch: one op more runs eagerly, and nothing is gained
        why = _moved(scene, trial) or "nothing here needs the number"
        advice = f"{at_break(each)}: compute with the tensor, `{kept}`: {why}."
        # What the number is returned in may need it: there, the setting comes first, which keeps it.
        worth = 62
        if _computes_with(statement, call[0]):
            worth = 72
        yield Candidate(advice, (cause.id,), trial, worth=worth, only_checked=True)


def _breaks_at_branch(scene: DiagnosisScene, trial: Trial, each: Break) -> bool:
    """Whether the graph breaks in a trial where Python branches on the number that a break reads, as it did before."""
    tried, line = scene.tried(trial), branch_on(scene, each)
    return tried is not None and f"{each.file}:{line}" in scene.new_breaks(tried)


def _computes_with(statement: ast.stmt, number: ast.expr) -> bool:
    """Whether a number goes into arithmetic or into a call, which take a tensor as well."""
    for node in ast.walk(statement):
        match node:
            case ast.BinOp() | ast.UnaryOp() | ast.Call() | ast.AugAssign() if number in ast.iter_child_nodes(node):
                return True
    return False


def indexed_stores(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer an index of one element where a store is indexed by a tensor with a single number, which Python reads."""
    for cause in scene.causes:
        for broken in filter(_is_number, scene.breaks(cause)):
            text = scene.session.listings.get(broken.file, "")
            match statement_at(text, broken.line):
                case (
                    ast.AugAssign(target=ast.Subscript(slice=index)) | ast.Assign(targets=[ast.Subscript(slice=index)])
                ):
                    if isinstance(index, ast.Tuple):
                        items = index.elts
                    else:
                        items = [index]
                    name = next((item for item in reversed(items) if isinstance(item, ast.Name)), None)
                case _:
                    continue
            if name is None:
                continue
            edits = line_edits(broken.file, text, [(name, f"{name.id}[None]")])
            if edits:
                advice = (
                    f"{at_break(broken)}: index with `{name.id}[None]`{in_library(broken.file)}: Python reads the "
                    "value of an index that is a tensor with a single number, and none of a tensor with one dimension."
                )
                yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=69, only_checked=True)
                break


def sizing_numbers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Say of a number that is the length of a slice that no tensor can take its place: the shape depends on data."""
    for cause in scene.causes:
        for each in filter(_is_number, scene.breaks(cause)):
            found = _sliced_by(scene, each)
            if found is not None and scene.is_users(each.file):
                name, sliced, line = found
                where = ""
                if line != each.line:
                    where = f" (line {line})"
                text = (
                    f"{at_break(each)}: `{name}` is the length of a slice, `{shortened(sliced)}`{where}, so the shape "
                    "of what follows depends on data: choose the length before the compiled call and pass it as an "
                    "argument, or keep the break."
                )
                yield Candidate(text, (cause.id,))
                break


def _sliced_by(scene: DiagnosisScene, each: Break) -> tuple[str, str, int] | None:
    """Return the variable with the number that a break reads, and a later slice that it bounds, with its line."""
    text = scene.session.listings.get(each.file, "")
    names = _assigned(statement_at(text, each.line))
    for node in nodes_around(text, each.line):
        if isinstance(node, ast.Subscript) and node.lineno >= each.line:
            bounds = [part for part in ast.walk(node.slice) if isinstance(part, ast.Slice)]
            used = next((name for name in names for bound in bounds if _uses(bound, {name})), "")
            if used:
                return used, source_of(text, node), node.lineno
    return None


def branched_numbers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer alternatives if code branches on a number; removing `.item()` would only move the break there."""
    for cause in scene.causes:
        for each in filter(_is_number, scene.breaks(cause)):
            line = branch_on(scene, each)
            if line is not None:
                yield from _constant(scene, cause, each, line)
                yield Candidate(_of_branch(scene, cause, each, line), (cause.id,))
                break


def _constant(scene: DiagnosisScene, cause: RootCause, each: Break, line: int) -> Iterator[Candidate]:
    """Offer to replace a library's check of all values, such as `mask.any().item()`, by False."""
    text, package = scene.session.listings.get(each.file, ""), package_of(each.file)
    statement = statement_at(text, each.line)
    if statement is None or not package:  # the user's own check can be changed where it stands
        return
    call = _read_of(statement, each.line)
    if call is None or not _checks_all(call[1]):
        return
    edits = line_edits(each.file, text, [(call[0], "False")])
    check = shortened(source_of(text, call[0]))
    advice = (
        f"{at_break(each)}: replace `{check}` by False if none of your calls needs the other case ({package}: patch "
        f"it from your code): Python branches on it at line {line}. Else keep the break."
    )
    if edits:
        yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=71, only_checked=True)


def _checks_all(tensor: ast.expr) -> bool:
    match tensor:
        case ast.Call(func=ast.Attribute(attr="any" | "all")):
            return True
    return False


def _of_branch(scene: DiagnosisScene, cause: RootCause, each: Break, line: int) -> str:
    text = scene.session.listings.get(each.file, "")
    where = f"line {line}"
    if line == each.line:
        where = "the same line"
    package = package_of(each.file)
    value = framed("`", shortened(each.expression), "`") or "this value"
    # First, since the other answers rewrite code that only the package's authors can change.
    if package:
        return (
            f"{at_break(each)}: {package} branches on {value} ({where}), so the break is needed as long as both "
            "cases occur. If you know which one does, patch this line to that constant; else keep the break."
        )
    if _leaves_loop(text, each.line, line) or any(skip.rule == "loop" for skip in scene.skips(cause)):
        return (
            f"{at_break(each)}: the loop reads {value} in Python and branches on it ({where}): compile the part "
            "that computes one step, as a separate method or module, and run the loop eagerly."
        )
    if _only_raises(text, line):
        return (
            f"{at_break(each)}: the code tests {value} ({where}) only to raise: use torch._assert_async with a "
            "condition that is a tensor, which stays in the graph, or check outside of compiled code."
        )
    return (
        f"{at_break(each)}: the code branches on {value} ({where}): select with torch.where or torch.cond if both "
        "sides are tensors; else keep the break. Without the number, the branch itself breaks the graph."
    )


def _decides(scene: DiagnosisScene, each: Break) -> bool:
    """Whether Python branches on the number that a break reads, and does more on one side than to raise."""
    if not _is_number(each):
        return False
    line = branch_on(scene, each)
    return line is not None and not _only_raises(scene.session.listings.get(each.file, ""), line)


def scalar_questions(scene: DiagnosisScene) -> tuple[str, ...]:
    """Return what the author has to allow before numbers stay in the graph: all do, whichever finding asks for it."""
    breaks = scene.session.breaks
    questions = []
    if any(_is_asserted(scene, each) for each in breaks):
        questions.append(ASSERTS)
    texts = [(scene.session.listings.get(each.file, ""), each.line) for each in breaks if _is_number(each)]
    errors = [number_errors(text, line) for text, line in texts]
    questions += division_questions(errors)
    if any(each.takes_roots for each in errors):
        questions.append(_ROOTS)
    if any(each.rounds for each in errors):
        questions.append(_ROUNDS)
    if any(each.leaves_range for each in errors):
        questions.append(_RANGES)
    if any(each.passes_over_nan for each in errors):
        questions.append(_PASSES_OVER)
    return tuple(questions)


def division_questions(errors: Iterable[NumberErrors]) -> list[str]:
    """Return what the author has to allow where numbers of a graph divide."""
    found = list(errors)
    asked = []
    if any(each.divides for each in found):
        asked.append(_DIVIDES)
    if any(each.divides_whole for each in found):
        asked.append(_DIVIDES_WHOLE)
    return asked


ASSERTS = "May an assertion that fails raise RuntimeError instead of AssertionError when compiled?"
"""With the number, or its tensor, in the graph, an op checks it and raises RuntimeError (symbolic_convert.py, 2.13)."""
_DIVIDES = "May a division by zero return infinity or NaN instead of raising ZeroDivisionError when compiled?"
_DIVIDES_WHOLE = (
    "Is the divisor of `//` and `%` never 0? Python raises ZeroDivisionError. Compiled for a CPU, `//` returns a wrong "
    "number, and `%` of integers ends the process."
)
_ROOTS = (
    "May the root of a negative number be NaN when compiled? Python raises ValueError, or returns a complex number."
)
_ROUNDS = (
    "Is the number never NaN or infinite? Python's `int(n)` and `round(n)` raise then; compiled, they return a wrong "
    "number."
)
_RANGES = "May functions of numbers return NaN or infinity when compiled, where Python raises for the number?"
_PASSES_OVER = (
    "Is the number never NaN? Python's `max(1.0, n)` and `min(1.0, n)` are 1.0 where n is NaN; compiled, they are NaN."
)


def _is_asserted(scene: DiagnosisScene, each: Break) -> bool:
    """Whether an `assert` tests the number that a break reads."""
    if not _is_number(each):
        return False
    line = branch_on(scene, each)
    return line is not None and _has_assert(scene.session.listings.get(each.file, ""), line)


def _has_assert(text: str, line: int) -> bool:
    return any(isinstance(node, ast.Assert) and covers(node.test, line) for node in nodes_of(parsed(text)))


def _only_raises(text: str, line: int) -> bool:
    """Whether the `if` whose condition is at a line does nothing but raise, or is an `assert`."""
    tree = parsed(text)
    branches = [node for node in nodes_of(tree) if isinstance(node, ast.If) and covers(node.test, line)]
    return _has_assert(text, line) or any(not each.orelse and isinstance(each.body[-1], ast.Raise) for each in branches)


def branch_on(scene: DiagnosisScene, each: Break) -> int | None:
    """Find the line that branches on a number, in the source or else by the trial that kept the number in the graph."""
    text = scene.session.listings.get(each.file, "")
    statement = statement_at(text, each.line)
    if statement is not None and _tests(statement, each.line):
        return each.line
    if _indexes(each.expression):
        return None  # the statement assigns the item, not the number
    names = _assigned(statement)
    tests = (test for holder in functions_at(text, each.line)[-1:] for test in _conditions(holder))
    found = min((test.lineno for test in tests if test.lineno > each.line and _uses(test, names)), default=None)
    # The number may be returned and tested elsewhere, which only guards and trials show.
    if found is None:
        found = _range_after(scene, each)
    if found is not None:
        return found
    return _break_after(scene, each)


def _range_after(scene: DiagnosisScene, each: Break) -> int | None:
    """Return the line with a condition on the number, for which the code after the break has recompiled."""
    for recompile in scene.session.recompiles:
        for cause in recompile.causes:
            is_condition = cause.kind is CauseKind.RANGE and cause.subject == RESULT and cause.line is not None
            if is_condition and (recompile.file, recompile.line) == (each.file, each.line):
                return cause.line
    return None


def _indexes(expression: str) -> bool:
    tree = parsed(expression)
    return tree is not None and any(isinstance(node, ast.Expr) and is_index(node.value) for node in tree.body)


def _break_after(scene: DiagnosisScene, each: Break) -> int | None:
    """Return the line with a condition, in the same file, at which the trial that keeps numbers in the graph broke."""
    tried = scene.tried(SCALARS)
    if tried is None:
        return None
    before = {f"{known.file}:{known.line}" for known in scene.session.breaks}
    new = [place for place in tried.breaks if place not in before]
    lines = [int(place.rpartition(":")[2]) for place in new if place.rpartition(":")[0] == each.file]
    text = scene.session.listings.get(each.file, "")
    tests = (line for line in lines if line > each.line and (found := statement_at(text, line)) and _tests(found, line))
    return min(tests, default=None)


def slices(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer a mask instead of a slice whose length is a tensor."""
    for cause in scene.causes:
        for each in filter(_is_number, scene.breaks(cause)):
            bound = _tensor_bound(scene, each)
            if bound:
                advice = (
                    f"{at_break(each)}: mask instead of slicing: `{bound}` is a tensor, so the slice's size depends "
                    f"on data. Keep all positions, and mask with torch.arange(size) < {bound}."
                )
                yield Candidate(advice, (cause.id,))
                break


def _tensor_bound(scene: DiagnosisScene, each: Break) -> str:
    """Return the source of a slice's bound that is a tensor; empty if there is none."""
    text = scene.session.listings.get(each.file, "")
    statement = statement_at(text, each.line)
    shown = each.expression.strip()
    # Torch before 2.13 does not say which part of the line it read.
    if statement is None or (_reads_a_number(statement) and not shown.startswith(":")):
        return ""
    for node in ast.walk(statement):
        if isinstance(node, ast.Slice) and covers(node, each.line):
            bounds = [bound for bound in (node.lower, node.upper) if bound is not None]
            named_ = [bound for bound in bounds if not isinstance(bound, ast.Constant)]
            if named_ and (not shown or source_of(text, named_[-1]) in shown):
                return source_of(text, named_[-1])
    return ""


def _reads_a_number(statement: ast.stmt) -> bool:
    """Whether a statement calls, outside of a slice, what makes a Python number of a tensor."""
    slices = [each for each in ast.walk(statement) if isinstance(each, ast.Slice)]
    inside = {id(below) for each in slices for below in ast.walk(each)}
    calls = (each.func for each in ast.walk(statement) if isinstance(each, ast.Call) and id(each) not in inside)
    return any(
        (isinstance(each, ast.Name) and each.id in ("int", "float", "bool"))
        or (isinstance(each, ast.Attribute) and each.attr in ("item", "tolist"))
        for each in calls
    )


def recurrent_layers(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to trace torch's recurrent layers, which Dynamo skips by default."""
    for cause in scene.causes:
        if any(_RECURRENT in each.gb for each in scene.breaks(cause)):
            short = f"set {option_line('allow_rnn')}"
            text = f"{at(cause)}: {short}: Dynamo then traces the recurrent layer."
            trial = Trial(settings=(("allow_rnn", True),))
            yield Candidate(text, (cause.id,), trial, worth=90, only_checked=True, short=short)


def named(causes: list[RootCause]) -> str:
    """Write the place of the first cause, and the number of other places."""
    place, others = at(causes[0]), len(causes) - 1
    if place and others:
        return f"{place} and {others} more:"
    return framed("", place, ":")


def at_break(each: Break) -> str:
    """Write `file.py:12`."""
    return f"{each.file.replace(chr(92), '/').rpartition('/')[2]}:{each.line}"


def _reads(scene: DiagnosisScene) -> Iterator[tuple[RootCause, Break, ast.stmt]]:
    """Yield the user's statements that read a tensor as a number, with their breaks."""
    for cause in scene.causes:
        for each in scene.breaks(cause):
            statement = statement_at(scene.session.listings.get(each.file, ""), each.line)
            is_read = any(name in each.called for name in ("item", "_local_scalar_dense"))
            if is_read and statement is not None and scene.is_users(each.file) and not in_library(each.file):
                yield cause, each, statement


def _read_of(statement: ast.stmt, line: int) -> tuple[ast.expr, ast.expr] | None:
    """Return the call that reads a tensor as a number, with the tensor; None unless there is exactly one such call."""
    found: list[tuple[ast.expr, ast.expr]] = []
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[]) if covers(node, line):
                found.append((node, tensor))
            case ast.Call(func=ast.Name(id=cast), args=[tensor], keywords=[]) if cast in CASTS and covers(node, line):
                found.append((node, tensor))
    if len(found) == 1:
        return found[0]
    return None


def _detached(text: str, tensor: ast.expr) -> str:
    """Write a tensor without its gradient, with `.detach()` as early as the chain of methods allows: what is stored is
    not computed with, so eager need not record the chain.
    """
    root = _root(tensor)
    # `torch.norm(x)` begins with the module, which has no `detach`.
    if not isinstance(root, ast.Name | ast.Attribute | ast.Subscript) or source_of(text, root) == "torch":
        return kept_tensor(text, tensor)
    first = source_of(text, root)
    return f"{first}.detach(){source_of(text, tensor).removeprefix(first)}"


def kept_tensor(text: str, tensor: ast.expr) -> str:
    """Write a tensor in place of its number, or as it is if it is detached already."""
    written, root = source_of(text, tensor), _root(tensor)
    # The chain has a `detach` already, at which `_root` stops.
    if isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute):
        return written
    return detached(written, is_operand=isinstance(tensor, ast.Name | ast.Attribute | ast.Subscript | ast.Call))


def _root(tensor: ast.expr) -> ast.expr:
    """Return what a chain of methods begins with, or where the chain detaches it."""
    while isinstance(tensor, ast.Call) and isinstance(tensor.func, ast.Attribute) and tensor.func.attr != "detach":
        tensor = tensor.func.value
    return tensor


def _is_stored(statement: ast.stmt) -> bool:
    """Whether a statement only stores a value in a container or an attribute."""
    match statement:
        case ast.Assign(targets=targets):
            return all(isinstance(target, ast.Subscript | ast.Attribute) for target in targets)
    return _collects(statement)


def _collects(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method))):
            return method in ADDING
    return False


def _assigned(statement: ast.stmt | None) -> set[str]:
    match statement:
        case ast.Assign(targets=targets):
            return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


def _conditions(function: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            yield node.test


def _tests(statement: ast.stmt, line: int) -> bool:
    """Whether a statement has a condition at a line."""
    return any(covers(test, line) for test in _conditions(statement))


def _uses(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(node))


def _leaves_loop(text: str, line: int, branch: int) -> bool:
    """Whether both lines are in the same loop."""
    loops = (node for node in nodes_around(text, line) if isinstance(node, _LOOPS))
    return any(covers(loop, line) and covers(loop, branch) for loop in loops)
