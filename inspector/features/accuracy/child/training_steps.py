"""Train eager, compiled and float64 side by side from one state, and judge each compiled step from its own state.

Runs of one model part by rounding alone, and training may make that grow without a limit. So what compares two runs
after many steps cannot tell a wrong kernel from chaos. Here each step of the compiled run is judged where it starts: a
copy of its parameters and buffers takes the same step in eager and, if that differs, in float64 and rounded at random,
by the rule of whole results (`comparing/verdicts.py`). What earlier steps made grow is in all of them.

The free runs are beside it for the reader: eager, float64, and eager with one bit of one parameter changed. How far
that last one gets from eager is what chaos alone does.

The memory of all runs is that of the parameters, their gradients and the state of the optimizer, once for each of
eager, compiled and the changed bit, and twice for float64; see `copies`.
"""

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from msgspec import Struct, field

from ctrace.inspector.capture.calls.calling import CallResults
from ctrace.inspector.capture.calls.model_files import entered_by_call
from ctrace.inspector.capture.calls.ways import Call, Way, gradients
from ctrace.inspector.capture.comparing.arithmetic import WatchedArithmetic, operation
from ctrace.inspector.capture.comparing.compare_results import disagreeing
from ctrace.inspector.capture.comparing.eager import EagerError, EagerRun, Traces
from ctrace.inspector.capture.comparing.float64 import Float64
from ctrace.inspector.capture.comparing.judgement import Judgement
from ctrace.inspector.capture.comparing.precision import precision_of
from ctrace.inspector.capture.comparing.snapshots import taken
from ctrace.inspector.capture.comparing.state_copies import Copier, copied
from ctrace.inspector.capture.comparing.verdicts import Court, EagerBudget, ResultVerdict
from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.accuracy_facts import LARGEST, FirstNonfinite, Training, TrainingStep
from ctrace.inspector.features.accuracy.child.kernel_judge import has_nonfinite
from ctrace.inspector.runs.tasks import TaskError

# Any number will do: steps in eager and compiled begin with the same one.
_SEED = 20
# The default of `torch.optim.AdamW` (2.13).
_RATE = 1e-3
_GROWN = 100.0
"""How many times further than after its first step the changed bit has to be, before steps count as chaotic: rounding
errors that only add up grow with the number of steps or its root."""
_NEAR = 10.0
"""How many times as far as the changed bit compiled may be, if chaos is to explain it: one bit is less than one
rounding of each operation, and both grow by the same factor."""


