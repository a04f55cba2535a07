"""Observe one call: what it returns, changes, prints and raises.

A changed target may have to equal the unchanged one within rounding only. Then the changed target's run writes the
values of each call, and the unchanged target's run reads them: where they are not close, it makes the same call in
float64, and calls that round every operation at random, and judges by these. Both are runs of one command, in a private
folder.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.capture.comparing.arithmetic import Noisy, WatchedArithmetic
from ctrace.inspector.capture.comparing.compare_results import agree, rms, unlike, wide
from ctrace.inspector.capture.comparing.float64 import Float64
from ctrace.inspector.capture.comparing.judgement import Judgement, judged
from ctrace.inspector.capture.comparing.precision import FLOAT32, coarser, precision_of
from ctrace.inspector.capture.comparing.state_copies import copied
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.isolation.random_states import RandomStates
from ctrace.inspector.capture.isolation.unnoticed import unnoticed
from ctrace.inspector.errors import telling_line
from ctrace.inspector.facts.trial import Entry, ProofRequest
from ctrace.inspector.features.fix.child.call_values import tensors, tensors_in
from ctrace.inspector.features.fix.child.digests import Storages, describe, digest_of, error_text
from ctrace.inspector.features.fix.child.observed_effects import noting_effects, random_digest
from ctrace.inspector.features.fix.child.observed_state import StateCheckpoint, leaves_of

_NOISY = 2
"""Runs with random rounding: with one alone, a rounding that happens to be exact would leave no room."""
Gradients = Callable[[Any, Call, Any], list[tuple[str, Any]] | None]


class Values(Struct, frozen=True):
    """The floating values of a call."""

    outputs: list[Any]
    gradients: list[Any]


def values_of(subject: Any, call: Call, outputs: Any, gradients: list[tuple[str, Any]] | None) -> Values:
    """Return copies of all floating values that a call returned or may have changed, in order."""
    import torch
    from torch.utils import _pytree

    def floats(value: Any) -> list[Any]:
        leaves = [
            each
            for leaf in _pytree.tree_leaves(value)
            for each in ([torch.tensor(leaf)] if isinstance(leaf, float) else tensors_in(leaf))
        ]
        found = [leaf for leaf in leaves if precision_of(leaf.dtype) is not None]
        return [leaf.detach().as_subclass(torch.Tensor).to_dense().clone() for leaf in found]

    buffers = list(subject.buffers()) if isinstance(subject, torch.nn.Module) else []
    return Values(floats([outputs, tensors(call), buffers]), floats([each for _, each in gradients or []]))


class References:
    """The values of a call in float64, and of calls that are rounded at random; made only if something asks for them.

    They take three calls in modes that make each operation several times as slow, and most calls of a changed target
    are so close to those of the unchanged one that nothing asks.
    """

    def __init__(self, subject: Any, call: Call, gradients: Gradients) -> None:
        """Copy the subject and the arguments before a call."""
        self._gradients = gradients
        self._random = RandomStates()
        self._before: tuple[Any, Call] | None = None
        """The subject and the arguments before the call; None: they cannot be copied."""
        with suppress(Exception):  # only equal values pass then
            self._before = copy.deepcopy(subject), copied(call)

    @cached_property
    def exact(self) -> Values | None:
        """The values in float64; None: the call is impossible there."""
        return self._again(Float64())

    @cached_property
    def noisy(self) -> list[Values]:
        """The values of calls that are rounded at random."""
        found = (self._again(Noisy(seed)) for seed in range(_NOISY))
        return [each for each in found if each is not None]

    def _again(self, arithmetic: WatchedArithmetic) -> Values | None:
        """Call a copy with different arithmetic; None: that is impossible."""
        if self._before is None:
            return None
        try:
            with unnoticed():
                # A call that draws must draw what the observed one drew.
                self._random.restore()
                subject, call = self._before
                # Again a copy, because several calls begin from what was kept.
                subject, call = arithmetic.model(copy.deepcopy(subject)), arithmetic.call(copied(call))
                with arithmetic.active():
                    outputs = subject(*call.args, **call.kwargs)
                    found = self._gradients(subject, call, outputs)
                return values_of(subject, call, outputs, found)
        except Exception:
            return None  # there is no reference then, and only equal values pass


def unexplained(before: Values, after: Values, references: References) -> str:
    """Return how a changed target's call differs by more than rounding from the unchanged one's; empty: it does not."""
    for what, group in (("value", "outputs"), ("gradient", "gradients")):
        ones, others = getattr(before, group), getattr(after, group)
        if len(ones) != len(others):
            return f"{len(ones)} {what}s before, {len(others)} after"
        for index, (one, other) in enumerate(zip(ones, others, strict=True)):
            if unlike(one, other):
                return f"{what} {index}: another shape or dtype"
            if agree(one, other):
                continue
            if references.exact is None or len(getattr(references.exact, group)) != len(ones):
                return f"{what} {index}: it differs, and the call is impossible in float64"
            noisy = [getattr(each, group) for each in references.noisy]
            if why := _judged(
                one,
                other,
                getattr(references.exact, group)[index],
                [each[index] for each in noisy if len(each) == len(ones)],
                ones if group == "gradients" else [],
            ):
                return f"{what} {index}: {why}"
    return ""


def _judged(one: Any, other: Any, exact: Any, noisy: list[Any], every: list[Any]) -> str:
    # A gradient that cancels out is small beside the others, and is judged by the size of all of them.
    scale = max((rms(wide(each)) for each in every if each.numel()), default=0.0)
    coarsest = coarser(precision_of(one.dtype) or FLOAT32, FLOAT32)
    found = judged(one, other, exact, noisy, scale, coarsest)
    if found.judgement is Judgement.FINE:
        return ""
    if found.judgement is Judgement.UNDECIDED:
        return f"it differs, and cannot be judged: {found.why}"
    return "it differs by more than rounding"


Running = Callable[[], AbstractContextManager[Any]]
_GRADIENT_STEP = 0.37
"""Makes seven different weights, so that a swapped or dropped gradient changes the sum."""
_MOST_STORED = 16
"""Tensors in the state from which a backward pass starts."""


class SeenCall(Struct, frozen=True):
    """An observed call, and the values for a comparison within rounding."""

    entry: Entry
    outputs: Any = None
    gradients: Any = None


def observe(
    subject: Any,
    call: Call,
    entry: Entry,
    *,
    called: Callable[..., Any] | None = None,
    around: AbstractContextManager[Any] | None = None,
    running: Running = nullcontext,
    backward: bool = True,
    rounding: "Rounding | None" = None,
    notes_needed: bool = False,
) -> SeenCall:
    """Call a subject and describe the call.

    Args:
        subject: the model or function, whose state is observed.
        entry: the names of the call.
        called: the callable to call instead, such as its compiled form.
        around: a context for the call alone.
        running: makes a context for each time that the program's code runs: in the call, and in each backward pass.
        backward: whether to compute gradients of what the call returns.
        rounding: saves the call's values, or compares them with those of another run.
        notes_needed: whether to note which inputs and tensors of the state a backward pass needs as they are.
    """
    before = StateCheckpoint(subject)
    storages = Storages()
    leaves = tensors(call)
    for index, leaf in enumerate(leaves):
        storages.add(f"input {index}", leaf)
    for name, leaf in _named(subject):
        storages.add(f"state {name}", leaf)
    shared = before.sharing(storages)
    own = [leaf for _, leaf in leaves_of(subject, before)]
    # A gradient from before would add to those of this call.
    if backward:
        _clear_gradients(*own, *leaves)
    references = None if rounding is None else rounding.references(subject, call, backward=backward)
    raised, outputs, described, failed = "", None, None, None
    gradients: list[tuple[str, Any]] | None = None
    needed: set[str] = set()
    noting = _noting(needed, storages) if notes_needed else nullcontext()
    with noting_effects() as effects:
        try:
            with nullcontext() if around is None else around, running(), noting:
                outputs = (subject if called is None else called)(*call.args, **call.kwargs)
        except Exception as error:
            raised = error_text(kind_and_message(error))
        if not raised:
            described = describe(outputs, storages, name="output")
            failed = _backward(outputs, running) if backward else None  # hooks may print, too
    after = StateCheckpoint(subject)  # with what hooks of the backward pass changed
    reached = leaves_of(subject, after)
    if not raised:
        gradients = _collected(call, reached, failed) if backward else None
        if rounding is not None:
            rounding.finish(entry, values_of(subject, call, outputs, gradients), references)
    described_gradients = None
    if gradients is not None:
        described_gradients = [[name, describe(each, exact=False)] for name, each in gradients]
    found = replace(
        entry,
        raised=raised,
        outputs=described,
        inputs=[describe(each) for each in (*call.args, *call.kwargs.values())],
        gradients=described_gradients,
        printed=effects.printed,
        logged=tuple(effects.logged),
        warned=tuple(effects.warned),
        random=random_digest(),
    )
    if backward:
        _clear_gradients(*own, *leaves, *(leaf for _, leaf in reached))
    changes = before.changes(after)
    memory = _moved(shared, after.sharing(storages))
    stored = _stored_gradients(call, after, reached, running) if backward and not raised else None
    found = replace(found, state=changes, memory=memory, stored=stored, needed=tuple(sorted(needed)))
    return SeenCall(found, outputs, gradients)


class Rounding:
    """Saves the values of the changed target's calls, or compares those of the unchanged target with them."""

    def __init__(self, request: ProofRequest) -> None:
        self._values = request.values
        self._against = request.against
        self.compared = 0
        self.unexplained: list[str] = []
        """Calls that differ by more than rounding."""

    def references(self, subject: Any, call: Call, *, backward: bool) -> References | None:
        """Return what a call may be judged by; ask before the call. None: nothing is compared in this run."""
        if not self._against:
            return None
        return References(subject, call, _gradients if backward else _no_gradients)

    def finish(self, entry: Entry, values: Values, references: References | None) -> None:
        """Save or compare the values of a call that returned."""
        import torch

        if self._values:
            torch.save([values.outputs, values.gradients], Path(self._values) / _file_of(entry))
        if references is None:
            return
        file = Path(self._against) / _file_of(entry)
        if not file.exists():
            return  # the changed target raised there, or did not end: the entries differ
        self.compared += 1
        # The file has only tensors, and nothing else in it may run.
        why = unexplained(values, Values(*torch.load(file, weights_only=True)), references)
        self.unexplained += [f"{entry.name}: {why}"] if why else []


