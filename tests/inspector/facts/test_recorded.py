"""Recorded runs of the scripts in tests/scripts; the expected facts were checked by hand against torch 2.13."""

import re
from dataclasses import dataclass, field
from functools import cache

import pytest

from ctrace.inspector.facts.session import Coverage, Session
from tests.support.helpers import PROJECT, recorded
from tests.support.places import DATA, SCRIPTS
from tests.support.sampling import sampled
from tests.support.shapes import RECOMPILES, SHAPES

LOGS = sorted(path.stem for path in DATA.glob("*.log"))


@dataclass(frozen=True)
class Facts:
    """The facts that a run must show, in the names of the script."""

    verdict: str
    graphs: list[str]
    """Ids, in order."""
    breaks: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Ids, kind, function and source line."""
    skips: list[tuple[str, int | None]] = field(default_factory=list)
    """Function, and index of the break that caused it."""
    recompiles: list[tuple[str, bool, list[str]]] = field(default_factory=list)
    """Compilation, whether it is expected, and kinds of causes."""
    limit: bool = False
    cache: list[tuple[str, int, int]] = field(default_factory=list)
    """Function, used cache entries, and the limit."""


TRY = Facts(
    "partial",
    ["1/0", "2/0"],
    breaks=[("GB0025", "break", "guarded", "torch._dynamo.graph_break()")],
    skips=[("outer", 0)],
    cache=[("guarded", 1, 8), ("guarded (from line 8)", 1, 8)],
)
SIZES = Facts(
    "compiled",
    ["0/0", "0/1", "0/2"],
    recompiles=[("0/1", True, ["size"]), ("0/2", False, ["zero_one"])],
    cache=[("doubled", 3, 8)],
)


def every_size(*first: str) -> Facts:
    """Return the facts of the script of all sizes, with the causes of its first recompilation."""
    return Facts(
        "compiled",
        ["0/0", "0/1", "1/0", "1/1", "1/2", "2/0", "3/0"],
        recompiles=[("0/1", True, list(first)), ("1/1", False, ["size"]), ("1/2", False, ["size"])],
        cache=[("forward", 2, 8), ("looped", 3, 8), ("paired", 1, 8), ("chosen", 1, 8)],
    )


PRINT = Facts(
    "partial",
    ["0/0", "1/0"],
    breaks=[("GB0059", "break", "halves", 'print("so far", first.sum())')],
    cache=[("halves", 1, 8), ("halves (from line 9)", 1, 8)],
)


FACTS = {
    "attribute_counter": Facts(
        "partial",
        ["0/0", "0/1", "0/2"],
        recompiles=[("0/1", False, ["attribute_value"]), ("0/2", False, ["attribute_value"])],
        limit=True,
        cache=[("forward", 3, 3)],
    ),
    "autotuned": Facts("compiled", ["0/0"]),
    "autotuned_program.torch": Facts("compiled", ["0/0"], cache=[("Linear", 1, 8)]),
    "comprehension": Facts(
        "partial",
        ["1/0"],
        breaks=[("GB0170", "break", "gather", "rows = [x + 1 if x.sum() > 0 else x for x in xs]")],
        cache=[("gather", 1, 8), ("gather (from line 7)", 1, 8)],
    ),
    "constraint_violation": Facts("failed", [], cache=[("forward", 1, 8)]),
    "disabled_call": Facts(
        "partial",
        ["0/0", "1/0"],
        breaks=[("GB0098", "disabled", "step", "x = report(x)")],
        cache=[("step", 1, 8), ("step (from line 14)", 1, 8)],
    ),
    "dynamic_sizes": SIZES,
    "dynamic_sizes.torch": SIZES,
    "fused": Facts("compiled", ["0/0"], cache=[("attend", 1, 8)]),
    "import_inside": Facts(
        "not_compiled",
        [],
        breaks=[("GB0069", "break", "maybe_fast", "import no_such_accelerator")],
        skips=[("maybe_fast", 0)],
    ),
    "item_break": Facts(
        "partial",
        ["0/0", "1/0", "1/1"],
        breaks=[("GB0124", "break", "scaled", "largest = x.abs().max().item()")],
        recompiles=[("1/1", True, ["break_result"])],
        cache=[("scaled", 1, 8), ("scaled (from line 8)", 2, 8)],
    ),
    "loop_break": Facts(
        "not_compiled",
        [],
        breaks=[("GB0025", "break", "repeated", "torch._dynamo.graph_break()")],
        skips=[("repeated", 0)],
    ),
    "model_file": Facts(
        "partial",
        ["0/0", "1/0", "0/1", "1/1"],
        breaks=[("GB0059", "break", "forward", 'print("shape", x.shape, x.sum())')],
        recompiles=[("0/1", True, ["size"]), ("1/1", True, ["size"])],
        cache=[("forward", 2, 8), ("forward (from line 9)", 2, 8)],
    ),
    "no_ops": Facts("not_compiled", [], skips=[("add", None)]),
    "print_break": PRINT,
    "print_break.torch": PRINT,
    "raises": Facts("failed", ["0/0"], cache=[("twice", 1, 8)]),
    "side_effects": Facts(
        "partial",
        ["0/0", "2/0"],
        breaks=[("GB0059", "break", "change", 'print("one", end=""), print("one", end="")')],
        cache=[("change", 1, 8), ("change (from line 22)", 1, 8), ("change (from line 22)", 1, 8)],
    ),
    "size_limit": Facts(
        "partial",
        ["0/0", "0/1", "0/2"],
        recompiles=[("0/1", False, ["size"]), ("0/2", False, ["size"])],
        limit=True,
        cache=[("mean", 3, 3)],
    ),
    "sizes": every_size("size", "size", "argument_value"),
    "sizes.torch": every_size("size"),
    "rewritten": Facts(
        "partial",
        ["0/0", "1/0", "3/0", "4/0", "5/0"],
        breaks=[
            ("GB0059", "break", "forward", 'print("mean", sep=": ")'),
            ("GB0170", "break", "forward", "if y.sum() > 1e6:"),
            ("GB0059", "break", "forward", 'print("inside")'),
            ("GB0059", "break", "inner", 'print("inner")'),
        ],
        cache=[
            ("forward", 1, 8),
            *((f"forward (from line {line})", 1, 8) for line in (18, 19, 22)),
            ("inner", 1, 8),
            ("inner (from line 29)", 1, 8),
        ],
    ),
    "tensor_branch": Facts(
        "partial",
        ["0/0", "1/0", "2/0"],
        breaks=[("GB0170", "break", "clipped", "if total > 10:")],
        cache=[("clipped", 1, 8), ("clipped (from line 9)", 1, 8), ("clipped (from line 9)", 1, 8)],
    ),
    "tensor_properties": Facts(
        "compiled",
        ["0/0", "0/1", "0/2", "0/3"],
        recompiles=[("0/1", False, ["dtype"]), ("0/2", False, ["stride", "stride"]), ("0/3", False, ["requires_grad"])],
        cache=[("rows", 4, 8)],
    ),
    "train_eval": Facts(
        "compiled", ["0/0", "0/1"], recompiles=[("0/1", True, ["training_mode"])], cache=[("Sequential", 2, 8)]
    ),
    "trained": Facts("compiled", ["0/0", "1/0"], cache=[("forward", 1, 8), ("scaled", 1, 8)]),
    "declared_shapes": Facts("compiled", ["0/0"], cache=[("f", 1, 8)]),
    "static_sources": Facts(
        "compiled",
        ["0/0", "0/1", "0/2", "0/3", "1/0", "1/1"],
        recompiles=[
            ("0/1", False, ["size"]),
            ("0/2", False, ["argument_value"]),
            ("0/3", False, ["attribute_value"]),
            ("1/1", False, ["closure_value"]),
        ],
        cache=[("f", 4, 8), ("<lambda>", 2, 8)],
    ),
    "deferred_constant": Facts(
        "compiled",
        ["0/0", "1/0", "0/1", "1/1", "0/2", "1/2"],
        recompiles=[
            ("0/1", False, ["global_value"]),
            ("1/1", False, ["attribute_value"]),
            ("0/2", False, ["global_value"]),
            ("1/2", False, ["attribute_value"]),
        ],
        cache=[("count", 3, 8), ("forward", 3, 8)],
    ),
    "helper_guards": Facts(
        "compiled",
        ["0/0", "0/1", "1/0", "1/1", "2/0", "2/1"],
        recompiles=[("0/1", False, ["length"]), ("1/1", False, ["other"]), ("2/1", False, ["aliasing"])],
        cache=[("backwards", 2, 8), ("shares", 2, 8), ("twice", 2, 8)],
    ),
    "nested_break": Facts(
        "partial",
        ["2/0", "3/0", "4/0", "5/0"],
        breaks=[("GB0025", "break", "inner", "torch._dynamo.graph_break()")],
        cache=[
            ("f", 1, 8),
            ("middle", 1, 8),
            ("inner", 1, 8),
            ("inner (from line 8)", 1, 8),
            ("middle (from line 13)", 1, 8),
            ("f (from line 18)", 1, 8),
        ],
    ),
    "nested_break_on": Facts(
        "partial",
        ["0/0", "1/0"],
        breaks=[("GB0025", "break", "inner", "torch._dynamo.graph_break()")],
        cache=[("f", 1, 8), ("f (from line 20)", 1, 8)],
    ),
    "try_break": TRY,
    "try_break.torch": TRY,
}


@cache
def session_of(name: str) -> Session:
    return recorded(name)


def facts_of(session: Session) -> Facts:
    return Facts(
        verdict=str(session.verdict),
        graphs=[graph.id for graph in session.graphs],
        breaks=[(" ".join(each.gb), str(each.kind), each.function, each.source) for each in session.breaks],
        skips=[(skip.function, skip.break_index) for skip in session.skips],
        recompiles=[
            (each.compilation, each.expected, [cause.kind for cause in each.causes]) for each in session.recompiles
        ],
        limit=session.limit.hit,
        cache=[(use.function, use.used, use.of) for use in session.limit.functions],
    )


def source(name: str, line: int) -> str:
    """Return a line of the script that a log was recorded from."""
    script = SCRIPTS / f"{name.partition('.')[0]}.py"
    return script.read_text(encoding="utf-8").splitlines()[line - 1].strip()


def test_there_are_facts_for_each_log():
    assert sorted([*FACTS, *SHAPES, *RECOMPILES]) == LOGS


@pytest.mark.parametrize("name", FACTS)
def test_facts(name: str):
    assert facts_of(session_of(name)) == FACTS[name]


@pytest.mark.parametrize("name", sampled(LOGS))
def test_nothing_in_a_recorded_log_is_unreadable(name: str):
    assert session_of(name).problems == ()


@pytest.mark.parametrize("name", sampled(LOGS))
def test_nothing_in_a_recorded_log_is_unknown(name: str):
    assert session_of(name).unknown == {}


@pytest.mark.parametrize("name", sampled(LOGS))
def test_lines_are_those_of_the_script(name: str):
    session = session_of(name)
    for found in session.breaks:
        assert found.file == f"{PROJECT}/{name.partition('.')[0]}.py"
        assert source(name, found.line) == found.source
    for skip in session.skips:
        head = source(name, skip.line)
        assert head.startswith(("@torch.compile", f"def {skip.function}(")) or skip.function == "<listcomp>"


@pytest.mark.parametrize("name", sampled(LOGS))
def test_every_finding_says_why_and_what_to_do(name: str):
    session = session_of(name)
    for found in session.breaks:
        assert found.reason
        assert found.fix
    for recompile in session.recompiles:
        assert recompile.shared_by or all(cause.fix for cause in recompile.causes)


@pytest.mark.parametrize("name", sampled(name for name in LOGS if not name.endswith(".torch")))
def test_versions_are_known(name: str):
    environment = session_of(name).environment
    assert all((environment.ctrace, environment.torch, environment.python, environment.device, environment.prefixes))


@pytest.mark.parametrize("name", [name for name in LOGS if name.endswith(".torch")])
def test_of_a_log_of_torch_alone_the_version_is_known(name: str):
    environment = session_of(name).environment
    assert environment.torch
    assert not environment.ctrace


@pytest.mark.parametrize("name", sampled(LOGS))
def test_a_log_is_small_and_names_no_path_of_the_machine_that_recorded_it(name: str):
    text = (DATA / f"{name}.log").read_text(encoding="utf-8")
    assert len(text) < 220_000
    paths = re.findall(r"(?<![\w./:<])/(?:[\w.+-]+/)+[\w.+-]+", text)
    neutral = ("/home/user/", "/venv/lib/", "/usr/lib/", "/tmp/torchinductor_user")
    assert [path for path in paths if not path.startswith(neutral)] == []


def causes(name: str) -> list[tuple[str, str, str | None, str | None]]:
    found = [cause for recompile in session_of(name).recompiles for cause in recompile.causes]
    return [(cause.kind, cause.subject, cause.was, cause.now) for cause in found]


def test_causes_name_the_value_before_and_after():
    assert causes("size_limit") == [("size", "x.size(0)", "5", "6"), ("size", "x.size(0)", "6", "7")]
    assert causes("attribute_counter") == [
        ("attribute_value", "self.calls", "0", "1"),
        ("attribute_value", "self.calls", "1", "2"),
    ]
    assert causes("item_break") == [("break_result", "the value that the broken call returned", "2.0", "3.0")]


def test_a_size_of_one_is_told():
    assert causes("dynamic_sizes")[-1] == ("zero_one", "x.size(0)", "2 or more", "1")


def test_the_line_of_a_break_result_is_that_of_the_call():
    ((cause,),) = (recompile.causes for recompile in session_of("item_break").recompiles)
    assert cause.line is not None
    assert source("item_break", cause.line) == "largest = x.abs().max().item()"


def test_the_line_of_an_attribute_is_where_it_is_read():
    lines = {cause.line for recompile in session_of("attribute_counter").recompiles for cause in recompile.causes}
    assert [source("attribute_counter", line or 0) for line in lines] == ["self.calls += 1"]


def test_a_module_of_torchs_own_is_named_by_its_class_and_is_where_it_is_called():
    graphs = session_of("train_eval").graphs
    assert {graph.function for graph in graphs} == {"Sequential"}
    assert [source("train_eval", graph.line) for graph in graphs] == ["compiled(x)", "compiled(x)"]
    assert graphs[0].line < graphs[1].line


def test_a_member_of_a_module_of_torchs_own_is_named_by_the_model():
    assert causes("train_eval") == [("training_mode", "model[1].training", "True", "False")]


def test_causes_of_a_tensor_are_seen_from_the_nearest_entry():
    assert causes("tensor_properties") == [
        ("dtype", "x.dtype", "torch.float32", "torch.float64"),
        ("stride", "x.stride(0)", "5", "1"),
        ("stride", "x.stride(1)", "1", "3"),
        ("requires_grad", "x.requires_grad", "False", "True"),
    ]


def test_the_author_of_a_disabled_function_has_a_say():
    (found,) = session_of("disabled_call").breaks
    assert found.reason.endswith("Its author says: writes to the event log.")


def test_a_failure_is_told_with_the_line_of_the_program():
    failure = session_of("raises").failure
    assert failure is not None
    assert (failure.type, failure.message) == ("KeyError", "'no such weight'")
    assert source("raises", failure.line or 0) == 'raise KeyError("no such weight")'


def test_a_break_that_is_met_twice_is_one_site():
    (found,) = session_of("try_break").breaks
    assert (found.times, found.compilations) == (2, ("0/0", "1/0"))
    assert [[frame.function for frame in path] for path in found.paths] == [["<module>", "outer", "guarded"]]


def test_scenarios_and_coverage_of_a_model_file():
    session = session_of("model_file")
    assert [(each.name, each.calls) for each in session.scenarios] == [("base", 2), ("wide", 2)]
    assert session.coverage == Coverage(8, 8)


def test_kernels_and_fusion():
    session = session_of("fused")
    external, fused = session.kernels
    assert (external.language, external.ops) == ("external", ("aten.mm",))
    assert [source("fused", int(line.rpartition(":")[2])) for line in external.lines] == ["scores = x @ weight"]
    assert "aten.exp" in fused.ops
    assert [source("fused", int(line.rpartition(":")[2])) for line in fused.lines] == [
        "return torch.softmax(scores.relu() + 1, dim=-1)"
    ]
    (fusion,) = session.fusions
    assert (fusion.before, fusion.after, len(fusion.rounds)) == (5, 2, 3)
    assert fusion.rounds[0].fused == (("op2", "op3"),)


def test_times_are_measured():
    phases = session_of("fused").time.phases
    assert phases["inductor"] > 0
    assert all(value >= 0 for value in phases.values())
