"""Instructions of a compiled kernel, and the errors if the tool is missing or fails."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.findings.kernels.sass import disassembled


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
