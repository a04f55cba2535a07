"""Load a model under the ledger, and take steps with it: forward, with --train backward and a step of its optimizer.

`measured_peak` measures the peak of a step that runs built kernels: by the allocator of a GPU, or by torch's profiler
on the CPU.
"""

import gc
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.calls.call_parts import WholeModel, roots
from ctrace.inspector.capture.calls.call_tensors import tensors
from ctrace.inspector.capture.calls.calling import stop_in
from ctrace.inspector.capture.calls.model_files import Loaded, entered_by_call, load
from ctrace.inspector.capture.calls.ways import Call, Way, gradients, training
from ctrace.inspector.capture.core.child_doors import child_door, has_child_door
from ctrace.inspector.capture.core.imports import Preloaded
from ctrace.inspector.capture.core.recorder import Recorder
from ctrace.inspector.capture.core.trace_log import TraceLog
from ctrace.inspector.capture.isolation.profiled_memory import cpu_peak
from ctrace.inspector.capture.isolation.random_states import seed
from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.memory.child.storage_ledger import Ledger, plain_tensors
from ctrace.inspector.features.memory.child.tracked_calls import (
    Tracked,
    mark_parameters,
    mark_saved,
    optimizer_tensors,
)
from ctrace.inspector.runs.capture_request import CaptureRequest

Model = Callable[..., Any]


class StepResults(Struct, frozen=True):
    """What a step returns and leaves, copied."""

    outputs: list[Any]
    gradients: list[Any]
    inputs: list[Any]
    """The arguments after the step."""

    def equals(self, other: "StepResults") -> bool:
        """Whether all tensors are the same, bit for bit but for NaN."""
        import torch

        some, others = ((*each.outputs, *each.gradients, *each.inputs) for each in (self, other))
        return len(some) == len(others) and all(
            # With no tolerance, it compares as `equal` does, and lets NaN equal itself.
            one.shape == two.shape and one.dtype == two.dtype and torch.allclose(one, two, 0.0, 0.0, equal_nan=True)
            for one, two in zip(some, others, strict=True)
        )


