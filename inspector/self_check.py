"""Examine the machine: versions, compiler and device. A child process probes every hook of the capture."""

import importlib.util
import json
import platform
import shutil
import sys
from importlib import metadata
from pathlib import Path

from msgspec import Struct

from ctrace.inspector.knowledge.versions.installed import torch_version
from ctrace.inspector.knowledge.versions.releases import NEWEST, OLDEST, PYTHONS, is_untried, release_of, triton_of
from ctrace.inspector.knowledge.versions.version_differences import differences_of
from ctrace.inspector.processes.boot import python
from ctrace.inspector.processes.tools import answer_of
from ctrace.inspector.runs.child import cannot_start

_SECONDS = 120
_PTXAS = Path("backends", "nvidia", "bin", "ptxas")


class Finding(Struct, frozen=True):
    """The result of one check."""

    name: str
    ok: bool
    found: str
    todo: str = ""


def examine() -> list[Finding]:
    """Run all checks, without importing torch in this process."""
    return [_python(), _torch(), _triton(), _assembler(), _compiler(), *_probed()]


def known_differences() -> list[Finding]:
    """Return the differences between the installed torch and other releases, and their effect on ctrace."""
    version = torch_version()
    if version is None:
        return []
    return [Finding(f"torch {each.range}", True, f"{each.what} {each.effect}") for each in differences_of(version)]


def _python() -> Finding:
    version = platform.python_version()
    ok = "{}.{}".format(*sys.version_info) in PYTHONS
    todo = f"ctrace supports Python {PYTHONS[0]} to {PYTHONS[-1]}"
    return Finding("python", ok, f"{version} ({sys.executable})", todo)


def _torch() -> Finding:
    version = torch_version()
    supported = f"{'.'.join(map(str, OLDEST))} to {'.'.join(map(str, NEWEST))}"
    if version is None:
        return Finding("torch", False, "not installed", f'pip install "torch>={".".join(map(str, OLDEST))}"')
    release = release_of(version)
    ok = release is None or (release >= OLDEST and not is_untried(version))
    return Finding("torch", ok, version, f"ctrace supports {supported}")


def _triton() -> Finding:
    try:
        found = metadata.version("triton")
    except metadata.PackageNotFoundError:
        return Finding("triton", True, "not installed; only GPU kernels need it, including with --target")
    of_torch = triton_of(torch_version() or "")
    other = f"; this torch is released with {of_torch}, which may generate other machine code"
    return Finding("triton", True, found + (other if of_torch and not found.startswith(of_torch) else ""))


def _assembler() -> Finding:
    """Look for ptxas, the assembler that Triton ships and that produces the machine code for NVIDIA GPUs."""
    spec = importlib.util.find_spec("triton")
    folders = (spec.submodule_search_locations if spec else None) or []
    found = next((path for folder in folders if (path := Path(folder) / _PTXAS).exists()), None)
    return Finding("ptxas", True, str(found or "not found; without it --target shows no registers and no machine code"))


def _compiler() -> Finding:
    found = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    return Finding("C++ compiler", True, found or "not found; only --build needs it")


def _probed() -> list[Finding]:
    if torch_version() is None:
        return []
    try:
        answer = answer_of(python("ctrace.inspector.capture.probe"), _SECONDS)
    except TimeoutError:
        return [Finding("hooks", False, f"the probe did not answer within {_SECONDS} s", "report it with this output")]
    except OSError as error:
        why = cannot_start(error)
        return [Finding("hooks", False, why.what, why.todo)]
    try:
        probes = json.loads(answer.out)
    except ValueError:
        last = answer.last_line
        return [Finding("hooks", False, f"the probe failed: {last}", "report it with this output")]
    return [Finding(each["name"], each["ok"], each["found"], each.get("todo", "")) for each in probes]
