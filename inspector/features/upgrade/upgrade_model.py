"""What `ctrace upgrade` answers: two environments, and for each model what differs between them, and why."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.runs.capture_request import CaptureRequest


class ReasonKind(StrEnum):
    """What the two environments differ in."""

    CONFIG = "config"
    """An option of torch's configuration has another value."""
    TORCH = "torch"
    """Torch's own code."""
    LIBRARY = "library"
    """The source of another package."""
    ENVIRONMENT = "environment"
    """An environment variable that only one of the two torches reads."""
    UNKNOWN = "unknown"


class Reason(Struct, frozen=True):
    """Why something changed, found by a run in which the change was gone."""

    kind: ReasonKind = ReasonKind.UNKNOWN
    name: str | None = None
    """The option, the package or the variable; for torch, what changed in it."""
    before: str | None = None
    """The value or the line of source in the environment before."""
    after: str | None = None
    source: str | None = None
    """`file:line` below the folder of packages."""
    note: str | None = None
    """How the reason was found, or why it was not."""
    advice: str | None = None
    """What keeps the old behavior; null if nothing does, or if the change is no loss."""


UNKNOWN = Reason()
_TIMES = ("time", "guard cost")


class UpgradeChange(Struct, frozen=True):
    """One difference between the two environments."""

    JSON: ClassVar[str] = "what change=how where was now detail follows reason worse"
    what: str
    """As in `ctrace diff`; `eager` for what differs without torch.compile."""
    how: str
    """`added`, `removed` or `changed`."""
    where: str
    was: str | None = None
    now: str | None = None
    detail: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    reason: Reason = UNKNOWN
    worse: bool | None = None
    """Whether the later environment is worse in this; null: neither is known to be."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What identifies the change in a further run; times are never the same twice."""
        if self.what in _TIMES:
            return self.what, self.how, self.where, ""
        return self.what, self.how, self.where, (self.was if self.was is not None else self.now) or ""


class UpgradeNumber(Struct, frozen=True):
    """A number of a model in both environments."""

    name: str
    before: str | None
    """Null: not measured."""
    after: str | None


class UpgradeError(Struct, frozen=True):
    """Why a model could not be compared."""

    environment: str
    """`before` or `after`."""
    phase: str
    message: str


class UpgradedModel(Struct, frozen=True):
    """A model in both environments."""

    name: str
    changes: tuple[UpgradeChange, ...] = ()
    error: UpgradeError | None = None
    numbers: tuple[UpgradeNumber, ...] = ()
    notes: tuple[str, ...] = ()
    trials: int = 0
    """How many further runs looked for reasons."""

    @property
    def worse(self) -> tuple[UpgradeChange, ...]:
        """The changes for the worse."""
        return tuple(each for each in self.changes if each.worse)


class UpgradeSide(Struct, frozen=True):
    """One of the two environments."""

    python: str
    torch: str
    packages: Mapping[str, str]
    """The version of each package."""
    path: str = ""
    """Its Python, or the folder that ctrace made."""


class UpgradeDocument(Struct, frozen=True):
    """What `ctrace upgrade` answers."""

    before: UpgradeSide
    after: UpgradeSide
    models: tuple[UpgradedModel, ...]
    equal: bool | None
    """Whether no model changed; null if a model could not be compared."""
    failed_on: tuple[str, ...] = ()
    """The kinds of changes for which the command exits with 1."""
    notes: tuple[str, ...] = ()

    @property
    def packages(self) -> dict[str, tuple[str | None, str | None]]:
        """The packages that differ, with both versions."""
        names = sorted({*self.before.packages, *self.after.packages})
        pairs = {name: (self.before.packages.get(name), self.after.packages.get(name)) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


class MadeEnvironment(Struct, frozen=True):
    """An environment in ctrace's folder."""

    JSON: ClassVar[str] = "name bytes created|moment requirements"
    name: str
    bytes: int
    created: float | None
    """When it was made; null: it is incomplete."""
    requirements: tuple[str, ...]


class CleanedEnvironments(Struct, frozen=True):
    """What `ctrace upgrade --clean` removed."""

    removed: tuple[MadeEnvironment, ...] = ()
    kept: tuple[MadeEnvironment, ...] = ()
    """Those that another process uses."""


def equal_of(models: Collection[UpgradedModel]) -> bool | None:
    """Return whether no model changed; None if one could not be compared."""
    if any(each.error is not None for each in models):
        return None
    return not any(each.changes for each in models)


class EnvironmentRequest(Struct, frozen=True):
    """The request for `EnvironmentFacts`."""


class EagerRequest(Struct, frozen=True):
    """The request for `EagerFacts`: a model to call."""

    capture: CaptureRequest


class EnvironmentFacts(Struct, frozen=True):
    """What a process of an environment says of it."""

    python: str
    suffix: str
    """The ending of its extension modules, such as `.cpython-311-x86_64-linux-gnu.so`."""
    torch: str
    """Empty: there is none."""
    torch_folder: str
    packages: Mapping[str, str]
    folders: Mapping[str, str]
    """Where each package is installed."""
    modules: Mapping[str, tuple[str, ...]]
    """The top-level files and folders of each package."""
    config: Mapping[str, str]
    """Each option of torch's configuration with its value, as JSON."""
    lines: Mapping[str, str]
    """Where each option is declared, as `file:line`."""
    variables: Mapping[str, str]
    """The environment variables that are set and that torch's sources name, with the first place, as `file:line`."""


class EagerTensor(Struct, frozen=True):
    """A tensor that an eager call returned, in short."""

    dtype: str
    sizes: tuple[int, ...]
    digest: str
    norm: str
    sample: tuple[str, ...]
    """Some of its elements, evenly spread."""


class EagerOutputs(Struct, frozen=True):
    """What an eager call returned."""

    scenario: str
    tensors: tuple[EagerTensor, ...]


class EagerFacts(Struct, frozen=True):
    """Eager calls of a model, and the modules that were loaded for them."""

    calls: tuple[EagerOutputs, ...]
    modules: Mapping[str, str]
    """The file of each loaded module of a package, by the module's name."""
