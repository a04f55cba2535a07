"""What a user does with a model around a call: cast it, freeze it, save it, set its attributes, call its methods.

Two programs that agree in every plain call may differ after one of these.
"""

import copy
import io
import math
import pickle
from collections.abc import Callable, Iterable, Iterator
from types import BuiltinFunctionType, CellType, FunctionType
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.calls.call_tensors import recast
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.trial import BUFFERS_IN_FLOAT64, NEEDED, OTHERS_IN_FLOAT64, PENALTY, REDRAWN, Mined
from ctrace.inspector.features.fix.child.argument_probes import UNEVEN
from ctrace.inspector.features.fix.child.call_values import mapped, tensors, tensors_in
from ctrace.inspector.features.fix.child.method_arguments import (
    Arguments,
    Method,
    arguments,
    holder_of,
    methods,
    modules_of,
    own,
)
from ctrace.inspector.features.fix.child.observed_state import leaves_of
from ctrace.inspector.features.fix.child.other_objects import other_values

Prepare = Callable[[Any], Any]
Sequence = Callable[[Any, Callable[..., Any], Call], Any]

_MOST_LEAVES = 6
"""Parameters that are frozen, and trained, one by one."""
_MOST_PARTS = 3
"""Layers that are cast one by one."""
_MOST_ALONE = 16
"""Parameters and buffers that get other values one by one, buffers first."""
_SCALES = (1.0, 30.0, -30.0, 2e3, -2e3)
"""Factors for inputs in half precision: 30 to the power of four overflows float16, and so does the square of 2,000."""

_OF_SUBJECT = "attribute model"
"""What the path of a tensor begins with that the subject itself holds (capture/comparing/world.py)."""
_FACTOR = 1.1
"""What makes of 0.5, which loses nothing in float32, a fraction that does."""


def _as_it_is(subject: Any) -> Any:
    return subject


def _same(call: Call) -> Call:
    return call


def _one_call(_subject: Any, called: Callable[..., Any], call: Call) -> Any:
    return called(*call.args, **call.kwargs)


class Observer(Struct, frozen=True):
    """What happens to a fresh model, to the arguments of a call, and around the call."""

    prepare: Prepare = _as_it_is
    """Changes the subject, and returns it or its replacement. Raises TargetError: the subject has no such form."""
    change: Callable[[Call], Call] = _same
    sequence: Sequence = _one_call
    """Makes the call, with what comes before it; gets the subject, what to call, and the arguments."""
    keeps: bool = False
    """Whether the arguments lose their form when they are copied."""
    is_crossed: bool = False
    """Whether it is repeated with inputs that take the other side of a condition."""
    draws: int = 0
    """Which random numbers the call draws: 0 for those that every other observer has."""

    @property
    def is_of_model(self) -> bool:
        """Whether it does anything beside changing the arguments."""
        return self.prepare is not _as_it_is or self.sequence is not _one_call


def observers(subject: Any, mined: Mined) -> dict[str, Observer]:
    """Return all observers of a subject by name."""
    import torch

    found: dict[str, Observer] = {
        "called twice": Observer(sequence=_twice, is_crossed=True),
        NEEDED: Observer(is_crossed=True),
        "under another default dtype": Observer(sequence=_under_another_default_dtype, is_crossed=True),
        "under autocast": Observer(sequence=_under_autocast, is_crossed=True),
        "under no_grad": Observer(sequence=_under_no_grad, is_crossed=True),
    }
    if not isinstance(subject, torch.nn.Module):
        found |= _of_held_modules(subject)
    if isinstance(subject, FunctionType | BuiltinFunctionType):  # a copy has the same globals: they stay as they are
        return found
    # Early, since only the first of them are repeated with inputs of the other side.
    found |= {name: Observer(prepare, is_crossed=True) for name, prepare in other_values(subject, mined)}
    if _of_others(subject):
        found[OTHERS_IN_FLOAT64] = Observer(_with_others_in_float64, is_crossed=True)
    found |= _of_gradients(subject)
    if isinstance(subject, torch.nn.Module):
        found |= _of_modules(subject)
    found |= {"copied after a call": Observer(sequence=_copied_after_a_call), "pickled": Observer(_pickled)}
    return found | _of_attributes(subject, mined) | _of_methods(subject, mined)


