"""Carry out the statements of a wrapper on names."""

from collections.abc import Mapping

import pytest

from ctrace.inspector.features.memory.child.wrapper_plan import DescribedBuffer, PlanError, WrapperOutcome, WrapperPlan

SIZES = {"float32": 4, "uint8": 1}


def carried_out(
    body: str,
    *arguments: tuple[int, bool, int] | int | None,
    described: Mapping[str, DescribedBuffer | None] | None = None,
) -> WrapperOutcome:
    text = "class Runner:\n    def call(self, args):\n" + "".join(f"        {line}\n" for line in body.splitlines())
    plan = WrapperPlan(text, SIZES.__getitem__)
    return plan.carried_out(arguments, lambda name, _numbers: (described or {}).get(name, DescribedBuffer(None)))


def peak(outcome: WrapperOutcome) -> int:
    now = most = 0
    for step in outcome.steps:
        now += step.change
        most = max(most, now)
    return most


def test_buffers_are_allocated_and_freed() -> None:
    done = carried_out(
        "primals_1, = args\n"
        "args.clear()\n"
        "buf0 = empty_strided_cpu((8, 4), (4, 1), torch.float32)\n"
        "cpp_fused_relu_0(primals_1, buf0)\n"
        "del primals_1\n"
        "buf1 = empty_strided_cpu((8, ), (1, ), torch.float32)\n"
        "cpp_fused_sum_1(buf0, buf1)\n"
        "del buf0\n"
        "return (buf1, )",
        (128, False, 0),
    )
    assert [(step.name, step.change, step.by) for step in done.steps] == [
        ("buf0", 128, ""),
        ("buf1", 32, "cpp_fused_relu_0"),
        ("", -128, "cpp_fused_sum_1"),
    ]
    assert [each.name if each else None for each in done.results] == ["buf1"]


def test_a_buffer_used_again_allocates_nothing_and_changes_its_name() -> None:
    done = carried_out(
        "args.clear()\n"
        "buf0 = empty_strided_cpu((8, ), (1, ), torch.float32)\n"
        "buf1 = buf0; del buf0  # reuse\n"
        "return (reinterpret_tensor(buf1, (2, 4), (4, 1), 0), )"
    )
    assert peak(done) == 32
    assert [(step.name, step.change) for step in done.steps] == [("buf0", 32), ("buf1", 0)]
    assert done.results[0] is done.steps[0].buffer


def test_an_argument_is_freed_only_if_nobody_else_holds_it() -> None:
    body = "a, b = args\nargs.clear()\ndel a\ndel b\nreturn ()"
    done = carried_out(body, (64, True, 0), (32, False, 1))
    assert [(step.buffer.argument, step.change) for step in done.steps] == [(0, -64)]


def test_two_arguments_in_one_memory_are_freed_once() -> None:
    done = carried_out("a, b = args\nargs.clear()\ndel a\ndel b\nreturn ()", (64, True, 0), (64, True, 0))
    assert [step.change for step in done.steps] == [-64]


def test_a_donated_argument_is_used_again() -> None:
    done = carried_out("a, = args\nargs.clear()\nbuf0 = a; del a  # reuse\ndel buf0\nreturn ()", (64, True, 0))
    assert [(step.name, step.change) for step in done.steps] == [("buf0", 0), ("", -64)]


def test_a_result_that_is_an_argument_is_not_freed() -> None:
    done = carried_out("a, = args\nargs.clear()\nreturn (a, )", (64, True, 0))
    assert done.steps == ()
    assert done.results[0] is not None
    assert done.results[0].argument == 0


def test_sizes_are_computed_from_numbers_among_the_arguments() -> None:
    done = carried_out(
        "s0, a = args\nargs.clear()\n"
        "ps0 = 2*s0\n"
        "buf0 = empty_strided_cuda((s0, max(1, ps0)), (max(1, ps0), 1), torch.float32)\n"
        "return (buf0, s0, )",
        3,
        (12, False, 1),
    )
    assert [step.change for step in done.steps] == [3 * 6 * 4]


