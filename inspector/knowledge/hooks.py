"""Every place of torch and Triton that the capture patches: what it tells, which module records it, and since when.

A hook fails alone: if a release has moved its place, the record that it fills is missing, the run says so, and `ctrace
doctor` names the place. Names that differ between releases are looked up in `torch_names.py`. What the virtual GPU
answers in place of a device is not here: that feature has its own list of answers.
"""

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import NamedTuple

from ctrace.inspector.knowledge.releases import OLDEST, release_of

_OLDEST = ".".join(map(str, OLDEST))


class PatchedPlace(NamedTuple):
    """One patched place."""

    place: str
    """The dotted name of the attribute; `*` stands for any part of a name."""
    tells: str
    recorder: str
    """The module below `inspector/capture/` that patches it."""
    since: str = _OLDEST
    """The first release of torch that has it under this name."""
    until: str = ""
    """The last release that has it under this name; empty: it still does."""
    when: str = ""
    """`emitting`: only where no kernel is built; `build`: only with `--build`; empty: in every capture."""

    def is_at(self, place: str) -> bool:
        """Whether this is the hook of a patched place."""
        return fnmatchcase(place, self.place)

    def is_of(self, release: tuple[int, int]) -> bool:
        """Whether a release of torch has the place."""
        last = release_of(self.until)
        first = release_of(self.since)
        return (first is None or first <= release) and (last is None or release <= last)


