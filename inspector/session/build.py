"""Build a Session from the events of a log, without side effects and without torch.

`build` reads the events, `assemble` calls the fold of each subject for those that are already collected.
"""

from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from ctrace.inspector.facts.bytecode_facts import GraphMade
from ctrace.inspector.facts.cluster_facts import ClusterFacts
from ctrace.inspector.facts.compile_time import Metrics
from ctrace.inspector.facts.findings import CacheUse, Limit, Owner, Recompile
from ctrace.inspector.facts.graph_facts import Graphs, GraphStage, SymbolMeant, Unrolled
from ctrace.inspector.facts.guard_facts import GuardText
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.outcome import CutOff
from ctrace.inspector.facts.scenario_facts import Outcome, ScenarioKind
from ctrace.inspector.facts.session import (
    Bytecode,
    Compilation,
    Environment,
    Failure,
    Graph,
    PhaseTimes,
    Problem,
    Scenario,
    Session,
    Target,
    TorchCode,
    TorchRecord,
)
from ctrace.inspector.facts.stored import Stored
from ctrace.inspector.findings.autotuning_fold import tuned_kernels_of, tuned_of
from ctrace.inspector.findings.breaks.break_fold import breaks_of, reports_of
from ctrace.inspector.findings.breaks.costs import with_costs
from ctrace.inspector.findings.breaks.coverage import functions_of, total, with_coverage
from ctrace.inspector.findings.breaks.skip_fold import skips_of
from ctrace.inspector.findings.compile_time_fold import compile_time_of, miscounted_lookups
from ctrace.inspector.findings.cuda_graph_fold import cuda_graphs_of
from ctrace.inspector.findings.functions import Codes, place_of
from ctrace.inspector.findings.fusion_fold import fusions_of
from ctrace.inspector.findings.graphs.checked_passes import attention_of, passes_of
from ctrace.inspector.findings.kernels.kernel_fold import built_of, generated_of, timed_of, unbalanced, user_kernels_of
from ctrace.inspector.findings.shape_fold import shapes_of
from ctrace.inspector.findings.shape_symbols import Symbols
from ctrace.inspector.findings.silent_dangers import blamed, dangers_of
from ctrace.inspector.knowledge.counting import named
from ctrace.inspector.knowledge.releases import is_untried
from ctrace.inspector.log.collected_log import MOST_PROBLEMS, CollectedLog
from ctrace.inspector.log.reader import Broken, LogEntry
from ctrace.inspector.session.crosschecks import disagreements, missing
from ctrace.inspector.session.log_end import cut_off, exited
from ctrace.inspector.source.owners import owner_of
from ctrace.inspector.source.source_names import user_name

_DEFAULT_LIMIT = 8
"""The default of torch._dynamo.config.recompile_limit, for logs that do not have it (2.11 to 2.13)."""


def build(
    entries: Iterable[LogEntry | Broken],
    target: Target | None = None,
    failure: Failure | None = None,
    seconds: float | None = None,
    unfinished: str | None = None,
) -> Session:
    """Build the Session of a log; `failure` is a failure that the log cannot show, such as a crash.

    Args:
        unfinished: What shows that the run did not finish; empty if the run finished, None if only the log is known.

    Raises:
        RunError: a newer ctrace wrote the log.
    """
    raw = CollectedLog()
    for entry in entries:
        raw.add(entry)
    return assemble(raw, target or Target(), failure, seconds, unfinished)


