"""Turn a graph that torch printed into a program that runs it in eager, op by op.

The program also says what a comparison with it has to know: which line assigns which value, which outputs depend on
random numbers, which inputs the graph writes to.
"""

import ast
import re

from msgspec import Struct

from ctrace.inspector.findings.kernels.emitted_code import dotted
from ctrace.inspector.grouping import collected
from ctrace.reports.dump.templates import rendered

_CLASS = re.compile(r"^class .+\(torch\.nn\.Module\):$")
_RANDOM = re.compile(
    r"(?:^|\.|_)(?:rand|randn|randint|random|randperm|bernoulli|normal|multinomial|seeds?|philox_\w+|exponential|"
    r"uniform|geometric|cauchy|log_normal|native_dropout|dropout)(?:_like|_)?(?:\.|$)"
)
_ATTENTION = "_scaled_dot_product_"
_EMPTY = re.compile(r"\.(?:new_)?empty(?:_strided|_like|_permuted)?(?:\.|$)")


class GraphFile(Struct, frozen=True):
    """The file, or why there is none."""

    text: str = ""
    why_not: str = ""


def graph_file(printed: str, title: str) -> GraphFile:
    """Turn a printed graph into a Python module."""
    written = "\n".join(_graph_lines(printed)) + "\n"
    forward = _forward(written)
    if forward is None:
        return GraphFile(why_not="torch's text of the graph is not a Python module with one graph")
    if reason := _not_eager(forward):
        return GraphFile(why_not=reason)
    head = rendered("dump_graph_head", title=title)
    ast.increment_lineno(forward, head.count("\n"))  # so that the lines are those of the file
    names = [each.arg for each in forward.args.args[1:]]
    text = rendered(
        "dump_graph",
        head=head,
        graph=written,
        assigned=_assigned(forward),
        not_comparable=_outputs(forward, _random(forward)),
        placeholders=names,
        changed=_changed(forward, names),
    )
    return GraphFile(text)


def _graph_lines(printed: str) -> list[str]:
    """Rename the graph's class to a valid Python name, and drop the lines above the class."""
    lines = printed.splitlines()
    start = next((number for number, line in enumerate(lines) if _CLASS.match(line)), 0)
    if lines:
        return ["class GraphModule(torch.nn.Module):", *lines[start + 1 :]]
    return []


def _forward(written: str) -> ast.FunctionDef | None:
    """Return the `forward` of a module's only class; None unless that is the only function."""
    try:
        tree = ast.parse(written)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    if len(classes) == 1 and len(functions) == 1 and functions[0].name == "forward":
        return functions[0]
    return None


def _not_eager(forward: ast.FunctionDef) -> str:
    """Return why the printed graph cannot run in eager; empty if it can."""
    for node in ast.walk(forward):
        if isinstance(node, ast.Attribute) and "torch.ops.higher_order." in dotted(node):
            return f"the graph calls {dotted(node)}, which needs more than its text"
    return ""


def _sets(forward: ast.FunctionDef) -> list[tuple[str, ast.expr, int]]:
    """List names with the values assigned to them, by line; skip `name = None`, which only frees a value."""
    found = []
    for node in ast.walk(forward):
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            continue
        if isinstance(node, ast.Assign):
            targets = node.targets
        else:
            targets = [node.target]
        found += [(target.id, node.value, node.lineno) for target in targets if isinstance(target, ast.Name)]
    return sorted(found, key=lambda each: each[2])


def _assigned(forward: ast.FunctionDef) -> dict[int, list[str]]:
    return collected((line, name) for name, _, line in _sets(forward))


def _random(forward: ast.FunctionDef) -> dict[str, str]:
    """Find the values that depend on random numbers or uninitialized memory, and why."""
    found: dict[str, str] = {}
    made: dict[str, str] = {}
    for name, value, _ in _sets(forward):
        made[name] = ""
        if isinstance(value, ast.Call):
            made[name] = dotted(value.func)
        match value:
            case ast.Subscript(value=ast.Name(id=whole), slice=ast.Constant(value=int() as at)) if at > 1:
                if _ATTENTION in made.get(whole, ""):
                    found[name] = "the random state of an attention kernel"
        reason = _chance(value) or next(
            (found[node.id] for node in ast.walk(value) if isinstance(node, ast.Name) and node.id in found), ""
        )
        if reason:
            found.setdefault(name, reason)
    return found


def _chance(value: ast.expr) -> str:
    if not isinstance(value, ast.Call):
        return ""
    called = dotted(value.func)
    if _ATTENTION in called and "backward" not in called and _drops(value):
        return f"random numbers of {called}"
    if _EMPTY.search(called):
        return f"{called} returns uninitialized memory"
    if _RANDOM.search(called) and "backward" not in called:
        return f"random numbers of {called}"
    return ""


def _drops(call: ast.Call) -> bool:
    """Whether a call of an attention kernel has a dropout probability above zero."""
    probabilities = [
        each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, float)
    ]
    return any(probability > 0 for probability in probabilities[:1])


def _outputs(forward: ast.FunctionDef, random: dict[str, str]) -> dict[int, str]:
    for node in forward.body:
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple | ast.List):
            names = [each.id if isinstance(each, ast.Name) else "" for each in node.value.elts]
            return {at: random[name] for at, name in enumerate(names) if name in random}
    return {}


def _changed(forward: ast.FunctionDef, names: list[str]) -> list[int]:
    """Find the inputs that in-place ops such as `copy_` write to."""
    written = {
        call.args[0].id
        for call in ast.walk(forward)
        if isinstance(call, ast.Call)
        and re.search(r"\.\w+_\.|\.copy_\b", dotted(call.func) + ".")
        and call.args
        and isinstance(call.args[0], ast.Name)
    }
    return [at for at, name in enumerate(names) if name in written]
