"""Advice on a run that raised (`failures`, `backend_failures`), or whose results are wrong (`wrong_results`).

For an error: the line, whether eager works, and the smallest change that avoids the error.
"""

import ast
import re
from collections.abc import Iterator

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene, package_of
from ctrace.inspector.diagnosis.naming import at, break_kind_of, place_ahead
from ctrace.inspector.edits.line_edits import (
    covers,
    functions_at,
    line_edits,
    places_text,
    shortened,
    source_of,
    statement_at,
    trial_of,
)
from ctrace.inspector.facts.diagnosis import Finding, RootCause, RootKind
from ctrace.inspector.facts.scenario_facts import Outcome, ScenarioKind
from ctrace.inspector.facts.session import Failure, FailurePhase
from ctrace.inspector.facts.shape_facts import ConditionKind, Dimension, DimKind, DimPolicy, ShapedTensor
from ctrace.inspector.facts.trial import LineEdit, Trial
from ctrace.inspector.findings.graphs.attention_view import wrong
from ctrace.inspector.knowledge.advice import advice_on_break
from ctrace.inspector.knowledge.counting import framed
from ctrace.inspector.source.constructs import construct_at
from ctrace.inspector.source.text import nodes_of, parsed, python_lines

_VIOLATION = "ConstraintViolationError"
_MARKED = (DimPolicy.MARKED_DYNAMIC, DimPolicy.MARKED_UNBACKED)
_RESHAPES = frozenset(("reshape", "view", "expand", "broadcast_to"))
_COMPILING = re.compile(r"(?:\w+\.)*is_(?:dynamo_)?compiling\(\)")
_MARK = re.compile(r"(?:\w+\.)*(?:mark_dynamic|mark_unbacked)\(.*\)")
_WRAPPED = re.compile(r"got (?P<type>\w+(?:Error|Exception))\((?P<quote>['\"])(?P<what>.*?)(?P=quote)\)")
_RAISED = re.compile(r"\braised:\s*\n(?P<type>\w[\w.]*): (?P<what>[^\n]+)")
"""The error of a backend (_dynamo/exc.py:BackendCompilerFailed, 2.11 to 2.13)."""
_NO_FAKE = re.compile(r"There was no fake impl registered for <CustomOpDef\((?P<op>[^)\s]+)\)>")
"""The error of an operator of torch.library.custom_op (_library/custom_ops.py, 2.11 to 2.13)."""
_GB = re.compile(r"/gb/gb(?P<number>\d{4})\.html")
"""Torch's link to the page of a graph break (_dynamo/exc.py, 2.11 to 2.13)."""
_IS_COMPILER = re.compile(r"Dynamo|Unsupported|Backend|Inductor|Constraint|Guard|Uncaught|Recompile|Lowering")
"""Names of exceptions that only torch's compiler raises; the model itself may raise any other exception."""


