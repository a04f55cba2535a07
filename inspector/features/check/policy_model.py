"""The policy of `ctrace check` (`CheckPolicy`), and the counts that it can limit (`Count`).

Also the sites that a policy allows, its entries that are no longer needed, and the models that a text in a policy or on
a command line names (`named_by`).
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct, field

from ctrace.inspector.errors import PolicyError
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.sites import SiteKey
from ctrace.inspector.features.check.policy_values import Day, Flag, GbId, Name, Percent, Text, Time
from ctrace.inspector.files.writing import working_folder
from ctrace.inspector.runs.capture_request import Options

CPU = "cpu"
"""The target of a job without a target GPU."""


class Count(StrEnum):
    """Numbers of a job that a policy can limit and a lock records. Less is always better."""

    BREAKS = "breaks"
    """Sites of graph breaks in user code, without breaks that the author requested."""
    LIBRARY_BREAKS = "library_breaks"
    TORCH_BREAKS = "torch_breaks"
    SKIPPED = "skipped"
    """Functions of which no part is compiled."""
    RECOMPILES = "recompiles"
    """Recompilations after warm-up; see `sites.is_after_warm_up`."""
    GRAPHS = "graphs"
    EAGER_OPS = "eager_ops"
    """Aten ops of an eager call that are in no graph."""
    LIMIT_HITS = "limit_hits"
    """Functions that hit the recompile limit."""
    KERNELS = "kernels"
    """Generated kernels; only with generated code."""
    SPILLS = "spills"
    """Registers that kernels spill to memory; only for a GPU."""
    MISSED_BYTES = "missed_bytes"
    """Bytes of memory traffic that missed fusions would save; only with generated code."""
    CUDA_GRAPH_SKIPS = "cuda_graph_skips"
    """Graph parts that torch skips the CUDA graph of; only where torch.compile is asked for CUDA graphs, for a GPU."""
    CUDA_GRAPH_RERECORDINGS = "cuda_graph_rerecordings"
    """Recordings of CUDA graphs beyond the first of each graph part; only where a run on a GPU recorded them."""
    CULPRITS = "culprits"
    """Operations whose compiled results are wrong, by dtype; only with `accuracy`."""
    PEAK_BYTES = "peak_bytes"
    """The computed peak of a compiled step's memory; only with `memory`."""


BREAKS_OF = {Owner.USER: Count.BREAKS, Owner.LIBRARY: Count.LIBRARY_BREAKS, Owner.TORCH: Count.TORCH_BREAKS}
"""The count of the breaks in code of each owner."""


class Limits(Struct, frozen=True):
    """The maximum for each count; a count that is missing has no limit."""

    most: Mapping[Count, int] = field(default_factory=dict)
    coverage: Percent | None = None
    """The minimum percentage of ops in graphs, 0 to 100; None for no limit."""

    def over(self, other: "Limits") -> "Limits":
        """Return these limits, with the limits of `other` where these have none."""
        if self.coverage is None:
            coverage = other.coverage
        else:
            coverage = self.coverage
        return Limits({**other.most, **self.most}, coverage)


STRICT = Limits({Count.BREAKS: 0, Count.SKIPPED: 0, Count.RECOMPILES: 0, Count.LIMIT_HITS: 0})
"""The limits for a model that has neither limits in the policy nor an entry in the lock."""


class Allow(Struct, frozen=True):
    """An entry of the policy that allows sites: which sites, and why."""

    reason: Text
    gb: GbId | None = None
    """A gb id, such as GB0170."""
    place: Name | None = None
    """`policy_file.py::Class.method`, in which `*` and `?` are wildcards; the file may be the end of a path."""
    text: Text | None = None
    """A part of the line's normalized source."""
    expires: Day | None = None
    """The last day on which it applies."""
    line: int = 0
    """Line in the policy."""


class ModelRule(Struct, frozen=True):
    """An entry of the policy that names models, with settings for them."""

    models: Name = field(name="path")
    """A path, a glob, `policy_file.py:name` or `package.module:name`; paths are relative to the policy's folder."""
    scenarios: tuple[str, ...] = ()
    """Names of the policy's scenarios; empty for all."""
    targets: tuple[str, ...] = ()
    """Names of targets; empty for the policy's targets."""
    limits: Limits = Limits()
    timeout: Time | None = None
    """Seconds for one job; None for the policy's timeout."""
    accuracy: Flag | None = None
    """Whether each kernel is compared with eager; None for the policy's choice."""
    memory: Flag | None = None
    """Whether the memory of a step is followed; None for the policy's choice."""
    line: int = 0


class CheckPolicy(Struct, frozen=True):
    """A project's policy."""

    models: tuple[ModelRule, ...] = ()
    scenarios: Mapping[str, Options] = field(default_factory=lambda: {"base": Options()})
    """Options of `ctrace explain`, keyed by scenario name. The scenarios in a model file run in each of these."""
    targets: tuple[str, ...] = (CPU,)
    owned: tuple[str, ...] = ()
    """Absolute paths whose code counts as the user's, in addition to those in pyproject.toml."""
    limits: Limits = Limits()
    allow: tuple[Allow, ...] = ()
    timeout: Time = 600.0
    """Seconds for one job."""
    inductor_guards: Flag = True
    """Whether graphs with symbolic sizes are lowered to record Inductor's guards; see `Options`."""
    accuracy: Flag = False
    """Whether the kernels of each model are built, and compared with eager and float64."""
    memory: Flag = False
    """Whether the memory of a step of each model is followed."""
    file: str | None = None
    """The policy's file; None if there is no file, so that the policy has only defaults."""


