"""`ctrace autotune` on screen."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from rich.console import RenderableType

from ctrace.inspector.facts.autotuning import Untried
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.autotuning_view import autotuning_document
from ctrace.inspector.session.summary import run_answer
from ctrace.reports.terminal.autotuning_screen import autotuning_screen
from ctrace.reports.terminal.widgets import led
from tests.support import autotuned
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.poison import UNSEEN


def _screen(session: Session, op: str | None = None, *, all_of_it: bool = False) -> Iterable[RenderableType]:
    return led(run_answer(session), autotuning_screen(autotuning_document(session, op=op), all_of_it=all_of_it))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("name", "session"), [("run", autotuned.TUNED), ("target", autotuned.TARGET)])
def test_screen(name: str, session: Session, width: int) -> None:
    assert_golden(f"autotune-{name}-{width}.txt", drawn(_screen(session), width))


def test_all_of_it() -> None:
    assert "triton_mm_5" not in drawn(_screen(autotuned.TUNED), 80)
    assert "triton_mm_5" in drawn(_screen(autotuned.TUNED, all_of_it=True), 80)


def test_one_kind_of_operation() -> None:
    shown = drawn(_screen(autotuned.TUNED, op="addmm"), 80)
    assert "bias_addmm" in shown
    assert "triton_mm" not in shown
    assert "softmax" not in shown


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        (autotuned.NOTHING, "No operation of this run has choices to time"),
        (autotuned.UNBUILT, "--build --mode max-autotune"),
        (autotuned.OFF, "max_autotune is off"),
        (replace(autotuned.TUNED, tuned=(autotuned.ALONE,), tuned_kernels=()), "one choice for each operation"),
        (autotuned.TARGET, "Nothing ran on h100"),
    ],
)
def test_a_run_without_times_says_why(session: Session, expected: str) -> None:
    assert expected in drawn(_screen(session), 140)


def test_where_torch_was_kept_from_autotuning_other_choices_are_not_known() -> None:
    unknown = replace(autotuned.ALONE, is_on=None, untried=())
    shown = drawn(_screen(replace(autotuned.UNBUILT, tuned=(unknown,))), 80)
    assert "the generated code uses convolution; other choices are not known" in shown
    assert "nothing to time" not in shown


def test_foreign_text_cannot_control_the_terminal() -> None:
    hostile = replace(
        autotuned.MM,
        op=UNSEEN,
        taken=UNSEEN,
        choices=tuple(replace(each, name=f"{each.name}{UNSEEN}", error=UNSEEN) for each in autotuned.MM.choices),
        lines=(f"/a{UNSEEN}:1",),
        untried=(Untried(UNSEEN, (UNSEEN,)),),
    )
    kernel = replace(autotuned.KNOWN, kernel=UNSEEN, taken=UNSEEN)
    shown = drawn(_screen(replace(autotuned.TUNED, tuned=(hostile,), tuned_kernels=(kernel,))), 80)
    assert not any(letter in shown for letter in UNSEEN if not letter.isprintable())