_DYNAMO = (
    PatchedPlace("torch._dynamo.convert_frame.ConvertFrameReturn", "functions that Dynamo skips", "dynamo/frames"),
    PatchedPlace(
        "torch._dynamo.convert_frame.get_and_maybe_log_recompilation_reasons",
        "the guards that a new call fails, before it is compiled again",
        "dynamo/record_recompiles",
    ),
    PatchedPlace(
        "torch._dynamo.guards.get_verbose_code_parts", "the line of the user behind each guard", "dynamo/record_guards"
    ),
    PatchedPlace(
        "torch._dynamo.guards.guard_manager_testing_hook_fn",
        "the guards of a graph, once they are whole, and what they cost",
        "dynamo/record_guards",
    ),
    PatchedPlace(
        "torch._dynamo.output_graph.OutputGraph.call_user_compiler",
        "the backend of a graph, and the loops that it unrolls",
        "dynamo/backend_of_graph",
    ),
    PatchedPlace(
        "torch._dynamo.output_graph.OutputGraph.cleanup", "which sizes are static or dynamic", "dynamo/record_shapes"
    ),
    PatchedPlace(
        "torch._dynamo.symbolic_convert.*.dispatch_table",
        "how often a loop's body is traced",
        "dynamo/backend_of_graph",
    ),
)
_AOT = (
    PatchedPlace(
        "torch._functorch._aot_autograd.runtime_wrappers._AutogradBackwardCompiler",
        "a backward graph, when the program runs it",
        "inductor/emit",
        since="2.13",
        when="emitting",
    ),
    PatchedPlace(
        "torch._functorch._aot_autograd.runtime_wrappers.AOTDispatchAutograd.post_compile",
        "a backward graph, when the program runs it",
        "inductor/emit",
        until="2.12",
        when="emitting",
    ),
    PatchedPlace(
        "torch._functorch.config.enable_*autograd_cache",
        "nothing: a hit would hide the stages",
        "core/record_caches",
    ),
)
_PASSES = (
    PatchedPlace(
        "torch.fx.passes.graph_transform_observer.*.__enter__", "a graph before a pass", "inductor/record_passes"
    ),
    PatchedPlace(
        "torch.fx.passes.graph_transform_observer.*.__exit__", "the same graph after it", "inductor/record_passes"
    ),
    PatchedPlace(
        "torch._inductor.pattern_matcher.*Entry.apply", "a pattern that a pass replaces", "inductor/record_passes"
    ),
    PatchedPlace(
        "torch._inductor.pattern_matcher.PatternMatcherPass.apply",
        "whether attention was fused",
        "inductor/record_attention",
    ),
    PatchedPlace(
        "torch._inductor.compile_fx.pre_grad_passes",
        "the graph that patterns of attention see",
        "inductor/record_attention",
    ),
    PatchedPlace(
        "torch._inductor.compile_fx.joint_graph_passes", "the same with its backward", "inductor/record_attention"
    ),
)
_SCHEDULER = (
    PatchedPlace(
        "torch._inductor.scheduler.fusion_log", "rounds of fusion, and why a pair was refused", "inductor/record_fusion"
    ),
    PatchedPlace("torch._inductor.scheduler.Scheduler.can_fuse", "the pairs of a round", "inductor/record_fusion"),
    PatchedPlace(
        "torch._inductor.scheduler.Scheduler.fuse_nodes", "the nodes before and after fusion", "inductor/record_fusion"
    ),
    PatchedPlace(
        "torch._inductor.scheduler.Scheduler.fuse_nodes_once", "where a round begins", "inductor/record_fusion"
    ),
    PatchedPlace(
        "torch._inductor.scheduler.Scheduler.get_possible_fusions", "the order of candidates", "inductor/record_fusion"
    ),
    PatchedPlace(
        "torch._inductor.scheduler.Scheduler.score_fusion_key", "the score of a candidate", "inductor/record_fusion"
    ),
    PatchedPlace(
        "torch._inductor.scheduler.Scheduler.speedup_by_fusion",
        "a benchmark of a fused kernel",
        "inductor/record_fusion",
    ),
    PatchedPlace(
        "torch._inductor.scheduler.Scheduler.graph_partition",
        "partitions for CUDA graphs",
        "kernels/record_cuda_graphs",
    ),
    PatchedPlace(
        "torch._inductor.scheduler.Scheduler.codegen_extern_call",
        "a call of a library's kernel",
        "kernels/record_kernels",
    ),
    PatchedPlace(
        "torch._inductor.scheduler.Scheduler.finalize_multi_template_buffers",
        "the template that is taken after fusion",
        "kernels/record_autotuning",
    ),
    PatchedPlace(
        "torch._inductor.scheduler.SchedulerNode.codegen", "the node whose code is written", "kernels/record_kernels"
    ),
)
_CHOICES = (
    PatchedPlace(
        "torch._inductor.select_algorithm.AlgorithmSelectorCache.*",
        "choices and their times",
        "kernels/record_autotuning",
    ),
    PatchedPlace(
        "torch._inductor.select_algorithm._log_autotune_exceptions", "choices that fail", "kernels/record_autotuning"
    ),
    PatchedPlace(
        "torch._inductor.autotune_process.*.*", "choices that fail in another process", "kernels/record_autotuning"
    ),
    PatchedPlace(
        "torch._inductor.ir.MultiTemplateBuffer.*",
        "the choice that the scheduler takes",
        "kernels/record_autotuning",
    ),
    PatchedPlace(
        "torch._inductor.*.use_*_template", "the templates that torch does not try", "kernels/record_autotuning"
    ),
    PatchedPlace("torch._inductor.runtime.benchmarking.*", "each run that torch times", "kernels/record_autotuning"),
)
_KERNELS = (
    PatchedPlace(
        "torch._inductor.*.set_kernel_post_grad_provenance_tracing", "each kernel's ops", "kernels/record_kernels"
    ),
    PatchedPlace(
        "torch._inductor.graph.GraphLowering.codegen", "the buffers and calls of the code", "kernels/record_kernels"
    ),
    PatchedPlace(
        "torch._inductor.codegen.*.call_kernel", "what each argument of a kernel is", "kernels/record_kernels"
    ),
    PatchedPlace(
        "torch._inductor.ir.Loops.__post_init__", "the node that a kernel's body is of", "kernels/record_kernels"
    ),
    PatchedPlace(
        "torch._inductor.loop_body.LightTracer.create_node", "the node behind a traced op", "kernels/record_kernels"
    ),
    PatchedPlace(
        "torch._inductor.utils.IndentedBuffer.writeline", "the node behind a line of code", "kernels/record_kernels"
    ),
    PatchedPlace(
        "torch._inductor.codegen.triton.TritonKernel.codegen_iteration_ranges_entry",
        "lines of code that belong to no node",
        "kernels/record_kernels",
    ),
    PatchedPlace(
        "torch._higher_order_ops.triton_kernel_wrap.identify_accessed_tensors",
        "what a user's kernel writes",
        "kernels/record_user_kernels",
        since="2.13",
    ),
    PatchedPlace(
        "torch._higher_order_ops.triton_kernel_wrap.identify_mutated_tensors",
        "what a user's kernel writes",
        "kernels/record_user_kernels",
        until="2.12",
    ),
    PatchedPlace(
        "torch._higher_order_ops.triton_kernel_wrap.log", "why that is not known", "kernels/record_user_kernels"
    ),
    PatchedPlace(
        "torch._higher_order_ops.triton_kernel_wrap.TritonHOPifier.call_triton_kernel",
        "the user's kernel that is called",
        "kernels/record_user_kernels",
    ),
    PatchedPlace(
        "torch._higher_order_ops.triton_kernel_wrap.TracingTritonHOPifier.store_non_graphable_args",
        "the operator that calls a user's kernel",
        "kernels/record_user_kernels",
    ),
    PatchedPlace(
        "torch._inductor.ir.UserDefinedTritonKernel.*", "how such a call is lowered", "kernels/record_user_kernels"
    ),
    PatchedPlace(
        "torch._inductor.codegen.wrapper.PythonWrapperCodegen.define_user_defined_triton_kernel",
        "the name of a user's kernel in the code",
        "kernels/record_user_kernels",
    ),
    PatchedPlace(
        "torch._inductor.output_code.CompiledFxGraph.__init__",
        "torch's no to a CUDA graph",
        "kernels/record_cuda_graphs",
    ),
    PatchedPlace(
        "torch._inductor.compile_fx.cudagraphify*", "graph parts that become CUDA graphs", "kernels/record_cuda_graphs"
    ),
    PatchedPlace(
        "torch._inductor.compile_fx.log_cudagraph_skip_and_bump_counter", "skips", "kernels/record_cuda_graphs"
    ),
    PatchedPlace(
        "torch._inductor.cudagraph_trees.*",
        "warm-ups, recordings and skips of CUDA graphs",
        "kernels/record_cuda_graphs",
        when="build",
    ),
)
_EMITTING = (
    PatchedPlace(
        "torch._inductor.compile_fx.compile_fx", "a graph that enters Inductor", "inductor/emit", when="emitting"
    ),
    # In every capture: with `--build`, the recorder of built kernels wraps it, too.
    PatchedPlace("torch._inductor.graph.GraphLowering.compile_to_module", "nothing: no code is built", "inductor/emit"),
    PatchedPlace(
        "torch._inductor.config.compile_threads", "nothing: no worker starts", "inductor/emit", when="emitting"
    ),
    PatchedPlace(
        "torch._inductor.cpu_vec_isa.VecISA.check_build", "nothing: no build", "inductor/emit", when="emitting"
    ),
    PatchedPlace(
        "torch._inductor.config.fx_graph_*cache", "nothing: a hit would hide the stages", "core/record_caches"
    ),
)
_BUILT = (
    PatchedPlace(
        "torch._inductor.async_compile.AsyncCompile.*",
        "kernels, built here",
        "kernels/record_built_kernels",
        when="build",
    ),
    PatchedPlace(
        "torch._inductor.runtime.triton_heuristics.CachingAutotuner.*",
        "configurations of a kernel, and its launches",
        "kernels/record_built_kernels",
        when="build",
    ),
    PatchedPlace(
        "triton.knobs.compilation_knobs.listener",
        "Triton's time by stage",
        "kernels/record_built_kernels",
        when="build",
    ),
    PatchedPlace(
        "torch._inductor.codecache.*",
        "nothing: kernels and times of other runs",
        "core/record_caches",
        when="build",
    ),
)
HOOKS = (*_DYNAMO, *_AOT, *_PASSES, *_SCHEDULER, *_CHOICES, *_KERNELS, *_EMITTING, *_BUILT)
"""In the order of the stages."""


def missing_of(places: Collection[str], version: str, *, build: bool) -> list[PatchedPlace]:
    """Return the hooks that a capture with this torch should have had, and that none of the patched places is."""
    release = release_of(version)
    # A capture either emits or builds; the hooks of the other kind are not missing.
    left = "emitting" if build else "build"
    # A torch without a number gets all rows: a row too many is a note, a row too few hides what is missing.
    expected = [each for each in HOOKS if each.when != left and (release is None or each.is_of(release))]
    return [each for each in expected if not any(hook_at(place) is each for place in places)]


def hook_at(place: str) -> PatchedPlace | None:
    """Return the hook of a patched place, the one with the longest name; None if no row has it."""
    found = [each for each in HOOKS if each.is_at(place)]
    # A row with `*` also covers places that have a row of their own, which is longer.
    return max(found, key=lambda each: len(each.place), default=None)
