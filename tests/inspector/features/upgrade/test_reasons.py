"""Reasons are found by putting differences back; here, a function stands for the runs."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ctrace.inspector.features.upgrade.reasons import (
    MOST_PAIR_TRIALS,
    Difference,
    Key,
    ReasonSearch,
    TorchFunction,
    differences_of,
    differing_functions,
    earlier_function,
    known_without_trial,
    library_reason,
    likely_files,
    likely_functions,
    located_in_torch,
    new_options,
    partners_of,
    reason_of,
    remaining_reason,
    still_there,
    variables_gone,
)
from ctrace.inspector.features.upgrade.upgrade_model import EnvironmentFacts, Reason, ReasonKind, UpgradeChange
from ctrace.inspector.features.upgrade.upgrade_search import _control, worse
from ctrace.inspector.runs.capture_request import TorchSetting, TorchSource
from ctrace.reports.wording.upgrade_wording import reason_text

KEYS = [("graph", "changed", f"net.py:{number}", "") for number in range(4)]


def option(name: str) -> Difference:
    return Difference(Reason(ReasonKind.CONFIG, name, advice=f"set {name}"), TorchSetting(name, "1"))


def causes(*needed: set[str]) -> Callable[[tuple[Difference, ...]], set[Key] | None]:
    """Stand for runs in which each change is gone if all differences of its cause are put back."""

    def changes_with(among: tuple[Difference, ...]) -> set[Key]:
        names = {each.name for each in among}
        return {key for key, cause in zip(KEYS, needed, strict=False) if not cause or not cause <= names}

    return changes_with


def found(search: ReasonSearch) -> dict[Key, set[str]]:
    return {key: {each.name for each in some} for key, some in search.explained.items()}


@pytest.mark.parametrize("number", [1, 2, 3, 8, 33])
def test_each_change_gets_its_own_cause(number: int):
    names = [f"option{at}" for at in range(number)]
    needed = [{names[0]}, {names[-1]}, {names[number // 2]}, set[str]()]
    search = ReasonSearch(causes(*needed), 100)
    search.search(KEYS, [option(name) for name in names])
    assert found(search) == dict(zip(KEYS[:3], needed[:3], strict=True))
    assert search.is_complete


def test_nothing_is_tried_further_if_everything_put_back_changes_nothing():
    search = ReasonSearch(causes(set(), set(), set(), set()), 100)
    search.search(KEYS, [option(f"option{at}") for at in range(20)])
    assert (search.explained, search.trials) == ({}, 1)


def test_two_that_explain_a_change_only_together_are_both_named():
    names = [f"option{at}" for at in range(6)]
    search = ReasonSearch(causes({names[1], names[4]}, {names[2]}), 100)
    search.search(KEYS[:2], [option(name) for name in names])
    assert found(search) == {KEYS[0]: {names[1], names[4]}, KEYS[1]: {names[2]}}
    joint = reason_of(search.explained[KEYS[0]])
    assert (joint.name, joint.note, joint.advice) == (
        "option1, option4",
        "only together",
        "set option1; set option4",
    )


def test_an_option_that_cannot_be_put_back_does_not_hide_others():
    plain = causes({"option2"})

    def changes_with(among: tuple[Difference, ...]) -> set[Key] | None:
        return None if any(each.name == "broken" for each in among) else plain(among)

    search = ReasonSearch(changes_with, 100)
    search.search(KEYS[:1], [option("broken"), *(option(f"option{at}") for at in range(5))])
    assert found(search) == {KEYS[0]: {"option2"}}
    assert not search.is_complete


def test_the_number_of_runs_is_bounded():
    names = [f"option{at}" for at in range(64)]
    search = ReasonSearch(causes({names[5]}), 3)
    search.search(KEYS[:1], [option(name) for name in names])
    assert search.trials == 3
    assert search.is_cut
    assert not search.explained


SOURCE = '"""A docstring."""\n\nimport torch\n\n\ndef f(x):\n    # a comment\n    return torch.relu(x)\n\n\ndef g(x):\n    return x\n'


def facts(folder: Path, source: str, version: str, **changes: object) -> EnvironmentFacts:
    packages = folder / "site-packages"
    (packages / "small").mkdir(parents=True)
    (packages / "small" / "__init__.py").write_text("")
    (packages / "small" / "layers.py").write_text(source)
    (packages / f"small-{version}.dist-info").mkdir()
    values: dict[str, object] = {
        "python": "3.11.7",
        "suffix": ".so",
        "torch": "2.13.0",
        "torch_folder": str(folder),
        "packages": {"small": version, "torch": "2.13.0"},
        "folders": {"small": str(packages), "torch": str(packages)},
        "modules": {"small": ("small",), "torch": ("torch",)},
        "config": {},
        "lines": {},
        "variables": {},
    }
    return EnvironmentFacts(**{**values, **changes})  # type: ignore[arg-type]


def test_differences_are_options_that_both_have_and_packages_with_other_code(tmp_path: Path):
    config = {"torch._inductor.config.a": "1", "torch._inductor.config.same": "true"}
    before = facts(tmp_path / "a", SOURCE, "1.0", config={**config, "torch._inductor.config.gone": "1"})
    after = facts(
        tmp_path / "b",
        SOURCE.replace("relu", "gelu"),
        "1.1",
        config={**config, "torch._inductor.config.a": "2"},
        lines={"torch._inductor.config.a": "torch/_inductor/config.py:7"},
    )
    package, setting = differences_of(before, after, ["small", "torch"])
    assert (package.name, dict(package.tops)) == (
        "small",
        {
            "small": str(tmp_path / "a/site-packages/small"),
            "small-1.0.dist-info": str(tmp_path / "a/site-packages/small-1.0.dist-info"),
        },
    )
    assert setting.setting == TorchSetting("torch._inductor.config.a", "1")
    assert (setting.reason.before, setting.reason.after) == ("1", "2")
    assert setting.reason.source == "torch/_inductor/config.py:7"
    assert differences_of(before, after, []) == [setting]


def test_comments_and_docstrings_are_no_difference(tmp_path: Path):
    before = facts(tmp_path / "a", SOURCE, "1.0")
    other = SOURCE.replace("A docstring.", "Another one.").replace("# a comment\n", "# two\n    # comments\n")
    assert differences_of(before, facts(tmp_path / "b", other, "1.0"), ["small"]) == []


def test_the_reason_of_a_package_has_the_line_nearest_to_the_change(tmp_path: Path):
    before = facts(tmp_path / "a", SOURCE, "1.0")
    after = facts(tmp_path / "b", SOURCE.replace("relu", "gelu").replace("    return x\n", "    return x + 1\n"), "1.1")
    reason = differences_of(before, after, ["small"])[0].reason
    near = library_reason(reason, UpgradeChange("graph", "changed", "small/layers.py:12"), before, after, ())
    assert (near.source, near.before, near.after) == ("small/layers.py:12", "return x", "return x + 1")
    first = library_reason(reason, UpgradeChange("eager", "changed", "scenario base"), before, after, ())
    assert (first.source, first.before, first.after) == (
        "small/layers.py:8",
        "return torch.relu(x)",
        "return torch.gelu(x)",
    )


def test_a_variable_that_only_the_earlier_torch_reads_is_a_difference(tmp_path: Path):
    before = facts(tmp_path / "a", SOURCE, "1.0", variables={"TORCH_OLD": "torch/a.py:3", "TORCH_SAME": "torch/a.py:4"})
    after = facts(tmp_path / "b", SOURCE, "1.0", variables={"TORCH_SAME": "torch/a.py:4"})
    (found,) = variables_gone(before, after)
    assert (found.variable, found.reason.source) == ("TORCH_OLD", "torch/a.py:3")
    assert reason_of((found,)).note == "without it, the earlier environment does the same"


def test_what_stays_is_of_torch_only_if_nothing_else_is_left(tmp_path: Path):
    before = facts(tmp_path / "a", SOURCE, "1.0")
    same = facts(tmp_path / "b", SOURCE, "1.0")
    newer = facts(tmp_path / "c", SOURCE, "1.0", torch="2.15.0")
    other = facts(tmp_path / "d", SOURCE, "1.0", torch="2.15.0", python="3.12.1")
    tried = [option("a")]
    assert remaining_reason(before, newer, tried, is_complete=True).kind is ReasonKind.TORCH
    assert remaining_reason(before, same, tried, is_complete=True).kind is ReasonKind.UNKNOWN
    assert remaining_reason(before, newer, tried, is_complete=False).kind is ReasonKind.UNKNOWN
    assert remaining_reason(before, other, tried, is_complete=True).kind is ReasonKind.UNKNOWN


def test_a_break_that_only_one_torch_raises_has_its_place(tmp_path: Path):
    for name, title in (("a", "Old title"), ("b", "New title")):
        (tmp_path / name / "_dynamo").mkdir(parents=True)
        (tmp_path / name / "_dynamo" / "graph_break_registry.json").write_text(
            '{"GB0001": [{"Gb_type": "Old title"}]}' if name == "a" else "{}"
        )
        (tmp_path / name / "_dynamo" / "variables.py").write_text(f'x = 1\nunimplemented(gb_type="{title}")\n')
    before = facts(tmp_path / "x", SOURCE, "1.0", torch_folder=str(tmp_path / "a"))
    after = facts(tmp_path / "y", SOURCE, "1.0", torch_folder=str(tmp_path / "b"))
    change = UpgradeChange("break", "removed", "net.py:3", was="print(x) (GB0001)")
    reason = located_in_torch(Reason(ReasonKind.TORCH, "torch"), change, before, after)
    assert (reason.name, reason.source) == ("graph break GB0001", "torch/_dynamo/variables.py:2")
    assert (reason.before, reason.after) == ("Old title", None)


STATE = '___check_global_state() against {"a":1,"old":{"x":1}}'


@pytest.mark.parametrize(
    ("now", "torch", "expected"),
    [
        ('___check_global_state() against {"a":1,"new":2}', "2.15.0", ("old", "new")),
        ('___check_global_state() against {"a":1,"old":{"x":1},"new":2}', "2.15.0", (None, "new")),
        ('___check_global_state() against {"a":2,"new":2}', "2.15.0", None),  # an option may have changed the value
        (STATE.replace("1", "2"), "2.15.0", None),
        ('___check_global_state() against {"a":1,"new":2}', "2.13.0", None),
        ("another guard", "2.15.0", None),
    ],
)
def test_other_fields_of_the_state_that_a_guard_compares_need_no_trial(
    tmp_path: Path, now: str, torch: str, expected: tuple[str | None, str | None] | None
):
    before, after = facts(tmp_path / "a", SOURCE, "1.0"), facts(tmp_path / "b", SOURCE, "1.0", torch=torch)
    reason = known_without_trial(UpgradeChange("guard", "changed", "net.py:3 f", STATE, now), before, after)
    if reason is None:
        assert expected is None
        return
    assert (reason.kind, reason.name) == (ReasonKind.TORCH, "fields of ___check_global_state()")
    assert (reason.before, reason.after) == expected


def test_switches_that_only_the_later_torch_has_are_turned_over(tmp_path: Path):
    before = facts(tmp_path / "a", SOURCE, "1.0", config={"torch._inductor.config.old": "true"})
    config = {"torch._inductor.config.old": "false", "torch._inductor.config.new": "true", "torch._x_config.n": "3"}
    after = facts(tmp_path / "b", SOURCE, "1.0", torch="2.15.0", config=config)
    (found,) = new_options(before, after)
    assert found.setting == TorchSetting("torch._inductor.config.new", "false")
    reason = reason_of((found,))
    assert (reason.kind, reason.before, reason.after) == (ReasonKind.CONFIG, None, "True")
    assert reason.note == "only torch 2.15.0 has it; at False, the change is gone"
    assert reason.advice == "torch._inductor.config.new = False keeps the old behavior"


def test_more_may_be_searched_without_effect_on_what_is_known():
    search = ReasonSearch(causes({"a"}, {"function"}, {"never"}), 100)
    search.search(KEYS[:3], [option("a"), option("b")])
    before = search.trials
    broken = search.followed_by(lambda _among: None)
    broken.more(KEYS[1:3], [option("c"), option("d")], 2)
    assert (broken.is_complete, broken.is_cut, broken.trials) == (True, False, before + 2)
    search.more(KEYS[1:3], [option("other"), option("function")], 8)
    assert found(search) == {KEYS[0]: {"a"}, KEYS[1]: {"function"}}


def test_a_function_may_explain_a_change_together_with_one_of_an_earlier_model(tmp_path: Path):
    """As batch norm from 2.13 to 2.14: its decomposition, and the pass that drops a product with 1."""
    both = facts(tmp_path / "a", SOURCE, "1.0"), facts(tmp_path / "b", SOURCE, "1.0", torch="2.15.0")
    decomposition, no_ops = (
        earlier_function(TorchFunction("_decomp/decompositions.py", name, 3, 5), *both) for name in ("norm", "no_ops")
    )
    (partner,) = partners_of([option("a"), no_ops])
    search = ReasonSearch(causes({"norm", "no_ops"}), 100)
    search.more(KEYS[:1], [decomposition], 1)
    assert search.explained == {}
    search.more(KEYS[:1], [partner, decomposition], MOST_PAIR_TRIALS)
    assert found(search) == {KEYS[0]: {"norm", "no_ops"}}
    assert search.trials <= 1 + MOST_PAIR_TRIALS
    reason = reason_of(search.explained[KEYS[0]])
    assert (reason.kind, reason.name, reason.note) == (ReasonKind.TORCH, "no_ops, norm", "only together")


def test_a_change_in_another_form_is_still_there():
    """As with torch's option `canonicalize_output_graph_node_order`, which renames the nodes of a graph."""
    first = {("graph", "removed", "net.py:3", "aten.sqrt(add)"), ("kernel", "changed", "net.py:3", "k")}
    assert still_there(first, {("graph", "removed", "net.py:3", "aten.sqrt(add_2)")}) == {
        ("graph", "removed", "net.py:3", "aten.sqrt(add)"),
        ("graph", "removed", "net.py:3", "aten.sqrt(add_2)"),
    }
    assert still_there(first, set()) == set()