def _of_modules(subject: Any) -> dict[str, Observer]:
    """Return observers that do what only modules can."""
    found = _of_precision() | _of_state()
    found |= {
        "in the other mode": Observer(_in_the_other_mode, is_crossed=True),
        "with layers in place": Observer(_in_place, is_crossed=True),
        "after a call under inference_mode": Observer(sequence=_after_inference_mode, is_crossed=True),
        "after a call in the other mode": Observer(sequence=_after_the_other_mode),
        "saved": Observer(sequence=_saved),
        "saved after a call": Observer(sequence=lambda *all_: [_one_call(*all_), _saved(*all_)]),
        "loaded": Observer(_loaded, is_crossed=True),
    }
    return found | _of_parts(subject) | _of_each_state(subject)


# Random numbers


def redrawn(numbers: Iterable[int]) -> dict[str, Observer]:
    """Return observers that only draw other random numbers, so that a side chosen at random may be the other one."""
    return {f"{REDRAWN} {number}": Observer(draws=number) for number in numbers}


# Precision and values of the state


def _of_precision() -> dict[str, Observer]:
    found = {}
    for dtype in ("float16", "bfloat16", "float64"):
        scales: tuple[float, ...] = (1.0, -30.0)
        if dtype == "float16":  # the factors of `_SCALES` leave the range of no other dtype
            scales = _SCALES
        for scale in scales:
            name = f"model in {dtype}"
            if scale != 1.0:
                name += f" times {scale:g}"
            found[name] = Observer(_cast(dtype), _recast(dtype, scale), is_crossed=scale == 1.0)
    found[f"model in bfloat16 with integers of {UNEVEN}"] = Observer(_with_counts, _recast("bfloat16", 1.0))
    found[BUFFERS_IN_FLOAT64] = Observer(_with_buffers_in_float64, is_crossed=True)
    found["model in float64 with other fractions"] = Observer(_with_fractions, _recast("float64", 1.0), is_crossed=True)
    return found


def _cast(dtype: str) -> Prepare:
    def prepare(model: Any) -> Any:
        import torch

        return model.to(getattr(torch, dtype))

    return prepare


def _with_counts(model: Any) -> Any:
    """Cast a model to bfloat16 whose buffers of integers have counts that it cannot hold, such as steps so far."""
    import torch

    leaves = [leaf for leaf in model.buffers() if leaf.dtype in (torch.int64, torch.int32, torch.int16)]
    if not leaves:
        raise TargetError("no integers", "")
    for leaf in leaves:
        leaf.fill_(UNEVEN)
    return _cast("bfloat16")(model)


def _with_fractions(model: Any) -> Any:
    """Cast a model to float64 and change its Python fractions, such as 0.5, which lose nothing in float32."""
    changed = False
    for module in model.modules():
        for name, value in vars(module).items():
            if type(value) is float and 0 < abs(value) < float("inf"):
                module.__dict__[name] = value * _FACTOR
                changed = True
    if not changed:
        raise TargetError("no fraction", "")
    return _cast("float64")(model)


def _with_buffers_in_float64(model: Any) -> Any:
    """Cast the buffers alone: what `fit` makes of an array has float64, and so may a checkpoint that is assigned."""
    import torch

    leaves = [leaf for leaf in model.buffers() if leaf.dtype in (torch.float32, torch.float16, torch.bfloat16)]
    if not leaves:
        raise TargetError("no such buffers", "")
    for leaf in leaves:
        leaf.data = leaf.data.double()
    return model


