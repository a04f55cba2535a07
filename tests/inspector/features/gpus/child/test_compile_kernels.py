"""Problems recorded if kernels for the target cannot be compiled."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("triton")

from ctrace.inspector.capture.inductor.emit import Codegen
from ctrace.inspector.facts.built import Built, KernelCode, KernelRefusal
from ctrace.inspector.facts.kernel_facts import Stage
from ctrace.inspector.facts.target_gpu import Undecided
from ctrace.inspector.facts.wire import Record
from ctrace.inspector.features.gpus.child import compile_kernels
from ctrace.inspector.features.gpus.child.compile_kernels import CompileCache, CompiledKernel, CompileJob, Metal
from ctrace.inspector.knowledge.gpus.gpu_table import gpu_named


class Recording:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.records: list[Record] = []

    def problem(self, what: str) -> None:
        self.problems.append(what)

    def add(self, record: Record) -> None:
        self.records.append(record)

    @contextmanager
    def watching(self, _what: str) -> Iterator[None]:
        yield


class Part:
    stage = Stage.FORWARD

    def add(self, recorder: Recording, record: Record) -> None:
        recorder.add(record)


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
    whole = CompiledKernel(**{"built": (), "codes": (), "refused": {}, "problems": (), "error": "", **outcome})
    made = metal(recorder)
    monkeypatch.setattr(Metal, "_compiler", SimpleNamespace(compile=lambda _name, _source: whole), raising=True)
    job = CompileJob("aa" * 32, "triton_poi", "source")
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
    compiled(recorder, monkeypatch, built=(Built(Stage.INFERENCE, "", "aa", 4, 1, False),))
    assert recorder.problems == [
        "compiled kernels were not cached for the next run: [Errno 28] No space left on device"
    ]
    assert recorder.records == [
        Built(Stage.FORWARD, name, "aa", 4, 1, False) for name in ("triton_poi_0", "triton_poi_1")
    ]


def test_what_is_recorded_says_for_which_part_and_whether_torch_would_choose(
    recorder: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = tuple(Built(Stage.INFERENCE, "", hash_, warps, 1, False) for hash_, warps in (("aa", 4), ("bb", 8)))
    compiled(recorder, monkeypatch, built=both, refused={"XBLOCK=16": "no room"}, codes=(KernelCode("aa", {}, {}),))
    of_last = [each for each in recorder.records if getattr(each, "kernel", "") == "triton_poi_1"]
    assert of_last == [
        Built(Stage.FORWARD, "triton_poi_1", "aa", 4, 1, False, open=True),
        Built(Stage.FORWARD, "triton_poi_1", "bb", 8, 1, False, open=True),
        KernelRefusal(Stage.FORWARD, "triton_poi_1", "XBLOCK=16", "no room"),
    ]
    chosen = [each for each in recorder.records if isinstance(each, Undecided)]
    names = ["num_warps=4, num_stages=1", "num_warps=8, num_stages=1"]
    assert [[one.configuration for one in each.candidates] for each in chosen] == [names, names]
    assert sum(isinstance(each, KernelCode) for each in recorder.records) == 1


def test_a_problem_of_the_compiler_is_told_and_its_outcome_not_cached(
    recorder: Recording, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiled(recorder, monkeypatch, problems=("no nvdisasm",))
    assert recorder.problems == ["no nvdisasm"]
    assert not list(tmp_path.rglob("aaaa*"))


def test_a_worker_that_dies_costs_its_kernel_only(recorder: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(jobs: int, _work: Any, failed: Any, *_limits: Any) -> None:
        for number in range(jobs):
            failed(number, "ended with SIGSEGV")

    monkeypatch.setattr(compile_kernels, "work_off", crash)
    job = CompileJob("aa" * 32, "triton_poi", "source")
    part: Any = Part()
    job.users.append((part, "triton_poi_0"))
    metal(recorder).compile([job])
    assert recorder.problems == ["triton_poi_0 for h100: compiling it ended with SIGSEGV"]
