"""Edits that change nothing that torch.compile looks at."""

import ast
import io
import tokenize

from tests.mutation.shapes import (
    Edit,
    Files,
    Renamed,
    Shape,
    indented,
    inserted,
    last_import,
    of_text,
    shape_of,
    unparsed,
    with_lines,
)


def _traced(name: str, body: str, *, top: str = "", init: str = "") -> Edit:
    """What torch 2.13 traces through without a break."""
    return Edit(name, inserted(body, top=top, init=init))


def _rename_variable(shape: Shape) -> str:
    Renamed(shape.tensor, "renamed").visit(shape.forward)
    return ast.unparse(shape.tree)


def _rename_argument(shape: Shape) -> str:
    was = shape.forward.args.args[1].arg
    Renamed(was, "given").visit(shape.forward)
    for node in shape.tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == "inputs":
            Renamed(was, "given", keywords=True).visit(node)
    return ast.unparse(shape.tree)


def _rename_helper(shape: Shape) -> str:
    return ast.unparse(Renamed(shape.helper.name, "renamed").visit(shape.tree))


def _rename_class(shape: Shape) -> str:
    return ast.unparse(Renamed(shape.own.name, "Renamed").visit(shape.tree))


def _move_helper(name: str, source: str) -> Files:
    shape = shape_of(source)
    stem, helper = name.removesuffix(".py"), shape.helper
    imports = [each for each in shape.tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    elsewhere = ast.Module([*imports, helper], [])
    here = ast.ImportFrom(f"{stem}_helpers", [ast.alias(helper.name)], 0)
    shape.tree.body[shape.tree.body.index(helper)] = here
    return {name: unparsed(shape.tree), f"{stem}_helpers.py": unparsed(elsewhere)}


def _class_down(shape: Shape) -> str:
    own = shape.own
    shape.tree.body.remove(own)
    shape.tree.body.append(own)
    return unparsed(shape.tree)


def _forward_into_base(shape: Shape) -> str:
    """Move `forward` into a class that the own one derives from."""
    own, forward = shape.own, shape.forward
    own.body.remove(forward)
    (base,) = ast.parse("class Forward: ...").body
    assert isinstance(base, ast.ClassDef)
    base.bases, base.body = own.bases, [forward]
    own.bases = [ast.Name("Forward")]
    shape.tree.body.insert(shape.tree.body.index(own), base)
    return unparsed(shape.tree)


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
    return unparsed(shape.tree)


def _comments(shape: Shape) -> str:
    below = {node.end_lineno or 0: "\n        # as it should be\n\n" for node in shape.forward.body[:-1]}
    return with_lines(shape.source, below | {last_import(shape): "\n# Constants of the model.\n" * 9})


def _docstring(shape: Shape) -> str:
    first = shape.forward.body[0]
    return with_lines(shape.source, {first.lineno - 1: indented('"""Calls the model."""', first)})


def _extract(shape: Shape) -> str:
    """Make the value of the spot a method of its own."""
    spot, known = shape.spot, [each.arg for each in shape.forward.args.args]
    read = {node.id for node in ast.walk(spot.value) if isinstance(node, ast.Name)}
    needed = ", ".join(each for each in known[1:] if each in read)
    method = f"def begun(self, {needed}):\n    return {ast.unparse(spot.value)}"
    shape.own.body.append(ast.parse(method).body[0])
    spot.value = ast.parse(f"self.begun({needed})", mode="eval").body
    return unparsed(shape.tree)


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
    return unparsed(shape.tree)


def _annotate(shape: Shape) -> str:
    at, target = shape.forward.body.index(shape.spot), shape.spot.targets[0]
    assert isinstance(target, ast.Name)
    shape.forward.body[at] = ast.AnnAssign(target, ast.parse("Tensor", mode="eval").body, shape.spot.value, 1)
    return unparsed(shape.tree)


def _in_two_steps(shape: Shape) -> str:
    at, spot = shape.forward.body.index(shape.spot), shape.spot
    shape.forward.body[at : at + 1] = [
        ast.Assign([ast.Name("begun", ast.Store())], spot.value),
        ast.Assign(spot.targets, ast.Name("begun", ast.Load())),
    ]
    return unparsed(shape.tree)


def _comprehension(shape: Shape) -> str:
    shape.loop.iter = ast.parse("[each for each in self.layers]", mode="eval").body
    return unparsed(shape.tree)


def _by_index(shape: Shape) -> str:
    loop = shape.loop
    loop.iter = ast.parse("range(len(self.layers))", mode="eval").body
    layer, loop.target = loop.target, ast.Name("index", ast.Store())
    loop.body.insert(0, ast.Assign([layer], ast.parse("self.layers[index]", mode="eval").body))
    return unparsed(shape.tree)


def _unused(shape: Shape) -> str:
    added = "\n\nimport colorsys\n\n\ndef unused(values):\n    print(values)\n    return values.item()\n"
    return with_lines(shape.source, {last_import(shape): added})


HARMLESS = (
    Edit("rename-variable", of_text(_rename_variable)),
    Edit("rename-argument", of_text(_rename_argument)),
    Edit("rename-helper", of_text(_rename_helper)),
    Edit("rename-class", of_text(_rename_class)),
    Edit("move-file", lambda name, source: {f"deeper/{name}": source}),
    Edit("move-helper", _move_helper),
    Edit("move-class", of_text(_class_down)),
    Edit("forward-into-base", of_text(_forward_into_base)),
    Edit("reformat", of_text(_reformat)),
    Edit("unformat", of_text(_unformat)),
    Edit("comments", of_text(_comments)),
    Edit("docstring", of_text(_docstring)),
    Edit("extract-function", of_text(_extract)),
    Edit("decorate", of_text(_decorate)),
    Edit("annotate", of_text(_annotate)),
    Edit("in-two-steps", of_text(_in_two_steps)),
    Edit("comprehension", of_text(_comprehension)),
    Edit("loop-by-index", of_text(_by_index)),
    Edit("unused-code", of_text(_unused)),
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
RENAME_FILE = Edit("rename-file", lambda name, source: {f"renamed_{name}": source})
"""Of several models that are renamed at once, none is found from the others."""
