"""Find the number of cores and the memory that a check may use, also inside a container.

Control groups limit both: https://docs.kernel.org/admin-guide/cgroup-v2.html (`cpu.max`, `memory.max`), and version 1,
which has the memory files below `memory/` and under other names.
"""

import os
from collections.abc import Iterator
from pathlib import Path

_SYSTEM = Path("/")
_NO_LIMIT = 1 << 60
"""Version 1 reports a number near 2**63 if there is no limit."""


def cores(system: Path = _SYSTEM) -> int:
    """Count the cores that this process may use, at least one."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    for folder in _groups(system, ""):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        if quota.isdecimal() and period.isdecimal():
            # Rounded up: half a core still runs one process.
            count = min(count, -(-int(quota) // int(period)))
    return max(count, 1)


def memory(system: Path = _SYSTEM) -> int:
    """Return the memory that is free for this process, in bytes; the total memory if the system does not report it."""
    free = [*_whole(system), *_of_groups(system)]
    if free:
        return min(free)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _whole(system: Path) -> Iterator[int]:
    for line in _text(system / "proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024


def _of_groups(system: Path) -> Iterator[int]:
    """Yield how much memory each control group leaves to this process; inactive file pages count as free."""
    for folder in _groups(system, ""):
        yield from _left(folder, "memory.max", "memory.current", "inactive_file")
    for folder in _groups(system, "memory"):
        yield from _left(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _left(folder: Path, limit: str, used: str, idle: str) -> Iterator[int]:
    most, now = _text(folder / limit), _text(folder / used)
    if not (most.isdecimal() and now.isdecimal()) or int(most) > _NO_LIMIT:
        return
    counts = dict(line.split() for line in _text(folder / "memory.stat").splitlines() if line.count(" ") == 1)
    yield max(int(most) - int(now) + int(counts.get(idle, 0)), 0)


def _groups(system: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of this process's control group and of its parent groups, for a controller.

    An empty controller means version 2. A container may not see the path of its group; then the top folder is its
    group.
    """
    mount = system / "sys/fs/cgroup" / controller
    for line in _text(system / "proc/self/cgroup").splitlines():
        _number, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            own = mount / path.lstrip("/")
            yield from (folder for folder in (own, *own.parents) if folder == mount or mount in folder.parents)


def _text(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