def assemble(
    raw: CollectedLog, target: Target, failure: Failure | None, seconds: float | None, unfinished: str | None = None
) -> Session:
    """Build a Session from the collected events."""
    # What the program itself reported says most; a failure in a fork that generates code only matters without one.
    failure = raw.failure or failure or raw.codegen_failure
    graphs = _graphs(raw)
    reports = reports_of(raw)
    codes = Codes(raw)
    breaks = breaks_of(raw, reports)
    breaks, skips = with_costs(raw, codes, reports, breaks, skips_of(raw, codes, reports, breaks, failure))
    scenarios = with_coverage(raw, _scenarios(raw))
    fusions = fusions_of(raw.fusions, raw.prefixes)
    generated = generated_of(raw, fusions)
    unequal = (*generated.problems, *unbalanced(generated.kernels, fusions))
    cuts = tuple(cut_off(raw, failure, unfinished, tuple(missing(raw, reports))))
    compile_time = compile_time_of(raw)
    unequal = (*unequal, *disagreements(raw, reports), *miscounted_lookups(compile_time))
    return Session(
        environment=_environment(raw),
        target=target,
        scenarios=scenarios,
        compilations=_compilations(raw),
        graphs=graphs,
        unrolled=_unrolled(raw, graphs),
        functions=functions_of(raw, codes, graphs),
        coverage=total([each.coverage for each in scenarios if each.kind is not ScenarioKind.PROVOKED]),
        breaks=breaks,
        skips=skips,
        recompiles=_recompiles(raw),
        dangers=blamed(dangers_of(raw), raw.accuracy),
        limit=_limit(raw),
        shapes=shapes_of(raw),
        passes=passes_of(raw),
        attention=attention_of(raw),
        fusions=fusions,
        kernels=generated.kernels,
        code=generated.code,
        kernel_calls=tuple(raw.kernel_calls),
        user_kernels=user_kernels_of(raw),
        cuda_graphs=cuda_graphs_of(raw),
        tuned=tuned_of(raw),
        tuned_kernels=tuned_kernels_of(raw),
        built=built_of(raw.builds),
        refused=tuple(dict.fromkeys(raw.refused)),
        timed=timed_of(raw.builds, {made.name for made in raw.kernels}),
        gpu=raw.gpu,
        undecided=tuple(raw.undecided),
        device_questions=tuple(raw.device_questions),
        time=_time(raw, seconds),
        compile_time=compile_time,
        speed=raw.speed,
        accuracy=raw.accuracy,
        memory=raw.memory,
        failure=failure,
        cut_off=cuts,
        exited=exited(raw, failure, unfinished),
        made_of=dict(raw.made_of),
        asked=raw.asked,
        trials=tuple(raw.trials),
        parts=raw.parts,
        model=raw.model,
        cluster=_cluster(raw),
        assumed=tuple(dict.fromkeys(raw.assumed)),
        stopped=raw.stopped[0] if raw.stopped else None,
        calls=raw.calls.total(),
        problems=(*_cut_problems(cuts), *_changed(raw), *raw.problems, *_problems(raw, unequal, cuts)),
        unknown=dict(raw.unknown),
        not_shown=dict(raw.ignored),
        records=tuple(TorchRecord(each.name, each.id, each.line, each.text) for each in raw.recorded),
        metrics=tuple(_metrics(raw)),
        torch_code=tuple(_torch_code(raw)),
        listings=dict(raw.listings),
        guards=_guards(raw),
        printed=_printed(raw),
        inductor_guards=dict(raw.inductor_guards),
        late_guards=dict(raw.late_guards),
        codes={compile_id: seen.codes for compile_id, seen in raw.bytecode.items() if seen.codes is not None},
    )


def _cluster(raw: CollectedLog) -> ClusterFacts | None:
    if raw.rank is None:
        return None
    cut = raw.communicated_cut
    return ClusterFacts(
        rank=raw.rank.rank,
        world=raw.rank.world,
        meshes=tuple(raw.meshes),
        uneven=tuple(raw.uneven),
        calls=tuple(raw.communicated),
        cut_after=None if cut is None else cut.most,
        groups=tuple(raw.groups),
        stages=tuple(raw.stages),
        mesh=raw.rank.mesh,
    )


def _recompiles(raw: CollectedLog) -> tuple[Recompile, ...]:
    """List the recompilations; what explains them is imported only for a code object with several compilations."""
    if len({each.partition("/")[0] for each in raw.seen}) == len(raw.seen):
        return ()
    from ctrace.inspector.findings.recompiles.recompile_fold import recompiles_of

    return recompiles_of(raw)


def _environment(raw: CollectedLog) -> Environment:
    backends = [made.backend for all_made in raw.graphs.values() for made in all_made if isinstance(made, GraphMade)]
    return Environment(
        **raw.environment,
        backend=", ".join(dict.fromkeys(backends)),
        prefixes=dict(raw.prefixes),
        switched_off=raw.counted.switched_off if raw.counted else None,
        settings=dict(raw.settings),
    )


def _scenarios(raw: CollectedLog) -> tuple[Scenario, ...]:
    """List the scenarios: finished ones, then one that the end of the run cut off, then those that did not run."""
    done: dict[str, Scenario] = {}
    for each in raw.scenarios:
        done.setdefault(each.name, each)
    for name, calls in raw.calls.items():
        if name in raw.planned:
            kind = raw.planned[name].kind
        else:
            kind = ScenarioKind.GIVEN
        # A scenario with calls and without its end was running when the log stopped.
        done.setdefault(name, Scenario(name, calls, kind=kind, outcome=Outcome.UNFINISHED))
    return (*done.values(), *(each for name, each in raw.planned.items() if name not in done))


def _graphs(raw: CollectedLog) -> tuple[Graph, ...]:
    graphs = []
    for compile_id, made in raw.graphs.items():
        measured = raw.metrics.get(compile_id)
        if measured and measured.fail_type:
            continue  # the backend failed on it, so nothing runs it
        place = place_of(raw, compile_id)
        # Dynamo may trace a function again after a break: the last graph is the one that runs.
        ops = next((graph.ops for graph in reversed(made) if isinstance(graph, GraphMade)), None)
        if ops is None:
            ops = 0
            if measured and measured.ops is not None:
                ops = measured.ops
        graphs.append(Graph(compile_id, place.function, place.file, place.begins, ops))
    return tuple(graphs)


