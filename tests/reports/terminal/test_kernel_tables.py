"""`ctrace kernels` on screen, and the kernels of `ctrace explain`."""

import pytest
from msgspec.structs import replace

from ctrace.cli.kernel_choice import KernelChoice
from ctrace.inspector.facts.session import Session
from ctrace.reports.terminal.kernel_tables import fitted
from tests.support import kernelsessions as made
from tests.support.explained import screen_of
from tests.support.golden import WIDTHS, assert_golden, drawn
from tests.support.kernelviews import kernels_view

VIEWS = {
    "all": KernelChoice(),
    "fused": KernelChoice(kernel="per"),
    "called": KernelChoice(kernel="mm", all_of_it=True),
    "unknown": KernelChoice(kernel="scale"),
    "line": KernelChoice(line="model.py:5-7"),
    "eager": KernelChoice(line="model.py:14"),
    "source": KernelChoice(source=True),
    "wrapper": KernelChoice(wrapper=True),
}
WHOLE = ("source", "wrapper")
"""Screens with code, whose lines are never cut."""


def _drawn(session: Session, view: KernelChoice, width: int, *, colors: bool = False) -> str:
    return drawn(kernels_view(session, view, width), width, colors=colors)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", VIEWS)
def test_screen(name: str, width: int) -> None:
    assert_golden(f"kernels-{name}-{width}.txt", _drawn(made.KERNELS, VIEWS[name], width))


@pytest.mark.parametrize("width", WIDTHS)
def test_screen_of_an_old_log(width: int) -> None:
    names = ("all", "fused", "line", "source")
    assert_golden(f"kernels-old-{width}.txt", "\n".join(_drawn(made.OLD, VIEWS[name], width) for name in names))


HOSTILE_VIEWS = [
    KernelChoice(),
    KernelChoice(kernel="script"),
    KernelChoice(line="1"),
    KernelChoice(source=True),
    KernelChoice(wrapper=True),
]


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_screen(width: int) -> None:
    assert_golden(
        f"kernels-hostile-{width}.txt", "\n".join(_drawn(made.HOSTILE, view, width) for view in HOSTILE_VIEWS)
    )


@pytest.mark.parametrize("view", HOSTILE_VIEWS)
def test_foreign_text_cannot_control_the_terminal(view: KernelChoice) -> None:
    shown = _drawn(made.HOSTILE, view, 80)
    assert not [letter for letter in ("\x1b", "\u202e", "\r") if letter in shown]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("session", [made.KERNELS, made.OLD, made.HOSTILE])
@pytest.mark.parametrize("name", [name for name in VIEWS if name not in WHOLE])
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(name: str, session: Session, width: int) -> None:
    view = VIEWS[name] if session is not made.HOSTILE else HOSTILE_VIEWS[list(VIEWS).index(name) % 3]
    for line in _drawn(session, view, width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("width", [80, 140])
def test_code_is_complete_except_for_comments(width: int) -> None:
    lines = _drawn(made.KERNELS, KernelChoice(source=True, kernel="per"), width).splitlines()
    assert [line for line in lines if not line.lstrip().startswith("#")] == [*made.TRITON.splitlines(), ""]


def test_colors_only_on_a_terminal() -> None:
    assert "\x1b[" not in _drawn(made.KERNELS, VIEWS["source"], 80)
    assert "\x1b[" in _drawn(made.KERNELS, VIEWS["source"], 80, colors=True)


def test_names_stay_apart_on_a_narrow_screen() -> None:
    names = [f"triton_poi_fused__to_copy_add_clone_convolution_relu_{number}" for number in range(12)]
    kernels = tuple(replace(made.PER, name=name) for name in names)
    shown = _drawn(replace(made.KERNELS, kernels=kernels), KernelChoice(), 80)
    column = [line.split()[0] for line in shown.splitlines() if line.startswith("triton") and "…" in line]
    assert len(column) == len(set(column)) == len(names)


def test_unknown_values_are_not_zero() -> None:
    shown = _drawn(made.OLD, KernelChoice(), 80)
    assert "bytes and FLOPs not known" in shown
    assert " 0 " not in shown


def test_known_values_need_no_explanation() -> None:
    assert "?" not in _drawn(made.KNOWN, KernelChoice(), 80)


def test_a_run_without_kernels_says_so() -> None:
    assert "No kernel was generated in this run." in _drawn(replace(made.KERNELS, kernels=()), KernelChoice(), 80)


def test_long_lists_are_counted_and_all_shows_them() -> None:
    kernels = tuple(
        replace(made.PER, graph=f"{part}/0", name=f"k_{number}") for part in range(8) for number in range(14)
    )
    session = replace(made.KERNELS, kernels=kernels)
    shown = _drawn(session, KernelChoice(), 80)
    assert shown.count("and 2 more kernels: see --all") == 6
    assert "and 2 more graph parts: see --all" in shown
    assert "more" not in _drawn(session, KernelChoice(all_of_it=True), 80)


@pytest.mark.parametrize(
    ("widths", "room", "fitting"), [((4, 3, 2), 20, [4, 3, 2]), ((40, 30, 2), 32, [20, 10, 2]), ((9, 9), 0, [1, 1])]
)
def test_columns_share_the_available_width(widths: tuple[int, ...], room: int, fitting: list[int]) -> None:
    assert fitted(widths, room) == fitting


class TestExplain:
    @pytest.mark.parametrize("width", WIDTHS)
    def test_kernels_are_sorted_by_bytes(self, width: int) -> None:
        shown = drawn(screen_of(made.KERNELS, width, verbose=True), width)
        kernels = shown.partition("\nKernels")[2].partition("\n\n")[0]
        assert_golden(f"kernels-explain-{width}.txt", f"Kernels{kernels}\n")
        rows = kernels.partition("\nkernel ")[2].splitlines()[1:]
        first = [row.split()[0] for row in rows]
        assert [name[:6] for name in first] == ["mm", "triton", "triton", "cpp_fu", "scale_"]

    def test_kernels_that_do_not_fit_are_counted(self) -> None:
        session = replace(made.KERNELS, kernels=tuple(replace(made.PER, name=f"k_{at}") for at in range(9)))
        assert "and 3 more kernels: see ctrace kernels" in drawn(screen_of(session, 80, verbose=True), 80)
