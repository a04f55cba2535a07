"""Choose names for the variables of a reconstructed function."""

import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterator

from ctrace.inspector.facts.bytecode_facts import Code
from ctrace.inspector.features.bytecode.decompile.symbolic_values import (
    Block,
    Born,
    Const,
    Event,
    Is,
    Leave,
    Not,
    Pair,
    StopError,
    TruthBranch,
    UnpackedIterable,
    Value,
)

_BUILTINS = frozenset(dir(builtins))
_UNIQUE = re.compile(r"_[0-9a-f]{8}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{12}$")
"""The suffix of torch's names for compiled functions (`output_graph.py`: `unique_id(..., with_uuid=True)`)."""


def identifier(name: str) -> str:
    """Return the name if it is a valid identifier; raise StopError otherwise."""
    if not name.isidentifier() or keyword.iskeyword(name):
        msg = f"The name {name!r:.60} cannot be written as source."
        raise StopError(msg)
    return name


def reserved(code: Code) -> set[str]:
    """Return the names that a local variable must not shadow, including names used in nested functions."""
    inner = [reserved(each.code) for each in code.constants if each.code is not None]
    numbers = {"LOAD_GLOBAL": 1, "STORE_GLOBAL": 0, "DELETE_GLOBAL": 0}
    used = [(each.arg or 0) >> numbers[each.opname] for each in code.instructions if each.opname in numbers]
    shared = {code.names[number] for number in used if number < len(code.names)}
    return shared.union(code.free, code.cells, _BUILTINS, *inner)


def suggestion(event: Event) -> str:
    """Suggest a variable name for an event's result."""
    match event:
        case Event(op="load_global" | "getattr" | "import" | "import_from" | "load_deref", detail=str(name)):
            word = _UNIQUE.sub("", name).strip("_").split(".")[0]
        case Event(op="getitem", operands=(_, Const(type="str", text=text))):
            word = text[1:-1]
        case _:
            word = "result" if event.op in ("call", "call_ex") else "value"
    return word if word.isidentifier() and not keyword.iskeyword(word) else "value"


def numbered(word: str) -> Iterator[str]:
    """Yield a name, then the name with the suffixes `_1`, `_2` and so on."""
    yield word
    number = 0
    while True:
        number += 1
        yield f"{word}_{number}"


def uses(block: Block) -> Counter[Value]:
    """Count the uses of each value on the path that uses it most."""
    total: Counter[Value] = Counter()
    for step in block:
        total.update(taken(step))
        match step:
            case TruthBranch():
                total += uses(step.yes) | uses(step.no)
            case Event():
                total += uses(step.failure or [])
                total += uses(step.body or [])
    return total


def all_uses(block: Block) -> Counter[Value]:
    """Count the uses of each value on all paths together."""
    total: Counter[Value] = Counter()
    for step in block:
        total.update(taken(step))
        for inside in _blocks(step):
            total.update(all_uses(inside))
    return total


def _blocks(step: Event | TruthBranch | Leave) -> list[Block]:
    match step:
        case TruthBranch():
            return [step.yes, step.no]
        case Event():
            return [step.failure or [], step.body or []]
        case _:
            return []


def taken(step: Event | TruthBranch | Leave) -> Iterator[Value]:
    """Yield all values that a step takes, including those inside new containers."""
    match step:
        case Event():
            yield from _inside(step.operands, step.born)
        case Leave():
            yield from _inside((step.value,), step.born)
        case TruthBranch():
            yield from _inside((step.test,), ())


def _inside(values: tuple[Value, ...], born: Born) -> Iterator[Value]:
    for value in (*values, *(item for _, contents in born for item in contents.items)):
        match value:
            case Not(inner) | UnpackedIterable(inner):
                yield from _inside((inner,), ())
            case Is(left, right) | Pair(left, right):
                yield from _inside((left, right), ())
            case _:
                yield value
