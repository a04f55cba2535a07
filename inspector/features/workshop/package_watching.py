"""Watch the files of a package, and compare one check with the one before."""

import difflib
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ctrace.inspector.features.workshop.kernel_package import KernelPackage
from ctrace.inspector.features.workshop.package_model import CheckedPackage

POLL_SECONDS = 0.3
_NOISE = 0.03
"""Times of two checks that differ by less are called equal: each is the median of many launches of one process."""
_PLACES = re.compile(r"^\s*(?:#loc\d*\b.*|\.loc\s.*|\.file\s.*|//.*)$|\s+loc\((?:[^()]|\([^()]*\))*\)", re.MULTILINE)
"""Lines and file names in compiled code, which change with every edit."""
_NUMBERED = re.compile(r"(%[A-Za-z][A-Za-z_]*)_\d+\b")
"""A value of Triton's intermediate code: one more or less renumbers all that follow."""
_DEBUG = re.compile(r"^\s*\.section\s", re.MULTILINE)
"""Where PTX ends and its debug information begins."""

Stamp = Mapping[Path, tuple[int, int]]


def stamp_of(package: KernelPackage) -> Stamp:
    """Return time and size of each file; a file that an editor is just replacing is missing for a moment."""
    found = {}
    for file in package.watched():
        try:
            status = file.stat()
        except OSError:
            continue
        found[file] = status.st_mtime_ns, status.st_size
    return found


def changed(before: Stamp, after: Stamp) -> tuple[str, ...]:
    """Return the names of the files that differ."""
    return tuple(sorted({file.name for file in {*before, *after} if before.get(file) != after.get(file)}))


def next_change(
    package: KernelPackage, before: Stamp, idle: Callable[[], None] = lambda: None, seconds: float = POLL_SECONDS
) -> Stamp:
    """Wait until a file changes and stays the same for one poll; return the new stamp."""
    while True:
        time.sleep(seconds)
        idle()
        after = stamp_of(package)
        if after == before:
            continue
        time.sleep(seconds)
        if stamp_of(package) == after:  # the editor has finished writing
            return after


def speed(before: CheckedPackage | None, after: CheckedPackage) -> str:
    """Say whether the kernel became faster, over all sizes."""
    now = {each.sizes: each.seconds for each in after.checks if each.seconds is not None}
    if not now:
        if after.untimed:
            return f"time not measured: {after.untimed}"
        return "time not measured"
    text = ", ".join(f"{seconds * 1e6:.3g} us" for seconds in now.values())
    was = {} if before is None else {each.sizes: each.seconds for each in before.checks if each.seconds is not None}
    both = [name for name in now if name in was]
    if not both:
        return text
    ratio = 1.0
    for name in both:
        ratio *= (was[name] or 1.0) / (now[name] or 1.0)
    ratio **= 1 / len(both)
    if abs(ratio - 1) < _NOISE:
        return f"{text}: as fast as before"
    if ratio > 1:
        return f"{text}: {ratio:.2f}x faster"
    return f"{text}: {1 / ratio:.2f}x slower"


def code_diffs(before: CheckedPackage | None, after: CheckedPackage) -> list[str]:
    """Return, for each stage of each kernel, what changed in the compiled code; names of places do not count."""
    diffs = []
    for operator, stages in after.code.items():
        old = {} if before is None else before.code.get(operator, {})
        for stage, text in stages.items():
            if stage in old:
                diffs.append(_diff(operator, stage, old[stage], text))
    return diffs


def _lines(text: str, stage: str) -> list[str]:
    """Return the lines of code to compare, without places, debug information and the numbers of values."""
    bare = _PLACES.sub("", _DEBUG.split(text)[0])
    if stage in ("ttir", "ttgir"):
        bare = _NUMBERED.sub(r"\1", bare)
    return [line.rstrip() for line in bare.splitlines() if line.strip()]


def _diff(operator: str, stage: str, before: str, after: str) -> str:
    one, other = (_lines(text, stage) for text in (before, after))
    made = list(difflib.unified_diff(one, other, f"{stage} before", f"{stage} now", lineterm="", n=2))
    if made:
        return "\n".join([f"# {operator}", *made])
    return f"# {operator}: {stage} is the same"