def failures(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Say what to do about the failure of a run."""
    failure = scene.session.failure
    # `sys.exit()` is the program's own end, whatever its status.
    if failure is None or failure.phase not in (FailurePhase.EAGER, FailurePhase.RUN) or failure.type == "SystemExit":
        return
    cause = next(each for each in scene.causes if any(one.what is Finding.FAILURE for one in each.symptoms))
    # What raises without torch.compile, too, is no work for it; a mark that the code violates has advice of its own.
    if failure.phase is FailurePhase.EAGER:
        yield Candidate(_in_eager(scene, failure, cause), (cause.id,), worth=100)
    elif failure.type.endswith(_VIOLATION):
        yield from _violated_marks(scene, cause)
    else:
        yield from _while_compiling(scene, failure, cause)


def _in_eager(scene: DiagnosisScene, failure: Failure, cause: RootCause) -> str:
    subject = at(cause) or "The model"
    called = framed(" (scenario ", _scenario(scene), ")")
    return f"{subject} raises {failure.type} without torch.compile, too{called}. Make it work in eager first."


def _scenario(scene: DiagnosisScene) -> str:
    """Return the scenario that failed; empty for the target's own inputs, or if not known."""
    failed = (Outcome.NOT_TAKEN, Outcome.COMPILE_FAILED)
    named = (each for each in scene.session.scenarios if each.kind not in (ScenarioKind.PROVOKED, ScenarioKind.BASE))
    first = next((each for each in scene.session.scenarios if each.outcome in failed), None)
    if first is not None and first in named:
        return first.name
    return ""


def _violated_marks(scene: DiagnosisScene, cause: RootCause) -> Iterator[Candidate]:
    """Offer to drop a mark that the code violates, or to change the line that violates it."""
    for tensor, dim in _forbidden(scene):
        yield from _size_of_tensor(scene, tensor, dim, cause)
        marks = list(_marks(scene, tensor, dim))
        places = ", ".join(f"{_base(file)}:{number}" for file, number, _ in marks)
        drop = f"drop the mark of {tensor.name}.size({dim.index}){framed(' (', places, ')')}"
        edits = tuple(LineEdit(file, number, _without(text), text.strip()) for file, number, text in marks)
        yield Candidate(_unmarked(tensor, dim, drop), (cause.id,), trial_of(edits), worth=100)


def _forbidden(scene: DiagnosisScene) -> Iterator[tuple[ShapedTensor, Dimension]]:
    """Yield the marked dimensions that a failed compilation specialized, set equal to others or limited in range."""
    for shaped in scene.session.shapes:
        if shaped.fail_type != _VIOLATION:
            continue
        for tensor in shaped.tensors:
            for dim in tensor.dims:
                forbidden = dim.kind is DimKind.SPECIALIZED or dim.became or (dim.ranged and dim.conditions)
                if dim.policy in _MARKED and forbidden:
                    yield tensor, dim


def _unmarked(tensor: ShapedTensor, dim: Dimension, drop: str) -> str:
    fixed = dim.fixed or next(iter(dim.conditions), None)
    size = f"{tensor.name}.shape[{dim.index}]"
    if fixed is None or fixed.line is None:  # torch names no line, as for sizes that Inductor specializes
        why = "which cannot take every size"
        if dim.fixed:
            why = "on which torch specializes after tracing"
        return f"{drop[:1].upper()}{drop[1:]}, {why}."
    place = f"{_base(fixed.file or '')}:{fixed.line}"
    code = framed("`", fixed.source, "`") or "the line"
    if fixed.kind is ConditionKind.NUMBER:
        return f"{place}: {code} uses this size as a Python number: {drop}, or change the line."
    if dim.kind is DimKind.SPECIALIZED:
        return f"{place}: {code} allows only {dim.size}: {drop}. To keep the mark, use {size} in that line."
    return f"{place}: {code} does not work for every size: change it, or {drop}."


def _size_of_tensor(
    scene: DiagnosisScene, tensor: ShapedTensor, dim: Dimension, cause: RootCause
) -> Iterator[Candidate]:
    """Offer the tensor's size instead of the number that a line reshapes to; the trial makes that edit."""
    fixed = dim.fixed
    if fixed is None or fixed.file is None or fixed.line is None or not scene.is_users(fixed.file):
        return
    text = scene.session.listings.get(fixed.file, "")
    holders = functions_at(text, fixed.line)
    known = {argument.arg for holder in holders[-1:] for argument in holder.args.args}
    number = _number_at(text, fixed.line, dim)
    if number is None or tensor.name not in known:  # the innermost function must have the tensor under that name
        return
    size = f"{tensor.name}.shape[{dim.index}]"
    advice = (
        f"{_base(fixed.file)}:{fixed.line}: take the size from the tensor, `{size}` for `{source_of(text, number)}`: "
        f"the number allows only {dim.size}, and this dimension is marked dynamic."
    )
    edits = line_edits(fixed.file, text, [(number, size)])
    if edits:
        # Above dropping the mark (100), since the dimension then stays dynamic.
        yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=101, only_checked=True)


