"""Try what may lower the peak: each change is made, the step is taken again, and its peak is what it says.

Nothing is advised that was not tried. What a change computes again is counted in the graphs that ran.

One of these changes is a cross-entropy over a large vocabulary, part by part (`chunked_cross_entropy`). The loss of all
rows keeps the log-probabilities of all for the backward. Of a part of the rows these are few, and a checkpoint lets the
backward compute them again.
"""

import functools
import inspect
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, NamedTuple

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
"""Parts of the rows: logits an eighth as large, and few enough calls to cost no time."""
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
        # With weights, or with probabilities as targets, the parts do not simply add up.
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
            # The other kind runs the part without a graph, and torch advises against it.
            total = total + checkpoint(part, logits, labels, ignore_index, label_smoothing, use_reentrant=False)
        if reduction == "sum":
            return total
        # The mean is over the rows that count, as in the whole.
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
"""Lists of equal modules that are checkpointed, the largest first; each costs a step."""
_AMPLIFIES = 1
"""How many times larger logits have to be than the hidden states and weights that they are made of, to be chunked.
Inductor's own limit is 8 (2.13, _inductor/config.py), which the head of a large language model does not reach."""
_LITTLE = 0.01
"""The share of the peak below which a change does not help."""
_LARGE = 1 << 20
"""The least bytes of a saved tensor that is worth a smaller dtype: sums and norms of rows, which are smaller, stay."""
_MOST_NAMES = 3
"""Names that one line of advice has."""
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
    rounds: bool = False
    """Whether it changes gradients by rounding, and the screen says by how much."""
    is_silent: bool = False
    """Whether nothing is said of it where it does not lower the peak."""


