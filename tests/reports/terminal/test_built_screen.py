"""Compiled kernels of `--build`, on screen."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.built import Ir, StageTime
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.kernels.kernels_document import kernels_document, stage_document
from ctrace.reports.json.printer import plain
from ctrace.reports.terminal.kernel_detail import resources_screen, stage_code_screen, times_screen
from ctrace.reports.wording.kernels_wording import configuration_text
from tests.support.built import BUILT, SESSION, SOFTMAX
from tests.support.golden import WIDTHS, assert_golden, drawn

EVIL = "\x1b[31mred\x1b[0m \u202egnitirw " * 9


def whole(session: Session, width: int, *, all_of_them: bool = False) -> str:
    document = kernels_document(session)
    shown = drawn(resources_screen(document, width, all_of_them=all_of_them), width)
    return shown + drawn(times_screen(document, width), width)


def ptx(session: Session, width: int, kernel: str | None = None, *, colors: bool = False) -> str:
    return drawn(stage_code_screen(stage_document(session, "ptx", kernel)), width, colors=colors)


def hostile() -> Session:
    built = (
        replace(
            each,
            kernel=EVIL,
            blocks={EVIL: 3},
            stage_times=(StageTime(EVIL, 0.5),),
            ir={EVIL: Ir(EVIL), "ptx": Ir(EVIL)},
        )
        for each in SESSION.built
    )
    timed = (replace(each, kernel=EVIL, why=each.why and EVIL) for each in SESSION.timed)
    assert SESSION.gpu is not None
    return replace(SESSION, built=tuple(built), timed=tuple(timed), gpu=replace(SESSION.gpu, name=EVIL))


@pytest.mark.parametrize("width", WIDTHS)
def test_resources_and_times(width: int) -> None:
    assert_golden(f"built-{width}.txt", whole(SESSION, width))


@pytest.mark.parametrize("width", WIDTHS)
def test_parts_and_configurations(width: int) -> None:
    later = tuple(replace(each, graph="1/0") for each in SESSION.built)
    assert_golden(
        f"built-parts-{width}.txt", whole(replace(SESSION, built=(*SESSION.built, *later)), width, all_of_them=True)
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_code(width: int) -> None:
    assert_golden(f"built-ir-{width}.txt", ptx(SESSION, width, SOFTMAX))


def test_code_is_colored_only_on_a_terminal() -> None:
    assert "\x1b[" in ptx(SESSION, 80, colors=True)


def test_damaged_code_is_reported() -> None:
    damaged = replace(SESSION, built=(replace(SESSION.built[0], ir={"ptx": Ir("?", packed=True)}),))
    assert "cannot read the code" in ptx(damaged, 80)


@pytest.mark.parametrize("session", [replace(SESSION, built=(), timed=()), Session()])
def test_nothing_was_built(session: Session) -> None:
    assert whole(session, 80).splitlines() == [
        "No Triton kernel was built; run with --build on a GPU, or with --target.",
        "No launch was timed. Run with --build.",
    ]


@pytest.mark.parametrize("width", [40, *WIDTHS])
@pytest.mark.parametrize("session", [SESSION, hostile()])
def test_no_line_is_wider_than_the_screen_or_ends_in_spaces(session: Session, width: int) -> None:
    shown = whole(session, width, all_of_them=True)
    for line in shown.splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


@pytest.mark.parametrize("letter", ["\x1b", "\u202e"])
def test_foreign_text_cannot_control_the_terminal(letter: str) -> None:
    assert letter not in whole(hostile(), 80) + ptx(hostile(), 80)


def test_json() -> None:
    data = plain(kernels_document(SESSION), "")
    assert data["gpu"]["capability"] == "9.0"
    assert [(each["hash"], each["chosen"], each["seconds"] is None) for each in data["built"]] == [
        ("aa", True, False), ("bb", True, True), ("cc", False, False),
    ]  # fmt: skip
    assert data["built"][0]["occupancy"] == {
        "basis": "computed",
        "blocks": 32,
        "warps": 32,
        "share": 0.5,
        "limited_by": ["registers", "blocks"],
    }
    first, *_, last = data["timed"]
    assert (first["bound_set_by"], first["calls"], first["not_measured"]) == ("arithmetic", 1, None)
    assert (last["seconds"], last["not_measured"]) == (None, "there is no room for a second copy of its arguments")
    assert plain(stage_document(SESSION, "ptx", SOFTMAX), "")["code"][0]["text"].startswith(".version")


@pytest.mark.parametrize(
    ("short", "shown"), [(False, "4 warps 1 stage XBLOCK=8 at most 64 registers"), (True, "4w 1s XBLOCK=8 ≤64r")]
)
def test_a_limit_on_registers_is_shown_with_the_configuration(short: bool, shown: str):
    made = replace(BUILT[0], warps=4, blocks={"XBLOCK": 8}, register_limit=64)
    assert configuration_text(made, short=short) == shown