def _number_at(text: str, line: int, dim: Dimension) -> ast.expr | None:
    """Return the size that a reshape at a line uses for a dimension: a number, or an attribute that may be one."""
    statement = statement_at(text, line)
    for node in nodes_of(statement):
        match node:
            case ast.Call(func=ast.Attribute(attr=method), args=arguments) if method in _RESHAPES:
                # `x.view((2, -1))` is `x.view(2, -1)`.
                if len(arguments) == 1 and isinstance(arguments[0], ast.Tuple):
                    sizes = arguments[0].elts
                else:
                    sizes = arguments
                fits = [each for each in sizes if covers(each, line) and _may_be(each, dim.size)]
                if not fits:
                    return None
                return fits[0]
    return None


def _may_be(node: ast.expr, size: str) -> bool:
    match node:
        case ast.Constant(value=int(value)):
            return str(value) == size
        # `self.size` may hold that number; the trial shows whether it does.
        case ast.Attribute(value=ast.Name(id="self")):
            return True
    return False


def _marks(scene: DiagnosisScene, tensor: ShapedTensor, dim: Dimension) -> Iterator[tuple[str, int, str]]:
    """Yield the user's lines that consist of a call that marks this dimension."""
    for file, text in scene.session.listings.items():
        if not scene.is_users(file):
            continue
        for number, line in enumerate(python_lines(text), 1):
            # The dimension alone is compared: where it is marked, the tensor often has another name than in the graph.
            if _MARK.fullmatch(line.strip()) and re.search(rf",\s*(?:\[[^]]*\b)?-?{dim.index}\b", line):
                yield file, number, line


def _without(line: str) -> str:
    # `pass`, because the mark may be alone in its block.
    return f"{line[: len(line) - len(line.lstrip())]}pass"


def _base(file: str) -> str:
    return re.split(r"[/\\]", file)[-1]


def _while_compiling(scene: DiagnosisScene, failure: Failure, cause: RootCause) -> Iterator[Candidate]:
    """If eager worked, report that only the compiled model raises, and offer to exclude the line."""
    place = place_ahead(cause)
    # Before the advice to keep the line out of the graph: with a fake implementation, it can stay in.
    if no_fake := _NO_FAKE.search(failure.message):
        text = (
            f"{place}register a fake implementation of {no_fake['op']} (torch.library.register_fake), which returns an "
            "empty tensor with the shape and dtype of the result: Dynamo traces the operator with it."
        )
        yield Candidate(text, (cause.id,), worth=90)
        return
    # Then it may be the model's own error, which torch.compile has nothing to do with.
    if not _worked_in_eager(scene) and not _IS_COMPILER.search(failure.type):
        return
    if (known := _break_as_error(scene, failure, cause)) is not None:
        yield known
        return
    # Each of these is offered only if its trial holds; `worth` says which one is tried first.
    yield from _branch_while_compiling(scene, cause)
    yield from _byte_masks(scene, failure, cause)
    kept_out = _kept_out(scene, failure, cause)
    if kept_out is not None:
        yield kept_out
    yield from _kept_out_calls(scene, failure, cause)
    yield Candidate(_raises(scene, failure, cause, kept_out), (cause.id,), worth=90)


def _raises(scene: DiagnosisScene, failure: Failure, cause: RootCause, kept_out: Candidate | None) -> str:
    """Say what raises when it is compiled, and what to do unless the trial without its line raised as well."""
    place, line = place_ahead(cause), ""
    if cause.file and cause.line:
        line = scene.line(cause.file, cause.line).strip()
    if line:
        subject = f"{place}`{line}`"
    elif place:
        subject = f"{place}the code"
    else:
        subject = "The code"
    if _worked_in_eager(scene):
        subject += " works in eager, but"
    how = _keep_out(scene, cause)
    if kept_out is not None:
        tried = scene.tried(kept_out.trial)
        if tried is not None and tried.counts is None:  # the trial raised, too
            how = "Not known what to change: it raises as well if this line is kept out of the graph."
    return f"{subject} raises {_original_error(failure)} when it is compiled. {how}"


