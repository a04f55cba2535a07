"""Edits of model files that hurt compilation, and edits that change nothing that torch.compile looks at.

All models of `models/` have the same shape, and every edit is made at places that this shape gives; no edit knows a
model. The *own* class is the last one with a `forward`. The *spot* is the first statement there that gives a name to a
tensor, called T below. There is a loop over `self.layers`, and a helper function at the top of the file.
"""

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Callable
from dataclasses import dataclass

Files = dict[str, str]
"""Sources by file name; the first is the model's."""


@dataclass(frozen=True)
class Edit:
    """A change of one model file."""

    name: str
    of: Callable[[str, str], Files]
    """Gives the files that take the place of one, by its name and its source."""
    shows: frozenset[str] = frozenset()
    """Kinds of sites of which a check has to show one; empty: the edit is harmless."""


@dataclass(frozen=True)
class Shape:
    """What all models have: where their edits are made."""

    source: str
    tree: ast.Module

    @property
    def own(self) -> ast.ClassDef:
        return [node for node in self.tree.body if isinstance(node, ast.ClassDef) and _method(node, "forward")][-1]

    @property
    def forward(self) -> ast.FunctionDef:
        return _method(self.own, "forward")[0]

    @property
    def spot(self) -> ast.Assign:
        return next(node for node in self.forward.body if isinstance(node, ast.Assign))

    @property
    def tensor(self) -> str:
        return ast.unparse(self.spot.targets[0])

    @property
    def loop(self) -> ast.For:
        loops = (node for node in self.forward.body if isinstance(node, ast.For))
        return next(node for node in loops if ast.unparse(node.iter) == "self.layers")

    @property
    def helper(self) -> ast.FunctionDef:
        return next(node for node in self.tree.body if isinstance(node, ast.FunctionDef))


def shape_of(source: str) -> Shape:
    """Read a model file."""
    return Shape(source, ast.parse(source))


def _method(node: ast.ClassDef, name: str) -> list[ast.FunctionDef]:
    return [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == name]


# Ways to change a text


def _text(change: Callable[[Shape], str]) -> Callable[[str, str], Files]:
    return lambda name, source: {name: change(shape_of(source))}


def _with_lines(source: str, added: dict[int, str]) -> str:
    """Put text below lines, by their numbers from 1; 0 is the top."""
    lines = source.splitlines(keepends=True)
    for after in sorted(added, reverse=True):
        lines.insert(after, added[after])
    return "".join(lines)


def _indented(text: str, like: ast.stmt) -> str:
    return textwrap.indent(textwrap.dedent(text).strip("\n") + "\n", " " * like.col_offset)


def _naming(text: str, tensor: str) -> str:
    return re.sub(r"\bT\b", tensor, text)


