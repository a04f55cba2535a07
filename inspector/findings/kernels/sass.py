"""Disassemble the binary of a compiled kernel to instructions (SASS), with the tool in the Triton wheel.

Starting the tool takes longer than compiling most kernels (0.7 s), so it runs only when a view needs instructions.
"""

import importlib.util
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from ctrace.inspector.errors import TargetError
from ctrace.inspector.files.scratch import scratch
from ctrace.inspector.files.writing import write_bytes

_SECONDS = 60
_TODO = "pip install triton, which includes nvdisasm"


def disassembled(binaries: Iterable[bytes]) -> tuple[str, ...]:
    """Return the instructions in each binary.

    Raises:
        TargetError: nvdisasm is missing, or it fails on one of them.
    """
    from concurrent.futures import ThreadPoolExecutor  # slow to import

    tool = _tool()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            return tuple(pool.map(lambda binary: _disassembled(tool, binary), binaries))
        except BaseException:  # such as a KeyboardInterrupt: cancel the jobs that have not started
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _disassembled(tool: str, binary: bytes) -> str:
    from ctrace.inspector.processes.tools import answer_of

    with scratch() as folder:
        file = folder / "kernel.cubin"
        write_bytes(file, binary)
        try:
            answer = answer_of([tool, "-c", str(file)], _SECONDS)
        except OSError as error:
            raise TargetError(f"nvdisasm cannot read a kernel of this run: {error}", _TODO) from error
    if answer.status:
        raise TargetError(f"nvdisasm cannot read a kernel of this run: {answer.last_line}", _TODO)
    return answer.text


def _tool() -> str:
    """Find nvdisasm where Triton looks for it (triton/knobs.py), by the environment or in its folder; do not import
    Triton.
    """
    spec = importlib.util.find_spec("triton")
    beside = Path(spec.origin).parent / "backends/nvidia/bin/nvdisasm" if spec and spec.origin else None
    override = os.environ.get("TRITON_NVDISASM_PATH")
    for path in (override, beside, shutil.which("nvdisasm")):
        if path and Path(path).is_file():
            return str(path)
    raise TargetError("--ir sass: nvdisasm is not installed, and kernel binaries need it", _TODO)
