"""`ctrace cudagraphs` on screen."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from rich.console import RenderableType

from ctrace.inspector.facts.cuda_graphs import CudaGraph, CudaGraphReason, CudaGraphStatus
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.session import Problem, Session
from ctrace.inspector.findings.cuda_graph_view import cuda_graphs_document
from ctrace.inspector.session.summary import run_answer
from ctrace.reports.terminal.cuda_graphs_screen import cuda_graphs_screen
from ctrace.reports.terminal.widgets import led
from tests.support import sessions, targeted
from tests.support.explained import screen_of
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.poison import UNSEEN

MUTATED = CudaGraphReason("mutated inputs (1 instances)", sessions.MODEL, 7)
MANY = tuple(CudaGraphReason(f"aten.op_{number}.default is on the CPU", sessions.MODEL, number) for number in range(12))
# fmt: off
GRAPHS = (
    CudaGraph("0/0", Stage.FORWARD, CudaGraphStatus.RECORDED, recordings=2, inputs=("[8]", "[16]"),
              limits={"cudagraph_dynamic_shape_warn_limit": 8}, pool_bytes=3 << 20, replay=12.3e-6, launched=40.1e-6),
    CudaGraph("0/1", Stage.FORWARD, CudaGraphStatus.RECORDED, recordings=2, inputs=("[8]",),
              again=(CudaGraphReason("static input data pointer changed: primals_2", sessions.MODEL, 9),),
              pool_bytes=2 << 20, untimed="it changes its inputs"),
    CudaGraph("0/0", Stage.BACKWARD, CudaGraphStatus.UNKNOWN, recordings=0),
    CudaGraph("1/0", Stage.INFERENCE, CudaGraphStatus.SKIPPED, (MUTATED, CudaGraphReason("x")), MANY, recordings=0),
    CudaGraph("2/0", Stage.INFERENCE, CudaGraphStatus.UNKNOWN, found=(MUTATED,)),
)
# fmt: on
HOSTILE = CudaGraph("0/0", Stage.FORWARD, CudaGraphStatus.SKIPPED, (CudaGraphReason(UNSEEN, f"/a{UNSEEN}", 1),))
RUN = replace(sessions.ALL["healthy"], cuda_graphs=GRAPHS)
_TARGETED = [each for each in vars(targeted).values() if isinstance(each, Session)]
TARGET = replace(next(each for each in _TARGETED if each.gpu and each.gpu.target), cuda_graphs=GRAPHS[4:])


def _screen(session: Session, graph: str | None = None, *, all_of_it: bool = False) -> Iterable[RenderableType]:
    return led(run_answer(session), cuda_graphs_screen(cuda_graphs_document(session, graph), all_of_it=all_of_it))


@pytest.mark.parametrize("width", WIDTHS)
def test_screen(width: int) -> None:
    assert_golden(f"cudagraphs-{width}.txt", drawn(_screen(RUN), width))


@pytest.mark.parametrize("width", WIDTHS)
def test_screen_of_a_target(width: int) -> None:
    assert_golden(f"cudagraphs-target-{width}.txt", drawn(_screen(TARGET), width))


def test_all_graphs_and_one_graph() -> None:
    assert "op_11" not in drawn(_screen(RUN), 80)
    shown = drawn(_screen(RUN, "1/0", all_of_it=True), 80)
    assert "op_11" in shown
    assert "0/0" not in shown


def test_a_run_without_cuda_graphs_has_advice() -> None:
    shown = drawn(_screen(sessions.ALL["healthy"]), 80)
    assert "No CUDA graphs" in shown
    assert "--mode reduce-overhead" in shown


def test_foreign_text_cannot_control_the_terminal() -> None:
    shown = drawn(_screen(replace(RUN, cuda_graphs=(HOSTILE,))), 80)
    assert not any(letter in shown for letter in UNSEEN if not letter.isprintable())


def test_explain_has_a_line() -> None:
    assert "CUDA graphs    5 graph parts: 2 recorded, 1 skipped, 1 not recorded, 1 not run, 4 recordings; see" in drawn(
        screen_of(RUN, 140), 140
    )
    assert "CUDA graphs" not in drawn(screen_of(sessions.ALL["healthy"], 80), 80)


def test_a_run_with_problems_is_not_said_to_lack_the_setting() -> None:
    healthy = replace(RUN, cuda_graphs=())
    assert "torch.compile was not set to use them" in drawn(_screen(healthy), 80)
    shown = drawn(_screen(replace(healthy, problems=(Problem("no code was generated"),))), 80)
    assert "not set to use them" not in shown
    assert "see them with ctrace explain" in shown


PENDING = "results of an earlier call are still alive, and no backward has run since (pending, uninvoked backwards)"


def test_a_part_that_is_not_recorded_says_why_and_what_to_do() -> None:
    waiting = CudaGraph("0/0", Stage.FORWARD, CudaGraphStatus.UNKNOWN, recordings=0, held_back=(PENDING,))
    once = CudaGraph("1/0", Stage.FORWARD, CudaGraphStatus.UNKNOWN, recordings=0, was_warmed_up=True)
    shown = drawn(_screen(replace(RUN, cuda_graphs=(waiting, once))), 140)
    assert f"0/0 forward  not recorded\n   {PENDING}\n" in shown
    assert "→ for inference, call it under torch.no_grad(); in training, run the backward before the next call" in shown
    assert "1/0 forward  not recorded\n   torch records at the second call, and there was only one" in shown
    assert shown.count("→") == 1


def test_a_part_in_pieces_says_so() -> None:
    split = CudaGraph("0/0", Stage.FORWARD, CudaGraphStatus.RECORDED, recordings=2, pieces=2, repeats=1)
    shown = drawn(_screen(replace(RUN, cuda_graphs=(split,))), 140)
    assert "torch splits it into 2 CUDA graphs, and runs the rest between them" in shown
    assert "recorded once for each" not in shown