def _break_as_error(scene: DiagnosisScene, failure: Failure, cause: RootCause) -> Candidate | None:
    """Say how to avoid a graph break that fullgraph=True makes an error; @torch.compiler.disable would be one, too."""
    gb = _GB.search(failure.message)
    if not failure.type.endswith("Unsupported") or gb is None:
        return None
    place, id_ = place_ahead(cause), f"GB{gb['number']}"
    text = scene.session.listings.get(cause.file or "", "")
    construct = construct_at(text, cause.line or -1, None, branches=break_kind_of(id_) is RootKind.TENSOR_BRANCH)
    entry = advice_on_break((id_,), construct.kind)
    instead = "Rewrite the line, or compile"
    if entry is not None and (fix := entry.about(construct.expression).fix):
        instead = f"{fix} Or compile"
    advice = f"{place}{instead} without fullgraph=True (or error_on_graph_break), which makes a graph break an error."
    return Candidate(advice, (cause.id,), worth=90)


def _original_error(failure: Failure) -> str:
    """Return the name of the error that Dynamo wraps; if it wraps none, of the error itself."""
    inner = _WRAPPED.search(failure.message) or _RAISED.search(failure.message)
    if inner:
        return f"{inner['type']} ({_first_sentence(inner['what'])})"
    return failure.type


def _first_sentence(message: str) -> str:
    """Return the first sentence of an exception's message, and say where it is cut."""
    # A full stop that ends a sentence: none of `...`, nor the one in `aten.mm`.
    first = re.split(r"(?<=[^.])\.(?= |$)", message, maxsplit=1)[0]
    if len(first) > _LONG_MESSAGE:
        return f"{first[: _LONG_MESSAGE - 1]}…"
    return first


_LONG_MESSAGE = 140
"""Advice names an exception beside what to change, in about three lines of 80 columns."""


def _keep_out(scene: DiagnosisScene, cause: RootCause) -> str:
    if scene.is_users(cause.file):
        return "Move the line to a separate function with @torch.compiler.disable, or rewrite it."
    if cause.file:
        return (
            "The line is in a library: another option or version may avoid it; else keep your call of it out of the "
            "graph with torch.compiler.disable, or compile the parts around it."
        )
    return "Compile the parts of the model one by one to find the one that raises."


def _branch_while_compiling(scene: DiagnosisScene, cause: RootCause) -> Iterator[Candidate]:
    """Find a branch that the program takes only while compiling; the trial takes the other one."""
    file = cause.file or ""
    for number, line in enumerate(python_lines(scene.session.listings.get(file, "")), 1):
        # A comment that names the function is no branch.
        code = line.partition("#")[0]
        if not _COMPILING.search(code) or "import" in code:
            continue
        text = (
            f"{_base(file)}:{number}: the program takes another branch while compiling: "
            f"`{line.strip()}`. Without that branch it does not raise."
        )
        edit = LineEdit(file, number, _COMPILING.sub("False", line), line.strip())
        yield Candidate(text, (cause.id,), Trial(edits=(edit,)), worth=95, only_checked=True)


def _byte_masks(scene: DiagnosisScene, failure: Failure, cause: RootCause) -> Iterator[Candidate]:
    """Offer masks of booleans: tracing refuses a mask of bytes (_meta_registrations.py, 2.13)."""
    text = scene.session.listings.get(cause.file or "", "")
    statement = statement_at(text, cause.line or -1)
    is_byte = "tensors used as indices must be" in failure.message and "dtype=torch.uint8" in failure.message
    if not is_byte or statement is None or cause.file is None or not scene.is_users(cause.file):
        return
    masks = [
        node.slice
        for node in ast.walk(statement)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name | ast.Attribute)
    ]
    edits = line_edits(cause.file, text, [(each, f"{source_of(text, each)}.bool()") for each in masks])
    if edits:
        names = " and ".join(dict.fromkeys(f"`{source_of(text, each)}.bool()`" for each in masks))
        advice = f"{at(cause)}: index with {names}: a mask of bytes works in eager, and cannot be traced."
        yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=96, only_checked=True)


