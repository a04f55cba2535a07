"""Build a list where a function gets a generator and uses all of it.

Matches a generator expression that is the only argument of sum, list, tuple, set, max, min, sorted, `join`, `any`,
`all`, or of torch.stack and torch.cat. `any` and `all` stop early, so only elements without effects count for them.

Leaves alone generators that are stored, passed to other functions, or `async`, and elements that call `next`.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from ctrace.inspector.edits.syntax_code import ParsedFile, code_of, walk
from ctrace.inspector.edits.syntax_edits import Edits
from ctrace.inspector.edits.syntax_effects import is_pure
from ctrace.inspector.edits.syntax_names import full_name
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace, SourceRepair, SourceRewrite

_WHOLE = frozenset({"sum", "list", "tuple", "set", "max", "min", "sorted", "torch.stack", "torch.cat"})
_EARLY = frozenset({"any", "all"})
_NEXT = m.Call(func=m.Name("next") | m.Attribute(attr=m.Name("__next__")))


def find(place: RepairPlace) -> Iterator[SourceRewrite]:
    """Yield the generator at a place as a list."""
    code = code_of(place)
    if code is None:
        return
    for node in code.head(place.line):
        call = _consumer(code, node)
        if call is None or not isinstance(node, cst.GeneratorExp):
            continue
        name = full_name(code, call.func)
        if _may_stop(node):
            continue
        if name not in _WHOLE and not (name in _EARLY and _is_plain(code, node)):
            continue
        text = code.text(node)
        # `torch.stack((f(x) for x in y))` has parentheses besides those of the call, `sum(f(x) for x in y)` has none.
        if node.lpar:
            inner = text[1:-1]
        else:
            inner = text
        edits = Edits(code)
        # `[... for ...]` is the list, and `list([...])` would copy it.
        if name == "list":
            edits.expression(call, f"[{inner}]")
        else:
            edits.expression(node, f"[{inner}]")
        yield SourceRewrite(edits.apply(), f"Build a list for `{name}` instead of a generator.")


def _may_stop(node: cst.GeneratorExp) -> bool:
    """Whether an element may raise StopIteration: a generator raises RuntimeError instead, a list does not."""
    return bool(m.findall(node, _NEXT))


def _consumer(code: ParsedFile, node: cst.CSTNode) -> cst.Call | None:
    """Return the call whose only positional argument a node is."""
    call = code.call_with(node)
    if call is None or call.args[0].value is not node or call.args[0].star or call.args[0].keyword:
        return None
    if all(arg.keyword for arg in call.args[1:]):
        return call
    return None


def _is_plain(code: ParsedFile, node: cst.GeneratorExp) -> bool:
    """Whether computing every element, and not only the first ones, changes nothing: none has effects or may raise."""
    risky = (cst.Subscript, cst.Divide, cst.FloorDivide, cst.Modulo, cst.Power, cst.Call)
    parts = [node.elt]
    loop: cst.CompFor | None = node.for_in
    while loop is not None:
        if loop.asynchronous is not None:
            return False
        parts += [one.test for one in loop.ifs]
        loop = loop.inner_for_in
    return all(is_pure(code, part) and not any(isinstance(one, risky) for one in walk(part)) for part in parts)


REPAIR = SourceRepair("generator_list", "a list instead of a generator", find)
