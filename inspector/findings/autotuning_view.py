"""Answers about autotuning: the winner, its margin, whether noise may explain it, and what the sweeps cost."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import ClassVar

from msgspec import Struct, field

from ctrace.inspector.errors import SelectionError, did_you_mean
from ctrace.inspector.facts.autotuning import Choice, ChoiceStatus, TunedOperation
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import RunDocument, Session
from ctrace.inspector.facts.user_kernels import UserKernel
from ctrace.inspector.findings.autotuning_fold import status_of_failure
from ctrace.inspector.findings.target_gpu_view import target_of
from ctrace.inspector.knowledge.counting import count


class Noise(StrEnum):
    """What the runs of the two fastest choices say about the margin between them."""

    BEYOND = "beyond"
    """Three quarters of the winner's runs are faster than three quarters of the next one's."""
    WITHIN = "within"
    NOT_KNOWN = "not_known"
    """Torch kept one time for a choice, so its noise is not known."""


class Margin(Struct, frozen=True):
    """How much slower the next choice is than the winner, as a part of the winner's time: 0.25 is 25%."""

    of_next: str
    part: float
    noise: Noise


def _check_selection(session: Session, graph: str | None, op: str | None) -> None:
    """Refuse a graph and a kind of operation that the run does not have.

    Raises:
        SelectionError: it has none.
    """
    known = [each.op for each in session.tuned]
    graphs = [each.id for each in session.compilations] + [each.graph for each in session.tuned]
    if graph is not None and graph not in graphs:
        raise SelectionError("graph", f"{graph}: this run has no such graph", did_you_mean(graph, graphs))
    if op is not None and op not in known:
        raise SelectionError("op", f"{op}: no operation of this kind has choices in this run", did_you_mean(op, known))


def timed(choices: Iterable[Choice]) -> tuple[Choice, ...]:
    """Return the choices that have a time, the fastest first."""
    return tuple(each for each in choices if each.seconds is not None)


def winner(choices: Iterable[Choice]) -> Choice | None:
    """Return the fastest choice; None: none was timed."""
    return next(iter(timed(choices)), None)


def margin(choices: Iterable[Choice], unnamed: int = 0) -> Margin | None:
    """Return by how much the fastest choice beats the next one; None: fewer than two were timed and named."""
    found = timed(choices)
    # Torch's own log names one choice and counts the others, so the next one is not known there.
    if len(found) < 2 or unnamed or not found[0].seconds or found[1].seconds is None:
        return None
    return Margin(found[1].name, found[1].seconds / found[0].seconds - 1, _noise(found[0], found[1]))


def _noise(first: Choice, second: Choice) -> Noise:
    if first.spread is None or second.spread is None:
        return Noise.NOT_KNOWN
    if first.spread.high < second.spread.low:
        return Noise.BEYOND
    return Noise.WITHIN


class KernelRow(Struct, frozen=True):
    """A Triton kernel with several configurations, timed or not."""

    JSON: ClassVar[str] = (
        "graph stage kernel user_kernel=user.kernel key sizes configurations winner=winner.name "
        "margin=margin.part next=margin.of_next noise=margin.noise taken cache|null_if_empty seconds"
    )
    graph: str
    stage: Stage
    kernel: str
    configurations: tuple[Choice, ...]
    taken: str | None
    """None: torch chooses at the first launch, and the kernel was not launched."""
    cache: str = ""
    sizes: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    user: UserKernel | None = None
    """The call of the user's kernel; None: Inductor generated it."""

    @property
    def key(self) -> tuple[str, ...]:
        """The user's key of `triton.autotune`."""
        if self.user is not None:
            return self.user.key
        return ()

    @property
    def winner(self) -> Choice | None:
        """The fastest configuration; None: none was timed."""
        return winner(self.configurations)

    @property
    def margin(self) -> Margin | None:
        """By how much it beats the next one."""
        return margin(self.configurations)


class OperationChoices(Struct, frozen=True):
    """An operation that torch has choices for."""

    JSON: ClassVar[str] = (
        "graph=of.graph stage=of.stage op=of.op shapes strides dtypes device=of.device lines=of.lines "
        "choices=of.choices unnamed_choices=of.unnamed winner=winner.name margin=margin.part next=margin.of_next "
        "noise=margin.noise taken=of.taken fused=of.is_fused cached=of.is_cached seconds=of.seconds "
        "compile_seconds=of.compile_seconds timing_seconds=of.timing_seconds not_tried=of.untried"
    )
    of: TunedOperation

    @property
    def shapes(self) -> tuple[str, ...]:
        """Such as `64x256`."""
        return tuple("x".join(each.shape) for each in self.of.inputs)

    @property
    def strides(self) -> tuple[tuple[str, ...], ...]:
        """Those of each input."""
        return tuple(each.stride for each in self.of.inputs)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Those of each input."""
        return tuple(each.dtype for each in self.of.inputs)

    @property
    def winner(self) -> Choice | None:
        """The fastest choice; `of.taken` is the one that the code uses."""
        return winner(self.of.choices)

    @property
    def margin(self) -> Margin | None:
        """How much longer the next choice takes, as a part of the winner's time."""
        return margin(self.of.choices, self.of.unnamed)


