"""What a value on the stack is, as far as the code that made it tells; and how it is written for the user."""

from collections.abc import Mapping

from msgspec import Struct, field

from ctrace.inspector.model.bytecode import Code
from ctrace.inspector.source.names import user_name

_DIGITS = 18
"""Longer numbers are no index."""


class Name(Struct, frozen=True):
    """A variable; `scope` is `local`, `closure` or `global`."""

    scope: str
    name: str


class Attribute(Struct, frozen=True):
    """An attribute of a value."""

    of: "Form"
    name: str


class Item(Struct, frozen=True):
    """`of[key]`."""

    of: "Form"
    key: "Form"


class Constant(Struct, frozen=True):
    """A constant; `text` is its repr."""

    text: str
    code: Code | None = None
    """For the code of a function."""

    @property
    def number(self) -> int | None:
        """Its value, where it is a whole number."""
        short = len(self.text) <= _DIGITS
        return int(self.text) if short and self.text.removeprefix("-").isdecimal() else None


class Built(Struct, frozen=True):
    """A tuple, set, map (keys and values in turn), slice or string of some values; or the `spread` of one in a call."""

    kind: str
    items: tuple["Value", ...]


class ListOf(Struct, frozen=True):
    """A list that this code made; what is in it changes, and is kept in `Lists`."""

    number: int


class Call(Struct, frozen=True):
    """What a call returned."""

    function: "Form"
    arguments: tuple["Value", ...] = ()
    keywords: tuple[str, ...] = ()


class Function(Struct, frozen=True):
    """A function made of a code."""

    code: Code


class Null(Struct, frozen=True):
    """The NULL beside a called function."""


class Unknown(Struct, frozen=True):
    """Any other value; `what` names the instruction that made it."""

    what: str = ""


Form = Name | Attribute | Item | Constant | Built | ListOf | Call | Function | Null | Unknown


class Value(Struct, frozen=True, eq=False):
    """A value on the stack, and which instructions made it."""

    made: int
    """Index of the instruction that put it there; -1 where that is not known."""
    form: Form
    parts: tuple["Value", ...] = ()
    """What it was made of."""
    depth: int = 0
    """How many steps made it, one of the other."""
    first: "Value | None" = field(default=None)
    """The same value where it was first made, if this is a copy or an item of a list."""

    @property
    def root(self) -> "Value":
        """The value where it was first made."""
        return self if self.first is None else self.first


Lists = Mapping[int, tuple[Value, ...]]
"""Items of the lists that the code made, by number."""
_PREFIX = "builtins."
_GRAPH = "__compiled_fn_"
"""What torch calls the function of a graph (2.11 and 2.13, _dynamo/output_graph.py, `compile_and_call_fx_graph`)."""
_STARS = {"spread": "*", "spread_map": "**"}
_BRACKETS = {"tuple": ("(", ")"), "set": ("{", "}")}
_LONGEST = 6
_UTILS = "torch._dynamo.utils."
_HELPERS = {
    "call_size": "{0}.size({1})",
    "call_stride": "{0}.stride({1})",
    "list_getitem": "{0}[{1}]",
    "dict_getitem": "{0}[{1}]",
    "dict_keys_getitem": "key {1} of {0}",
    "to_subclass": "{0} as a {1}",
}
"""Functions of torch's that its code calls on a user's objects (2.11 and 2.13, _dynamo/utils.py)."""
_NESTED = "torch._dynamo.variables.functions._create_nested_fn"
_NAME_OF_NESTED = 2
"""What makes a function that the traced code made, and where among its arguments the name is (2.13)."""
_AS_TENSOR = "torch._as_tensor_fullprec"
"""What makes a tensor of a float that changes from call to call."""


def is_path(form: Form) -> bool:
    """Whether a value is looked up: a variable, or something that hangs on one."""
    match form:
        case Name():
            return True
        case Attribute(of, _):
            return is_path(of)
        case Item(of, key):
            return is_path(of) and (isinstance(key, Constant) or is_path(key))
    return False


def root_of(form: Form) -> Name | None:
    """Return the variable that a path begins at."""
    while isinstance(form, Attribute | Item):
        form = form.of
    return form if isinstance(form, Name) else None


