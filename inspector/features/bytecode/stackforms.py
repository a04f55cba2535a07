"""Describe the values on the stack by the instructions that produced them, and write them for the user."""

from collections.abc import Mapping

from msgspec import Struct, field

from ctrace.inspector.facts.bytecode_facts import Code
from ctrace.inspector.knowledge.counting import first_of
from ctrace.inspector.source.source_names import user_name

_DIGITS = 18
"""Maximum digits of an index; longer numbers are not indexes."""


class VariableForm(Struct, frozen=True):
    """A variable; `scope` is `local`, `closure` or `global`."""

    scope: str
    name: str


class Attribute(Struct, frozen=True):
    """An attribute of a value."""

    of: "Form"
    name: str


class ItemForm(Struct, frozen=True):
    """`of[key]`."""

    of: "Form"
    key: "Form"


class ConstantForm(Struct, frozen=True):
    """A constant; `text` is its repr."""

    text: str
    code: Code | None = None
    """The code object, if the constant is one."""

    @property
    def number(self) -> int | None:
        """Its value if it is an integer, else None."""
        short = len(self.text) <= _DIGITS
        if short and self.text.removeprefix("-").isdecimal():
            return int(self.text)
        return None


class BuiltContainer(Struct, frozen=True):
    """A tuple, set, map (keys and values alternate), slice or string; or a value unpacked in a call (`spread`)."""

    kind: str
    items: tuple["Value", ...]


class ListOf(Struct, frozen=True):
    """A list that this code created; `Lists` has its items, which can change."""

    number: int


class CallResult(Struct, frozen=True):
    """The result of a call."""

    function: "Form"
    arguments: tuple["Value", ...] = ()
    keywords: tuple[str, ...] = ()


class FunctionForm(Struct, frozen=True):
    """A function created from a code object."""

    code: Code


class NullForm(Struct, frozen=True):
    """The NULL beside a called function."""


class UnknownForm(Struct, frozen=True):
    """Any other value; `what` names the instruction that produced it."""

    what: str = ""


Form = (
    VariableForm
    | Attribute
    | ItemForm
    | ConstantForm
    | BuiltContainer
    | ListOf
    | CallResult
    | FunctionForm
    | NullForm
    | UnknownForm
)


class Value(Struct, frozen=True, eq=False):
    """A value on the stack, and the instructions that produced it."""

    made: int
    """Index of the instruction that pushed it; -1 if not known."""
    form: Form
    parts: tuple["Value", ...] = ()
    """The values that it was produced from."""
    depth: int = 0
    """The length of the longest chain of instructions that produced it."""
    first: "Value | None" = field(default=None)
    """The original value, if this is a copy or an item of a list."""

    @property
    def root(self) -> "Value":
        """The original of this value, or the value if it is no copy."""
        if self.first is None:
            return self
        return self.first


Lists = Mapping[int, tuple[Value, ...]]
"""Items of the lists that the code created, keyed by list number."""
_PREFIX = "builtins."
_GRAPH = "__compiled_fn_"
"""Torch's name for the function of a graph (2.11 and 2.13, _dynamo/output_graph.py, `compile_and_call_fx_graph`)."""
_STARS = {"spread": "*", "spread_map": "**"}
_BRACKETS = {"tuple": ("(", ")"), "set": ("{", "}")}
# Chosen: a container's text is part of a line of the diff, which has about 60 columns for it.
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
"""Torch functions that inserted code calls on the user's objects (2.11 and 2.13, _dynamo/utils.py)."""
_NESTED = "torch._dynamo.variables.functions._create_nested_fn"
_NAME_OF_NESTED = 2
"""Torch's function that recreates a nested function, and the position of its name argument (2.13)."""
_AS_TENSOR = "torch._as_tensor_fullprec"
"""Torch's function that converts a float that changes from call to call to a tensor."""


def is_path(form: Form) -> bool:
    """Whether a value is a variable, or an attribute or item path that starts at one."""
    match form:
        case VariableForm():
            return True
        case Attribute(of, _):
            return is_path(of)
        case ItemForm(of, key):
            # A key that was computed is no place that has a name.
            return is_path(of) and (isinstance(key, ConstantForm) or is_path(key))
    return False


def root_of(form: Form) -> VariableForm | None:
    """Return the variable that a path starts at."""
    while isinstance(form, Attribute | ItemForm):
        form = form.of
    if isinstance(form, VariableForm):
        return form
    return None


