"""Find the branch in the user's source at which two ranks part, from lines that they reach after it."""

import ast
from collections.abc import Sequence
from pathlib import Path

_Branch = ast.If | ast.While | ast.IfExp


def parting_line(file: str, line: int, others: Sequence[int]) -> int | None:
    """Return the line of the innermost branch of which one side has some of the lines, and not all.

    None: the source is not there, or no branch parts the lines.
    """
    lines = {line, *others}
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None
    parting = [
        node for node in ast.walk(tree) if isinstance(node, ast.If | ast.While | ast.IfExp) and _parts(node, lines)
    ]
    if parting:
        return min(parting, key=lambda node: (node.end_lineno or node.lineno) - node.lineno).lineno
    return None


def _parts(node: _Branch, lines: set[int]) -> bool:
    """Whether a side of a branch has some of the lines, and not all."""
    for side in (node.body, node.orelse):
        nodes = side if isinstance(side, list) else [side]
        within = {line for line in lines if any(each.lineno <= line <= (each.end_lineno or line) for each in nodes)}
        if within and within != lines:
            return True
    return False
