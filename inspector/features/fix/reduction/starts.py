"""Write programs that may show a finding, to start a reduction from: the function of the finding alone, the functions
around it, and the whole target.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.features.fix.reduction.compile_calls import with_backend, with_fullgraph
from ctrace.inspector.features.fix.reduction.edits.dead_code import drop_unused
from ctrace.inspector.features.fix.reduction.edits.mentions import without_all
from ctrace.inspector.features.fix.reduction.finding import DIFFERS, Sought
from ctrace.inspector.features.fix.reduction.one_file import OneFile, Place
from ctrace.inspector.features.fix.reduction.program import Program, pin
from ctrace.inspector.runs.request import Options
from ctrace.inspector.runs.target import ModelTarget, ProgramTarget, Resolved

_COMPARISON = 5
"""Statements that compare the last call with eager."""
_FEW = 2
"""Different calls that show most breaks."""
_BACKENDS = ("'eager'", "'aot_eager'", "")
SEED = "torch.manual_seed(0)"
"""Kept as long as the program draws random numbers."""
_OF_WHOLE_FUNCTIONS = (Finding.SKIP, Finding.RECOMPILE)


class Described(Struct, frozen=True):
    """What a run of the target in eager showed; see `capture/reducing/describe.py`."""

    calls: tuple[dict[str, Any], ...] = ()
    frames: tuple[dict[str, Any], ...] = ()
    error: str = ""
    is_module: bool = False


class Start(Struct, frozen=True):
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

    def all(self) -> Iterator[Start]:
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
        failing = self.sought.what is Finding.FAILURE
        distinct = list(dict.fromkeys(lines))
        for backend in _BACKENDS if failing else _BACKENDS[:1]:
            if self.sought.what is Finding.BREAK:
                yield self._calling(callee, [f"compiled({call})" for call in distinct[:1]], backend, fullgraph=True)
                yield self._calling(callee, [f"compiled({call})" for call in distinct[:_FEW]], backend)
            if self.sought.what is not Finding.BREAK or len(distinct) > _FEW:
                yield self._calling(callee, [f"compiled({each})" for each in lines], backend)

    def _calling(self, callee: str, lines: Sequence[str], backend: str, *, fullgraph: bool = False) -> str:
        arguments = self._arguments(backend, fullgraph=fullgraph)
        head = ["torch.manual_seed(0)", f"compiled = torch.compile({', '.join([callee, *arguments])})"]
        return "\n".join([*head, *lines])

    def _arguments(self, backend: str, *, fullgraph: bool = False) -> list[str]:
        found = [f"backend={backend}"] if backend else []
        found += ["fullgraph=True"] if fullgraph or self.options.fullgraph else []
        found += [f"dynamic={self.options.dynamic}"] if self.options.dynamic is not None else []
        return found + ([f"mode={self.options.mode!r}"] if self.options.mode and not backend else [])

    def _comparing(self, callee: str, calls: Sequence[str], backend: str) -> str:
        arguments = ", ".join(["eager", *self._arguments(backend)])
        lines = [SEED, f"eager = {callee}", f"compiled = torch.compile({arguments})"]
        for call in calls:
            lines += [SEED, f"expected = eager({call})", SEED, f"actual = compiled({call})"]
            lines.append(f"torch.testing.assert_close(actual, expected, equal_nan=True, msg={DIFFERS!r})")
        return "\n".join(lines)

    # The target

    def _place(self) -> Place:
        if self.sought.library or not self.sought.file:
            return Place()
        sought = self.sought
        return Place(sought.file, sought.line, sought.column, sought.what in _OF_WHOLE_FUNCTIONS)

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
        folder = Path.cwd() if self.resolved.path is None else path.parent
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
                    return f"{name}()" if is_made else name
        return name

    def _whole(self) -> Iterator[Start]:
        if isinstance(self.resolved, ProgramTarget):
            yield from self._program()
            return
        model = self._model()
        literal = [each["args"] for each in self.described.calls]
        imports = list(dict.fromkeys(line for each in self.described.calls for line in each["imports"]))
        if literal and None not in literal and not any(map(_has_mode, self.described.calls)):
            for text in self._drivers(model, [[each] if each else [] for each in literal]):
                yield from self._joined(text, imports, "the whole model")
        if self.sought.what is Finding.DANGER:
            texts = [each["source"] for each in self.described.calls]
            for text in self._drivers(model, [[each] for each in texts]) if None not in texts else ():
                yield from self._joined(text, [], "the whole model")
        else:
            lines = list(self._calls_with_modes())
            for backend in _BACKENDS if self.sought.what is Finding.FAILURE else _BACKENDS[:1]:
                head = f"model_ = {model}\n" + ("model_.train()\n" if self.options.train else "")
                yield from self._joined(head + self._calling("model_", lines, backend), imports, "the whole model")

    def _calls_with_modes(self) -> Iterator[str]:
        """Write each call with its inputs as the file makes them, in the modes of its scenario."""
        for each in self.described.calls:
            args = each["args"] if each["args"] is not None else each["source"]
            if args is None:
                return
            line = f"compiled({args})"
            if each["grad"] is not None:
                mode = {"off": "no_grad", "on": "enable_grad", "inference": "inference_mode"}[each["grad"]]
                line = f"with torch.{mode}():\n    {line}"
            if each["training"] is not None:
                line = f"model_.train({each['training']})\n{line}"
            yield line

    def _joined(self, driver: str, imports: Sequence[str], what: str) -> Iterator[Start]:
        try:
            tree = self._tree()
            extra = ast.parse("\n".join(["import torch", *imports])).body
            tail = ast.parse(driver).body
        except SyntaxError:
            return
        is_comparison = self.sought.what is Finding.DANGER
        for number, each in enumerate(tail):
            is_last = number >= len(tail) - _COMPARISON
            if is_last if is_comparison else ast.unparse(each) == SEED:
                pin(each)
        known = {ast.unparse(each) for each in extra}
        own = [each for each in tree.body if ast.unparse(each) not in known]
        whole = Program(ast.fix_missing_locations(ast.Module([*extra, *own, *tail], [])))
        clean = whole.edited(drop_unused)  # an import may matter although no name of it is read
        alone = whole.edited(without_all(self.sought.others, self.sought.same)) if self.sought.others else None
        yield from (Start(each, what) for each in (alone, clean, whole) if each is not None)

    def _program(self) -> Iterator[Start]:
        backends = _BACKENDS if self.sought.what is Finding.FAILURE else ("'eager'",)
        for backend in backends:
            for fullgraph in (True, False) if self.sought.what is Finding.BREAK else (False,):
                tree = self._tree()
                _seeded(tree)
                changed = with_backend(tree, ast.literal_eval(backend)) if backend else True
                if changed and (not fullgraph or with_fullgraph(tree)):
                    yield Start(Program(ast.fix_missing_locations(tree)), "the whole program")
        tree = self._tree()
        _seeded(tree)
        yield Start(Program(ast.fix_missing_locations(tree)), "the whole program")


def _seeded(tree: ast.Module) -> None:
    """Import torch and seed it first, in place."""
    tree.body[:0] = ast.parse(f"import torch\n{SEED}").body
    pin(tree.body[1])


def _has_mode(call: dict[str, Any]) -> bool:
    return call["training"] is not None or call["grad"] is not None


def imports_of(starts: Sequence[Start]) -> list[str]:
    """Return the import statements of all starts, for the server to run once."""
    found: dict[str, None] = {}
    for each in starts:
        for node in each.program.tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                found[ast.unparse(node)] = None
    return list(found)
