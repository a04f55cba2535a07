"""From marks of torch's steps to spans, and from records of caches to look-ups."""

import pytest

from ctrace.inspector.facts.compile_time import CompileTime, LookupOutcome, Span
from ctrace.inspector.findings import compile_time_view
from ctrace.inspector.findings.compile_time_fold import lanes_of, miscounted_lookups
from ctrace.inspector.findings.compile_time_view import compile_document
from ctrace.reports.perfetto import render_perfetto
from ctrace.reports.terminal.compile_time_screen import compile_time_screen
from tests.support.compiling import AT, Log, compiled, second
from tests.support.golden import drawn


def flat(found: CompileTime) -> list[tuple[str, str, float, float]]:
    """Return each span with its lane, in seconds."""
    rows = []

    def add(lane: str, span: Span) -> None:
        rows.append((lane, span.name, round(span.begin, 4), round(span.end, 4)))
        for child in span.children:
            add(lane, child)

    for lane in lanes_of(found):
        for each in lane.spans:
            add(lane.thread, each)
    return rows


def test_phases_add_up_to_the_compile_time() -> None:
    found = compiled(compiled(Log()), graph=second(1), begin=200).session().compile_time
    assert compile_time_view.seconds(found) == pytest.approx(0.2)
    assert sum(compile_time_view.phases(found).values()) == pytest.approx(0.2)
    assert {name: round(each, 6) for name, each in compile_time_view.phases(found).items()} == {
        "dynamo": 0.030, "guards": 0.010, "aot": 0.024, "lowering": 0.016, "codegen": 0.020, "build": 0.040,
        "other": 0.060,
    }  # fmt: skip


def test_graphs_add_up_to_the_compile_time_too() -> None:
    session = compiled(compiled(Log()), graph=second(1), begin=200).mark("B", "gc", 400, at=None).session()
    rows = compile_time_view.graphs(session)
    assert [each.id for each in rows] == ["0/0", "1/0", None]
    assert sum(each.seconds for each in rows) == pytest.approx(0.2)


def test_a_step_counts_with_the_phase_of_the_step_around_it_unless_it_has_its_own() -> None:
    log = Log().mark("B", "create_aot_dispatcher_function", 0).span("new_step_of_a_later_torch", 1, 5)
    log.mark("E", "create_aot_dispatcher_function", 10)
    assert compile_time_view.phases(log.session().compile_time) == pytest.approx({"aot": 0.010})
    assert compile_time_view.phase_of("mm_template_autotuning") == "autotune"
    assert compile_time_view.phase_of("pass.joint_graph_passes.remove_noop_ops", "aot") == "passes"
    assert compile_time_view.phase_of("unheard_of") == "other"


def test_steps_of_other_threads_do_not_add() -> None:
    log = Log().mark("B", "dynamo", 0).span("compile_file", 1, 9, thread=7).mark("E", "dynamo", 10)
    found = log.session().compile_time
    assert [(lane.thread, lane.is_parallel) for lane in lanes_of(found)] == [("1", False), ("7", True)]
    assert compile_time_view.seconds(found) == pytest.approx(0.010)
    assert [(each.name, round(each.seconds, 4)) for each in compile_time_view.parallel(found)] == [
        ("compile_file", 0.008)
    ]


def test_workers_are_told_apart_in_a_log_that_names_only_the_process() -> None:
    """Torch's own log: a worker's file begins, the program waits for it, the file ends, the wait ends."""
    log = Log(ours=False).mark("B", "dynamo", 0).mark("B", "compile_file", 1).mark("B", "async_compile.wait", 2)
    log.mark("E", "compile_file", 8).mark("E", "async_compile.wait", 9).mark("E", "dynamo", 10)
    found = log.session().compile_time
    assert flat(found) == [
        ("1", "dynamo", 0.0, 0.01), ("1", "async_compile.wait", 0.002, 0.009),
        ("1 worker 1", "compile_file", 0.001, 0.008),
    ]  # fmt: skip
    assert compile_time_view.seconds(found) == pytest.approx(0.010)


def test_steps_that_an_exception_ended_end_with_the_step_around_them() -> None:
    log = Log().mark("B", "dynamo", 0).mark("B", "bytecode_tracing", 2).mark("E", "dynamo", 10)
    assert flat(log.session().compile_time) == [("1", "dynamo", 0, 0.01), ("1", "bytecode_tracing", 0.002, 0.01)]


def test_a_log_that_ends_early_cuts_its_open_steps() -> None:
    log = Log().mark("B", "dynamo", 0).mark("B", "backend_compile", 2).span("GraphLowering.run", 3, 6)
    found = log.session().compile_time
    assert [span.is_cut for lane in lanes_of(found) for span in lane.spans] == [True]
    assert compile_time_view.seconds(found) == pytest.approx(0.006)


def test_a_clock_that_was_set_back_makes_no_negative_time() -> None:
    log = Log().mark("B", "dynamo", 10).mark("B", "bytecode_tracing", 12).mark("E", "bytecode_tracing", 3)
    found = log.mark("E", "dynamo", 20).session().compile_time
    assert all(end >= begin for _, _, begin, end in flat(found))
    assert all(piece.seconds >= 0 for piece in compile_time_view.pieces(found))


