"""Edits of models with a break that is in the lock; a comment marks its statement."""

import ast
import io
import tokenize
from collections.abc import Callable

from tests.mutation.shapes import Edit, Files, Renamed, Shape, indented, of_text, shape_of, unparsed, with_lines


def _known(shape: Shape) -> ast.stmt:
    line = next(at for at, text in enumerate(shape.source.splitlines(), 1) if text.endswith("# known"))
    statements = [node for node in ast.walk(shape.tree) if isinstance(node, ast.stmt) and node.lineno == line]
    return statements[0]


def _within(shape: Shape, node: ast.stmt) -> ast.FunctionDef:
    functions = [each for each in ast.walk(shape.tree) if isinstance(each, ast.FunctionDef)]
    return next(each for each in functions if node in each.body)


def _beside_known(more: str) -> Callable[[str, str], Files]:
    """Put a break on the line of the known one: `{}` stands for the statement, or for what an `if` asks."""

    def change(shape: Shape) -> str:
        known = _known(shape)
        of_value = known.test if isinstance(known, ast.If) else known
        text = ast.get_source_segment(shape.source, of_value) or ""
        lines = shape.source.splitlines(keepends=True)
        added = f"{more.format(text)} or {text}" if isinstance(known, ast.If) else f"{text}; {more.format(text)}"
        lines[known.lineno - 1] = lines[known.lineno - 1].replace(text, added)
        return "".join(lines)

    return of_text(change)


def _below_known(more: str) -> Callable[[str, str], Files]:
    """Put a break below the known one."""

    def change(shape: Shape) -> str:
        known = _known(shape)
        text = ast.unparse(known)
        return with_lines(shape.source, {known.end_lineno or 0: indented(more.format(text), known)})

    return of_text(change)


def _known_over_lines(shape: Shape) -> str:
    """Write each word of what the known statement computes on a line of its own."""
    known = _known(shape)
    of_value = known.test if isinstance(known, ast.If) else known.value  # type: ignore[attr-defined]
    text = ast.get_source_segment(shape.source, of_value) or ""
    words = [each.string for each in tokenize.generate_tokens(io.StringIO(text).readline) if each.string.strip()]
    return shape.source.replace(text, "(\n" + "\n".join(f"{' ' * 16}{word}" for word in words) + "\n        )")


def _rename_around_known(shape: Shape) -> str:
    """Rename all arguments and variables of the function around the known statement."""
    function = _within(shape, _known(shape))
    names = {each.arg for each in function.args.args} | {
        each.id for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    for name in sorted(names - {"self"}):
        Renamed(name, f"{name}_now").visit(function)
    return unparsed(shape.tree)


def _move_layers(name: str, source: str) -> Files:
    """Move all classes but the own one to a module beside it."""
    shape = shape_of(source)
    stem = name.removesuffix(".py")
    own, body = shape.own, shape.tree.body
    moved = [each for each in body if isinstance(each, ast.ClassDef) and each is not own]
    before = [each for each in body[: body.index(moved[0])] if not isinstance(each, ast.FunctionDef)]
    here = ast.ImportFrom(f"{stem}_layers", [ast.alias(each.name) for each in moved], 0)
    body[body.index(moved[0])] = here
    shape.tree.body = [each for each in body if each not in moved]
    return {name: unparsed(shape.tree), f"{stem}_layers.py": unparsed(ast.Module([*before, *moved], []))}


_AGAIN = frozenset(("break", "skip"))
PARTIAL_HARMFUL = (
    Edit("known-twice-in-line", _beside_known("{}"), _AGAIN),
    Edit("other-in-line", _beside_known('print("again")'), _AGAIN),
    Edit("known-twice", _below_known("{}"), _AGAIN),
    Edit("other-below", _below_known('print("again")'), _AGAIN),
)
"""Edits that add breaks beside a known one."""
PARTIAL_HARMLESS = (
    Edit("known-over-lines", of_text(_known_over_lines)),
    Edit("rename-around-known", of_text(_rename_around_known)),
    Edit("move-layers", _move_layers),
)
"""Edits after which the known break is still the only one."""
ELSEWHERE = (
    "print",
    "print-in-helper",
    "print-in-loop",
    "item",
    "tensor-if",
    "mask-index",
    "disabled-helper",
    "counter",
)
"""Harmful edits that are not at the known break."""
BEYOND_AGAIN = tuple(name for name in ELSEWHERE if name != "counter")
"""Edits that hurt a model that recompiles at each call; another counter adds no compilation."""
