"""Answers about autotuning: the winner, its margin, whether noise may explain it, and what the sweeps cost."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, field

from ctrace.inspector.errors import SelectionError, did_you_mean
from ctrace.inspector.facts.autotuning import Choice, ChoiceStatus, TunedOperation
from ctrace.inspector.facts.kernels import Stage
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.user_kernels import UserKernel
from ctrace.inspector.findings.autotuning.autotuning_fold import status_of_failure
from ctrace.inspector.findings.target.target_view import target_of
from ctrace.inspector.knowledge.words.counting import count


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


def tuned(session: Session, graph: str | None = None, op: str | None = None) -> tuple[TunedOperation, ...]:
    """Return the operations of a run; or only those of a graph, or of one kind, such as `mm`."""
    return tuple(each for each in session.tuned if graph in (None, each.graph) and op in (None, each.op))


def check_selection(session: Session, graph: str | None, op: str | None) -> None:
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
    if len(found) < 2 or unnamed or not found[0].seconds or found[1].seconds is None:
        return None
    return Margin(found[1].name, found[1].seconds / found[0].seconds - 1, _noise(found[0], found[1]))


def _noise(first: Choice, second: Choice) -> Noise:
    if first.spread is None or second.spread is None:
        return Noise.NOT_KNOWN
    return Noise.BEYOND if first.spread.high < second.spread.low else Noise.WITHIN


class KernelRow(Struct, frozen=True):
    """A Triton kernel with several configurations, timed or not."""

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


def kernel_rows(session: Session, graph: str | None = None) -> tuple[KernelRow, ...]:
    """Return the Triton kernels that have several configurations: timed ones, then those that were not."""
    users = {(each.graph, each.stage, each.name or each.kernel): each for each in session.user_kernels}
    rows = {}
    for tuned_ in session.tuned_kernels:
        key = (tuned_.graph, tuned_.stage, tuned_.kernel)
        rows[key] = KernelRow(
            *key, tuned_.configurations, tuned_.taken, tuned_.cache, tuned_.sizes, tuned_.seconds, users.get(key)
        )
    for built, number in Counter((each.graph, each.stage, each.kernel) for each in session.built).items():
        if number > 1 and built not in rows:
            rows[built] = KernelRow(*built, _not_timed(session, built), None, user=users.get(built))
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
    return sum(seconds) if seconds else None


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
    took = f" in {seconds:.1f} s" if seconds is not None else ""
    return f"{', '.join(parts)}: {count(choices, 'choice')}{took}"


def why_nothing_was_timed(session: Session) -> tuple[str, str]:
    """Return why a run has no times of choices, and what to do about it."""
    gpu = target_of(session)
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
