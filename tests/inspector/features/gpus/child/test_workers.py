"""Jobs in forked workers: all are done, and a crash or a hang costs only one job."""

import os
import signal
import time
from pathlib import Path

import pytest

from ctrace.inspector.capture.core.forks import Cores
from ctrace.inspector.features.gpus.child.compile_kernels import work_off

pytestmark = pytest.mark.skipif("not hasattr(os, 'fork')")


def no_failure(number: int, why: str) -> None:
    pytest.fail(f"{number}: {why}")


def free(cores: Cores) -> int:
    count = 0
    while cores.take():
        count += 1
    for _ in range(count):
        cores.release()
    return count


def test_every_job_is_done_once_and_cores_are_given_back(tmp_path: Path) -> None:
    cores = Cores()
    cores.release()  # so that there are two workers on any machine
    before = free(cores)

    def work(number: int) -> None:
        with (tmp_path / str(number)).open("a") as file:
            file.write(f"{os.getpid()}\n")

    work_off(40, work, no_failure, cores, 30)
    pids = [(tmp_path / str(number)).read_text().split() for number in range(40)]
    assert all(len(each) == 1 for each in pids)
    assert str(os.getpid()) not in {pid for each in pids for pid in each}
    assert free(cores) == before


def test_a_crash_and_a_hang_cost_one_job_each(tmp_path: Path) -> None:
    def work(number: int) -> None:
        if number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if number == 2:
            time.sleep(60)
        if number == 3:
            raise ValueError
        (tmp_path / str(number)).touch()

    failed: dict[int, str] = {}
    work_off(6, work, failed.__setitem__, Cores(), 0.5)
    assert failed == {1: "crashed: SIGKILL", 2: "took more than 0 s", 3: "ended with status 1"}
    assert sorted(each.name for each in tmp_path.iterdir()) == ["0", "4", "5"]


def test_nothing_to_do() -> None:
    work_off(0, lambda _: None, no_failure, Cores(), 1)
