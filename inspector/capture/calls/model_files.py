"""Load the model that a target names, its inputs, and the calls that `--vary` and `--provoke` add to them.

An added call changes one thing that commonly causes recompilations, as far as the target's inputs allow it.
"""

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from msgspec import Struct

from ctrace.inspector.capture.calls.call_tensors import (
    make_inputs,
    mapped,
    recast,
    requiring,
    resized,
    restrided,
    tensors,
)
from ctrace.inspector.capture.calls.program_run import first_on_path
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.capture.core.child_doors import child_door
from ctrace.inspector.capture.core.imports import Preloaded
from ctrace.inspector.errors import TargetError, did_you_mean
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.runs.capture_request import CaptureRequest
from ctrace.inspector.runs.options import InputChoice, Vary, parse_vary

Make = Callable[[], Call]

_GRAD_NAMES = {"off": "no_grad", "on": "enable_grad", "inference": "inference_mode"}


class Loaded(Struct, frozen=True):
    """A model and the ways to call it, keyed by name and in order."""

    model: Callable[..., Any]
    scenarios: dict[str, Way]
    parts: tuple[str, ...] = ()
    """What to compile instead of the whole model; see `call_parts.py`."""
    module: ModuleType | None = None
    """The module that the model is from: a model file may offer more than the model and its inputs."""
    without_values: "WithoutValues | None" = None
    """What follows the calls of a model whose parameters have no storage; None: the model has values."""


class WithoutValues(Protocol):
    """What knows which values do not exist; features/fake/child/door.py has it."""

    def counting(self) -> AbstractContextManager[None]:
        """Return a context for an eager call that only counts ops, so that no stop in it is recorded."""

    def call(self, index: int) -> None:
        """Note that a compiled call of a scenario begins."""

    def stopping(self) -> AbstractContextManager[None]:
        """Return a context that raises CallStoppedError for any exception which a missing value is the cause of."""


def _unchanged(model: Any, _module: ModuleType) -> Any:
    return model


def load(
    request: CaptureRequest,
    preloaded: Preloaded,
    planned: Callable[[Mapping[str, Way]], None] = lambda _ways: None,
    made: Callable[[Any, ModuleType], Any] = _unchanged,
) -> Loaded:
    """Import the target's module and find the model, its inputs and scenarios.

    `planned` receives the scenarios before any inputs are made; `made` receives the model before, and its module, and
    returns the model to call.

    Raises:
        TargetError: the target does not exist, or is not a model.
        BaseException: whatever the user's file raises.
    """
    module = _import(request, preloaded)
    where = request.path or str(request.module)
    model = made(_model(module, request.name, where), module)
    base = _base(module, request, model, where)
    scenarios = {"base": Way(base, ScenarioKind.BASE)}
    for name, inputs in _scenarios(module, where).items():
        scenarios[str(name)] = Way(functools.partial(_call, inputs, model, f"scenario {name!r} of {where}"))
    for text in request.options.vary:
        scenarios |= varied(base, parse_vary(text))
    # Before any inputs are made: if that fails or hangs, the log still names the scenarios.
    planned(scenarios)
    # Once beside the calls, so that wrong inputs are reported before anything compiles.
    first = base()
    _check_signature(model, first, where)
    suspects = {}
    if request.options.provoke:
        suspects = provoked(model, base, first)
    # A scenario of the user's that has the name of a suspect counts.
    ways = scenarios | {name: way for name, way in suspects.items() if name not in scenarios}
    return Loaded(model, ways, module=module)


