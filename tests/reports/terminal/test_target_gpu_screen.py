"""Screens of runs with `--target`: each names the target and the basis of its figures."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.cli.kernel_choice import KernelChoice
from ctrace.inspector.diagnosis.explain_document import explain_document
from ctrace.inspector.diagnosis.side_by_side_document import side_by_side_document
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.fusion_view import fusion_document
from ctrace.inspector.findings.graphs.graphs_document import graphs_document
from ctrace.inspector.findings.kernels.kernels_document import kernels_document
from ctrace.inspector.session.summary import run_answer
from ctrace.reports.terminal.fusion_screen import fusion_screen
from ctrace.reports.terminal.graphs_screen import graphs_screen
from ctrace.reports.terminal.side_by_side_screen import (
    explained_side_by_side,
    fusions_side_by_side,
    kernels_side_by_side,
)
from ctrace.reports.terminal.widgets import led
from tests.support.explained import explain_markdown, screen_of
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.kernelviews import kernels_view
from tests.support.sessions import HOSTILE_TEXT
from tests.support.targeted import EMITTED, NOT_ALL, ON_A100, ON_T4, hostile

TARGETS = {"a100": ON_A100, "h100": EMITTED}
FAILED = {"b200": "Triton knows no such GPU"}


def _drawn(document: Callable[[Session], Any], screen: Callable[[Any, int], Any]) -> Callable[..., Any]:
    return lambda targets, failed, width: screen(side_by_side_document(targets, failed, document), width)


SIDE_BY_SIDE = {
    "kernels": _drawn(kernels_document, kernels_side_by_side),
    "explain": _drawn(explain_document, explained_side_by_side),
    "fusion": _drawn(fusion_document, fusions_side_by_side),
}


def kernels(session: Session, width: int, **options: object) -> str:
    return drawn(kernels_view(session, KernelChoice(**options), width), width)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", WIDTHS)
def test_kernels(width: int) -> None:
    assert_golden(f"target-kernels-{width}.txt", kernels(EMITTED, width, all_of_it=True))


@pytest.mark.parametrize("width", WIDTHS)
def test_explain(width: int) -> None:
    assert_golden(f"target-explain-{width}.txt", drawn(screen_of(EMITTED, width, verbose=True), width))


@pytest.mark.parametrize("width", WIDTHS)
def test_one_kernel(width: int) -> None:
    assert_golden(f"target-kernel-{width}.txt", kernels(EMITTED, width, kernel="triton_per"))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SIDE_BY_SIDE)
def test_side_by_side(name: str, width: int) -> None:
    shown = drawn(SIDE_BY_SIDE[name](TARGETS, FAILED, width), width)
    assert_golden(f"target-two-{name}-{width}.txt", shown)


def test_markdown() -> None:
    assert_golden("target.md", explain_markdown(EMITTED))


@pytest.mark.parametrize(
    "draw",
    [
        partial(kernels, kernel="mm"),
        partial(kernels, line="5"),
        partial(kernels, source=True),
        partial(kernels, wrapper=True),
        partial(kernels, ir="ptx"),
        kernels,
        lambda session, width: drawn(screen_of(session, width, verbose=True), width),
        lambda session, width: drawn(led(run_answer(session), fusion_screen(fusion_document(session), width)), width),
        lambda session, width: drawn(led(run_answer(session), graphs_screen(graphs_document(session), width)), width),
    ],
)
def test_every_screen_names_its_target(draw: Callable[[Session, int], str]) -> None:
    shown = draw(EMITTED, 140)
    assert "for h100" in shown
    assert re.search(r"[Nn]othing (was run|ran) on|not run\)", shown)


def test_a_gpu_with_few_known_facts() -> None:
    shown = kernels(ON_T4, 140)
    assert "Resources not known: Triton compiled none of these kernels." in shown
    assert "bandwidth not known" in shown
    missing = replace(ON_T4, environment=replace(ON_T4.environment, triton=None))
    assert "Triton is not installed" in kernels(missing, 140)
    assert "Graph 1/0 has no code" in kernels(NOT_ALL, 140)


def test_spills_are_highlighted() -> None:
    assert re.search(r"\x1b\[1;31m *12\x1b", drawn(kernels_view(EMITTED, KernelChoice(), 140), 140, colors=True))


@pytest.mark.parametrize("width", [60, *WIDTHS])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    for session in (EMITTED, ON_T4, hostile(EMITTED)):
        shown = kernels(session, width) + drawn(screen_of(session, width, verbose=True), width)
        assert max(map(len, shown.splitlines())) <= width
    for draw in SIDE_BY_SIDE.values():
        shown = drawn(draw({**TARGETS, "t4": ON_T4}, FAILED, width), width)
        assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize("letter", ["\x1b", "\u202e"])
def test_foreign_text_cannot_control_the_terminal(letter: str) -> None:
    evil = hostile(EMITTED)
    shown = kernels(evil, 80, all_of_it=True) + kernels(evil, 80, source=True) + kernels(evil, 80, ir="ptx")
    for draw in SIDE_BY_SIDE.values():
        shown += drawn(draw({HOSTILE_TEXT: evil, "h100": EMITTED}, {HOSTILE_TEXT: HOSTILE_TEXT}, 80), 80)
    assert letter not in shown + drawn(screen_of(evil, 80, verbose=True), 80) + explain_markdown(evil)
