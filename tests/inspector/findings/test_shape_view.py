"""Sizes by function, which sizes each dimension had, and why a mark is violated."""

from typing import Any

import pytest
from msgspec import structs

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.session import Session
from ctrace.inspector.facts.shape_facts import Dimension, DimKind, DimPolicy, Shaped
from ctrace.inspector.findings.shape_view import by_function, short, violations
from ctrace.inspector.findings.shapes_document import Mark, marks
from tests.support import sizes
from tests.support.helpers import recorded
from tests.support.sizes import FIXED, FREE, SIZES, VIOLATED, graph, input_of, sized


def _lines(*shapes: Shaped, torch: str = "2.13.0") -> list[str]:
    return [mark.line or mark.note for mark in _marks(*shapes, torch=torch)]


def _marks(*shapes: Shaped, torch: str = "2.13.0") -> tuple[Mark, ...]:
    return marks(by_function(Session(shapes=shapes)), torch)


def _automatic(size: int, **parts: Any) -> Dimension:
    return structs.replace(sized(0, size, FREE, DimPolicy.AUTOMATIC, low=2), **parts)


class TestGroups:
    def test_the_newest_graph_stands_for_its_function(self) -> None:
        forward, looped, paired = by_function(SIZES)
        assert (forward.latest.compilation, forward.graphs) == ("0/1", 2)
        assert (looped.latest.compilation, paired.latest.compilation) == ("1/1", "2/0")

    def test_what_differed_before_is_told(self) -> None:
        (before,) = by_function(SIZES, "forward")[0].earlier
        assert before.compilation == "0/0"
        assert before.differences == ("x.size(0) static 4", "mask.size(0) static 4")

    def test_sizes_that_were_fixed_each_time_are_told_once(self) -> None:
        looped = by_function(SIZES, "looped")[0]
        assert looped.earlier == ()
        assert looped.tensors[0].dims[0].took == ("4", "8")
        assert looped.tensors[0].dims[0].one_graph_each

    def test_static_parameters_are_hidden_unless_asked_for(self) -> None:
        assert [each.tensor.role for each in by_function(SIZES)[0].tensors if not each.is_shown] == ["parameter"]

    def test_a_parameter_that_took_several_sizes_is_shown(self) -> None:
        graphs = [
            graph(f"0/{n}", input_of("w", sized(0, n + 2, policy=DimPolicy.PARAMETER), role="parameter"))
            for n in (0, 1)
        ]
        assert by_function(Session(shapes=tuple(graphs)))[0].tensors[0].is_shown

    @pytest.mark.parametrize(("name", "todo"), [("forwrd", "did you mean forward?"), ("z", "compiled ones: forward, ")])
    def test_a_wrong_name_is_met_with_the_right_one(self, name: str, todo: str) -> None:
        with pytest.raises(TargetError) as caught:
            by_function(SIZES, name)
        assert caught.value.todo.startswith(todo)


@pytest.mark.parametrize(
    ("dim", "words"),
    [
        (sized(0, 8), "static 8"),
        (sized(0, 1, DimKind.ZERO_ONE), "always 1"),
        (sized(0, 8, FIXED, fixed=sizes.LOOPED), "fixed to 8"),
        (sized(0, 8, FIXED), "fixed to 8"),
        (sized(0, 8, FREE, low=2), "2 or more"),
        (sized(0, 8, FREE, high=9), "9 or less"),
        (sized(0, 8, FREE, low=4, high=9), "4 to 9"),
        (sized(0, 8, FREE, low=2, became="2 * x.size(0)"), "always equal to 2 * x.size(0)"),
        (sized(0, 8, DimKind.DUCK, low=2, same_as=("y.size(1)", "z.size(0)")), "always equal to y.size(1)"),
        (sized(0, 8, DimKind.UNBACKED, low=0), "unbacked, 0 or more"),
        (sized(None, 8, FREE), "dynamic"),
    ],
)
def test_words(dim: Dimension, words: str) -> None:
    assert short(dim) == words