class OptionTrials:
    """Takes a step under each change."""

    def __init__(
        self,
        calls: ModelCalls,
        compiled: Callable[[], Any],
        peak: AliveMoment,
        flops: float,
        *,
        kept: int = 0,
        copied: int | None = None,
    ) -> None:
        """Compare with the peak of the compiled step.

        Args:
            calls: the model.
            compiled: compiles it.
            peak: that of the compiled step.
            flops: what the step computes in compiled graphs.
            kept: the bytes that libraries keep beside all tensors.
            copied: the bytes of the inputs that CUDA graphs copy; None: none is recorded.
        """
        self._kept = kept
        self._copied = copied
        self._deadline = math.inf
        self._calls = calls
        self._compiled = compiled
        self._peak = peak
        self._flops = flops
        self._device = calls.ledger.device()
        # Among all changes of the step, because the logits may be gone at its peak.
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
        self._deadline = time.monotonic() + budget
        found: list[MemoryOption] = []
        candidates: dict[str, OptionCandidate] = {}
        for each in self._candidates():
            # By the text, which is all that an option in the report keeps of it.
            candidates[each.text] = each
            if time.monotonic() > self._deadline:
                found.append(_untried(each, f"the {budget:g} s for trials were over"))
                continue
            print(f"ctrace: trying {each.text}", file=sys.stderr, flush=True)
            option = self._try(each)
            helps = option.peak_bytes is not None and option.peak_bytes < self._before * (1 - _LITTLE)
            if (each.used is None or each.used) and (helps or not each.is_silent):
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

        # Gradients of the step before would be in the measured peak.
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
        # A graph that is there already would not be compiled under the change.
        torch._dynamo.reset()
        ledger = self._calls.ledger
        before = set(ledger.alive())
        graphs = PlannedGraphs(ledger)
        try:
            with candidate.made(), graphs.active():
                model = self._compiled()
                # Twice: the first step compiles, and fills states that later steps have.
                self._calls.step(model)
                self._calls.forget()
                for graph in graphs.graphs:
                    graph.calls = 0
                ledger.begin()
                self._calls.step(model)
                reached = ledger.peak(self._device)
                peak = reached.bytes + self._kept
                if self._copied is not None:
                    peak += copied_bytes(graphs.graphs, reached.part)
            extra = None
            if candidate.counts_flops:
                extra = max(flops(graphs.graphs) - self._flops, 0.0)
            changed = None
            if candidate.rounds and not self._calls.is_fake:
                changed = self._gradient_change(candidate, model)
        except Exception as error:
            # A change may not suit the model, which is an answer, too.
            return _untried(candidate, kind_and_message(error).splitlines()[0][:200], tried=True)
        finally:
            self._calls.forget()
            ledger.set_aside(before)
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
            gradient_change=changed,
        )

    @property
    def _before(self) -> int:
        """The computed peak without a change."""
        return self._peak.bytes + self._kept + (self._copied or 0)

    def _gradient_change(self, candidate: OptionCandidate, model: Any) -> float | None:
        """Return how far the gradients of a compiled step are from eager's, as a share of their norm.

        None: not known, as the model computes with random numbers, which compiled code draws in another way.
        """
        # Two steps with other random numbers: if they differ, so will compiled code, which draws its own.
        eager, other = (self._calls.results(self._calls.model, number) for number in (0, 1))
        if not eager.equals(other):
            return None
        with candidate.made(), PlannedGraphs(self._calls.ledger).active():
            found = self._calls.results(model)
        if len(found.gradients) != len(eager.gradients):
            return None
        pairs = [(one.double(), two.double()) for one, two in zip(eager.gradients, found.gradients, strict=True)]
        norm = math.sqrt(sum(float(one.square().sum()) for one, _ in pairs))
        # Without a finite norm, there is no share of it.
        if not norm or not math.isfinite(norm):
            return None
        return math.sqrt(sum(float((one - two).square().sum()) for one, two in pairs)) / norm

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
            # From the most memory to the least, which costs the most to compute again.
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
        if trains or not any("saved" in each.kinds for each in self._peak.alive):
            yield from self._in_place()
        if self._copied:
            yield OptionCandidate(
                "static_inputs",
                "mark the inputs static, and write each batch into them: CUDA graphs copy none",
                "torch._dynamo.mark_static_address(x)  # once; then x.copy_(batch)",
                self._static_inputs,
            )
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
                rounds=True,
            )
        alive = self._peak.alive.items()
        if any("saved" in each.kinds and each.dtype == "float32" and size >= _LARGE for each, size in alive):
            yield from self._smaller_saved()

    @staticmethod
    def _smaller_saved() -> Iterator[OptionCandidate]:
        """Yield bfloat16 for what is saved alone, by a pass that rounds to any type, by default fp8."""
        from torch._inductor import config

        name = "activation_quantization_aten_pass"  # 2.11 to 2.13, _functorch/partitioners.py
        setting = {
            "quant_type": "torch.bfloat16",
            "allowed_dtypes": "torch.float32",
            "size_in_mb": _LARGE >> 20,
            "use_scaling": False,
            "exclude_primals": True,
        }
        options = {**config.post_grad_fusion_options, name: setting}
        yield OptionCandidate(
            "saved_dtype",
            f"save float32 tensors of {_LARGE >> 20} MiB or more in bfloat16, rounded, and compute as before",
            f'torch._inductor.config.post_grad_fusion_options["{name}"] = {setting}',
            functools.partial(config.patch, post_grad_fusion_options=options),
            counts_flops=False,
            rounds=True,
        )

    @contextmanager
    def _in_backward(self) -> Iterator[None]:
        """Let each parameter have an optimizer of its own, which shares the state of the whole one."""
        whole = self._calls.optimizer
        known = inspect.signature(type(whole)).parameters
        alone: list[tuple[Any, Any]] = []
        with self._calls.without_optimizer(), ExitStack() as hooks:
            for group in whole.param_groups:
                # Groups hold more than what the constructor takes, such as a learning rate that a schedule has noted.
                options = {name: value for name, value in group.items() if name != "params" and name in known}
                for parameter in group["params"]:
                    if parameter.requires_grad:
                        optimizer = type(whole)([parameter], **options)
                        # With the state of the whole optimizer, so that its memory counts once.
                        if parameter in whole.state:
                            optimizer.state[parameter] = whole.state[parameter]
                        hook = parameter.register_post_accumulate_grad_hook(_stepping(optimizer))
                        hooks.callback(hook.remove)
                        alone.append((parameter, optimizer))
            yield
        for parameter, optimizer in alone:
            # Back into the whole one: state that was made in the block would be lost to the steps after it.
            whole.state[parameter] = optimizer.state[parameter]

    def _in_place(self) -> Iterator[OptionCandidate]:
        """Yield `inplace=True` for each module and function that takes it and whose step stays the same, bit for bit.

        Compiled code makes no copy that in-place code saves, but code that stays eager does, and graphs that change
        their inputs: so nothing is said where the compiled peak stays.
        """
        calls, ledger = self._calls, self._calls.ledger
        if calls.is_fake:  # no values to compare
            return
        accepted = list(_modules_in_place(calls.model))
        if time.monotonic() < self._deadline:
            before = set(ledger.alive())
            accepted = self._accepted(accepted)
            # Only if eager gains: compiled code works in place by itself where it can.
            gains = accepted and self._eager_peak(accepted) < self._eager_peak([]) * (1 - _LITTLE)
            calls.forget()
            ledger.set_aside(before)
            if not gains:
                accepted = []
        if not accepted:
            return
        names = [each.text for each in accepted]
        some = ", ".join(names[:_MOST_NAMES]) + (f" and {len(names) - _MOST_NAMES} more" * (len(names) > _MOST_NAMES))
        yield OptionCandidate(
            "in_place", f"in place: {some}", "inplace=True", functools.partial(_all_of, accepted), is_silent=True
        )

    def _accepted(self, units: list["_InPlace"]) -> list["_InPlace"]:
        """Return those with which eager's results, gradients and inputs stay the same; none, if they differ anyway."""
        called: set[str] = set()
        with _noting_calls(called):
            original = self._calls.results(self._calls.model)
        units = [*units, *_functions_in_place(called)]
        # A step that is not repeatable proves nothing.
        if not units or not self._calls.results(self._calls.model).equals(original):
            return []

        def works(some: list[_InPlace]) -> bool:
            try:
                with _all_of(some):
                    return self._calls.results(self._calls.model).equals(original)
            except RuntimeError:  # autograd needs what was overwritten, or a view is written to
                return False

        # All together first, which is one step in place of one for each.
        if works(units):
            return units
        accepted: list[_InPlace] = []
        for each in units:
            if time.monotonic() < self._deadline and works([*accepted, each]):
                accepted.append(each)
        return accepted

    def _eager_peak(self, units: list["_InPlace"]) -> int:
        with _all_of(units):
            self._calls.forget()
            self._calls.ledger.begin()
            self._calls.step(self._calls.model)
        return self._calls.ledger.peak(self._device).bytes

    def _chunked_losses(self) -> Iterator[OptionCandidate]:
        """Yield the loss in parts, if the step has a tensor with a large vocabulary."""
        if not self._has_vocabulary:
            return
        yield from self._chunked_head()
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

    def _chunked_head(self) -> Iterator[OptionCandidate]:
        """Yield the logits in parts, with their loss, if this torch can."""
        from torch._inductor import config

        if not hasattr(config, "auto_chunker"):
            return
        name = "torch._inductor.config.auto_chunker"
        statement = f"{name}.enable, {name}.amplify_ratio_threshold = True, {_AMPLIFIES}"
        text = "head and loss together in parts of the rows: the logits are never whole"
        if self._calls.has_own_loss:
            statement += "; step = torch.compile(lambda *inputs: loss(model(*inputs)))"
            text = f"compile the loss, too: {text}"
        used: list[int] = []
        made = functools.partial(self._chunked_heads, used)
        yield OptionCandidate("chunked_head", text, statement, made, used=used)

    @contextmanager
    def _chunked_heads(self, used: list[int]) -> Iterator[None]:
        """Let Inductor compute a matrix product with a large result, and what follows, part by part."""
        from torch._inductor import config, metrics

        before = metrics.num_auto_chunking
        settings = {"auto_chunker.enable": True, "auto_chunker.amplify_ratio_threshold": _AMPLIFIES}
        with config.patch(settings), self._calls.with_loss():
            yield
        used.extend([1] * (metrics.num_auto_chunking - before))

    @contextmanager
    def _static_inputs(self) -> Iterator[None]:
        self._calls.has_static_inputs = True
        try:
            yield
        finally:
            self._calls.has_static_inputs = False

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