def _of_parts(model: Any) -> dict[str, Observer]:
    """Return observers that cast a part of the model only: some layers of a model often stay in another precision."""
    parts = [name for name, each in model.named_children() if any(True for _ in each.parameters())]
    found = {f"{name} in bfloat16": Observer(_casting(name), is_crossed=True) for name in parts[:_MOST_PARTS]}
    if len(parts) > 1:  # a router, or a head, stays in float32
        found |= {
            f"all but {name} in bfloat16": Observer(_sparing(name), _recast("bfloat16", 1.0), is_crossed=True)
            for name in parts[-_MOST_PARTS:]
        }
    if parts and any(leaf.is_floating_point() for leaf in model.buffers()):
        found["parameters in bfloat16"] = Observer(_casting(None), is_crossed=True)
    return found


def _casting(part: str | None) -> Prepare:
    def prepare(model: Any) -> Any:
        import torch

        if part is None:
            subject = model
        else:
            subject = getattr(model, part)
        leaves = [*subject.parameters()]
        if part is not None:
            leaves += subject.buffers()
        for leaf in leaves:
            if leaf.is_floating_point():
                # In place, so that an optimizer or a second name that holds the parameter still has it.
                leaf.data = leaf.data.to(torch.bfloat16)
        return model

    return prepare


def _sparing(part: str) -> Prepare:
    def prepare(model: Any) -> Any:
        import torch

        spared = getattr(model, part)
        kept = {id(leaf) for leaf in (*spared.parameters(), *spared.buffers())}
        for leaf in (*model.parameters(), *model.buffers()):
            if leaf.is_floating_point() and id(leaf) not in kept:
                leaf.data = leaf.data.to(torch.bfloat16)
        return model

    return prepare


def _of_each_state(model: Any) -> dict[str, Observer]:
    """Return observers of each parameter and buffer alone, as far as they are few.

    One is infinite, or the inputs are its values: a distance is 0 there, whose square root has no gradient.
    """
    named = [
        (name, leaf)
        for name, leaf in (*model.named_buffers(), *model.named_parameters())
        if leaf.is_floating_point() and leaf.numel()
    ]
    found = {}
    for name, leaf in named[:_MOST_ALONE]:
        found[f"state {name} infinite"] = Observer(_first_infinite(name), is_crossed=True)
        if leaf.dim() == 1:
            found[f"inputs equal to {name}"] = Observer(change=_equal_to(leaf.detach().clone()))
    return found


def _first_infinite(name: str) -> Prepare:
    def prepare(model: Any) -> Any:
        import torch

        # By name, as each probe has another copy of the model.
        leaf = dict((*model.named_buffers(), *model.named_parameters())).get(name)
        if leaf is None:
            raise TargetError("no such leaf", "")
        with torch.no_grad():
            leaf[(0,) * leaf.dim()] = math.inf
        return model

    return prepare


def _equal_to(value: Any) -> Callable[[Call], Call]:
    def fits(leaf: Any) -> bool:
        return bool(leaf.is_floating_point() and leaf.dim() and leaf.shape[-1] == value.numel())

    def change(call: Call) -> Call:
        if not any(map(fits, tensors(call))):
            raise TargetError("no input of this width", "")
        return mapped(
            call,
            lambda leaf: (
                value.to(leaf.dtype).expand(leaf.shape).clone().requires_grad_(leaf.requires_grad)
                if fits(leaf)
                else leaf
            ),
        )

    return change


def _recast(dtype: str, scale: float) -> Callable[[Call], Call]:
    def change(call: Call) -> Call:
        return mapped(call, lambda leaf: recast(_scaled(leaf, scale), dtype))

    return change


def _scaled(leaf: Any, scale: float) -> Any:
    if scale == 1.0 or not leaf.is_floating_point():
        return leaf
    return (leaf.detach() * scale).requires_grad_(leaf.requires_grad)