class TestMarks:
    def test_of_a_size_that_varied(self) -> None:
        assert _lines(graph("0/0", input_of("x", sized(0, 4))), graph("0/1", input_of("x", _automatic(8)))) == [
            "torch._dynamo.mark_dynamic(x, 0)",
            "TORCH_COMPILE_DYNAMIC_SOURCES=\"L['x']:0\"",
        ]

    def test_an_older_torch_takes_whole_tensors_only(self) -> None:
        shapes = graph("0/0", input_of("x", sized(0, 4))), graph("0/1", input_of("x", _automatic(8)))
        assert "TORCH_COMPILE_DYNAMIC_SOURCES=\"L['x']\"" in _lines(*shapes, torch="2.11.0+cpu")

    def test_a_range_needs_both_ends_and_no_other_condition(self) -> None:
        low = structs.replace(sizes.BRANCHED, text="x.size(0) > 3")
        high = structs.replace(sizes.BRANCHED, text="x.size(0) < 100")
        other = structs.replace(sizes.BRANCHED, text="x.size(0) % 2 == 0")
        first = graph("0/0", input_of("x", sized(0, 4)))
        for conditions, end, given in (
            ((low, high), 99, ", min=4, max=99"), ((low,), None, ""), ((low, high, other), 99, ""), ((), 99, ""),
        ):  # fmt: skip
            dim = _automatic(8, low=4, high=end, conditions=conditions)
            assert f"torch._dynamo.mark_dynamic(x, 0{given})" in _lines(first, graph("0/1", input_of("x", dim)))

    def test_what_was_fixed_is_not_to_be_marked(self) -> None:
        (line,) = _lines(*SIZES.shapes[2:4])
        assert line == "Marking x.size(0) of looped dynamic raises ConstraintViolationError until line 12 changes."

    def test_what_was_fixed_in_any_graph_is_not_either(self) -> None:
        dim = sized(0, 4, FIXED, DimPolicy.AUTOMATIC)
        lines = _lines(graph("0/0", input_of("x", dim)), graph("0/1", input_of("x", _automatic(8))))
        assert not any("mark_dynamic" in line for line in lines)

    def test_parameters_have_the_setting_only(self) -> None:
        graphs = [
            graph(f"0/{n}", input_of("w", sized(0, n + 2, policy=DimPolicy.PARAMETER), role="parameter"))
            for n in (0, 1)
        ]
        assert _lines(*graphs) == ["TORCH_COMPILE_DYNAMIC_SOURCES=\"L['w']:0\""]

    def test_what_the_function_made_itself_has_the_setting_only(self) -> None:
        shapes = graph("1/0", input_of("y", sized(0, 4))), graph("1/1", input_of("y", _automatic(8)), resumes=True)
        assert _lines(*shapes) == ["TORCH_COMPILE_DYNAMIC_SOURCES=\"L['y']:0\""]

    @pytest.mark.parametrize(
        "policy", [DimPolicy.MARKED_DYNAMIC, DimPolicy.LISTED, DimPolicy.ALL_DYNAMIC, DimPolicy.UNKNOWN]
    )
    def test_what_is_dynamic_already_needs_nothing(self, policy: DimPolicy) -> None:
        dims = [structs.replace(_automatic(size), policy=policy) for size in (4, 8)]
        assert _lines(*(graph(f"0/{n}", input_of("x", dim)) for n, dim in enumerate(dims))) == []

    def test_duck_shapes_that_part(self) -> None:
        twin = sized(0, 8, DimKind.DUCK, DimPolicy.ALL_DYNAMIC, low=2, same_as=("y.size(0)",))
        alone = sized(0, 9, FREE, DimPolicy.ALL_DYNAMIC, low=2)
        lines = _lines(graph("0/0", input_of("x", twin)), graph("0/1", input_of("x", alone)))
        assert lines[0] == "torch._dynamo.mark_dynamic(x, 0)"

    def test_mark_static_is_to_go(self) -> None:
        dims = [sized(0, size, policy=DimPolicy.MARKED_STATIC) for size in (4, 8)]
        (line,) = _lines(*(graph(f"0/{n}", input_of("x", dim)) for n, dim in enumerate(dims)))
        assert line.endswith("mark_static costs a graph for each: remove the mark.")

    def test_zero_and_one_apart(self) -> None:
        dims = [sized(0, size, DimKind.ZERO_ONE, DimPolicy.ALL_DYNAMIC) for size in (0, 1)]
        (line,) = _lines(*(graph(f"0/{n}", input_of("x", dim)) for n, dim in enumerate(dims)))
        assert line == "torch._dynamo.decorators.mark_unbacked(x, 0)"

    @pytest.mark.parametrize("source", ["L['$(rm)']", "L['a b']", "L['a,b']", 'L["x"]', "L['`x`']"])
    def test_names_that_a_shell_would_expand_are_not_offered(self, source: str) -> None:
        tensors = [
            structs.replace(input_of("x", dim), source=source, name=source) for dim in (sized(0, 4), _automatic(8))
        ]
        assert not any("SOURCES" in line for line in _lines(*(graph(f"0/{n}", each) for n, each in enumerate(tensors))))

    def test_a_condition_on_data_can_be_promised(self) -> None:
        needed = structs.replace(sizes.BRANCHED, source="index.shape[0] > 2")
        (mark,) = _marks(graph("0/0", needed=(needed, structs.replace(needed, source=""))))
        assert mark.line == "torch._check(index.shape[0] > 2)"
        assert mark.note.startswith("before line 10")