class AutotuningDocument(RunDocument, frozen=True, kw_only=True):
    """Each operation with its choices, then Triton kernels with their configurations."""

    JSON: ClassVar[str] = (
        "schema verdict=run.verdict summary|null_if_empty seconds not_timed_because operations kernels "
        "problems=run.problems"
    )
    summary: str
    """One sentence; empty if torch had no choice to make."""
    seconds: float | None
    """What sweeps cost; None: not measured."""
    not_timed_because: str | None
    todo: str
    """What to do so that choices are timed."""
    operations: tuple[OperationChoices, ...]
    kernels: tuple[KernelRow, ...]


def autotuning_document(session: Session, graph: str | None = None, op: str | None = None) -> AutotuningDocument:
    """Answer for a run; or for a graph, or one kind of operation, such as `mm`.

    Raises:
        SelectionError: the run has no such graph, or no such operation.
    """
    _check_selection(session, graph, op)
    operations = [each for each in session.tuned if graph in (None, each.graph) and op in (None, each.op)]
    if op is None:
        kernels = kernel_rows(session, graph)
    else:
        kernels = ()
    is_timed = any(each.is_swept for each in session.tuned) or any(each.taken for each in kernels)
    why, todo = (None, "") if is_timed else why_nothing_was_timed(session)
    return AutotuningDocument(
        run=session.run,
        summary=sentence(session),
        seconds=cost(operations),
        not_timed_because=why,
        todo=todo,
        operations=tuple(map(OperationChoices, operations)),
        kernels=kernels,
    )


def kernel_rows(session: Session, graph: str | None = None) -> tuple[KernelRow, ...]:
    """Return the Triton kernels that have several configurations: timed ones, then those that were not."""
    users = {(each.graph, each.stage, each.name or each.kernel): each for each in session.user_kernels}
    rows = {}
    for tuned_ in session.tuned_kernels:
        key = (tuned_.graph, tuned_.stage, tuned_.kernel)
        rows[key] = KernelRow(
            *key, tuned_.configurations, tuned_.taken, tuned_.cache, tuned_.sizes, tuned_.seconds, users.get(key)
        )
    # Nothing is timed for a GPU that is not there; what was compiled for it still names the configurations.
    for built, number in Counter((each.graph, each.stage, each.kernel) for each in session.built).items():
        if number > 1 and built not in rows:
            rows[built] = KernelRow(*built, _not_timed(session, built), None, user=users.get(built))
    # The user's own configurations stand in the source, even where nothing was compiled.
    for name, user in users.items():
        if user.autotuned and name not in rows:
            choices = tuple(Choice(_text(config), "triton") for config in user.configs)
            rows[name] = KernelRow(*name, choices, None, user=user)
    return tuple(each for each in rows.values() if graph in (None, each.graph))


def _not_timed(session: Session, key: tuple[str, Stage, str]) -> tuple[Choice, ...]:
    """Return a kernel's compiled configurations, then those that cannot be compiled or do not fit."""
    compiled = (
        Choice(_text({**each.blocks, "num_warps": each.warps, "num_stages": each.stages}), "triton")
        for each in session.built
        if (each.graph, each.stage, each.kernel) == key
    )
    refused = (
        Choice(each.configuration, "triton", status=status_of_failure(each.reason), error=each.reason)
        for each in session.refused
        if (each.graph, each.stage, each.kernel) == key
    )
    return (*compiled, *refused)


def _text(config: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in config.items())


def cost(found: Iterable[TunedOperation]) -> float | None:
    """Sum up what sweeps cost, in seconds; None: not measured."""
    seconds = [each.seconds for each in found if each.seconds is not None]
    if not seconds:
        return None
    return sum(seconds)


def sentence(session: Session) -> str:
    """Sum up in one sentence; empty if torch had no choice to make."""
    swept = [each for each in session.tuned if each.is_swept]
    if not swept:
        return ""
    measured = [each for each in swept if not each.is_cached]
    cached = len(swept) - len(measured)
    parts = [f"{count(len(swept), 'operation')} autotuned"]
    if cached:
        parts.append(f"{cached} from torch's cache")
    choices = sum(len(each.choices) + each.unnamed for each in swept)
    seconds = cost(measured)
    took = ""
    if seconds is not None:
        took = f" in {seconds:.1f} s"
    return f"{', '.join(parts)}: {count(choices, 'choice')}{took}"


def why_nothing_was_timed(session: Session) -> tuple[str, str]:
    """Return why a run has no times of choices, and what to do about it."""
    gpu = target_of(session)
    # From the most basic reason to the most special: a run that builds nothing has no other reason to look for.
    if gpu is None and session.environment.ctrace and not session.environment.built:
        return (
            "Choices were not timed: this run generated code and built none of it.",
            "add --build --mode max-autotune; or --target GPU to list the choices for a GPU",
        )
    if session.tuned and all(each.is_on is False for each in session.tuned):
        return "max_autotune is off, so torch uses a library kernel without timing.", "add --mode max-autotune"
    if gpu is not None and any(len(each.choices) > 1 for each in session.tuned):
        return f"Nothing ran on {gpu.target}, so nothing was timed.", "run it on that GPU with --build"
    if session.tuned:
        return "Torch had one choice for each operation, so it timed none.", ""
    return (
        "No operation of this run has choices to time.",
        "autotuning is for matrix products, convolutions and attention: ctrace autotune model.py --mode max-autotune",
    )


FAILED = frozenset((ChoiceStatus.FAILED_TO_COMPILE, ChoiceStatus.FAILED_TO_RUN, ChoiceStatus.DOES_NOT_FIT))