class Trained(Struct):
    """One run: a model in some arithmetic, with its optimizer."""

    model: Any
    optimizer: Any
    arithmetic: Callable[[], WatchedArithmetic] | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that are trained, by name."""
        return {name: each for name, each in self.model.named_parameters() if each.requires_grad}


class Float64Drawn(Float64):
    """Computes in float64, and draws the random numbers that float32 draws: others for each width (2.13, CPU)."""

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        import torch

        if operation(func) in ("rand", "randn", "rand_like", "randn_like"):
            short = kwargs.get("dtype") in (torch.float16, torch.bfloat16)
            # float16 and bfloat16 have numbers of their own on the CPU, so they are drawn as they are.
            kwargs = {**kwargs, "dtype": kwargs["dtype"] if short else torch.float32}
            return func(*args, **kwargs).double()
        return super()._run(func, args, kwargs)


def copies(optimizer: Any) -> int:
    """Return how many times the parameters have to fit into memory, with the tensors that an optimizer keeps."""
    import torch

    # Adam keeps two tensors of a parameter's size, SGD none; of others, one is assumed.
    kept = 2
    if "Adam" not in type(optimizer).__name__:
        kept = int(not isinstance(optimizer, torch.optim.SGD))
    kept += any(bool(each.get("momentum")) for each in optimizer.param_groups)
    runs, of_one_step = 5, 8
    return runs * (2 + kept) + of_one_step


class Loss:
    """What is trained for: what the model file or the model offers, else the mean square of the results."""

    def __init__(self, file: Any) -> None:
        function = getattr(file, "loss", None)
        self._function = function if callable(function) else None
        self.name = ""

    def of(self, outputs: Any, call: Call) -> Any:
        """Return the loss.

        Raises:
            TargetError: there is none that requires a gradient.
        """
        import torch
        from torch.utils import _pytree

        if self._function is not None:
            loss, self.name = self._called(outputs, call), "`loss` of the file"
        else:
            leaves = [each for each in _pytree.tree_leaves(outputs) if isinstance(each, torch.Tensor)]
            learned = [each for each in leaves if each.requires_grad]
            if isinstance(outputs, dict):
                own = outputs.get("loss")
            else:
                own = getattr(outputs, "loss", None)
            single = [each for each in learned if each.numel() == 1]
            if isinstance(own, torch.Tensor):
                loss, self.name = own, "`loss` of the model's result"
            elif len(single) == 1:
                loss, self.name = single[0], "the scalar that the model returns"
            elif learned:
                loss = sum(each.abs().square().mean() for each in learned)
                self.name = "the mean square of the results, since the file defines no `loss`"
            else:
                loss = None
        is_loss = isinstance(loss, torch.Tensor) and loss.numel() == 1 and loss.requires_grad
        if not is_loss:
            what = "no loss: no result of the model requires a gradient"
            if self._function is not None:
                what = "`loss` of the file returns no scalar tensor that requires a gradient"
            raise TargetError(f"--steps: {what}", "define loss(outputs) in the model file, or drop --steps")
        return loss.reshape(())

    def _called(self, outputs: Any, call: Call) -> Any:
        """Call the file's function with the results, and with the model's arguments if it takes more."""
        function: Any = self._function
        try:
            # The signature tells, because an exception of the function itself must not be taken for a wrong call.
            inspect.signature(entered_by_call(function)).bind(outputs)
        except TypeError:
            return function(outputs, *call.args, **call.kwargs)
        return function(outputs)


def optimizer_of(file: Any, model: Any) -> tuple[Any, str]:
    """Return the optimizer that the model file offers, else AdamW; and its name.

    Raises:
        TargetError: the model has nothing to train, or what the file offers does not fit.
    """
    import torch

    parameters = []
    if hasattr(model, "parameters"):
        parameters = [each for each in model.parameters() if each.requires_grad]
    if not parameters:
        raise TargetError("--steps: the model has no parameters to train", "drop --steps, or unfreeze a parameter")
    offered = getattr(file, "optimizer", None)
    if offered is None:
        return torch.optim.AdamW(parameters, lr=_RATE), f"AdamW(lr={_RATE:g}), since the file defines no `optimizer`"
    if not isinstance(offered, torch.optim.Optimizer) and callable(offered):
        try:
            offered = offered(model)
        except Exception as error:
            raise TaskError(f"optimizer(model) of the file raises {_first_line(error)}", "correct it") from error
    if not isinstance(offered, torch.optim.Optimizer):
        what = f"--steps: optimizer of the file is a {type(offered).__name__}"
        raise TargetError(what, "write optimizer(model), which returns an optimizer of torch.optim")
    # An optimizer of other parameters would train nothing, and each step would look right.
    known = set(map(id, parameters))
    if not all(id(each) in known for group in offered.param_groups for each in group["params"]):
        what = "--steps: optimizer of the file has parameters that are not the model's"
        raise TargetError(what, "write optimizer(model), which returns an optimizer of torch.optim")
    return offered, f"`optimizer` of the file ({type(offered).__name__})"


class StepsTrained(Struct):
    """What the steps showed."""

    steps: list[TrainingStep] = field(default_factory=list)
    summary: Training | None = None
    runs: int = 0
    """Compiled calls."""
    undecided: dict[tuple[str, str], None] = field(default_factory=dict)
    """Steps that were not compared."""
    untried: dict[tuple[str, str], None] = field(default_factory=dict)
    nonfinite: FirstNonfinite | None = None
    """Where the first NaN or infinity is made, if no kernel makes it."""


Rerun = Callable[[int, Callable[[], None]], bool]
"""Judge the kernels of a step while a function calls it again; return whether they tell where a NaN comes from."""


class SideBySide:
    """Trains all runs of a model, one step after the other."""

    def __init__(self, model: Any, compiled: Any, way: Way, file: Any) -> None:
        optimizer, name = optimizer_of(file, model)
        self.optimizer = optimizer
        self._way = way
        self._loss = Loss(file)
        self._name = name
        self._compiled = compiled
        self._own = Trained(model, optimizer)
        self._runs: dict[str, Trained] = {}
        self._copier = Copier()
        self._budget = EagerBudget(math.inf)
        self._changed = ""
        self._found = StepsTrained()
        self._is_judged = self._is_strange = False
        """Whether the kernels of a step that parted were judged, and whether there was a NaN or infinity."""

    def trained(self, count: int, rerun: Rerun) -> StepsTrained:
        """Take some steps."""
        found = self._found
        self._runs = {"eager": self._twin(), "float64": self._twin(Float64Drawn), "bit": self._twin()}
        for step in range(1, count + 1):
            call = self._inputs(step)
            if step == 1 and self._differs_in_eager(call):
                found.undecided["the training steps", "two eager steps differ, with one seed"] = None
                break
            self._take(step, call, rerun)
            if self._is_strange and has_nonfinite(tuple(self._runs["eager"].parameters.values())):
                if step < count:
                    why = "the parameters are NaN or infinite by then, in eager as well"
                    found.undecided[f"training steps {step + 1} to {count}", why] = None
                break
        if found.steps:
            found.summary = Training(self._loss.name, self._name, self._changed or None, parted_by(found.steps))
        return found

    def _take(self, step: int, call: Call, rerun: Rerun) -> None:
        """Take one step of each run, and judge it before the optimizers change the parameters."""
        found, own = self._found, self._own
        # Judging calls the model again, and each call in training moves its buffers.
        before = _copies(own.model.buffers())
        found.runs += 1
        compiled = self._stepped(own, call, step, self._compiled)
        after = _copies(own.model.buffers())
        gradients_ = {name: each.grad for name, each in own.parameters.items()}
        results = self._free_runs(step, call)
        # The verdict begins where the compiled call began.
        _put(own.model.buffers(), before)
        verdict = self._verdict(compiled, call, step)
        is_parted = verdict.judgement is Judgement.WRONG
        if verdict.judgement is Judgement.UNDECIDED:
            found.undecided[f"training step {step}", verdict.why or verdict.no_reference] = None
        made = not self._is_strange and has_nonfinite(_floats(compiled))
        if (is_parted and not self._is_judged) or made:
            tells = rerun(step, lambda: self._again(call, step))
            if made and not tells:
                found.nonfinite = self._nonfinite(compiled, results["eager"], step)
            self._is_judged |= is_parted
            self._is_strange |= made
        for name, parameter in own.parameters.items():
            parameter.grad = gradients_[name]
        _put(own.model.buffers(), after)
        # Only now: a step is judged with the parameters that it was called with.
        for each in (own, *self._runs.values()):
            self._apply(each)
        if not self._is_strange and has_nonfinite(tuple(own.parameters.values())):
            self._is_strange = True
            found.nonfinite = self._of_optimizer(step, self._runs["eager"])
        found.steps.append(self._fact(step, compiled, results, verdict))

    def _free_runs(self, step: int, call: Call) -> dict[str, CallResults]:
        """Take a step of each run that goes on from its own parameters; one that fails ends."""
        results = {"eager": self._stepped(self._runs["eager"], call, step)}
        if step == 1:
            self._change_a_bit(self._runs["bit"], results["eager"])
        for name in [each for each in self._runs if each != "eager"]:
            try:
                results[name] = self._stepped(self._runs[name], call, step)
            except Exception as error:
                del self._runs[name]
                self._found.untried[f"the {name} run of the steps", _first_line(error)] = None
        return results

    def _inputs(self, step: int) -> Call:
        import torch

        torch.manual_seed(_SEED + step)
        return self._way.make()

    def _twin(self, arithmetic: Callable[[], WatchedArithmetic] | None = None) -> Trained:
        """Copy the model and its optimizer, in float64 if the arithmetic is."""
        import copy

        import torch

        model = Copier().copy(self._own.model)
        # With the memo, the copied optimizer holds the parameters of the copied model.
        memo = dict(zip(map(id, self._own.model.parameters()), model.parameters(), strict=True))
        optimizer = copy.deepcopy(self._own.optimizer, memo)
        if arithmetic is not None:
            arithmetic().model(model)
            for parameter, state in optimizer.state.items():
                for key, value in state.items():
                    # Its moments are as wide as the parameter; counters of steps stay as they are.
                    if isinstance(value, torch.Tensor) and value.shape == parameter.shape and precision_of(value.dtype):
                        state[key] = value.to(parameter.dtype)
        return Trained(model, optimizer, arithmetic)

    def _stepped(
        self, run: Trained, call: Call, step: int, module: Any = None, arithmetic: WatchedArithmetic | None = None
    ) -> CallResults:
        """Call forward and backward of a run; its parameters stay as they are."""
        import torch

        arguments = copied(call)
        arithmetic = arithmetic or (run.arithmetic() if run.arithmetic is not None else None)
        if arithmetic is not None:
            arguments = arithmetic.call(arguments)
        for each in run.model.parameters():
            # Gradients would add up over the steps.
            each.grad = None
        stance: Any = nullcontext()
        if module is None:  # the eager side: a model may compile parts of itself
            module = run.model
            stance = torch.compiler.set_stance("force_eager")
        torch.manual_seed(_SEED + step)
        with stance, nullcontext() if arithmetic is None else arithmetic.active():
            with gradients(self._way):
                outputs = module(*arguments.args, **arguments.kwargs)
                loss = self._loss.of(outputs, arguments)
            loss.backward()
        grads = [each.grad for each in run.parameters.values()]
        buffers = dict(run.model.named_buffers())
        return taken(CallResults({"loss": loss, "results": outputs}, [], grads, buffers))

    def _again(self, call: Call, step: int) -> None:
        """Call a step of the compiled run once more; only buffers have changed since then, and are put back."""
        self._found.runs += 1
        self._stepped(self._own, call, step, self._compiled)

    def _alone(self, call: Call, step: int, arithmetic: WatchedArithmetic) -> CallResults:
        """Take the step of a copy of the compiled run in eager."""
        model = arithmetic.model(self._copier.copy(self._own.model))
        return self._stepped(Trained(model, None), call, step, None, arithmetic)

    def _differs_in_eager(self, call: Call) -> bool:
        one, other = (self._alone(call, 1, WatchedArithmetic()) for _ in range(2))
        return bool(disagreeing(one, other))

    def _verdict(self, compiled: CallResults, call: Call, step: int) -> ResultVerdict:
        """Judge a step by the parameter or buffer where it is worst, else by loss and results."""
        watched = WatchedArithmetic()
        eager = EagerRun(self._alone(call, step, watched), None, Traces(), 0.0)

        def run(arithmetic: WatchedArithmetic) -> EagerRun:
            drawn = arithmetic
            if isinstance(arithmetic, Float64):
                drawn = Float64Drawn(arithmetic.sources)
            try:
                return EagerRun(self._alone(call, step, drawn), None, Traces(), 0.0)
            except Exception as error:  # float64 does not suit the model
                raise EagerError from error
            finally:
                # The court asks the arithmetic that it has given what the run read and refused.
                arithmetic.read, arithmetic.refused = drawn.read, drawn.refused

        court = Court(eager, watched, run, self._budget, built=True)
        verdict = court.verdict(compiled)
        of_parameters = (each for each in court.wrong if self._parameter(each) is not None)
        if verdict.judgement is not Judgement.WRONG:
            return verdict
        return next(of_parameters, verdict)

    def _apply(self, run: Trained) -> None:
        """Take the optimizer's step.

        Raises:
            TaskError: it raises.
        """
        try:
            run.optimizer.step()
        except Exception as error:
            what = f"the step of {type(run.optimizer).__name__} raises {_first_line(error)}"
            raise TaskError(what, "first make the optimizer's step() run in plain Python") from error

    def _change_a_bit(self, run: Trained, eager: CallResults) -> None:
        """Change the last bit of the value that the loss depends on most."""
        import torch

        best, place = 0.0, None
        integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}
        for (name, parameter), gradient in zip(run.parameters.items(), eager.gradients, strict=True):
            is_plain = isinstance(gradient, torch.Tensor) and parameter.is_floating_point() and parameter.numel()
            if not is_plain or gradient.layout is not torch.strided or parameter.element_size() not in integers:
                continue
            # The last bit of zero is the smallest number there is, which changes nothing.
            steep = torch.where(parameter != 0, gradient.double().abs(), 0.0).nan_to_num(0.0, 0.0, 0.0)
            if float(steep.max()) > best:
                best, place = float(steep.max()), (name, parameter, int(steep.argmax()))
        if place is None:
            return
        name, parameter, at = place
        with torch.no_grad():
            index = tuple(map(int, torch.unravel_index(torch.tensor(at), parameter.shape)))
            bits = parameter.detach()[index].clone().reshape(1).view(integers[parameter.element_size()])
            parameter[index] = (bits ^ 1).view(parameter.dtype)[0]
        if index:
            self._changed = f"{name}[{', '.join(map(str, index))}]"
        else:
            self._changed = name

    def _fact(
        self, step: int, compiled: CallResults, results: dict[str, CallResults], verdict: ResultVerdict
    ) -> TrainingStep:
        runs = self._runs
        eager, wide, bit = (results.get(each) for each in ("eager", "float64", "bit"))
        is_parted = verdict.judgement is Judgement.WRONG
        parameter = error = eager_error = None
        if is_parted:
            parameter = self._parameter(verdict)
            error, eager_error = _number(verdict.compiled_error), _number(verdict.eager_error)
        loss_one_bit = apart_one_bit = None
        if self._changed:
            loss_one_bit = _loss(bit)
            apart_one_bit = None
            if "bit" in runs:
                apart_one_bit = _apart(runs["bit"], runs["eager"])
        apart_float64 = None
        if "float64" in runs:
            apart_float64 = _apart(runs["float64"], runs["eager"])
        return TrainingStep(
            step=step,
            loss_eager=_loss(eager),
            loss_compiled=_loss(compiled),
            parted=is_parted,
            parameter=parameter,
            error=error,
            eager_error=eager_error,
            loss_float64=_loss(wide),
            loss_one_bit=loss_one_bit,
            gradient_norm_eager=_norm(eager),
            gradient_norm_compiled=_norm(compiled),
            gradient_norm_float64=_norm(wide),
            apart_compiled=_apart(self._own, runs["eager"]),
            apart_one_bit=apart_one_bit,
            apart_float64=apart_float64,
        )

    def _parameter(self, verdict: ResultVerdict) -> str | None:
        """Return the parameter or buffer that a verdict is about; None: it is about the loss or the results."""
        group, *keys = verdict.path or ("",)
        if group == "gradients" and keys:
            return list(self._own.parameters)[keys[0]]
        if group == "buffers" and keys:
            return str(keys[0])
        return None

    def _nonfinite(self, compiled: CallResults, eager: CallResults, step: int) -> FirstNonfinite:
        """Say what makes a NaN that no kernel makes."""
        at = next((name for name, each in self._named(compiled) if has_nonfinite(each)), "the loss")
        of_eager = dict(self._named(eager))
        op = "the loss function" if at == "the loss" else "code that is not compiled"
        return FirstNonfinite(None, None, op, at, has_nonfinite(of_eager.get(at)), step=step)

    def _named(self, results: CallResults) -> Iterator[tuple[str, Any]]:
        """Yield the model's results, the loss and the gradients, in the order in which a step makes them."""
        yield "the model's result", _leaves(results.outputs.items["results"])
        yield "the loss", results.outputs.items["loss"]
        yield from zip(self._own.parameters, results.gradients, strict=True)

    def _of_optimizer(self, step: int, eager: Trained) -> FirstNonfinite:
        own = self._own.parameters
        name = next(each for each, value in own.items() if has_nonfinite(value))
        op = f"the step of {type(self._own.optimizer).__name__}"
        return FirstNonfinite(None, None, op, name, has_nonfinite(eager.parameters[name]), step=step)


