"""A configuration repair: a setting to try, and where to write it."""

from collections.abc import Callable, Iterator

from msgspec import Struct

from ctrace.inspector.diagnosis.diagnosis_scene import Candidate, DiagnosisScene
from ctrace.inspector.facts.trial import Trial


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


def dynamo_line(name: str, value: object = True) -> str:
    """Return the line that sets an option of `torch._dynamo.config`."""
    return f"torch._dynamo.config.{name} = {value!r}"
