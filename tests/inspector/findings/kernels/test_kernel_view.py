"""Sums over kernels, their nodes and buffers, names, lines."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.graph_facts import GraphStage, Printed
from ctrace.inspector.facts.kernel_facts import Launch, Stage
from ctrace.inspector.findings.kernels.at_line import (
    check_file,
    kernels_of,
    nearest,
    passages,
    wanted,
    why_none,
    wrappers,
)
from ctrace.inspector.findings.kernels.kernel_view import (
    KernelOfPart,
    PartKernels,
    Work,
    added,
    largest_first,
    named,
    parts,
    rows,
    work_of,
)
from tests.support import kernelsessions as made
from tests.support.printed import session_of, trained

GRAPH = """\
class <lambda>(torch.nn.Module):
    def forward(self, x: "f32[2, 3][3, 1]cpu"):
        # File: /p/a.py:8 in f, code: y = x.exp()
        y: "f32[2, 3][3, 1]cpu" = {}
        return (y,)
"""


def test_the_graph_part_that_moves_most_comes_first() -> None:
    def part(graph: str, *sizes: int | None) -> PartKernels:
        moved = (Work(each, 0 if each is not None else None, None) for each in sizes)
        return PartKernels(graph, Stage.FORWARD, tuple(KernelOfPart(made.MM, each, None, (), (), ()) for each in moved))

    found = [part("0/0", 9), part("1/0", None, 4096), part("2/0", None), part("3/0", 9, 8192)]
    assert [each.graph for each in largest_first(found)] == ["3/0", "1/0", "0/0", "2/0"]


class TestWork:
    def test_calls_are_added_up(self) -> None:
        assert work_of(made.MM) == Work(57344, 24576, 786432)

    @pytest.mark.parametrize(
        "launches", [(), (Launch(read=1, written=1),), (Launch(read=1, written=1), Launch(read=None, written=1))]
    )
    def test_one_unknown_call_makes_all_unknown(self, launches: tuple[Launch, ...]) -> None:
        assert work_of(replace(made.MM, launches=launches)).bytes is None

    def test_intensity(self) -> None:
        assert Work(10, 10, 5).intensity == 0.25
        assert Work(0, 0, 5).intensity is None
        assert Work(10, 10, None).intensity is None

    def test_partly_known(self) -> None:
        works = [Work(1, 2, None), Work(None, 2, 5), Work(1, 1, 1)]
        assert added(works, partly=True) == Work(2, 3, 6)
        assert added(works) == Work(None, 5, None)
        assert added([]) == Work(None, None, None)


class TestParts:
    def test_most_bytes_first_and_what_is_not_known_last(self) -> None:
        part = parts(made.KERNELS)[0]
        assert [row.label for row in part.rows] == ["mm", made.PER.name, "scale_kernel_0"]

    def test_shares_are_of_what_is_known(self) -> None:
        shares = [row.share for row in parts(made.KERNELS)[0].rows]
        assert shares == [pytest.approx(81920 / 114944), pytest.approx(33024 / 114944), None]

    def test_nodes_and_outputs(self) -> None:
        mm, fused, users = parts(made.KERNELS)[0].rows
        assert [node.name for node in fused.nodes] == ["op1", "op2", "op3", "op4"]
        assert [buffer.name for buffer in fused.outputs] == ["buf4"]
        assert [buffer.name for buffer in mm.outputs] == ["buf0", "buf5"]
        assert (fused.is_fused, mm.is_fused, users.is_fused) == (True, False, False)

    def test_another_graph_part_has_other_nodes_of_the_same_names(self) -> None:
        assert parts(made.KERNELS, stage="backward")[0].rows[0].nodes == ()

    def test_rows_are_in_torch_s_order(self) -> None:
        assert [row.kernel for row in rows(made.KERNELS)] == list(made.KERNELS.kernels)

    @pytest.mark.parametrize(
        ("graph", "stage", "what", "todo"),
        [
            ("9/9", None, "--graph 9/9: this run has no such kernels", "there are: 0/0, 1/0"),
            (None, "forwad", "--stage forwad: this run has no such kernels", "did you mean forward?"),
            ("1/0", "backward", "--stage backward: this run has no such kernels", "there are: inference"),
        ],
    )
    def test_what_is_not_there(self, graph: str | None, stage: str | None, what: str, todo: str) -> None:
        with pytest.raises(TargetError) as raised:
            parts(made.KERNELS, graph, stage)
        assert (raised.value.what, raised.value.todo) == (what, todo)


class TestNamed:
    @pytest.mark.parametrize(
        ("name", "full"),
        [
            ("mm", "extern_kernels.mm"),
            ("extern_kernels.mm", "extern_kernels.mm"),
            ("triton_per", made.PER.name),
            ("sin", "cpp_fused_sin_0"),
        ],
    )
    def test_a_part_is_enough(self, name: str, full: str) -> None:
        (part,) = named(parts(made.KERNELS), name)
        assert [row.kernel.name for row in part.rows] == [full]

    def test_one_name_in_several_parts(self) -> None:
        session = replace(made.KERNELS, kernels=(made.MM, replace(made.MM, graph="1/0")))
        assert [part.graph for part in named(parts(session), "mm")] == ["0/0", "1/0"]

    @pytest.mark.parametrize(
        ("name", "todo"),
        [
            ("triton", "name one: triton_per"),
            ("scale_kernal_0", "did you mean scale_kernel_0?"),
            ("zzz", "there are: mm, "),
        ],
    )
    def test_what_is_not_one(self, name: str, todo: str) -> None:
        with pytest.raises(TargetError) as raised:
            named(parts(made.KERNELS), name)
        assert raised.value.todo.startswith(todo)


class TestLines:
    @pytest.mark.parametrize(("text", "range_"), [("m.py:3", (3, 3)), ("a/m.py:3-9", (3, 9)), ("7", (7, 7))])
    def test_a_place(self, text: str, range_: tuple[int, int]) -> None:
        place = wanted(text)
        assert (place.first, place.last) == range_

    @pytest.mark.parametrize("text", ["m.py", "m.py:", "m.py:x", "m.py:-3", "", "1" * 30])
    def test_no_place(self, text: str) -> None:
        with pytest.raises(TargetError):
            wanted(text)

    def test_the_end_of_a_path_is_enough_and_half_a_name_is_not(self) -> None:
        found = parts(made.KERNELS)
        assert kernels_of(found, wanted("project/model.py:5"))
        assert not kernels_of(found, wanted("odel.py:5"))

    def test_only_the_calls_of_the_line_count(self) -> None:
        (part,) = kernels_of(parts(made.KERNELS, "0/0", "forward"), wanted("10"))
        mm, users = part.kernels
        assert mm.work == Work(24576, 8192, 262144)
        assert [node.name for node in mm.nodes] == ["op5"]
        assert users.row.kernel.user

    def test_an_old_log_knows_lines_of_kernels_alone(self) -> None:
        part, *_ = kernels_of(parts(made.OLD), wanted("5"))
        assert [each.others for each in part.kernels] == [made.at(6, 8, 7), made.at(10)]

    def test_an_unknown_file(self) -> None:
        with pytest.raises(TargetError) as raised:
            check_file(made.KERNELS, wanted("modle.py:5"))
        assert raised.value.todo == "did you mean model.py?"

    def test_near_lines(self) -> None:
        assert nearest(parts(made.KERNELS), wanted("model.py:9")).endswith("model.py:7, model.py:8, model.py:10")
        assert nearest((), wanted("9")) == "no line of your code has known kernels"


class TestWhyNone:
    def test_a_break_and_a_function_in_eager(self) -> None:
        assert why_none(made.KERNELS, wanted("model.py:15"), None).startswith("The graph breaks here: ")
        assert why_none(made.KERNELS, wanted("model.py:14"), None).startswith("`slow` runs eagerly. ")
        assert why_none(made.KERNELS, wanted("model.py:2"), None) == ""

    @pytest.mark.parametrize("source", ["def f(:", "\0", ""])
    def test_a_source_that_is_no_python(self, source: str) -> None:
        session = replace(made.KERNELS, listings=dict.fromkeys(made.KERNELS.listings, source))
        assert why_none(session, wanted("model.py:14"), None) == ""

    @pytest.mark.parametrize(("line", "part"), [(17, "are in the final graph"), (999, "")])
    def test_how_far_a_line_came(self, line: int, part: str) -> None:
        seen = why_none(trained(), wanted(f"trained.py:{line}"), None)
        assert part in seen
        assert bool(seen) == bool(part)

    @pytest.mark.parametrize(
        ("stages", "part"),
        [
            ({GraphStage.DYNAMO: "torch.exp(x)"}, "Dynamo traced it (exp), but it has no aten ops"),
            ({GraphStage.FORWARD: "torch.ops.aten.exp.default(x)"}, "its last stage is forward (exp); a later pass"),
            (
                dict.fromkeys((GraphStage.FORWARD, GraphStage.POST_GRAD), "torch.ops.aten.permute.default(x, [1, 0])"),
                "only views remain (permute)",
            ),
            (
                dict.fromkeys((GraphStage.FORWARD, GraphStage.POST_GRAD), "torch.ops.aten.exp.default(x)"),
                "its ops (exp) are in the final graph; torch does not record which kernel",
            ),
        ],
    )
    def test_the_last_stage_that_has_it_tells_why(self, stages: dict[GraphStage, str], part: str) -> None:
        session = session_of(*(Printed(stage, GRAPH.format(call)) for stage, call in stages.items()))
        assert part in why_none(session, wanted("a.py:8"), None)
        assert part in why_none(session, wanted("8"), "0/0")
        assert why_none(session, wanted("b.py:8"), None) == ""


class TestCode:
    def test_passages_are_the_source(self) -> None:
        for kernel in (made.PER, made.SIN, made.BACKWARD):
            assert "\n".join(line for each in passages(kernel) for line in each.text) == kernel.source

    def test_the_wrapper_is_the_call_function_or_all(self) -> None:
        python, other = wrappers(made.KERNELS, None, None)
        assert python.text.startswith("def call(self, args):")
        assert "runner" not in python.text
        assert other.text == "extern void call();\n"

    def test_of_one_part(self) -> None:
        (wrapper,) = wrappers(made.KERNELS, "1/0", "inference")
        assert wrapper.graph == "1/0"