def test_a_switch_turned_over_says_nothing_if_something_else_changes():
    search = ReasonSearch(lambda _among: {("kernel", "added", "net.py:9", "new")}, 100)
    search.more(KEYS[:1], [option("switch")], 8, alone=True)
    assert search.explained == {}
    search.more(KEYS[:1], [option("switch")], 8)
    assert found(search) == {KEYS[0]: {"switch"}}


@pytest.mark.parametrize(("kind", "counts"), [("break", False), ("skip", False), ("guard", True), ("kernel", True)])
def test_a_function_whose_earlier_code_breaks_graphs_explains_nothing(kind: str, counts: bool):
    """Where nothing is compiled any more, every guard is gone."""
    search = ReasonSearch(lambda _among: {(kind, "added", "net.py:9", "new")}, 100)
    search.more(KEYS[:1], [option("function")], 8, works=True)
    assert bool(search.explained) is counts


def test_what_is_gone_with_nothing_put_back_has_no_reason():
    """As `#pragma omp parallel num_threads(2)`, which a new process writes and a fork does not."""
    search = ReasonSearch(causes({"a"}, {"b"}), 100)
    search.search(KEYS[:2], [option("a"), option("b")])
    asked: list[str] = []

    def control() -> set[Key]:
        asked.append("control")
        return {KEYS[1]}

    runs: Any = SimpleNamespace(control=control)
    _control(search, runs)
    assert found(search) == {KEYS[1]: {"b"}}
    assert (search.unsteady, asked) == ({KEYS[0]}, ["control"])
    none = ReasonSearch(causes({"a"}), 100)
    none.search(KEYS[:1], [option("other")])
    _control(none, runs)
    assert asked == ["control"]


