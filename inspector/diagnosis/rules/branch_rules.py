"""Advice on branches on a tensor's value: both sides produce tensors, or one side only raises or prints."""

import ast
import copy
import json
from collections.abc import Iterator, Sequence
from itertools import count, pairwise
from typing import NamedTuple

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.diagnosis.rules.value_rules import at_break, branch_on, kept_tensor
from ctrace.inspector.edits.eager_only import tested
from ctrace.inspector.edits.line_edits import Change, line_edits, shortened, source_of, statement_at
from ctrace.inspector.edits.selection import Selection, selecting, with_ones
from ctrace.inspector.facts.diagnosis import RootCause, RootKind
from ctrace.inspector.facts.findings import Break
from ctrace.inspector.facts.trial import Trial
from ctrace.inspector.knowledge.counting import framed
from ctrace.inspector.knowledge.torch_ops import DRAWING, STEEP
from ctrace.inspector.source.constructs import is_output_call
from ctrace.inspector.source.text import nodes_of, parsed

_KINDS = (RootKind.TENSOR_BRANCH, RootKind.TENSOR_VALUE)


def choices(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer torch.where for an `if` that sets one name, or returns, on both sides; the trial makes that edit."""
    for cause, each in scene.breaks_of(_KINDS):
        yield from _choice(scene, cause, each)


def draws(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer torch.where with a number that torch draws, for an `if` on Python's `random.random()`."""
    for cause in scene.causes:
        for each in scene.breaks(cause):
            torch, text = scene.torch_name(each.file), scene.session.listings.get(each.file, "")
            branch = _if_at(text, each.line)
            if branch is None or not torch or not scene.is_users(each.file):
                continue
            sides = _sides(text, branch)
            # torch.where computes both sides, so that one that draws would move the generator in each call.
            if sides is None or _draws(sides.yes) or _draws(sides.no):
                continue
            guard, condition = _guarded(text, branch)
            drawn = _drawn(text, condition)
            if not drawn:
                continue
            test = source_of(text, condition).replace(drawn, f"{torch}.rand(())")
            changes, shown = _selecting(branch, _selection(text, torch, test, (sides,)), (sides,), guard)
            edits = line_edits(each.file, text, changes)
            advice = (
                f"{at_break(each)}: draw with torch and {_replacing(guard, shown)}. It computes both sides; "
                f"`{drawn}` draws from Python's generator, which Dynamo does not trace."
            )
            if edits:
                yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=76, only_checked=True)


def _drawn(text: str, test: ast.expr) -> str:
    """Return the one call of `random.random()` in a comparison; empty if the condition is anything else."""
    calls = [node for node in ast.walk(test) if isinstance(node, ast.Call)]
    # Of `random.random() < x.item()`, the second call would break the graph as before.
    if len(calls) != 1 or not isinstance(test, ast.Compare):
        return ""
    found = source_of(text, calls[0])
    if found == "random.random()":
        return found
    return ""