def _file_of(entry: Entry) -> str:
    return f"{digest_of((entry.name, str(entry.call)))}.pt"


def _moved(was: dict[str, str], now: dict[str, str]) -> list[Any]:
    """List the tensors of the state that share memory with others than before the call."""
    own = "its own"
    return [
        [path, was.get(path, own), now.get(path, own)]
        for path in sorted({*was, *now})
        if was.get(path) != now.get(path)
    ]


@contextmanager
def _noting(needed: set[str], storages: Storages) -> Iterator[None]:
    """Note the names of the memory that autograd saves in the block.

    A write to it before the backward pass, such as the next batch into the tensor of the last one, makes that raise.
    """
    from torch.autograd.graph import saved_tensors_hooks

    def pack(tensor: Any) -> Any:
        needed.add(storages.shared_with(tensor))
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        yield
    needed.discard("")


def _no_gradients(_subject: Any, _call: Call, _outputs: Any) -> None:
    return None


def _clear_gradients(*leaves: Any) -> None:
    for leaf in leaves:
        # Only leaves keep a gradient, and reading that of others warns.
        if leaf.is_leaf:
            leaf.grad = None


def _named(subject: Any) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(subject, torch.nn.Module):
        yield from subject.named_parameters()
        yield from subject.named_buffers()


