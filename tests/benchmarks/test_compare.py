"""virtual_gpu.py: what counts as equal, what is listed as different, and when its goals are met."""

from dataclasses import replace
from pathlib import Path

import _tables
import pytest
import virtual_gpu
from _compare import Share, compared, without_debugging
from _tables import Emitted, Row, good_enough, table

from ctrace.inspector.facts.built import Built, Ir
from ctrace.inspector.facts.kernel_facts import Kernel, Stage
from ctrace.inspector.facts.session import Session, Target
from ctrace.inspector.facts.target_gpu import Undecided
from ctrace.inspector.runs.store import Store
from tests.support import built
from tests.support.places import DATA

ADD, MUL, MM = "triton_poi_fused_add_0", "triton_poi_fused_mul_1", "extern_kernels.mm"
PTX = """\
.version 8.7
.target sm_90a
	.file	1 "/tmp/a/add.py"
.visible .entry add(
	.param .u64 x // pointer
)
{
$L__func_begin0:
	.loc	1 18 0                          // add.py:18:0
// %bb.0:
	mov.u32 	%r1, %ctaid.x;
$L__tmp1:
	ret;
}
.section	.debug_abbrev
	{
.b8 1
	}
	.section	.debug_macinfo	{	}
"""


def kernel(name: str, source: str = "", stage: Stage = Stage.INFERENCE) -> Kernel:
    made = source or f"{name} 'backend_hash': 'AA'"
    return Kernel("0/0", stage, name, "external" if name == MM else "triton", source="" if name == MM else made)


def session(*kernels: Kernel, built: tuple[Built, ...] = (), undecided: tuple[Undecided, ...] = ()) -> Session:
    return Session(kernels=kernels, built=built, undecided=undecided)


def compiled(name: str, warps: int = 4, ptx: str = PTX, **more: object) -> Built:
    return built.built(name, f"{name}{warps}", warps=warps, ir={"ptx": Ir(ptx)} if ptx else {}, **more)


def test_two_equal_runs_are_equal() -> None:
    both = session(kernel(ADD), kernel(MM), kernel(MUL), built=(compiled(ADD), compiled(MUL, ptx=""), compiled(MUL, 8)))
    found = compared(both, both)
    assert found.parts == 1
    assert found.sources == Share(2, 2)
    assert found.resources == Share(3, 3)
    assert found.ptx == Share(2, 2)  # a log keeps the code of what is launched
    assert (found.hashes, found.differences) == (0, ())
    assert good_enough([Row("m", "inference", comparison=found)])


def test_a_hash_is_put_aside_and_said() -> None:
    ours = session(kernel(ADD, f"{ADD} 'backend_hash': 'BB'"))
    found = compared(session(kernel(ADD)), ours)
    assert (found.sources, found.hashes) == (Share(1, 1), 1)
    assert "1 kernels are equal only with hashes put aside" in table([Row("m", "training", comparison=found)])


def test_another_source_is_listed_with_what_was_undecided_and_a_short_diff() -> None:
    choice = Undecided(Stage.INFERENCE, "padding", "mm(8x7, 7x3)", "not padded", graph="0/0")
    theirs = session(kernel(ADD, "same\ntheirs\n"), kernel(MUL))
    found = compared(theirs, session(kernel(ADD, "same\nours\n"), kernel(MUL), undecided=(choice,)))
    assert found.sources == Share(1, 2)
    (difference,) = found.differences[:1]
    assert (difference.kernel, difference.what) == (ADD, "other source")
    assert difference.why == "undecided padding: mm(8x7, 7x3), taken not padded"
    assert difference.diff == "-theirs\n+ours"


def test_a_kernel_that_one_side_has_not_counts_and_is_listed() -> None:
    only_here, only_there = session(kernel(ADD), kernel(MUL)), session(kernel(ADD))
    for theirs, ours, what in ((only_here, only_there, "only on the GPU"), (only_there, only_here, "only emitted")):
        found = compared(theirs, ours)
        assert found.sources == Share(1, 2)
        assert [each.what for each in found.differences if each.kernel == MUL] == [what]


def test_a_graph_part_that_one_side_has_not_counts() -> None:
    theirs = session(kernel(ADD), kernel(MUL, stage=Stage.BACKWARD))
    found = compared(theirs, session(kernel(ADD)))
    assert (found.parts, found.sources) == (2, Share(1, 2))


def test_other_calls_of_libraries_and_another_order_are_told() -> None:
    theirs = session(kernel(ADD), kernel(MUL), kernel(MM))
    found = compared(theirs, session(kernel(MUL), kernel(ADD)))
    assert found.sources == Share(2, 2)
    seen = {each.what: each.diff for each in found.differences}
    assert seen["other calls of libraries"] == f"-{MM} ×1"
    assert "another order of kernels" in seen


def test_ptx_and_resources_are_compared_by_configuration() -> None:
    theirs = session(kernel(ADD), built=(compiled(ADD), compiled(ADD, 8, ptx="", registers=30)))
    other = PTX.replace("ctaid.x", "ctaid.y").replace("/tmp/a/add.py", "/tmp/b/c/add.py")
    ours = session(kernel(ADD), built=(compiled(ADD, ptx=other), compiled(ADD, 8, registers=32)))
    found = compared(theirs, ours)
    assert (found.ptx, found.resources) == (Share(0, 1), Share(1, 2))
    seen = {each.what: each for each in found.differences}
    assert seen["other PTX"].diff == "-\tmov.u32 \t%r1, %ctaid.x;\n+\tmov.u32 \t%r1, %ctaid.y;"
    assert seen["other resources"].why == "XBLOCK=1, 8 warps, 1 stages: registers 30 against 32"
    assert not good_enough([Row("m", "inference", comparison=found)])


