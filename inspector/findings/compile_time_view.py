"""Answers about compile time: where it goes, by phase, by graph and as a tree; what caches returned, and why
(`compile_document`).

Cache keys are compared by their components (`nearest`), which a large log keeps until a view needs them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from ctrace.inspector.facts.compile_time import (
    CacheLookup,
    CompileTime,
    EarlierKey,
    KeyDifference,
    KeyPart,
    LookupOutcome,
    Span,
    TorchCachesUsed,
)
from ctrace.inspector.facts.session import RunDocument, Session, Target
from ctrace.inspector.findings.compile_time_fold import lanes_of
from ctrace.inspector.grouping import grouped
from ctrace.inspector.knowledge.counting import count, named
from ctrace.inspector.log.decode_compile_time import components_in

OTHER = "other"
PHASES = {
    "dynamo": "Dynamo traces Python",
    "guards": "Dynamo builds guards",
    "caches": "computing keys, and loading cached code",
    "aot": "AOTAutograd traces and partitions",
    "passes": "passes over graphs",
    "lowering": "Inductor lowers ops",
    "scheduling": "Inductor fuses and orders nodes",
    "codegen": "Inductor writes code",
    "build": "compilers build kernels, and built ones load",
    "autotune": "timing candidates",
    OTHER: "steps that torch does not time one by one",
}
"""The phases in their order, with what each does."""
_STEPS = {
    "dynamo": "dynamo",
    "entire_frame_compile": "dynamo",
    "bytecode_tracing": "dynamo",
    "insert_deferred_runtime_asserts": "dynamo",
    "fullgraph_capture": "dynamo",
    "build_guards": "guards",
    "guard_collective": "guards",
    "inductor_codecache_torch_key": "caches",
    "CacheBase.get_system.triton_key": "caches",
    "AOTAutogradCache.inductor_load": "caches",
    "TritonBundler.read_and_emit": "caches",
    "TritonBundler.load_cached_static_autotuners": "caches",
    "create_aot_dispatcher_function": "aot",
    "aot_collect_metadata": "aot",
    "aot_trace_joint_graph": "aot",
    "min_cut_rematerialization_partition": "aot",
    "_recursive_pre_grad_passes": "passes",
    "_recursive_joint_graph_passes": "passes",
    "_recursive_post_grad_passes": "passes",
    "additional_fake_tensor_prop": "passes",
    "GraphLowering.run": "lowering",
    "Scheduler.__init__": "scheduling",
    "Scheduler.fused_nodes": "scheduling",
    "Scheduler.create_combo_kernel_nodes": "scheduling",
    "Scheduler.codegen": "codegen",
    "GraphLowering.codegen": "codegen",
    "GraphLowering.codegen_subgraph": "codegen",
    "PythonWrapperCodegen.generate": "codegen",
    "CppWrapperCpu.generate": "codegen",
    "CppWrapperGpu.generate": "codegen",
    "generate_kernel_code_from_nodes": "codegen",
    "compile_file": "build",
    "async_compile.precompile": "build",
    "async_compile.wait": "build",
    "PyCodeCache.load_by_key_path": "build",
    "AotCodeCompiler.compile": "build",
    "reload_kernel_in_parent": "build",
    "StaticAutotunerFuture.warm_precompile": "build",
    "CachingAutotuner.slow_precompile_config": "build",
    "CachingAutotuner.benchmark_all_configs": "autotune",
    "CachingAutotuner.coordinate_descent_tuning": "autotune",
    "CachingAutotuner.combo_sequential_autotune": "autotune",
    "benchmark_fused_nodes": "autotune",
    "benchmark_codegened_module": "autotune",
}
"""Steps whose phase differs from that of the step around them (2.11 to 2.15, `dynamo_timed`)."""
_BEGINNINGS = {"compile_attempt_": "dynamo", "bytecode_hooks_": OTHER, "pass.": "passes"}
_ENDINGS = {"_template_autotuning": "autotune", "_template_precompiling": "autotune"}
_UNNAMED = frozenset(("backend_compile", "gc", "inductor_compile", "fx_codegen_and_compile", "entire_backward_compile"))
"""Steps that contain other steps; torch does not name the work between those."""


def phase_of(name: str, around: str = OTHER) -> str:
    """Return the phase of a step, by default that of the step around it."""
    if name in _STEPS:
        return _STEPS[name]
    if name in _UNNAMED or name.startswith("compile_fx.") or name.startswith("pgo."):
        return OTHER
    for beginning, phase in _BEGINNINGS.items():
        if name.startswith(beginning):
            return phase
    return next((phase for ending, phase in _ENDINGS.items() if name.endswith(ending)), around)


class StepTime(Struct, frozen=True):
    """The time of a step without its children."""

    phase: str
    graph: str | None
    seconds: float


def pieces(found: CompileTime) -> Iterator[StepTime]:
    """Split the compile time so that each second belongs to one step."""
    for lane in lanes_of(found):
        if not lane.is_parallel:
            for span in lane.spans:
                yield from _pieces(span, OTHER)


def _pieces(span: Span, around: str) -> Iterator[StepTime]:
    phase = phase_of(span.name, around)
    yield StepTime(phase, span.graph, span.seconds - sum(each.seconds for each in span.children))
    for child in span.children:
        yield from _pieces(child, phase)


def seconds(found: CompileTime) -> float | None:
    """Return how long the program waited for compiling; None: the log has no steps."""
    roots = [span for lane in lanes_of(found) if not lane.is_parallel for span in lane.spans]
    if roots:
        return sum(span.seconds for span in roots)
    return None


def phases(found: CompileTime) -> dict[str, float]:
    """Return the seconds of each phase; they add up to all of the compile time."""
    totals: Counter[str] = Counter()
    for piece in pieces(found):
        # typeshed takes the values of a Counter for ints; seconds add up as well.
        totals[piece.phase] += piece.seconds  # type: ignore[assignment]
    return {name: float(totals[name]) for name in PHASES if totals[name]}


class GraphTime(Struct, frozen=True):
    """The compile time of one compilation; `id` None: what belongs to none."""

    JSON: ClassVar[str] = "id function file|relative line seconds phases"
    id: str | None
    function: str
    file: str | None
    line: int | None
    seconds: float
    phases: dict[str, float]


def graphs(session: Session) -> tuple[GraphTime, ...]:
    """Return the compile time of each compilation, the longest first; they add up to all of it."""
    totals: dict[str | None, Counter[str]] = {}
    for piece in pieces(session.compile_time):
        totals.setdefault(piece.graph, Counter())[piece.phase] += piece.seconds  # type: ignore[assignment]
    known = {each.id: each for each in session.compilations}
    found = []
    for id_, parts in totals.items():
        phases = {name: float(parts[name]) for name in PHASES if parts[name]}
        time = GraphTime(id_, "", None, None, float(sum(parts.values())), phases)
        place = known.get(id_ or "")
        if place is not None:
            time = replace(time, function=place.function, file=place.file, line=place.line)
        found.append(time)
    return tuple(sorted(found, key=lambda each: -each.seconds))


class StepSpans(Struct, frozen=True):
    """All spans of one name within the same step, together."""

    JSON: ClassVar[str] = "name phase seconds times"
    name: str
    phase: str
    seconds: float
    times: int
    children: tuple["StepSpans", ...]


def tree(found: CompileTime, graph: str | None = None) -> tuple[StepSpans, ...]:
    """Return the steps that the program waited for, the longest first; spans of one name are one step."""
    spans = (span for lane in lanes_of(found) if not lane.is_parallel for span in lane.spans)
    return _steps((span for span in spans if graph in (None, span.graph)), OTHER)


def _steps(spans: Iterable[Span], around: str) -> tuple[StepSpans, ...]:
    by_name = grouped(spans, lambda span: span.name)
    found = []
    for name, same in by_name.items():
        phase = phase_of(name, around)
        children = _steps((child for span in same for child in span.children), phase)
        found.append(StepSpans(name, phase, sum(span.seconds for span in same), len(same), children))
    return tuple(sorted(found, key=lambda each: -each.seconds))


class ListedStep(Struct, frozen=True):
    """A step of the tree, as a row of a list."""

    JSON: ClassVar[str] = "name=step.name phase=step.phase depth seconds=step.seconds own_seconds=own times=step.times"
    step: StepSpans
    depth: int
    """How many steps are around it."""
    own: float
    """Its seconds without those of the steps in it."""


def listed(found: CompileTime) -> tuple[ListedStep, ...]:
    """Return the tree of steps as a list, each after the step around it."""
    return tuple(_listed(tree(found), 0))


def _listed(steps: Iterable[StepSpans], depth: int) -> Iterator[ListedStep]:
    for step in steps:
        yield ListedStep(step, depth, step.seconds - sum(each.seconds for each in step.children))
        yield from _listed(step.children, depth + 1)


def parallel(found: CompileTime) -> tuple[StepSpans, ...]:
    """Return the steps of worker threads and processes; their time does not add to the compile time."""
    return _steps((span for lane in lanes_of(found) if lane.is_parallel for span in lane.spans), OTHER)


CACHES = {
    "precompile": "Dynamo's precompiled packages",
    "aot_autograd": "AOTAutograd cache",
    "fx_graph": "FX graph cache",
    "triton": "Triton cache",
    "autotune": "autotune cache",
}
"""The caches in the order in which torch uses them."""


_HITS = {
    "triton": "the kernel was compiled before this run",
    "autotune": "an earlier run has found the best configuration",
}


class CacheAnswer(Struct, frozen=True):
    """A cache look-up, and the reason for its outcome."""

    JSON: ClassVar[str] = (
        "cache=lookup.cache graph=lookup.graph stage=lookup.stage kernel=lookup.kernel "
        "outcome=lookup.outcome detail=lookup.detail|null_if_empty key=lookup.key why against=earlier.run "
        "differs=earlier.differs stored=lookup.is_stored not_stored=lookup.not_stored|null_if_empty"
    )
    lookup: CacheLookup
    why: str
    earlier: EarlierKey | None = None

    @property
    def differs(self) -> tuple[KeyDifference, ...]:
        """The components in which the key differs from the earlier one."""
        if self.earlier is None:
            return ()
        return self.earlier.differs


def answers(found: CompileTime, graph: str | None = None) -> tuple[CacheAnswer, ...]:
    """Return each cache look-up with its reason, in torch's order."""
    earlier = {(each.cache, each.key): each for each in found.earlier}
    lookups = (each for each in found.lookups if graph in (None, each.graph))
    return tuple(_answer(found, each, earlier.get((each.cache, each.key or ""))) for each in lookups)


