"""Kernels from events: launches, bytes, sources, the line of each statement, and contradictions.

From log entries to the kernels that were built.
"""

import json
import zlib
from typing import Any

from ctrace.inspector.facts.built import Ir
from ctrace.inspector.facts.fusion_facts import Access, Buffer, BufferRole, Fusion, Node, NodeKind
from ctrace.inspector.facts.kernel_facts import Kernel, Launch, OutputCode, Stage, Statement
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.kernel_fold import Costs, statements_of, unbalanced
from tests.support.helpers import MODEL, Log

CODE = "cpp_0 = async_compile.cpp_pybinding(['float*'], r'''\nauto tmp0 = 1;\n''')\ndef call(args):\n    cpp_0(buf0)\n"


STACKS = [f'File "{MODEL}", line {line}, in forward' for line in (8, 9)]


def crc(text: str) -> int:
    return zlib.crc32(text.encode())


def coded(log: Log, text: str = CODE, stage: str = "inference") -> Log:
    return log.record("inductor_output_code", {"filename": "", "stage": stage}, at="0/0", payload=text)


def counted(log: Log, before: int, after: int) -> Log:
    buffers = [["buf0", "float32", [2, 3], [3, 1], 0, "cpu"]]
    data = {"stage": "inference", "before": before, "counted": after, "buffers": buffers, "symbols": {}}
    return log.ctrace("generated", data, at="0/0")


def whats(log: Log) -> list[str]:
    return [problem.what for problem in log.session().problems]


class TestKernels:
    def test_source_arguments_and_statements(self):
        log = Log().kernel("0/0", "cpp_0", STACKS, statements=[[[crc("auto tmp0 = 1;"), [1]]]], counted=1)
        session = coded(counted(log, 0, 1)).session()
        (kernel,) = session.kernels
        assert kernel.source == "auto tmp0 = 1;"
        assert kernel.statements == (Statement(1, (f"{MODEL}:9",)),)
        (launch,) = kernel.launches
        assert launch.call == "cpp_0(buf0)"
        assert launch.arguments is not None
        assert [(each.name, each.shape) for each in launch.arguments] == [("buf0", (2, 3))]
        assert session.code == (OutputCode("0/0", Stage.INFERENCE, CODE, 1),)
        assert session.problems == ()

    def test_a_log_without_the_code(self):
        (kernel,) = Log().kernel("0/0", "cpp_0", STACKS).session().kernels
        assert (kernel.source, kernel.statements) == ("", ())
        assert kernel.launches == (Launch(lines=(f"{MODEL}:8", f"{MODEL}:9")),)
        assert Log().record("inductor_output_code", {"filename": ""}, at="0/0", payload=CODE).session().code == ()

    def test_code_that_cannot_be_read_is_a_problem(self):
        log = coded(Log().kernel("0/0", "cpp_0"), "def")
        assert log.session().kernels[0].source == ""
        (what,) = whats(log)
        assert what.startswith("the code of graph 0/0 (inference) cannot be parsed (SyntaxError")

    def test_code_that_does_not_agree_is_a_problem(self):
        assert whats(coded(Log().kernel("0/0", "cpp_1"))) == [
            "the code of graph 0/0 (inference) does not define cpp_1",
            "the code of graph 0/0 (inference) calls cpp_1 0 times, but torch recorded 1; its arguments are not known",
        ]


class TestCounts:
    def test_equal(self):
        log = Log().kernel("0/0", "k0", counted=5).kernel("0/0", "mm", language="external", counted=5)
        assert whats(counted(log.kernel("0/0", "k0", counted=7), 4, 7)) == []

    def test_one_that_torch_did_not_count(self):
        (what,) = whats(counted(Log().kernel("0/0", "k0", counted=4), 4, 4))
        assert what == "graph 0/0 (inference) calls k0, which torch's generated_kernel_count does not count"

    def test_one_that_is_missing(self):
        (what,) = whats(counted(Log().kernel("0/0", "k0", counted=5), 4, 6))
        assert "includes 1 kernel after the last one in the log" in what


