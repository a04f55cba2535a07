"""Say which limits of torch concern a kernel of the user's.

Read in torch 2.11, 2.13 and 2.15: `wrap_triton` (_library/triton.py) refuses every decorator but `triton.jit` and
`triton.autotune` as the outermost one; `init_variable` and `call_triton_kernel` (_higher_order_ops/
triton_kernel_wrap.py) refuse the rest of what is listed here.
"""

from collections.abc import Iterator

from ctrace.inspector.features.workshop.triton_ops.triton_op_model import JitFunction, JitLaunch, OperatorLimit

_REFUSED = ("pre_hook", "post_hook", "warmup", "rep", "use_cuda_graph", "do_bench")
_EXTRA = ("restore_value", "reset_to_zero", "prune_configs_by")


def limits_of(kernel: JitFunction, launch: JitLaunch) -> tuple[OperatorLimit, ...]:
    """Return the limits, those that apply first."""
    found = [*_order(kernel), *_autotune(kernel), *_launched(kernel, launch)]
    return tuple(sorted(found, key=lambda each: not each.applies))


def _order(kernel: JitFunction) -> Iterator[OperatorLimit]:
    names = [each.name for each in kernel.decorators]
    yield OperatorLimit("torch takes one @triton.autotune per kernel", applies=names.count("autotune") > 1)
    outermost = next((name for name in names if name != "jit"), "jit")
    what = "wrap_triton takes @triton.heuristics only below @triton.autotune: the configuration is chosen first, and "
    yield OperatorLimit(f"{what}the heuristics run for each one", applies=outermost == "heuristics")
    both = "heuristics" in names and outermost != "heuristics"
    yield OperatorLimit("a function in @triton.heuristics must return a constant", applies=both)


def _autotune(kernel: JitFunction) -> Iterator[OperatorLimit]:
    used = [name for each in kernel.decorators if each.name == "autotune" for name in each.keywords]
    refused = [name for name in used if name in _REFUSED]
    found = f"; this kernel has {', '.join(refused)}" if refused else ""
    yield OperatorLimit(f"of @triton.autotune, rely on `configs` and `key` only{found}", applies=bool(refused))
    extra = [name for name in used if name in _EXTRA]
    if extra:
        yield OperatorLimit(f"{', '.join(extra)}: torch 2.11 and later take them", applies=True)
    hooks = any("pre_hook" in each.text for each in kernel.decorators if each.name == "autotune")
    yield OperatorLimit(
        "torch takes no pre_hook in triton.Config, because it runs Python at every launch", applies=hooks
    )


def _launched(kernel: JitFunction, launch: JitLaunch) -> Iterator[OperatorLimit]:
    yield OperatorLimit(
        "torch takes no num_ctas at the launch: put it into a triton.Config", applies="num_ctas" in launch.settings
    )
    starred = any(keyword.arg is None for keyword in launch.call.keywords)
    yield OperatorLimit(
        "the arguments must be written out: *args and **kwargs hide which tensors are written", applies=starred
    )
    if kernel.assumed:
        yield OperatorLimit(kernel.assumed, applies=True)
