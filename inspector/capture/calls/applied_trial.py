"""Apply a trial in the capturing process: settings, edited source lines, marked dimensions and modes.

Edits apply at import: Python's loader calls `SourceLoader.get_code` for the code of a file, and an edited file skips
the cached bytecode. Files on disk do not change.
"""

import importlib
import importlib.machinery
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ctrace.inspector.capture.calls.model_files import entered_by_call
from ctrace.inspector.capture.calls.replaced import replaced_text, replaced_texts
from ctrace.inspector.capture.calls.ways import Call, Way
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.trial import LineEdit, Marked, NewText, Trial


class TrialError(TargetError):
    """The trial does not fit the model, its source or this torch."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "this is only a trial; the report omits it")


@contextmanager
def edited_sources(edits: tuple[LineEdit, ...], sources: tuple[NewText, ...] = ()) -> Iterator[None]:
    """Import files with their edits, or with another text, while the block runs."""
    files = {os.path.realpath(edit.file) for edit in edits}
    with replaced_texts(sources), _edited(files, edits) if files or sources else nullcontext():
        yield


@contextmanager
def _edited(files: set[str], edits: tuple[LineEdit, ...]) -> Iterator[None]:
    loader = importlib.machinery.SourceFileLoader
    # Only the loader of source files: compiled extensions and zipped packages have other loaders, and no lines to edit.
    original = loader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        path = self.get_filename(fullname)
        text = replaced_text(path)
        if text is not None:
            # `dont_inherit`: the `__future__` statements of this file must not apply to the user's.
            return compile(text, path, "exec", dont_inherit=True)
        if os.path.realpath(path) not in files:
            return original(self, fullname)
        return compile(edited_text(Path(path), edits), path, "exec", dont_inherit=True)

    with patched(loader, "get_code", get_code):
        yield


def edited_text(path: Path, edits: tuple[LineEdit, ...]) -> str:
    """Return the text of a file after its edits.

    Raises:
        TrialError: a line is not the one that the edit replaces.
    """
    # Not `splitlines`, which also splits where Python counts no line, such as at a form feed.
    lines = path.read_text(encoding="utf-8").split("\n")
    for edit in edits:
        if os.path.realpath(edit.file) != os.path.realpath(path):
            continue
        at = edit.line - 1
        # The line was read in another run; a file that changed since then must not be edited blindly.
        if not 0 <= at < len(lines) or (edit.was and lines[at].strip() != edit.was.strip()):
            raise TrialError(f"line {edit.line} of {path} has changed")
        lines[at] = edit.text
    return "\n".join(lines)


@contextmanager
def settings_of(trial: Trial) -> Iterator[None]:
    """Set torch's options for the block.

    Raises:
        TrialError: this torch has no such option, or no such function.
    """
    import torch._dynamo.config as config

    with ExitStack() as active:
        for name, value in trial.settings:
            if not hasattr(config, name):
                raise TrialError(f"this torch has no torch._dynamo.config.{name}")
            active.enter_context(patched(config, name, value))
        # Dynamo replaces calls of these by nothing (_dynamo/variables/misc.py, 2.13); the user's own are kept.
        if trial.ignored:
            functions = {*config.ignore_logging_functions, *map(_function, trial.ignored)}
            active.enter_context(patched(config, "ignore_logging_functions", functions))
        yield


def _function(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        raise TrialError(f"there is no {name}") from None
    return found


def prepare(model: Any, trial: Trial) -> None:
    """Put a model into the state that a trial asks for.

    Raises:
        TrialError: neither the model nor a submodule has a method to call, or the method raises.
    """
    if trial.evaluate and hasattr(model, "eval"):
        model.eval()
    for name, word in trial.calls:
        # The model of a library, which has the method, may lie inside of the user's module.
        if hasattr(model, "modules"):
            parts = model.modules()
        else:
            parts = [model]
        owner = next((each for each in parts if hasattr(each, name)), None)
        if owner is None:
            raise TrialError(f"the model has no {name}")
        try:
            getattr(owner, name)(word)
        except Exception as error:  # a library's own check may raise anything
            raise TrialError(f"{name}({word!r}) raised {type(error).__name__}: {error}") from error


def tried_ways(model: Any, scenarios: Mapping[str, Way], trial: Trial) -> dict[str, Way]:
    """Return the scenarios with the trial's changes."""
    names = []
    if trial.marked:
        names = _parameters(model)
    return {name: _tried(way, trial, names) for name, way in scenarios.items()}


def _tried(way: Way, trial: Trial, names: list[str]) -> Way:
    make: Callable[[], Call] = way.make
    if trial.marked:

        def marked() -> Call:
            call = way.make()
            for each in trial.marked:
                _mark(call, each, names)
            return call

        # Marks belong to tensors, and each call makes new ones.
        make = marked
    grad = way.grad
    if trial.grad is not None and grad in (None, "on"):  # a scenario that turns gradients off means to
        grad = trial.grad
    return replace(way, make=make, grad=grad)


def _parameters(model: Any) -> list[str]:
    return list(inspect.signature(entered_by_call(model)).parameters)


def _mark(call: Call, each: Marked, names: list[str]) -> None:
    import torch

    value = call.kwargs.get(each.argument)
    if value is None and each.argument in names and names.index(each.argument) < len(call.args):
        value = call.args[names.index(each.argument)]
    if not isinstance(value, torch.Tensor) or not -value.dim() <= each.dim < value.dim():
        return  # another scenario may pass something else
    if value.shape[each.dim] > 1:  # 0 and 1 cannot be marked
        torch._dynamo.mark_dynamic(value, each.dim)
