"""Describe how a target calls its model, and the functions in which a finding is, as Python expressions.

A value becomes an expression that makes a similar one.
"""

import enum
import inspect
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.calls.model_files import load
from ctrace.inspector.capture.calls.program_run import run_program
from ctrace.inspector.capture.calls.ways import Call, Way, gradients
from ctrace.inspector.capture.core.imports import Preloaded
from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.scenario_facts import ScenarioKind
from ctrace.inspector.install_folders import INSPECTOR
from ctrace.inspector.runs.capture_request import CaptureRequest

_MOST_ITEMS = 40
"""Items of a list that a reproducer spells out."""
_LONGEST = 200
"""Characters of a string that a reproducer spells out."""
_FEW_VALUES = 8
"""Elements of a tensor that a reproducer spells out; a larger one is drawn at random."""
_PACKAGES = ("site-packages", "dist-packages")


class NoExpressionError(Exception):
    """A value cannot be written as an expression."""


class Literals:
    """Writes expressions, and collects the imports that they need."""

    def __init__(self, made: Mapping[int, "ConstructorArguments"]) -> None:
        """`made` has the arguments that modules were constructed with, keyed by id."""
        self.imports: dict[str, None] = {}
        self._made = made

    def write(self, value: Any) -> str:
        """Write a value.

        Raises:
            NoExpressionError: that is impossible.
        """
        # An enum may be an int or a str, too, and bool is an int: the order of the cases matters.
        match value:
            case None | bool() | str() | bytes() if not isinstance(value, enum.Enum):
                return _short(repr(value))
            case enum.Enum():
                return f"{self.name(type(value))}.{value.name}"
            case int():
                return repr(int(value))
            case float():
                if math.isfinite(value):
                    return repr(value)
                return f"float('{value}')"
        return self._of_torch(value) or self._container(value) or self._object(value)

    def _of_torch(self, value: Any) -> str:
        import torch

        match value:
            case torch.Tensor():
                return self._tensor(value)
            case torch.dtype() | torch.memory_format() | torch.layout():
                return str(value)
            case torch.device():
                return f"torch.device('{value}')"
            case torch.nn.Module():
                return self.module(value)
        return ""

    def _container(self, value: Any) -> str:
        import torch

        if isinstance(value, slice):
            return f"slice({self.write(value.start)}, {self.write(value.stop)}, {self.write(value.step)})"
        # By the exact type: a named tuple or a cache of a library is more than its items.
        if type(value) in (tuple, torch.Size):
            items = [self.write(each) for each in _few(value)]
            if len(items) == 1:
                return f"({items[0]},)"
            return f"({', '.join(items)})"
        if type(value) is list:
            return f"[{', '.join(self.write(each) for each in _few(value))}]"
        if type(value) is dict:
            return f"{{{', '.join(f'{self.write(key)}: {self.write(each)}' for key, each in _few(value.items()))}}}"
        return ""

    def _object(self, value: Any) -> str:
        if callable(getattr(value, "to_diff_dict", None)):  # a PretrainedConfig of transformers
            return self._config(value)
        if callable(value) and hasattr(value, "__qualname__"):
            return self.name(value)
        raise NoExpressionError(type(value).__qualname__)

    def module(self, module: Any) -> str:
        """Write a module as the call that constructed it, in its mode.

        Raises:
            NoExpressionError: the call is not known, or its arguments cannot be written.
        """
        made = self._made.get(id(module))
        if made is None:
            raise NoExpressionError(type(module).__qualname__)
        args = [self.write(each) for each in made.args]
        args += [f"{name}={self.write(each)}" for name, each in made.kwargs.items()]
        text = f"{self.name(type(module))}({', '.join(args)})"
        if module.training:
            return text
        return f"{text}.eval()"

    def name(self, value: Any) -> str:
        """Write a class or function by name, with its import if it is in a package.

        Raises:
            NoExpressionError: no name at the top of a module leads to it.
        """
        name, module = value.__qualname__, value.__module__
        # Such as a lambda, or a class that a function defines: no import leads there.
        if "<" in name or module is None:
            raise NoExpressionError(name)
        if module == "builtins":
            return str(name)
        if _is_package(value):
            if module.partition(".")[0] == "torch":
                if module.startswith("torch.nn.modules"):  # every public one is also in torch.nn
                    module = "torch.nn"
                return f"{module}.{name}"
            self.imports[f"from {module} import {name.partition('.')[0]}"] = None
        return str(name)

    def _config(self, value: Any) -> str:
        """Write a configuration of transformers with what differs from its defaults."""
        dropped = ("transformers_version", "model_type", "architectures", "_name_or_path", "dtype", "torch_dtype")
        try:
            # Only what differs from the defaults, so that the expression stays readable.
            defaults = type(value)().to_diff_dict()
        except Exception:  # a configuration that needs arguments
            defaults = {}
        fields = {
            name: each
            for name, each in value.to_diff_dict().items()
            if name not in dropped and not (name in defaults and defaults[name] == each)
        }
        # What from_pretrained has chosen is in private fields, which the dictionary lacks.
        if (chosen := getattr(value, "_attn_implementation", None)) is not None:
            fields["attn_implementation"] = chosen
        if (chosen := getattr(value, "_experts_implementation", None)) is not None:
            fields["experts_implementation"] = chosen
        inner = ", ".join(f"{name}={self.write(each)}" for name, each in fields.items())
        return f"{self.name(type(value))}({inner})"

    def _tensor(self, value: Any) -> str:
        import torch

        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
            raise NoExpressionError("tensor subclass")
        sizes = ", ".join(str(int(each)) for each in value.shape)
        dtype = ""
        if value.dtype not in (torch.float32, torch.int64, torch.bool):
            dtype = f", dtype={value.dtype}"
        device = ""
        if value.device.type != "cpu":
            device = f", device='{value.device}'"
        grad = ", requires_grad=True" if value.requires_grad and value.is_leaf else ""
        if value.dtype.is_floating_point or value.dtype.is_complex:
            text = f"torch.randn({sizes or '()'}{dtype}{device}{grad})"
            if value.dtype.itemsize == 1:  # there are no random numbers of float8
                text = f"torch.randn({sizes or '()'}{device}).to({value.dtype})"
        elif value.numel() <= _FEW_VALUES:  # such as lengths, on which the model may decide
            text = f"torch.tensor({value.tolist()}{dtype}{device})"
        elif value.dtype is torch.bool:
            text = f"torch.ones({sizes}, dtype=torch.bool{device})"  # a mask that masks nothing
            if not bool(value.all()):
                text = f"torch.randn({sizes}{device}) > 0"
        else:
            # Within the same bounds: they may be indices.
            text = f"torch.randint({int(value.min())}, {int(value.max()) + 1}, ({sizes},){dtype}{device})"
        # Strides may be what the finding is about; a transpose is the layout that programs pass most.
        if not value.is_contiguous() and value.dim() > 1 and value.mT.is_contiguous():
            text += ".mT.contiguous().mT"
        return text