def _of_state() -> dict[str, Observer]:
    """Return observers with other values in parameters and buffers, which a checkpoint or training brings."""
    import torch

    def values(change: Callable[[Any], Any], which: Callable[[Any], bool]) -> Observer:
        def prepare(model: Any) -> Any:
            leaves = [leaf for leaf in (*model.parameters(), *model.buffers()) if which(leaf)]
            if not leaves:
                raise TargetError("no such state", "")
            with torch.no_grad():
                for leaf in leaves:
                    # In place: a tied weight stays one tensor.
                    leaf.copy_(change(leaf))
            return model

        return Observer(prepare)

    def is_float(leaf: Any) -> bool:
        return bool(leaf.is_floating_point())

    def is_integer(leaf: Any) -> bool:
        return not (leaf.is_floating_point() or leaf.is_complex() or leaf.dtype is torch.bool or leaf.is_quantized)

    return {
        "state negated": values(lambda leaf: -leaf, is_float),
        "state 0": values(lambda leaf: leaf * 0, is_float),
        "state large": values(lambda leaf: leaf * 1e3 + 100, is_float),
        "state plus 0.6": values(lambda leaf: leaf + 0.6, is_float),
        "state minus 1.3": values(lambda leaf: leaf - 1.3, is_float),
        "state NaN": values(lambda leaf: leaf * math.nan, is_float),
        "state infinite": values(lambda leaf: leaf + math.inf, is_float),
        "integer state 0": values(lambda leaf: leaf * 0, is_integer),
        "integer state 1": values(lambda leaf: leaf * 0 + 1, is_integer),
        "integer state plus 1": values(lambda leaf: leaf + 1, is_integer),
        "integer state plus 70": values(lambda leaf: leaf + 70, is_integer),
        "integer state negated": values(lambda leaf: -leaf, is_integer),
        "flags inverted in the state": values(torch.logical_not, lambda leaf: leaf.dtype is torch.bool),
    }


def _with_others_in_float64(subject: Any) -> Any:
    """Cast the tensors that a configuration, statistics or a dictionary holds.

    `model.double()` leaves these alone, and what is made of an array or read from a file is in float64. They get values
    that float32 does not hold: a product in float64 is rounded once where two are equal otherwise.
    """
    for leaf in _of_others(subject):
        leaf.data = leaf.data.double() * _FACTOR
    return subject


def _of_others(subject: Any) -> list[Any]:
    """Return the tensors of floats that objects hold which are no modules."""
    import torch

    modules = list(modules_of(subject))
    # What modules hold themselves is held by no other object.
    known = {id(value) for each in modules for value in own(each).values()}
    for each in modules:
        if isinstance(each, torch.nn.Module):
            known |= {id(leaf) for leaf in (*each.parameters(), *each.buffers())}
    wanted = (torch.float32, torch.float16, torch.bfloat16)
    # Names of the file are the same objects for each copy of the model, so a cast would last.
    return [
        leaf
        for path, leaf in leaves_of(subject)
        if path.startswith(_OF_SUBJECT) and id(leaf) not in known and leaf.dtype in wanted
    ]


# Modules that a function or another object holds


def _of_held_modules(subject: Any) -> dict[str, Observer]:
    """Return observers that cast, freeze and train the modules of a function, a bound method or a callable object."""
    if not _held_modules(subject):
        return {}

    def each(change: Callable[[Any], Any]) -> Prepare:
        def prepare(subject: Any) -> Any:
            made, modules = _with_own_modules(subject)
            for module in modules:
                change(module)
            return made

        return prepare

    found = {
        f"modules in {dtype}": Observer(each(_cast(dtype)), _recast(dtype, 1.0), is_crossed=True)
        for dtype in ("float16", "bfloat16", "float64")
    }
    for grad, name in ((True, "modules trained"), (False, "modules frozen")):
        found[name] = Observer(each(lambda module, grad=grad: module.requires_grad_(grad)), is_crossed=True)  # type: ignore[misc]
    return found


def _held_modules(subject: Any) -> list[Any]:
    """Return the modules in the closure and the file of a function, or in the attributes of an object."""
    import torch

    if isinstance(subject, FunctionType):
        held = [*_globals_of(subject).values(), *_contents(subject)]
    else:
        held = [*own(getattr(subject, "__self__", subject)).values()]
    return [each for each in held if isinstance(each, torch.nn.Module)]


