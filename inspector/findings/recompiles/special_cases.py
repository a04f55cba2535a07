"""Name the special case of a cause: a situation in which a kind of cause needs other advice than usual.

The special case of a cause of kind KIND selects the entry `KIND/CASE` in advice/causes.yaml: a size that is a
parameter's, for instance, selects `size/parameter`. The decision uses the cause, torch's text for the failed guard, and
facts about the cache entry. Guard texts are those of 2.13 (_dynamo/guards.py, csrc/dynamo/guards.cpp).
"""

import re
from collections.abc import Callable

from msgspec import Struct

from ctrace.inspector.facts.findings import TENSOR_CAUSES, Cause, CauseKind
from ctrace.inspector.facts.guard_facts import UnmetGuard
from ctrace.inspector.findings.recompiles.recompile_causes import (
    ITERATOR,
    LAZY_COPY,
    POSITION,
    STREAM,
    cause_of,
    literal_type,
)

_NUMBERS = frozenset(("int", "float", "bool"))


class CauseFacts(Struct, frozen=True):
    """The facts about a cause on which its special case depends; an unknown fact counts as false."""

    kind: CauseKind
    subject: str
    was: str | None = None
    now: str | None = None
    guard: str = ""
    """Torch's text for the guard, such as `L['self'].step == 1`, without the source line that torch quotes."""
    hint: str = ""
    """Torch's hint on the guard."""
    holder: str = ""
    """Who owns the attribute or container: `module`, `optimizer` or `object`; if empty, `guard` and `hint` decide."""
    is_first: bool = False
    """Whether the cause compares the call with the function's first cache entry."""
    is_fixed: bool = False
    """Whether the user's code specialized a dynamic size or number."""
    fixed_by: str = ""
    """What specialized the size: `operation`, or `lowered` after tracing; empty if Python code needs the number."""
    is_number: bool = False
    """Whether the user's code needs a number that is computed from sizes, such as `range(x.shape[0] // 8)` does."""
    is_dynamic_off: bool = False
    """Whether the function was compiled with dynamic=False, or without automatic dynamic shapes."""
    is_listed_static: bool = False
    """Whether TORCH_COMPILE_STATIC_SOURCES names the size or the number."""
    is_weight: bool = False
    """Whether the tensor is a parameter or a buffer."""
    is_open: bool = False
    """Whether the new graph treats the value as dynamic."""
    is_new_key: bool = False
    """Whether the key of a dict is no constant of the code, which may therefore ask for another one in each call."""
    is_later_layer: bool = False
    """Whether the entry was compiled for another module of the same class, and none for this one."""
    is_keywords: bool = False
    """Whether the container holds the keyword arguments that a function takes as `**options`."""

    @classmethod
    def of(cls, cause: Cause, guard: UnmetGuard) -> "CauseFacts":
        """Collect the facts from a cause and torch's text."""
        change = cause.kind, cause.subject, cause.was, cause.now
        return cls(*change, guard=guard.text, hint=guard.hint, is_open=cause.is_open)


def case_of(facts: CauseFacts) -> str:
    """Return the special case of a cause; empty if the general advice on its kind applies."""
    return _CASES.get(facts.kind, _plain)(facts)


_MANY_VALUES = frozenset((CauseKind.STRIDE, CauseKind.DISPATCH_KEYS))
"""Kinds for which one change, such as a transpose or inference mode, leads to other values in each tensor."""
_OF_MODES = frozenset((CauseKind.GRAD_MODE, CauseKind.AUTOCAST, CauseKind.TRAINING_MODE))


def cause_key(guard: UnmetGuard) -> tuple[str | None, ...]:
    """Return a key that all failed guards of one cause share.

    A model that is cast to another dtype differs in every parameter, a transposed tensor in all of its strides, and
    inference mode removes several dispatch keys from every tensor. Each of these is one cause. For other kinds, guards
    on different names are different causes.
    """
    cause = cause_of(guard)
    facts = CauseFacts.of(cause, guard)
    values: tuple[str | None, ...] = (cause.was, cause.now)
    if cause.kind in _MANY_VALUES:
        values = (case_of(facts),)
    name = None
    if cause.kind not in TENSOR_CAUSES | _OF_MODES:
        # One attribute of many modules, e.g. `blocks.0.mode` and `blocks.1.mode`, counts as one change.
        name = cause.subject.rpartition(".")[2]
    return cause.kind, *values, name


def _plain(_facts: CauseFacts) -> str:
    return ""