def test_a_function_of_torch_is_named_with_both_places(tmp_path: Path):
    before, after = facts(tmp_path / "a", SOURCE, "1.0"), facts(tmp_path / "b", SOURCE, "1.0", torch="2.15.0")
    found = earlier_function(TorchFunction("_inductor/graph.py", "Graph.run", 3, 5), before, after)
    reason = reason_of((found,))
    assert (reason.kind, reason.name, reason.source) == (ReasonKind.TORCH, "Graph.run", "torch/_inductor/graph.py:5")
    assert (reason.before, reason.after) == ("torch/_inductor/graph.py:3", "torch/_inductor/graph.py:5")
    assert reason_text(reason) == "torch Graph.run: torch/_inductor/graph.py:3 → torch/_inductor/graph.py:5"
    assert found.function == TorchSource(
        "torch._inductor.graph", str(Path(before.torch_folder) / "_inductor/graph.py"), ("Graph.run",)
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (UpgradeChange("break", "added", "a", now="x"), True),
        (UpgradeChange("recompile", "removed", "a", was="x"), False),
        (UpgradeChange("recompile", "changed", "a", "x (size, 2 times)", "x (size, 3 times)"), True),
        (UpgradeChange("verdict", "changed", "run", "compiled", "partial"), True),
        (UpgradeChange("verdict", "changed", "run", "incomplete", "compiled"), None),
        (UpgradeChange("coverage", "changed", "run", "3 of 9 ops compiled", "8 of 9 ops compiled"), False),
        (UpgradeChange("coverage", "changed", "run", "9 of 9 ops compiled", "8 of 8 ops compiled"), None),
        (UpgradeChange("guard cost", "changed", "run", "3.0 us", "30.0 us"), True),
        (UpgradeChange("kernel", "changed", "a", "k", "k2"), None),
        (UpgradeChange("guard", "added", "a", now="x"), None),
        (UpgradeChange("eager", "changed", "a", "f32[2]", "f64[2]"), None),
    ],
)
def test_what_is_worse(change: UpgradeChange, expected: bool | None):
    assert worse(change) is expected


