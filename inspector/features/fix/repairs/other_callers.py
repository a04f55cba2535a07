"""Who else in a file calls the function that a change touches: such a call must run in the proof.

A helper that brings images to the unit range may get tensors from a model, and NumPy arrays from a dataset in the same
file. `torch.where` refuses the arrays, and no call of the model shows it. A method that calls the helper with its own
`prior` passes what has another shape, which only the branch kept from being used.

Functions that call it are left alone: a program's `main` need not run in the proof, and what they pass is asked about
where they use arrays (`open_questions`).

Reads Python without running it.
"""

import ast
from collections.abc import Collection, Iterator

from ctrace.inspector.facts.trial import Condition
from ctrace.inspector.source.attribute_writes import FUNCTIONS, has_body, is_self, last_name, statements
from ctrace.inspector.source.text import parsed, replaced_lines

_TOO_COMMON = frozenset(("forward", "step", "update", "reset", "close", "get", "__init__", "__call__"))
"""Methods that objects of many classes have: a call by such a name says nothing about the class."""


def other_callers(file: str, before: str, after: str) -> Iterator[Condition]:
    """Yield the lines of methods that call a changed function, or a changed method of another object."""
    tree, lines = parsed(before), replaced_lines(before, after)
    if tree is None or not lines:
        return
    functions = {each.name for each in tree.body if isinstance(each, FUNCTIONS) and _is_in(each, lines)}
    classes = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]
    changed = {method.name for cls in classes for method in _methods(cls) if _is_in(method, lines)}
    names = [method.name for cls in classes for method in _methods(cls)]
    methods = {name for name in changed - _TOO_COMMON if names.count(name) == 1 and not name.startswith("__")}
    for cls in classes:
        for method in _methods(cls):
            for statement, call in _calls(method):
                is_called = isinstance(call.func, ast.Name) and call.func.id in functions
                is_other = isinstance(call.func, ast.Attribute) and not is_self(call.func.value)
                if is_called or (is_other and last_name(call.func) in methods):
                    yield Condition(file, statement.lineno if not has_body(statement) else call.lineno, "")


def _methods(cls: ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (each for each in cls.body if isinstance(each, FUNCTIONS))


def _is_in(function: ast.stmt, lines: Collection[int]) -> bool:
    return any(function.lineno <= line <= (function.end_lineno or function.lineno) for line in lines)


def _calls(method: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[ast.stmt, ast.Call]]:
    """Yield the calls in a method, each with the innermost statement that it stands in."""
    for statement, _ in statements(method.body, is_certain=True):
        heads = [getattr(statement, name, None) for name in ("test", "iter", "subject")]
        parts = (
            [*(each for each in heads if each), *getattr(statement, "items", ())]
            if has_body(statement)
            else [statement]
        )
        for each in (below for part in parts for below in ast.walk(part)):
            if isinstance(each, ast.Call):
                yield statement, each
