"""Resources with their limits, times with their bounds, and code on demand; bounds equal hand counts."""

import base64
import importlib.util
import shutil
import zlib
from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.built import Ir
from ctrace.inspector.findings.kernels.built_view import OccupancyLimit, codes, disassembled, resources, text_of, times
from tests.support.built import BMM, H100, PRODUCT, SESSION, SIZE, SOFTMAX, TUNED, built, timed


def test_resources_of_what_is_launched() -> None:
    found = resources(SESSION)
    assert [(each.built.kernel, each.built.hash) for each in found] == [(SOFTMAX, "aa"), (TUNED, "bb")]
    held = found[0].occupancy
    assert held is not None
    assert (held.blocks, held.share, held.limits) == (32, 0.5, (OccupancyLimit.REGISTERS, OccupancyLimit.BLOCKS))
    assert [each.built.hash for each in resources(SESSION, all_of_them=True)] == ["aa", "bb", "cc"]
    assert resources(SESSION, "1/0") == ()


def test_all_configurations_where_it_is_not_known_which_is_launched() -> None:
    unknown = replace(SESSION, built=tuple(replace(each, chosen=False) for each in SESSION.built))
    assert [each.built.hash for each in resources(unknown)] == ["aa", "bb", "cc"]


@pytest.mark.parametrize("session", [replace(SESSION, gpu=None), replace(SESSION, built=(built("k", registers=None),))])
def test_an_occupancy_that_is_not_known(session) -> None:
    assert all(each.occupancy is None for each in resources(session))


def test_times_and_their_bounds() -> None:
    found = times(SESSION)
    assert [(each.timed.kernel, each.timed.launch, each.calls) for each in found] == [
        (BMM, 0, 1), (BMM, 1, 1), (SOFTMAX, 0, 1), (TUNED, 0, 1),
    ]  # fmt: skip
    costly, _, cheap, unmeasured = found
    # 8.6 G operations at 132 x 256 x 1.98 GHz = 66.9 T a second, against 50 MB at 3.35 TB/s.
    assert costly.bound.arithmetic == pytest.approx(PRODUCT / 66.908e12, rel=1e-3)
    assert costly.bound.memory == pytest.approx(3 * SIZE / 3.35232e12)
    assert (costly.bound.sets, costly.bound.seconds) == ("arithmetic", costly.bound.arithmetic)
    assert cheap.bound.sets == "memory"
    assert cheap.bound.seconds == pytest.approx(10.01e-6, rel=1e-3)
    assert cheap.reached == pytest.approx(10.01 / 14.2, rel=1e-3)
    assert sum(each.share or 0 for each in found) == pytest.approx(1)
    assert (unmeasured.total, unmeasured.share, unmeasured.reached) == (None, None, None)


def test_products_with_fewer_bits_have_a_lower_bound() -> None:
    usual, short = times(SESSION)[0], times(replace(SESSION, gpu=replace(H100, tf32=("matmul",))))[0]
    assert usual.bound.arithmetic is not None
    assert short.bound.arithmetic == pytest.approx(usual.bound.arithmetic / 8)


def test_launches_of_the_same_sizes_are_one_row() -> None:
    session = replace(SESSION, timed=tuple(timed(SOFTMAX, launch, 1e-5) for launch in range(12)))
    (row,) = times(session)
    assert row.calls == 12
    assert (row.total, row.share) == pytest.approx((1.2e-4, 1))


@pytest.mark.parametrize("parts", [{"gpu": None}, {"kernels": ()}, {"gpu": replace(H100, bandwidth=None, clock=None)}])
def test_a_bound_that_is_not_known(parts) -> None:
    for each in times(replace(SESSION, **parts)):
        assert (each.bound.seconds, each.bound.sets, each.reached) == (None, "", None)


def test_code() -> None:
    assert [(each.built.kernel, each.text) for each in codes(SESSION, "sass")] == [
        (SOFTMAX, "LDC R1, c[0x0][0x28] ;"), (TUNED, "LDC R1, c[0x0][0x28] ;"),
    ]  # fmt: skip
    (one,) = codes(SESSION, "ptx", SOFTMAX)
    assert (one.text or "").startswith(".version")
    assert codes(SESSION, "ptx", SOFTMAX[8:]) == (one,)


@pytest.mark.parametrize(
    ("stage", "kernel", "what", "todo"),
    [
        ("pxt", None, "no such stage", "did you mean ptx?"),
        ("metal", None, "no such stage", "there are: ttir, ttgir, llir, ptx, sass"),
        ("ptx", "k", "no kernel k was built", "there are: "),
        ("ptx", "triton", "several kernels have triton in their name", "name one: "),
        ("ptx", SOFTMAX[:-1] + "1", "no kernel", f"did you mean {SOFTMAX}?"),
        ("ttir", None, "no such code", "the run's problems"),
    ],
)
def test_code_that_there_is_not(stage: str, kernel: str | None, what: str, todo: str) -> None:
    with pytest.raises(TargetError) as raised:
        codes(SESSION, stage, kernel)
    assert what in raised.value.what
    assert todo in raised.value.todo


def test_nothing_was_built() -> None:
    with pytest.raises(TargetError) as raised:
        codes(replace(SESSION, built=()), "ptx")
    assert raised.value.todo == "run with --build on a GPU, or with --target"


def packed(data: bytes) -> Ir:
    return Ir(base64.b64encode(data).decode(), packed=True)


def test_packed_code() -> None:
    assert text_of(packed(zlib.compress(b"ret; // \xc2\xb5"))) == "ret; // µ"
    assert text_of(packed(zlib.compress(b"ret;")[:-3])) is None
    assert text_of(packed(b"no")) is None
    assert text_of(Ir("é no base64", packed=True)) is None
    assert text_of(packed(zlib.compress(bytes(65 << 20)))) is None


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace nvdisasm with a script."""
    path = tmp_path / "nvdisasm"
    monkeypatch.setenv("TRITON_NVDISASM_PATH", str(path))
    return path


def runs(tool: Path, script: str) -> None:
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)


def refused() -> tuple[str, str]:
    with pytest.raises(TargetError) as raised:
        disassembled([b"binary"])
    return raised.value.what, raised.value.todo


def test_the_output_is_the_instructions(tool: Path) -> None:
    runs(tool, 'cat "$2"')
    assert disassembled([b"one", b"two"]) == ("one", "two")


def test_a_missing_tool_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_NVDISASM_PATH", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert refused() == (
        "--ir sass: nvdisasm is not installed, and kernel binaries need it",
        "pip install triton, which includes nvdisasm",
    )


def test_a_tool_that_fails_is_quoted(tool: Path) -> None:
    runs(tool, "echo reading >&2; echo 'fatal: not an ELF file' >&2; exit 1")
    assert refused()[0] == "nvdisasm cannot read a kernel of this run: fatal: not an ELF file"


def test_a_tool_that_says_nothing_when_it_fails(tool: Path) -> None:
    runs(tool, "exit 2")
    assert refused()[0] == "nvdisasm cannot read a kernel of this run: no output"


def test_a_tool_that_cannot_be_started(tool: Path) -> None:
    tool.write_bytes(b"\x7fELF")
    tool.chmod(0o755)
    assert refused()[0].startswith("nvdisasm cannot read a kernel of this run: ")
