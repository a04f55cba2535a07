"""The public methods of a model and its layers, and arguments for them, by what their parameters may mean."""

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.facts.trial import Mined
from ctrace.inspector.features.fix.child.call_values import tensors

_MOST_METHODS = 16
"""Methods of the model that are called; of its submodules half as many. Those that write what a repair reads or stores
come first, and are always called."""
_MOST_TEXTS = 4
"""Texts that each method gets: each is two calls of the model, and more for each side of a condition."""


class Method(NamedTuple):
    """A public method of the model, or of the first of its submodules of a class."""

    path: str
    """The submodule; empty: the model itself."""
    name: str
    function: Callable[..., Any]
    is_setter: bool
    """Whether it is a property that is assigned."""
    is_relevant: bool
    """Whether it writes what a repair reads or stores."""


def methods(model: Any, mined: Mined) -> list[Method]:
    """Return the public methods that the program's classes define, those first that write what a repair reads."""
    import torch

    outer = list(_methods_of(type(model), "", mined))
    inner: list[Method] = []
    seen: set[type] = {type(model)}
    if isinstance(model, torch.nn.Module):
        for path, module in model.named_modules():
            # One of each class: others have the same methods.
            if type(module) not in seen and _is_in(type(module), mined.files):
                seen.add(type(module))
                inner += _methods_of(type(module), path, mined)
    relevant = [each for each in (*outer, *inner) if each.is_relevant]
    others = [[each for each in some if not each.is_relevant] for some in (outer, inner)]
    rest = max(0, _MOST_METHODS - len(relevant))
    return [*relevant[: 2 * _MOST_METHODS], *others[0][:rest], *others[1][: rest // 2]]


def _methods_of(cls: type, path: str, mined: Mined) -> Iterator[Method]:
    found: set[str] = set()
    for each in cls.__mro__:
        # Methods of torch's own classes are the same before and after any repair.
        if each.__module__.partition(".")[0] in ("torch", "builtins", "abc", "typing"):
            continue
        for name, value in vars(each).items():
            is_setter = isinstance(value, property) and value.fset is not None
            if isinstance(value, property):
                function = value.fset
            else:
                function = value
            if name.startswith("_") or name == "forward" or not inspect.isfunction(function) or name in found:
                continue
            if name in mined.reporting:  # that the repair set what it sets is no difference
                continue
            found.add(name)
            # What a decorator made calls the method itself, whose code says what it writes.
            plain = inspect.unwrap(function)
            yield Method(path, name, plain, is_setter, plain.__name__ in mined.methods)


def _is_in(cls: type, files: Iterable[str]) -> bool:
    """Whether a class, or one that it derives from, stands in one of some files."""
    modules = (sys.modules.get(each.__module__) for each in cls.__mro__)
    known = {os.path.realpath(each) for each in files}
    return any(os.path.realpath(file) in known for each in modules if (file := getattr(each, "__file__", None)))


# Arguments

Arguments = Callable[[Call], tuple[tuple[Any, ...], dict[str, Any]]]
_Value = Callable[[Call, int], Any]
"""Makes the value of an argument, given the arguments of the model's call and the argument's position."""


def arguments(method: Method, model: Any, mined: Mined) -> Iterator[tuple[str, Arguments]]:
    """Yield arguments for a method: numbers and inputs; for one that matters, also what its parameters may mean."""
    parameters = [
        one
        for one in list(inspect.signature(method.function).parameters.values())[1:]
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    needed = [one for one in parameters if one.default is one.empty]
    if not needed:
        yield "", lambda call: ((), {})
    every = _numbers_and_inputs()
    if method.is_relevant:
        every.update(_others_than_numbers(method, model, mined))
    if needed:
        for how, value in every.items():
            yield how, _filled(needed, value, method, model)
    if method.is_relevant and len(parameters) > len(needed):
        for how, value in every.items():
            yield f"{how} for all", _filled(parameters, value, method, model)
    optional = [one for one in parameters if _may_be_none(one)]
    if method.is_relevant and needed and optional:
        yield "None", _filled(needed, lambda _call, _index: None, method, model, instead=optional)


def _numbers_and_inputs() -> dict[str, _Value]:
    def an_input(call: Call, index: int) -> Any:
        found = tensors(call)
        if not found:
            return None
        return found[index % len(found)]

    return {"the inputs": an_input, "2": lambda _call, _index: 2, "0.5": lambda _call, _index: 0.5}


def _others_than_numbers(method: Method, model: Any, mined: Mined) -> dict[str, _Value]:
    """Return values beside numbers and inputs: tensors of another dtype, arrays, dictionaries and texts."""
    import torch

    held = _held_by(method, model)
    found: dict[str, _Value] = {}
    if not any(isinstance(each, torch.Tensor) for each in held) and any(
        isinstance(each, bool | int | float) for each in held
    ):
        found["-1"] = lambda _call, _index: -1
    else:
        found["doubles"] = lambda call, index: _double(call, held, index)
        found["more dimensions"] = lambda call, index: _deeper(call, held, index)
        found["an array"] = lambda call, index: _double(call, held, index).numpy()
        found["a dictionary"] = lambda call, index: _dictionary(call, method, model, held)
        found["a dictionary of arrays"] = lambda call, index: {
            key: value.numpy() for key, value in _dictionary(call, method, model, held).items()
        }
    for text in _texts_of(method, mined):
        found[repr(text)] = lambda _call, _index, text=text: text  # type: ignore[misc]
    return found


def holder_of(method: Method, model: Any) -> Any:
    """Return the module whose method it is."""
    if method.path:
        return model.get_submodule(method.path)
    return model


def _held_by(method: Method, model: Any) -> list[Any]:
    """Return what the attributes hold that a method names."""
    holder = holder_of(method, model)
    stores = [own(holder), *(own(holder).get(name, {}) for name in ("_buffers", "_parameters"))]
    named = dict.fromkeys((*method.function.__code__.co_names, *_texts_in(method)))
    return [store[name] for name in named for store in stores if name in store and not name.startswith("_")]


def _double(call: Call, held: list[Any], index: int) -> Any:
    """Return a tensor in float64 like one that the method names, or like an input."""
    import torch

    like = [each for each in held if isinstance(each, torch.Tensor)] or tensors(call) or [torch.zeros(())]
    chosen = like[index % len(like)].detach()
    if chosen.is_complex():
        chosen = chosen.real
    return chosen.to(torch.float64) * 0.5 + 0.25


def _deeper(call: Call, held: list[Any], index: int) -> Any:
    """Return a tensor with more dimensions than the inputs, which makes what is computed with it another shape."""
    most = max((each.dim() for each in tensors(call)), default=0)
    found = _double(call, held, index).float()
    return found[(None,) * max(1, most + 1 - found.dim())]


def _dictionary(call: Call, method: Method, model: Any, held: list[Any]) -> dict[str, Any]:
    """Return a dictionary with the texts that a method names, and with what the model keeps, as keys."""
    kept = [name for name, _ in holder_of(method, model).named_buffers()]
    keys = dict.fromkeys((*_texts_in(method), *kept))
    return {key: _double(call, held, 0) for key in keys}


def _texts_in(method: Method) -> list[str]:
    """Return the literals of a method that are names; its documentation is none."""
    return [each for each in method.function.__code__.co_consts if isinstance(each, str) and each.isidentifier()]


def _texts_of(method: Method, mined: Mined) -> list[str]:
    return [each for each in dict.fromkeys((*_texts_in(method), *mined.texts)) if each.isidentifier()][:_MOST_TEXTS]


def _filled(
    parameters: Iterable[inspect.Parameter],
    value: _Value,
    method: Method,
    model: Any,
    *,
    instead: Iterable[inspect.Parameter] = (),
) -> Arguments:
    """Return arguments with one value for all parameters whose kind nothing else says; None for those `instead`."""
    nothing = {one.name for one in instead}
    wanted = [*parameters, *(one for one in instead if one not in parameters)]

    def made(call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for index, one in enumerate(wanted):
            given = None
            if one.name not in nothing:
                given = _of_kind(one, value(call, index), method, model)
            # Once one is passed by keyword, those after it have to be, too.
            if one.kind is one.KEYWORD_ONLY or one.name in nothing or len(args) < index:
                kwargs[one.name] = given
            else:
                args.append(given)
        return tuple(args), kwargs

    return made


def _may_be_none(parameter: inspect.Parameter) -> bool:
    return parameter.default is None or "None" in _annotated(parameter) or "Optional" in _annotated(parameter)


def _annotated(parameter: inspect.Parameter) -> str:
    """Return an annotation as text; empty: there is none."""
    if parameter.annotation is parameter.empty:
        return ""
    if isinstance(parameter.annotation, str):
        return parameter.annotation
    return repr(parameter.annotation)


def _of_kind(parameter: inspect.Parameter, value: Any, method: Method, model: Any) -> Any:
    """Return a value, or one of the kind that the annotation, the default or the name of a parameter asks for."""
    text, default = _annotated(parameter), parameter.default
    is_number = isinstance(value, int | float)
    for kind, other in ((bool, True), (int, 2), (float, 0.5)):
        if type(default) is kind or text in (kind.__name__, f"<class '{kind.__name__}'>"):
            if is_number:
                return kind(value)
            return other
    if isinstance(default, str) or text in ("str", "<class 'str'>") or (not text and parameter.name in ("name", "key")):
        names = [name for name, _ in holder_of(method, model).named_buffers()]
        if isinstance(value, str):
            return value
        return next(iter((*_texts_in(method), *names)), "")
    return value


def modules_of(subject: Any) -> Iterator[Any]:
    """Yield the modules of a model; of an object that is none, such as one of a class with `__call__`, itself."""
    import torch

    if isinstance(subject, torch.nn.Module):
        yield from subject.modules()
    else:
        yield subject


def own(holder: Any) -> dict[str, Any]:
    """Return the attributes that an object itself holds."""
    found = getattr(holder, "__dict__", None)
    if not isinstance(found, dict):
        return {}
    return found
