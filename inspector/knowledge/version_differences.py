"""Differences between torch releases that change what ctrace can show."""

from typing import NamedTuple

from ctrace.inspector.knowledge.releases import release_of


class VersionDifference(NamedTuple):
    """One difference between releases of torch."""

    name: str
    since: tuple[int, int] | None
    """The first release that has it; None: all releases before `until`."""
    until: tuple[int, int] | None
    """The first later release without it; None: the newest release still has it."""
    what: str
    """What torch does, as a sentence."""
    effect: str
    """What follows for the user of ctrace, as a sentence."""
    source: str
    """File and name in torch."""
    changes_counts: bool = False
    """Whether the same model can have other graphs, breaks or recompilations because of it."""

    def holds(self, version: str) -> bool:
        """Whether a version of torch has it; an unknown version counts as the newest."""
        release = release_of(version)
        if release is None:
            # A version that is no number is most likely a build of the newest source.
            return self.until is None
        return (self.since is None or release >= self.since) and (self.until is None or release < self.until)

    @property
    def range(self) -> str:
        """The releases that have it, in words."""
        since = ""
        if self.since:
            since = f"{self.since[0]}.{self.since[1]}"
        until = ""
        if self.until:
            until = f"{self.until[0]}.{self.until[1]}"
        if since and until:
            return f"{since} to before {until}"
        if until:
            return f"before {until}"
        return f"from {since}"