def messages(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to test in eager only for an `if` that only prints, logs or warns; the trial makes that edit."""
    for cause, each in scene.breaks_of(_KINDS):
        yield from _message_in_eager(scene, cause, each)


def _message_in_eager(scene: DiagnosisScene, cause: RootCause, each: Break) -> Iterator[Candidate]:
    torch, text = scene.torch_name(each.file), scene.session.listings.get(each.file, "")
    branch = _if_at(text, each.line)
    if branch is None or not torch or not scene.is_users(each.file) or not _only_puts_out(branch):
        return
    guarded = tested(torch, _operand(text, branch.test))
    edits = line_edits(each.file, text, [(branch.test, guarded)])
    call = shortened(source_of(text, branch.body[0]))
    advice = f"{at_break(each)}: test in eager only, `if {guarded}:`; compiled calls then leave out `{call}`."
    if edits:
        yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=77, only_checked=True)


def _only_puts_out(branch: ast.If) -> bool:
    """Whether a branch does nothing but print, log or warn, so that no value depends on its test or its body."""
    # Compiled calls skip the test, and later code may read the name that `:=` binds in it.
    if branch.orelse or any(isinstance(node, ast.NamedExpr | ast.Await) for node in ast.walk(branch)):
        return False
    outputs = [each.value for each in branch.body if isinstance(each, ast.Expr) and is_output_call(each.value)]
    inside = (node for node in ast.walk(branch) if isinstance(node, ast.Call) and node not in outputs)
    return len(outputs) == len(branch.body) and all(map(_only_reads, inside))


def _only_reads(call: ast.Call) -> bool:
    """Whether a call only computes a value, by its name: a method of a tensor or a text, or a function of Python's."""
    match call.func:
        case ast.Name(id=name):
            return name in _READERS
        case ast.Attribute(value=ast.Name(id="self")):
            return False  # a method of the user's may do anything
        case ast.Attribute(attr=name):
            return not name.endswith("_")  # `add_` writes in place
    return False


_READERS = frozenset(
    ("abs", "all", "any", "bool", "float", "format", "int", "len", "max", "min", "repr", "round", "str", "sum")
)
"""Functions of Python that change nothing."""


def checks(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer torch._assert_async for an `if` that only raises; the trial makes that edit.

    torch._check takes no tensors: it raises TypeError for one (torch/__init__.py:_check, 2.13).
    """
    for cause, each in scene.breaks_of(_KINDS):
        yield from _check(scene, cause, each)


def _check(scene: DiagnosisScene, cause: RootCause, each: Break) -> Iterator[Candidate]:
    torch, text = scene.torch_name(each.file), scene.session.listings.get(each.file, "")
    found = raising_branch(text, each.line)
    if found is None or not torch or not scene.is_users(each.file):
        return
    branch, test, read = found
    condition = _opposite(text, torch, test, read)
    if not condition:
        return
    raised = _raised(branch)
    asserted = f"{torch}._assert_async({condition}, {_message(text, branch)})"
    changes: list[tuple[ast.stmt | ast.expr, str]] = [(branch, asserted)]
    # `n = x.sum().item()` above the check would break the graph as before, so `n` becomes the tensor.
    if read is not None:
        changes.append((read.value, source_of(text, _tensor(read.value))))
    edits = line_edits(each.file, text, changes)
    # Python raises the user's exception, and the graph a RuntimeError.
    other = "" if raised == "RuntimeError" else ", and raises RuntimeError"
    if other and raised:
        other += f" instead of {raised}"
    place = f"{each.file.replace(chr(92), '/').rpartition('/')[2]}:{branch.lineno}"
    kept = ""
    if read is not None:
        kept = f"keep `{source_of(text, read.targets[0])}` a tensor, and "
    advice = f"{place}: {kept}replace the check by `{asserted}`, which stays in the graph{other}."
    if edits:
        yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=77)


def raising_branch(text: str, line: int) -> tuple[ast.If, ast.expr, ast.Assign | None] | None:
    """Return an `if` that only raises, for which Python needs a tensor's value at a line, and its condition; also the
    statement at the line if it reads the value into a variable that the condition tests. None if there is none.
    """
    tree = parsed(text)
    branch = _if_at(text, line)
    if branch is not None:
        if _only_raises(branch):
            return (branch, branch.test, None)
        return None
    if tree is None:
        return None
    for block in (getattr(node, "body", None) for node in ast.walk(tree)):
        if not isinstance(block, list):
            continue
        for before, after in pairwise(block):
            match before:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if (
                    before.lineno == line and isinstance(after, ast.If) and _only_raises(after)
                ):
                    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
                    # The assignment and the test: any other use may need the number.
                    if len(uses) == 2 and _tensor(value) is not value and name in _names(after.test):
                        return after, after.test, before
    return None


def _names(node: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _only_raises(branch: ast.If) -> bool:
    return not branch.orelse and len(branch.body) == 1 and isinstance(branch.body[0], ast.Raise)


def _tensor(node: ast.expr) -> ast.expr:
    """Return the tensor that `bool(t)` or `t.item()` reads; any other expression itself."""
    match node:
        case ast.Call(func=ast.Name(id="bool"), args=[tensor], keywords=[]):
            return _tensor(tensor)
        case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[], keywords=[]):
            return tensor
    return node


def _opposite(text: str, torch: str, test: ast.expr, read: ast.Assign | None) -> str:
    """Write what holds if a check does not raise, as a tensor; empty for tests of several parts, or of numbers."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        # `if not t: raise` asserts `t` itself.
        held = _tensor(test.operand)
        if isinstance(held, ast.BoolOp):
            return ""
        return source_of(text, held)
    test = _tensor(test)
    match test:
        # `and` and `or` ask their operands for Python bools, which breaks the graph again.
        case ast.BoolOp() | ast.Constant() | ast.NamedExpr():
            return ""
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() | ast.Eq() | ast.NotEq()]) if read is None:
            written = _without_number(text, test)
            # A comparison with a cast is a Python bool, and `~True` is -2, which is true.
            if _is_cast(test):
                return ""
            return f"~({written})"
        # A chain such as `0 < n < 9` is an `and`, and `is` and `in` return Python bools.
        case ast.Compare():
            return ""
    return f"{torch}.logical_not({source_of(text, test)})"