class _InPlace(NamedTuple):
    """What can work in place."""

    text: str
    made: Callable[[], AbstractContextManager[Any]]


@contextmanager
def _all_of(units: list[_InPlace]) -> Iterator[None]:
    with ExitStack() as stack:
        for each in units:
            stack.enter_context(each.made())
        yield


def _modules_in_place(model: Any) -> Iterator[_InPlace]:
    """Yield the modules that have `inplace` and do not use it; those that differ only in a number are one."""
    found: dict[str, list[Any]] = {}
    for root, module in roots(model).items():
        for path, each in module.named_modules():
            if getattr(each, "inplace", None) is False:
                # Layers that differ in their number are one line of code in most models.
                name = re.sub(r"\.\d+\b", ".*", f"{root}.{path}" if path else root)
                found.setdefault(f"{name} ({type(each).__name__})", []).append(each)
    for text, modules in found.items():
        yield _InPlace(text, functools.partial(_set_in_place, modules))


@contextmanager
def _set_in_place(modules: list[Any]) -> Iterator[None]:
    for each in modules:
        each.inplace = True
    try:
        yield
    finally:
        for each in modules:
            each.inplace = False


def _functions_in_place(called: set[str]) -> Iterator[_InPlace]:
    """Yield the functions of `torch.nn.functional` that can work in place and were called without saying it."""
    for name, function in _with_in_place():
        if name in called:
            made = functools.partial(_replaced, {name: functools.partial(function, inplace=True)})
            yield _InPlace(f"torch.nn.functional.{name}", made)