def _with_own_modules(subject: Any) -> tuple[Any, list[Any]]:
    """Return a subject whose modules are its own, and them.

    Copies of a function share what it reads from its closure and its file, so it is made again with copies of these.
    """
    modules = _held_modules(subject)
    if not isinstance(subject, FunctionType):
        return subject, modules
    memo: dict[int, Any] = {}  # parts that two of them share stay shared
    made = {id(each): copy.deepcopy(each, memo) for each in modules}
    closure = [
        # A cell of its own, because copies of a function share the cells of the original.
        CellType(made[id(value)]) if id(value) in made else cell
        for value, cell in zip(_contents(subject), subject.__closure__ or (), strict=True)
    ]
    names = {name: made[id(value)] for name, value in _globals_of(subject).items() if id(value) in made}
    function = FunctionType(
        subject.__code__, {**subject.__globals__, **names}, subject.__name__, subject.__defaults__, tuple(closure)
    )
    # The constructor of functions takes no defaults of keyword-only arguments.
    function.__kwdefaults__ = subject.__kwdefaults__
    return function, list(made.values())


def _globals_of(function: FunctionType) -> dict[str, Any]:
    """Return the names of its file that a function reads; attributes of the same names are among them."""
    return {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}


def _contents(function: FunctionType) -> list[Any]:
    """Return what the cells of a function's closure hold, None for an empty one."""
    return [each.cell_contents if _is_filled(each) else None for each in function.__closure__ or ()]


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # its variable is not assigned yet
        return False


# Gradients


def _of_gradients(model: Any) -> dict[str, Observer]:
    """Return observers that freeze and train what can have gradients: all of it, and each one alone."""
    names = [name for name, leaf in leaves_of(model) if leaf.is_floating_point()]
    found = {"all trained": _requiring(None, grad=True), "all frozen": _requiring(None, grad=False)}
    for name in names[:_MOST_LEAVES]:
        found[f"{name} alone trained"] = _requiring(name, grad=True)
        found[f"{name} alone frozen"] = _requiring(name, grad=False)
    return {name: Observer(prepare, is_crossed=True) for name, prepare in found.items()}


def _requiring(name: str | None, *, grad: bool) -> Prepare:
    def prepare(model: Any) -> Any:
        leaves = [(each, leaf) for each, leaf in leaves_of(model) if leaf.is_floating_point()]
        if not leaves or (name is not None and name not in dict(leaves)):
            raise TargetError("no such leaf", "")
        for each, leaf in leaves:
            leaf.requires_grad_(grad if name in (None, each) else not grad)
        return model

    return prepare


# Calls and copies


def _twice(subject: Any, called: Callable[..., Any], call: Call) -> Any:
    return [_one_call(subject, called, call), _one_call(subject, called, call)]


def _in_the_other_mode(model: Any) -> Any:
    return model.train(not model.training)


def _in_place(model: Any) -> Any:
    """Let layers such as nn.ReLU write to what they get, or no longer do so."""
    layers = [each for each in model.modules() if isinstance(getattr(each, "inplace", None), bool)]
    if not layers:
        raise TargetError("no such layer", "")
    for layer in layers:
        layer.inplace = not layer.inplace
    return model


def _under_autocast(subject: Any, called: Callable[..., Any], call: Call) -> Any:
    import torch

    devices = {leaf.device.type for leaf in tensors(call)} or {"cpu"}
    with torch.autocast(min(devices), dtype=torch.bfloat16):
        return _one_call(subject, called, call)


