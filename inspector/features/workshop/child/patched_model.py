"""Compile the model twice in one process: unchanged, and with the package's passes.

Both sides have a backend of their own, so that Dynamo keeps their code apart and both can be timed in turn. Inductor's
caches of graphs are off, because a hit would run no pass.

The operator is checked against the part of the graph that it replaces, on the values that the model computes there.
The graph before a pass defines what the operator must return. Both graphs run op by op, in eager, with the inputs of
the model's own call; a node that both have shows which value the operator stands for.

`observed` observes the graph passes that a package installs: the graph before and after each, and what was replaced.
Nothing here relies on what the package reports: a place counts as replaced if the pass put a call of one of the
package's operators into the graph, and as launched directly if the graph then launches the operator's kernels instead.
"""

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.core.node_lines import line_of
from ctrace.inspector.capture.core.patch import patched
from ctrace.inspector.capture.isolation.unnoticed import unnoticed
from ctrace.inspector.errors import telling_line
from ctrace.inspector.features.workshop.child.checks import copied
from ctrace.inspector.features.workshop.child.elements import finite, first_difference, noise_of
from ctrace.inspector.features.workshop.child.importing import Imported, Operator, operators_of
from ctrace.inspector.features.workshop.child.kernel_sides import OperatorOutcome, called_each, limited, too_long
from ctrace.inspector.features.workshop.child.recorded_launches import function_of
from ctrace.inspector.features.workshop.package_model import KERNEL_SECONDS, RegionCheck
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.tasks import FailedTask

_SETTINGS = (
    "pre_grad_custom_pass",
    "joint_custom_pre_pass",
    "joint_custom_post_pass",
    "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass",
)
"""Inductor's public settings for passes (2.11 to 2.15, _inductor/config.py)."""


class PassRewrite(Struct):
    """What one run of a pass changed in one graph."""

    setting: str
    module: Any
    """The module that the graph belongs to, which holds its constants."""
    before: Any
    after: Any
    """With calls of the operators; what is launched directly is inlined after this copy was made."""
    calls: tuple[str, ...]
    """Names of the nodes in `after` that call the package's operators and that `before` lacks."""
    operators: tuple[str, ...]
    """The operator of each call."""
    lines: tuple[str | None, ...]
    """The user's line of each call."""
    called: tuple[str | None, ...]
    """Of each call, why compiled code calls the operator; None: it launches the kernels directly."""


class Passes(Struct):
    """What the observed passes changed, in order."""

    rewrites: list[PassRewrite] = field(default_factory=list)


def settings() -> dict[str, Any]:
    """Return the values of Inductor's settings for custom passes."""
    from torch._inductor import config

    return {name: getattr(config, name) for name in _SETTINGS if hasattr(config, name)}


def new_passes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the passes that `after` has and `before` lacks, each with its setting."""
    found = []
    for name, value in after.items():
        # By identity: the same function may be registered twice, and a pass may define its own equality.
        known = {id(each) for each in _listed(before.get(name))}
        found += [(name, each) for each in _listed(value) if id(each) not in known]
    return found


def _listed(value: Any) -> list[Any]:
    """Return the passes of a setting: none, one, or a list of them (from 2.13 on)."""
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return list(value)
    return [value]


@contextmanager
def observed(passes: Iterable[tuple[str, Any]], packages: Iterable[Imported]) -> Iterator[Passes]:
    """Observe passes in the block, which replace regions by operators of the packages."""
    found = Passes()
    used = list(packages)
    inlining = _Inlining(operators_of(used))
    with ExitStack() as patches:
        for each in used:
            module = each.part("place")
            if module is not None and hasattr(module, "inline"):
                patches.enter_context(patched(module, "inline", inlining.putting_off(module.inline)))
        for setting, each in passes:
            kind = type(each)
            # On its class, because Python finds `__call__` on the type: on the instance, it would not be called.
            patches.enter_context(patched(kind, "__call__", _observing(kind.__call__, each, setting, inlining, found)))
        yield found


class _Inlining:
    """Puts off what a package does last, until the graph with calls of its operators is copied."""

    def __init__(self, operators: Mapping[str, Operator]) -> None:
        self.operators = operators
        self._waiting: list[tuple[Callable[..., str], Any, Any]] = []

    def putting_off(self, original: Callable[..., str]) -> Callable[..., str]:
        """Return what takes the place of a package's `inline`."""

        def inline(graph: Any, call: Any) -> str:
            self._waiting.append((original, graph, call))
            return ""

        return inline

    def done(self) -> dict[str, str | None]:
        """Inline; return, for each call by name, why it stays, or None."""
        found: dict[str, str | None] = {}
        while self._waiting:
            # In the order in which Inductor found them: inlining one may change what stands around the next.
            original, graph, call = self._waiting.pop(0)
            name, operator = call.name, self.operators.get(qualified(call))
            known = set(graph.nodes)
            why = original(graph, call)
            new = [each for each in graph.nodes if each not in known]
            is_direct = operator is not None and _launches(new, operator)
            found[name] = None if is_direct else why or "the package put no launch of its kernels in the place"
        return found