def _is_cast(test: ast.expr) -> bool:
    """Whether a part of a condition is cast to a number, as in `float(x.max()) > 1`."""
    names = (node.func.id for node in ast.walk(test) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    return any(name in ("bool", "float", "int", "len") for name in names)


def _raised(branch: ast.If) -> str:
    """Return the name of the exception that a check raises; empty if it is not known."""
    match branch.body[0]:
        case ast.Raise(exc=ast.Call(func=ast.Name(id=name)) | ast.Name(id=name)):
            return name
    return ""


def _message(text: str, branch: ast.If) -> str:
    """Return a plain string that says what a check raises, or what it tests, as source."""
    match branch.body[0]:
        case ast.Raise(exc=ast.Call(args=[ast.Constant(value=str(message)), *_])):
            return json.dumps(message)
        # Only the start of an f-string: the op takes a plain string, and the rest needs values.
        case ast.Raise(exc=ast.Call(args=[ast.JoinedStr(values=[ast.Constant(value=str(message)), *_]), *_])):
            if message.strip():
                return json.dumps(message.strip())
    return json.dumps(source_of(text, branch.test))


def other_results(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to leave an `if` that returns something else than a tensor to the caller: torch.where selects tensors."""
    for cause in scene.causes:
        if cause.kind not in _KINDS:
            continue
        for each in scene.breaks(cause):
            text = scene.session.listings.get(each.file, "")
            branch = None
            if scene.is_users(each.file):
                branch = _if_at(text, each.line)
            if branch is None or not _returns_a_constant(branch):
                continue
            test, returned = (shortened(source_of(text, node)) for node in (branch.test, branch.body[-1]))
            advice = (
                f"{at_break(each)}: leave the test `{test}` to the caller, after the compiled call: a graph cannot "
                f"choose between a tensor and `{returned}`."
            )
            yield Candidate(advice, (cause.id,), general=True)


def _returns_a_constant(branch: ast.If) -> bool:
    match branch.body[-1]:
        case ast.Return(value=None | ast.Constant()):
            return True
    return False


def loops(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer a fixed number of steps, or a compiled step, for a loop whose end depends on a tensor's values."""
    for cause in scene.causes:
        if cause.kind not in _KINDS:
            continue
        for each in scene.breaks(cause):
            end = _end_of_loop(scene.session.listings.get(each.file, ""), each.line)
            if end and scene.is_users(each.file):
                text = (
                    f"{at_break(each)}: {end}, and keep what is finished with torch.where; or leave the loop outside "
                    "and compile one step of it."
                )
                yield Candidate(text, (cause.id,), general=True)


def _end_of_loop(text: str, line: int) -> str:
    """Say how to give the loop that the statement at a line ends a fixed number of steps; empty if it ends none."""
    tree = parsed(text)
    for loop in nodes_of(tree):
        match loop:
            case ast.For(iter=ast.Call(func=ast.Name(id="range"))) if (
                loop.lineno <= line <= (loop.iter.end_lineno or 0)
            ):
                return "loop to a size, such as x.size(1), instead of to a value"
            case ast.While() if loop.lineno <= line <= (loop.test.end_lineno or 0):
                return "make the number of steps a constant"
            case ast.For() | ast.While():
                branch = next((each for each in loop.body if isinstance(each, ast.If) and _is_at(each, line)), None)
                # For example `if done.all(): break`.
                if branch is not None and isinstance(branch.body[-1], ast.Break | ast.Return):
                    return "run the loop to its end"
    return ""


def _is_at(branch: ast.If, line: int) -> bool:
    return branch.lineno <= line <= (branch.test.end_lineno or branch.lineno)


def _choice(scene: DiagnosisScene, cause: RootCause, each: Break) -> Iterator[Candidate]:
    torch, text = scene.torch_name(each.file), scene.session.listings.get(each.file, "")
    branch, read = _if_at(text, each.line), None
    if branch is None:
        branch, read = _if_after(scene, each)
    if branch is None or not torch or not scene.is_users(each.file):
        return
    # For one name, a side may also be a constant, which `_several_sides` refuses.
    one = _sides(text, branch)
    found = _several_sides(branch)
    if one is not None:
        found = (one,)
    if not found or any(_draws(sides.yes) or _draws(sides.no) for sides in found):
        return
    guard, condition = _guarded(text, branch)
    if isinstance(condition, ast.BoolOp):
        return  # torch.where takes no Python bool, which one operand may be
    # `not` asks for a Python bool, as the branch does.
    if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
        condition = condition.operand
        found = tuple(sides._replace(yes=sides.no, no=sides.yes) for sides in found)
    chosen = _selection(text, torch, _without_number(text, condition), found)
    changes, shown = _selecting(branch, chosen, found, guard)
    advice = f"{at_break(each)}: {_replacing(guard, shown)}."
    if read is not None:
        kept = kept_tensor(text, _tensor(read.value))
        changes.append((read.value, kept))
        name = source_of(text, read.targets[0])
        replacing = _replacing(guard, shown, branch.lineno)
        advice = f"{at_break(each)}: keep `{name}` a tensor (`{name} = {kept}`), and {replacing}."
    edits = line_edits(each.file, text, changes)
    if edits:
        yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=76, only_checked=True)


def _if_after(scene: DiagnosisScene, each: Break) -> tuple[ast.If | None, ast.Assign | None]:
    """Return the `if` that tests the number which the statement at a break reads, and that statement."""
    text = scene.session.listings.get(each.file, "")
    match statement_at(text, each.line):
        case ast.Assign(targets=[ast.Name()], value=value) as read if _tensor(value) is not value:
            line = branch_on(scene, each)
            if line is not None:
                return (_if_at(text, line), read)
            return (None, None)
    return None, None


class _Sides(NamedTuple):
    """Both values of a branch."""

    place: ast.stmt
    """The statement to replace."""
    target: str
    """The name that it assigns to; empty: it returns."""
    yes: ast.expr
    no: ast.expr


def _selection(text: str, torch: str, test: str, several: Sequence[_Sides]) -> tuple[str, ...]:
    """Return statements that select one of two sides; ops that may leave NaN in the gradients of the other one get
    ones there.
    """
    # Looking into the text rules out the names of every scope, and those of attributes, without resolving any.
    name = next(each for each in _condition_names() if each not in text)
    yes, no = _Masking(torch, name, holds=True), _Masking(torch, name, holds=False)
    found = [Selection(sides.target, yes.masked(text, sides.yes), no.masked(text, sides.no)) for sides in several]
    # A condition that is used once stands where it is used.
    if not (yes.found or no.found or len(several) > 1):
        name = ""
    return tuple(selecting(torch, test, found, name=name))


def _guarded(text: str, branch: ast.If) -> tuple[str, ast.expr]:
    """Split `if guard and test:` into the guard, which stays a test of Python's, and the test; no guard: empty.

    torch.where takes tensors only: with `self.training and test` it raises in evaluation.
    """
    match branch.test:
        case ast.BoolOp(op=ast.And(), values=[*guards, test]):
            return " and ".join(_operand(text, each) for each in guards), test
    return "", branch.test


def _operand(text: str, node: ast.expr) -> str:
    """Return the text of an operand of `and`, in parentheses if it binds less."""
    if isinstance(node, ast.BoolOp | ast.IfExp | ast.NamedExpr | ast.Lambda):
        return f"({source_of(text, node)})"
    return source_of(text, node)


def _replacing(guard: str, shown: str, line: int | None = None) -> str:
    """Say which statements replace a branch, which the sentence has not named if there is a line."""
    at = framed(" at line ", line)
    if guard:
        return f"test `if {guard}:` only{at}, and below it select with {shown}"
    return f"replace the branch{at} by {shown}"


def _selecting(
    branch: ast.If, statements: tuple[str, ...], several: Sequence[_Sides], guard: str
) -> tuple[list[Change], str]:
    """Return the changes that replace a branch by a selection, and its statements for a sentence."""
    *before, last = (f"`{statement}`" for statement in statements)
    shown = f"{framed('', ', '.join(before), ' and ')}{last}"
    first, *others = (sides.place for sides in several)
    gone = [(each, "pass") for each in others]
    # `if True:` and `pass` keep each line in its place, so that findings of the trial can be compared.
    return [(branch.test, guard or "True"), (first, "; ".join(statements)), *gone], shown


def _condition_names() -> Iterator[str]:
    yield "condition"
    for number in count(2):
        yield f"condition_{number}"


class _Masking(ast.NodeTransformer):
    """Puts ones where an operand is not selected.

    `fix` proves a stricter form of this edit (`inspector/edits/masking.py`), which also knows what may overflow.
    """

    def __init__(self, torch: str, condition: str, *, holds: bool) -> None:
        self._torch = torch
        self._condition = condition
        self._holds = holds
        self.found = False

    def masked(self, text: str, side: ast.expr) -> str:
        """Return a side of a text with ones for the operands that need them, or as it is."""
        # A copy, since `parsed` hands the same tree of a text to all rules.
        changed = self.visit(copy.deepcopy(side))
        if self.found:
            return ast.unparse(changed)
        return source_of(text, side) or ast.unparse(side)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """Mask a divisor, and the base of a power."""
        self.generic_visit(node)
        match node:
            # The gradients of `x / 2` and `x ** 1` are finite for any x.
            case ast.BinOp(op=ast.Div(), right=ast.Constant() | ast.UnaryOp(operand=ast.Constant())):
                pass
            case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=1)):
                pass
            case ast.BinOp(op=ast.Div()):
                node.right = self._with_ones(node.right)
            case ast.BinOp(op=ast.Pow()):
                node.left = self._with_ones(node.left)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Mask the operand of a steep op, a function of torch or a method."""
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=module), attr=op)) if module == self._torch:
                if op in STEEP and node.args:
                    node.args[0] = self._with_ones(node.args[0])
            case ast.Call(func=ast.Attribute(value=operand, attr=op) as method) if op in STEEP:
                method.value = self._with_ones(operand)
        return node

    def _with_ones(self, operand: ast.expr) -> ast.expr:
        self.found = True
        text = with_ones(self._torch, self._condition, ast.unparse(operand), holds=self._holds)
        return ast.parse(text, mode="eval").body


def _draws(side: ast.expr) -> bool:
    """Whether computing a side draws random numbers."""
    called = [node.func for node in ast.walk(side) if isinstance(node, ast.Call)]
    return any(getattr(each, "attr", getattr(each, "id", "")) in DRAWING for each in called)


def _if_at(text: str, line: int) -> ast.If | None:
    tree = parsed(text)
    found = (node for node in nodes_of(tree) if isinstance(node, ast.If))
    return next((node for node in found if _is_at(node, line)), None)


def _sides(text: str, branch: ast.If) -> _Sides | None:
    """Return what a branch assigns or returns on both sides; None if one side does more."""
    match branch.body, branch.orelse:
        # Without an `else`, the other side is the value that the name has.
        case [ast.Assign(targets=[ast.Name(id=name)], value=yes) as place], []:
            return _Sides(place, name, yes, ast.Name(name, ast.Load()))
        case (
            [ast.Assign(targets=[ast.Name(id=name)], value=yes) as place],
            [ast.Assign(targets=[ast.Name(id=same)], value=no)],
        ) if name == same:
            return _Sides(place, name, yes, no)
        case [ast.Return(value=ast.expr() as yes) as place], [ast.Return(value=ast.expr() as no)]:
            return _Sides(place, "", yes, no)
        # `if test: return a`, and then `return b`.
        case [ast.Return(value=ast.expr() as yes) as place], []:
            after = _after(text, branch)
            if isinstance(after, ast.Return) and after.value is not None:
                return _Sides(place, "", yes, after.value)
    return None


def _several_sides(branch: ast.If) -> tuple[_Sides, ...]:
    """Return what a branch assigns to several names; nothing if it does more, if a value reads one of the names that
    the branch has set by then, or if one is a constant, which may not become a tensor.
    """
    places = [each for each in branch.body if isinstance(each, ast.Assign)]
    others = [each for each in branch.orelse if isinstance(each, ast.Assign)]
    names, same = list(map(_assigned, places)), list(map(_assigned, others))
    is_all = len(places) == len(branch.body) and len(others) == len(branch.orelse)
    if not is_all or "" in names or len({*names}) < len(names) or (others and names != same):
        return ()
    for statements in (places, others):
        for number, each in enumerate(statements):
            if isinstance(each.value, ast.Constant) or _names(each.value) & {*names[:number]}:
                return ()
    otherwise: list[ast.expr] = [each.value for each in others] or [ast.Name(each, ast.Load()) for each in names]
    return tuple(_Sides(place, name, place.value, no) for place, name, no in zip(places, names, otherwise, strict=True))


def _assigned(statement: ast.Assign) -> str:
    """Return the one name that a statement assigns to; empty if it assigns to anything else."""
    match statement.targets:
        case [ast.Name(id=name)]:
            return name
    return ""


def _after(text: str, branch: ast.If) -> ast.stmt | None:
    """Return the statement that follows in the same block."""
    tree = parsed(text)
    for node in nodes_of(tree):
        for block in (getattr(node, "body", None), getattr(node, "orelse", None)):
            if isinstance(block, list) and branch in block[:-1]:
                found: ast.stmt = block[block.index(branch) + 1]
                return found
    return None


def _without_number(text: str, test: ast.expr) -> str:
    """Write a condition as a tensor: `x.sum().item() > 0` becomes `x.sum() > 0`."""
    written = source_of(text, test)
    for node in ast.walk(test):
        match node:
            case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[]):
                written = written.replace(source_of(text, node), source_of(text, tensor))
    return written
