"""Reduce sessions to states: sites and counts."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advice_sites import is_after_warm_up
from ctrace.inspector.facts.cuda_graphs import CudaGraph, CudaGraphStatus
from ctrace.inspector.facts.findings import BreakKind, CacheUse, Cause, CauseKind, Cost, Limit, Owner, Recompile, Skip
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Compilation, Coverage, Environment, Session
from ctrace.inspector.facts.sites import SiteKey, SiteKind
from ctrace.inspector.features.check.check_state import minor_of
from ctrace.inspector.features.check.policy_model import Count
from tests.support.gated import GB, ROOT, at_text, counts_of, session_of, state
from tests.support.helpers import MODEL as MODEL_FILE
from tests.support.helpers import SITE, Log, recorded
from tests.support.sessions import DANGEROUS, HEALTHY, HOSTILE, NOTHING, PARTIAL
from tests.support.targeted import H100

SOURCE = """\
class Net:
    def forward(self, x):
        print(x)
        x = x + 1
        print(x)
        return f(
            x.item(),
            x.max().item(),
        )
"""
FILE = f"{ROOT}/model.py"


def again(*causes: Cause, expected: bool = False, call: int | None = None) -> Recompile:
    return Recompile("0/1", "forward", FILE, 2, expected, causes, call=call)


def test_a_break_is_known_by_what_it_is() -> None:
    (found,) = state(session_of(SOURCE, [at_text(SOURCE, "return f(", gb=("GB2", "GB1"))])).sites
    key = SiteKey(
        SiteKind.BREAK, ("GB1", "GB2"), Owner.USER, "model.py::Net.forward", "return f(x.item(), x.max().item())"
    )
    assert found.key == key
    assert (found.file, found.line, found.source) == (FILE, 6, "        return f(")


def test_a_statement_that_stands_twice_is_one_site_at_two_places() -> None:
    breaks = [at_text(SOURCE, "class Net", line=line, times=2, cost=Cost(3, 1)) for line in (3, 5)]
    given = state(session_of(SOURCE, breaks))
    (found,) = given.sites
    assert (found.times, found.places, found.cost) == (4, 2, Cost(6, 2))
    assert given.counts[Count.BREAKS] == 2


def test_two_lines_of_one_statement_are_one_place() -> None:
    breaks = [at_text(SOURCE, text) for text in ("x.item()", "x.max().item()")]
    (found,) = state(session_of(SOURCE, breaks)).sites
    assert (found.times, found.places) == (2, 1)


def test_breaks_are_counted_by_their_owners_without_those_that_are_wanted() -> None:
    breaks = [
        at_text(SOURCE, "x.item()"),
        at_text(SOURCE, "x.max()", owner=Owner.LIBRARY),
        at_text(SOURCE, "x = x + 1", owner=Owner.TORCH),
        at_text(SOURCE, "return f(", kind=BreakKind.DISABLED),
    ]
    given = state(session_of(SOURCE, breaks))
    counts = (Count.BREAKS, Count.LIBRARY_BREAKS, Count.TORCH_BREAKS)
    assert [given.counts[each] for each in counts] == [1, 1, 1]
    assert len(given.sites) == 4


@pytest.mark.parametrize(
    ("name", "times"),
    [("break_in_hook", 1), ("break_paths", 1), ("try_break", 1), ("model_file", 2), ("break_in_while", 2)],
)
def test_callers_that_inline_a_function_do_not_add_to_its_breaks(name: str, times: int) -> None:
    found = next(each for each in state(recorded(name)).sites if each.key.kind is SiteKind.BREAK)
    assert found.times == times


def test_a_function_of_the_same_name_that_inlines_it_does_not_add_to_its_breaks() -> None:
    source = "class Inner:\n    def forward(self, x):\n        return x.item()\n\n\nclass Outer:\n    def forward(self, x):\n        return self.inner(x)\n"
    file = f"{ROOT}/model.py"
    made = tuple(Compilation(id_, "forward", file, line) for id_, line in (("0/0", 7), ("1/0", 2)))
    met = at_text(source, "x.item()", times=2, compilations=("0/0", "1/0"))
    (found,) = state(session_of(source, [met], compilations=made)).sites
    assert found.times == 1


def test_where_no_compilation_is_known_a_break_counts_as_often_as_it_is_told() -> None:
    (found,) = state(session_of(SOURCE, [at_text(SOURCE, "x = x + 1", times=5)])).sites
    assert found.times == 5


@pytest.mark.parametrize("decorator", ["", "    @checked\n"])
def test_a_function_left_in_eager_is_where_it_is_with_a_decorator_or_without(decorator: str) -> None:
    source = SOURCE.replace("    def", f"{decorator}    def", 1)
    breaks = [at_text(source, "x.item()")]
    by_break = Skip("forward", FILE, 2, "", break_index=0)  # a code object's first line is that of its first decorator
    by_rule = Skip("forward", FILE, 2, "", rule="generator")
    _, one, other = state(session_of(source, breaks, [by_break, by_rule])).sites
    assert one.key == SiteKey(SiteKind.SKIP, (GB,), Owner.USER, "model.py::Net.forward", "def forward")
    assert other.key.causes == ("generator",)


@pytest.mark.parametrize(
    ("expected", "call", "counts"),
    [(True, 0, False), (True, 1, True), (False, 0, True), (False, 1, True), (True, None, False), (False, None, True)],
)
def test_a_recompile_counts_that_would_come_again(expected: bool, call: int | None, counts: bool) -> None:
    made = again(Cause(CauseKind.SIZE, "x.size(0)"), expected=expected, call=call)
    assert is_after_warm_up(made) is counts
    assert state(session_of(SOURCE, recompiles=(made,))).counts[Count.RECOMPILES] == counts


def test_a_recompile_is_known_by_its_causes() -> None:
    made = again(
        Cause(CauseKind.SIZE, "x.size(1)"), Cause(CauseKind.DTYPE, "x.dtype"), Cause(CauseKind.SIZE, "x.size(0)")
    )
    (found,) = state(session_of(SOURCE, recompiles=(made,))).sites
    assert found.key.causes == ("dtype", "size")
    assert found.key.text == "x.dtype, x.size(0), x.size(1)"
    unexplained = state(session_of(SOURCE, recompiles=(again(),))).sites[0].key
    assert (unexplained.causes, unexplained.text) == (("other",), "")


def test_recompiles_are_counted_one_by_one() -> None:
    made = again(Cause(CauseKind.SIZE, "x.size(0)"))
    given = state(session_of(SOURCE, recompiles=(made, made, made)))
    assert given.counts[Count.RECOMPILES] == 3
    assert len(given.sites) == 1


def test_what_was_not_measured_is_not_there() -> None:
    given = state(NOTHING)
    assert given.coverage is None
    absent = (Count.EAGER_OPS, Count.KERNELS, Count.SPILLS, Count.MISSED_BYTES)
    assert not set(absent) & set(given.counts)


def test_what_was_measured_is_counted() -> None:
    given = state(PARTIAL)
    assert counts_of(given) == {
        Count.BREAKS: 1, Count.SKIPPED: 2, Count.RECOMPILES: 1, Count.GRAPHS: 3, Count.LIMIT_HITS: 1,
        Count.EAGER_OPS: 8,
    }  # fmt: skip
    assert given.coverage == pytest.approx(100 * 20 / 28)
    assert state(replace(HEALTHY, coverage=Coverage(0, 0))).coverage is None


def test_cuda_graphs_are_counted_where_there_is_a_gpu() -> None:
    recorded = CudaGraph("0/0", Stage.FORWARD, CudaGraphStatus.RECORDED, recordings=3)
    again = CudaGraph("0/0", Stage.BACKWARD, CudaGraphStatus.SKIPPED, recordings=9)
    skipped = CudaGraph("1/0", Stage.INFERENCE, CudaGraphStatus.SKIPPED)
    given = state(replace(HEALTHY, gpu=H100, cuda_graphs=(recorded, again, skipped))).counts
    assert (given[Count.CUDA_GRAPH_SKIPS], given[Count.CUDA_GRAPH_RERECORDINGS]) == (2, 10)
    not_run = state(replace(HEALTHY, gpu=H100, cuda_graphs=(skipped,))).counts
    assert (not_run[Count.CUDA_GRAPH_SKIPS], Count.CUDA_GRAPH_RERECORDINGS in not_run) == (1, False)
    assert Count.CUDA_GRAPH_SKIPS not in state(replace(HEALTHY, cuda_graphs=(skipped,))).counts
    assert Count.CUDA_GRAPH_SKIPS not in state(replace(HEALTHY, gpu=H100)).counts


@pytest.mark.parametrize(
    ("limit", "hits"),
    [
        (Limit(), 0),
        (Limit(hit=True), 1),
        (Limit(hit=True, functions=(CacheUse("f", 8, 8, refused=True), CacheUse("g", 8, 8, refused=True))), 2),
    ],
)
def test_a_limit_that_was_hit_is_counted_though_no_function_is_known(limit: Limit, hits: int) -> None:
    assert state(replace(HEALTHY, limit=limit)).counts[Count.LIMIT_HITS] == hits


def test_other_results_than_in_eager_are_sites() -> None:
    found = [each.key for each in state(DANGEROUS).sites if each.key.kind is SiteKind.DANGER]
    assert [key.causes for key in found] == [("environment",), ("unexplained",)]


@pytest.mark.parametrize(
    ("version", "minor"), [("2.13.0+cpu", "2.13"), ("2.14.0a0+git12", "2.14"), ("", ""), ("unknown", "")]
)
def test_the_minor_version_is_what_a_lock_knows(version: str, minor: str) -> None:
    assert minor_of(Session(environment=Environment(torch=version))) == minor


def test_hostile_names_are_only_text() -> None:
    assert len(state(HOSTILE).sites) == 3


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("print_break", {"breaks": 1, "graphs": 2}),
        ("break_in_library", {"library_breaks": 1, "graphs": 2}),
        ("disabled_call", {"graphs": 2}),
        ("loop_break", {"breaks": 1, "skipped": 1}),
        ("train_eval", {"graphs": 2}),
        ("size_limit", {"recompiles": 2, "graphs": 3, "limit_hits": 1}),
        ("generator_compiled", {"skipped": 1}),
    ],
)
def test_recorded_runs_count_what_they_show(name: str, counts: dict[str, int]) -> None:
    assert {str(count): number for count, number in counts_of(state(recorded(name))).items()} == counts


@pytest.mark.parametrize("name", ["dynamic_sizes", "sizes", "try_break"])
def test_a_log_of_torch_alone_shows_the_same_sites(name: str) -> None:
    ours, torch = (state(recorded(each)) for each in (name, f"{name}.torch"))
    assert [each.key for each in ours.sites] == [each.key for each in torch.sites]
    assert counts_of(ours) == counts_of(torch)


def test_places_of_a_library_are_one_site_for_each_line_of_the_user() -> None:
    """A lock that was written when breaks were keyed by the user's line still has the same sites."""
    log = Log().started().listing("def forward(x):\n    y = solve(x)\n    return solve(y)\n")
    for compiled, user, line in (("0/0", 2, 40), ("0/0", 2, 62), ("1/0", 3, 40)):
        source = "y = solve(x)" if user == 2 else "return solve(y)"
        frames = ((MODEL_FILE, user, "forward", source), (f"{SITE}/torchdiffeq/odeint.py", line, "step", "if x > 0:"))
        log.breaks(compiled, gb=("0170",), frames=frames)
    session = log.session()
    assert len(session.breaks) == 2
    given = state(session)
    assert [(each.key.text, each.key.owner, each.times) for each in given.sites] == [
        ("y = solve(x)", Owner.LIBRARY, 2),
        ("return solve(y)", Owner.LIBRARY, 1),
    ]
    assert given.counts[Count.LIBRARY_BREAKS] == 2


def test_a_number_that_a_print_reads_follows_from_the_print() -> None:
    source = "print(x.sum().item())"
    log = (
        Log().started().listing(f"def forward(x):\n    {source}\n    return x\n\ndef other(x):\n    return x.item()\n")
    )
    log.breaks("0/0", gb=("0059",), frames=((MODEL_FILE, 2, "forward", source),))
    log.breaks("0/0", gb=("0124",), frames=((MODEL_FILE, 2, "forward", source),))
    log.breaks("1/0", gb=("0124",), frames=((MODEL_FILE, 6, "other", "return x.item()"),))
    follows = {(each.key.causes, each.line): each.follows for each in state(log.session()).sites}
    printed = next(each.key for each in state(log.session()).sites if each.key.causes == ("GB0059",))
    assert follows == {(("GB0059",), 2): None, (("GB0124",), 2): printed, (("GB0124",), 6): None}