def _kept_out(scene: DiagnosisScene, failure: Failure, cause: RootCause) -> Candidate | None:
    """Offer to run what raises in eager, inside of the compiled function; the trial makes that edit."""
    file, torch = cause.file or "", scene.torch_name(cause.file or "")
    text = scene.session.listings.get(file, "")
    statement = statement_at(text, cause.line or -1)
    if not torch or statement is None or not scene.is_users(file) or any(map(_needs_frame, ast.walk(statement))):
        return None
    change = _in_eager_only(text, statement, torch)
    if change is None:
        return None
    edits = line_edits(file, text, [change])
    if not edits:
        return None
    code = shortened(scene.line(file, cause.line or 0).strip())
    advice = (
        f"{at(cause)}: `{code}` raises {_original_error(failure)} when it is compiled. Keep it out of the graph: "
        f"`{change[1]}`."
    )
    return Candidate(advice, (cause.id,), Trial(edits=edits), worth=91, only_checked=True)


def _kept_out_calls(scene: DiagnosisScene, failure: Failure, cause: RootCause) -> Iterator[Candidate]:
    """Offer to run the user's calls of a package in eager, if compiling raises there; the trial makes that edit."""
    if scene.is_users(cause.file):
        return
    # Nearest first: the package of the line that raised, those that failed to compile, then those of the modules.
    failed = [each.file for each in scene.session.compilations if each.fail_type is not None]
    files = (cause.file or "", *failed, *(each.file for each in scene.session.parts))
    packages = dict.fromkeys(filter(None, map(package_of, files)))
    for package in list(packages)[:_MOST_PACKAGES]:
        for file, text in scene.session.listings.items():
            torch = scene.torch_name(file)
            if not torch or not scene.is_users(file):
                continue
            statements = _statements_calling(scene, file, text, package)
            changes = [change for each in statements if (change := _in_eager_only(text, each, torch)) is not None]
            edits = line_edits(file, text, changes)
            if not edits:
                continue
            called = f"the call of {package}"
            if _is_torch(package):
                called = "this call"
            advice = (
                f"{_base(file)}:{changes[0][0].lineno}: keep {called} out of the graph{places_text(changes)}: "
                f"`{changes[0][1]}`. It raises {_original_error(failure)} when it is compiled, and then runs eagerly."
            )
            yield Candidate(advice, (cause.id,), Trial(edits=edits), worth=92, only_checked=True)


_MOST_PACKAGES = 2
"""Each package costs a trial: that of the line that raised, and the next one that failed."""


def _is_torch(package: str) -> bool:
    """Whether a package, with or without its version, is torch."""
    return package.partition(" ")[0] == "torch"


def _statements_calling(scene: DiagnosisScene, file: str, text: str, package: str) -> list[ast.stmt]:
    """Return the statements that call a module or a function of a package, in functions that the model ran.

    Of torch itself only calls of functions count: nearly all statements call one of its layers.
    """
    tree = parsed(text)
    if tree is None:
        return []
    modules: set[str] = set()
    if not _is_torch(package):
        of_package = (each.path for each in scene.session.parts if package_of(each.file) == package)
        modules = {each.rpartition(".")[2] for each in of_package}
    imported = set(_imported(tree, package))
    ran = {each.line for each in scene.session.functions if each.file == file}  # empty: not recorded, so take all
    found: dict[int, ast.stmt] = {}
    for function in ast.walk(tree):
        # The model is made before the call that compiles.
        if not isinstance(function, ast.FunctionDef) or function.name == "__init__":
            continue
        if ran and _first_line(function) not in ran:
            continue
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            match call.func:
                case ast.Attribute(value=ast.Name(id="self"), attr=name) if name in modules:
                    pass
                case ast.Attribute(value=ast.Name(id=name)) | ast.Name(id=name) if name in imported:
                    pass
                case _:
                    continue
            statement = statement_at(text, call.lineno)
            if statement is not None and not any(map(_needs_frame, ast.walk(statement))):
                found.setdefault(statement.lineno, statement)
    return list(found.values())