def node(name: str, read: int, written: int = 0, flops: int | None = 1) -> Node:
    accesses = (Access("b", read, written),)
    return Node(name, NodeKind.POINTWISE, tuple(name.split("_")), "", accesses=accesses, flops=flops)


FUSION = Fusion("0/0", Stage.FORWARD, 3, 2, result=(node("op0_op1", 8, 4), node("op2", 16, 0, None)))


class TestCosts:
    def test_a_launch_has_the_sum_of_its_nodes(self):
        costs = Costs(FUSION, [("op0", "op1")])
        launch = costs.counted(Launch(operations=("op0", "op1")))
        assert (launch.read, launch.written, launch.flops) == (8, 4, 1)
        both = costs.counted(Launch(operations=("op0", "op1", "op2")))
        assert (both.read, both.written, both.flops) == (24, 4, None)

    def test_not_known(self):
        spread = Costs(FUSION, [("op0",), ("op1",)])
        for operations in ((), ("op9",), ("op0", "op9"), ("op0",)):
            assert spread.counted(Launch(operations=operations)).read is None
        assert Costs(None, []).counted(Launch(operations=("op0",))).read is None

    def test_bytes_that_do_not_add_up(self):
        def kernel(read: int | None) -> Kernel:
            return Kernel("0/0", Stage.FORWARD, "k", "cpp", launches=(Launch(read=read, written=4),))

        assert list(unbalanced([kernel(24)], [FUSION])) == []
        assert list(unbalanced([kernel(None)], [FUSION])) == []
        assert list(unbalanced([], [FUSION])) == []
        (what,) = unbalanced([kernel(20)], [FUSION])
        assert what == "graph 0/0 (forward): its kernels move 24 bytes, but its nodes after fusion move 28"

    def test_a_copy_from_device_to_device_is_no_kernel(self):
        def fusion(device: str) -> Fusion:
            buffers = tuple(Buffer(name, BufferRole.INNER, "float32", ("2",), ("1",), on, 8) for name, on in
                            (("a", "cpu"), ("b", device), ("c", device)))  # fmt: skip
            copy = Node("op0", NodeKind.EXTERNAL, ("op0",), "", accesses=(Access("a", 8, 0), Access("b", 0, 8)))
            add = Node("op1", NodeKind.POINTWISE, ("op1",), "2", accesses=(Access("b", 8, 0), Access("c", 0, 8)))
            return Fusion("0/0", Stage.FORWARD, 2, 2, result=(copy, add), buffers=buffers)

        launch = Launch(("op1",), read=8, written=8)
        kernel = Kernel("0/0", Stage.FORWARD, "k", "triton", launches=(launch,))
        assert list(unbalanced([kernel], [fusion("cuda:0")])) == []
        assert len(list(unbalanced([kernel], [fusion("cpu")]))) == 1


class TestStatements:
    def test_the_same_text_in_blocks_of_two_nests(self):
        source = "for\n  a = 1;\n  b = 2;\nfor\n  a = 1;\n  c = 3;\nfor\n  a = 1;"
        first = {crc("a = 1;"): (STACKS[0],), crc("b = 2;"): (STACKS[0],)}
        second = {crc("a = 1;"): (STACKS[1],), crc("c = 3;"): (STACKS[1],)}
        eight, nine = f"{MODEL}:8", f"{MODEL}:9"
        assert statements_of(source, [first, second], {}) == (
            Statement(2, (eight,)),
            Statement(3, (eight,)),
            Statement(5, (nine,)),
            Statement(6, (nine,)),
            Statement(8, (eight, nine)),
        )

    def test_a_line_whose_origin_is_not_known(self):
        assert statements_of("a = 1;\nb = 2;", [{crc("a = 1;"): ()}], {}) == ()
        assert statements_of("", [], {}) == ()