class ModelCalls:
    """A model, the way to call it, and the ledger of all that it allocates."""

    def __init__(self, capture: CaptureRequest, ledger: Ledger, tracked: Tracked) -> None:
        self.options = capture.options
        self.ledger = ledger
        self.tracked = tracked
        self._capture = capture
        self._optimizer: Any = None
        self._loss: Callable[..., Any] | None = None
        self._whole: Model | None = None
        self.has_static_inputs = False
        """Whether each call's tensors are marked as lying where those of the last call did."""
        self._fake: WholeModel = WholeModel()
        self._loaded: Loaded | None = None

    @contextmanager
    def loaded(self, preloaded: Preloaded) -> Iterator[None]:
        """Load the model, and follow all that is allocated in the block.

        Raises:
            TargetError: the target is no model.
        """
        import torch

        if has_child_door("fake"):
            self._fake = child_door("fake").FakeModel(self.options, Recorder(TraceLog(None)))
        with ExitStack() as stack:
            stack.enter_context(self._fake.active())
            stack.enter_context(self._fake.stopping())
            stack.enter_context(self.tracked.active())
            seed()  # models draw their weights as they are made
            self._loaded = load(self._capture, preloaded, made=self._fake.made)
            if self.options.train and isinstance(self.model, torch.nn.Module):
                self.model.train()
            file = self._loaded.module
            loss = getattr(file, "loss", None)
            if callable(loss) and self.options.train:
                if _takes_one(loss):
                    self._loss = _of_outputs(loss)
                else:
                    self._loss = loss
            if self.options.train:
                self._optimizer = _optimizer(file, self.model)
            mark_parameters(self.ledger, self.parameters())
            for each in self._state():
                # Buffers stay for as long as parameters do, and the report has them in one row.
                self.ledger.mark((each,), "parameter")
            yield

    @property
    def model(self) -> Model:
        """The model as its file makes it."""
        assert self._loaded is not None
        return self._loaded.model

    @property
    def compiled_part(self) -> Model:
        """What is compiled: the model, or with its loss."""
        return self._whole or self.model

    @property
    def has_own_loss(self) -> bool:
        """Whether the file computes the loss of what the model returns, outside of what is compiled."""
        return self._loss is not None

    @contextmanager
    def with_loss(self) -> Iterator[None]:
        """Let what is compiled in the block return the loss of the file."""
        loss, model = self._loss, self.model
        if loss is None:
            yield
            return

        def whole(*args: Any, **kwargs: Any) -> Any:
            return loss(model(*args, **kwargs), *args, **kwargs)

        self._whole, self._loss = whole, None
        try:
            yield
        finally:
            self._whole, self._loss = None, loss

    @property
    def is_fake(self) -> bool:
        """Whether values do not exist."""
        return bool(self._fake.is_fake)

    @property
    def optimizer(self) -> Any:
        """The optimizer of the file, whose step ends a step; None: there is none."""
        return self._optimizer

    @contextmanager
    def without_optimizer(self) -> Iterator[None]:
        """Let steps in the block end with the backward."""
        before, self._optimizer = self._optimizer, None
        try:
            yield
        finally:
            self._optimizer = before

    @property
    def way(self) -> Way:
        """The way to call it."""
        assert self._loaded is not None
        return self._loaded.scenarios["base"]

    def parameters(self) -> Iterator[Any]:
        """Yield the parameters, those of modules that a function uses included."""
        for root in roots(self.model).values():
            yield from root.parameters()

    def _state(self) -> Iterator[Any]:
        for root in roots(self.model).values():
            yield from root.buffers()

    def call(self) -> Call:
        """Make the arguments of a call."""
        call = self._fake.arguments(self.way.make())
        for each in plain_tensors(tensors(call)):
            stored = self.ledger.of(each)
            # A file may pass a parameter or a part of one as an input.
            if stored is None or "parameter" not in stored.kinds:
                self.ledger.add(each, self.tracked.lines.here(None), "input", "input")
        if self.has_static_inputs:
            import torch

            for each in tensors(call):
                torch._dynamo.mark_static_address(each)
        return call

    def results(self, model: Model, number: int = 0) -> "StepResults":
        """Take a step without the optimizer, and copy its results.

        Args:
            model: what to call.
            number: seeds the generators for the step; the inputs are the same for any.
        """
        outputs: list[Any] = []

        def kept(*args: Any, **kwargs: Any) -> Any:
            found = model(*args, **kwargs)
            outputs.extend(_copies(found))
            return found

        self.forget()
        seed()
        # The inputs with one seed, the step with another, so that only the step's own draws differ.
        call = self.call()
        seed(number)
        with self.without_optimizer():
            self.step(kept, call)
        leaves = [each for each in (*self.parameters(), *tensors(call)) if each.is_leaf and each.grad is not None]
        results = StepResults(outputs, _copies([each.grad for each in leaves]), _copies(tensors(call)))
        # The gradients are copied, and must not be there in the next step.
        self.forget()
        return results

    def forget(self) -> None:
        """Free the gradients, and what only cycles of objects hold."""
        for each in self.parameters():
            each.grad = None
        gc.collect()

    def step(self, model: Model, call: Call | None = None) -> None:
        """Take one step, and forget its results.

        Raises:
            TargetError: with --train, nothing requires a gradient.
            BaseException: whatever the model raises.
        """
        call = call or self.call()
        with training(self.model, self.way):
            self._step(model, call)

    def _step(self, model: Model, call: Call) -> None:
        import torch
        from torch.utils import _pytree

        trains = self.options.train and self.way.backward()
        inputs = tensors(call)
        for each in (*self.parameters(), *inputs):
            if each.is_leaf and each.requires_grad:
                # As a training loop does; a gradient that is there would be added to, and takes no new memory.
                each.grad = None
        # Nodes of the last step's graph are gone, and new ones may have their addresses.
        self.tracked.lines.forget_nodes()
        with self.tracked.within("forward"):
            with gradients(self.way) if self.way.grad is not None else nullcontext():
                outputs = model(*call.args, **call.kwargs)
            self.ledger.mark(
                (each for each in _pytree.tree_leaves(outputs) if isinstance(each, torch.Tensor)), "output"
            )
            mark_saved(self.ledger, outputs)
            if not trains:
                return
            loss = self._loss_of(outputs, call)
        # A training loop that keeps only the loss frees them before the backward; so does this one.
        del outputs
        loss.backward()
        # It holds the graph, and with it what was saved, into the optimizer's step.
        del loss
        mark_parameters(self.ledger, self.parameters())
        self.ledger.mark((each.grad for each in inputs if each.grad is not None), "gradient")
        if self._optimizer is not None:
            self._optimizer.step()
            self.ledger.mark(optimizer_tensors(self._optimizer), "optimizer")

    def _loss_of(self, outputs: Any, call: Call) -> Any:
        import torch
        from torch.utils import _pytree

        if self._loss is not None:
            loss = self._loss(outputs, *call.args, **call.kwargs)
            if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
                what = "--train: `loss` of the file returns no scalar tensor that requires a gradient"
                raise TargetError(what, "write loss(outputs), or drop --train")
            return loss
        leaves = [
            each for each in _pytree.tree_leaves(outputs) if isinstance(each, torch.Tensor) and each.requires_grad
        ]
        if not leaves:
            what = "--train: no output of the model requires a gradient"
            raise TargetError(what, "drop --train, or unfreeze a parameter")
        # As models of transformers return it if they get labels.
        if isinstance(outputs, dict):
            own = outputs.get("loss")
        else:
            own = getattr(outputs, "loss", None)
        if isinstance(own, torch.Tensor) and own.requires_grad and own.numel() == 1:
            return own
        single = [each for each in leaves if each.numel() == 1]
        if len(single) == 1:
            return single[0]
        # Any scalar that all results are part of: its value does not matter for memory.
        return sum(each.sum() for each in leaves)