def _first_line(function: ast.FunctionDef) -> int:
    """Return the line of a function's code object, which is that of its first decorator."""
    if function.decorator_list:
        return function.decorator_list[0].lineno
    return function.lineno


def _imported(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield the names under which a file imports a package, or what is in it."""
    top = package.partition(" ")[0]
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (each.asname or top for each in names if each.name.partition(".")[0] == top)
            case ast.ImportFrom(module=str(module), names=names) if module.partition(".")[0] == top:
                yield from (each.asname or each.name for each in names)


def _in_eager_only(text: str, statement: ast.stmt, torch: str) -> tuple[ast.stmt | ast.expr, str] | None:
    """Write a statement so that Dynamo breaks the graph where it computes, and runs that in eager."""
    match statement:
        # A lambda has no assignments, so the store is a call. A slice has no text outside of brackets.
        case ast.Assign(targets=[ast.Subscript(value=target, slice=index)], value=value) if not any(
            isinstance(node, ast.Slice) for node in ast.walk(index)
        ):
            key = source_of(text, index)
            if isinstance(index, ast.Tuple) and not key.startswith("("):  # `x[i, j]` has one index, a tuple
                key = f"({key})"
            stored = f"{source_of(text, target)}.__setitem__({key}, {source_of(text, value)})"
            return statement, f"{torch}.compiler.disable(lambda: {stored})()"
        case (
            # Only the value moves into the lambda, so that the names are bound where they were.
            ast.Assign(targets=[ast.Name() | ast.Attribute() | ast.Tuple()], value=value)
            | ast.Return(value=ast.expr() as value)
        ):
            return value, f"{torch}.compiler.disable(lambda: {source_of(text, value)})()"
    return None


def _needs_frame(node: ast.AST) -> bool:
    """Whether an expression means something else inside of a lambda."""
    match node:
        case ast.Await() | ast.Yield() | ast.YieldFrom() | ast.NamedExpr() | ast.Name(id="super" | "locals"):
            return True
    return isinstance(node, ast.stmt) and not isinstance(node, ast.Assign | ast.Return | ast.Expr)


def _worked_in_eager(scene: DiagnosisScene) -> bool:
    """Whether the model ran in eager. A capture of a model file runs it in eager first, and stops if it raises."""
    session = scene.session
    # Where no copy of the model could be made, eager was not called first.
    copied = not any("were not compared with eager" in each.what for each in session.problems)
    called = any(each.outcome is not Outcome.NOT_RUN for each in session.scenarios)
    return called and copied


def backend_failures(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Name the line on which the backend failed; torch runs it eagerly, and its hint is only for torch's developers."""
    for cause in scene.causes:
        found = [each for each in scene.breaks(cause) if "GB0219" in each.gb]
        if cause.kind is not RootKind.BACKEND or not found:
            continue
        each = found[0]
        what = framed("`", each.source, "`") or "the graph"
        error = framed(" (", _exception(each.reason), ")")
        text = f"{at(cause)}: The backend fails on {what}{error}, so it runs eagerly."
        if scene.is_users(each.file):
            text += " Rewrite it, or move it to a function with @torch.compiler.disable."
        yield Candidate(text, (cause.id,), worth=10)


def _exception(reason: str) -> str:
    match = re.search(r"\b(?:[A-Z]\w*(?:Error|Exception)|Unsupported): [^\n]{1,160}", reason)
    if match:
        return match[0].rstrip(" .")
    return ""


def wrong_results(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Offer how to fix wrong results, with priority over everything that is only slow."""
    for cause in scene.causes:
        fixes = [each.fix for each in scene.dangers(cause) if each.fix]
        if fixes:
            yield Candidate(fixes[0], (cause.id,), worth=100)
    for answer in wrong(scene.session):
        ids = tuple(cause.id for cause in scene.causes if cause.why == answer.why)
        yield Candidate(answer.fix, ids, worth=100)
