"""Read a compiled GPU kernel with the tools in the triton wheel, without a GPU."""

import re
import subprocess
import tempfile
from pathlib import Path

_SECONDS = 30
_REGISTERS = re.compile(r"\bREG:(\d+)")
_STACK = re.compile(r"\bSTACK:(\d+)")
_SHARED = re.compile(r"\bSHARED:(\d+)")


def disassembled(cubin: bytes) -> str:
    """Return the instructions of a binary (SASS).

    Raises:
        OSError, subprocess.SubprocessError: there is no nvdisasm, or it failed.
    """
    return _run("nvdisasm", ["-c"], cubin)


def resources(cubin: bytes) -> dict[str, int]:
    """Return `registers` per thread, `spills` (32-bit words on its stack) and static `shared` bytes, if known.

    Raises:
        OSError, subprocess.SubprocessError: there is no cuobjdump, or it failed.
    """
    output = _run("cuobjdump", ["--dump-resource-usage"], cubin)
    found = {"registers": _REGISTERS.search(output), "spills": _STACK.search(output), "shared": _SHARED.search(output)}
    numbers = {name: int(match[1]) for name, match in found.items() if match}
    # Triton counts spills in words of 32 bits, as it does for a loaded kernel (`n_spills`); cuobjdump prints bytes.
    return {name: number // 4 if name == "spills" else number for name, number in numbers.items()}


def _run(name: str, arguments: list[str], cubin: bytes) -> str:
    with tempfile.TemporaryDirectory(prefix="ctrace-") as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [_tool(name), *arguments, str(file)]
        return subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=True).stdout


def _tool(name: str) -> str:
    """Find a tool as Triton does: from the environment, or beside Triton (triton/knobs.py, 3.4 to 3.7)."""
    from triton import knobs

    return str(getattr(knobs.nvidia, name).path)
