"""User-written Triton kernels on a screen, and as JSON data."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.kernels_document import kernels_document
from ctrace.inspector.findings.kernels.user_kernels_view import calls
from ctrace.reports.json.printer import plain
from ctrace.reports.terminal.kernel_detail import user_kernels_section
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.userkernels import ADD, CWD, SESSION


@pytest.mark.parametrize("width", WIDTHS)
def test_screen(width: int) -> None:
    assert_golden(f"userkernels-{width}.txt", drawn(user_kernels_section(calls(SESSION), CWD), width))


def test_without_user_kernels_nothing_is_shown() -> None:
    assert list(user_kernels_section(calls(Session()), "")) == []


def test_omitted_kernels_are_counted() -> None:
    many = calls(Session(user_kernels=tuple(replace(ADD, line=line) for line in range(8))))
    assert "and 2 more calls of kernels: see --json" in drawn(user_kernels_section(many, ""), 80)
    assert "more" not in drawn(user_kernels_section(many, "", most=None), 80)


def test_unknown_values_are_null() -> None:
    data = plain(kernels_document(SESSION), CWD)["user_kernels"]
    assert [each["assumed"] for each in data] == [False, True, True, None]
    assert data[0]["written"] == ["out_ptr"]
    assert data[0]["name"] == "add_relu_kernel_0"
    assert data[2]["name"] is None
    assert data[2]["op"]["fallbacks"] == ["cpu"]
    assert data[3]["written"] is None
    assert CWD not in data[0]["file"]
