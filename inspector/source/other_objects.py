"""What other objects of a class, or other callers of its methods, may hold where changed statements read it.

`h + self.slots` on one side of a branch gives one shape for an object of one level, and another for one of four; a
selection of both sides has the larger shape in each call. `copy.deepcopy` refuses a tensor that a method got from code
that needs its gradient, and `clone` does not. The calls of a proof begin with the object that the file made.

Reads Python without running it.
"""

import ast
from collections.abc import Iterable, Iterator

from ctrace.inspector.source.attribute_writes import FUNCTIONS, family, is_self, last_name
from ctrace.inspector.source.text import parsed, replaced_lines

_CONSTRUCTORS = ("__init__", "__new__")


def other_objects(before: str, after: str) -> tuple[str, ...]:
    """Return questions about attributes of self whose values differ between objects or come from callers."""
    tree, new = parsed(before), parsed(after)
    if tree is None or new is None or before == after:
        return ()
    classes = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)]
    return (
        *_of_sizes(tree, new, classes, replaced_lines(after, before)),
        *_of_copies(tree, replaced_lines(before, after)),
    )


def _of_sizes(tree: ast.Module, new: ast.Module, classes: list[ast.ClassDef], lines: set[int]) -> Iterator[str]:
    """Yield a question for each attribute that a computation reads and whose size an argument of the class decides."""
    for cls in ast.walk(new):
        if not isinstance(cls, ast.ClassDef):
            continue
        computed = [each for each in ast.walk(cls) if isinstance(each, ast.BinOp) and each.lineno in lines]
        sides = [side for each in computed for side in (each.left, each.right)]
        read = {each.attr for each in sides if isinstance(each, ast.Attribute) and is_self(each.value)}
        related = family(classes, [cls.name])
        line = _made_otherwise(tree, related) if read else 0
        if line:
            sized = {name for each in classes if each.name in related for name in _sized(each)}
            for name in sorted(read & sized):
                yield (
                    f"Does `self.{name}` have the same shape in each object of {cls.name}, up to broadcasting? "
                    f"Line {line} makes one with other arguments."
                )


def _made_otherwise(tree: ast.Module, names: set[str]) -> int:
    """Return the line that constructs some classes with other arguments than the first one; 0: there is none."""
    made = [each for each in ast.walk(tree) if isinstance(each, ast.Call) and last_name(each.func) in names]
    texts: dict[str, int] = {}
    for each in made:
        texts.setdefault(ast.unparse(each), each.lineno)
    return list(texts.values())[1] if len(texts) > 1 else 0


def _sized(cls: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes that a constructor makes by a call with one of its parameters in it."""
    for method in cls.body:
        if not isinstance(method, FUNCTIONS) or method.name not in _CONSTRUCTORS:
            continue
        given = {each.arg for each in (*method.args.args, *method.args.kwonlyargs)} - {"self"}
        for each in ast.walk(method):
            match each:
                case ast.Assign(targets=[ast.Attribute(value=held, attr=name)], value=ast.Call() as value) if is_self(
                    held
                ):
                    if _mentions(value, given):
                        yield name
                case ast.Call(func=ast.Attribute(attr="register_buffer" | "register_parameter"), args=[key, value, *_]):
                    if isinstance(key, ast.Constant) and _mentions(value, given):
                        yield str(key.value)


def _mentions(node: ast.AST, names: Iterable[str]) -> bool:
    return any(isinstance(each, ast.Name) and each.id in names for each in ast.walk(node))


def _of_copies(tree: ast.Module, lines: set[int]) -> Iterator[str]:
    """Yield a question for each attribute whose deep copy is replaced and that a method sets to what callers pass."""
    for each in ast.walk(tree):
        match each:
            case ast.Call(
                func=ast.Name(id="deepcopy") | ast.Attribute(attr="deepcopy"), args=[ast.Attribute() as held]
            ):
                line = _given(tree, held.attr) if held.lineno in lines and is_self(held.value) else 0
                if line:
                    yield (
                        f"Has what `{ast.unparse(held)}` holds never a gradient to pass on? A deep copy refuses such a "
                        f"tensor, a clone cuts its gradient, and line {line} keeps what a caller passes."
                    )


def _given(tree: ast.Module, name: str) -> int:
    """Return the line where a method keeps its argument in an attribute, or in an item of it; 0: none does."""
    for method in ast.walk(tree):
        if not isinstance(method, FUNCTIONS) or method.name in _CONSTRUCTORS:
            continue
        given = {each.arg for each in (*method.args.args, *method.args.kwonlyargs)} - {"self"}
        for each in ast.walk(method):
            if isinstance(each, ast.Assign) and _mentions(each.value, given):
                targets = (one.value if isinstance(one, ast.Subscript) else one for one in each.targets)
                if any(isinstance(one, ast.Attribute) and is_self(one.value) and one.attr == name for one in targets):
                    return each.lineno
    return 0
