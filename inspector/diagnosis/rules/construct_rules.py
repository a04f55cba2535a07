"""Advice on constructs that have an exact replacement: wrappers of old torch, and conditions on symbolic numbers; and
on breaks in torch's own modules, which users cannot edit: optimizers and quantized layers (`torchs_own`).
"""

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeGuard

from msgspec import Struct

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene, in_library, short_place
from ctrace.inspector.diagnosis.naming import at
from ctrace.inspector.diagnosis.rules.value_rules import at_break
from ctrace.inspector.edits.line_edits import (
    Change,
    covers,
    line_edits,
    places_text,
    shortened,
    source_of,
    statement_at,
)
from ctrace.inspector.facts.diagnosis import RootCause
from ctrace.inspector.facts.findings import Break, Owner
from ctrace.inspector.facts.trial import LineEdit, Trial
from ctrace.inspector.source.text import nodes_of, parsed

_VARIABLE = "Variable"
_MAKERS = frozenset(
    """
    arange as_tensor empty empty_like eye from_numpy full full_like linspace new new_empty new_full new_ones new_tensor
    new_zeros normal ones ones_like rand rand_like randint randn randn_like randperm tensor zeros zeros_like
    Tensor FloatTensor LongTensor IntTensor ByteTensor BoolTensor DoubleTensor HalfTensor
    """.split()  # noqa: SIM905 - one word a line would fill the screen
)
"""Functions of torch whose result requires no gradient."""
_SAME = frozenset(("cuda", "cpu", "to", "float", "double", "half", "long", "int", "bool", "type", "type_as", "view",
                   "reshape", "unsqueeze", "repeat", "expand"))  # fmt: skip
"""Methods whose result requires no gradient if their tensor requires none."""
_NO_BOOL = re.compile(r"argument '(?P<name>\w+)' (?:\(position (?P<position>\d+)\) )?must be bool, not SymBool")


