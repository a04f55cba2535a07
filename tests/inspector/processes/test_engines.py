"""Many logs and models: in this process, in processes, on Ray."""

import sys
import tempfile
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ctrace.inspector.errors import RunError, SetupError
from ctrace.inspector.features.compare.ranks_of_job import read_job
from ctrace.inspector.processes.engines import Engine, results_of
from tests.support.places import DATA
from tests.support.sampling import sampled

JOB = DATA / "ranks" / "shape"
CALLS = [(number, 3) for number in range(7)]


def product(one: int, other: int) -> int:
    return one * other


def fails(_number: int) -> None:
    raise RunError("this log cannot be read", "try another one")


@pytest.mark.parametrize("is_large", sampled([True, False]))
def test_results_come_in_order(is_large: bool):
    assert list(results_of(product, CALLS, Engine.PROCESSES, is_large=is_large)) == [0, 3, 6, 9, 12, 15, 18]


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SetupError, match="--on ray needs Ray") as caught:
        read_job(JOB, engine=Engine.RAY)
    assert caught.value.todo == "pip install 'ctrace[ray]'"


def test_a_folder_named_ray_is_not_ray(monkeypatch: pytest.MonkeyPatch):
    folder = ModuleType("ray")
    folder.__path__ = ["/home/me/ray"]
    monkeypatch.setitem(sys.modules, "ray", folder)
    with pytest.raises(SetupError, match="needs Ray, but /home/me/ray hides it"):
        read_job(JOB, engine=Engine.RAY)


@pytest.mark.thorough
def test_error_in_a_process_is_the_error_here():
    with pytest.raises(RunError, match="this log cannot be read") as caught:
        list(results_of(fails, [(1,), (2,)], Engine.PROCESSES, is_large=True))
    assert caught.value.todo == "try another one"


class FakeRay(ModuleType):
    """As much of Ray as is needed to see what a task reserves; its workers have little memory."""

    def __init__(self, memory: float) -> None:
        super().__init__("ray")
        self.memory = memory
        self.reserved: list[dict[str, int]] = []
        self.exceptions = SimpleNamespace(RayTaskError=ZeroDivisionError, RayError=ZeroDivisionError)

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {"Alive": True, "Resources": {"CPU": 2.0, "memory": self.memory}},
            {"Alive": True, "Resources": {"CPU": 2.0}},
            {"Alive": False, "Resources": {"CPU": 2.0, "memory": 1e15}},
        ]

    def remote(self, **reserved: int) -> Any:
        self.reserved.append(reserved)
        return lambda function: SimpleNamespace(remote=function)

    def get(self, result: Any) -> Any:
        return result


@pytest.mark.parametrize(("has", "gets"), [(4 * 2**30, 2**30), (2**29, 2**29)])
def test_task_on_ray_reserves_a_core_and_memory_that_some_worker_has(
    has: int, gets: int, monkeypatch: pytest.MonkeyPatch
):
    ray = FakeRay(has)
    monkeypatch.setitem(sys.modules, "ray", ray)
    assert list(results_of(product, CALLS, Engine.RAY, is_large=True, memory=2**30)) == [0, 3, 6, 9, 12, 15, 18]
    assert ray.reserved == [{"num_cpus": 1, "memory": gets}]


@pytest.mark.integration
def test_ray_reads_the_same(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("ray")
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as short:  # the names of its sockets have a limit
        monkeypatch.setenv("RAY_TMPDIR", short)
        _reads_the_same()


def _reads_the_same() -> None:
    assert read_job(JOB, engine=Engine.RAY) == read_job(JOB)


@pytest.mark.integration
def test_error_on_ray_is_the_error_here():
    pytest.importorskip("ray")
    with pytest.raises(RunError, match="this log cannot be read"):
        list(results_of(fails, [(1,)], Engine.RAY, is_large=False))
