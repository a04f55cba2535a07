"""What a repair is: the place of a finding, the text or the setting to try there, and the module that offers it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.facts.trial import Trial


class RepairPlace(Struct, frozen=True):
    """Where a finding is, and the file as it stands on disk."""

    file: str
    """Absolute path of the user's file."""
    source: str
    """Text of the whole file."""
    line: int
    """The user's line of the finding, 1-based."""
    function: str
    """Qualified name of the function, or ""."""
    names: tuple[str, ...] = ()
    """Attributes and variables that the finding names."""


class SourceRewrite(Struct, frozen=True):
    """A new text of the file to try."""

    source: str
    summary: str
    """One plain sentence: "Replace the branch on `x.sum() > 0` by torch.where."."""
    changes_arithmetic: bool = False
    """Whether results may round differently: the proof then compares eager with a float64 reference."""
    question: str | None = None
    """What only the author can decide; such a repair is offered as a choice and never combined without an answer."""
    costs: str = ""
    """A question about the time of eager calls, where no time of the proof shows it."""
    needs_inputs: tuple[str, ...] = ()
    """Conditions, as Python expressions at that line; the proof must reach both sides of each."""


class SourceRepair(Struct, frozen=True):
    """One file of the folder `source`: a kind of rewrite, and how to find where it applies."""

    name: str
    title: str
    find: Callable[[RepairPlace], Iterator[SourceRewrite]]


class Setting(Struct, frozen=True):
    """A setting to try for some findings."""

    summary: str
    """One plain sentence."""
    findings: tuple[str, ...]
    """Ids of the causes that it may remove."""
    line: str = ""
    """A line of Python for the target's file, after its imports; `torch` stands for the name of the module."""
    needs: tuple[str, ...] = ()
    """Modules besides torch that the line uses."""
    trial: Trial = Trial()
    """What to change in the run if no line of Python can."""
    how: str = ""
    """What the user writes if no line of Python can."""
    compile_argument: str = ""
    """The same as an argument of torch.compile, for a program that calls it: `dynamic=True`."""
    question: str = ""
    """What only the author can decide."""
    removes: bool = True
    """Whether it removes the findings; False: it only saves graphs or recompilations."""
    changes_arithmetic: bool = False
    may_drop_output: bool = False
    drops_gradients: bool = False
    """Whether results have no gradients any more, which the question must ask; everything else is proved."""


class ConfigurationRepair(Struct, frozen=True):
    """One file of the folder `configuration`: a setting, and when it may help."""

    name: str
    title: str
    find: Callable[[DiagnosisScene], Iterator[Setting]]


def advised(scene: DiagnosisScene) -> Iterator[Candidate]:
    """Yield the advice for a run, in its order."""
    from ctrace.inspector.diagnosis.rules import RULES

    for rule in RULES:
        yield from rule(scene)


def with_settings(scene: DiagnosisScene, names: frozenset[str]) -> Iterator[Candidate]:
    """Yield the advice whose trial sets exactly these options of `torch._dynamo.config`."""
    for each in advised(scene):
        if each.trial is not None and frozenset(name for name, _ in each.trial.settings) == names and each.causes:
            yield each