def _launches(nodes: Iterable[Any], operator: Operator) -> bool:
    """Whether some nodes launch each kernel of an operator."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    indices = [each.kwargs["kernel_idx"] for each in nodes if "triton_kernel_wrapper" in str(each.target)]
    launched = {id(function_of(kernel_side_table.get_kernel(each))) for each in indices}
    return bool(operator.kernels) and launched >= {id(function_of(each)) for each in operator.kernels}


def _observing(original: Any, wanted: Any, setting: str, inlining: _Inlining, found: Passes) -> Any:
    def call(self: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        if self is not wanted:
            return original(self, graph, *args, **kwargs)
        of = getattr(graph, "graph", graph)  # a pass on a module gets the module
        # A pass changes the graph in place, so what it replaced is known only from a copy made before.
        before = copy.deepcopy(of)
        result = original(self, graph, *args, **kwargs)
        after = copy.deepcopy(of)
        found.rewrites.append(_rewrite(setting, of.owning_module, before, after, inlining))
        return result

    return call


_OLD = "the package is of an older ctrace; eject the kernel again into an empty folder"


def _rewrite(setting: str, module: Any, before: Any, after: Any, inlining: _Inlining) -> PassRewrite:
    known = {node.name for node in before.nodes}
    left = {node.name for node in after.nodes}
    calls = [node for node in after.nodes if node.name not in known and qualified(node) in inlining.operators]
    removed = [node for node in before.nodes if node.name not in left]
    called = inlining.done()
    return PassRewrite(
        setting=setting,
        module=module,
        before=before,
        after=after,
        calls=tuple(node.name for node in calls),
        operators=tuple(qualified(node) for node in calls),
        lines=tuple(line_of(node) or _line_of_removed(removed) for node in calls),
        called=tuple(called.get(node.name, _OLD) for node in calls),
    )


def qualified(node: Any) -> str:
    """Return the operator that a node calls, such as `my_ops::softmax`; empty for anything else."""
    target = node.target
    schema = getattr(target, "_schema", None)
    if node.op == "call_function" and schema is not None:
        return str(schema.name)
    return ""


def _line_of_removed(removed: list[Any]) -> str | None:
    """Return the line of the last removed node that has one: the region's result."""
    return next((line for line in map(line_of, reversed(removed)) if line is not None), None)


_MOST_SIZES = 8
"""How many sizes of a graph's inputs are checked."""
_SUMS = ("aten.sum.", "aten.mean.")
_ROUNDOFF = 2.0**-24
"""Of float32, in which Inductor adds up float16 and bfloat16, too."""
_CHECK = "check the kernel first: ctrace kernels edit DIR --once"
_MOST_ROUNDINGS = 32.0
"""Errors of n additions in a row grow as the root of n; more than this would hide what a kernel leaves out."""


class CompiledPart(Struct):
    """One graph part that Inductor compiled: a forward, a backward or an inference graph."""

    graph: str
    stage: str
    rewrites: list[PassRewrite]
    checks: dict[tuple[int, str], RegionCheck] = field(default_factory=dict)
    """Keyed by the number of the rewrite and the node's name."""
    ran: set[tuple[object, ...]] = field(default_factory=set)
    """The sizes of the inputs that it was checked with."""
    unchecked: str = ""
    """Why the operators were not compared with what they replace; empty if they were."""