PLAIN = {
    "stage": "forward", "kernel": "k0", "hash": "aa", "warps": 4, "stages": 1, "blocks": {}, "registers": 32, "spills": 0,
    "shared": 0, "seconds": [{"stage": "ttir", "seconds": 0.25}, {"stage": "ptx", "seconds": 0.5}], "chosen": True,
}  # fmt: skip


TIMED = {"stage": "forward", "kernel": "k0", "launch": 0, "seconds": 1e-5, "launches": 50, "why": ""}


def session(*entries: tuple[str, dict[str, Any]]) -> Session:
    log = Log().started().compiled("0/0")
    for name, data in entries:
        log = log.artifact(f"ctrace_{name}", json.dumps(data), at="0/0")
    made = log.ended().session()
    assert not made.problems
    return made


def test_one_configuration_is_the_one_that_is_launched() -> None:
    code = {"hash": "aa", "texts": {"ptx": "ret;"}, "packed": {"llir": "eJw="}}
    (built,) = session(("built", PLAIN), ("built_code", code)).built
    assert (built.graph, built.stage, built.kernel, built.chosen) == ("0/0", "forward", "k0", True)
    assert (built.registers, list(built.seconds)) == (32, ["ttir", "ptx"])
    assert built.ir == {"ptx": Ir("ret;"), "llir": Ir("eJw=", packed=True)}


def test_of_several_the_log_says_which() -> None:
    first, second = PLAIN | {"chosen": False}, PLAIN | {"chosen": False, "hash": "bb"}
    chosen = {"stage": "forward", "kernel": "k0", "hash": "bb"}
    assert [each.chosen for each in session(("built", first), ("built", second)).built] == [False, False]
    built = session(("built", first), ("built", second), ("built_chosen", chosen)).built
    assert [each.chosen for each in built] == [False, True]


def test_the_same_kernel_in_two_parts_shares_its_code() -> None:
    code = {"hash": "aa", "texts": {"ptx": "ret;"}, "packed": {}}
    built = session(("built", PLAIN), ("built_code", code), ("built", PLAIN | {"stage": "backward"})).built
    assert [(each.stage, each.chosen, list(each.ir)) for each in built] == [
        ("forward", True, ["ptx"]), ("backward", True, ["ptx"]),
    ]  # fmt: skip


def test_a_configuration_found_later_replaces_what_was_alone() -> None:
    later = PLAIN | {"hash": "bb", "chosen": False}
    chosen = {"stage": "forward", "kernel": "k0", "hash": "bb"}
    built = session(("built", PLAIN), ("built", later), ("built_chosen", chosen)).built
    assert [(each.hash, each.chosen) for each in built] == [("aa", False), ("bb", True)]


def test_of_a_launch_the_last_time_counts() -> None:
    made = session(
        ("launch_timed", TIMED), ("launch_timed", TIMED | {"seconds": 2e-5}), ("launch_timed", TIMED | {"launch": 1})
    )
    assert [(each.launch, each.seconds) for each in made.timed] == [(0, 2e-5), (1, 1e-5)]


def test_an_op_has_the_name_that_its_kernel_has() -> None:
    kernels: list[dict[str, Any]] = [
        {"stage": "forward", "name": name, "language": "external", "ops": [], "stacks": []}
        for name in ("aten.a.out", "torch.ops.aten.b")
    ]
    launches = [TIMED | {"kernel": name} for name in ("torch.ops.aten.a.out", "torch.ops.aten.b", "torch.ops.aten.c")]
    made = session(*(("kernel", each) for each in kernels), *(("launch_timed", each) for each in launches))
    assert [each.kernel for each in made.timed] == ["aten.a.out", "torch.ops.aten.b", "torch.ops.aten.c"]


def test_old_logs_have_none() -> None:
    made = session()
    assert (made.built, made.timed, made.gpu) == ((), (), None)
