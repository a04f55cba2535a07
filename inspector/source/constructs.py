"""Find what the user wrote at a place in the source: the expression, its kind, and the blocks around it."""

import ast

from msgspec import Struct

from ctrace.inspector.source.output_functions import output_kind
from ctrace.inspector.source.text import nodes_of, parsed, python_lines

# Chosen: a statement is quoted in a sentence.
_LONG = 60
_OUTPUT = frozenset(("print", "log", "warn"))
"""Kinds of calls whose result is not used."""
CASTS = frozenset(("int", "float", "bool", "complex"))
_CLOCKS = frozenset(("time", "perf_counter", "monotonic", "perf_counter_ns", "time_ns", "process_time"))


class Construct(Struct, frozen=True):
    """A piece of the user's code."""

    kind: str = ""
    """A case of advice/breaks/, such as `assert` or `print`; usually empty."""
    expression: str = ""
    around: tuple[str, ...] = ()
    """The blocks around it within its function, innermost first: `for`, `while`, `try`, `with`, `comprehension`."""
    span: tuple[int, int] | None = None
    """Columns of the expression in its line without indentation; None if it spans several lines, or if not known."""
    needs: tuple[str, ...] = ()
    """What it needs of what its function computes: names of variables, and calls of submodules."""
    is_constant: bool = False
    """Whether it needs nothing that is passed to its function or computed there."""


def construct_at(
    text: str, line: int, span: tuple[int, int] | None, *, branches: bool = False, callee: str = ""
) -> Construct:
    """Find the construct at a line of a file (1-based), and at columns of that line without its indentation.

    If Python `branches` there, the construct is the condition. Otherwise, without columns, it is the call of `callee`
    on the line, or else the statement. If the text does not parse, or has no such line, return an empty construct.
    """
    tree = parsed(text)
    lines = python_lines(text)
    if tree is None or not 0 < line <= len(lines):
        return Construct()
    columns = _columns(lines[line - 1], span)
    chain = _chain(tree, line, _tight(tree, line, columns) if columns else None)
    if not chain:
        return Construct()
    node = _innermost_expression(chain, line)
    if branches:
        chain, node = _condition(chain, node, line)
    elif columns is None or isinstance(node, ast.BinOp | ast.Compare):
        # Torch's columns of a call may extend to the operation on its result, as in `perf_counter() - start`.
        node = _call_of(callee, node)
    node = _updated(chain, node)
    needs, has_passed = _needed(tree, node)
    around, columns_shown = tuple(_around(chain)), _span(lines[line - 1], line, node)
    return Construct(_kind(chain, node), _shown(text, node), around, columns_shown, needs, not has_passed and not needs)


def _updated(chain: list[ast.AST], node: ast.AST) -> ast.AST:
    """Return the statement `x += 1` for the `1` in it, which is where Python 3.11 places the operation."""
    if not isinstance(node, ast.Constant):
        return node
    return next((each for each in chain if isinstance(each, ast.AugAssign) and each.value is node), node)


def _needed(tree: ast.AST, node: ast.AST) -> tuple[tuple[str, ...], bool]:
    """Return what an expression needs of what its function computes before, and whether it needs any variable value.

    That is variables assigned from calls, and calls of submodules within the expression: it cannot be moved before a
    call of the function. Names that are not known count as neither.
    """
    line = getattr(node, "lineno", 0)
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    around = [each for each in ast.walk(tree) if isinstance(each, functions) and each.lineno <= line <= _last(each)]
    if not around:
        return (), False
    computed: set[str] = set()
    for inside in ast.walk(around[-1]):
        match inside:
            case ast.Assign(targets=[ast.Name(id=name)], value=value, lineno=at) if at <= line and _calls(value):
                computed.add(name)
    passed = {each.arg for each in ast.walk(around[-1].args) if isinstance(each, ast.arg)} - {"self"}
    needs: list[str] = []
    names: set[str] = set()
    for each in ast.walk(node):
        match each:
            case ast.Name(id=name):
                names.add(name)
                if name in computed:
                    needs += [name]
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"))) if each is not node:
                needs.append(ast.unparse(each))
    return tuple(dict.fromkeys(needs)), bool(names & (passed | computed))