def test_an_end_without_a_beginning_is_passed_over() -> None:
    assert flat(Log().mark("E", "gc", 1).span("dynamo", 2, 3).session().compile_time) == [("1", "dynamo", 0.001, 0.002)]


def test_steps_without_an_end_do_not_nest_without_one() -> None:
    log = Log()
    for number in range(3000):
        log.mark("B", "dynamo", number)
    session = log.session()
    assert compile_time_view.seconds(session.compile_time) == pytest.approx(2.999)
    assert sum(each.seconds for each in compile_time_view.pieces(session.compile_time)) == pytest.approx(2.999)
    assert render_perfetto(session)
    assert drawn(compile_time_screen(compile_document(session), 80), 80)


@pytest.mark.parametrize("payload", ['{"name": "x"', "[]", '{"ph": "B", "name": "dynamo", "ts": "late"}', ""])
def test_damaged_marks_are_no_steps(payload: str) -> None:
    session = Log().line({"chromium_event": {}}, payload).session()
    assert compile_time_view.seconds(session.compile_time) is None


def test_look_ups_have_the_graph_part_of_the_open_steps() -> None:
    log = Log().cache("aotautograd_cache_miss", key="a1", cache_status_detailed="full_miss", components=[])
    log.mark("B", "compile_fx.<locals>.fw_compiler_base", 0).cache("fx_graph_cache_miss", key="f1")
    log.mark("E", "compile_fx.<locals>.fw_compiler_base", 1).mark("B", "entire_backward_compile", 2)
    log.mark("B", "compile_fx.<locals>.bw_compiler", 2).cache("fx_graph_cache_bypass", cache_bypass_reason="no")
    found = log.session().compile_time
    assert [(each.cache, each.outcome, each.stage, each.key) for each in found.lookups] == [
        ("aot_autograd", LookupOutcome.MISS, None, "a1"),
        ("fx_graph", LookupOutcome.MISS, "forward", "f1"),
        ("fx_graph", LookupOutcome.BYPASS, "backward", None),
    ]
    assert compile_time_view.answers(found)[2].why == "no"


def test_an_aot_hit_loads_the_forward_then_the_backward() -> None:
    log = Log().mark("B", "AOTAutogradCache.inductor_load", 0)
    log.cache("fx_graph_cache_hit", key="f1").cache("fx_graph_cache_hit", key="f2")
    log.mark("E", "AOTAutogradCache.inductor_load", 1).cache("aotautograd_cache_hit", key="a1")
    found = log.session().compile_time
    assert [each.stage for each in found.lookups] == ["forward", "backward", None]
    assert compile_time_view.outcomes(found) == {"aot_autograd": {"hit": 1}, "fx_graph": {"hit": 2}}


def test_what_is_not_stored_is_said() -> None:
    log = Log().ours("caches", {"kind": "private", "folder": "/c", "switched_off": []})
    log.cache("aotautograd_cache_miss", key="a1").cache("fx_graph_cache_miss", key="f1")
    log.ours("cache_stored", {"cache": "fx_graph", "key": "f1", "stored": False, "why": "cannot be pickled"}, AT)
    aot, fx = log.session().compile_time.lookups
    assert (aot.is_stored, fx.is_stored, fx.not_stored) == (False, False, "cannot be pickled")
    assert "did not try" in aot.not_stored


def test_counters_that_disagree_are_a_problem() -> None:
    log = Log().cache("fx_graph_cache_miss", key="f1")
    counts = {"caches": {"fxgraph_cache_miss": 1}, "frames": {}, "graph_break": {}, "unimplemented": {}, "stats": {}}
    log.ours("counters", {**counts, "recompile_limit": 8})
    assert list(miscounted_lookups(log.session().compile_time)) == []
    counts["caches"] = {"fxgraph_cache_miss": 1, "fxgraph_cache_bypass": 2}
    session = log.ours("counters", {**counts, "recompile_limit": 8}).session()
    (sentence,) = miscounted_lookups(session.compile_time)
    assert "fxgraph_cache_bypass says 2, the entries of the trace 0" in sentence
    assert sentence in [each.what for each in session.problems]


def test_a_bypass_at_storing_is_counted_by_torch_once_more() -> None:
    log = Log().cache("aotautograd_cache_miss", key="a1")
    stored = {"cache": "aot_autograd", "key": "a1", "stored": False, "why": "w", "bypassed": True}
    log.ours("cache_stored", stored, AT)
    log.ours("counters", {"caches": {"autograd_cache_miss": 1, "autograd_cache_bypass": 1}, "recompile_limit": 8})
    assert list(miscounted_lookups(log.session().compile_time)) == []


def test_packages_are_known_from_counters_only() -> None:
    counts = {"dynamo_cache_hit": 1, "dynamo_cache_miss": 2}
    found = Log().ours("counters", {"caches": counts, "recompile_limit": 8}).session().compile_time
    assert compile_time_view.outcomes(found) == {"precompile": {"hit": 1, "miss": 2}}
    assert {each.why for each in compile_time_view.answers(found)} == {
        "an entry has this key",
        "no package was saved for this function",
    }
    assert list(miscounted_lookups(found)) == []


def test_a_record_of_another_form_is_a_problem() -> None:
    session = Log().ours("cache_earlier", {"cache": 3}).session()
    assert any("ctrace_cache_earlier entry is not as expected" in each.what for each in session.problems)