def _size(facts: CauseFacts) -> str:
    # A dynamic size does not help here: no graph takes tensors of two ranks.
    if facts.subject.endswith(".dim()"):
        return "rank"
    if facts.is_open:  # it becomes dynamic by itself, whatever else applies
        return ""
    if _is_weight(facts):
        return "parameter"
    if facts.is_fixed:
        return facts.fixed_by or "fixed"
    if facts.is_listed_static:
        return "listed_static"
    if facts.is_dynamic_off:
        return "dynamic_off"
    return ""


def _zero_one(facts: CauseFacts) -> str:
    if facts.is_first and facts.was in ("0", "1") and facts.now not in ("0", "1"):
        return "first"
    return ""


def _range(facts: CauseFacts) -> str:
    if facts.is_number:
        return "number"
    # `%` in guards that torch prints as Python, `Mod(` in those that sympy prints.
    if "%" in facts.subject or "Mod(" in facts.subject:
        return "modulo"
    return ""


def _stride(facts: CauseFacts) -> str:
    # A stride of 0 comes from `expand` or broadcasting, where `.contiguous()` is the advice.
    if "0" in (facts.was, facts.now):
        return "expanded"
    return ""


def _requires_grad(facts: CauseFacts) -> str:
    if _is_weight(facts):
        return "parameter"
    if facts.is_later_layer:
        return "layers"
    return ""


def _dispatch_keys(facts: CauseFacts) -> str:
    differ = _keys(facts.was) ^ _keys(facts.now)
    if any(key.startswith("FuncTorch") for key in differ):
        return "functorch"
    if differ & {"Conjugate", "Negative"}:
        return "lazy_view"
    if differ and all(key.startswith(_OF_INFERENCE) for key in differ):
        return "inference"
    return ""


_OF_INFERENCE = ("Autograd", "ADInplaceOrView")
"""Dispatch keys that tensors lack in inference mode; a tensor created there lacks them permanently."""


def _autocast(facts: CauseFacts) -> str:
    if facts.subject.endswith("_dtype"):
        return "dtype"
    return ""


def _global_state(facts: CauseFacts) -> str:
    if facts.subject.endswith(STREAM):
        return "stream"
    return next((case for begin, case in _STATES.items() if facts.subject.startswith(begin)), "")


_STATES = {
    "num_threads": "num_threads",
    "deterministic_algorithms": "deterministic",
    "default_dtype": "default_dtype",
    "allow_": "matmul_precision",
    "cuda_matmul_precision": "matmul_precision",  # 2.15; allow_tf32 in 2.13
    "torch_function": "function_mode",
    "torch function modes": "function_mode",
    "default device": "function_mode",
}
"""How the names of settings begin in the texts of GlobalStateGuard and of guards on modes."""


def _attribute(facts: CauseFacts) -> str:
    if facts.was in ("there", "missing") and facts.now in ("there", "missing"):
        return "missing"
    # A learning rate is a float as well, but its advice is to make it a tensor.
    if _holder(facts) == "optimizer":
        return "optimizer"
    case = _value(facts)
    # Torch treats integers of modules and of other objects by different settings, so the advice differs.
    if case in ("int", "float") and _holder(facts) == "object" and facts.is_fixed:
        return "fixed"
    if case == "int" and _holder(facts) == "object":
        if facts.is_listed_static:
            return "listed_static"
        return "object_int"
    return case


def _argument(facts: CauseFacts) -> str:
    if facts.subject.startswith(POSITION):
        return "iterator"
    case = _value(facts)
    # What the user listed as static has decided before the code could.
    if facts.is_listed_static and case == "int":
        return "listed_static"
    if facts.is_fixed and case in ("int", "float"):
        return "fixed"
    return case


def _closure(facts: CauseFacts) -> str:
    case = _value(facts)
    if facts.is_listed_static and case == "int":
        return "listed_static"
    return case


def _value(facts: CauseFacts) -> str:
    """Return the type of a specialized value; flags and strings from globals and closures have no special case."""
    case = literal_type(facts.was)
    if case == "NoneType":  # what it was says nothing about what comes instead
        return ""
    if case in ("bool", "str") and facts.kind in (CauseKind.GLOBAL_VALUE, CauseKind.CLOSURE_VALUE):
        return ""
    return case


def _length(facts: CauseFacts) -> str:
    if ITERATOR.match(facts.guard):
        return "iterator"
    inner = facts.subject.removeprefix("len(").removesuffix(")")
    if facts.is_keywords:
        return "keywords"
    if "._modules" in inner:
        return "module"
    if _holder(facts) == "optimizer":
        return "optimizer"
    if "." in inner:
        return "held"
    return ""


def _key_order(facts: CauseFacts) -> str:
    if " in " not in facts.subject:
        return ""
    if facts.is_new_key:
        return "new_key"
    return "contains"