def output_number(form: Form) -> int | None:
    """Say which output of a graph a value is; None where it is none."""
    if isinstance(form, Item) and isinstance(form.of, Call) and isinstance(form.key, Constant):
        return form.key.number if is_graph(form.of.function) else None
    return None


def is_graph(form: Form) -> bool:
    """Whether it is the function that runs a graph."""
    return isinstance(form, Name) and form.scope == "global" and form.name.startswith(_GRAPH)


def is_new(form: Call) -> bool:
    """Whether a call makes an object without setting it up: `X.__new__(X)`."""
    return isinstance(form.function, Attribute) and form.function.name == "__new__"


def written(form: Form, lists: Lists) -> str:
    """Write a value as source, in the user's names; `…` for what is not known."""
    if (output := output_number(form)) is not None:
        return f"output {output}"
    if is_path(form):
        return user_name(_source(form)).removeprefix(_PREFIX)
    match form:
        case Constant(text):
            return text
        case Function(code):
            return code.name
        case Attribute(of, name):
            return f"{written_owner(of, lists)}.{name}"
        case Item(of, key):
            return f"{written_owner(of, lists)}[{written(key, lists)}]"
    return _made(form, lists)


def written_owner(form: Form, lists: Lists) -> str:
    """Write what something hangs on."""
    text = written(form, lists)
    several_words = isinstance(form, Call) and is_new(form)
    return f"({text})" if several_words or output_number(form) is not None else text


def _made(form: Form, lists: Lists) -> str:
    match form:
        case ListOf(number):
            return f"[{_joined(lists.get(number, ()), lists)}]"
        case Call(Attribute(of, "__new__"), _, _):
            return f"a new {written(of, lists).rpartition('.')[2]}"
        case Call(function, arguments, keywords):
            name, texts = written(function, lists), _arguments(arguments, keywords, lists)
            return _helped(name, texts) or f"{name}({', '.join(texts)})"
        case Built(kind, items):
            return _built(kind, items, lists)
    return "…"


def _source(form: Form) -> str:
    match form:
        case Name(_, name):
            return name
        case Attribute(of, name):
            return f"{_source(of)}.{name}"
        case Item(of, Constant(text)):
            return f"{_source(of)}[{text}]"
        case Item(of, key):
            return f"{_source(of)}[{_source(key)}]"
    return ""


def _joined(items: tuple[Value, ...], lists: Lists) -> str:
    return _shortened([written(item.form, lists) for item in items])


def _shortened(texts: list[str]) -> str:
    # The last one is what the code itself adds to a list, most often.
    return ", ".join(texts if len(texts) <= _LONGEST else [*texts[: _LONGEST - 1], "…", texts[-1]])


def _arguments(arguments: tuple[Value, ...], keywords: tuple[str, ...], lists: Lists) -> list[str]:
    texts = [written(each.form, lists) for each in arguments]
    plain = len(texts) - len(keywords)
    return [*texts[:plain], *(f"{name}={text}" for name, text in zip(keywords, texts[plain:], strict=False))]


def _helped(function: str, arguments: list[str]) -> str:
    """Write a call of a helper of torch's own as what it helps with; empty for any other call."""
    if function.startswith(_UTILS) and len(arguments) == 2:
        return _HELPERS.get(function.removeprefix(_UTILS), "").format(*arguments)
    if function == _NESTED and len(arguments) > _NAME_OF_NESTED:
        return arguments[_NAME_OF_NESTED].strip("'")
    return f"{arguments[0]} as a tensor" if function == _AS_TENSOR and len(arguments) == 1 else ""


def _built(kind: str, items: tuple[Value, ...], lists: Lists) -> str:
    texts = [written(item.form, lists) for item in items]
    if kind == "map":
        pairs = [f"{key}: {value}" for key, value in zip(texts[::2], texts[1::2], strict=False)]
        return f"{{{', '.join(pairs[:_LONGEST])}{', …' if len(pairs) > _LONGEST else ''}}}"
    if kind in _STARS:
        return f"{_STARS[kind]}{''.join(texts)}"
    if kind == "slice":
        return ":".join("" if text == "None" else text for text in texts)
    left, right = _BRACKETS[kind]
    return f"{left}{_shortened(texts)}{',' if kind == 'tuple' and len(items) == 1 else ''}{right}"
