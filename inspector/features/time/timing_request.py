"""The request to one measuring process: the model, how to compile it, and how to time it.

Parse the configurations that the command line selects: modes, backends and options of Inductor.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field, to_builtins

from ctrace.inspector.errors import TargetError
from ctrace.inspector.files.typed_json import read_object, typed
from ctrace.inspector.runs.capture_request import CaptureRequest

Value = bool | int | float | str


class CompileConfiguration(Struct, frozen=True):
    """One way to compile: a mode or a backend, and options of Inductor."""

    name: str
    mode: str | None = None
    backend: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    """The options as text; the measuring process converts them to torch's types."""


class TimingRequest(Struct, frozen=True):
    """The request to one measuring process."""

    capture: CaptureRequest
    """The model and its inputs; see `inspector/runs/capture_request.py`."""
    configuration: CompileConfiguration
    results: str
    """The file to which the process appends its results."""
    known: tuple[CompileConfiguration, ...] = ()
    """All configurations of the command, whose names the first process checks."""
    rounds: int | None = None
    """The number of rounds; None for as many as the noise requires."""
    threads: int | None = None
    """The number of threads; None for torch's default."""
    fresh: bool = False
    """Whether every call gets new inputs, created outside of the timed blocks."""
    only_compile: bool = False
    """Whether to measure only the first calls, for the compile time."""
    brief: bool = False
    """Whether to compare only the first part of the first scenario, without profiling it."""

    def to_json(self) -> str:
        """Return the request as JSON."""
        return json.dumps(to_builtins(self))

    @classmethod
    def from_file(cls, path: Path) -> "TimingRequest":
        """Read a request that `to_json` wrote.

        Raises:
            OSError: it cannot be read.
            ValueError: it does not have the form that `to_json` writes.
        """
        return typed(cls, read_object(path), "the request")


DEFAULT = "default"
_INDUCTOR = "inductor"
_MOST = 32


def configurations(
    modes: str | None, backends: str | None, options: Sequence[str], *, mode: str | None, backend: str | None
) -> tuple[CompileConfiguration, ...]:
    """Return the configurations to measure, without duplicates.

    With a list of modes or backends, each `--options` adds a configuration. Without a list, all options apply to the
    only configuration. Torch checks the names in the first measuring process.

    Raises:
        TargetError: options exclude each other, or cannot be parsed.
    """
    chosen = [parsed(text) for text in options]
    if modes is None and backends is None:
        return (_single(mode, backend, chosen),)
    for option, value in (("--mode", mode), ("--backend", backend)):
        if value is not None:
            several = "--modes" if modes is not None else "--backends"
            raise TargetError(f"{option} and {several} exclude each other", f"name {value} in {several}")
    found = [_of_mode(name) for name in _names("--modes", modes)]
    found += [_of_backend(name) for name in _names("--backends", backends)]
    found += [CompileConfiguration(_spelled(each), options=each) for each in chosen]
    unique = tuple({each.name: each for each in found}.values())
    if len(unique) > _MOST:
        raise TargetError(f"{len(unique)} configurations are too many", f"name at most {_MOST}")
    return unique


def _single(mode: str | None, backend: str | None, chosen: Iterable[dict[str, str]]) -> CompileConfiguration:
    options = {name: value for each in chosen for name, value in each.items()}
    if options and backend not in (None, _INDUCTOR):
        raise TargetError(
            f"--options and --backend {backend} exclude each other", "drop one: they are Inductor's options"
        )
    if mode is not None and backend not in (None, _INDUCTOR):
        raise TargetError(f"--mode and --backend {backend} exclude each other", "drop one: modes are Inductor's")
    parts = [mode or backend or DEFAULT, *([_spelled(options)] if options else [])]
    return CompileConfiguration(" ".join(parts), mode=mode, backend=backend, options=options)


def _names(option: str, text: str | None) -> list[str]:
    if text is None:
        return []
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise TargetError(f"{option} names nothing", f"as in {option} default,max-autotune")
    return names


def _of_mode(name: str) -> CompileConfiguration:
    return CompileConfiguration(name, mode=name)


def _of_backend(name: str) -> CompileConfiguration:
    if name == _INDUCTOR:
        return _of_mode(DEFAULT)
    return CompileConfiguration(f"backend {name}", backend=name)


def parsed(text: str) -> dict[str, str]:
    """Parse one or several `KEY=VALUE`, separated by commas.

    Raises:
        TargetError: a name or a value is missing.
    """
    found: dict[str, str] = {}
    for each in text.split(","):
        name, sign, value = each.strip().partition("=")
        if not (name and sign and value):
            raise TargetError(f"--options {text}: not KEY=VALUE", "as in --options max_autotune=true")
        found[name.strip()] = value.strip()
    return found


def _spelled(options: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in options.items())