def _import(request: CaptureRequest, preloaded: Preloaded) -> ModuleType:
    if request.path is None:
        first_on_path(Path.cwd(), preloaded)
        return _import_by_name(str(request.module))
    path = Path(request.path)
    if path.is_dir():  # `hf:FOLDER`
        found: ModuleType = child_door("fake").module_of_folder(path)
        return found
    # As Python sets it for a script: the file may parse its arguments.
    sys.argv = [str(path)]
    first_on_path(path.resolve().parent, preloaded)
    spec = importlib.util.spec_from_file_location(path.stem, path.absolute())
    if spec is None or spec.loader is None:
        raise TargetError(f"{path} is not a Python file", "pass a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    # Before it runs, as Python does: dataclasses and pickle look up the module of a class by name.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _import_by_name(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Any other missing module is one that the user's code imports, and its traceback says where.
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise TargetError(f"there is no module {error.name}", "check the name and the current directory") from None
        raise


def _model(module: ModuleType, name: str | None, where: str) -> Callable[..., Any]:
    found: Any = module
    # A dotted name leads into objects of the file, such as to a layer of a model.
    for part in (name or "model").split("."):
        found = _attribute(found, part, where)
    # A function called `model` may make the model; one with parameters is the model, see `_made`.
    if isinstance(found, type) or (name is None and inspect.isfunction(found)) or _is_factory(found):
        found = _made(found, name or "model", where)
    if not callable(found):
        raise TargetError(
            f"{name or 'model'} in {where} has type {type(found).__name__}",
            "pass the name of an nn.Module or a function",
        )
    model: Callable[..., Any] = found
    return model


def _attribute(owner: Any, name: str, where: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        names = [known for known in dir(owner) if not known.startswith("_")]
        todo = did_you_mean(name, names, f"it has: {', '.join(names[:8]) or 'nothing'}")
        raise TargetError(f"there is no {name} in {where}", todo) from None


def _is_factory(found: Any) -> bool:
    return inspect.isfunction(found) and not inspect.signature(found).parameters


def _made(factory: Callable[[], Any], name: str, where: str) -> Any:
    try:
        # The signature tells, because an error inside of the constructor must stay the user's own.
        inspect.signature(factory).bind()
    except TypeError:
        if isinstance(factory, type):
            todo = "create an instance at the top of the file, `model = ...`, and pass its name"
            raise TargetError(f"{name} in {where} is a class that needs arguments", todo) from None
        return factory  # a function with parameters is the model itself
    return factory()


def _scenarios(module: ModuleType, where: str) -> Mapping[Any, Any]:
    scenarios = getattr(module, "scenarios", {})
    if not isinstance(scenarios, Mapping):
        todo = 'write scenarios = {"name": lambda: (...)}'
        raise TargetError(f"scenarios in {where} has type {type(scenarios).__name__}, not dict", todo)
    return scenarios


def _base(module: ModuleType, request: CaptureRequest, model: Any, where: str) -> Callable[[], Call]:
    if request.options.inputs:
        # What the command line says counts before the file.
        return lambda: make_inputs(request.options.inputs)
    if not hasattr(module, "inputs"):
        todo = 'add `def inputs(): return (...)`, or pass --input "float32[8,128]"'
        raise TargetError(f"{where} defines no `inputs`", todo)
    return lambda: _call(module.inputs, model, f"inputs of {where}")


def _call(inputs: Any, model: Any, what: str) -> Call:
    """Turn a model file's inputs into arguments.

    They are a tuple, a dict of keyword arguments, a pair of these, one tensor, or a function that returns one of these.
    """
    # A tensor cannot be called, but a subclass of one may define it.
    if callable(inputs) and not _is_tensor(inputs):
        value = inputs()
    else:
        value = inputs
    if isinstance(value, Mapping):
        return Call((), {str(name): argument for name, argument in value.items()})
    if isinstance(value, tuple | list):
        if _is_pair(value, model):
            return Call(tuple(value[0]), dict(value[1]))
        return Call(tuple(value), {})
    if _is_tensor(value):
        return Call((value,), {})
    raise TargetError(f"{what}: a {type(value).__name__}", "use a tuple of arguments, or a dict of keyword arguments")


def _is_pair(value: Any, model: Any) -> bool:
    """Whether inputs are positional arguments and a dict of those by keyword: its names are parameters of the model."""
    # An empty dict names no parameter, so it may as well be an argument.
    if len(value) != 2 or not isinstance(value[0], tuple | list) or not isinstance(value[1], Mapping) or not value[1]:
        return False
    try:
        parameters = inspect.signature(entered_by_call(model)).parameters
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    return all(name in parameters for name in value[1])


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def entered_by_call(model: Any) -> Any:
    """Return what a call of a model enters: its forward, or the model itself if its class has only a `__call__`."""
    import torch

    function = getattr(model, "forward", model)
    # The module's own forward only raises, and its signature takes anything.
    is_unimplemented = getattr(function, "__func__", None) is torch.nn.Module.forward
    if is_unimplemented:
        return model
    return function


def _check_signature(model: Callable[..., Any], call: Call, where: str) -> None:
    function = entered_by_call(model)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin without a signature
        return
    try:
        # Before anything compiles: Dynamo would report the wrong call as an error in the model.
        signature.bind(*call.args, **call.kwargs)
    except TypeError as error:
        names = ", ".join(str(parameter) for parameter in signature.parameters.values())
        raise TargetError(f"the inputs of {where} do not match the model: {error}", f"it takes ({names})") from None


_SEQUENCE_DIMENSIONS = {True: 3, False: 2}
"""Number of dimensions of a batch of sequences: True for floating point (features), False for integers (token ids)."""


def provoked(model: Any, base: Make, call: Call) -> dict[str, Way]:
    """Make a scenario for each suspect that changes `call`."""
    found: dict[str, Way] = {}
    for vary in _suspects(model, tensors(call)):
        for name, way in varied(base, vary, ScenarioKind.PROVOKED).items():
            if _can_be_made(way):
                # The first suspect of a name counts: two may lead to the same change.
                found.setdefault(name, way)
    return found


def _can_be_made(way: Way) -> bool:
    """Whether a suspect fits the call: changed inputs are made, to see; a size, for example, may belong to no input."""
    changes_mode_only = way.training is not None or way.grad is not None
    if changes_mode_only:  # any model has these modes, and the inputs stay as they are
        return True
    try:
        way.make()
    except TargetError:
        return False
    return True


def _suspects(model: Any, inputs: list[Any]) -> Iterator[Vary | InputChoice]:
    import torch

    yield from _sizes(inputs)
    if isinstance(model, torch.nn.Module):
        # The mode that it is not in.
        yield InputChoice("mode", ("eval" if model.training else "train",))
    if torch.is_grad_enabled():
        yield InputChoice("grad", ("off",))
    yield InputChoice("stride", ("noncontiguous",))
    floating = [tensor.dtype for tensor in inputs if tensor.is_floating_point()]
    if floating:
        yield InputChoice("dtype", ("float64" if floating[0] is torch.float32 else "float32",))


def _sizes(inputs: list[Any]) -> Iterator[Vary]:
    """Make scenarios with batch size 1, an odd batch size, and sequences of double length."""
    batch = next((tensor.shape[0] for tensor in inputs if tensor.dim()), 0)
    if batch:
        # Odd, so that a guard on divisibility, such as `batch % 2 == 0`, fails.
        odd = batch + 1 + batch % 2
        yield Vary(0, tuple(size for size in (1, odd) if size != batch))
    long = [tensor.shape[1] for tensor in inputs if tensor.dim() == _SEQUENCE_DIMENSIONS[tensor.is_floating_point()]]
    if long and long[0]:
        yield Vary(1, (2 * long[0],))


def varied(base: Make, vary: Vary | InputChoice, kind: ScenarioKind = ScenarioKind.VARY) -> dict[str, Way]:
    """Make a scenario for each value, with a short name: `dim0=8`, `dtype=float64`, `eval`, `no_grad`."""
    if isinstance(vary, Vary):
        return {
            f"dim{vary.dimension}={size}": Way(functools.partial(_resized, base, vary.dimension, size), kind)
            for size in vary.sizes
        }
    return dict(_chosen(base, vary.what, value, kind) for value in vary.values)


def _chosen(base: Make, what: str, value: str, kind: ScenarioKind) -> tuple[str, Way]:
    match what:
        case "mode":
            return value, Way(base, kind, training=value == "train")
        case "grad":
            return _GRAD_NAMES[value], Way(base, kind, grad=value)
    changes: dict[str, Callable[[Any], Any]] = {
        "dtype": functools.partial(recast, dtype=value),
        "stride": functools.partial(restrided, stride=value),
        "requires_grad": functools.partial(requiring, grad=value == "on"),
    }
    if what != "stride":
        name = f"{what}={value}"
    else:
        name = value
    return name, Way(functools.partial(_changed, base, changes[what], f"{what}={value}"), kind)


def _resized(make: Make, dimension: int, size: int) -> Call:
    return resized(make(), dimension, size)


def _changed(make: Make, change: Callable[[Any], Any], what: str) -> Call:
    """Change every input that allows it.

    Raises:
    TargetError: no input changes.
    """
    call = make()
    changed = mapped(call, change)
    # The changes return the tensor itself where they do not apply.
    if all(old is new for old, new in zip(tensors(call), tensors(changed), strict=True)):
        raise TargetError(f"--vary {what}: this changes no input", "drop it, or use another value")
    return changed