def _none(facts: CauseFacts) -> str:
    # `p.grad` is an attribute, too, but `zero_grad(set_to_none=True)` is what sets it to None.
    if facts.subject.endswith(".grad"):
        return "gradient"
    if "." in facts.subject and not _OF_ARGUMENT.search(facts.guard):
        return "attribute"
    return ""


_OF_ARGUMENT = re.compile(r"\bL\['(?!self')")
"""In a guard, an argument or what it holds; an attribute of the model's is `L['self'].name`."""


def _type(facts: CauseFacts) -> str:
    names = {_class_name(facts.was), _class_name(facts.now)}
    if names <= _NUMBERS:
        return "number"
    if "._modules[" in facts.guard:
        return "module"
    if "Tensor" not in names:
        return ""
    # From here on, a tensor and something else: a parameter, a value that is no tensor, or a subclass.
    if "Parameter" in names:
        return "parameter"
    if names & _NO_TENSORS:
        return "tensor"
    if "AsyncCollectiveTensor" in names:
        return "collective"
    return "subclass"


_NO_TENSORS = _NUMBERS | {"complex", "str", "list", "tuple", "dict", "ndarray"}
"""Classes that are certainly not tensors."""


def _identity(facts: CauseFacts) -> str:
    if "__code__" in facts.subject or "__code__" in facts.guard:  # a function that is made again in each call
        return "function"
    if "<class 'torch.Tensor'>" in facts.guard or "type=tensor(" in facts.guard:  # 2.13, 2.11
        return "tensor"
    if facts.guard.startswith("Cache line invalidated"):
        return "gone"
    return ""


def _other(facts: CauseFacts) -> str:
    if facts.guard.startswith("BACKEND_MATCH"):
        return "backend"
    if "_dynamo_" in facts.guard and " on " in facts.subject:
        return "mark"
    if facts.subject.endswith(LAZY_COPY):
        return "lazy_copy"
    if facts.guard.startswith("not math.isnan("):
        return "nan"
    return ""


_CASES: dict[CauseKind, Callable[[CauseFacts], str]] = {
    CauseKind.SIZE: _size,
    CauseKind.ZERO_ONE: _zero_one,
    CauseKind.RANGE: _range,
    CauseKind.STRIDE: _stride,
    CauseKind.REQUIRES_GRAD: _requires_grad,
    CauseKind.DISPATCH_KEYS: _dispatch_keys,
    CauseKind.AUTOCAST: _autocast,
    CauseKind.GLOBAL_STATE: _global_state,
    CauseKind.ATTRIBUTE_VALUE: _attribute,
    CauseKind.ARGUMENT_VALUE: _argument,
    CauseKind.GLOBAL_VALUE: _value,
    CauseKind.CLOSURE_VALUE: _closure,
    CauseKind.LENGTH: _length,
    CauseKind.KEY_ORDER: _key_order,
    CauseKind.NONE: _none,
    CauseKind.TYPE: _type,
    CauseKind.IDENTITY: _identity,
    CauseKind.OTHER: _other,
}


def _is_weight(facts: CauseFacts) -> bool:
    # In torch's own log no record says which tensors are weights; names through `_parameters` and the hint do.
    signs = "._parameters[", "._buffers[", "Guard failed on a parameter"
    return facts.is_weight or any(sign in facts.guard for sign in signs)


def _holder(facts: CauseFacts) -> str:
    """Return the owner of an attribute: the guard's text shows an optimizer, torch's hint an integer of a module."""
    if facts.holder:
        return facts.holder
    if ".param_groups[" in facts.guard or _STATE in facts.guard:
        return "optimizer"
    if _MODULE_HINT in facts.hint:
        return "module"
    return "object"


_STATE = ".state[list(dict.keys("
"""A part of each guard on an optimizer's state, a dict keyed by parameters."""
_MODULE_HINT = "integer attributes of the nn.Module"
"""Part of torch's hint on a specialized integer of a module (2.11 to 2.13, _dynamo/variables/builder.py)."""


def _keys(text: str | None) -> frozenset[str]:
    """Parse `DispatchKeySet(CPU, AutogradCPU)`."""
    inside = (text or "").partition("(")[2].rpartition(")")[0]
    return frozenset(filter(None, inside.split(", ")))


def _class_name(text: str | None) -> str:
    """Return a class name without its module, `B` for `<class 'a.B'>` or `a.B`; for a literal, return its type."""
    text = text or ""
    inner = text.removeprefix("<class '").removesuffix("'>")
    return literal_type(text) or inner.rpartition(".")[2]