def test_a_library_allocates_what_inductor_says() -> None:
    done = carried_out(
        "a, = args\nargs.clear()\n"
        "buf0 = extern_kernels.convolution(a, a)\n"
        "buf1 = torch.ops.aten.native_dropout.default(a)\n"
        "buf2 = buf1[0]\n"
        "buf3 = buf1[1]\n"
        "del buf1\n"
        "buf4 = torch.ops.aten.view.default(buf2)\n"
        "return (buf0, buf3, buf4, )",
        (16, False, 0),
        described={
            "buf0": DescribedBuffer(100),
            "buf1": None,
            "buf2": DescribedBuffer(7),
            "buf3": DescribedBuffer(5),
            "buf4": DescribedBuffer(None, ("buf2",)),
        },
    )
    assert [(step.name, step.change) for step in done.steps] == [("buf0", 100), ("buf2", 7), ("buf3", 5)]
    assert [each.name if each else None for each in done.results] == ["buf0", "buf3", "buf2"]


def test_parts_of_a_graph_are_carried_out() -> None:
    text = (
        "class Runner:\n"
        "    def partition_0(self, args):\n"
        "        a, = args\n"
        "        args.clear()\n"
        "        buf0 = empty_strided_cuda((8, ), (1, ), torch.float32)\n"
        "        del a\n"
        "        return (buf0, )\n"
        "    def call(self, args):\n"
        "        a, = args\n"
        "        args.clear()\n"
        "        partition0_args = [a]\n"
        "        del a\n"
        "        (buf0,) = self.partitions[0](partition0_args)\n"
        "        del partition0_args\n"
        "        return (buf0, )\n"
    )
    done = WrapperPlan(text, SIZES.__getitem__).carried_out(((32, False, 0),), lambda *_: None)
    assert [(step.name, step.change) for step in done.steps] == [("buf0", 32)]
    assert done.results[0] is done.steps[0].buffer


def test_a_graph_inside_of_a_graph_is_carried_out_and_frees_what_it_gets() -> None:
    text = (
        "def subgraph_0(args):\n"
        "    subgraph_0_a, = args\n"
        "    args.clear()\n"
        "    subgraph_0_buf0 = empty_strided_cpu((64, ), (1, ), torch.float32)\n"
        "    cpp_fused_0(subgraph_0_a, subgraph_0_buf0)\n"
        "    del subgraph_0_a\n"
        "    subgraph_0_buf1 = empty_strided_cpu((8, ), (1, ), torch.float32)\n"
        "    cpp_fused_1(subgraph_0_buf0, subgraph_0_buf1)\n"
        "    del subgraph_0_buf0\n"
        "    return (subgraph_0_buf1, )\n"
        "def call(args):\n"
        "    a, = args\n"
        "    args.clear()\n"
        "    buf0 = [None] * 1\n"
        "    subgraph_0_args = [a]\n"
        "    del a\n"
        "    buf0 = subgraph_0(subgraph_0_args)\n"
        "    buf1 = buf0[0]\n"
        "    del buf0\n"
        "    return (buf1, )\n"
    )
    done = WrapperPlan(text, SIZES.__getitem__).carried_out(((32, True, 0),), lambda *_: None)
    assert [(step.name, step.change) for step in done.steps] == [
        ("subgraph_0_buf0", 256),
        ("", -32),
        ("subgraph_0_buf1", 32),
        ("", -256),
    ]
    assert done.results[0] is done.steps[2].buffer


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n    pass",
        "buf0 = empty_strided_cpu((u0, ), (1, ), torch.float32)\nreturn (buf0, )",
        "a, b = unknown()\nreturn (a, )",
    ],
)
def test_anything_else_is_refused(body: str) -> None:
    with pytest.raises(PlanError):
        carried_out(body)


def test_a_module_without_call_is_refused() -> None:
    with pytest.raises(PlanError, match="no function"):
        WrapperPlan("x = 1", SIZES.__getitem__)
