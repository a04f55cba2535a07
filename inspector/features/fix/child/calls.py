"""Observe one call: what it returns, changes, prints and raises."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.capture.calls.tensors import tensors
from ctrace.inspector.capture.calls.ways import Call
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.errors import telling_line
from ctrace.inspector.facts.trial import Entry, ProofRequest
from ctrace.inspector.features.fix.child.digests import Storages, describe, digest_of, without_addresses
from ctrace.inspector.features.fix.child.effects import noting_effects, random_digest
from ctrace.inspector.features.fix.child.rounding import Reference, Values, unexplained, values_of
from ctrace.inspector.features.fix.child.state import State, leaves_of

Running = Callable[[], AbstractContextManager[Any]]
_GRADIENT_STEP = 0.37
_MOST_STORED = 16
"""Tensors in the state from which a backward pass starts."""


class Seen(Struct, frozen=True):
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
) -> Seen:
    """Call a subject and describe the call.

    Args:
        subject: the model or function, whose state is observed.
        entry: the names of the call.
        called: the callable to call instead, such as its compiled form.
        around: a context for the call alone.
        running: makes a context for each time that the program's code runs: in the call, and in each backward pass.
        backward: whether to compute gradients of what the call returns.
        rounding: saves the call's values, or compares them with those of another run.
    """
    before = State(subject)
    storages = Storages()
    leaves = tensors(call)
    for index, leaf in enumerate(leaves):
        storages.add(f"input {index}", leaf)
    for name, leaf in _named(subject):
        storages.add(f"state {name}", leaf)
    shared = before.sharing(storages)
    own = [leaf for _, leaf in leaves_of(subject, before)]
    if backward:
        _clear_gradients(*own, *leaves)
    reference = None if rounding is None else rounding.reference(subject, call)
    raised, outputs, described, failed = "", None, None, None
    gradients: list[tuple[str, Any]] | None = None
    with noting_effects() as effects:
        try:
            with nullcontext() if around is None else around, running():
                outputs = (subject if called is None else called)(*call.args, **call.kwargs)
        except Exception as error:
            raised = without_addresses(kind_and_message(error))
    if not raised:
        described = describe(outputs, storages, name="output")
        failed = _backward(outputs, running) if backward else None
    after = State(subject)  # with what hooks of the backward pass changed
    reached = leaves_of(subject, after)
    if not raised:
        gradients = _collected(call, reached, failed) if backward else None
        if rounding is not None:
            rounding.finish(
                entry,
                reference,
                values_of(subject, call, outputs, gradients),
                _gradients if backward else _no_gradients,
            )
    described_gradients = None
    if gradients is not None:
        described_gradients = [[name, describe(each, exact=False)] for name, each in gradients]
    found = replace(
        entry,
        raised=raised,
        outputs=described,
        inputs=[describe(leaf) for leaf in leaves],
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
    return Seen(replace(found, state=changes, memory=memory, stored=stored), outputs, gradients)


class Rounding:
    """Saves the values of calls for another run, or compares them with those of another run."""

    def __init__(self, request: ProofRequest) -> None:
        self._values = request.values
        self._against = request.against
        self.compared = 0
        self.unexplained: list[str] = []
        """Calls that differ by more than rounding."""

    def reference(self, subject: Any, call: Call) -> Reference | None:
        """Return the writer for the values of a call; create it before the call."""
        return Reference(self._values, subject, call) if self._values else None

    def finish(self, entry: Entry, reference: Reference | None, values: Values, gradients: Any) -> None:
        """Write or compare the values of a call."""
        name = f"{digest_of((entry.name, str(entry.call)))}.pt"
        if reference is not None:
            reference.write(name, values, gradients)
        if self._against:
            self.compared += 1
            why = unexplained(self._against, name, values)
            self.unexplained += [f"{entry.name}: {why}"] if why else []


def _moved(was: dict[str, str], now: dict[str, str]) -> list[Any]:
    """List the tensors of the state that share memory with others than before the call."""
    own = "its own"
    return [
        [path, was.get(path, own), now.get(path, own)]
        for path in sorted({*was, *now})
        if was.get(path) != now.get(path)
    ]


def _no_gradients(_subject: Any, _call: Call, _outputs: Any) -> None:
    return None


def _clear_gradients(*leaves: Any) -> None:
    for leaf in leaves:
        if leaf.is_leaf:
            leaf.grad = None


def _named(subject: Any) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(subject, torch.nn.Module):
        yield from subject.named_parameters()
        yield from subject.named_buffers()


def _gradients(subject: Any, call: Call, outputs: Any) -> list[tuple[str, Any]] | None:
    """Run a backward pass from all outputs; return the gradients by name. None: no output has a gradient."""
    return _collected(call, leaves_of(subject), _backward(outputs))


def _backward(outputs: Any, running: Running = nullcontext) -> str | None:
    """Run a backward pass from all outputs, each value with a different weight; return how it failed.

    None: no output has a gradient.
    """
    import torch
    from torch.utils import _pytree

    leaves = [
        leaf
        for leaf in _pytree.tree_leaves(outputs)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad and leaf.grad_fn is not None
    ]
    if not leaves:
        return None
    try:
        total = sum((_real(leaf) * _weights(leaf)).sum() for leaf in leaves)
        with running():  # hooks run
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


def _stored_gradients(call: Call, state: State, reached: list[tuple[str, Any]], running: Running) -> list[Any] | None:
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

    count = torch.arange(leaf.numel(), device=leaf.device, dtype=torch.float64)
    return (
        (1.0 + _GRADIENT_STEP * (count % 7))
        .reshape(leaf.shape)
        .to(leaf.real.dtype if leaf.is_complex() else leaf.dtype)
    )