def _under_another_default_dtype(subject: Any, called: Callable[..., Any], call: Call) -> Any:
    """Call as programs do that compute in float64: integers beside a fraction become floats of the default dtype."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32 if before is torch.float64 else torch.float64)
    try:
        return _one_call(subject, called, call)
    finally:
        torch.set_default_dtype(before)


def _under_no_grad(subject: Any, called: Callable[..., Any], call: Call) -> Any:
    import torch

    with torch.no_grad():
        return _one_call(subject, called, call)


def _after_inference_mode(subject: Any, called: Callable[..., Any], call: Call) -> Any:
    """Call in inference mode first: what that call keeps cannot be saved for a backward pass later."""
    import torch

    with torch.inference_mode():
        first = _one_call(subject, called, call)
    return [first, _one_call(subject, called, call)]


def _after_the_other_mode(subject: Any, called: Callable[..., Any], call: Call) -> Any:
    training = subject.training
    subject.train(not training)
    first = _one_call(subject, called, call)
    subject.train(training)
    return [first, _one_call(subject, called, call)]


def _copied_after_a_call(subject: Any, called: Callable[..., Any], call: Call) -> Any:
    import torch

    first = _one_call(subject, called, call)
    with torch.no_grad():
        twin = copy.deepcopy(subject)
        again = _one_call(twin, twin, call)
    return [first, again, _one_call(subject, called, call)]


def _pickled(model: Any) -> Any:
    """Return a pickled copy: bytes that were written a moment ago, in this process."""
    opened = io.BytesIO()
    pickle.dump(model, opened)
    return pickle.loads(opened.getvalue())


# Checkpoints


def _saved(subject: Any, _called: Callable[..., Any], _call: Call) -> Any:
    """Return what a checkpoint has: keys, kinds, shapes and values."""
    return {
        "state_dict": {name: _plain(value) for name, value in subject.state_dict().items()},
        # With both names of a tied tensor: a checkpoint has both.
        "parameters": [name for name, _ in subject.named_parameters(remove_duplicate=False)],
        "buffers": [name for name, _ in subject.named_buffers(remove_duplicate=False)],
    }


def _plain(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return value


def _loaded(model: Any) -> Any:
    """Load a checkpoint of another model of the class, with other values."""
    import torch

    other = {}
    for name, value in model.state_dict().items():
        if isinstance(value, torch.Tensor) and not value.is_complex() and value.dtype is not torch.bool:
            other[name] = value.detach() * 1.5 + 0.6 if value.is_floating_point() else value + 2
        else:
            other[name] = _plain(value)
    model.load_state_dict(other)
    return model


# Attributes and methods


def _of_attributes(subject: Any, mined: Mined) -> dict[str, Observer]:
    """Return observers that set the plain attributes that conditions of the code read."""
    found = {}
    for path in mined.attributes:
        values: dict[Any, None] = {}
        for holder in _holders(subject, path):
            values |= dict.fromkeys(_others(_held(holder, path), mined))
        for value in values:
            found[f"{path} = {value!r}"] = Observer(_setting(path, value), is_crossed=True)
    flags = _flags(subject, mined)
    if len(flags) > 1:
        found["all flags inverted"] = Observer(_inverting(flags), is_crossed=True)
    return found


def _flags(subject: Any, mined: Mined) -> list[str]:
    """Return the attributes with a bool that conditions of the code read."""
    return [
        path
        for path in mined.attributes
        if any(isinstance(_held(each, path), bool) for each in _holders(subject, path))
    ]


def _holders(subject: Any, path: str) -> Iterator[Any]:
    """Yield the objects that have an attribute of this dotted name, relative to a module of the model."""
    *above, name = path.split(".")
    for module in modules_of(subject):
        holder: Any = module
        for each in above:
            holder = own(holder).get(each)
        # In the object itself: a property or a default of the class may run code.
        if name in own(holder) and _is_plain(own(holder)[name]):
            yield holder


def _held(holder: Any, path: str) -> Any:
    return own(holder)[path.rpartition(".")[2]]


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str | None)


def _others(value: Any, mined: Mined) -> Iterator[Any]:
    """Yield other values that an attribute may have."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        kind = type(value)
        for other in (value + 1, 0, 1, -1, *mined.numbers):
            for near in (other, other + 1):
                if near != value:
                    yield kind(near)
    elif isinstance(value, str):
        yield from (text for text in mined.texts if text != value)
    else:
        yield from (True, 1.0)


def _setting(path: str, value: Any) -> Prepare:
    def prepare(model: Any) -> Any:
        # A value of another type would reach what no caller does.
        holders = [each for each in _holders(model, path) if type(_held(each, path)) is type(value) or _is_unset(each)]
        if not holders:
            raise TargetError("no such attribute", "")
        for holder in holders:
            setattr(holder, path.rpartition(".")[2], value)
        return model

    def _is_unset(holder: Any) -> bool:
        return _held(holder, path) is None

    return prepare


