"""Screens of GPUs."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.knowledge.gpus.gpu_table import Listed, gpu_named, gpus
from ctrace.reports.terminal.side_by_side_screen import target_screen, targets_screen
from tests.support.golden import WIDTHS, assert_golden, drawn

HOSTILE = replace(
    gpu_named("a10g"),
    name="mine",
    title="a\x1b[31m\nb",
    bandwidth=None,
    clock=None,
    rates={},
    sources={"l2": "x\x1b[0m\ny"},
)
OWN = {
    **gpus(),
    "h100": Listed(gpu_named("h100"), "/home/me/gpus.yaml", replaces=True),
    "mine": Listed(HOSTILE, "a\x1b.yaml"),
}


@pytest.mark.parametrize("width", WIDTHS)
def test_all(width: int) -> None:
    assert_golden(f"targets-{width}.txt", drawn(targets_screen(tuple(OWN.values()), width), width))


@pytest.mark.parametrize("width", WIDTHS)
def test_one(width: int) -> None:
    assert_golden(f"target-{width}.txt", drawn(target_screen(gpus()["h100"]), width))


@pytest.mark.parametrize("width", WIDTHS)
def test_a_hostile_one(width: int) -> None:
    assert_golden(f"target-hostile-{width}.txt", drawn(target_screen(OWN["mine"]), width))