def _with_in_place() -> Iterator[tuple[str, Callable[..., Any]]]:
    from torch.nn import functional

    for name, function in sorted(vars(functional).items()):
        is_public = inspect.isfunction(function) and not name.startswith("_")
        if is_public and "inplace" in inspect.signature(function).parameters:
            yield name, function


@contextmanager
def _noting_calls(called: set[str]) -> Iterator[None]:
    """Note the functions that could work in place and are called without saying whether."""

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*args: Any, **kwargs: Any) -> Any:
            called.add(name)
            return function(*args, **kwargs)

        return noting

    with _replaced({name: noted(name, function) for name, function in _with_in_place()}):
        yield


@contextmanager
def _replaced(functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Replace functions of `torch.nn.functional`, for calls that do not say whether they work in place."""
    from torch.nn import functional

    def unless_said(original: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
        # It may be said by position, too.
        position = list(inspect.signature(original).parameters).index("inplace")

        def function(*args: Any, **kwargs: Any) -> Any:
            is_said = "inplace" in kwargs or len(args) > position
            return (original if is_said else other)(*args, **kwargs)

        return function

    with ExitStack() as stack:
        for name, other in functions.items():
            replacement = unless_said(getattr(functional, name), other)
            stack.enter_context(patched(functional, name, replacement))
        yield


def copied_bytes(graphs: list[PlannedGraph], part: str) -> int:
    """Return what CUDA graphs of the graphs that ran would have copied, and still have in a part of a step."""
    return sum(graph.copied_at(part) for graph in graphs if graph.calls)


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
                # A module without modules inside, such as a Linear, saves too little to be worth it.
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
            # On the object, whose class may serve modules that are not to be checkpointed.
            each.forward = functools.partial(checkpoint, each.forward, use_reentrant=False)
            stack.callback(each.__dict__.pop, "forward", None)
        yield
