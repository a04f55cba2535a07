"""Problems recorded if kernels for the target cannot be compiled."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("triton")

from ctrace.inspector.capture.codegen.generate import Codegen
from ctrace.inspector.features.gpus.child.compiling import compile_kernels
from ctrace.inspector.features.gpus.child.compiling.cache import CompileCache
from ctrace.inspector.features.gpus.child.compiling.compile_kernels import Job, Metal
from ctrace.inspector.knowledge.gpus.table import gpu_named


class Recording:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.records: list[tuple[str, Any]] = []

    def problem(self, what: str) -> None:
        self.problems.append(what)

    @contextmanager
    def watching(self, _what: str) -> Iterator[None]:
        yield


class Part:
    stage = "forward"

    def record(self, recorder: Recording, name: str, payload: Any) -> None:
        recorder.records.append((name, payload))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Recording:
    monkeypatch.setenv("CTRACE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return Recording()


def metal(recorder: Any) -> Metal:
    gpu: Any = SimpleNamespace(facts=gpu_named("h100"))
    cores: Any = None
    return Metal(recorder, gpu, cores)


def test_a_program_that_is_interrupted_leaves_no_folder(recorder: Recording, tmp_path: Path) -> None:
    cores: Any = None
    codegen = Codegen(cast("Any", recorder), cores, metal(recorder))
    assert list(tmp_path.glob("ctrace-metal-*"))
    codegen.end()
    assert not list(tmp_path.glob("ctrace-metal-*"))


def test_without_a_temporary_folder_nothing_is_compiled(recorder: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_options: object) -> str:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    part: Any = Part()
    assert metal(recorder).jobs("", part) == []
    assert recorder.problems == [
        "kernels were emitted for h100 but not compiled: no temporary folder can be created (Read-only file system); "
        "set TMPDIR to a writable folder"
    ]


def test_without_ptxas_nothing_is_compiled(recorder: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton import knobs

    monkeypatch.setattr(knobs, "nvidia", SimpleNamespace(ptxas=SimpleNamespace(path="/no/such/ptxas")))
    part: Any = Part()
    assert metal(recorder).jobs("", part) == []
    assert recorder.problems == [
        "kernels were emitted for h100 but not compiled: this Triton has no ptxas (pip install triton)"
    ]


def test_what_triton_says_of_a_missing_tool_is_quoted(recorder: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton import knobs

    class Missing:
        @property
        def ptxas(self) -> None:
            raise RuntimeError("Cannot find ptxas")

    monkeypatch.setattr(knobs, "nvidia", Missing())
    part: Any = Part()
    assert metal(recorder).jobs("", part) == []
    assert recorder.problems == [
        "kernels were emitted for h100 but not compiled: Cannot find ptxas (pip install triton)"
    ]


def compiled(recorder: Recording, monkeypatch: pytest.MonkeyPatch, **outcome: Any) -> None:
    """Compile one kernel, used by two graphs, with a compiler that has this outcome."""
    whole = {"records": [], "refused": [], "error": "", **outcome}
    made = metal(recorder)
    monkeypatch.setattr(Metal, "_compiler", SimpleNamespace(compile=lambda _name, _source: whole), raising=True)
    job = Job("aa" * 32, "triton_poi", "source")
    part: Any = Part()
    job.users.extend([(part, "triton_poi_0"), (part, "triton_poi_1")])
    made._compile(job)


def test_a_kernel_that_does_not_compile_is_named_wherever_it_is_used(
    recorder: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled(recorder, monkeypatch, error="ptxas: out of registers")
    assert recorder.problems == [
        f"triton_poi_{number} for h100: it does not compile: ptxas: out of registers" for number in (0, 1)
    ]


def test_a_cache_that_cannot_be_written_is_no_reason_to_stop(
    recorder: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(CompileCache, "put", refuse)
    compiled(recorder, monkeypatch, records=[("built", {"blocks": {}, "warps": 4, "stages": 1})])
    assert recorder.problems == [
        "compiled kernels were not cached for the next run: [Errno 28] No space left on device"
    ]
    assert [(name, each["kernel"], each["open"]) for name, each in recorder.records] == [
        ("built", "triton_poi_0", False),
        ("built", "triton_poi_1", False),
    ]


def test_a_worker_that_dies_costs_its_kernel_only(recorder: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(jobs: int, _work: Any, failed: Any, *_limits: Any) -> None:
        for number in range(jobs):
            failed(number, "ended with SIGSEGV")

    monkeypatch.setattr(compile_kernels, "work_off", crash)
    job = Job("aa" * 32, "triton_poi", "source")
    part: Any = Part()
    job.users.append((part, "triton_poi_0"))
    metal(recorder).compile([job])
    assert recorder.problems == ["triton_poi_0 for h100: compiling it ended with SIGSEGV"]
