"""Run several jobs at a time, with fake captures."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrace.inspector.errors import SettingsError, TargetError
from ctrace.inspector.facts.session import Failure, FailurePhase, Session, Target
from ctrace.inspector.features.check.check_model import SEED, CheckJob, FinishedJob, JobKey
from ctrace.inspector.features.check.pool import run_jobs
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.child import ChildProcess
from ctrace.inspector.runs.store import KEEP, Store
from tests.support.places import ROOT

GIB = 1 << 30
CRASH = Session(failure=Failure(FailurePhase.CRASH, "SIGSEGV", "crashed"))


class Fake:
    """Fake `capture.capture`: wait for permission to end, and count how many run at once."""

    def __init__(self, **peaks: int) -> None:
        self.peaks = peaks
        self.gates: dict[str, threading.Event] = {}
        self.running: list[str] = []
        self.most = 0
        self.together: list[set[str]] = []
        self.environment: dict[str, str] = {}
        self.cores: int | None = None
        self.owned: tuple[str, ...] = ()
        self.seeds: list[int | None] = []
        self._lock = threading.Lock()

    def __call__(
        self,
        resolved: Any,
        options: Options,
        *,
        child: ChildProcess,
        owned: tuple[str, ...],
        seed: int | None = None,
        **_rest: Any,
    ) -> Session:
        name = resolved.path.stem
        self.seeds.append(seed)
        with self._lock:
            self.running.append(name)
            self.most = max(self.most, len(self.running))
            self.together.append(set(self.running))
        self.environment, self.cores, self.owned = dict(child.environment), child.cores, owned
        try:
            deadline = time.monotonic() + 20
            while not self.gates.setdefault(name, threading.Event()).wait(0.01) and time.monotonic() < deadline:
                if not child.is_wanted:
                    break
            child.peak = self.peaks.get(name, 0)
        finally:
            with self._lock:
                self.running.remove(name)
        return Session(target=Target(str(resolved.path)))

    def open(self, *names: str) -> "Fake":
        for name in names:
            self.gates.setdefault(name, threading.Event()).set()
        return self


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "runs")


@pytest.fixture
def jobs(tmp_path: Path) -> Callable[[str], list[CheckJob]]:
    def make(names: str) -> list[CheckJob]:
        for name in names:
            (tmp_path / f"{name}.py").write_text("model = inputs = None\n")
        return [CheckJob(JobKey(name), str(tmp_path / f"{name}.py"), Options()) for name in names]

    return make


def _names(ran: Iterator[FinishedJob]) -> list[str]:
    return [each.job.key.model for each in ran]


def test_results_come_as_jobs_end(store: Store, jobs: Callable[[str], list[CheckJob]]) -> None:
    fake = Fake().open("b", "c")
    ran = run_jobs(jobs("abc"), store=store, at_a_time=2, captures=fake)
    assert {next(ran).job.key.model, next(ran).job.key.model} == {"b", "c"}
    fake.open("a")
    assert _names(ran) == ["a"]


@pytest.mark.parametrize("forks", [True, False])
def test_all_jobs_of_all_checks_start_with_one_seed(
    store: Store, jobs: Callable[[str], list[CheckJob]], forks: bool
) -> None:
    fake = Fake().open("a", "b")
    for _ in range(2):
        assert len(_names(run_jobs(jobs("ab"), store=store, captures=fake, forks=forks))) == 2
    assert fake.seeds == [SEED] * 4


def test_no_more_run_than_may(store: Store, jobs: Callable[[str], list[CheckJob]]) -> None:
    fake = Fake().open(*"abcdefgh")
    assert sorted(_names(run_jobs(jobs("abcdefgh"), store=store, at_a_time=3, memory=64 * GIB, captures=fake))) == [
        *"abcdefgh"
    ]
    assert fake.most <= 3


def test_no_more_run_than_fit_into_memory_but_one_always_does(
    store: Store, jobs: Callable[[str], list[CheckJob]]
) -> None:
    fake = Fake().open(*"abcd")
    assert len(_names(run_jobs(jobs("abcd"), store=store, at_a_time=4, memory=1000, captures=fake))) == 4
    assert fake.most == 1


def test_what_jobs_need_is_learned_from_those_that_ended(store: Store, jobs: Callable[[str], list[CheckJob]]) -> None:
    """Two jobs fit by the first estimate; after one has used all memory, no two run together."""
    fake = Fake(a=3 * GIB, b=3 * GIB).open("b")
    ran = run_jobs(jobs("abcd"), store=store, at_a_time=2, memory=3 * GIB, captures=fake)
    assert next(ran).job.key.model == "b"
    fake.open("a", "c", "d")
    assert len(_names(ran)) == 3
    assert {"c", "d"} not in fake.together


def test_who_looks_is_told_of_each_start_and_end(store: Store, jobs: Callable[[str], list[CheckJob]]) -> None:
    found: list[tuple[str, str]] = []
    list(
        run_jobs(
            jobs("ab"),
            store=store,
            at_a_time=1,
            captures=Fake().open("a", "b"),
            observe=lambda job, what: found.append((job.key.model, what)),
        )
    )
    assert found == [("a", "started"), ("a", "ended"), ("b", "started"), ("b", "ended")]


@pytest.mark.parametrize(("names", "forks", "serves"), [("ab", True, True), ("ab", False, False), ("a", True, False)])
def test_several_jobs_share_a_server_and_one_needs_none(
    names: str, forks: bool, serves: bool, store: Store, jobs: Callable[[str], list[CheckJob]]
) -> None:
    servers = []

    def captured(resolved: Any, _options: Options, *, child: ChildProcess, **_rest: Any) -> Session:
        servers.append(child.server)
        return Session(target=Target(str(resolved.path)))

    list(run_jobs(jobs(names), store=store, captures=captured, forks=forks))
    assert len(servers) == len(names)
    assert len({id(each) for each in servers}) == 1
    assert (servers[0] is not None) == serves


def test_cores_are_shared_but_not_those_that_the_user_gave(
    store: Store, jobs: Callable[[str], list[CheckJob]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctrace.inspector.processes.machine.cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "5")
    fake = Fake().open("a", "b")
    list(run_jobs(jobs("ab"), store=store, memory=9 * GIB, owned=("lib",), captures=fake))
    assert fake.environment["OMP_NUM_THREADS"] == "4"
    assert fake.cores == 4
    assert "MKL_NUM_THREADS" not in fake.environment
    assert fake.owned == ("lib",)
    list(run_jobs(jobs("a"), store=store, captures=fake))
    assert fake.environment == {}
    assert fake.cores is None


def test_an_error_of_the_users_costs_one_job(store: Store, jobs: Callable[[str], list[CheckJob]]) -> None:
    def captures(resolved: Any, _options: Options, **_rest: Any) -> Session:
        if resolved.path.stem == "a":
            raise SettingsError("what", "todo")
        return Session()

    by_name = {each.job.key.model: each for each in run_jobs(jobs("ab"), store=store, captures=captures)}
    assert isinstance(by_name["a"].error, SettingsError)
    assert by_name["a"].session is None
    assert by_name["b"].error is None


def test_a_target_that_went_away_is_an_error(
    store: Store, jobs: Callable[[str], list[CheckJob]], tmp_path: Path
) -> None:
    made = jobs("a")
    (tmp_path / "a.py").unlink()
    (ran,) = run_jobs(made, store=store, captures=Fake())
    assert isinstance(ran.error, TargetError)


def test_a_bug_of_ours_is_no_result(store: Store, jobs: Callable[[str], list[CheckJob]]) -> None:
    def captures(*_args: Any, **_rest: Any) -> Session:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        list(run_jobs(jobs("a"), store=store, captures=captures))


def test_what_a_failed_program_said_last_is_kept(store: Store, jobs: Callable[[str], list[CheckJob]]) -> None:
    def captures(
        resolved: Any, _options: Options, *, stdout: Any, child: ChildProcess, store: Store, **_rest: Any
    ) -> Session:
        child.began(store.create(Target(str(resolved.path))))
        for number in range(200_000):
            stdout.write(b"line %d\n" % number)
        return CRASH if resolved.path.stem == "a" else Session()

    by_name = {each.job.key.model: each for each in run_jobs(jobs("ab"), store=store, captures=captures)}
    lines = by_name["a"].last_lines.splitlines()
    assert len(lines) == 15
    assert lines[-1] == "line 199999"
    assert by_name["b"].last_lines == ""
    assert by_name["a"].run is not None
    output = store.root / by_name["a"].run / "output.txt"
    assert output.stat().st_size < 1_100_000
    assert output.read_text().endswith("line 199999\n")


def test_a_check_does_not_push_its_own_runs_out(store: Store, jobs: Callable[[str], list[CheckJob]]) -> None:
    def captures(resolved: Any, _options: Options, *, child: ChildProcess, store: Store, **_rest: Any) -> Session:
        run = store.create(Target(str(resolved.path)))
        child.began(run)
        store.finish(run, 1.0, None, {})
        return Session()

    ran = list(run_jobs(jobs("abcdefghijklmnopqrst"), store=store, at_a_time=4, memory=64 * GIB, captures=captures))
    names = {each.run for each in ran}
    assert len(names) == 20 > KEEP
    assert names <= {run.name for run in store.runs()}


def test_who_wants_no_more_ends_all_jobs(store: Store, jobs: Callable[[str], list[CheckJob]]) -> None:
    fake = Fake().open("a")
    ran = run_jobs(jobs("abcd"), store=store, at_a_time=2, memory=9 * GIB, captures=fake)
    next(ran)
    ran.close()  # type: ignore[attr-defined]
    assert fake.running == []


_INTERRUPTED = """
import sys
from pathlib import Path
from ctrace.inspector.features.check import pool
from ctrace.inspector.features.check.check_model import CheckJob, JobKey
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.store import Store
from ctrace.inspector.processes import boot
boot._BOOT = "import os, signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(60)"
jobs = [CheckJob(JobKey(name), name, Options()) for name in sys.argv[1:]]
try:
    for ran in pool.run_jobs(jobs, store=Store(Path("runs")), at_a_time=2, memory=1 << 40):
        pass
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_even_those_that_do_not_listen(tmp_path: Path, jobs: Callable[[str], list[CheckJob]]) -> None:
    targets = [job.target for job in jobs("abc")]
    root = ROOT
    parent = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED, *targets],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while (
        len(children := [int(each.read_text()) for each in tmp_path.glob("runs/*/output.txt") if each.read_text()]) < 2
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    parent.send_signal(signal.SIGINT)
    out, _ = parent.communicate(timeout=10)
    assert "interrupted" in out
    assert parent.returncode == 0
    for pid in children:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