BREAK_COLUMNS = VersionDifference(
    "no columns of breaks",
    since=None,
    until=(2, 13),
    what="A graph break is logged with its line, but not with its columns.",
    effect="If a line has several calls, ctrace finds the one that broke by the function name in torch's message.",
    source="_dynamo/symbolic_convert.py, log_graph_break",
)
OVERLAP_SCORE = VersionDifference(
    "no overlap in fusion scores",
    since=None,
    until=(2, 13),
    what="Inductor does not count the bytes of a buffer that two nodes read in different ways.",
    effect="`ctrace fusion` shows 0 for these bytes.",
    source="_inductor/choices.py, FusionScore",
)
FLOATS_IN_EXPRESSIONS = VersionDifference(
    "floats in expressions",
    since=None,
    until=(2, 13),
    what="AOT backends specialize on a dynamic float that a tensor op uses in an expression, such as `x * (1 / s)`.",
    effect="`ctrace recompiles` shows a recompilation for each new value; from 2.13 on, one graph takes all of them.",
    source="fx/passes/_tensorify_python_scalars.py, tensorify_python_scalars",  # its tensorified_symbols
    changes_counts=True,
)
FULLGRAPH_WARNS = VersionDifference(
    "fullgraph only warns",
    since=None,
    until=(2, 13),
    what="`fullgraph=True` only warns if Dynamo skips the function, under a dispatch mode for example.",
    effect="`ctrace explain` reports such a function as not compiled; from 2.13 on, the program raises there.",
    source="_dynamo/eval_frame.py, compile_wrapper",
)
SOURCES_BY_DIMENSION = VersionDifference(
    "dynamic sources by dimension",
    since=(2, 13),
    until=None,
    what="`TORCH_COMPILE_DYNAMIC_SOURCES` takes a dimension, `L['x']:0`; before, a tensor as a whole.",
    effect="`ctrace shapes` offers the setting in the form that the torch of the run takes.",
    source="_dynamo/variables/builder.py, is_dynamic_source",
)
DEFERRED_CONSTANTS = VersionDifference(
    "deferred constants",
    since=(2, 14),
    until=None,
    what="Arithmetic on an int, float or bool is traced without a guard; the guard is made where the result is used.",
    effect="ctrace shows the cause of a recompilation at the line that first computes with the value, as before.",
    source="_dynamo/variables/lazy.py, ComputedLazyConstantVariable",
    changes_counts=True,
)
DECLARED_SHAPES = VersionDifference(
    "declared shapes",
    since=(2, 14),
    until=None,
    what="`torch.compile(dynamic_shapes=...)` declares which sizes are dynamic; the others are static and stay so.",
    effect="`ctrace shapes` says which sizes are declared, and offers no mark for them.",
    source="__init__.py, compile",
)
PRECOMPILE = VersionDifference(
    "precompile",
    since=(2, 14),
    until=None,
    what="`torch.compiler.precompile` compiles a function ahead of time, without Dynamo.",
    effect="torch builds such a graph as usual; ctrace does not show it, and says so under Problems.",
    source="_precompile.py",
)
NONSTRICT_TRACE = VersionDifference(
    "nonstrict_trace",
    since=(2, 14),
    until=None,
    what="`torch.compiler.nonstrict_trace` marks a function that AOT traces instead of Dynamo.",
    effect="`ctrace graphs` shows the call in Dynamo's graph, and the function's ops from the joint graph on.",
    source="compiler/__init__.py, nonstrict_trace",
)
ONE_RANK = VersionDifference(
    "one compilation for all ranks",
    since=(2, 14),
    until=None,
    what="With `torch.compiler.config.compile_on_one_rank`, a graph finds out devices and process groups when it runs.",
    effect="`ctrace ranks` compares the ranks as before; a rank that the user's code makes a constant still differs.",
    source="compiler/config.py, compile_on_one_rank",
)
LAZY_COPY_GUARDS = VersionDifference(
    "guards on lazy copies",
    since=(2, 14),
    until=None,
    what="`COW_TENSOR_MATCH` is a new kind of guard: whether a tensor shares its memory until one is written.",
    effect="`ctrace guards` names it, though torch prints LAMBDA_GUARD; `ctrace recompiles` says what it checked.",
    source="_dynamo/guards.py, GuardBuilder",
)
HELPER_GUARDS = VersionDifference(
    "guards on reversed lists and streams",
    since=(2, 15),
    until=None,
    what="`LIST_REVERSEITERATOR_LEN` and `CURRENT_STREAM_MATCH` are new kinds of guards.",
    effect="`ctrace guards` names them, though torch prints LAMBDA_GUARD; `ctrace recompiles` says what they checked.",
    source="_dynamo/guards.py, GuardBuilder",
)
GATED_CLOCK = VersionDifference(
    "clock only under a profiler",
    since=(2, 15),
    until=None,
    what="The code that Dynamo writes calls the clock for loading inputs only while a profiler runs.",
    effect="`ctrace bytecode` shows the test and the call as one piece, not as branches of your code.",
    source="_dynamo/codegen.py, make_call_generated_code",
)
CUDA_GRAPH_LIMIT = VersionDifference(
    "limits on recording CUDA graphs again",
    since=(2, 15),
    until=None,
    what="`cudagraph_managed_input_rerecord_limit` and `cudagraph_dynamic_shape_rerecord_limit` limit recordings.",
    effect="`ctrace cudagraphs` shows them where a CUDA graph was recorded more than once.",
    source="_inductor/cudagraph_trees.py",
)
STATIC_SOURCES = VersionDifference(
    "static sources",
    since=(2, 15),
    until=None,
    what="`TORCH_COMPILE_STATIC_SOURCES` names sizes and integers that stay static, even with `dynamic=True`.",
    effect="`ctrace shapes` and `ctrace recompiles` say which the list keeps static, and offer no mark for them.",
    source="_dynamo/variables/builder.py, is_static_source",
)
DIFFERENCES = (
    BREAK_COLUMNS,
    OVERLAP_SCORE,
    FLOATS_IN_EXPRESSIONS,
    FULLGRAPH_WARNS,
    SOURCES_BY_DIMENSION,
    DEFERRED_CONSTANTS,
    PRECOMPILE,
    DECLARED_SHAPES,
    NONSTRICT_TRACE,
    ONE_RANK,
    LAZY_COPY_GUARDS,
    HELPER_GUARDS,
    GATED_CLOCK,
    CUDA_GRAPH_LIMIT,
    STATIC_SOURCES,
)
"""All differences, in order of release."""


def differences_of(version: str) -> tuple[VersionDifference, ...]:
    """Return the differences that a version of torch has."""
    return tuple(each for each in DIFFERENCES if each.holds(version))


def changed_counts(one: str, other: str) -> tuple[VersionDifference, ...]:
    """Return the differences that hold for one of two versions of torch, and that can change a model's counts."""
    return tuple(each for each in DIFFERENCES if each.changes_counts and each.holds(one) != each.holds(other))
