"""Track the values that instructions pop and push; `stackwalk.py` has the instructions on lists."""

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.bytecode_facts import Code, Instruction
from ctrace.inspector.features.bytecode.rewrites.opcodes import version
from ctrace.inspector.features.bytecode.rewrites.stackforms import (
    Attribute,
    BuiltContainer,
    CallResult,
    ConstantForm,
    Form,
    FunctionForm,
    ItemForm,
    NullForm,
    UnknownForm,
    Value,
    VariableForm,
)
from ctrace.inspector.features.bytecode.rewrites.stackstate import StackState, called, text_of, unpacked, words

_NULL_LAST = (3, 13)
"""From this Python version on, the NULL is above the called function on the stack."""
_DEEPEST = 100
"""Limits the nesting of values, since a log can be damaged."""
Done = tuple[tuple[Value, ...], StackState]
"""The values that an instruction pushes, and the state after it."""


class Move(Struct, frozen=True):
    """An instruction to track, with the values it pops."""

    code: Code
    index: int
    instruction: Instruction
    taken: tuple[Value, ...]
    number: int
    """The number of values that the instruction pushes."""
    state: StackState
    """The state before the instruction, without the values that it pops."""

    @property
    def name(self) -> str:
        """The name or constant in the instruction's argument, without `NULL +`."""
        text = self.instruction.text
        text = text.removeprefix("NULL + ").removeprefix("NULL|self + ")
        return text.removesuffix(" + NULL|self").removesuffix(" + NULL")

    def value(self, form: Form, *parts: Value) -> Value:
        """Return a value produced by this instruction; it is unknown if its nesting is too deep."""
        depth = 1 + max((part.depth for part in parts), default=0)
        return Value(self.index, form, parts, depth) if depth < _DEEPEST else Value(self.index, UnknownForm())

    def putting(self, *values: Value) -> Done:
        """Push values, and keep the rest of the state."""
        return values, self.state

    def anything(self) -> Done:
        """Push unknown values, produced from the popped ones."""
        made = self.value(UnknownForm(self.instruction.opname), *self.taken)
        return (made,) * self.number, self.state

    def same(self) -> Done:
        """Push the popped values back, for instructions that do not change values."""
        return self.putting(*self.taken)

    def swap(self) -> Done:
        """Swap the top of the stack with a deeper value."""
        first, *between, last = self.taken
        return self.putting(last, *between, first)

    def copy(self) -> Done:
        """Push a copy of a value."""
        return self.putting(*self.taken, self.copied(self.taken[0]))

    def copied(self, value: Value, *more: Value) -> Value:
        """Return a copy of a value, produced by this instruction."""
        made = self.value(value.form, value, *more)
        return replace(made, first=value.root) if made.parts else made

    def ask(self) -> Done:
        """Push the truth of a value, which is written like the value."""
        return self.putting(self.value(self.taken[0].form, *self.taken))

    def constant(self) -> Done:
        """Push a constant, with its code object if it is one."""
        at = self.instruction.arg
        code = self.code.constants[at].code if at is not None and at < len(self.code.constants) else None
        return self.putting(self.value(ConstantForm(self.name, code)))

    def make_function(self) -> Done:
        """Push a function created from a known code object."""
        made = self.taken[-1].form
        code = made.code if isinstance(made, ConstantForm) else None
        return self.anything() if code is None else self.putting(self.value(FunctionForm(code), *self.taken))

    def set_function(self) -> Done:
        """Push a function back after it got a closure or defaults."""
        return self.putting(self.copied(self.taken[-1], *self.taken[:-1]))

    def null(self) -> Done:
        """Push a NULL."""
        return self.putting(self.value(NullForm()))

    def load_local(self) -> Done:
        """Push one or two local variables."""
        return self.putting(*map(self._variable, self.name.split(", ")))

    def _variable(self, name: str) -> Value:
        stored = self.state.variables.get(name)
        if stored is None or name in self._own:
            return self.value(VariableForm("local", name))
        return self.value(stored.form)

    @property
    def _own(self) -> frozenset[str]:
        return frozenset(self.code.variables[: self.code.arguments + self.code.keyword_only])

    def store_local(self) -> Done:
        """Store values in one or two local variables."""
        return self._store(self.name.split(", "), self.taken[::-1])

    def store_and_load(self) -> Done:
        """Store a value in one variable and push another."""
        stored, loaded = self.name.split(", ")
        _, after = self._store([stored], self.taken)
        return replace(self, state=after).putting(replace(self, state=after)._variable(loaded))

    def _store(self, names: list[str], values: tuple[Value, ...]) -> Done:
        variables = {**self.state.variables, **dict(zip(names, values, strict=False))}
        return (), replace(self.state, variables=variables)

    def load_closure(self) -> Done:
        """Push a closure variable, or its cell."""
        return self.putting(self.value(VariableForm("closure", self.name)))

    def load_global(self) -> Done:
        """Push a global."""
        return self._with_null(self.value(VariableForm("global", self.name)))

    def load_attribute(self) -> Done:
        """Push an attribute or a method."""
        return self._with_null(self.value(Attribute(self.taken[0].form, self.name), *self.taken))

    def _with_null(self, value: Value) -> Done:
        if self.number == 1:
            return self.putting(value)
        null = self.value(NullForm())
        return self.putting(value, null) if version(self.code) >= _NULL_LAST else self.putting(null, value)

    def build(self) -> Done:
        """Push a tuple, set, map or slice."""
        kind = self.instruction.opname.removeprefix("BUILD_").lower()
        return self.putting(self.value(BuiltContainer(kind, self.taken), *self.taken))

    def unpack(self) -> Done:
        """Push the items of a sequence, the first on top."""
        of = self.taken[0]
        items = [self.value(ItemForm(of.form, ConstantForm(str(at))), of) for at in range(self.number)]
        return self.putting(*reversed(items))

    def name_keywords(self) -> Done:
        """Store the keyword names for the next call."""
        return (), replace(self.state, keywords=words(self.name))

    def call(self) -> Done:
        """Push the result of a call."""
        keywords, taken = self.state.keywords, self.taken
        if self.instruction.opname == "CALL_KW":
            keywords, taken = words(text_of(taken[-1])), taken[:-1]
        function, arguments = called(taken)
        if self.instruction.opname == "CALL_FUNCTION_EX":
            arguments, keywords = unpacked(arguments, self.index)
        made = self.value(CallResult(function.form, arguments, keywords), *self.taken)
        return (made,), replace(self.state, keywords=())
