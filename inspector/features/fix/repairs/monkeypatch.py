"""Turn a repair inside a package into code for the user's file that replaces the package's functions.

The code defines copies of the repaired functions, with the names that they read imported from the package, and puts
them in place of the originals. It stands in one function, so that it adds one name to the file.

Leaves alone functions that cannot be copied: nested ones, those that read `__class__` or private names of a class, bind
globals, or contain a string of several lines, and names that the package binds only under a condition.
"""

import ast
import builtins
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.source.text import parsed, python_lines

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Monkeypatch(Struct, frozen=True):
    """Text of the user's file that replaces functions of a package."""

    text: str
    names: tuple[str, ...]
    """The functions that it replaces, such as `LongformerModel._pad`."""


def monkeypatched(user: str, library: str, before: str, after: str) -> Monkeypatch | None:
    """Return a user's file that replaces what a repair changes in a file of a package.

    None: the change cannot be made from outside, or the user's file has no imports.

    Args:
        user: text of the user's file.
        library: path of the package's file.
        before: its text.
        after: its text with the repair.
    """
    old, new, mine = parsed(before), parsed(after), parsed(user)
    module = module_name(Path(library))
    if old is None or new is None or mine is None or not module:
        return None
    was, now = dict(_functions(old)), dict(_functions(new))
    # By their trees: a repair may move a function that it leaves as it is.
    changed = [name for name, node in now.items() if name not in was or ast.dump(was[name]) != ast.dump(node)]
    # A function that is gone cannot be taken out of a module that is loaded already.
    if not changed or set(was) - set(now) or not _only_adds_imports(old, new):
        return None
    bindings = _Bindings(new)
    bodies = []
    for name in changed:
        body = _copy(name, now[name], after, bindings)
        if body is None:
            return None
        bodies.append(body)
    methods = {name.rpartition(".")[2] for name in changed if "." in name}
    # Methods are copied under their bare names, side by side in one function.
    if not methods.isdisjoint(bindings.needed) or len(methods) != sum("." in name for name in changed):
        return None  # a copy would hide a name that another one reads
    function = f"_repair_{module.rpartition('.')[2]}"
    while function in user:
        function += "_"
    code = _assembled(function, module, changed, bodies, bindings)
    text = _after_imports(user, mine, code)
    if text is None or parsed(text) is None:
        return None
    return Monkeypatch(text, tuple(changed))


def module_name(file: Path) -> str:
    """Return the dotted name of a file of a package, or of a module beside packages; empty: it is neither."""
    if file.suffix != ".py":
        return ""
    if not (file.parent / "__init__.py").is_file():
        # Beside no `__init__.py`, only a folder on the path makes a file a module.
        if str(file.parent) not in sys.path:
            return ""
        return file.stem
    parts = []
    if file.stem != "__init__":
        parts = [file.stem]
    folder = file.parent
    while (folder / "__init__.py").is_file():
        parts.append(folder.name)
        folder = folder.parent
    return ".".join(reversed(parts))


def _functions(tree: ast.Module) -> Iterator[tuple[str, _Function]]:
    """Yield functions of a module and methods of its classes, by qualified name."""
    for node in tree.body:
        if isinstance(node, _Function):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for below in node.body:
                if isinstance(below, _Function):
                    yield f"{node.name}.{below.name}", below


def _only_adds_imports(old: ast.Module, new: ast.Module) -> bool:
    """Whether a change outside of functions only adds imports."""

    def rest(tree: ast.Module) -> list[str]:
        return [_outline(node) for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom | _Function)]

    return rest(old) == rest(new)


def _outline(node: ast.stmt) -> str:
    """Return a statement as text; of a class, what is no method."""
    if not isinstance(node, ast.ClassDef):
        return ast.dump(node)
    body = [ast.dump(each) for each in node.body if not isinstance(each, _Function)]
    head = [ast.dump(each) for each in (*node.bases, *node.keywords, *node.decorator_list)]
    return "\n".join([node.name, *head, *body])


class _Bindings:
    """The names that a module binds at its top, and the imports that a copied function needs."""

    def __init__(self, tree: ast.Module) -> None:
        self._own: set[str] = set()
        self._imports: dict[str, str] = {}
        self._doubtful: set[str] = set()
        self.lines: dict[str, None] = {}
        """Import statements, without those of the module's own names."""
        self.names: dict[str, None] = {}
        """The module's own names."""
        self.needed: set[str] = set()
        """All names that functions read."""
        for node in tree.body:
            self._bind(node)

    def _bind(self, node: ast.stmt) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    bound = alias.asname or alias.name.partition(".")[0]
                    self._imports[bound] = f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
            case ast.ImportFrom(module=module, names=names, level=level):
                for alias in names:
                    bound = alias.asname or alias.name
                    if level:
                        # What a relative import names is an attribute of the module, too, and is imported from there.
                        self._own.add(bound)
                    elif module != "__future__":
                        as_name = ""
                        if alias.asname:
                            as_name = f" as {alias.asname}"
                        self._imports[bound] = f"from {module} import {alias.name}{as_name}"
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                self._own.add(name)
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self._own |= _stored(node)
            case _:
                # Bound in a branch, a loop or a `try`: whether the name is there is known only in a run.
                self._doubtful |= _stored(node)

    def need(self, name: str) -> bool:
        """Import a name that a function reads; return whether that is possible."""
        if name in self._doubtful:
            return False
        self.needed.add(name)
        if name in self._own:
            self.names[name] = None
        elif name in self._imports:
            self.lines[self._imports[name]] = None
        return True

    def knows(self, name: str) -> bool:
        """Whether the module binds a name for certain, or Python does."""
        return name in self._own or name in self._imports or hasattr(builtins, name)


