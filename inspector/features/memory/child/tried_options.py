"""Try what may lower the peak: each change is made, the step is taken again, and its peak is what it says.

Nothing is advised that was not tried. What a change computes again is counted in the graphs that ran.

A cross-entropy over a large vocabulary, part by part: a change that may lower the peak, and is tried.

The loss of all rows keeps the log-probabilities of all for the backward. Of a part of the rows these are few, and a
checkpoint lets the backward compute them again.
"""

import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.capture.calls.call_parts import roots
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.facts.memory_facts import MemoryOption
from ctrace.inspector.features.memory.child.model_calls import MeasuredPeak, ModelCalls
from ctrace.inspector.features.memory.child.planned_graphs import PlannedGraph, PlannedGraphs
from ctrace.inspector.features.memory.child.saved_outputs import flops_of
from ctrace.inspector.features.memory.child.storage_ledger import AliveMoment

CHUNKS = 8
VOCABULARY = 32_000
"""The fewest classes for which it is tried: below, the logits are rarely the largest tensors."""


def chunked(original: Callable[..., Any], used: list[int]) -> Callable[..., Any]:
    """Return a cross-entropy that computes a large one part by part, with the same sum; `used` grows when it does."""
    import torch
    from torch.utils.checkpoint import checkpoint

    def part(logits: Any, target: Any, ignore_index: int, label_smoothing: float) -> Any:
        return original(logits, target, ignore_index=ignore_index, reduction="sum", label_smoothing=label_smoothing)

    def cross_entropy(
        input: Any,
        target: Any,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> Any:
        is_large = input.dim() == 2 and input.shape[1] >= VOCABULARY and input.shape[0] >= CHUNKS
        is_plain = weight is None and size_average is None and reduce is None and target.dim() == 1
        if not is_large or not is_plain or reduction not in ("mean", "sum"):
            return original(
                input,
                target,
                weight=weight,
                size_average=size_average,
                ignore_index=ignore_index,
                reduce=reduce,
                reduction=reduction,
                label_smoothing=label_smoothing,
            )
        used.append(1)
        total = torch.zeros((), dtype=input.dtype, device=input.device)
        for logits, labels in zip(input.chunk(CHUNKS), target.chunk(CHUNKS), strict=True):
            total = total + checkpoint(part, logits, labels, ignore_index, label_smoothing, use_reentrant=False)
        if reduction == "sum":
            return total
        return total / (target != ignore_index).sum()

    return cross_entropy


@contextmanager
def chunked_cross_entropy(used: list[int]) -> Iterator[None]:
    """Let `torch.nn.functional.cross_entropy` compute large losses part by part."""
    from torch.nn import functional

    with patched(functional, "cross_entropy", chunked(functional.cross_entropy, used)):
        yield


_BUDGETS = (0.8, 0.5, 0.3, 0.1)
_MOST_GROUPS = 2
_MOST_MEASURED = 3
"""Changes that are built, until one lowers the measured peak: each takes a whole compilation."""


class OptionCandidate(Struct, frozen=True):
    """A change to try."""

    name: str
    text: str
    statement: str
    made: Callable[[], AbstractContextManager[Any]]
    file: str | None = None
    line: int | None = None
    counts_flops: bool = True
    """Whether what it computes again runs in compiled graphs."""
    used: list[int] | None = None
    """Grows when the step uses the change; None: any step does."""


class OptionTrials:
    """Takes a step under each change."""

    def __init__(
        self, calls: ModelCalls, compiled: Callable[[], Any], peak: AliveMoment, flops: float, *, kept: int = 0
    ) -> None:
        """Compare with the peak of the compiled step; `kept` are the bytes that libraries keep beside all tensors."""
        self._kept = kept
        self._calls = calls
        self._compiled = compiled
        self._peak = peak
        self._flops = flops
        self._device = calls.ledger.device()
        self._has_vocabulary = any(
            each.stored.shape[-1:] >= (VOCABULARY,) and "parameter" not in each.stored.kinds
            for each in calls.ledger.changes
        )

    def tried(
        self, budget: float, measured: Callable[[], MeasuredPeak | None] | None = None, measured_before: int = 0
    ) -> tuple[MemoryOption, ...]:
        """Try the changes that fit, until the time is up; those that lower the peak most come first.

        Args:
            budget: seconds.
            measured: builds the model and measures its peak, for the best changes; None: nothing is built.
            measured_before: the measured peak without a change, in bytes.
        """
        deadline = time.monotonic() + budget
        found: list[MemoryOption] = []
        candidates: dict[str, OptionCandidate] = {}
        for each in self._candidates():
            candidates[each.text] = each
            if time.monotonic() > deadline:
                found.append(_untried(each, f"the {budget:g} s for trials were over"))
                continue
            print(f"ctrace: trying {each.text}", file=sys.stderr, flush=True)
            option = self._try(each)
            if each.used is None or each.used:
                found.append(option)
        found.sort(key=lambda each: (each.peak_bytes is None, each.peak_bytes or 0))
        in_vain: list[MemoryOption] = []
        while measured is not None and found and found[0].peak_bytes is not None and len(in_vain) < _MOST_MEASURED:
            found[0] = self._measured(found[0], candidates[found[0].text], measured)
            if not found[0].measured or (found[0].peak_bytes or 0) < measured_before:
                break
            # What an operator allocates inside, such as a workspace of cuDNN, is no tensor, and may be the peak.
            in_vain.append(found.pop(0))
        return (*found, *in_vain)

    def _measured(
        self, option: MemoryOption, candidate: OptionCandidate, measured: Callable[[], MeasuredPeak | None]
    ) -> MemoryOption:
        import torch

        self._calls.forget()
        torch._dynamo.reset()
        with candidate.made():
            peak = measured()
        if peak is None:
            return option
        return replace(option, peak_bytes=peak.bytes, measured=True)

    def _try(self, candidate: OptionCandidate) -> MemoryOption:
        import torch

        self._calls.forget()
        torch._dynamo.reset()
        ledger = self._calls.ledger
        before = set(ledger.alive())
        graphs = PlannedGraphs(ledger)
        try:
            with candidate.made(), graphs.active():
                model = self._compiled()
                self._calls.step(model)
                self._calls.forget()
                for graph in graphs.graphs:
                    graph.calls = 0
                ledger.begin()
                self._calls.step(model)
                peak = ledger.peak(self._device).bytes + self._kept
        except Exception as error:
            return _untried(candidate, kind_and_message(error).splitlines()[0][:200], tried=True)
        finally:
            self._calls.forget()
            ledger.set_aside(before)
        extra = max(flops(graphs.graphs) - self._flops, 0.0) if candidate.counts_flops else None
        return MemoryOption(
            candidate.name,
            candidate.text,
            candidate.file,
            candidate.line,
            peak,
            extra,
            computed_bytes=peak,
            tried=True,
            measured=False,
            statement=candidate.statement,
        )

    def _candidates(self) -> Iterator[OptionCandidate]:
        import torch
        from torch._functorch import config as of_autograd

        trains = self._calls.options.train
        if not trains and torch.is_grad_enabled() and any("saved" in each.kinds for each in self._peak.alive):
            yield OptionCandidate(
                "no_grad",
                "call the model under torch.no_grad(): nothing takes a backward",
                "with torch.no_grad():",
                torch.no_grad,
            )
        if trains:
            yield from self._checkpoints()
            for budget in _BUDGETS:
                setting = f"torch._functorch.config.activation_memory_budget = {budget}"
                patch = functools.partial(of_autograd.patch, activation_memory_budget=budget)
                yield OptionCandidate("activation_memory_budget", setting, setting, patch)
            yield from self._chunked_losses()
            if not of_autograd.donated_buffer:
                setting = "torch._functorch.config.donated_buffer = True"
                made = functools.partial(of_autograd.patch, donated_buffer=True)
                yield OptionCandidate("donated_buffer", setting, setting, made)
            yield from self._smaller_dtype()
        optimizer = self._calls.optimizer
        if optimizer is not None and any("gradient" in each.kinds for each in self._peak.alive):
            yield OptionCandidate(
                "optimizer_in_backward",
                f"a step of {type(optimizer).__name__} for each parameter once its gradient is there, which it frees",
                "parameter.register_post_accumulate_grad_hook(step), with an optimizer of each parameter; "
                "gradients cannot be clipped or accumulated",
                self._in_backward,
            )
        if optimizer is not None and self._peak.part == "optimizer":
            yield OptionCandidate(
                "foreach",
                f"{type(optimizer).__name__}(..., foreach=False): one parameter at a time, instead of all at once",
                "foreach=False",
                functools.partial(_one_by_one, optimizer),
            )

    def _smaller_dtype(self) -> Iterator[OptionCandidate]:
        """Yield bfloat16 for matrix products, if the backward keeps tensors of twice its size."""
        import torch

        if any("saved" in each.kinds and each.dtype == "float32" for each in self._peak.alive):
            statement = f'with torch.autocast("{self._device}", dtype=torch.bfloat16):'
            yield OptionCandidate(
                "smaller_dtype",
                "call the model under torch.autocast in bfloat16: results of matrix products take half, rounded",
                statement,
                functools.partial(torch.autocast, self._device, dtype=torch.bfloat16),
            )

    @contextmanager
    def _in_backward(self) -> Iterator[None]:
        """Let each parameter have an optimizer of its own, which shares the state of the whole one."""
        whole = self._calls.optimizer
        known = inspect.signature(type(whole)).parameters
        alone: list[tuple[Any, Any]] = []
        with self._calls.without_optimizer(), ExitStack() as hooks:
            for group in whole.param_groups:
                options = {name: value for name, value in group.items() if name != "params" and name in known}
                for parameter in group["params"]:
                    if parameter.requires_grad:
                        optimizer = type(whole)([parameter], **options)
                        if parameter in whole.state:
                            optimizer.state[parameter] = whole.state[parameter]
                        hook = parameter.register_post_accumulate_grad_hook(_stepping(optimizer))
                        hooks.callback(hook.remove)
                        alone.append((parameter, optimizer))
            yield
        for parameter, optimizer in alone:
            whole.state[parameter] = optimizer.state[parameter]

    def _chunked_losses(self) -> Iterator[OptionCandidate]:
        """Yield the loss in parts, if the step has a tensor with a large vocabulary."""
        if not self._has_vocabulary:
            return
        used: list[int] = []
        yield OptionCandidate(
            "chunked_loss",
            f"cross_entropy in {CHUNKS} parts of the rows, each computed again in the backward",
            "loss = sum(checkpoint(cross_entropy, *part, None, None, -100, None, 'sum', use_reentrant=False) "
            f"for part in zip(logits.chunk({CHUNKS}), labels.chunk({CHUNKS}))) / (labels != -100).sum()",
            functools.partial(chunked_cross_entropy, used),
            counts_flops=False,
            used=used,
        )

    def _checkpoints(self) -> Iterator[OptionCandidate]:
        """Yield the largest groups of equal modules, each to be computed again in the backward."""
        groups = list(_groups(self._calls.model))
        groups.sort(key=lambda group: -sum(_elements(each) for each in group[1]))
        for path, modules in groups[:_MOST_GROUPS]:
            kind = type(modules[0]).__name__
            yield OptionCandidate(
                "checkpoint",
                f"torch.utils.checkpoint around the {len(modules)} {kind} of {path}",
                f"for each in {path}: each.forward = functools.partial(torch.utils.checkpoint.checkpoint, "
                "each.forward, use_reentrant=False)",
                functools.partial(_checkpointed, modules),
                *_place(modules[0]),
            )


def flops(graphs: list[PlannedGraph]) -> float:
    """Count the operations of all calls of graphs."""
    return sum(graph.calls * sum(flops_of(node) for node in graph.graph.nodes) for graph in graphs)


def _untried(candidate: OptionCandidate, why: str, *, tried: bool = False) -> MemoryOption:
    return MemoryOption(
        candidate.name,
        candidate.text,
        candidate.file,
        candidate.line,
        None,
        None,
        tried=tried,
        measured=False,
        statement=candidate.statement,
        why_not=why,
    )


def _groups(model: Any) -> Iterator[tuple[str, list[Any]]]:
    """Yield lists of modules that hold several of one class, such as the layers of a transformer."""
    import torch

    for root, module in roots(model).items():
        for path, each in module.named_modules():
            if not isinstance(each, torch.nn.ModuleList | torch.nn.Sequential):
                continue
            by_class: dict[type, list[Any]] = {}
            for child in each.children():
                by_class.setdefault(type(child), []).append(child)
            for some in by_class.values():
                if len(some) > 1 and any(True for _ in some[0].children()):
                    yield f"{root}.{path}" if path else root, some


def _elements(module: Any) -> int:
    return sum(each.numel() for each in module.parameters())


def _place(module: Any) -> tuple[str | None, int | None]:
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    if code is None:
        return (None, None)
    return (code.co_filename, code.co_firstlineno)


def _stepping(optimizer: Any) -> Callable[[Any], None]:
    """Return a hook that takes a step, and frees the gradient."""

    def hook(parameter: Any) -> None:
        optimizer.step()
        parameter.grad = None

    return hook


@contextmanager
def _one_by_one(optimizer: Any) -> Iterator[None]:
    """Let an optimizer update one parameter at a time."""
    before = [group.get("foreach") for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["foreach"] = False
    try:
        yield
    finally:
        for group, foreach in zip(optimizer.param_groups, before, strict=True):
            group["foreach"] = foreach


@contextmanager
def _checkpointed(modules: list[Any]) -> Iterator[None]:
    """Compute what modules make again in the backward."""
    from torch.utils.checkpoint import checkpoint

    with ExitStack() as stack:
        for each in modules:
            each.forward = functools.partial(checkpoint, each.forward, use_reentrant=False)
            stack.callback(each.__dict__.pop, "forward", None)
        yield