def _answer(found: CompileTime, lookup: CacheLookup, earlier: EarlierKey | None) -> CacheAnswer:
    match lookup.outcome:
        case LookupOutcome.HIT:
            return CacheAnswer(lookup, _HITS.get(lookup.cache, "an entry has this key"))
        case LookupOutcome.BYPASS:
            return CacheAnswer(lookup, lookup.reason or "torch gave no reason")
    return CacheAnswer(lookup, _why_missed(found, lookup, earlier), earlier)


def _why_missed(found: CompileTime, lookup: CacheLookup, earlier: EarlierKey | None) -> str:
    if lookup.reason:
        return lookup.reason
    if lookup.cache == "triton":
        return "no earlier compilation of this kernel: its source, configuration, GPU or compiler is new here"
    if lookup.cache == "precompile":
        return "no package was saved for this function"
    if lookup.cache == "autotune":
        return "no earlier run has timed the configurations of this kernel"
    if lookup.detail == "guard_miss":
        return "an entry has this key, but its guards on sizes do not hold"
    if earlier is None:
        if found.use.kind in ("private", "user"):
            return "no earlier run of this model has recorded a key for this cache"
        return "no entry has this key; there is no earlier run to compare with"
    # The folder may have been emptied since: an equal key proves only that nothing has changed of what the key covers.
    if earlier.earlier == lookup.key:
        return f"the same key as in run {earlier.run}, but the cache has no entry for it"
    if not earlier.differs:
        return f"a different key than in run {earlier.run}; torch recorded no components to compare"
    names = [each.component for each in earlier.differs]
    differ = named(len(names), "differs", "differ")
    return f"{count(len(names), 'component')} of the key {differ} from run {earlier.run}: {_first_three(names)}"


