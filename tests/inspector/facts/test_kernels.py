"""Kernels, fusion and compile times."""

import pytest

from ctrace.inspector.facts.fusion_facts import FusionRound
from ctrace.inspector.facts.kernel_facts import Stage
from tests.support.helpers import MODEL, Log, whole


class TestKernels:
    STACK = f'  File "{MODEL}", line 9, in forward\n    x.exp()\n'
    LATER = f'  File "{MODEL}", line 12, in forward\n    x.sum()\n'

    def test_a_kernel_and_its_lines(self):
        (kernel,) = Log().kernel("0/0", "fused_0", [self.STACK], ["aten.exp"]).session().kernels
        assert (kernel.graph, kernel.stage, kernel.name, kernel.language) == ("0/0", Stage.INFERENCE, "fused_0", "cpp")
        assert (kernel.ops, kernel.lines, kernel.calls) == (("aten.exp",), (f"{MODEL}:9",), 1)

    def test_calls_of_one_kernel_are_joined(self):
        log = Log().kernel("0/0", "mm", [self.STACK], ["aten.mm"]).kernel("0/0", "mm", [self.LATER], ["aten.mm"])
        (kernel,) = log.session().kernels
        assert (kernel.ops, kernel.lines) == (("aten.mm",), (f"{MODEL}:9", f"{MODEL}:12"))
        assert kernel.calls == 2

    def test_one_name_in_two_graphs_is_two_kernels(self):
        log = Log().kernel("0/0", "mm").kernel("1/0", "mm").kernel("0/0", "mm", stage="backward")
        assert [(each.graph, each.stage) for each in log.session().kernels] == [
            ("0/0", Stage.INFERENCE),
            ("1/0", Stage.INFERENCE),
            ("0/0", Stage.BACKWARD),
        ]


class TestFusions:
    ROUNDS = (
        {"before": 5, "after": 3, "fused": [["op1", "op2"], ["op3", "op4"]]},
        {"before": 3, "after": 3, "fused": []},
    )

    def test_rounds(self):
        data = {"stage": "forward", "before": 5, "after": 3, "rounds": self.ROUNDS, "refused": 2}
        (fusion,) = Log().ctrace("fusion", data, at="0/0").session().fusions
        assert (fusion.graph, fusion.stage, fusion.before, fusion.after, fusion.refused) == (
            "0/0",
            Stage.FORWARD,
            5,
            3,
            2,
        )
        assert fusion.rounds == (FusionRound(5, 3, (("op1", "op2"), ("op3", "op4"))), FusionRound(3, 3, ()))


class TestTime:
    def test_phases_do_not_contain_each_other(self):
        log = Log().metrics(
            "0/0", entire_frame_compile_time_s=1.0, backend_compile_time_s=0.7, inductor_compile_time_s=0.4
        )
        time = log.session(seconds=3.5).time
        assert time.total == 3.5
        assert time.phases["dynamo"] == pytest.approx(0.3)
        assert sum(time.phases.values()) == pytest.approx(1.0)

    def test_a_backward_part_adds_its_time(self):
        log = Log().metrics(
            "0/0", entire_frame_compile_time_s=1.0, backend_compile_time_s=0.7, inductor_compile_time_s=0.4
        )
        log.metrics("0/0", backward=True, backward_cumulative_compile_time_us=500_000, inductor_compile_time_s=0.2)
        phases = log.session().time.phases
        assert phases == pytest.approx({"dynamo": 0.3, "aot": 0.6, "inductor": 0.6})

    def test_code_that_a_fork_generated_is_told_apart(self):
        log = Log().metrics("0/0").ctrace("codegen_started", {"stage": "forward"}, at="0/0")
        log.ctrace("codegen", {"stage": "forward", "seconds": 0.25}, at="0/0")
        log.ctrace("codegen", {"stage": "backward", "seconds": 0.5}, at="0/0")
        assert log.session().time.phases["codegen"] == 0.25

    def test_what_was_not_measured_is_not_there(self):
        time = whole().started().session().time
        assert time.total is None
        assert all(value >= 0 for value in time.phases.values())
        assert Log().session().time.phases == {}