def _worse(one: RegionCheck | None, other: RegionCheck) -> RegionCheck:
    """Return the check that says more against a kernel: of other sizes of the same graph."""
    if one is None or not one.equal or not other.equal:
        if one is not None and not one.equal:
            return one
        return other
    # Of two right results, the one that a kernel computed says more than that of the fallback.
    return max(one, other, key=lambda each: (each.kernel != "fallback", each.largest or 0.0))


def _stage(compile_arguments: Mapping[str, Any]) -> str:
    """Return which graph part `compile_fx_inner` compiles, by its keyword arguments."""
    if compile_arguments.get("is_backward"):
        return "backward"
    if compile_arguments.get("is_inference"):
        return "inference"
    return "forward"


class CompiledSide:
    """One way to compile the model."""

    def __init__(
        self,
        options: Options,
        settings: Mapping[str, Any],
        passes: Passes | None = None,
        operators: Mapping[str, Operator] | None = None,
        before: Mapping[int, int] | None = None,
        seconds: float = KERNEL_SECONDS,
    ) -> None:
        """Compile with these values of Inductor's settings; with `passes`, check what they replaced.

        `before` has the number of compilations that each frame has had already; `seconds` is how long a kernel may
        take.
        """
        self._options = options
        self._settings = dict(settings)
        self._passes = passes
        self._operators = dict(operators or {})
        self._before = dict(before or {})
        self._seconds = seconds
        self.compiled_of: dict[int, int] = {}
        """How many compilations each frame has so far."""
        self.parts: list[CompiledPart] = []

    def compiled(self, model: Any) -> Any:
        """Return the model, compiled at its first call."""
        import torch

        return torch.compile(
            model, backend=self._backend(), dynamic=self._options.dynamic, fullgraph=self._options.fullgraph
        )

    def _backend(self) -> Callable[..., Any]:
        from torch._inductor import list_mode_options
        from torch._inductor.compile_fx import compile_fx

        chosen = list_mode_options().get(self._options.mode or "default", {})

        def backend(module: Any, inputs: Any) -> Any:
            # A cached graph would come without the passes, and so without the package's operators.
            patches = {**chosen, **self._settings, "fx_graph_cache": False, "fx_graph_remote_cache": False}
            return compile_fx(module, inputs, inner_compile=self._inner, config_patches=patches)

        return backend

    def _inner(self, module: Any, inputs: Any, **kwargs: Any) -> Any:
        from torch._inductor.compile_fx import compile_fx_inner

        rewrites: list[PassRewrite] = []
        if self._passes is None:
            compiled = compile_fx_inner(module, inputs, **kwargs)
        else:
            began = len(self._passes.rewrites)
            compiled = compile_fx_inner(module, inputs, **kwargs)
            rewrites = self._passes.rewrites[began:]  # those of this graph part
        part = CompiledPart(self._graph(), _stage(kwargs), rewrites)
        self.parts.append(part)

        def run(values: Any) -> Any:
            # A graph with dynamic sizes is checked once for each, as a kernel may be wrong for some only.
            sizes = tuple(tuple(getattr(each, "shape", ())) for each in values)
            if sizes not in part.ran and len(part.ran) < _MOST_SIZES:
                part.ran.add(sizes)
                self._check(part, list(values))  # a copy of the list: the compiled code empties its own
            return compiled(values)

        # AOTAutograd then passes the values as one list, as to Inductor's own code (_functorch/_aot_autograd/utils.py).
        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    def _check(self, part: CompiledPart, values: list[Any]) -> None:
        for number, rewrite in enumerate(part.rewrites):
            if not rewrite.calls:
                continue
            try:
                with unnoticed():  # the graph may draw random numbers, which the model's call draws next
                    found = check_rewrite(rewrite, values, self._operators, self._seconds)
            except (
                Exception
            ) as error:  # an op that runs only in compiled code, or a kernel that ended the GPU's context
                part.unchecked = kind_and_message(error)[:300]
                continue
            for name, check in found.items():
                part.checks[number, name] = _worse(part.checks.get((number, name)), check)

    def _graph(self) -> str:
        """Return the compilation that is going on, such as `0/1`, as if no other side had compiled the model."""
        from torch._guards import CompileContext

        now = CompileContext.current_compile_id()
        if now is None:
            return "?"
        frame, number = int(now.frame_id or 0), int(now.frame_compile_id or 0)
        # The number counts compilations of a frame, so the next one starts after it.
        self.compiled_of[frame] = max(self.compiled_of.get(frame, 0), number + 1)
        return f"{frame}/{max(number - self._before.get(frame, 0), 0)}"


