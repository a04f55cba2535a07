"""ctrace has a text for every reason of the installed torch not to fuse two nodes."""

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from ctrace.inspector.knowledge.advice import advice_on_refusal


def _reasons() -> Iterator[str]:
    """Read what is passed to `why(...)` and `WhyNoFuse(...)(...)`, with `x` for each argument."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    for file in sorted((Path(spec.origin).parent / "_inductor").rglob("*.py")):
        source = file.read_text(encoding="utf-8")
        if "WhyNoFuse" in source:
            yield from map(_text, filter(None, map(_reason, ast.walk(ast.parse(source)))))


def _reason(node: ast.AST) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Name(id="why"), args=[reason, *_]):
            return reason
        case ast.Call(func=ast.Call(func=ast.Name(id="WhyNoFuse")), args=[reason, *_]):
            return reason
    return None


def _text(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str() as text):
            return text.replace("%s", "x")
        case ast.JoinedStr(values=values):
            return "".join(_text(value) if isinstance(value, ast.Constant) else "x" for value in values)
    raise AssertionError(ast.unparse(node))


def test_every_reason_is_known() -> None:
    reasons = list(_reasons())
    assert len(reasons) > 40
    assert [each for each in reasons if advice_on_refusal(each) == "unmapped"] == []