def parted_by(steps: list[TrainingStep]) -> str:
    """Say what makes compiled and eager runs part: `compiler`, `chaos`, or `rounding`."""
    if any(each.parted for each in steps):
        return "compiler"
    known = [each for each in steps if each.apart_one_bit and each.apart_compiled is not None]
    if not known:
        return "rounding"
    first = known[0].apart_one_bit or 0.0
    is_chaos = any(
        (each.apart_one_bit or 0.0) > max(_GROWN * first, (each.apart_compiled or 0.0) / _NEAR) for each in known
    )
    if is_chaos:
        return "chaos"
    return "rounding"


def _copies(tensors: Any) -> list[Any]:
    return [each.detach().clone() for each in tensors]


def _put(tensors: Any, values: list[Any]) -> None:
    import torch

    with torch.no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)


def _leaves(value: Any) -> tuple[Any, ...]:
    """Return the tensors in what `taken` made of a result."""
    import torch

    if isinstance(value, torch.Tensor):
        return (value,)
    items = getattr(value, "items", None)
    if not isinstance(items, dict):
        return ()
    return tuple(leaf for each in items.values() for leaf in _leaves(each))


def _floats(results: CallResults) -> tuple[Any, ...]:
    return (*_leaves(results.outputs), *(each for each in results.gradients if each is not None))


def _loss(results: CallResults | None) -> float | None:
    if results is None:
        return None
    return _number(float(results.outputs.items["loss"]))


def _norm(results: CallResults | None) -> float | None:
    """Return the norm of all gradients."""
    if results is None:
        return None
    known = [each for each in results.gradients if each is not None]
    return _number(math.sqrt(sum(float(each.double().abs().square().sum()) for each in known)))


def _apart(one: Trained, other: Trained) -> float | None:
    """Return the distance of all parameters of two runs, as a fraction of the second one's norm."""
    import torch

    off = size = 0.0
    with torch.no_grad():
        for left, right in zip(one.parameters.values(), other.parameters.values(), strict=True):
            off += float((left.double() - right.double()).square().sum())
            size += float(right.double().square().sum())
    if size and math.isfinite(off):
        return _number(math.sqrt(off / size))
    return _number(off)


def _number(value: float | None) -> float | None:
    if value is not None and abs(value) <= LARGEST:
        return value
    return None


def _first_line(error: BaseException) -> str:
    return kind_and_message(error).splitlines()[0][:200]
