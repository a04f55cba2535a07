"""The cores and memory that a check may use, from the machine's files."""

import os
from pathlib import Path

import pytest

from ctrace.inspector.processes import machine

GIB = 1 << 30
MEMINFO = "MemTotal:       32000000 kB\nMemFree:         1000000 kB\nMemAvailable:   16777216 kB\n"


def _system(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_this_machine_has_some_of_both() -> None:
    assert machine.cores() >= 1
    assert machine.memory() > 0


def test_memory_without_a_control_group(tmp_path: Path) -> None:
    assert machine.memory(_system(tmp_path, {"proc/meminfo": MEMINFO})) == 16 * GIB


def test_the_narrowest_control_group_counts_and_file_pages_do_not(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "0::/ci/job\n",
        "sys/fs/cgroup/ci/job/memory.max": "max\n",
        "sys/fs/cgroup/ci/job/memory.current": "1\n",
        "sys/fs/cgroup/ci/memory.max": f"{4 * GIB}\n",
        "sys/fs/cgroup/ci/memory.current": f"{3 * GIB}\n",
        "sys/fs/cgroup/ci/memory.stat": f"anon 5\ninactive_file {GIB}\n",
    }
    assert machine.memory(_system(tmp_path, files)) == 2 * GIB


def test_version_one(tmp_path: Path) -> None:
    files = {
        "proc/meminfo": MEMINFO,
        "proc/self/cgroup": "4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}",
    }
    assert machine.memory(_system(tmp_path, files)) == GIB
    (tmp_path / "sys/fs/cgroup/memory/memory.limit_in_bytes").write_text("9223372036854771712")
    assert machine.memory(tmp_path) == 16 * GIB


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system has no CPU affinity")
def test_cores_within_affinity_and_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(16)))
    assert machine.cores(tmp_path) == 16
    group = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "250000 100000\n"}
    assert machine.cores(_system(tmp_path, group)) == 3
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("max 100000\n")
    assert machine.cores(tmp_path) == 16