def _stored(node: ast.AST) -> set[str]:
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    for each in ast.walk(node):
        if isinstance(each, ast.alias):
            found.add(each.asname or each.name.partition(".")[0])
        elif isinstance(each, ast.FunctionDef | ast.ClassDef):
            found.add(each.name)
    return found


def _copy(name: str, node: _Function, text: str, bindings: _Bindings) -> str | None:
    """Return a function's text, without indentation; None: it does not work outside of its class or module."""
    owner = name.rpartition(".")[0]  # empty for a function of the module
    own = (_stored(node) - {node.name}) | {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    supers: list[ast.Call] = []
    for each in ast.walk(node):
        if isinstance(each, ast.Global | ast.Nonlocal) or _is_long_string(each, node):
            return None
        if isinstance(each, ast.Attribute | ast.Name) and _is_private(each):
            return None
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "super":
            if each.args or not owner or not node.args.args:
                return None
            # `super()` without arguments needs the `__class__` of a class body, which the copy is not in.
            supers.append(each)
        elif (
            isinstance(each, ast.Name)
            and isinstance(each.ctx, ast.Load)
            and each.id not in own
            and (each.id == "__class__" or not bindings.need(each.id))
        ):
            return None
    decorators = [each for one in node.decorator_list for each in ast.walk(one) if isinstance(each, ast.Name)]
    # A decorator from `import *` could not be imported by name.
    if not all(bindings.knows(each.id) for each in decorators):
        return None
    # In Python's trees, a function begins below its decorators.
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    lines = python_lines(text)[first - 1 : node.end_lineno]
    # From the end of a line, so that what is longer now leaves the earlier columns right.
    for call in sorted(supers, key=lambda each: (each.lineno, each.col_offset), reverse=True):
        at = call.lineno - first
        # Columns count bytes, which are letters only in ASCII.
        if call.end_lineno != call.lineno or not lines[at].isascii():
            return None
        new = f"super(library.{owner}, {node.args.args[0].arg})"
        lines[at] = f"{lines[at][: call.col_offset]}{new}{lines[at][call.end_col_offset :]}"
    return textwrap.dedent("\n".join(lines))


def _is_private(node: ast.Attribute | ast.Name) -> bool:
    """Whether a name means another one inside of a class."""
    if isinstance(node, ast.Attribute):
        name = node.attr
    else:
        name = node.id
    return name.startswith("__") and not name.endswith("__")


def _is_long_string(node: ast.AST, function: _Function) -> bool:
    """Whether a string, other than the docstring, has several lines, which another indentation changes."""
    is_text = isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )
    if not is_text or getattr(node, "lineno", 0) == getattr(node, "end_lineno", 0):
        return False
    first = function.body[0]
    return not (isinstance(first, ast.Expr) and first.value is node)


def _assembled(function: str, module: str, changed: list[str], bodies: list[str], bindings: _Bindings) -> str:
    package, _, name = module.rpartition(".")
    own = ", ".join(bindings.names)
    library = f"import {name} as library"
    if package:
        library = f"from {package} import {name} as library"
    imports = [
        *sorted(bindings.lines),
        library,
    ]
    if own:
        imports.append(f"from {module} import {own}")
    what = " and ".join(f"`{each}`" for each in changed)
    lines = [f'"""Replace {what} by a repaired copy."""', *imports]
    for each, body in zip(changed, bodies, strict=True):
        lines += ["", *body.split("\n"), "", f"library.{each} = {each.rpartition('.')[2]}"]
    inner = "\n".join(f"    {line}" if line.strip() else "" for line in lines)
    return f"def {function}() -> None:\n{inner}\n\n\n{function}()"


def _after_imports(user: str, tree: ast.Module, code: str) -> str | None:
    """Return a file with code behind the imports at its top; None: it has none."""
    first = next((at for at, node in enumerate(tree.body) if isinstance(node, ast.Import | ast.ImportFrom)), None)
    if first is None:
        return None
    last: ast.stmt = tree.body[first]
    for node in tree.body[first:]:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            # What follows may call the package already.
            break
        last = node
    ending = "\r\n" if "\r\n" in user else "\n"
    lines = user.splitlines(keepends=True)
    end = last.end_lineno or last.lineno
    if not lines[end - 1].endswith(("\n", "\r")):
        lines[end - 1] += ending
    added = f"\n\n{code}\n".replace("\n", ending)
    return "".join([*lines[:end], added, *lines[end:]])