class TestViolations:
    def test_line_reason_and_what_holds_it(self) -> None:
        (sentence,) = violations(VIOLATED)
        assert sentence.startswith("x.size(0) is marked dynamic, but can only be 8. Line 12: `for i in range")
        assert sentence.endswith("Also static at 8: positions.size(0) (parameter).")

    def test_a_range_that_is_too_wide(self) -> None:
        dim = sized(0, 8, FREE, DimPolicy.MARKED_DYNAMIC, low=4, ranged=True, conditions=(sizes.BRANCHED,))
        shaped = graph("0/0", input_of("x", dim), fail_type="ConstraintViolationError")
        assert violations(Session(shapes=(shaped,))) == (
            "x.size(0) is marked with a range, but parts of it are impossible. Line 10: The graph holds the branch.",
        )

    def test_one_that_must_equal_another(self) -> None:
        dim = sized(0, 8, FREE, DimPolicy.MARKED_DYNAMIC, became="2 * y.size(0)", conditions=(sizes.BRANCHED,))
        (sentence,) = violations(
            Session(shapes=(graph("0/0", input_of("x", dim), fail_type="ConstraintViolationError"),))
        )
        assert sentence.startswith("x.size(0) is marked dynamic, but must always equal 2 * y.size(0). Line 10:")

    def test_without_one_nothing_is_said(self) -> None:
        assert violations(SIZES) == ()

    def test_recorded(self) -> None:
        (sentence,) = violations(recorded("constraint_violation"))
        assert "x.size(0) is marked dynamic, but can only be 16. Line 12: `return x + self.positions`" in sentence
        assert "self.positions.size(0) (parameter)" in sentence


def test_recorded_lines() -> None:
    session = recorded("sizes")
    lines = [mark.line for mark in marks(by_function(session), session.environment.torch) if mark.line]
    assert lines == [
        "torch._dynamo.mark_dynamic(x, 0)",
        "torch._dynamo.mark_dynamic(items[0], 0)",
        "TORCH_COMPILE_DYNAMIC_SOURCES=\"L['x']:0,L['items'][0]:0,L['factor']\"",
    ]