def test_what_was_not_compiled_is_missing_not_equal() -> None:
    real = session(kernel(ADD), built=(compiled(ADD),))
    found = compared(real, session(kernel(ADD)))
    assert (found.ptx, found.resources) == (Share(missing=1), Share(missing=1))
    assert str(found.ptx) == "not measured (1 missing)"
    assert [each.what for each in found.differences] == ["configuration only on the GPU"]
    assert not good_enough([Row("m", "inference", comparison=found)])
    nothing = compared(session(kernel(ADD)), real)
    assert nothing.ptx == Share(missing=1)
    assert [each.what for each in nothing.differences] == ["configuration only emitted"]


def test_lines_and_files_in_ptx_are_put_aside() -> None:
    moved = PTX.replace("/tmp/a/add.py", "/other/add.py").replace("1 18 0", "1 99 4").replace("add.py:18:0", "")
    kept = without_debugging(PTX)
    assert without_debugging(moved) == kept
    assert "\tmov.u32 \t%r1, %ctaid.x;" in kept
    assert not any(word in line for line in kept for word in (".loc", ".file", ".debug", "$L__", "//", ".b8"))


def test_the_file_of_an_assertion_is_put_aside_and_its_line_is_not() -> None:
    one = ".global .align 1 .b8 assertFile_0[3] = {47, 97, 0};\nmov.b32 %r2, 22;"
    other = ".global .align 1 .b8 assertFile_0[2] = {47, 0};\nmov.b32 %r2, 22;"
    assert without_debugging(one) == without_debugging(other)
    assert without_debugging(one) != without_debugging(one.replace("22", "23"))


@pytest.mark.parametrize(("equal", "good"), [(95, True), (94, False)])
def test_the_goal_of_sources(equal: int, good: bool) -> None:
    found = replace(compared(Session(), Session()), sources=Share(equal, 100), ptx=Share(9, 9))
    assert good_enough([Row("m", "inference", comparison=replace(found, resources=Share(9, 9)))]) is good


def test_a_run_that_failed_is_a_row_and_no_success() -> None:
    rows = [Row("m", "inference", failure="no GPU | left\nat all")]
    assert "| m | inference | - | - | - | - | - | failed: no GPU / left at all |" in table(rows)
    assert not good_enough(rows)


def saved(folder: Path, log: str) -> None:
    store = Store(folder)
    run = store.create(Target("model.py"))
    run.log.write_bytes((DATA / log).read_bytes())
    store.finish(run, 1.0, None, {})


def test_saved_runs_are_read_and_compared(tmp_path: Path) -> None:
    for side, log in (("built", "trained.log"), ("h100", "fused.log")):
        saved(tmp_path / f"mlp-training-{side}", log)
    bench = virtual_gpu.Bench(tmp_path, 1, 1, saved=True)
    virtual = virtual_gpu.attempt(lambda: bench.emitted("mlp", "training", "h100"))
    [row] = virtual_gpu.rows_of(bench, virtual, "h100", "mlp", "training")
    assert row.comparison is not None
    assert row.comparison.sources.equal < row.comparison.sources.compared
    nothing = virtual_gpu.attempt(lambda: bench.emitted("mlp", "inference", "h100"))
    [failed] = virtual_gpu.rows_of(bench, nothing, "h100", "mlp", "inference")
    assert failed.comparison is None
    assert "there is no run" in failed.failure


def test_timed_choices_are_put_aside_and_the_gpu_is_held_against_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_gpu(_bench: object, _model: str, _mode: str, again: str = "") -> Session:
        return session(kernel(MUL if again else ADD))

    monkeypatch.setattr(virtual_gpu.Bench, "on_gpu", on_gpu)
    monkeypatch.setattr(virtual_gpu.Bench, "emitted_as_timed", lambda *_: session(kernel(ADD)))
    bench = virtual_gpu.Bench(tmp_path, 1, 1)
    padding = Undecided(Stage.INFERENCE, "padding", "bmm", "not padded", graph="0/0")
    rows = virtual_gpu.rows_of(bench, session(kernel(MUL), undecided=(padding,)), "h100", "vit", "inference")
    sources = {row.what: row.comparison.sources.equal for row in rows if row.comparison is not None}
    assert sources == {"": 0, _tables.SAME_CHOICES: 1, _tables.GPU_TWICE: 0}
    assert "| vit | inference, choices as timed |" in table(rows)
    assert table(rows).count("| all |") == 2
    assert _tables.with_same_choices(rows) == [rows[1]]
    [alone] = virtual_gpu.rows_of(bench, session(kernel(MUL)), "h100", "vit", "inference")
    assert table([alone]).count("| all |") == 1


def test_what_was_emitted_is_no_kernel_of_a_processor(tmp_path: Path) -> None:
    saved(tmp_path / "mlp-training-h100", "fused.log")
    bench = virtual_gpu.Bench(tmp_path, 1, 1, saved=True)
    row = virtual_gpu.emit(bench, "mlp", "training", "h100")
    assert "kernels in cpp" in row.failure
    assert "failed: kernels in cpp" in _tables.emitted_table([row])
    assert _tables.emitted_table([Emitted("m", "inference", "t4", 2.4, "compiled", 3)]).endswith("| 0 | 2 |  |")