@pytest.mark.parametrize(
    ("moved", "expected"), [((4096, 8192), True), ((4096, 4096), None), ((4096, 2048), None), (None, None)]
)
def test_a_kernel_is_worse_only_if_all_kernels_move_more(moved: tuple[int, int] | None, expected: bool | None):
    assert worse(UpgradeChange("kernel", "changed", "a", "k: 1,024 bytes", "k: 2,048 bytes"), moved) is expected


def test_a_time_is_the_same_change_in_a_further_run():
    one, other = (UpgradeChange("guard cost", "changed", "run", was, "90.0 us") for was in ("3.0 us", "3.1 us"))
    assert one.key == other.key
    assert UpgradeChange("graph", "changed", "run", "a", "b").key != UpgradeChange("graph", "changed", "run", "c").key


def test_functions_that_share_no_word_with_a_change_are_tried_by_file_the_likeliest_first():
    """A pass that merges equal nodes names no op."""
    change = UpgradeChange("graph", "changed", "net.py:3", "2 ops", "3 ops", ("+ aten.ne.Scalar",))
    functions = [
        TorchFunction(file, name, 1, 2, frozenset(words))
        for file, name, words in (
            ("_inductor/scheduler.py", "Scheduler.fuse", ("fuse",)),
            ("_functorch/aot.py", "create", ("one",)),
            ("_functorch/partitioners.py", "partition", ("node_key", "merge")),
            ("_functorch/partitioners.py", "classify", ("kept",)),
            ("_dynamo/guards.py", "GuardBuilder.TENSOR_MATCH", ("alias", "guard")),
        )
    ]
    assert likely_functions([change], functions) == []
    assert [[each.name for each in group] for group in likely_files([change], functions)] == [
        ["partition", "classify"],
        ["create"],
        ["Scheduler.fuse"],
    ]


