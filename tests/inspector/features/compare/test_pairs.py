"""Pairs of recorded programs that differ in one edit have exactly the differences of that edit: none missing, none made
up. The programs are in tests/scripts/diff."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.compare.changes import RunDiff, What
from ctrace.inspector.features.compare.compare_runs import compare, counts
from ctrace.inspector.runs.load import load_log
from tests.support.places import DATA

EQUAL: dict[str, str] = {}
LEAVE_GUARDS = 8
"""Guards of what the second half of the function reads: the module, its dict, its parameters, a function of torch."""


@cache
def session(name: str) -> Session:
    return load_log(DATA / "diff" / f"{name}.log.gz")


def differences(before: str, after: str) -> RunDiff:
    return compare(session(before), session(after))


def summary(found: RunDiff) -> dict[str, str]:
    """Return the number of changes by kind, as `2 added`."""
    by_what = counts(found.changes)
    return {what: ", ".join(f"{number} {how}" for how, number in sorted(by_what[what].items())) for what in by_what}


PAIRS = {
    ("base", "again"): EQUAL,
    ("base", "seed"): EQUAL,
    ("base", "moved"): EQUAL,
    ("base", "renamed"): EQUAL,
    ("base", "mode"): EQUAL,  # on the CPU, there are no CUDA graphs
    ("broken", "broken_moved"): EQUAL,
    ("base", "other_torch"): {"guard": "1 changed"},  # 2.15 knows more of the global state that every function guards
    ("base", "other_op"): {
        "guard": "1 added, 1 removed",
        "graph": "1 changed",
        "kernel": "1 changed",
    },
    ("base", "one_op_more"): {"graph": "1 added", "fusion": "1 changed", "kernel": "1 changed"},
    ("one_op_more", "base"): {"graph": "1 removed", "fusion": "1 changed", "kernel": "1 changed"},
    ("base", "no_sum"): {"graph": "1 removed", "kernel": "1 changed"},
    ("base", "wider"): {"guard": "1 changed", "graph": "1 changed", "kernel": "2 changed"},
    ("base", "double"): {"guard": "5 changed", "graph": "1 changed", "kernel": "2 changed"},
    ("base", "resized"): {"recompile": "1 added", "graph": "1 added"},
    ("resized", "base"): {"recompile": "1 removed", "graph": "1 removed"},
    ("base", "dynamic"): {
        "guard": "1 added, 1 changed",
        "graph": "1 changed",
        "kernel": "4 added, 2 changed",  # with dynamic sizes, AOTAutograd compiles the backward along with the forward
    },
    ("base", "broken"): {
        "verdict": "1 changed",
        "break": "1 added",
        "guard": f"1 added, {LEAVE_GUARDS} removed",
        "graph": "1 added, 2 removed",  # the second half, which is a graph after the break: its inputs, its nodes
        "fusion": "1 changed",
        "kernel": "2 changed",  # the kernel of the second half is the same, in the graph after the break
    },
    ("broken", "base"): {
        "verdict": "1 changed",
        "break": "1 removed",
        "guard": f"{LEAVE_GUARDS} added, 1 removed",
        "graph": "2 added, 1 removed",
        "fusion": "1 changed",
        "kernel": "2 changed",
    },
    ("broken", "item_break"): {
        "break": "1 added, 1 removed",
        "recompile": "1 added",
        "guard": "3 added, 3 removed",
        "graph": "3 added, 1 changed",
        "fusion": "1 changed",
        "kernel": "1 added, 1 changed",
    },
}

EDITS = ("other_op", "wider", "resized", "no_sum", "double")
SAME = ("again", "seed", "moved", "renamed", "mode")
"""Programs that compile like `base`, so that a pair with one of them has the differences of the pair with `base`."""
TURNED = {"added": "removed", "removed": "added", "changed": "changed"}


def turned(found: dict[str, str]) -> dict[str, str]:
    """Return the differences of a pair from those of the same pair the other way around."""
    parts = {what: [each.split() for each in text.split(", ")] for what, text in found.items()}
    return {
        what: ", ".join(f"{number} {TURNED[how]}" for number, how in sorted(each, key=lambda one: TURNED[one[1]]))
        for what, each in parts.items()
    }


PAIRS |= {
    **dict.fromkeys(pairwise(SAME), EQUAL),
    **{(after, before): turned(PAIRS[before, after]) for before, after in (
        ("base", "other_op"), ("base", "no_sum"), ("base", "wider"), ("base", "double"), ("broken", "item_break"),
    )},
    **{(same, edit): PAIRS["base", edit] for same, edit in zip(SAME, EDITS, strict=True)},
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), PAIRS)
def test_pair_has_exactly_the_differences_of_its_edit(before: str, after: str):
    found = differences(before, after)
    assert summary(found) == PAIRS[before, after]
    assert found.equal == (PAIRS[before, after] == EQUAL)
    assert {What.BREAK, What.GRAPH, What.GUARD, What.FUSION, What.KERNEL, What.RECOMPILE} <= set(found.compared)


def test_change_names_the_user_line_and_the_nodes():
    (change,) = [each for each in differences("base", "one_op_more").changes if each.what is What.GRAPH]
    assert (change.where, change.was, change.now) == ("net.py:14", None, "mul(relu, 2) -> f32[4, 32]")


def test_other_op_at_one_place_is_one_change():
    (change,) = [each for each in differences("base", "other_op").changes if each.what is What.GRAPH]
    assert (change.was, change.now) == ("relu(linear) -> f32[4, 32]", "tanh(linear) -> f32[4, 32]")


def test_size_of_an_input_is_named_once():
    found = differences("base", "wider")
    (graph,) = [each for each in found.changes if each.what is What.GRAPH]
    (guard,) = [each for each in found.changes if each.what is What.GUARD]
    assert (graph.was, graph.now) == ("x: f32[4, 16]", "x: f32[6, 16]")
    assert (guard.was, guard.now) == ("x: size=[4, 16]", "x: size=[6, 16]")


def test_bytes_that_follow_from_a_size_are_part_of_its_change():
    found = differences("base", "wider")
    (graph,) = [each for each in found.changes if each.what is What.GRAPH]
    assert graph.follows == (
        "1 kernel, equal but for bytes: 4,640, then 5,344",
        "addmm (aten.addmm): 4,640 bytes, then 5,344",
    )
    assert not [each for each in found.changes if each.what is What.KERNEL and "extern" in (each.was or "")]


def test_kernel_has_a_source_diff_and_its_bytes():
    (change,) = [each for each in differences("base", "no_sum").changes if each.what is What.KERNEL]
    assert change.was == "cpp_fused_sigmoid_sum_1 (aten.sum, aten.sigmoid): 144 bytes"
    assert change.now == "cpp_fused_sigmoid_1 (aten.sigmoid): 256 bytes"
    assert change.detail[:2] == ("--- cpp_fused_sigmoid_sum_1", "+++ cpp_fused_sigmoid_1")
    assert not any("fused" in line for line in change.detail[2:]), "the kernel's name is no difference"


def test_break_is_named_by_its_statement():
    (change,) = [each for each in differences("base", "broken").changes if each.what is What.BREAK]
    assert (change.where, change.now) == ("net.py:15", "print('hidden') (GB0059)")


def test_what_neither_log_measured_is_not_compared():
    found = differences("base", "again")
    assert dict(found.not_compared).keys() == {What.COVERAGE, What.ACCURACY, What.MEMORY, What.CACHE}


def test_own_log_against_torchs_compares_only_what_both_have():
    before = load_log(DATA / "print_break.log")
    after = load_log(DATA / "print_break.torch.log")
    found = compare(before, after)
    assert {What.FUSION, What.KERNEL} <= dict(found.not_compared).keys()
    assert summary(found).keys() <= {"break", "skip"}, "the same program; torch's own log says less about a break"


def test_files_are_there():
    assert {name for pair in PAIRS for name in pair} == {
        path.name.removesuffix(".log.gz") for path in Path(DATA / "diff").iterdir()
    }
