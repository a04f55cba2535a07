"""What `ctrace time` measures: configurations, the request to one measuring process, and the measurements.

`configurations` parses what the command line selects: modes, backends and options of Inductor. A `TimingRequest` has
the model, how to compile it, and how to time it. Screens and JSON share the measurements (`Timings`): times in seconds,
memory in bytes, None: not measured.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from msgspec import Struct, field, to_builtins

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.rounds import WarmedUp
from ctrace.inspector.features.time.events import Compiled, Differed, Failed, Noted, Setup, SharesMeasured
from ctrace.inspector.files.typed_json import read_object, typed
from ctrace.inspector.findings.ratios import Interval, SpeedComparison
from ctrace.inspector.runs.capture_request import CaptureRequest


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
# Chosen: each configuration is a process that compiles the model; more are a slip in a list with commas.
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
    # The list of modes may have the same configuration as `default`; of equal names, one is measured.
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


class PeakMemory(Struct, frozen=True):
    """The peak memory of a call on each side; None: not measured."""

    eager: int | None
    compiled: int | None


class TimedPart(Struct, frozen=True):
    """The times of one part of a scenario's calls: forward, backward, or a whole step."""

    JSON: ClassVar[str] = (
        "name=scenario part eager compiled speedup peak_memory=peaks warm_up=warm_ups rounds_that_compiled=unclean"
    )
    scenario: str
    part: str
    eager: Interval | None
    compiled: Interval | None
    speedup: SpeedComparison | None
    """The comparison with eager; None if no round was measured."""
    eager_peak: int | None
    compiled_peak: int | None
    warm_ups: tuple[WarmedUp, ...]
    unclean: int
    """The number of rounds in which torch compiled something, and which therefore do not count."""
    drifts: bool
    """Whether eager calls get slower or faster from round to round; then calls probably change the model's state."""

    @property
    def peaks(self) -> PeakMemory:
        """The peak memory of both sides."""
        return PeakMemory(self.eager_peak, self.compiled_peak)

    @property
    def saved(self) -> float | None:
        """Seconds that compiling saves per call; negative if it makes calls slower."""
        if self.eager is None or self.compiled is None:
            return None
        return self.eager.median - self.compiled.median


class MeasuredConfiguration(Struct, frozen=True):
    """One configuration, measured in a separate process."""

    configuration: CompileConfiguration
    setup: Setup | None
    """The process that measured; None if it ended before its measurements began."""
    parts: tuple[TimedPart, ...]
    shares: tuple[SharesMeasured, ...]
    differences: tuple[Differed, ...]
    compiled: Compiled | None
    notes: tuple[Noted, ...]
    failures: tuple[Failed, ...]
    compile_seconds: float | None
    """The compile time with empty caches: the extra time of the first scenario's first calls over its later calls."""
    warm_seconds: float | None = None
    """The compile time in a second process, with filled caches."""
    stopped: str = ""
    """Why measurements are missing: `interrupted`, `timed out after 60 s`, or how the process ended."""
    printed: tuple[str, ...] = ()
    """What torch printed while it autotuned."""
    load: float | None = None
    """The machine's load average in the minute before the measurement; None: not known."""

    @property
    def first(self) -> TimedPart | None:
        """The part in the headline: the whole step or the forward of the first scenario."""
        return next((each for each in self.parts if each.speedup is not None), None)


class Timings(Struct, frozen=True):
    """All measurements of a command."""

    target: str
    configurations: tuple[MeasuredConfiguration, ...]
    is_table: bool = False
    """Whether the command compares configurations."""