def _first_three(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    if len(names) > 3:
        return f"{shown} and {len(names) - 3} more"
    return shown


def outcomes(found: CompileTime) -> dict[str, dict[str, int]]:
    """Count the outcomes of each cache that torch used."""
    totals: dict[str, Counter[str]] = {}
    for lookup in found.lookups:
        totals.setdefault(lookup.cache, Counter())[str(lookup.outcome)] += 1
    return {name: dict(totals[name]) for name in CACHES if name in totals}


class CompileAnswer(Struct, frozen=True):
    """Where compile time goes, and what caches returned."""

    JSON: ClassVar[str] = "seconds phases graphs steps parallel cache_use=use caches"
    seconds: float | None
    """None: the log times no step."""
    phases: dict[str, float]
    graphs: tuple[GraphTime, ...]
    tree: tuple[StepSpans, ...]
    steps: tuple[ListedStep, ...]
    parallel: tuple[StepSpans, ...]
    use: TorchCachesUsed
    caches: tuple[CacheAnswer, ...]
    outcomes: dict[str, dict[str, int]]
    """How many look-ups of each cache had each outcome."""
    is_cut: bool
    """Whether the log ends before compiling does."""


class CompileDocument(RunDocument, frozen=True, kw_only=True):
    """What `ctrace time --compile` answers."""

    JSON: ClassVar[str] = "schema verdict=run.verdict target compile problems=run.problems"
    target: Target
    compile: CompileAnswer


def compile_document(session: Session) -> CompileDocument:
    """Answer for a run."""
    found = session.compile_time
    answer = CompileAnswer(
        seconds=seconds(found),
        phases=phases(found),
        graphs=graphs(session),
        tree=tree(found),
        steps=listed(found),
        parallel=parallel(found),
        use=found.use,
        caches=answers(found),
        outcomes=outcomes(found),
        is_cut=any(span.is_cut for lane in lanes_of(found) for span in lane.spans),
    )
    return CompileDocument(run=session.run, target=session.target, compile=answer)


# Two long texts are shown from shortly before their first difference, so that its place can be recognized.
_CONTEXT = 30
# Chosen: what differs and _CONTEXT letters before it fit a line of 100 columns with its label.
_SHOWN = 90
_BEYOND = ("a different value, with the same text in torch's log", "a different value")


class KnownKey(Struct, frozen=True):
    """A key of an earlier run; the cache still holds it, unless the cache was emptied."""

    run: str
    cache: str
    graph: str | None
    stage: str | None
    key: str
    components: tuple[KeyPart, ...]


def nearest(lookup: CacheLookup, known: Sequence[KnownKey]) -> EarlierKey | None:
    """Return how a missed key differs from the most similar earlier key; None: there is no earlier key.

    Keys of the same graph part come first, then those with the fewest differences, then the newest.
    """
    if lookup.key is None:
        return None
    same = [each for each in known if each.cache == lookup.cache and each.stage == lookup.stage]
    # A graph that is compiled for the first time has no key of the same number: any key of that cache is the best there
    # is.
    of_graph = [each for each in same if each.graph == lookup.graph] or same
    if not of_graph:
        return None
    # Runs come oldest first, and `min` keeps the first of equals: reversed, that is the newest.
    best = min(reversed(of_graph), key=lambda each: (each.key != lookup.key, len(_changed(each, lookup))))
    return EarlierKey(lookup.cache, lookup.key, best.run, best.key, differences(best.components, components_of(lookup)))


def _changed(known: KnownKey, lookup: CacheLookup) -> list[str]:
    before, after = _by_name(known.components), _by_name(components_of(lookup))
    names = dict.fromkeys((*after, *before))
    return [name for name in names if _digest(before.get(name)) != _digest(after.get(name))]


def _digest(part: KeyPart | None) -> str | None:
    if part is None:
        return None
    return part.digest


def _by_name(components: Iterable[KeyPart]) -> dict[str, KeyPart]:
    return {each.name: each for each in components}


def differences(before: Iterable[KeyPart], after: Iterable[KeyPart]) -> tuple[KeyDifference, ...]:
    """Return the components that differ between two keys, with the texts from the first difference on."""
    old, new = _by_name(before), _by_name(after)
    found = []
    # In torch's order, with what only the earlier key has at the end.
    for name in dict.fromkeys((*new, *old)):
        was, now = old.get(name), new.get(name)
        if _digest(was) != _digest(now):
            before_text = None
            if was is not None:
                before_text = was.text
            after_text = None
            if now is not None:
                after_text = now.text
            apart = _apart(before_text, after_text)
            if before_text == after_text:  # they differ behind what torch recorded of them
                apart = _BEYOND
            found.append(KeyDifference(name, *apart))
    return tuple(found)


def _apart(was: str | None, now: str | None) -> tuple[str | None, str | None]:
    """Cut two texts to the first line that differs, from the position where the two differ."""
    if was is None or now is None:
        # A component that only one key has is shown from its beginning.
        return _cut(was, 0), _cut(now, 0)
    lines = zip_longest(was.splitlines(), now.splitlines(), fillvalue="")
    # Without a line that differs, only line ends do; then the texts are compared whole.
    old, new = next(((one.strip(), two.strip()) for one, two in lines if one != two), (was, now))
    pairs = enumerate(zip(old, new, strict=False))
    same = next((at for at, (one, two) in pairs if one != two), min(len(old), len(new)))
    begin = 0
    if max(len(old), len(new)) > _SHOWN:
        begin = max(same - _CONTEXT, 0)
    return _cut(old, begin), _cut(new, begin)


def _cut(text: str | None, begin: int) -> str | None:
    if text is None:
        return None
    piece = " ".join(text[begin : begin + _SHOWN].split())
    if begin:
        piece = f"… {piece}"
    if len(text) > begin + _SHOWN:
        return f"{piece} …"
    return piece


def components_of(lookup: CacheLookup) -> tuple[KeyPart, ...]:
    """Return the components of a look-up's key.

    Raises:
        RunError: they are in a log that changed since it was read.
    """
    if lookup.components or lookup.record is None:
        return lookup.components
    return components_in(lookup.record.read())