def allows(allow: Allow, site: SiteKey) -> bool:
    """Whether a site matches every field that an entry sets."""
    fits = []
    if allow.gb is not None:
        fits.append(allow.gb in site.causes)
    if allow.place is not None:
        # `[` is no wildcard here, but it is one of fnmatch.
        pattern = allow.place.replace("[", "[[]")
        fits.append(any(fnmatchcase(site.place, each) for each in (pattern, f"*/{pattern}")))
    if allow.text is not None:
        part = _unspaced(allow.text)
        # An empty text would fit every line.
        fits.append(bool(part) and part in _unspaced(site.text))
    return bool(fits) and all(fits)


def allowing(entries: Iterable[Allow], site: SiteKey, today: date) -> Allow | None:
    """Find the first entry that matches a site and has not expired."""
    return next((each for each in entries if allows(each, site) and not has_expired(each, today)), None)


def has_expired(allow: Allow, today: date) -> bool:
    """Whether an entry has expired."""
    return allow.expires is not None and allow.expires < today


def useless(entries: Iterable[Allow], sites: Iterable[SiteKey], today: date, *, are_all: bool = True) -> Iterator[str]:
    """Yield notes on expired entries and, if `are_all` sites are there, on entries that match none of them."""
    seen = list(sites)
    for each in entries:
        matches = any(allows(each, site) for site in seen)
        if not has_expired(each, today):
            if are_all and not matches:
                yield f"{_named(each)} no longer matches anything; remove it"
            continue
        expired = f"{_named(each)} expired on {each.expires}"
        if matches:
            yield f"{expired}: its site still exists"
        elif are_all:
            yield f"{expired}: nothing matches it; remove it"
        else:  # a site that is not among these may match it
            yield expired


def _unspaced(text: str) -> str:
    """Remove spaces and unify quotes, which the normalization of a statement changes."""
    return "".join(text.split()).replace('"', "'")


def _named(allow: Allow) -> str:
    what = " ".join(each for each in (allow.gb, allow.place, allow.text and f"`{allow.text}`") if each)
    return f"the allow entry in line {allow.line} ({what})"


_MARKS = frozenset("*?[")
_NOT_MODELS = ("_", "test_", "conftest.py")
"""How names of files begin that usually define no model; see `Named.by_chance`."""


class Named(Struct, frozen=True):
    """A named model."""

    key: str
    """The model, relative to the policy's folder, with `/`; see `JobKey.model`."""
    target: str
    """The model, relative to the working directory."""
    by_chance: bool = False
    """Whether a glob matched the file, whose name suggests that it defines no model; a check skips such a file
    silently.
    """

    def names(self, other: "Named") -> bool:
        """Whether `other` is the same model, or an object in the same file if this name has no `:name`."""
        if self.target == other.target:
            return True
        (file, name), (others, its) = _split(self.target), _split(other.target)
        if file is None or others is None:
            return False
        return Path(file).resolve() == Path(others).resolve() and name in ("", its)


def expanded(text: str, root: Path) -> list[Named]:
    """Return the models that a text names; paths are relative to `root`.

    Raises:
        PolicyError: it is a glob that matches nothing or is invalid.
    """
    if _MARKS.isdisjoint(text):
        return [named_by(text, root, root)]
    pattern, name = _split(text)
    files = _globbed(text, pattern or text, root)
    if not files:
        raise PolicyError(f"{text} matches no Python file", f"ctrace searches in {root.absolute()}")
    end = ""
    if name:
        end = f":{name}"
    return [
        Named(_relative(file, root) + end, _from_here(file) + end, file.name.startswith(_NOT_MODELS)) for file in files
    ]


def named_by(text: str, root: Path, base: Path = Path()) -> Named:
    """Return the model that `text` names, with its name relative to `root`; a path in `text` is relative to `base`."""
    file, name = _split(text)
    if file is None:
        return Named(text, text)
    end = ""
    if name:
        end = f":{name}"
    path = base / file
    return Named(_relative(path, root) + end, _from_here(path) + end)


def _split(text: str) -> tuple[str | None, str]:
    """Split `policy_file.py:name`; without a file, the text is the name of a module."""
    before, colon, name = text.rpartition(":")
    if not colon:
        return text, ""
    # `pkg.models:tiny` names a module, `models/tiny:net` and `tiny.py:net` a file.
    if before.endswith(".py") or "/" in before or os.sep in before:
        return before, name
    return None, name


def _globbed(text: str, pattern: str, root: Path) -> list[Path]:
    path = Path(pattern)
    if path.is_absolute():
        start = Path(path.anchor)
    else:
        start = root
    try:
        found = sorted(start.glob(str(path.relative_to(path.anchor))))
    # pathlib raises NotImplementedError for an absolute pattern.
    except (ValueError, NotImplementedError, OSError) as error:
        raise PolicyError(f"{text} is not a valid glob: {error}", "write it as in models/**/*.py") from None
    return [file for file in found if file.suffix == ".py" and not _is_hidden(file, start) and file.is_file()]


def _is_hidden(file: Path, start: Path) -> bool:
    parts = file.relative_to(start).parts
    # A pattern may lead out of the folder: `../models/*.py`.
    return any(part == "__pycache__" or (part.startswith(".") and part != "..") for part in parts)


def _relative(path: Path, root: Path) -> str:
    """Return a path relative to `root`, as spelled: do not resolve links."""
    return Path(os.path.relpath(path, root)).as_posix()


def _from_here(path: Path) -> str:
    """Return a path as short as possible: relative to the working directory or absolute."""
    here = working_folder()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
