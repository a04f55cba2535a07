"""Find the calls of torch.compile in a program, and change their arguments."""

import ast

from ctrace.inspector.features.fix.reduction.reduced_program import blocks

_OF_INDUCTOR = ("mode", "options")


def compile_calls(tree: ast.AST) -> list[ast.Call]:
    """Return the calls of torch.compile; a bare decorator becomes a call."""
    for node in ast.walk(tree):
        for index, each in enumerate(getattr(node, "decorator_list", [])):
            if _is_compile(each):
                node.decorator_list[index] = ast.Call(each, [], [])  # type: ignore[attr-defined]
    return [each for each in ast.walk(tree) if isinstance(each, ast.Call) and _is_compile(each.func)]


def _is_compile(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="torch"), attr="compile"):
            return True
    return False


def with_argument(call: ast.Call, name: str, value: object) -> None:
    """Set a keyword argument of a call."""
    call.keywords = [each for each in call.keywords if each.arg != name]
    call.keywords.append(ast.keyword(name, ast.Constant(value)))  # type: ignore[arg-type]


def with_backend(tree: ast.AST, backend: str) -> bool:
    """Compile with another backend, in place; return whether there is a call of torch.compile."""
    calls = compile_calls(tree)
    for call in calls:
        call.keywords = [each for each in call.keywords if each.arg not in _OF_INDUCTOR]
        with_argument(call, "backend", backend)
    return bool(calls)


def with_fullgraph(tree: ast.AST) -> bool:
    """Compile with `fullgraph=True`, in place; return whether a call changed."""
    calls = compile_calls(tree)
    changed = [call for call in calls if not any(each.arg == "fullgraph" for each in call.keywords)]
    for call in calls:
        with_argument(call, "fullgraph", True)
    return bool(changed)


def without_fullgraph(tree: ast.AST) -> bool:
    """Let Dynamo split graphs again, in place; return whether a call changed."""
    changed = False
    for call in compile_calls(tree):
        kept = [each for each in call.keywords if each.arg != "fullgraph"]
        changed = changed or len(kept) < len(call.keywords)
        call.keywords = kept
    return changed


def has_backends(text: str, count: int) -> bool:
    """Whether a program still names a backend in each call of torch.compile, if `count` calls did at the start."""
    return not count or text.count("torch.compile(") == text.count("backend=")


def after_imports(tree: ast.Module, statement: str) -> bool:
    """Insert a statement after the imports at the top, in place."""
    at = 0
    while at < len(tree.body) and isinstance(tree.body[at], ast.Import | ast.ImportFrom):
        at += 1
    tree.body[at:at] = ast.parse(statement).body
    return True


def without(tree: ast.Module, statement: str) -> bool:
    """Drop a statement wherever it is, in place; return whether it was there."""
    found = False
    for block in blocks(tree):
        kept = [each for each in block if ast.unparse(each) != statement]
        found = found or len(kept) < len(block)
        block[:] = kept
    return found