class Standing(Struct, frozen=True):
    """An output of an operator's call, and the node of the original graph that has the same value."""

    call: str
    output: int | None
    """Index of the output; None if the operator returns one tensor."""
    node: str


def check_rewrite(
    rewrite: PassRewrite, inputs: list[Any], operators: Mapping[str, Operator], seconds: float
) -> dict[str, RegionCheck]:
    """Run the graph before and after the pass, and compare each call of an operator; by the node's name.

    `place` of each check is the index of the call in the rewrite. A kernel that takes longer ends the process.
    """
    import torch

    standing = list(_standings(rewrite))
    wanted = {each.node for each in standing}
    with torch.no_grad():
        expected = _values(rewrite, rewrite.before, inputs, wanted)
        noise, unknown = _noise(rewrite, inputs, wanted, expected)
        calls = _Calls(rewrite, operators, seconds)
        calls.run(inputs)
    found = {}
    for index, name in enumerate(rewrite.calls):
        own = [each for each in standing if each.call == name]
        check = _compare_each(index, calls.results.get(name, ()), own, expected, noise)
        found[name] = replace(check, note=check.note or unknown) if check.wrong is not None else check
    return found


def _compare_each(
    index: int,
    results: Iterable[OperatorOutcome],
    standing: list[Standing],
    expected: Mapping[str, Any],
    noise: Mapping[str, float],
) -> RegionCheck:
    """Compare what each configuration of the kernel returned; return the first wrong one, else the least exact one."""
    checks = [_compare(index, each, standing, expected, noise) for each in results]
    if not checks:
        return RegionCheck(index, "fallback", equal=False, largest=0.0, note="the call did not run")
    return next((each for each in checks if not each.equal), max(checks, key=lambda each: each.largest or 0.0))


def _compare(
    index: int,
    result: OperatorOutcome,
    standing: list[Standing],
    expected: Mapping[str, Any],
    noise: Mapping[str, float],
) -> RegionCheck:
    if result.raised or result.value is None:
        return RegionCheck(index, result.kind, equal=False, largest=None, note=result.raised or result.note)
    largest, wrong = 0.0, None
    for each in standing:
        if each.output is None:
            value = result.value
            title = "the output"
        else:
            value = result.value[each.output]
            title = f"output {each.output}"
        by, element = first_difference(
            f"{title} ({each.node})", expected[each.node], value, noise=noise.get(each.node, 0.0)
        )
        largest = max(largest, by)
        wrong = wrong or element
    note = result.note
    if not note and not standing:
        note = "no value of the graph stands for its result: only the model is compared"
    return RegionCheck(index, result.kind, wrong is None and not result.is_outside, finite(largest), wrong, note)


def _standings(rewrite: PassRewrite) -> Iterator[Standing]:
    """Find which values of the original graph the operators' outputs replace: by the users that both graphs have."""
    originals = {node.name: node for node in rewrite.before.nodes}
    seen = set()
    for node in rewrite.after.nodes:
        original = originals.get(node.name)
        if original is None:
            continue
        for now, was in zip(_leaves(node), _leaves(original), strict=False):
            place = _output_of(now, rewrite.calls)
            if place is not None and now.name != was.name and (place, was.name) not in seen:
                seen.add((place, was.name))
                yield Standing(*place, was.name)


def _leaves(node: Any) -> list[Any]:
    from torch import fx

    found: list[Any] = []
    fx.node.map_arg((node.args, node.kwargs), found.append)
    return found


