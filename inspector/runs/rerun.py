"""Rerun a saved run with the options of its capture, if it was captured here and its target belongs to the project."""

import shlex
from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

from msgspec.structs import asdict

from ctrace.inspector.errors import RunError
from ctrace.inspector.runs import provenance
from ctrace.inspector.runs.capture_request import CaptureRequest, Options
from ctrace.inspector.runs.store import SavedRun
from ctrace.inspector.runs.target import FOLDER, ModelTarget, ProgramTarget, Resolved, holds

_TODO = "name the target: ctrace kernels model.py --target GPU"


def request_of(run: SavedRun) -> CaptureRequest:
    """Read the request of a saved run.

    Raises:
        RunError: the request cannot be read, or its target no longer exists.
    """
    try:
        request = CaptureRequest.from_file(run.request)
    except (OSError, ValueError) as error:
        what = f"{run.request} cannot be read ({error}), so {run.name} cannot be rerun"
        raise RunError(what, _TODO) from None
    if request.path is not None and not holds(Path(request.path).exists):
        raise RunError(f"{request.path}, the target of {run.name}, no longer exists", _TODO)
    return request


def resolved_of(request: CaptureRequest) -> Resolved:
    """Return the target of a request."""
    path = None
    if request.path is not None:
        path = Path(request.path)
    if request.kind == "program":
        return ProgramTarget(path, request.module, request.args, request.typed)
    return ModelTarget(path, request.module, request.name)


def what_of(request: CaptureRequest) -> str:
    """Return the target of a request in the spelling of the command line."""
    name = ""
    if request.name:
        name = f":{request.name}"
    # A folder is a target only as one of transformers.
    prefix = ""
    if request.path is not None and holds(Path(request.path).is_dir):
        prefix = FOLDER
    return f"{prefix}{request.path or request.module}{name}"


def refuse_foreign(run: SavedRun, request: CaptureRequest, options: str) -> None:
    """Refuse to rerun a saved run if nothing proves its origin, or if its target is outside of the project.

    The error suggests a command that names the target; `options` are that command's options.

    Raises:
        RunError: one of these is the case.
    """
    why = provenance.doubt(run) or _outside(request)
    if not why:
        return
    what = _printable(f"cannot rerun {what_of(request)} of the last run, {run.name}: {why}")
    raise RunError(what, f"to run it anyway, name it: {_printable(_command(request, options))}")


def _outside(request: CaptureRequest) -> str:
    """Return why a target is outside of the project; empty if it is inside."""
    here = Path.cwd()
    top = provenance.project(here)
    if request.path is None:
        file = _module_file(str(request.module), here)
    else:
        file = Path(request.path)
    if file is None:
        return f"there is no module {request.module} in {here}"
    real = file.resolve()
    if real.is_relative_to(top):
        return ""
    return f"{real} is outside of the project, {top}"


def _module_file(module: str, folder: Path) -> Path | None:
    """Find a module from a folder without importing its packages, which would run them."""
    places: Sequence[str] = [str(folder)]
    found = None
    for part in module.split("."):
        found = None
        if places:
            found = PathFinder.find_spec(part, places)
        if found is None:
            return None
        places = list(found.submodule_search_locations or ())
    at = found and (found.origin or next(iter(places), None))
    if not at:
        return None
    return Path(at)


def _command(request: CaptureRequest, options: str) -> str:
    """Return a command that names the target of the request and its options."""
    words = ["ctrace", "kernels", what_of(request), *options.split(), *_words(request.options)]
    return shlex.join([*words, "--", *request.args] if request.args else words)


def _words(options: Options) -> list[str]:
    pairs = [("--input", each) for each in options.inputs] + [("--vary", each) for each in options.vary]
    if options.mode:
        pairs += [("--mode", options.mode)]
    words = [word for pair in pairs for word in pair]
    if options.train:
        words.append("--train")
    if options.provoke:
        words.append("--provoke")
    return words


def _printable(text: str) -> str:
    """Escape control characters: the text comes from a file that somebody else may have written."""
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape", "surrogatepass").decode() for each in text
    )


def same_but_for_gpu(first: CaptureRequest, second: CaptureRequest) -> bool:
    """Whether two requests differ only in their target GPU."""
    return _without_gpu(first) == _without_gpu(second)


def _without_gpu(request: CaptureRequest) -> dict[str, object]:
    options = {**asdict(request.options), "gpu": None}
    return {**asdict(request), "options": options, "gpu": None, "log": "", "records_files": False, "seed": None}


def merged(saved: Options, requested: Options) -> Options:
    """Return the options of a saved run, overridden by those on the command line."""
    # The command line does not say which options were typed, so a default counts as none.
    defaults = asdict(Options())
    return Options(
        **{**asdict(saved), **{name: value for name, value in asdict(requested).items() if value != defaults[name]}}
    )