def variables(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer the tensor in place of torch.autograd.Variable, which only returns it, detached, since torch 0.4."""
    files: dict[str, list[tuple[str, Break]]] = {}
    for cause in scene.causes:
        for each in scene.breaks(cause):
            if _VARIABLE in scene.session.listings.get(each.file, ""):
                files.setdefault(each.file, []).append((cause.id, each))
    for file, found in files.items():
        text = scene.session.listings.get(file, "")
        calls = list(_variables(text))
        mine = [(id_, each) for id_, each in found if any(covers(call, each.line) for call in calls)]
        # All calls of the file, not only those that broke the graph: Dynamo has seen no call behind a break yet.
        changes: list[Change] = [(call, tensor) for call in calls if (tensor := _tensor_of(text, call))]
        edits = line_edits(file, text, changes)
        first = next((new for _, each in mine for call, new in changes if covers(call, each.line)), "")
        if first and edits:
            advice = (
                f"{at_break(mine[0][1])}: remove Variable{places_text(changes)}, which Dynamo does not trace: write "
                f"`{shortened(first)}`{in_library(file)}. Since torch 0.4, Variable only returns its tensor, detached."
            )
            ids = tuple(dict.fromkeys(id_ for id_, _ in mine))
            yield Candidate(advice, ids, Trial(edits=edits), worth=91, short="remove torch.autograd.Variable")


_IN_TORCHSCRIPT = frozenset(("GB4695", "GB0007", "GB0008"))
"""Ids of breaks at a call of TorchScript: of what torch.jit.script returned, and of a ScriptModule, whose call Dynamo
skips like other code below torch/jit."""


def torchscript(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer the module itself in place of one for TorchScript, which Dynamo does not trace."""
    causes = [each for each in scene.causes if any(_IN_TORCHSCRIPT & set(one.gb) for one in scene.breaks(each))]
    if not causes:
        return
    texts = {file: text for file, text in scene.session.listings.items() if scene.is_users(file)}
    changed = {file: sorted(_without_torchscript(text), key=_line_of) for file, text in texts.items()}
    edits = tuple(edit for file, changes in changed.items() for edit in _edits_of(scene, file, changes))
    if edits:
        what = _joined_names(what for changes in changed.values() for _, _, what in changes)
        file, line = next((file, changes[0][0].lineno) for file, changes in changed.items() if changes)
        text = (
            f"{short_place(f'{file}:{line}')}: {what}: Dynamo does not trace TorchScript, which torch.compile replaces."
        )
        ids = tuple(each.id for each in causes)
        yield Candidate(text, ids, Trial(edits=edits), worth=89, only_checked=True)


def _line_of(change: tuple[ast.expr, str, str]) -> int:
    return change[0].lineno


def _edits_of(scene: DiagnosisScene, file: str, changes: list[tuple[ast.expr, str, str]]) -> Iterator[LineEdit]:
    """Yield the edits of a file; a decorator goes with its line."""
    rewritten: list[Change] = [(node, new) for node, new, _ in changes if new]
    yield from line_edits(file, scene.session.listings[file], rewritten)
    for node, new, _ in changes:
        # An empty line, so that those below keep their numbers.
        if not new:
            yield LineEdit(file, node.lineno, "", scene.line(file, node.lineno).strip())


def _without_torchscript(text: str) -> Iterator[tuple[ast.expr, str, str]]:
    """Yield what a file says for TorchScript, with its replacement (empty: a decorator to remove), and words for it."""
    if "torch.jit." not in text:
        return
    inner: set[ast.AST] = set()
    for node in nodes_of(parsed(text)):
        match node:
            case ast.Call(func=function, args=[_]) if node not in inner and _compiles(node):
                module: ast.expr = node
                # `torch.jit.freeze(torch.jit.script(m))` is one change, since changes that overlap make no edit.
                while _compiles(module):
                    inner.add(module)
                    module = module.args[0]
                yield node, source_of(text, module), f"remove `{source_of(text, function)}`"
            case ast.Attribute(attr="ScriptModule") if _in_jit(node):
                nn = f"{source_of(text, node.value).removesuffix('.jit')}.nn.Module"
                yield node, nn, f"derive from {nn} instead of {source_of(text, node)}"
            case ast.FunctionDef(decorator_list=decorators):
                # Of a function that torch.jit.script compiled, Dynamo traces the original
                # (jit/_script.py:_torchdynamo_inline, 2.13).
                marks = [each for each in decorators if _in_jit(each) and each.attr != "script"]
                yield from ((each, "", f"remove `@{source_of(text, each)}`") for each in marks)


def _compiles(node: ast.expr) -> TypeGuard[ast.Call]:
    """Whether an expression is a call that returns its one argument as TorchScript, or prepares such a module."""
    match node:
        case ast.Call(func=ast.Attribute(attr="script" | "freeze" | "optimize_for_inference") as function, args=[_]):
            return _in_jit(function)
    return False


def _in_jit(node: ast.expr) -> TypeGuard[ast.Attribute]:
    """Whether an expression is an attribute of torch.jit."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "jit"


def _joined_names(names: Iterable[str]) -> str:
    return ", and ".join(islice(dict.fromkeys(names), 2))


class _Rewrite(Struct, frozen=True):
    """A piece of a line that breaks, with another text for it."""

    node: ast.stmt | ast.expr
    text: str
    advice: str


def _rewritten(
    scene: DiagnosisScene, cause: RootCause, rewrites: Callable[[Break, str], Iterator[_Rewrite]], worth: int
) -> Iterator[Candidate]:
    """Offer other text for the lines at which a cause breaks the graph: for all of them first, then for each."""
    found: list[tuple[Break, tuple[LineEdit, ...], _Rewrite]] = []
    for broken in scene.breaks(cause):
        text = scene.session.listings.get(broken.file, "")
        every = ((each, line_edits(broken.file, text, [(each.node, each.text)])) for each in rewrites(broken, text))
        found += [(broken, edits, each) for each, edits in every if edits]
    together = tuple(dict.fromkeys(edit for _, edits, _ in found for edit in edits))
    if len({(edit.file, edit.line) for edit in together}) == len(together) > 1:  # else two of them change one line
        lines = ", ".join(dict.fromkeys(at_break(broken) for broken, _, _ in found[1:]))
        advice = f"{at_break(found[0][0])}: {found[0][2].advice} The same at {lines}."
        yield Candidate(advice, (cause.id,), Trial(edits=together), worth=worth)
    for broken, edits, each in found:
        yield Candidate(f"{at_break(broken)}: {each.advice}", (cause.id,), Trial(edits=edits), worth=worth)


def new_leaves(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer the tensor in place of Variable(tensor, requires_grad=True), which cuts the gradient of what it is made of.

    That makes a new leaf amid the graph, which Dynamo does not trace. Most code that has it predates torch 0.4.
    """
    for cause in scene.causes:
        yield from islice(_rewritten(scene, cause, _without_new_leaf, 89), 1)


def _without_new_leaf(broken: Break, text: str) -> Iterator[_Rewrite]:
    if _VARIABLE not in text:
        return
    call = next((call for call in _variables(text) if covers(call, broken.line)), None)
    match call:
        # Variable(torch.zeros(3), requires_grad=True) cuts nothing, and without the leaf, there is no gradient to read.
        case ast.Call(args=[ast.expr() as tensor], keywords=[ast.keyword(arg="requires_grad")]) if not (
            _tensor_of(text, call) or _has_no_gradient(tensor)
        ):
            written = source_of(text, tensor)
            advice = (
                f"use `{shortened(written)}` itself{in_library(broken.file)}, unless its gradient has to end here: "
                f"`{shortened(source_of(text, call))}` makes a new leaf, which Dynamo does not trace."
            )
            # In parentheses: `Variable(a + b, requires_grad=True).sum()` sums both.
            yield _Rewrite(call, f"({written})", advice)


def detached(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer detach() in place of an assignment to a tensor's requires_grad."""
    for cause in scene.causes:
        yield from islice(_rewritten(scene, cause, _with_detach, 88), 1)


def _with_detach(broken: Break, text: str) -> Iterator[_Rewrite]:
    statement = statement_at(text, broken.line)
    match statement:
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name(id=name), attr="requires_grad")], value=ast.Constant(value=False)
        ):
            new = f"{name} = {name}.detach()"
            advice = f"write `{new}`{in_library(broken.file)}: Dynamo does not trace a change of requires_grad."
            yield _Rewrite(statement, new, advice)


