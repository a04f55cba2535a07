"""What instructions do with the values that they take from the stack; those of lists are in `stacklists.py`."""

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.bytecode.rewrites.opcodes import version
from ctrace.inspector.bytecode.rewrites.stackforms import (
    Attribute,
    Built,
    Call,
    Constant,
    Form,
    Function,
    Item,
    Name,
    Null,
    Unknown,
    Value,
)
from ctrace.inspector.bytecode.rewrites.stackstate import State, called, text_of, unpacked, words
from ctrace.inspector.model.bytecode import Code, Instruction

_NULL_LAST = (3, 13)
"""From this Python on, the NULL beside a called function lies above it."""
_DEEPEST = 100
"""So that what a log says cannot nest without end."""
Done = tuple[tuple[Value, ...], State]
"""What an instruction puts, and what is known then."""


class Move(Struct, frozen=True):
    """An instruction about to be followed."""

    code: Code
    index: int
    instruction: Instruction
    taken: tuple[Value, ...]
    number: int
    """How many values it puts."""
    state: State
    """Without what it takes."""

    @property
    def name(self) -> str:
        """The name or constant that it is about, without the mark of a NULL."""
        text = self.instruction.text
        text = text.removeprefix("NULL + ").removeprefix("NULL|self + ")
        return text.removesuffix(" + NULL|self").removesuffix(" + NULL")

    def value(self, form: Form, *parts: Value) -> Value:
        """Make a value by this instruction; nothing is known of one that took very many steps."""
        depth = 1 + max((part.depth for part in parts), default=0)
        return Value(self.index, form, parts, depth) if depth < _DEEPEST else Value(self.index, Unknown())

    def putting(self, *values: Value) -> Done:
        """Put values, and change nothing else."""
        return values, self.state

    def anything(self) -> Done:
        """Put values of which nothing is known but what they were made of."""
        made = self.value(Unknown(self.instruction.opname), *self.taken)
        return (made,) * self.number, self.state

    def same(self) -> Done:
        """Put back what was taken; an instruction without effect on values."""
        return self.putting(*self.taken)

    def swap(self) -> Done:
        """Swap the top with what lies deeper."""
        first, *between, last = self.taken
        return self.putting(last, *between, first)

    def copy(self) -> Done:
        """Put a value once more."""
        return self.putting(*self.taken, self.copied(self.taken[0]))

    def copied(self, value: Value, *more: Value) -> Value:
        """Make a value that is the same as another."""
        made = self.value(value.form, value, *more)
        return replace(made, first=value.root) if made.parts else made

    def ask(self) -> Done:
        """Put the truth of a value, which is written as the value."""
        return self.putting(self.value(self.taken[0].form, *self.taken))

    def constant(self) -> Done:
        """Put a constant; that of a code keeps the code."""
        at = self.instruction.arg
        code = self.code.constants[at].code if at is not None and at < len(self.code.constants) else None
        return self.putting(self.value(Constant(self.name, code)))

    def make_function(self) -> Done:
        """Put a function made of a known code."""
        made = self.taken[-1].form
        code = made.code if isinstance(made, Constant) else None
        return self.anything() if code is None else self.putting(self.value(Function(code), *self.taken))

    def set_function(self) -> Done:
        """Put back a function that got a closure or defaults."""
        return self.putting(self.copied(self.taken[-1], *self.taken[:-1]))

    def null(self) -> Done:
        """Put the NULL beside a function."""
        return self.putting(self.value(Null()))

    def load_local(self) -> Done:
        """Put one local variable or two."""
        return self.putting(*map(self._variable, self.name.split(", ")))

    def _variable(self, name: str) -> Value:
        stored = self.state.variables.get(name)
        if stored is None or name in self._own:
            return self.value(Name("local", name))
        return self.value(stored.form)

    @property
    def _own(self) -> frozenset[str]:
        return frozenset(self.code.variables[: self.code.arguments + self.code.keyword_only])

    def store_local(self) -> Done:
        """Keep values in one local variable or two."""
        return self._stored(self.name.split(", "), self.taken[::-1])

    def store_and_load(self) -> Done:
        """Keep a value in one variable and put another."""
        stored, loaded = self.name.split(", ")
        _, after = self._stored([stored], self.taken)
        return replace(self, state=after).putting(replace(self, state=after)._variable(loaded))

    def _stored(self, names: list[str], values: tuple[Value, ...]) -> Done:
        variables = {**self.state.variables, **dict(zip(names, values, strict=False))}
        return (), replace(self.state, variables=variables)

    def load_closure(self) -> Done:
        """Put a variable of the closure, or its cell."""
        return self.putting(self.value(Name("closure", self.name)))

    def load_global(self) -> Done:
        """Put a global."""
        return self._with_null(self.value(Name("global", self.name)))

    def load_attribute(self) -> Done:
        """Put an attribute or a method."""
        return self._with_null(self.value(Attribute(self.taken[0].form, self.name), *self.taken))

    def _with_null(self, value: Value) -> Done:
        if self.number == 1:
            return self.putting(value)
        null = self.value(Null())
        return self.putting(value, null) if version(self.code) >= _NULL_LAST else self.putting(null, value)

    def build(self) -> Done:
        """Put a tuple, set, map or slice."""
        kind = self.instruction.opname.removeprefix("BUILD_").lower()
        return self.putting(self.value(Built(kind, self.taken), *self.taken))

    def unpack(self) -> Done:
        """Put the items of a sequence, the first on top."""
        of = self.taken[0]
        items = [self.value(Item(of.form, Constant(str(at))), of) for at in range(self.number)]
        return self.putting(*reversed(items))

    def name_keywords(self) -> Done:
        """Keep the names of keywords for the call that follows."""
        return (), replace(self.state, keywords=words(self.name))

    def call(self) -> Done:
        """Put what a call returns."""
        keywords, taken = self.state.keywords, self.taken
        if self.instruction.opname == "CALL_KW":
            keywords, taken = words(text_of(taken[-1])), taken[:-1]
        function, arguments = called(taken)
        if self.instruction.opname == "CALL_FUNCTION_EX":
            arguments, keywords = unpacked(arguments, self.index)
        made = self.value(Call(function.form, arguments, keywords), *self.taken)
        return (made,), replace(self.state, keywords=())