def _last(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _calls(value: ast.expr) -> bool:
    return any(isinstance(each, ast.Call) for each in ast.walk(value))


def is_bare_call(text: str, line: int) -> bool:
    """Whether the statement that begins at a line is a call that nothing uses, and of no kind with its own advice."""
    tree = parsed(text)
    found = (node for node in nodes_of(tree) if isinstance(node, ast.Expr))
    calls = (node.value for node in found if node.lineno == line and isinstance(node.value, ast.Call))
    return any(not _call_kind(call) for call in calls)


def _columns(source: str, span: tuple[int, int] | None) -> tuple[int, int] | None:
    """Convert columns of the stripped line to the UTF-8 offsets that `ast` uses."""
    if span is None:
        return None
    indent = len(source) - len(source.lstrip())
    begin, end = (len(source[: indent + column].encode()) for column in span)
    return begin, end


def _tight(tree: ast.Module, line: int, columns: tuple[int, int]) -> tuple[int, int]:
    """Narrow columns to the largest expression that begins at the same column.

    Torch's columns of a branch extend beyond the condition, to the end of the executed code (2.13).
    """
    ends = [
        node.end_col_offset
        for node in ast.walk(tree)
        if isinstance(node, ast.expr)
        and (node.lineno, node.end_lineno, node.col_offset) == (line, line, columns[0])
        and node.end_col_offset is not None
        and node.end_col_offset <= columns[1]
    ]
    return columns[0], max(ends, default=columns[1])


def _chain(tree: ast.Module, line: int, columns: tuple[int, int] | None) -> list[ast.AST]:
    """List the nodes that contain the place, outermost first."""
    chain: list[ast.AST] = []
    node: ast.AST | None = tree
    while node is not None:
        chain.append(node)
        node = next((child for child in ast.iter_child_nodes(node) if _holds(child, line, columns)), None)
    return chain[1:]


def _holds(node: ast.AST, line: int, columns: tuple[int, int] | None) -> bool:
    # These nodes have no place of their own.
    if isinstance(node, ast.comprehension | ast.ExceptHandler | ast.withitem | ast.match_case | ast.keyword):
        return any(_holds(child, line, columns) for child in ast.iter_child_nodes(node))
    begin, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    if begin is None or end is None or not begin <= line <= end:
        return False
    if columns is None:
        return isinstance(node, ast.stmt)
    starts_before = begin < line or getattr(node, "col_offset", 0) <= columns[0]
    return starts_before and (end > line or (getattr(node, "end_col_offset", 0) or 0) >= columns[1])


def _innermost_expression(chain: list[ast.AST], line: int) -> ast.AST:
    """Return the smallest expression at the place; for a whole statement, its condition, value or iterable."""
    last = next(node for node in reversed(chain) if isinstance(node, ast.stmt | ast.expr))
    # Without columns, skip an expression that begins on a later line: then the statement itself is the
    # result.
    while isinstance(last, ast.stmt):
        part = _acting_part(last)
        if part is None or part.lineno > line:
            return last
        last = part
    return last


def _acting_part(node: ast.stmt) -> ast.expr | None:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.Assert(test=test):
            return test
        case ast.Expr(value=value) | ast.Return(value=value) | ast.Assign(value=value) | ast.AugAssign(value=value):
            return value
        case ast.AnnAssign(value=value):
            return value
        case ast.For(iter=iterated):
            return iterated
        case ast.With(items=[item, *_]):
            return item.context_expr
    return None


def _condition(chain: list[ast.AST], node: ast.AST, line: int) -> tuple[list[ast.AST], ast.AST]:
    """Return the condition of a conditional expression, `if`, `while` or `assert` on the line, with its chain."""
    if isinstance(node, ast.IfExp):
        return [*chain, node], node.test
    # Inwards out, up to the function: a condition of an outer function is none of this line.
    for at in range(len(chain) - 1, -1, -1):
        match chain[at]:
            case ast.If(test=test) | ast.While(test=test) | ast.Assert(test=test) if _is_on(test, line):
                if _within(node, test):
                    return (chain, node)
                return (chain[: at + 1], test)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                break
    return chain, node


def _is_on(node: ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _call_of(callee: str, node: ast.AST) -> ast.AST:
    """Return the only call of `callee` in a node; if there are none or several, return the node itself."""
    calls = [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Call)
        and callee
        and callee in (getattr(each.func, "attr", None), getattr(each.func, "id", None))
    ]
    if len(calls) == 1:
        return calls[0]
    return node


def _kind(chain: list[ast.AST], node: ast.AST) -> str:
    # A call with advice of its own goes before the statement around it, as in `if int(x):`.
    call = _call_kind(node) or _kind_of_all(node)
    if call:
        return call
    inner = node
    for outer in [*reversed(chain)]:
        match outer:
            case ast.Assert(test=test) if _within(inner, test):
                return "assert"
            case ast.If(test=test) if _within(inner, test):
                if _only_raises(outer.body):
                    return "check"
                return "if"
            case ast.While(test=test) if _within(inner, test):
                return "while"
            case ast.IfExp(test=test) if _within(inner, test):
                return "ternary"
            case ast.stmt():
                break
    if is_index(node):
        return "index"
    return {ast.JoinedStr: "format", ast.FormattedValue: "format", ast.Import: "import", ast.ImportFrom: "import"}.get(
        type(node), ""
    )


def _kind_of_all(node: ast.AST) -> str:
    """Return the kind of several calls in a row that only put out text, as in `print(x), print(y)`."""
    kinds = set()
    if isinstance(node, ast.Tuple):
        kinds = {_call_kind(each) for each in node.elts}
    if len(kinds) == 1 and kinds <= _OUTPUT:
        return kinds.pop()
    return ""


def is_output_call(node: ast.AST) -> bool:
    """Whether an expression is a call that only puts out text: it prints, logs or warns."""
    return isinstance(node, ast.Call) and _output_kind(node) != ""


def is_clock_call(node: ast.AST) -> bool:
    """Whether an expression is a call that reads a clock."""
    return _call_kind(node) == "clock"


def is_index(node: ast.AST) -> bool:
    """Whether an expression takes an item, not a slice, at an index that is not a constant; perhaps to call it."""
    match node:
        case ast.Call(func=ast.Subscript() as item) | (ast.Subscript(ctx=ast.Load()) as item):
            return not any(isinstance(each, ast.Slice) for each in ast.walk(item.slice)) and not isinstance(
                item.slice, ast.Constant
            )
    return False


def _within(node: ast.AST, test: ast.expr) -> bool:
    return any(each is node for each in ast.walk(test))


def _only_raises(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Raise)


def _call_kind(node: ast.AST) -> str:
    """Return the kind of a call for which ctrace has advice, whatever torch's message says."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in CASTS:
            return "cast"
        case ast.Call(func=ast.Attribute(value=ast.Name(id="time"), attr=name)) if name in _CLOCKS:
            return "clock"
        case ast.Call(func=ast.Name(id=name)) if name in _CLOCKS:
            return "clock"
        # Advice has torch's settings for the others: none is known for `pprint` or a stream.
        case ast.Call() if (kind := _output_kind(node)) in _OUTPUT:
            return kind
    return ""


def _output_kind(call: ast.Call) -> str:
    """Return in which way a call puts out text; empty if it does anything else."""
    if isinstance(call.func, ast.Name) and call.func.id == "warn":  # imported from `warnings`
        return "warn"
    if isinstance(call.func, ast.Name | ast.Attribute):
        return output_kind(ast.unparse(call.func))
    return ""


_BLOCKS: tuple[tuple[type[ast.AST] | tuple[type[ast.AST], ...], str], ...] = (
    ((ast.For, ast.AsyncFor), "for"),
    (ast.While, "while"),
    ((ast.Try, ast.TryStar), "try"),
    ((ast.With, ast.AsyncWith), "with"),
    ((ast.ListComp, ast.SetComp, ast.DictComp), "comprehension"),
    (ast.GeneratorExp, "generator"),
)


def _around(chain: list[ast.AST]) -> list[str]:
    """List the blocks around a place within its function; a place in the head of a block is not inside that block."""
    blocks = []
    for outer, inner in zip(reversed(chain[:-1]), reversed(chain[1:]), strict=True):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            break
        for types, name in _BLOCKS:
            if isinstance(outer, types) and not _is_head(outer, inner):
                blocks.append(name)
    return blocks


def _is_head(block: ast.AST, inner: ast.AST) -> bool:
    match block:
        case ast.For(iter=iterated):
            return inner is iterated
        case ast.With(items=items):
            return any(inner is item for item in items)
    return False


def _shown(text: str, node: ast.AST) -> str:
    if not isinstance(node, ast.expr | ast.AugAssign):
        return ""
    shown = " ".join((ast.get_source_segment(text, node) or ast.unparse(node)).split())
    if len(shown) <= _LONG:
        return shown
    return f"{shown[: _LONG - 1]}…"


def _span(source: str, line: int, node: ast.AST) -> tuple[int, int] | None:
    if not isinstance(node, ast.expr | ast.AugAssign) or (node.lineno, node.end_lineno) != (line, line):
        return None
    indent = len(source) - len(source.lstrip())
    begin, end = (
        len(source.encode()[:offset].decode(errors="replace")) for offset in (node.col_offset, node.end_col_offset or 0)
    )
    return begin - indent, end - indent
