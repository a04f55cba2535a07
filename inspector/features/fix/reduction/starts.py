"""Write programs that may show a finding, to start a reduction from (`Starts`).

They are the function of the finding alone, the functions around it, and the whole target with the local modules that it
imports, as one syntax tree. The first functions here find the calls of torch.compile in a program, and change their
arguments.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.features.fix.reduction.finding import DIFFERS, Sought
from ctrace.inspector.features.fix.reduction.reduced_program import (
    Program,
    blocks,
    first_line,
    innermost,
    pin,
    set_anchor,
)
from ctrace.inspector.features.fix.reduction.reduction_edits import drop_unused, without_all
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.target import ModelTarget, ProgramTarget, Resolved

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


_MOST_FILES = 60
"""Files of a program whose statements are joined into one; reducing more takes too long."""


class FindingPlace(Struct, frozen=True):
    """The line that shows the finding; `file` is empty if it is in a package."""

    file: str = ""
    line: int = 0
    column: int | None = None
    """Where in the line, for a line with several statements; None: not known."""
    is_function: bool = False
    """Whether the finding is about the whole function that has the line."""


class OneFile:
    """Joins files."""

    def __init__(self, folder: Path, place: FindingPlace) -> None:
        self._folder = folder.resolve()
        self._place = place
        self._done: set[Path] = set()
        self.modules: set[str] = set()
        """Local modules by name."""

    def of(self, path: Path, *, is_program: bool) -> ast.Module:
        """Return the tree of a file with its local modules.

        Raises:
            TargetError: a file cannot be read.
        """
        body = self._body(path.resolve(), is_program=is_program)
        tree = ast.Module(body, [])
        for node in ast.walk(tree):
            for name, value in ast.iter_fields(node):
                match value:
                    case ast.Attribute(value=ast.Name(id=module), attr=attribute) if module in self.modules:
                        setattr(node, name, ast.copy_location(ast.Name(attribute, value.ctx), value))
        return tree

    def _body(self, path: Path, *, is_program: bool) -> list[ast.stmt]:
        self._done.add(path)
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError) as error:
            raise TargetError(f"{path} cannot be read: {error}", "check the file") from None
        self._mark(tree, path)
        found: list[ast.stmt] = []
        for node in tree.body:
            if isinstance(node, ast.If) and _is_main_guard(node) and not is_program:
                continue
            # Python allows it at the top of a file only, and this body may come to stand further down.
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                continue
            found += self._statement(node, path)
        return found

    def _mark(self, tree: ast.Module, path: Path) -> None:
        if not self._place.file or path != Path(self._place.file).resolve():
            return
        node: ast.stmt | None = innermost(tree, self._place.line, self._place.column)
        if self._place.is_function:
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
            holders = [each for each in ast.walk(tree) if isinstance(each, kinds) and _has(each, self._place.line)]
            node = None
            if holders:
                node = holders[-1]
        if node is not None:
            set_anchor(node)

    def _statement(self, node: ast.stmt, path: Path) -> Iterator[ast.stmt]:
        match node:
            case ast.ImportFrom():
                yield from self._from(node, path)
            case ast.Import(names=names):
                for alias in names:
                    file = self._file(alias.name, path, 0)
                    if file is None:
                        yield ast.Import([alias])
                    else:
                        yield from self._new(file)
                        self.modules.add(alias.asname or alias.name)
            case _:
                yield node

    def _from(self, node: ast.ImportFrom, path: Path) -> Iterator[ast.stmt]:
        """Put a local module in the place of `from module import names`."""
        file = self._file(node.module or "", path, node.level)
        if file is None:
            # A program of one file has no package that a relative import could be relative to.
            if node.level == 0:
                yield node
            return
        yield from self._new(file)
        for alias in node.names:
            name = alias.name
            if node.module:
                name = f"{node.module}.{alias.name}"
            inner = self._file(name, path, node.level)
            if inner is not None and inner != file:
                yield from self._new(inner)
                self.modules.add(alias.asname or alias.name)
            elif alias.asname and alias.asname != alias.name:
                yield ast.Assign([ast.Name(alias.asname, ast.Store())], ast.Name(alias.name))

    def _new(self, file: Path) -> list[ast.stmt]:
        """Return the statements of a file the first time."""
        is_new = file not in self._done and len(self._done) < _MOST_FILES
        if not is_new:
            return []
        return self._body(file, is_program=False)

    def _file(self, module: str, path: Path, level: int) -> Path | None:
        """Return the file of a local module."""
        if level:
            base = path.parents[level - 1]
        else:
            base = self._folder
        stem = base.joinpath(*[part for part in module.split(".") if part])
        for each in (stem.with_suffix(".py"), stem / "__init__.py"):
            # An environment may lie in the project's folder; its packages can be imported, and need not be copied.
            if each.is_file() and "site-packages" not in each.parts:
                return each.resolve()
        return None


def _has(node: ast.stmt, line: int) -> bool:
    return first_line(node) <= line <= (node.end_lineno or node.lineno)


def _is_main_guard(node: ast.If) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(node.test))


_COMPARISON = 5
"""Statements that compare the last call with eager."""
_FEW = 2
"""Different calls that show most breaks."""
_BACKENDS = ("'eager'", "'aot_eager'", "")
SEED = "torch.manual_seed(0)"
"""Kept as long as the program draws random numbers."""
_OF_WHOLE_FUNCTIONS = (Finding.SKIP, Finding.RECOMPILE)


class Described(Struct, frozen=True):
    """What a run of the target in eager showed; see `child/call_description.py`."""

    calls: tuple[dict[str, Any], ...] = ()
    frames: tuple[dict[str, Any], ...] = ()
    error: str = ""


class StartProgram(Struct, frozen=True):
    """A program to start from."""

    program: Program
    what: str
    """What it keeps of the target, in a few words."""


class Starts(Struct, frozen=True):
    """Writes the starts for one target and finding."""

    resolved: Resolved
    options: Options
    sought: Sought
    described: Described = field(default_factory=Described)

    def all(self) -> Iterator[StartProgram]:
        """Yield starts, the most promising first: the innermost function, then those around it, then everything."""
        if not isinstance(self.resolved, ProgramTarget):
            for each in self.described.frames:
                for callee in self._callees(each):
                    for text in self._drivers(callee, each["calls"]):
                        yield from self._joined(text, each["imports"], f"{each['function']} alone")
        yield from self._whole()

    def _callees(self, frame: dict[str, Any]) -> Iterator[str]:
        if frame["callee"]:
            yield frame["callee"]
        if frame["fallback"]:
            yield f"{self._model()}{frame['fallback']}"

    # The driver

    def _drivers(self, callee: str, calls: Sequence[Sequence[str]]) -> Iterator[str]:
        """Yield the code that compiles something and calls it, the strictest form first."""
        lines = [", ".join(each) for each in calls]
        if self.sought.what is Finding.DANGER:
            yield from (self._comparing(callee, lines, backend) for backend in _BACKENDS)
            return
        distinct = list(dict.fromkeys(lines))
        for backend in self._backends():
            if self.sought.what is Finding.BREAK:
                yield self._calling(callee, [f"compiled({call})" for call in distinct[:1]], backend, fullgraph=True)
                yield self._calling(callee, [f"compiled({call})" for call in distinct[:_FEW]], backend)
            if self.sought.what is not Finding.BREAK or len(distinct) > _FEW:
                yield self._calling(callee, [f"compiled({each})" for each in lines], backend)

    def _calling(self, callee: str, lines: Sequence[str], backend: str, *, fullgraph: bool = False) -> str:
        arguments = self._arguments(backend, fullgraph=fullgraph)
        # Before the callee is made: `Net()` draws its weights.
        head = ["torch.manual_seed(0)", f"compiled = torch.compile({', '.join([callee, *arguments])})"]
        return "\n".join([*head, *lines])

    def _arguments(self, backend: str, *, fullgraph: bool = False) -> list[str]:
        found = []
        if backend:
            found = [f"backend={backend}"]
        if fullgraph or self.options.fullgraph:
            found += ["fullgraph=True"]
        if self.options.dynamic is not None:
            found += [f"dynamic={self.options.dynamic}"]
        if self.options.mode and not backend:  # only Inductor has modes
            found += [f"mode={self.options.mode!r}"]
        return found

    def _comparing(self, callee: str, calls: Sequence[str], backend: str) -> str:
        arguments = ", ".join(["eager", *self._arguments(backend)])
        lines = [SEED, f"eager = {callee}", f"compiled = torch.compile({arguments})"]
        for call in calls:
            # Seeded before each of the two calls, so that dropout draws alike in both.
            lines += [SEED, f"expected = eager({call})", SEED, f"actual = compiled({call})"]
            lines.append(f"torch.testing.assert_close(actual, expected, equal_nan=True, msg={DIFFERS!r})")
        return "\n".join(lines)

    # The target

    def _place(self) -> FindingPlace:
        if self.sought.library or not self.sought.file:
            return FindingPlace()
        sought = self.sought
        return FindingPlace(sought.file, sought.line, sought.column, sought.what in _OF_WHOLE_FUNCTIONS)

    def _path(self) -> Path | None:
        if self.resolved.path is not None:
            return self.resolved.path
        module = self.resolved.module
        stem = Path.cwd().joinpath(*str(module).split("."))
        return next((each for each in (stem.with_suffix(".py"), stem / "__init__.py") if each.is_file()), None)

    def _tree(self) -> ast.Module:
        path = self._path()
        if path is None:
            return ast.Module([], [])
        is_program = isinstance(self.resolved, ProgramTarget)
        if self.resolved.path is None:
            folder = Path.cwd()
        else:
            folder = path.parent
        return OneFile(folder, self._place()).of(path, is_program=is_program)

    def _model(self) -> str:
        """Write the model as the file's code makes it."""
        assert isinstance(self.resolved, ModelTarget)
        name = self.resolved.name or "model"
        for node in self._tree().body:
            match node:
                case ast.ClassDef(name=found) if found == name:
                    return f"{name}()"
                case ast.FunctionDef(name=found, args=args) if found == name:
                    required = len(args.posonlyargs) + len(args.args) - len(args.defaults)
                    total = len(args.posonlyargs) + len(args.args) + len(args.kwonlyargs)
                    is_made = not required and (self.resolved.name is None or not total)
                    if is_made:
                        return f"{name}()"
                    return name
        return name

    def _whole(self) -> Iterator[StartProgram]:
        if isinstance(self.resolved, ProgramTarget):
            yield from self._program()
            return
        model = self._model()
        literal = [each["args"] for each in self.described.calls]
        imports = list(dict.fromkeys(line for each in self.described.calls for line in each["imports"]))
        # `_drivers` writes calls alone: scenarios in another mode need `_calls_with_modes`.
        if literal and None not in literal and not any(map(_has_mode, self.described.calls)):
            for text in self._drivers(model, [[each] if each else [] for each in literal]):
                yield from self._joined(text, imports, "the whole model")
        if self.sought.what is Finding.DANGER:
            texts = [each["source"] for each in self.described.calls]
            if None not in texts:
                for text in self._drivers(model, [[each] for each in texts]):
                    yield from self._joined(text, [], "the whole model")
        else:
            lines = list(self._calls_with_modes())
            head = f"model_ = {model}\n"
            if self.options.train:
                head += "model_.train()\n"
            for backend in self._backends():
                yield from self._joined(head + self._calling("model_", lines, backend), imports, "the whole model")

    def _backends(self) -> tuple[str, ...]:
        """Return the backends to try: a failure may come from any stage, what else is sought comes from Dynamo."""
        if self.sought.what is Finding.FAILURE:
            return _BACKENDS
        return _BACKENDS[:1]

    def _calls_with_modes(self) -> Iterator[str]:
        """Write each call with its inputs as the file makes them, in the modes of its scenario."""
        for each in self.described.calls:
            if each["args"] is not None:
                args = each["args"]
            else:
                args = each["source"]
            if args is None:
                return
            line = f"compiled({args})"
            if each["grad"] is not None:
                mode = {"off": "no_grad", "on": "enable_grad", "inference": "inference_mode"}[each["grad"]]
                line = f"with torch.{mode}():\n    {line}"
            if each["training"] is not None:
                line = f"model_.train({each['training']})\n{line}"
            yield line

    def _joined(self, driver: str, imports: Sequence[str], what: str) -> Iterator[StartProgram]:
        try:
            tree = self._tree()
            extra = ast.parse("\n".join(["import torch", *imports])).body
            tail = ast.parse(driver).body
        except SyntaxError:
            return
        is_comparison = self.sought.what is Finding.DANGER
        for number, each in enumerate(tail):
            if is_comparison:
                is_pinned = number >= len(tail) - _COMPARISON
            else:
                is_pinned = ast.unparse(each) == SEED
            if is_pinned:
                pin(each)
        known = {ast.unparse(each) for each in extra}
        # The target's file has some of these imports as well.
        own = [each for each in tree.body if ast.unparse(each) not in known]
        whole = Program(ast.fix_missing_locations(ast.Module([*extra, *own, *tail], [])))
        clean = whole.edited(drop_unused)  # an import may matter although no name of it is read
        alone = None
        if self.sought.others:
            alone = whole.edited(without_all(self.sought.others, self.sought.same))
        # The smallest first: the first that shows the finding is taken.
        yield from (StartProgram(each, what) for each in (alone, clean, whole) if each is not None)

    def _program(self) -> Iterator[StartProgram]:
        # With fullgraph=True, a break raises, which shows it without a log.
        modes = [False]
        if self.sought.what is Finding.BREAK:
            modes = [True, False]
        for backend in self._backends():
            for fullgraph in modes:
                tree = self._tree()
                _seeded(tree)
                changed = True
                if backend:
                    changed = with_backend(tree, ast.literal_eval(backend))
                if changed and (not fullgraph or with_fullgraph(tree)):
                    yield StartProgram(Program(ast.fix_missing_locations(tree)), "the whole program")
        # Last, as it is: with the backend and the arguments that it names itself.
        tree = self._tree()
        _seeded(tree)
        yield StartProgram(Program(ast.fix_missing_locations(tree)), "the whole program")


def _seeded(tree: ast.Module) -> None:
    """Import torch and seed it first, in place."""
    tree.body[:0] = ast.parse(f"import torch\n{SEED}").body
    pin(tree.body[1])


def _has_mode(call: dict[str, Any]) -> bool:
    return call["training"] is not None or call["grad"] is not None


def imports_of(starts: Sequence[StartProgram]) -> list[str]:
    """Return the import statements of all starts, for the server to run once."""
    found: dict[str, None] = {}
    for each in starts:
        for node in each.program.tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                found[ast.unparse(node)] = None
    return list(found)
