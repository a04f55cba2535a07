"""The modules of a target: which there are, and how to compile some of them instead of the whole."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from types import CodeType
from typing import Any

from ctrace.inspector.capture.calls.applied_trial import TrialError
from ctrace.inspector.capture.calls.model_files import WithoutValues
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.facts.fake_facts import ModelLoaded
from ctrace.inspector.facts.run_events import CodeLines, PartCode, PartsSeen

_MOST = 2_000
"""The most modules that are recorded."""
_MODEL = "model"


def described(model: Any) -> PartsSeen:
    """Return each module with its class and the lines of its `forward`."""
    codes: dict[CodeType, int] = {}
    parts = []
    for path, module in islice(_modules(model), _MOST):
        code = _forward(module)
        if code is not None:
            number = codes.setdefault(code, len(codes))
            parts.append(PartCode(path, type(module).__name__, number, _elements(module)))
    lines = tuple(CodeLines(code.co_filename, code.co_firstlineno, _last_line(code)) for code in codes)
    return PartsSeen(lines, tuple(parts))


class WholeModel:
    """A model as its file makes it; the feature `fake` has one without weights (features/fake/child/door.py)."""

    is_fake = False

    def active(self) -> AbstractContextManager[None]:
        """Return a context for everything that loads and calls the model."""
        return nullcontext()

    def stopping(self) -> AbstractContextManager[None]:
        """Return a context that raises CallStoppedError for any exception which a missing value is the cause of."""
        return nullcontext()

    def made(self, model: Any, _module: Any) -> Any:
        """Return the model to call in place of the one that the file made."""
        return model

    def arguments(self, call: Call) -> Call:
        """Return the arguments to call the model with in place of those that the file made."""
        return call

    def values(self) -> "WithoutValues | None":
        """Return what follows the calls if values do not exist."""
        return None

    def size(self, model: Any) -> ModelLoaded:
        """Return how large the model is; parameters that several modules share count once."""
        import torch

        parameters = {id(each): each for root in roots(model).values() for each in root.parameters()}
        lazy = torch.nn.parameter.UninitializedParameter
        if not roots(model) or any(isinstance(each, lazy) for each in parameters.values()):
            return ModelLoaded(self.is_fake)
        elements = sum(each.numel() for each in parameters.values())
        total = sum(each.numel() * each.element_size() for each in parameters.values())
        return ModelLoaded(self.is_fake, elements, total)


def _modules(model: Any) -> Iterator[tuple[str, Any]]:
    """Yield the target's modules with their paths; for a function, those of the variables of its module."""
    import torch

    for root, module in roots(model).items():
        # Torch's own method, as a class of the user's may override it.
        for name, each in torch.nn.Module.named_modules(module):
            yield f"{root}.{name}" if name else root, each


def roots(model: Any) -> dict[str, Any]:
    """Return the target, or the modules among the global variables of a function, by name."""
    import torch

    if isinstance(model, torch.nn.Module):
        return {_MODEL: model}
    names = getattr(model, "__globals__", None)
    found = {}
    if isinstance(names, dict):
        found = names
    # A variable of this name would have the path of the target itself.
    return {name: each for name, each in found.items() if isinstance(each, torch.nn.Module) and name != _MODEL}


def _elements(module: Any) -> int:
    """Count the elements of a module's parameters; those of a lazy module are not known yet."""
    import torch

    lazy = torch.nn.parameter.UninitializedParameter
    return sum(each.numel() for each in torch.nn.Module.parameters(module) if not isinstance(each, lazy))


def _forward(module: Any) -> CodeType | None:
    """Return the code of a module's `forward`; None if Python does not run it, as in a script module."""
    # A decorator, such as torch.no_grad, has a function of its own around the one that the user wrote.
    found = inspect.unwrap(getattr(type(module), "forward", None) or (lambda: None))
    code = getattr(found, "__code__", None)
    if isinstance(code, CodeType):
        return code
    return None


def _last_line(code: CodeType) -> int:
    inner = (_last_line(each) for each in code.co_consts if isinstance(each, CodeType))
    # Lambdas and comprehensions of `forward` have code objects of their own.
    return max(code.co_firstlineno, *(line for *_, line in code.co_lines() if line is not None), *inner)


def compiled(model: Any, paths: tuple[str, ...], arguments: dict[str, Any]) -> Callable[..., Any]:
    """Compile the target, or only the modules at the paths.

    Raises:
        TrialError: there is no module at a path, or it refuses another `forward`.
    """
    import torch

    if not paths:
        made: Callable[..., Any] = torch.compile(model, **arguments)
        return made
    modules = dict(_modules(model))
    for path in paths:
        if path not in modules:
            raise TrialError(f"there is no {path}")
        try:
            # Not Module.compile(), which captures no graph of a module of torch, such as Sequential (torch 2.13).
            modules[path].forward = torch.compile(modules[path].forward, **arguments)
        except Exception as error:  # a class of the user's may refuse to be written to, with any exception
            raise TrialError(f"{path}.forward cannot be replaced: {type(error).__name__}: {error}") from error
    return model  # type: ignore[no-any-return]
