"""Examine the machine: versions, compiler and device. A child process probes every hook of the capture."""

import importlib.util
import json
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import ClassVar

from msgspec import Struct

from ctrace.inspector.knowledge.releases import (
    NEWEST,
    OLDEST,
    PYTHONS,
    is_untried,
    release_of,
    torch_version,
    triton_of,
)
from ctrace.inspector.knowledge.version_differences import differences_of
from ctrace.inspector.processes.boot import python
from ctrace.inspector.processes.spawned import answer_of
from ctrace.inspector.runs.child import cannot_start

# Chosen: far above what the probe takes, which starts torch and compiles one function.
_SECONDS = 120
_PTXAS = Path("backends", "nvidia", "bin", "ptxas")


class ProbeResult(Struct, frozen=True):
    """The result of one check."""

    JSON: ClassVar[str] = "name ok found todo"
    name: str
    ok: bool
    found: str
    todo: str = ""
    is_difference: bool = False
    """Whether it is no check, but a difference between the installed torch and other releases."""


def examine() -> tuple[ProbeResult, ...]:
    """Run all checks, without importing torch in this process, and list how the installed torch differs from others."""
    return (_python(), _torch(), _triton(), _assembler(), _compiler(), *_probed(), *_differences())


def _differences() -> Iterator[ProbeResult]:
    """Yield the differences between the installed torch and other releases, and their effect on ctrace."""
    version = torch_version()
    for each in differences_of(version) if version is not None else ():
        yield ProbeResult(f"torch {each.range}", True, f"{each.what} {each.effect}", is_difference=True)


def _python() -> ProbeResult:
    version = platform.python_version()
    ok = "{}.{}".format(*sys.version_info) in PYTHONS
    todo = f"ctrace supports Python {PYTHONS[0]} to {PYTHONS[-1]}"
    return ProbeResult("python", ok, f"{version} ({sys.executable})", todo)


def _torch() -> ProbeResult:
    version = torch_version()
    supported = f"{'.'.join(map(str, OLDEST))} to {'.'.join(map(str, NEWEST))}"
    if version is None:
        return ProbeResult("torch", False, "not installed", f'pip install "torch>={".".join(map(str, OLDEST))}"')
    release = release_of(version)
    ok = release is None or (release >= OLDEST and not is_untried(version))
    return ProbeResult("torch", ok, version, f"ctrace supports {supported}")


def _triton() -> ProbeResult:
    try:
        found = metadata.version("triton")
    except metadata.PackageNotFoundError:
        # No failure: without a GPU, Inductor writes C++ and needs no Triton.
        return ProbeResult("triton", True, "not installed; only GPU kernels need it, including with --target")
    of_torch = triton_of(torch_version() or "")
    other = f"; this torch is released with {of_torch}, which may generate other machine code"
    return ProbeResult("triton", True, found + (other if of_torch and not found.startswith(of_torch) else ""))


def _assembler() -> ProbeResult:
    """Look for ptxas, the assembler that Triton ships and that produces the machine code for NVIDIA GPUs."""
    spec = importlib.util.find_spec("triton")
    folders = (spec.submodule_search_locations if spec else None) or []
    found = next((path for folder in folders if (path := Path(folder) / _PTXAS).exists()), None)
    return ProbeResult(
        "ptxas", True, str(found or "not found; without it --target shows no registers and no machine code")
    )


def _compiler() -> ProbeResult:
    found = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    return ProbeResult("C++ compiler", True, found or "not found; only --build needs it")


def _probed() -> list[ProbeResult]:
    if torch_version() is None:
        return []
    try:
        answer = answer_of(python("ctrace.inspector.capture.probe"), _SECONDS)
    except TimeoutError:
        return [
            ProbeResult("hooks", False, f"the probe did not answer within {_SECONDS} s", "report it with this output")
        ]
    except OSError as error:
        why = cannot_start(error)
        return [ProbeResult("hooks", False, why.what, why.todo)]
    try:
        # The process may end without an answer, as with a torch that cannot be imported.
        probes = json.loads(answer.out)
    except ValueError:
        last = answer.last_line
        return [ProbeResult("hooks", False, f"the probe failed: {last}", "report it with this output")]
    return [ProbeResult(each["name"], each["ok"], each["found"], each.get("todo", "")) for each in probes]