def test_a_function_with_other_parameters_is_not_tried(tmp_path: Path):
    """It cannot take the earlier code, and a run with it would fail."""
    for folder, text in (
        ("before", "def same(x):\n    return 1\ndef wider(x):\n    return 1\ndef spread(x):\n    return 1\n"),
        (
            "after",
            "def same(x):\n    return 2\ndef wider(x, y=0):\n    return 2\ndef spread(x, *, y=0):\n    return 2\n",
        ),
    ):
        (tmp_path / folder / "_functorch").mkdir(parents=True)
        (tmp_path / folder / "_functorch" / "some.py").write_text(text)
    called = {"_functorch/some.py": ["same", "wider", "spread"]}
    found = differing_functions(tmp_path / "before", tmp_path / "after", called, ("_functorch/",))
    assert [each.name for each in found] == ["same"]


def test_earlier_code_may_read_what_the_earlier_module_imports(tmp_path: Path):
    for folder, text in (
        ("before", "from os.path import join\n\ndef one(x):\n    return join(x)\ndef two(x):\n    return gone(x)\n"),
        ("after", "def one(x):\n    return x\ndef two(x):\n    return x\n"),
    ):
        (tmp_path / folder / "_dynamo").mkdir(parents=True)
        (tmp_path / folder / "_dynamo" / "guards.py").write_text(text)
    called = {"_dynamo/guards.py": ["one", "two"]}
    found = differing_functions(tmp_path / "before", tmp_path / "after", called, ("_dynamo/",))
    assert [each.name for each in found] == ["one"]


def test_assertions_and_annotations_are_no_difference(tmp_path: Path):
    for folder, text in (
        ("before", "def f(x):\n    assert x, 'no'\n    y = x\n    return y\ndef g(x):\n    return x\n"),
        (
            "after",
            "def f(x: int):\n    if not x:\n        raise AssertionError('no')\n    y: int = x\n    return y\n"
            "def g(x):\n    if x:\n        raise ValueError\n    return x\n",
        ),
    ):
        (tmp_path / folder / "_inductor").mkdir(parents=True)
        (tmp_path / folder / "_inductor" / "ir.py").write_text(text)
    called = {"_inductor/ir.py": ["f", "g"]}
    found = differing_functions(tmp_path / "before", tmp_path / "after", called, ("_inductor/",))
    assert [each.name for each in found] == ["g"]