def _last_import(shape: Shape) -> int:
    imports = [node for node in shape.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return imports[-1].end_lineno or 0


def _inserted(body: str, *, top: str = "", init: str = "", at: str = "spot") -> Callable[[str, str], Files]:
    """Put statements below the spot, or into the loop or the helper; and what they need."""

    def change(shape: Shape) -> str:
        spots = {"spot": shape.spot, "loop": shape.loop.body[-1], "helper": shape.helper.body[0]}
        tensor = shape.helper.args.args[0].arg if at == "helper" else shape.tensor
        added = {spots[at].end_lineno or 0: _indented(_naming(body, tensor), spots[at])}
        if top:
            added[_last_import(shape)] = "\n" + textwrap.dedent(top).strip("\n") + "\n"
        if init:
            begun = _method(shape.own, "__init__")[0].body[0]
            added[begun.end_lineno or 0] = _indented(init, begun)
        return _with_lines(shape.source, added)

    return _text(change)


def _harmful(name: str, body: str, *shows: str, top: str = "", init: str = "", at: str = "spot") -> Edit:
    return Edit(name, _inserted(body, top=top, init=init, at=at), frozenset(shows or ("break",)))


def _traced(name: str, body: str, *, top: str = "", init: str = "") -> Edit:
    """What torch 2.13 traces through without a break."""
    return Edit(name, _inserted(body, top=top, init=init))


HARMFUL = (
    _harmful("print", 'print("hidden", T)'),
    _harmful("print-in-helper", 'print("helper", T.shape)', at="helper"),
    _harmful("print-in-loop", 'print("layer", T.shape)', "break", "skip", at="loop"),
    _harmful("item", "T = T * max(T.norm().item(), 1.0)"),
    _harmful("item-unused", "T.norm().item()"),
    _harmful("float-of-tensor", "T = T * max(float(T.norm()), 1.0)"),
    _harmful("tolist", "T = T + sum(T.flatten()[:2].tolist())"),
    _harmful("tensor-if", "if T.sum() > 1e9:\n    T = T * 0.5"),
    _harmful("raise-if", 'if T.isnan().any():\n    raise ValueError("not a number")'),
    _harmful("tensor-while", "while T.norm() > 1e6:\n    T = T / 2"),
    _harmful(
        "raise-and-catch", "try:\n    if T.isnan().any():\n        raise ValueError\nexcept ValueError:\n    T = -T"
    ),
    _harmful(
        "generator",
        "T = sum(halves(T))",
        top="""
            def halves(values):
                for part in (values, values):
                    print(part.shape)
                    yield part / 2
        """,
    ),
    _harmful("import-inside", 'import json\njson.dumps({"width": T.shape[-1]})'),
    _harmful("import-by-name", 'import importlib\nimportlib.import_module("math")'),
    _harmful("counter", "self.calls += 1", "recompile", init="self.calls = 0"),
    _harmful("counter-used", "self.calls += 1\nT = T * min(1.0, self.calls / 100)", "recompile", init="self.calls = 0"),
    _harmful(
        "growing-list", "self.seen.append(T.shape[-1])\nT = T * len(self.seen)", "recompile", init="self.seen = []"
    ),
    _harmful("list-of-tensors", "self.seen.append(T.detach())", "recompile", init="self.seen = []"),
    _harmful("global-list", "SEEN.append(T.detach())", "recompile", top="SEEN = []"),
    _harmful(
        "numpy",
        "T = T + torch.from_numpy(np.interp(T.detach().numpy(), [0, 1], [0, 1])).to(T.dtype)",
        top="import numpy as np",
    ),
    _harmful("numpy-bytes", "T.detach().numpy().tobytes()"),
    _harmful("logging", 'logging.getLogger(__name__).info("hidden %s", T.shape)', top="import logging"),
    _harmful("clock", "began = time.perf_counter()", top="import time"),
    _harmful("clock-guarded", "T = T * (1.0 if time.time() > 0 else 0.5)", top="import time"),
    _harmful(
        "disabled-helper",
        "T = kept(T)",
        "disabled",
        top="@torch.compiler.disable\ndef kept(values):\n    return values * 2",
    ),
    _harmful("warning", 'warnings.warn("no longer kept")', top="import warnings"),
    _harmful("open", "with open(__file__) as source:\n    source.readline()"),
    _harmful("environ-set", 'os.environ["MODEL_SEED"] = "1"', top="import os"),
    _harmful("nonzero", "T = T + T.nonzero().shape[0]"),
    _harmful("mask-index", "T = T + T[T > 0].sum()"),
    _harmful("set-by-value", "seen = set()\nseen.add(T.argmax().item())"),
    _harmful("random-guarded", "if random.random() < 2:\n    T = T * 2", top="import random"),
    _harmful("random-generator", "T = T * random.Random(0).gauss(0, 1)", top="import random"),
    _harmful("seed", "torch.manual_seed(0)"),
    _harmful("c-extension", 'T = T * (1 + zlib.crc32(b"seed") % 2)', top="import zlib"),
    _harmful("id-cache", "self.cache[id(T)] = T.shape", init="self.cache = {}"),
    _harmful("data-pointer", "T = T * (T.data_ptr() % 2 + 1)"),
    _harmful(
        "dtype-flip",
        "self.flip = not self.flip\nT = T.to(torch.float64 if self.flip else torch.float32).float()",
        "recompile",
        init="self.flip = False",
    ),
    _harmful("mode-flip", "self.train(not self.training)", "recompile"),
    _harmful("frame", "T = T * len(sys._getframe().f_code.co_name)", top="import sys"),
    _harmful("lock", "with LOCK:\n    T = T * 2", top="import threading\n\nLOCK = threading.Lock()"),
    _harmful("equal", "if torch.equal(T, T):\n    T = T + 1"),
    _harmful("hook", "handle = self.layers[0].register_forward_hook(lambda *every: None)\nhandle.remove()"),
)
"""Each of them makes torch compile more graphs than before, or leave something in eager; measured with torch 2.13."""


# Edits of what is there


class _Renamed(ast.NodeTransformer):
    """Renames a variable, an argument and, if asked for, keywords and texts of that name."""

    def __init__(self, was: str, now: str, *, keywords: bool = False) -> None:
        self._was, self._now, self._keywords = was, now, keywords

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self._now if node.id == self._was else node.id
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self._now if node.arg == self._was else node.arg
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.name = self._now if node.name == self._was else node.name
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.name = self._now if node.name == self._was else node.name
        self.generic_visit(node)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant(self._now) if self._keywords and node.value == self._was else node


def _rename_variable(shape: Shape) -> str:
    _Renamed(shape.tensor, "renamed").visit(shape.forward)
    return ast.unparse(shape.tree)


def _rename_argument(shape: Shape) -> str:
    was = shape.forward.args.args[1].arg
    _Renamed(was, "given").visit(shape.forward)
    for node in shape.tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "inputs":
            _Renamed(was, "given", keywords=True).visit(node)
    return ast.unparse(shape.tree)


def _rename_helper(shape: Shape) -> str:
    return ast.unparse(_Renamed(shape.helper.name, "renamed").visit(shape.tree))


def _rename_class(shape: Shape) -> str:
    return ast.unparse(_Renamed(shape.own.name, "Renamed").visit(shape.tree))


def _move_helper(name: str, source: str) -> Files:
    shape = shape_of(source)
    stem, helper = name.removesuffix(".py"), shape.helper
    imports = [each for each in shape.tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    elsewhere = ast.Module([*imports, helper], [])
    here = ast.ImportFrom(f"{stem}_helpers", [ast.alias(helper.name)], 0)
    shape.tree.body[shape.tree.body.index(helper)] = here
    return {name: _unparsed(shape.tree), f"{stem}_helpers.py": _unparsed(elsewhere)}


def _unparsed(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _class_down(shape: Shape) -> str:
    own = shape.own
    shape.tree.body.remove(own)
    shape.tree.body.append(own)
    return _unparsed(shape.tree)


def _forward_into_base(shape: Shape) -> str:
    """Move `forward` into a class that the own one derives from."""
    own, forward = shape.own, shape.forward
    own.body.remove(forward)
    base = ast.ClassDef("Forward", own.bases, [], [forward], [], type_params=[])
    own.bases = [ast.Name("Forward")]
    shape.tree.body.insert(shape.tree.body.index(own), base)
    return _unparsed(shape.tree)


def _reformat(shape: Shape) -> str:
    """Write one argument a line, everywhere."""
    depth, text, row, column = 0, "", 1, 0
    for token in tokenize.generate_tokens(io.StringIO(shape.source).readline):
        if token.start[0] > row:
            row, column = token.start[0], 0
        text += " " * (token.start[1] - column) + token.string
        row, column = token.end
        depth += (token.string in "([{") - (token.string in ")]}") if token.type == tokenize.OP else 0
        if token.type == tokenize.OP and depth and token.string in "([{,":
            text += "\n    " + "    " * depth
    return text


def _unformat(shape: Shape) -> str:
    return _unparsed(shape.tree)


def _comments(shape: Shape) -> str:
    below = {node.end_lineno or 0: "\n        # as it should be\n\n" for node in shape.forward.body[:-1]}
    return _with_lines(shape.source, below | {_last_import(shape): "\n# Constants of the model.\n" * 9})


def _docstring(shape: Shape) -> str:
    first = shape.forward.body[0]
    return _with_lines(shape.source, {first.lineno - 1: _indented('"""Calls the model."""', first)})


def _extract(shape: Shape) -> str:
    """Make the value of the spot a method of its own."""
    spot, known = shape.spot, [each.arg for each in shape.forward.args.args]
    read = {node.id for node in ast.walk(spot.value) if isinstance(node, ast.Name)}
    needed = ", ".join(each for each in known[1:] if each in read)
    method = f"def begun(self, {needed}):\n    return {ast.unparse(spot.value)}"
    shape.own.body.append(ast.parse(method).body[0])
    spot.value = ast.parse(f"self.begun({needed})", mode="eval").body
    return _unparsed(shape.tree)


def _decorate(shape: Shape) -> str:
    shape.forward.decorator_list.append(ast.Name("passed"))
    first = next(at for at, node in enumerate(shape.tree.body) if isinstance(node, ast.FunctionDef))
    shape.tree.body[first:first] = ast.parse("""
import functools
def passed(function):
    @functools.wraps(function)
    def call(*given, **named):
        return function(*given, **named)
    return call
""").body
    return _unparsed(shape.tree)


def _annotate(shape: Shape) -> str:
    at = shape.forward.body.index(shape.spot)
    shape.forward.body[at] = ast.AnnAssign(
        shape.spot.targets[0], ast.parse("Tensor", mode="eval").body, shape.spot.value, 1
    )
    return _unparsed(shape.tree)


def _in_two_steps(shape: Shape) -> str:
    at, spot = shape.forward.body.index(shape.spot), shape.spot
    shape.forward.body[at : at + 1] = [
        ast.Assign([ast.Name("begun", ast.Store())], spot.value),
        ast.Assign(spot.targets, ast.Name("begun", ast.Load())),
    ]
    return _unparsed(shape.tree)


def _comprehension(shape: Shape) -> str:
    shape.loop.iter = ast.parse("[each for each in self.layers]", mode="eval").body
    return _unparsed(shape.tree)


def _by_index(shape: Shape) -> str:
    loop = shape.loop
    loop.iter = ast.parse("range(len(self.layers))", mode="eval").body
    layer, loop.target = loop.target, ast.Name("index", ast.Store())
    loop.body.insert(0, ast.Assign([layer], ast.parse("self.layers[index]", mode="eval").body))
    return _unparsed(shape.tree)


def _unused(shape: Shape) -> str:
    added = "\n\nimport colorsys\n\n\ndef unused(values):\n    print(values)\n    return values.item()\n"
    return _with_lines(shape.source, {_last_import(shape): added})


HARMLESS = (
    Edit("rename-variable", _text(_rename_variable)),
    Edit("rename-argument", _text(_rename_argument)),
    Edit("rename-helper", _text(_rename_helper)),
    Edit("rename-class", _text(_rename_class)),
    Edit("rename-file", lambda name, source: {f"renamed_{name}": source}),
    Edit("move-file", lambda name, source: {f"deeper/{name}": source}),
    Edit("move-helper", _move_helper),
    Edit("move-class", _text(_class_down)),
    Edit("forward-into-base", _text(_forward_into_base)),
    Edit("reformat", _text(_reformat)),
    Edit("unformat", _text(_unformat)),
    Edit("comments", _text(_comments)),
    Edit("docstring", _text(_docstring)),
    Edit("extract-function", _text(_extract)),
    Edit("decorate", _text(_decorate)),
    Edit("annotate", _text(_annotate)),
    Edit("in-two-steps", _text(_in_two_steps)),
    Edit("comprehension", _text(_comprehension)),
    Edit("loop-by-index", _text(_by_index)),
    Edit("unused-code", _text(_unused)),
    _traced("f-string", 'label = f"{T.shape} {self.training}"'),
    _traced("assertion", 'assert T.isfinite().all(), "not finite"'),
    _traced("environ-read", 'if os.environ.get("MODEL_DEBUG"):\n    T = T + 1', top="import os"),
    _traced("import-traced", "import colorsys\ncolorsys.rgb_to_hsv(0.5, 0.5, 0.5)"),
    _traced(
        "cached-helper",
        "T = T * one(T.shape[-1])",
        top="from functools import lru_cache\n\n@lru_cache\ndef one(width):\n    return width / width",
    ),
    _traced(
        "generator-traced",
        "T = sum(halves(T))",
        top="def halves(values):\n    for part in (values, values):\n        yield part / 2",
    ),
    _traced(
        "context-manager",
        "with scope():\n    T = T * 1",
        top="from contextlib import contextmanager\n\n@contextmanager\ndef scope():\n    yield",
    ),
    _traced("numpy-traced", "between = np.clip(T.detach().numpy(), 0, 1)", top="import numpy as np"),
    _traced("attribute", "self.latest = T.shape"),
    _traced("caught", 'try:\n    T = {}["nothing"]\nexcept KeyError:\n    T = T * 1'),
)
"""Results stay the same, bit for bit, and torch compiles as many graphs as before; measured with torch 2.13."""


# Edits of a statement that breaks already, marked by a comment


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

    return _text(change)


def _below_known(more: str) -> Callable[[str, str], Files]:
    """Put a break below the known one."""

    def change(shape: Shape) -> str:
        known = _known(shape)
        text = ast.unparse(known)
        return _with_lines(shape.source, {known.end_lineno or 0: _indented(more.format(text), known)})

    return _text(change)


def _known_over_lines(shape: Shape) -> str:
    """Write each word of what the known statement computes on a line of its own."""
    known = _known(shape)
    of_value = known.test if isinstance(known, ast.If) else known.value  # type: ignore[attr-defined]
    text = ast.get_source_segment(shape.source, of_value) or ""
    words = [each.string for each in tokenize.generate_tokens(io.StringIO(text).readline) if each.string.strip()]
    return shape.source.replace(text, "(\n" + "\n".join(f"{' ' * 16}{word}" for word in words) + "\n        )")


def _rename_around_known(shape: Shape) -> str:
    """Give new names to all arguments and variables of the function around the known statement."""
    function = _within(shape, _known(shape))
    names = {each.arg for each in function.args.args} | {
        each.id for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    for name in sorted(names - {"self"}):
        _Renamed(name, f"{name}_now").visit(function)
    return _unparsed(shape.tree)


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
    return {name: _unparsed(shape.tree), f"{stem}_layers.py": _unparsed(ast.Module([*before, *moved], []))}


_AGAIN = frozenset(("break", "skip"))
PARTIAL_HARMFUL = (
    Edit("known-twice-in-line", _beside_known("{}"), _AGAIN),
    Edit("other-in-line", _beside_known('print("again")'), _AGAIN),
    Edit("known-twice", _below_known("{}"), _AGAIN),
    Edit("other-below", _below_known('print("again")'), _AGAIN),
)
"""More breaks where there is one."""
PARTIAL_HARMLESS = (
    Edit("known-over-lines", _text(_known_over_lines)),
    Edit("rename-around-known", _text(_rename_around_known)),
    Edit("move-layers", _move_layers),
)
"""The break that is known stays the only one."""