def public_names(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer the public function that Dynamo traces in place of torch's private one, which returns the same."""
    for cause in scene.causes:
        yield from islice(_rewritten(scene, cause, _with_public_name, 88), 1)


def _with_public_name(broken: Break, text: str) -> Iterator[_Rewrite]:
    for node in nodes_of(statement_at(text, broken.line)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id=torch), attr="_C"), attr=name)):
                if name in _PUBLIC and not node.args and not node.keywords and covers(node, broken.line):
                    new = f"{torch}.{_PUBLIC[name]}()"
                    advice = f"write `{new}`{in_library(broken.file)}, which is the same and which Dynamo traces."
                    yield _Rewrite(node, new, advice)


_PUBLIC = {"_is_tracing": "jit.is_tracing"}
"""Public functions of torch that return what private ones do (2.13, torch/jit/_trace.py:is_tracing)."""


def made_with_gradients(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer to create a tensor without requires_grad=True: Dynamo traces no creation of a tensor that has it."""
    for cause in scene.causes:
        yield from _rewritten(scene, cause, _without_gradient, 87)


def _without_gradient(broken: Break, text: str) -> Iterator[_Rewrite]:
    if _NEW_LEAF not in broken.gb:
        return
    for call in nodes_of(statement_at(text, broken.line)):
        match call:
            case ast.Call(keywords=[*others, ast.keyword(arg="requires_grad", value=ast.Constant(value=True))]):
                arguments = ", ".join(source_of(text, argument) for argument in (*call.args, *others))
                new = f"{source_of(text, call.func)}({arguments})"
                advice = (
                    f"write `{shortened(new)}`{in_library(broken.file)}, if nothing reads its gradient; else create it "
                    "before the compiled call and pass it in."
                )
                yield _Rewrite(call, new, advice)


_NEW_LEAF = "GB0225"
"""The id of a break for a tensor that is created with requires_grad=True."""


def new_views(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer the method that returns a view in place of one that changes the shape of an input in place."""
    for cause in scene.causes:
        yield from islice(_rewritten(scene, cause, _with_new_view, 86), 1)


def _with_new_view(broken: Break, text: str) -> Iterator[_Rewrite]:
    if not _SHAPE_IN_PLACE & {*broken.gb}:
        return
    statement = statement_at(text, broken.line)
    match statement:
        case ast.Assign(targets=[ast.Name(id=other)], value=ast.Call() as call):
            target = other
        case ast.Expr(value=ast.Call() as call):
            target = ""
        case _:
            return
    match call.func:
        case ast.Attribute(value=ast.Name(id=name), attr=method) if method in _OF_SHAPES:
            also = ""
            # `b = a.t_()` gives both names the new shape.
            if target not in ("", name):
                also = f"{target} = "
            arguments = source_of(text, call).removeprefix(f"{name}.{method}")
            new = f"{also}{name} = {name}.{method.removesuffix('_')}{arguments}"
            advice = f"write `{shortened(new)}`{in_library(broken.file)}; the caller's tensor then keeps its shape."
            yield _Rewrite(statement, new, advice)


_SHAPE_IN_PLACE = {"GB0072", "GB0148"}
"""The ids of breaks for a change of an input in place that makes it another view."""
_OF_SHAPES = frozenset(("squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"))
"""Methods that have a counterpart which returns a view, of those that torch tags `inplace_view` (2.13)."""


def old_reductions(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer `reduction` in place of size_average and reduce, of which a loss of torch computes it in each call."""
    for cause in scene.causes:
        yield from islice(_rewritten(scene, cause, _with_reduction, 86), 1)


def _with_reduction(broken: Break, text: str) -> Iterator[_Rewrite]:
    if _NO_TENSOR not in broken.gb:
        return
    for call in nodes_of(statement_at(text, broken.line)):
        if not isinstance(call, ast.Call):
            continue
        old = [each for each in call.keywords if each.arg in _OLD_REDUCTIONS]
        # A variable may hold None, True or False, each of which is another reduction.
        if not old or not all(isinstance(each.value, ast.Constant) for each in old):
            continue
        kept = [each for each in call.keywords if each.arg not in (*_OLD_REDUCTIONS, "reduction")]
        arguments = [*(source_of(text, each) for each in (*call.args, *kept)), f'reduction="{_reduction(old)}"']
        new = f"{source_of(text, call.func)}({', '.join(arguments)})"
        names = " and ".join(str(each.arg) for each in old)
        advice = (
            f"write `{shortened(new)}`{in_library(broken.file)}: torch makes the same of {names}, and warns of the "
            "old names, which Dynamo does not trace."
        )
        yield _Rewrite(call, new, advice)


def _reduction(old: Iterable[ast.keyword]) -> str:
    """Return what torch makes of old names with constants: False or 0 says something, None is the default, True."""
    values = {each.arg: each.value.value for each in old if isinstance(each.value, ast.Constant)}
    refused = {name for name, value in values.items() if value is not None and not value}
    if "reduce" in refused:
        return "none"
    if refused:
        return "sum"
    return "mean"


_NO_TENSOR = "GB0208"
"""The id of a break for a function of torch that returns no tensor, here `legacy_get_string` of nn/_reduction.py."""
_OLD_REDUCTIONS = ("size_average", "reduce")
"""Arguments of losses that `reduction` replaces (2.13, nn/_reduction.py)."""


def _variables(text: str) -> Iterator[ast.Call]:
    """Yield the calls of torch.autograd.Variable."""
    tree = parsed(text)
    nodes = list(nodes_of(tree))
    names = {f"torch.autograd.{_VARIABLE}", *(name for node in nodes for name in _names_of(node))}
    for node in nodes:
        if isinstance(node, ast.Call) and ast.unparse(node.func) in names:
            yield node


def _names_of(node: ast.AST) -> Iterator[str]:
    """Yield the names under which a statement imports Variable."""
    match node:
        case ast.ImportFrom(module="torch.autograd" | "torch.autograd.variable", names=aliases):
            yield from (each.asname or each.name for each in aliases if each.name == _VARIABLE)
        case ast.ImportFrom(module="torch", names=aliases):
            yield from (f"{each.asname or each.name}.{_VARIABLE}" for each in aliases if each.name == "autograd")
        case ast.Import(names=aliases):
            renamed = {each.name: each.asname for each in aliases if each.asname}
            yield from (f"{renamed[name]}.{_VARIABLE}" for name in ("torch.autograd",) if name in renamed)
            yield from (f"{renamed[name]}.autograd.{_VARIABLE}" for name in ("torch",) if name in renamed)


def _tensor_of(text: str, call: ast.Call) -> str:
    """Write the tensor that a Variable returns; empty if it is asked for a gradient, or for more."""
    match call:
        case ast.Call(args=[ast.Starred()]):
            return ""
        case ast.Call(args=[tensor], keywords=[]):
            pass
        case ast.Call(args=[tensor], keywords=[ast.keyword(arg="requires_grad", value=ast.Constant(value=False))]):
            pass
        case _:
            return ""
    written = source_of(text, tensor)
    # In `a + b.detach()`, `a` would keep its gradient.
    if isinstance(tensor, ast.BinOp | ast.UnaryOp | ast.IfExp | ast.Compare):
        plain = f"({written})"
    else:
        plain = written
    if _has_no_gradient(tensor):
        return plain
    return f"{plain}.detach()"


def _has_no_gradient(tensor: ast.expr) -> bool:
    match tensor:
        case ast.Attribute(attr="data"):
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr=name), keywords=keywords):
            if name in _MAKERS:
                return not any(each.arg == "requires_grad" for each in keywords)
            return name in _SAME and _has_no_gradient(inner)
    return False


def symbolic_conditions(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer a conditional expression where an operation takes a bool and gets a condition on a dynamic size."""
    for cause in scene.causes:
        for each in scene.breaks(cause):
            match = _NO_BOOL.search(f"{each.reason} {each.called}")
            if match is None:
                continue
            text = scene.session.listings.get(each.file, "")
            value = _argument(text, each.line, match)
            if value is None:
                continue
            written = source_of(text, value)
            # A conditional expression makes Dynamo decide the condition and guard on it, which leaves a constant.
            new = f"True if {written} else False"
            advice = (
                f"{at_break(each)}: write `{new}` for `{shortened(written)}`{in_library(each.file)}: the size is "
                f"dynamic here, and {match['name']} takes a bool, no condition on it. bool(...) does not help."
            )
            edits = line_edits(each.file, text, [(value, f"({new})")])
            if edits:
                yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=88)


def _argument(text: str, line: int, match: re.Match[str]) -> ast.expr | None:
    """Return what a call at a line passes for an argument."""
    statement = statement_at(text, line)
    for node in nodes_of(statement):
        if isinstance(node, ast.Call) and covers(node, line):
            value = next((each.value for each in node.keywords if each.arg == match["name"]), None)
            if value is not None:
                return value
            position = int(match["position"] or 0)  # from 1; 0: torch names the argument alone
            if 0 < position <= len(node.args):
                return node.args[position - 1]
    return None


_BY_BLOCKS = "Compile each block by itself"
_OF_DDP = (
    "Nothing to change in DistributedDataParallel, whose forward breaks by design; or compile the model before "
    "you wrap it: DistributedDataParallel(torch.compile(model))."
)
_KNOWN = (
    (
        ("torch/ao/nn/quantized", "torch/ao/nn/intrinsic/quantized", "torch.ao.nn.quantized", "ScriptObject"),
        "Run this model eagerly: its quantized layers keep packed weights in script objects, which Dynamo cannot "
        "put in a graph. To compile it, quantize with torchao's quantize_, whose weights are tensors.",
    ),
    (
        ("torch/nn/parallel/distributed", "torch.nn.parallel.distributed", "torch/nn/parallel/data_parallel"),
        _OF_DDP,
    ),
    (
        ("torch/distributed/fsdp", "torch.distributed.fsdp"),
        f"{_BY_BLOCKS} (block.compile(), before or after FSDP wraps it) in place of the whole model: "
        "FSDP's hooks break the graph by design.",
    ),
    (
        ("torch/optim/", "torch.optim."),
        "Compile the model, not the step: torch wraps an optimizer's step() in graph breaks.",
    ),
)
"""The advice on breaks, keyed by parts of a path, or of a name in torch's reason."""


def torchs_own(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer advice on intentional breaks in torch's code."""
    for cause in scene.causes:
        if cause.expected:
            continue
        breaks = [each for each in scene.breaks(cause) if each.owner is Owner.TORCH or _in_torch(each)]
        found = next((text for each in breaks for words, text in _KNOWN if _mentions(each, words)), None)
        if found is not None:
            text, trial = found, None
            if scene.is_users(cause.file) and at(cause):
                text = f"{at(cause)}: {found[:1].lower()}{found[1:]}"
            if found.startswith(_BY_BLOCKS) and (blocks := tuple(_blocks_of_fsdp(scene))):
                trial = Trial(parts=blocks)
            # With the user's line before it, it stands beside other advice, like any other.
            is_no_change = text == _OF_DDP
            yield Candidate(text, (cause.id,), trial, worth=46, is_no_change=is_no_change)


def _blocks_of_fsdp(scene: DiagnosisScene) -> Iterator[str]:
    """Yield the innermost modules that FSDP wraps: its hooks run around each one's `forward` (2.11 to 2.13).

    FSDP2 puts `FSDP` before the name of the class (fully_shard), FSDP1 is a module around another one.
    """
    wrapped = [each for each in scene.session.parts if each.kind.startswith(("FSDP", "FullyShardedDataParallel"))]
    for each in wrapped:
        if not any(other.path.startswith(f"{each.path}.") for other in wrapped):
            if each.kind.startswith("FSDP"):
                yield each.path
            else:
                # FSDP1 runs its hooks in the `forward` of the wrapper, so the module inside compiles without them.
                yield f"{each.path}._fsdp_wrapped_module"


def _in_torch(each: Break) -> bool:
    return any(word in each.called for words, _ in _KNOWN for word in words)


def _mentions(each: Break, words: tuple[str, ...]) -> bool:
    frames = [each.file, *(path[-1].file for path in each.paths if path)]
    texts = [each.called, *(file.replace("\\", "/") for file in frames)]
    return any(word in text for word in words for text in texts)