def _inverting(paths: Iterable[str]) -> Prepare:
    """Invert all flags at once: a line may run only where two of them hold."""

    def prepare(model: Any) -> Any:
        for path in paths:
            for holder in _holders(model, path):
                if isinstance(_held(holder, path), bool):
                    setattr(holder, path.rpartition(".")[2], not _held(holder, path))
        return model

    return prepare


def _of_methods(model: Any, mined: Mined) -> dict[str, Observer]:
    """Return observers that call public methods before a call and between two.

    A line of a method may run only where a flag has its other value.
    """
    found = {}
    flags = _flags(model, mined)
    for method in methods(model, mined):
        if method.path:
            name = f"{method.path}.{method.name}"
        else:
            name = method.name
        for how, filled in arguments(method, model, mined):
            found[f"after {name}({how})"] = Observer(sequence=_around_method(method, filled, between=False))
            found[f"around {name}({how})"] = Observer(
                sequence=_around_method(method, filled, between=True), is_crossed=True
            )
            if flags:
                found[f"around {name}({how}) with all flags inverted"] = Observer(
                    _inverting(flags), sequence=_around_method(method, filled, between=True)
                )
    return found


def _around_method(method: Method, filled: Arguments, *, between: bool) -> Sequence:
    def sequence(subject: Any, called: Callable[..., Any], call: Call) -> Any:
        found = []
        if between:
            found = [_one_call(subject, called, call)]
        try:
            holder = holder_of(method, subject)
            args, kwargs = filled(call)
            if method.is_setter:
                setattr(holder, method.name, *args)
            else:
                found.append(getattr(holder, method.name)(*args, **kwargs))
        except (AttributeError, TypeError) as error:
            # For arguments of a wrong kind, the text names what the method happens to ask of them first.
            found.append(type(error).__name__)
        except Exception as error:
            found.append(f"{type(error).__name__}: {error}")
        return [*found, _one_call(subject, called, call)]

    return sequence


def penalties() -> dict[str, Observer]:
    """Return observers that differentiate gradients, as a gradient penalty does, by name.

    They call with the inputs of the scenario, and with zeros, where norms have no gradient. `torch.where` adds zeros to
    the gradients of the side that it does not select. The gradient of such a zero may be NaN where the first one is
    finite: of a norm at 0, for example. The values of gradients are compared by a backward pass already, so these
    compare which second ones exist, and which of their values are finite: no order of a sum changes that.
    """
    import torch

    return {
        PENALTY: Observer(
            change=lambda call: _with_gradients(call, lambda leaf: leaf), sequence=_penalized, is_crossed=True
        ),
        f"{PENALTY} at 0": Observer(change=lambda call: _with_gradients(call, torch.zeros_like), sequence=_penalized),
    }


def _with_gradients(call: Call, change: Callable[[Any], Any]) -> Call:
    return mapped(call, lambda leaf: change(leaf.detach()).requires_grad_() if leaf.is_floating_point() else leaf)


def _penalized(subject: Any, called: Callable[..., Any], call: Call) -> Any:
    import torch

    outputs = called(*call.args, **call.kwargs)
    results = [each for each in tensors_in(outputs) if each.requires_grad and each.is_floating_point()]
    leaves = [each for each in tensors(call) if each.requires_grad]
    if isinstance(subject, torch.nn.Module):
        leaves += [each for each in subject.parameters() if each.requires_grad]
    if not results or not leaves:
        return outputs
    with torch.enable_grad():
        # Squares, because the gradient of a sum of linear results is constant, and has no gradient.
        total = sum(each.square().sum() + each.sum() for each in results)
        first: tuple[Any, ...] = torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
        again = [each for each in first if each is not None and each.requires_grad]
        penalty = sum((each.square().sum() for each in again), torch.zeros(()))
        second: tuple[Any, ...] = ()
        if again:
            second = torch.autograd.grad(penalty, leaves, allow_unused=True)
    return outputs, [None if each is None else each.isfinite() for each in (*first, *second)]