class ConstructorArguments:
    """The arguments that a module was constructed with."""

    def __init__(self, args: list[Any], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs


def _few(values: Any) -> Iterator[Any]:
    if len(values) > _MOST_ITEMS:
        raise NoExpressionError("a long list")
    yield from values


def _short(text: str) -> str:
    if len(text) > _LONGEST:
        raise NoExpressionError("a long string")
    return text


def _is_package(value: Any) -> bool:
    """Whether a class or function comes from an installed package or the standard library."""
    import sys

    file = getattr(sys.modules.get(value.__module__), "__file__", None)
    if file is None or file.startswith(str(INSPECTOR)):
        return False
    return any(part in _PACKAGES for part in Path(file).parts) or file.startswith((sys.base_prefix, sys.prefix))


_CALLS = 2
"""Calls per scenario, as in a capture."""
_MOST_CALLS = 12
"""Calls of one function that are described: later ones seldom differ."""
_INNER = ("<lambda>", "<listcomp>", "<genexpr>", "<setcomp>", "<dictcomp>", "<module>")


class _Seen(Struct):
    """A function in which the finding is, and how it was called."""

    function: str
    callee: str = ""
    fallback: str = ""
    """The same through the whole model, if the module itself cannot be constructed."""
    order: int = 0
    """The position among the wanted places."""
    calls: list[list[str]] = field(default_factory=list)
    imports: list[str] = field(default_factory=list)


def describe(request: dict[str, Any]) -> None:
    """Write to `request["result"]` what the target's calls look like."""
    import torch

    asked = CaptureRequest.from_file(Path(request["describe"]))
    # As where the target runs: it may read files by relative paths.
    os.chdir(request["folder"])
    watch = _Watch([(os.path.realpath(file), line) for file, line in request["wanted"]])
    found: dict[str, Any] = {"calls": [], "error": ""}
    torch.manual_seed(0)
    # The target may compile parts of itself, and its calls are described as plain Python runs them.
    torch.compiler.set_stance("force_eager")
    try:
        with watch.watching():
            if asked.kind == "model":
                found |= _model_calls(asked, watch)
            else:
                run_program(asked, Preloaded(frozenset()))
    except CtraceError as error:
        found["error"] = error.what
    except (Exception, SystemExit) as error:
        found["error"] = f"{type(error).__name__}: {error}"
    found["frames"] = [_plain(each) for each in watch.seen.values()]
    Path(request["result"]).write_text(json.dumps(found), encoding="utf-8")


def _plain(each: _Seen) -> dict[str, Any]:
    return {name: getattr(each, name) for name in ("function", "callee", "fallback", "order", "calls", "imports")}


def _model_calls(asked: CaptureRequest, watch: "_Watch") -> dict[str, Any]:
    """Call the model in eager in every scenario; describe each call."""
    import torch

    loaded = load(asked, Preloaded(frozenset()))
    model = loaded.model
    watch.root = model
    if asked.options.train and isinstance(model, torch.nn.Module):
        model.train()
    calls = []
    for name, way in loaded.scenarios.items():
        for _ in range(_CALLS):
            # Inputs of its own for each call, as a model may write to them.
            call = way.make()
            calls.append(_described(name, way, call, watch) | {"source": _source(asked, name, way, call)})
            with suppress(Exception), gradients(way):  # what the finding is may raise; calls up to there are described
                model(*call.args, **call.kwargs)
    return {"calls": calls}


def _source(asked: CaptureRequest, name: str, way: Way, call: Call) -> str | None:
    """Write the arguments as the target's own inputs; None: an option made them."""
    module: Any = sys.modules.get(Path(asked.path).stem if asked.path is not None else str(asked.module))
    if way.kind is ScenarioKind.BASE and not asked.options.inputs:
        text, value = "inputs", getattr(module, "inputs", None)
    elif way.kind is ScenarioKind.GIVEN:
        text, value = f"scenarios[{name!r}]", getattr(module, "scenarios", {}).get(name)
    else:
        return None
    if inspect.isroutine(value):
        text += "()"
    if call.kwargs:
        return f"**{text}"
    return f"*{text}"


def _described(name: str, way: Way, call: Call, watch: "_Watch") -> dict[str, Any]:
    literals = watch.literals()
    try:
        args = [literals.write(each) for each in call.args]
        args += [f"{key}={literals.write(each)}" for key, each in call.kwargs.items()]
        text: str | None = ", ".join(args)
    except NoExpressionError:
        text = None
    return {
        "scenario": name,
        "kind": str(way.kind),
        "args": text,
        "imports": list(literals.imports),
        "training": way.training,
        "grad": way.grad,
    }


class _Watch:
    """Sees constructions of modules, and calls of the wanted functions."""

    def __init__(self, wanted: list[tuple[str, int]]) -> None:
        self.seen: dict[CodeType, _Seen] = {}
        self.root: Any = None
        self._wanted = wanted
        self._files = {file for file, _ in wanted}
        self._real: dict[str, str] = {}
        self._made: dict[int, ConstructorArguments] = {}
        self._kept: list[Any] = []  # ids stay unique while the objects live
        self._is_busy = False

    def literals(self) -> Literals:
        return Literals(self._made)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the block."""
        # A profile function sees no lines, and so slows a program less than a trace function does.
        sys.setprofile(self._event)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _event(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or self._is_busy:
            return
        code = frame.f_code
        # Every constructor is seen, as nobody knows yet which module has the finding.
        if code.co_name == "__init__":
            self._construction(frame)
        # Once a file: resolving a path asks the file system, and this runs in each call.
        file = self._real.get(code.co_filename)
        if file is None:
            file = self._real[code.co_filename] = os.path.realpath(code.co_filename)
        if file in self._files and code.co_name not in _INNER and (order := self._order(file, code)) is not None:
            self._is_busy = True  # to describe a call runs Python code, which is not to be described
            try:
                self._called(frame, order)
            finally:
                self._is_busy = False

    def _order(self, file: str, code: CodeType) -> int | None:
        """Return the position of the first wanted place that is in a function."""
        last = max((line for _, _, line in code.co_lines() if line is not None), default=code.co_firstlineno)
        return next(
            (
                number
                for number, (name, line) in enumerate(self._wanted)
                if name == file and code.co_firstlineno <= line <= last
            ),
            None,
        )

    def _construction(self, frame: FrameType) -> None:
        torch = sys.modules.get("torch")
        code = frame.f_code
        own = None
        if code.co_argcount:
            own = frame.f_locals.get(code.co_varnames[0])
        # The first construction counts: a module may call its own constructor again, to reset itself.
        if torch is None or not isinstance(own, torch.nn.Module) or id(own) in self._made:
            return
        if getattr(type(own).__init__, "__code__", None) is not code:
            return  # the constructor of a base class, which the own one calls with other arguments
        args, kwargs = _arguments(frame, skip=1, function=type(own).__init__)
        self._made[id(own)] = ConstructorArguments(args, kwargs)
        self._kept.append(own)

    def _called(self, frame: FrameType, order: int) -> None:
        code = frame.f_code
        seen = self.seen.setdefault(code, _Seen(code.co_qualname, order=order))
        if len(seen.calls) >= _MOST_CALLS:
            return
        literals = self.literals()
        is_method = bool(code.co_argcount) and code.co_varnames[0] == "self"
        try:
            args, kwargs = _arguments(frame, skip=int(is_method), function=None)
            texts = [literals.write(each) for each in args]
            texts += [f"{name}={literals.write(each)}" for name, each in kwargs.items()]
        except NoExpressionError:
            return
        if not seen.callee and not seen.fallback:
            self._callee(seen, frame.f_locals.get("self") if is_method else None, frame, literals)
        seen.calls.append(texts)
        seen.imports = list(dict.fromkeys([*seen.imports, *literals.imports]))

    def _callee(self, seen: _Seen, own: Any, frame: FrameType, literals: Literals) -> None:
        import torch

        code = frame.f_code
        if own is None:
            function = frame.f_globals.get(code.co_name)
            if _is_code_of(function, code):
                with suppress(NoExpressionError):
                    seen.callee = literals.name(function)
            return
        # A method that an instance or a decorator has replaced is not what a call by this name would reach.
        if not isinstance(own, torch.nn.Module) or not _is_code_of(getattr(type(own), code.co_name, None), code):
            return
        method = ""
        if code.co_name != "forward":
            method = f".{code.co_name}"
        with suppress(NoExpressionError):
            seen.callee = literals.module(own) + method
        if isinstance(self.root, torch.nn.Module):
            path = next((name for name, each in self.root.named_modules() if each is own), None)
            if path:
                seen.fallback = f".get_submodule({path!r}){method}"


def _is_code_of(function: Any, code: CodeType) -> bool:
    """Whether a function, or the one that its decorators wrap, has this code."""
    return callable(function) and getattr(inspect.unwrap(function), "__code__", None) is code


def _arguments(frame: FrameType, *, skip: int, function: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return a frame's arguments as it was called: positional ones, then those by keyword; leave out defaults."""
    code, values = frame.f_code, frame.f_locals
    names = code.co_varnames[: code.co_argcount]
    args = [values[name] for name in names[skip:]]
    kwargs = {name: values[name] for name in code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]}
    # CPython keeps `*args` and `**kwargs` behind all named parameters.
    position = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        args += values[code.co_varnames[position]]
        position += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs |= values[code.co_varnames[position]]
    if function is not None and not code.co_flags & inspect.CO_VARARGS:
        with suppress(Exception):  # a callable without a signature, or values whose comparison raises: all are written
            return _without_defaults(function, args, kwargs, names[skip:])
    return args, kwargs


def _without_defaults(
    function: Any, args: list[Any], kwargs: dict[str, Any], names: tuple[str, ...]
) -> tuple[list[Any], dict[str, Any]]:
    """Leave out arguments that have the default value of their parameter."""
    defaults = {name: each.default for name, each in inspect.signature(function).parameters.items()}
    kept, named = [], dict(kwargs)
    for name, value in zip(names, args, strict=True):
        if defaults[name] is inspect.Parameter.empty:
            kept.append(value)
        else:
            named[name] = value
    # By identity: equal values may be of another type, and tensors do not compare with one answer.
    return kept, {name: value for name, value in named.items() if defaults.get(name, named) is not value}