def _output_of(node: Any, calls: tuple[str, ...]) -> tuple[str, int | None] | None:
    """Return the operator's call that a node is the output of."""
    if node.name in calls:
        return node.name, None
    if getattr(node.target, "__name__", "") == "getitem" and getattr(node.args[0], "name", "") in calls:
        return node.args[0].name, int(node.args[1])
    return None


def _values(
    rewrite: PassRewrite,
    graph: Any,
    inputs: list[Any],
    wanted: set[str],
    converted: Callable[[Any], Any] | None = None,
    *,
    is_rounded: bool = False,
) -> dict[str, Any]:
    """Run a graph op by op, and return the values of the wanted nodes.

    Args:
        converted: converts each argument of an op first.
        is_rounded: change each sum by what its order may change in float32, which follows from the sum of magnitudes.
    """
    from torch import fx
    from torch.utils import _pytree

    found: dict[str, Any] = {}

    class Kept(fx.Interpreter):
        def run_node(self, n: Any) -> Any:
            value = super().run_node(n)
            if n.name in wanted:
                found[n.name] = _copied(value)
            return value

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if converted is not None:
                args, kwargs = _pytree.tree_map(converted, (args, kwargs))
            value = super().call_function(target, args, kwargs)
            if is_rounded and str(target).startswith(_SUMS):
                each = min(math.sqrt(args[0].numel() / max(value.numel(), 1)), _MOST_ROUNDINGS)
                value = value + _ROUNDOFF * each * target(args[0].abs(), *args[1:], **kwargs)
            return value

    # Copies: an operation of the graph may write to its inputs, which the compiled code still reads.
    Kept(fx.GraphModule(rewrite.module, graph)).run(*map(_copied, inputs))
    return found


def _noise(
    rewrite: PassRewrite, inputs: list[Any], wanted: set[str], expected: Mapping[str, Any]
) -> tuple[dict[str, float], str]:
    """Return how far the graph's own values are from those in float64: where values cancel, rounding is all they are.

    A graph that cannot run in float64, because an op takes one dtype only, gets no allowance; the text says so.
    """
    import torch

    def widened(value: Any) -> Any:
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        if is_float:
            return value.detach().to(torch.float64)
        return value

    try:
        # Each op's arguments, because the graph makes constants in its own dtypes, and some ops take one dtype only.
        exact = _values(rewrite, rewrite.before, inputs, wanted, widened)
    except Exception as error:  # any op may refuse float64
        why = telling_line(kind_and_message(error))[:200]
        return {}, f"rounding errors are not known, because the graph does not run in float64: {why}"
    noise = {name: noise_of(expected[name], exact[name]) for name in wanted if name in exact and name in expected}
    rounded = _values(rewrite, rewrite.before, inputs, wanted, widened, is_rounded=True)
    return {name: max(value, noise_of(rounded[name], exact[name])) for name, value in noise.items()}, ""


class _Calls:
    """Runs the graph after the pass, and calls the operators with guards around their tensors."""

    def __init__(self, rewrite: PassRewrite, operators: Mapping[str, Operator], seconds: float) -> None:
        self._seconds = seconds
        self._rewrite = rewrite
        self._operators = operators
        self.results: dict[str, list[OperatorOutcome]] = {}

    def run(self, inputs: list[Any]) -> None:
        from torch import fx

        names = dict(zip(self._rewrite.calls, self._rewrite.operators, strict=True))
        outer = self

        class Called(fx.Interpreter):
            def run_node(self, n: Any) -> Any:
                if n.name not in names:
                    return super().run_node(n)
                args, kwargs = self.fetch_args_kwargs_from_env(n)
                operator = outer._operators[names[n.name]]
                with limited(
                    outer._seconds, lambda: FailedTask(f"{operator.name}: {too_long(outer._seconds)}", _CHECK)
                ):
                    outer.results[n.name] = list(called_each(operator, args, kwargs))
                return super().run_node(n)

        Called(fx.GraphModule(self._rewrite.module, self._rewrite.after)).run(*map(_copied, inputs))


def _copied(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return copied(value)
    return value