def _unrolled(raw: CollectedLog, graphs: Iterable[Graph]) -> tuple[Unrolled, ...]:
    """List the loops outside of torch that were unrolled, each once: a recompilation unrolls the same loops again."""
    largest: dict[tuple[str, int], Unrolled] = {}
    for graph in graphs:
        for each in raw.unrolled.get(graph.id, ()):
            known = largest.get((each.file, each.line))
            if owner_of(each.file, raw.prefixes) is not Owner.TORCH and (known is None or each.ops > known.ops):
                largest[each.file, each.line] = each
    return tuple(sorted(largest.values(), key=lambda each: -each.ops))


def _compilations(raw: CollectedLog) -> tuple[Compilation, ...]:
    return tuple(_compilation(raw, compile_id) for compile_id in raw.seen)


def _compilation(raw: CollectedLog, compile_id: str) -> Compilation:
    place = place_of(raw, compile_id)
    found = Compilation(compile_id, place.function, place.file, place.line, place.resumes_at)
    if (measured := raw.metrics.get(compile_id)) is not None:
        found = replace(found, guards=measured.guards, seconds=measured.frame_seconds)
        found = replace(found, fail_type=measured.fail_type, fail_reason=measured.fail_reason)
    if (code := raw.bytecode.get(compile_id)) is not None:
        found = replace(found, bytecode=Bytecode(code.before, code.after))
    if (start := raw.starts.get(compile_id)) is not None:
        found = replace(found, attempts=start.attempt + 1)
    if (placed := raw.guard_places.get(compile_id)) is not None:
        found = replace(found, of_object=placed.of_object)
    if (call := raw.during.get(compile_id)) is not None:
        found = replace(found, scenario=call.scenario, call=call.index)
    return found


_LOADING = "AOTAutogradCache.inductor_load"


def _torch_code(raw: CollectedLog) -> Iterable[TorchCode]:
    """Yield the modules of a log that only torch wrote; the open phases show which are of a backward.

    AOTAutograd's cache loads a forward and then its backward in one phase (aot_autograd_result.py, torch 2.13).
    """
    # Torch does not record the part, and both parts of a graph have the same compile id.
    loaded: Counter[str] = Counter()
    for number, (seen, phases) in enumerate(raw.torch_code, 1):
        is_backward = any("bw_compiler" in name or name.startswith("backward.") for name in phases)
        stages = {each.stage for each in raw.printed.get(seen.id, ())}
        if _LOADING in phases and GraphStage.BACKWARD in stages:
            loaded[seen.id] += 1
            is_backward = loaded[seen.id] % 2 == 0
        if is_backward:
            stage = Stage.BACKWARD
        elif GraphStage.INFERENCE in stages:
            stage = Stage.INFERENCE
        else:
            stage = Stage.FORWARD
        stacks = raw.kernel_stacks.get((seen.id, number), "")
        yield TorchCode(seen.id, stage, seen.text, stacks)


def _metrics(raw: CollectedLog) -> Iterable[Metrics]:
    for measured in (*raw.metrics.values(), *raw.backward_metrics.values()):
        if isinstance(measured.metrics, Stored):
            yield Metrics(measured.id, measured.backward, record=measured.metrics)
        else:
            yield Metrics(measured.id, measured.backward, measured.metrics or {})


def _guards(raw: CollectedLog) -> dict[str, GuardText]:
    found = {}
    for compile_id, printed in raw.guards.items():
        guards = GuardText(body=printed.text, cost=raw.guard_costs.get(compile_id))
        placed = raw.guard_places.get(compile_id)
        if placed is not None:
            guards = replace(guards, stacks=placed.places, left_out=placed.left_out)
        found[compile_id] = guards
    return found


def _printed(raw: CollectedLog) -> dict[str, Graphs]:
    found = {}
    for compile_id, printed in raw.printed.items():
        made = Symbols(raw, compile_id).made()
        symbols = {each.symbol: SymbolMeant(user_name(each.source), each.value) for each in made}
        aliases = raw.aliases.get(compile_id)
        aliases_text: str | Stored = ""  # of an earlier attempt, they name nodes of another graph
        if aliases is not None and aliases.attempt == printed[-1].attempt:
            aliases_text = aliases.text
        found[compile_id] = Graphs(
            tuple(printed),
            aliases_text,
            symbols,
            traced_modules=raw.modules.get((compile_id, True), {}),
            aten_modules=raw.modules.get((compile_id, False), {}),
        )
    return found