def _gradients(subject: Any, call: Call, outputs: Any) -> list[tuple[str, Any]] | None:
    """Run a backward pass from all outputs; return the gradients by name. None: no output has a gradient."""
    failed = _backward(outputs)
    if failed is None:
        return None  # before the state is searched, which takes as long as the call of a small model
    return _collected(call, leaves_of(subject), failed)


def _backward(outputs: Any, running: Running = nullcontext) -> str | None:
    """Run a backward pass from all outputs, each value with a different weight; return how it failed.

    None: no output has a gradient.
    """
    leaves = [leaf for leaf in tensors_in(outputs) if leaf.requires_grad and leaf.grad_fn is not None]
    if not leaves:
        return None
    try:
        total = sum((_real(leaf) * _weights(leaf)).sum() for leaf in leaves)
        with running():  # hooks run
            # A tensor in the state may be a result of the same graph, and a pass from it comes after this one.
            total.backward(retain_graph=True)
    except Exception as error:
        return telling_line(kind_and_message(error))
    return ""


def _collected(call: Call, reached: list[tuple[str, Any]], failed: str | None) -> list[tuple[str, Any]] | None:
    """Return the gradients that a backward pass left, by name, or how it failed; None: there was none."""
    if failed is None:
        return None
    if failed:
        return [("backward", failed)]
    inputs = ((f"input {index}", leaf) for index, leaf in enumerate(tensors(call)))
    every = [(name, leaf) for name, leaf in (*inputs, *reached) if leaf.is_leaf and leaf.requires_grad]
    return [(name, leaf.grad) for name, leaf in every]


def _stored_gradients(
    call: Call, state: StateCheckpoint, reached: list[tuple[str, Any]], running: Running
) -> list[Any] | None:
    """Run a backward pass from each tensor that a call left in the state; return the gradients by its path.

    None: it left none that has a history.
    """
    found = []
    for path, leaf in state.with_history()[:_MOST_STORED]:
        gradients = _collected(call, reached, _backward(leaf, running)) or []
        found.append([path, [[name, describe(each, exact=False)] for name, each in gradients]])
        _clear_gradients(*(leaf for _, leaf in reached), *tensors(call))
    return found or None


def _real(leaf: Any) -> Any:
    import torch

    return torch.view_as_real(leaf).sum(-1) if leaf.is_complex() else leaf


def _weights(leaf: Any) -> Any:
    import torch

    # In float64, where the numbers of all elements are exact.
    count = torch.arange(leaf.numel(), device=leaf.device, dtype=torch.float64)
    return (
        (1.0 + _GRADIENT_STEP * (count % 7))
        .reshape(leaf.shape)
        .to(leaf.real.dtype if leaf.is_complex() else leaf.dtype)
    )
