"""Reduce a code object to a canonical form: two code objects with equal forms behave the same.

A form is the tree of a code object's paths. Each step records its operands, the exception being handled at that point,
and the steps that follow if it raises. Values are numbered in the order in which the path creates them. A container is
numbered, and its contents recorded, at the first step that makes it visible outside the function. The form omits what
nothing outside can see: unused values, variables and the stack. It also omits the lifetime of values, which a finalizer
could see.
"""

from collections.abc import Hashable
from typing import Any

from ctrace.inspector.facts.bytecode_facts import Code
from ctrace.inspector.features.bytecode.operations import traced
from ctrace.inspector.features.bytecode.symbolic_machine import (
    Block,
    Born,
    Contents,
    Event,
    EventResult,
    Fresh,
    Is,
    Leave,
    Not,
    Pair,
    Placeholders,
    SavedException,
    Step,
    TruthBranch,
    UnpackedIterable,
    Value,
)

_KEPT_FLAGS = 0x0C | 0x20 | 0x80 | 0x100 | 0x200
"""Flags for variable arguments, generators and coroutines."""
_HAS_DOCSTRING = 0x4000000
"""A flag from Python 3.13 on. In earlier versions, the first constant is the docstring or None."""


def form_of_code(code: Code, placeholders: Placeholders = frozenset()) -> Hashable:
    """Return the form of a function: its signature and its steps."""
    names = code.variables[: code.arguments + code.keyword_only + (code.flags & 4 > 0) + (code.flags & 8 > 0)]
    signature = (code.arguments, code.positional_only, code.keyword_only, code.flags & _KEPT_FLAGS, names)
    steps = traced(code, placeholders)
    return signature, steps.own_cells, form(steps.block)


def form(block: Block, known: dict[Value, int] | None = None) -> Hashable:
    """Return the form of a block's steps; `known` has the numbers of the values created before it."""
    return _Form(dict(known or {})).block(block)


class _Form:
    def __init__(self, numbers: dict[Any, int]) -> None:
        self._numbers = numbers

    def block(self, block: Block) -> Hashable:
        return tuple(self._step(step) for step in block)

    def _inner(self, block: Block | None) -> Hashable:
        if block is None:
            return None
        # Each inner block numbers on separately, since only one of them runs.
        return _Form(dict(self._numbers)).block(block)

    def _step(self, step: Step) -> Hashable:
        match step:
            case Event():
                return self._event(step)
            case TruthBranch():
                return "branch", self._value(step.test), self._inner(step.yes), self._inner(step.no)
            case Leave():
                born = self._born(step.born)
                return step.how, born, self._value(step.value), self._handled(step.handled)

    def _event(self, step: Event) -> Hashable:
        born = self._born(step.born)
        operands = tuple(self._value(each) for each in step.operands)
        handled = self._handled(step.handled)
        # The next number is that of the exception in the failure block, and of the result in the steps after a success.
        failure = self._inner(step.failure)
        self._numbers[step.number] = len(self._numbers)
        return step.op, step.detail, born, operands, handled, step.results, failure, self._inner(step.body)

    def _handled(self, value: Value | None) -> Hashable:
        if value is None:
            return None
        return self._value(value)

    def _born(self, born: Born) -> Hashable:
        # All numbers first: containers may hold each other.
        for made, _ in born:
            self._numbers[made] = len(self._numbers)
        return tuple((made.kind, self._contents(contents)) for made, contents in born)

    def _contents(self, contents: Contents) -> Hashable:
        code = None
        if contents.code is not None:
            code = (_visible_names(contents.code), form_of_code(contents.code))
        return tuple(self._value(item) for item in contents.items), contents.parts, code

    def _value(self, value: Value) -> Hashable:
        match value:
            case EventResult(event, part):
                return "made", self._number(event), part
            case Fresh():
                return "fresh", self._number(value)
            case Not(inner):
                return "not", self._value(inner)
            case UnpackedIterable(inner):
                return "spread", self._value(inner)
            case Is(left, right):
                return "is", self._value(left), self._value(right)
            case Pair(key, item):
                return "pair", self._value(key), self._value(item)
            case SavedException():
                return "saved", self._handled(value.handled)
            case _:
                return value

    def _number(self, key: Any) -> int:
        # Only exceptions have no number yet; they get one at their first use.
        return self._numbers.setdefault(key, len(self._numbers))


def _visible_names(code: Code) -> Hashable:
    """Return a nested function's name and docstring, which other code can read."""
    return code.name, docstring(code)


def docstring(code: Code) -> str | None:
    """Return the source of a function's docstring."""
    has = code.flags & _HAS_DOCSTRING or code.python < "3.13"
    first = None
    if code.constants and has:
        first = code.constants[0]
    if first is not None and first.type == "str":
        return first.text
    return None