def output_number(form: Form) -> int | None:
    """Return the number of the graph output that a value is, or None for another value."""
    if isinstance(form, ItemForm) and isinstance(form.of, CallResult) and isinstance(form.key, ConstantForm):
        if is_graph(form.of.function):
            return form.key.number
        return None
    return None


def is_graph(form: Form) -> bool:
    """Whether a value is the function that runs a graph."""
    return isinstance(form, VariableForm) and form.scope == "global" and form.name.startswith(_GRAPH)


def is_new(form: CallResult) -> bool:
    """Whether a call creates an object without initializing it: `X.__new__(X)`."""
    return isinstance(form.function, Attribute) and form.function.name == "__new__"


def written(form: Form, lists: Lists) -> str:
    """Write a value as source with the user's names; `…` for unknown values."""
    if (output := output_number(form)) is not None:
        return f"output {output}"
    if is_path(form):
        # Dynamo's own names, such as `__builtins_dict__`, are not the user's.
        return user_name(_source(form)).removeprefix(_PREFIX)
    match form:
        case ConstantForm(text):
            return text
        case FunctionForm(code):
            return code.name
        case Attribute(of, name):
            return f"{written_owner(of, lists)}.{name}"
        case ItemForm(of, key):
            return f"{written_owner(of, lists)}[{written(key, lists)}]"
    return _made(form, lists)


def written_owner(form: Form, lists: Lists) -> str:
    """Write the owner of an attribute or item, in parentheses if necessary."""
    text = written(form, lists)
    several_words = isinstance(form, CallResult) and is_new(form)
    if several_words or output_number(form) is not None:
        return f"({text})"
    return text


def _made(form: Form, lists: Lists) -> str:
    match form:
        case ListOf(number):
            return f"[{_joined(lists.get(number, ()), lists)}]"
        case CallResult(Attribute(of, "__new__"), _, _):
            return f"a new {written(of, lists).rpartition('.')[2]}"
        case CallResult(function, arguments, keywords):
            name, texts = written(function, lists), _arguments(arguments, keywords, lists)
            return _helped(name, texts) or f"{name}({', '.join(texts)})"
        case BuiltContainer(kind, items):
            return _built(kind, items, lists)
    return "…"


def _source(form: Form) -> str:
    match form:
        case VariableForm(_, name):
            return name
        case Attribute(of, name):
            return f"{_source(of)}.{name}"
        case ItemForm(of, ConstantForm(text)):
            return f"{_source(of)}[{text}]"
        case ItemForm(of, key):
            return f"{_source(of)}[{_source(key)}]"
    return ""


def _joined(items: tuple[Value, ...], lists: Lists) -> str:
    return _shortened([written(item.form, lists) for item in items])


def _shortened(texts: list[str]) -> str:
    # Keep the last item: inserted code usually appends to a list.
    if len(texts) > _LONGEST:
        texts = [*texts[: _LONGEST - 1], "…", texts[-1]]
    return ", ".join(texts)


def _arguments(arguments: tuple[Value, ...], keywords: tuple[str, ...], lists: Lists) -> list[str]:
    texts = [written(each.form, lists) for each in arguments]
    plain = len(texts) - len(keywords)
    return [*texts[:plain], *(f"{name}={text}" for name, text in zip(keywords, texts[plain:], strict=False))]


def _helped(function: str, arguments: list[str]) -> str:
    """Write a call of a torch helper as the operation that it performs; return "" for any other call."""
    if function.startswith(_UTILS) and len(arguments) == 2:
        return _HELPERS.get(function.removeprefix(_UTILS), "").format(*arguments)
    if function == _NESTED and len(arguments) > _NAME_OF_NESTED:
        return arguments[_NAME_OF_NESTED].strip("'")
    if function == _AS_TENSOR and len(arguments) == 1:
        return f"{arguments[0]} as a tensor"
    return ""


def _built(kind: str, items: tuple[Value, ...], lists: Lists) -> str:
    texts = [written(item.form, lists) for item in items]
    if kind == "map":
        pairs = [f"{key}: {value}" for key, value in zip(texts[::2], texts[1::2], strict=False)]
        return f"{{{first_of(pairs, _LONGEST)}}}"
    if kind in _STARS:
        return f"{_STARS[kind]}{''.join(texts)}"
    if kind == "slice":
        # As in source: `x[:3]`, not `x[None:3]`.
        return ":".join("" if text == "None" else text for text in texts)
    left, right = _BRACKETS[kind]
    if kind == "tuple" and len(items) == 1:
        return f"({texts[0]},)"
    return f"{left}{_shortened(texts)}{right}"