def _limit(raw: CollectedLog) -> Limit:
    limit = _DEFAULT_LIMIT
    if raw.counted:
        limit = raw.counted.recompile_limit or _DEFAULT_LIMIT
    hit = False
    used: dict[str, int] = {}
    refused: set[str] = set()
    first: dict[str, str] = {}
    for compile_id in raw.seen:
        frame = compile_id.partition("/")[0]
        first.setdefault(frame, compile_id)
        used.setdefault(frame, 0)
        if compile_id in raw.metrics and raw.metrics[compile_id].is_limit:
            hit = True
            refused.add(frame)
        elif raw.has_entry(compile_id):  # a compilation that failed takes no place in the cache
            used[frame] += 1
    functions = []
    for frame, count in used.items():
        place = place_of(raw, first[frame])
        if count and owner_of(place.file, raw.prefixes) is Owner.USER:
            resumes = ""
            if place.resumes_at:
                resumes = f" (from line {place.resumes_at})"
            functions.append(CacheUse(f"{place.function}{resumes}", count, limit, frame, frame in refused))
    return Limit(hit, tuple(functions))


def _time(raw: CollectedLog, seconds: float | None) -> PhaseTimes:
    """Sum up torch's times; each phase counts without the phases that it contains.

    Torch compiles a backward when it runs, or while it compiles the forward, whose time then includes it (AOTAutograd,
    for some dynamic shapes; 2.13). The log does not say which. If the sum of both exceeds the run time, the forward
    includes the backward.
    """
    if not raw.metrics:
        return PhaseTimes(seconds)
    phases = _phases(raw, backward_within=False)
    if seconds is not None and sum(phases.values()) > seconds:
        phases = _phases(raw, backward_within=True)
    beside = sum(done.seconds or 0.0 for done in raw.codegen if (done.id, done.stage) in raw.forked)
    if beside:
        phases["codegen"] = beside  # in forks, in parallel with the rest
    return PhaseTimes(seconds, {name: round(max(value, 0.0), 4) for name, value in phases.items()})


def _phases(raw: CollectedLog, *, backward_within: bool) -> dict[str, float]:
    """Sum up phases that do not overlap."""
    frame, backend, inductor = 0.0, 0.0, 0.0
    for measured in raw.metrics.values():
        frame += measured.frame_seconds or 0.0
        backend += measured.backend_seconds or 0.0
        inductor += measured.inductor_seconds or 0.0
    for measured in raw.backward_metrics.values():
        whole = max(measured.backward_seconds or 0.0, measured.inductor_seconds or 0.0)
        if not backward_within:
            frame, backend = frame + whole, backend + whole
        inductor += measured.inductor_seconds or 0.0
    phases = {"dynamo": frame - backend}
    if not inductor:  # another backend, whose parts torch does not time
        return phases | {"backend": backend}
    within = min(inductor, backend)
    return phases | {"aot": backend - within, "inductor": within}


def _cut_problems(cuts: tuple[CutOff, ...]) -> Iterable[Problem]:
    for each in cuts:
        yield Problem(each.what, each.line, is_doubt=True)


# Chosen: one sentence.
_MOST_LINES = 5


def _changed(raw: CollectedLog) -> Iterable[Problem]:
    """Say that a log was changed: its payloads are used, and may not be what torch wrote."""
    lines, number = raw.changed, raw.changed_count
    if not number:
        return
    shown = ", ".join(map(str, lines[:_MOST_LINES]))
    payloads = f"{number:,} {named(number, 'payload does', 'payloads do')}"
    more = ""
    if number > _MOST_LINES:
        more = f" and {number - _MOST_LINES:,} more"
    what = (
        f"the log was changed after torch wrote it, as by a redaction: {payloads} not match "
        f"{named(number, 'its checksum, has', 'their checksums, have')} a whole form, and "
        f"{named(number, 'is used as it is', 'are used as they are')} ({named(number, 'line')} {shown}{more})"
    )
    yield Problem(what, lines[0], is_doubt=True)


def _problems(raw: CollectedLog, unequal: Iterable[str], cuts: tuple[CutOff, ...]) -> Iterable[Problem]:
    torch = raw.environment.get("torch", "")
    if is_untried(torch):
        yield Problem(f"torch {torch} is newer than the versions that this ctrace knows; the report may be incomplete")
    for compile_id, stage in sorted(raw.unfinished):
        yield Problem(f"code of graph {compile_id} ({stage}) was still being generated when the run ended")
    if (left := raw.doubted - MOST_PROBLEMS) > 0:
        yield Problem(f"{left:,} more entries are not as expected", is_doubt=True)
    # A cut explains its numbers: they would be said twice.
    known = {each.what for each in cuts}
    for what in unequal:
        if what not in known:
            yield Problem(what, is_doubt=True)