def _copies(tensors: Any) -> list[Any]:
    import torch
    from torch.utils import _pytree

    leaves = [each for each in _pytree.tree_leaves(tensors) if isinstance(each, torch.Tensor)]
    return [each.detach().clone() for each in plain_tensors(leaves)]


def _takes_one(function: Callable[..., Any]) -> bool:
    """Whether a function can be called with one argument."""
    try:
        inspect.signature(entered_by_call(function)).bind(None)
    except TypeError:
        return False
    return True


def _of_outputs(loss: Callable[..., Any]) -> Callable[..., Any]:
    """Return a loss that takes the inputs of the model, too, and uses none of them."""
    return lambda outputs, *_args, **_kwargs: loss(outputs)


def _optimizer(file: Any, model: Any) -> Any:
    """Return the optimizer that a model file offers; None: it offers none.

    Raises:
        TargetError: what it offers is none.
    """
    import torch

    offered = getattr(file, "optimizer", None)
    if offered is None:
        return None
    if not isinstance(offered, torch.optim.Optimizer) and callable(offered):
        offered = offered(model)
    if not isinstance(offered, torch.optim.Optimizer):
        what = f"--train: optimizer of the file is a {type(offered).__name__}"
        raise TargetError(what, "write optimizer(model), which returns an optimizer of torch.optim")
    return offered


def stopped(error: BaseException) -> TargetError | None:
    """Return what to say if a call stopped because a value does not exist."""
    stop = stop_in(error)
    if stop is None:
        return None
    return TargetError(f"{stop}, without weights", stop.todo)


class MeasuredPeak(Struct, frozen=True):
    """The peak of a step, and what no tensor of it holds."""

    bytes: int
    others: int = 0
    """What is allocated before the step beyond the tensors that the ledger has, such as the workspace of cuBLAS."""
    pools: int = 0
    """What lies in the private pools of CUDA graphs."""


def measured_peak(
    run: Callable[[], None], device: str, before: int, recorded: AbstractContextManager[None] | None = None
) -> MeasuredPeak | None:
    """Measure a step; None: nothing measures it.

    Args:
        run: takes the step.
        device: the device that counts.
        before: what is alive before the step, as the ledger has it.
        recorded: records what a GPU allocates; None: nothing does.
    """
    import torch

    # What cycles hold from earlier steps would be counted as of this one.
    gc.collect()
    index = gpu_index(device)
    if index is None:
        grown = cpu_peak(run)
        if grown is None:
            return None
        return MeasuredPeak(before + grown)
    if not keeps_counts():
        return None
    torch.cuda.synchronize(index)
    others = max(int(torch.cuda.memory_allocated(index)) - before, 0)
    torch.cuda.reset_peak_memory_stats(index)
    with recorded or nullcontext():
        run()
    torch.cuda.synchronize(index)
    return MeasuredPeak(int(torch.cuda.max_memory_allocated(index)), others, _pool_bytes(index))


def keeps_counts() -> bool:
    """Whether the GPU's allocator counts what it allocates: one that a program plugs in does not.

    Such a one may take unified memory, too. It raises for `getDeviceStats` (2.11 and 2.14, libtorch_cuda.so).
    """
    return _allocator() in ("native", "cudaMallocAsync")


def keeps_history() -> bool:
    """Whether the GPU's allocator records a history: that of CUDA raises for `recordHistory` (2.11 and 2.14)."""
    return _allocator() == "native"


def _allocator() -> str:
    import torch

    return str(torch.cuda.memory.get_allocator_backend())


def gpu_index(device: str) -> int | None:
    """Return the number of a GPU that torch.cuda drives, as the ledger names it: 1 for `cuda:1`; None: it is none."""
    kind, _, number = device.partition(":")
    if kind != "cuda":
        return None
    return int(number or 0)


def _pool_bytes(index: int) -> int:
    import torch

    segments: list[dict[str, Any]] = torch.cuda.memory_snapshot()
    # (0, 0) is the pool that is no CUDA graph's.
    pools = [each for each in segments if tuple(each.get("segment_pool_id", (0, 0))) != (0, 0)]
    return sum(int(each["total_size"]) for each in pools if each.get("device", index) == index)
