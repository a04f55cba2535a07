"""Recorded jobs of two ranks (tests/support/record_ranks.py), each with one difference: the divergence is named."""

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest

from ctrace.inspector.errors import RunError
from ctrace.inspector.features.compare.rank_summary import Apart, summary_of
from ctrace.inspector.features.compare.ranks_of_job import Job, read_job
from ctrace.inspector.log.folders import LogFile, choose, logs_in
from ctrace.reports.json.printer import render
from ctrace.reports.wording.ranks_wording import incomplete
from tests.support.places import DATA

JOBS = DATA / "ranks"
HEALTHY = ("equal", "ddp", "fsdp", "tensor_parallel", "collectives")


def job(case: str) -> Job:
    return read_job(JOBS / case)


def copied(case: str, folder: Path) -> Path:
    """Copy a recorded job, uncompressed, so that a test can change it."""
    for path in (JOBS / case).iterdir():
        (folder / path.name.removesuffix(".gz")).write_bytes(gzip.decompress(path.read_bytes()))
    return folder


def log_of(folder: Path, rank: int) -> Path:
    return folder / f"dedicated_log_torch_trace_rank_{rank}.log"


def with_rank(text: str, rank: int) -> str:
    return re.sub(r'"rank": \d+', f'"rank": {rank}', text)


@pytest.mark.parametrize("case", HEALTHY)
def test_healthy_ranks_agree(case: str):
    found = job(case)
    assert found.agree is True
    assert (found.ranks, found.missing, found.cut, found.divergence) == ((0, 1), (), {}, None)
    assert found.groups == ((0, 1),)
    assert found.compilations


@pytest.mark.parametrize(
    ("case", "kind", "compilation", "function", "line", "subject", "values"),
    [
        ("shape", "input", "0/0", "forward", "def forward", "x", ("f32[4, 8][8, 1]cpu", "f32[6, 8][8, 1]cpu")),
        (
            "branch",
            "graph",
            "0/0",
            "forward",
            "torch.sin(hidden)|self.leave(hidden)",
            "node",
            ("linear(", "torch.sin("),
        ),
        ("order", "collective", "0/0", "reduced", "def reduced", "collective 1", ("'sum'", "'max'")),
        (
            "environment",
            "cache_key",
            "0/0",
            "reduced",
            "def reduced",
            "inductor_config[size_asserts]",
            ("True", "False"),
        ),
        (
            "recompile",
            "recompile",
            "0/1",
            "forward",
            "def forward",
            "the compilation",
            ("does not compile", "size mismatch"),
        ),
    ],
)
def test_first_divergence_is_named_with_both_values(
    case: str, kind: str, compilation: str, function: str, line: str, subject: str, values: tuple[str, str]
):
    found = job(case)
    assert found.agree is False
    at = found.divergence
    assert at is not None
    assert (at.kind, at.compilation, at.function) == (kind, compilation, function)
    assert at.subject.startswith(subject)
    assert at.file.endswith("/train.py")
    assert at.line > 0
    assert [value in at.values[rank] for rank, value in enumerate(values)] == [True, True], at.values


def test_killed_ranks_are_named():
    found = job("killed")
    assert found.agree is None
    assert set(found.cut) == {0, 1}, "torchrun ends the others too"
    assert "0/1 of forward" in found.cut[1]


def changed(folder: Path, rank: int, old: str, new: str) -> Path:
    text = log_of(folder, rank).read_text(encoding="utf-8")
    assert old in text
    log_of(folder, rank).write_text(text.replace(old, new), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["inductor_collective_schedule", "inductor_post_grad_graph"])
def test_a_record_that_one_log_lacks_is_not_compared_and_no_divergence(name: str, tmp_path: Path):
    # A cache, or a race, keeps a record of torch out of the log of one rank.
    folder = changed(copied("collectives", tmp_path), 1, f'"{name}"', '"something_else"')
    found = read_job(folder)
    assert (found.agree, found.divergence, found.groups) == (True, None, ((0, 1),))
    assert any("of 0/0 are not compared on these ranks, whose logs lack it: 1" in note for note in found.notes)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("all_reduce.default(addmm_1, 'sum', '0')", "all_reduce.default(addmm_1, 'max', '0')"),
        ('all_reduce: "f32[4, 4]', 'all_reduce: "f32[6, 4]'),
        ('all_reduce: "f32[4, 4]', 'all_reduce: "bf16[4, 4]'),
    ],
)
def test_a_collective_that_dtensor_puts_below_the_graph_of_dynamo_is_compared(old: str, new: str, tmp_path: Path):
    found = read_job(changed(copied("tensor_parallel", tmp_path), 1, old, new)).divergence
    assert found is not None
    assert (found.kind, found.subject) == (Apart.COLLECTIVE, "collective 1 of the forward graph")
    assert found.values[0].startswith("all_reduce(addmm_1, 'sum', '0') -> f32[4, 4]")
    assert found.values[1] != found.values[0]


def test_a_rank_that_pads_its_shard_names_its_nodes_differently_and_agrees(tmp_path: Path):
    folder = changed(copied("tensor_parallel", tmp_path), 1, "default(addmm_1, 'sum'", "default(padded_2, 'sum'")
    assert read_job(folder).agree is True


def test_truncated_rank_is_named_and_leaves_it_open_whether_they_agree(tmp_path: Path):
    folder = copied("equal", tmp_path)
    text = log_of(folder, 1).read_text(encoding="utf-8")
    log_of(folder, 1).write_text(text[: text.index('{"dynamo_output_graph"')], encoding="utf-8")
    found = read_job(folder)
    assert found.agree is None or found.divergence is not None
    assert list(found.cut) == [1]


def test_rank_that_ends_while_a_backward_compiles_is_incomplete(tmp_path: Path):
    folder = copied("ddp", tmp_path)
    for rank in (0, 1):
        text = log_of(folder, rank).read_text(encoding="utf-8")
        begin = text.index('"entire_backward_compile"')
        log_of(folder, rank).write_text(text[: text.index("\nV", begin) + 1], encoding="utf-8")
    found = read_job(folder)
    assert (found.agree, found.divergence) == (None, None)
    assert [text.startswith("the log ends while the backward of 4/0 of ") for text in found.cut.values()] == [
        True,
        True,
    ]


def test_wrapper_of_torch_is_named_by_the_line_that_calls_it():
    found = {each.id: (each.function, Path(each.file).name) for each in job("ddp").compilations}
    assert found["0/0"] == ("inner", "train.py")


def test_log_cut_in_its_last_line_is_incomplete(tmp_path: Path):
    folder = copied("equal", tmp_path)
    log_of(folder, 1).write_bytes(log_of(folder, 1).read_bytes()[:-5])
    assert list(read_job(folder).cut) == [1]


def test_truncated_rank_without_a_compilation_of_the_others_is_missing_it(tmp_path: Path):
    folder = copied("ddp", tmp_path)
    lines = log_of(folder, 1).read_text(encoding="utf-8").splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if '"dynamo_start"' in line and '"frame_id": 4' in line]
    log_of(folder, 1).write_text("".join(lines[: starts[0]]), encoding="utf-8")
    found = read_job(folder)
    assert found.agree is None
    assert found.divergence is not None
    assert (found.divergence.kind, found.divergence.compilation) == (Apart.MISSING, "4/0")
    assert "3/0" in found.divergence.values[1]


def test_rank_killed_in_a_compilation_of_its_own_is_said_to_end_there(tmp_path: Path):
    folder = copied("ddp", tmp_path)
    for rank, kind in ((0, "start"), (1, "end")):
        lines = log_of(folder, rank).read_text(encoding="utf-8").splitlines(keepends=True)
        starts = [number for number, line in enumerate(lines) if '"dynamo_start"' in line and '"frame_id": 4' in line]
        log_of(folder, rank).write_text("".join(lines[: starts[0] + (kind == "end")]), encoding="utf-8")
    found = read_job(folder)
    assert found.divergence is not None
    assert found.divergence.values[1] == found.cut[1]
    assert found.divergence.values[1].startswith("the log ends while 4/0 of ")


def test_pieces_of_one_log_are_no_second_attempt(tmp_path: Path):
    """Somebody split a log, and named the pieces as torch names logs."""
    folder = copied("equal", tmp_path)
    text = log_of(folder, 0).read_text(encoding="utf-8")
    half = text.index("\nV", len(text) // 2) + 1
    log_of(folder, 0).write_text(text[:half], encoding="utf-8")
    (folder / "a_rank_0_rest.log").write_text(text[half:], encoding="utf-8")
    with pytest.raises(RunError, match="in 2 pieces: only one has a beginning") as caught:
        read_job(folder)
    assert caught.value.todo == f"join them in this order: {log_of(folder, 0).name}, a_rank_0_rest.log"
    assert "has one log in 2 pieces" in choose(folder, 0).note


def test_second_attempt_is_told_by_its_time(tmp_path: Path):
    folder = copied("equal", tmp_path)
    text = log_of(folder, 0).read_text(encoding="utf-8")
    (folder / "rank_0_again.log").write_text(re.sub(r"^V\d{4} \d\d", "V1231 23", text, flags=re.M), encoding="utf-8")
    with pytest.raises(
        RunError, match=r"two attempts, or two jobs \(.* from \d{4} .*again.log from 1231 23:"
    ) as caught:
        read_job(folder)
    assert "one attempt" in caught.value.todo


def test_gap_in_the_ranks_is_a_missing_rank(tmp_path: Path):
    folder = copied("equal", tmp_path)
    log = log_of(folder, 1)
    log_of(folder, 3).write_text(with_rank(log.read_text(encoding="utf-8"), 3), encoding="utf-8")
    log.unlink()
    found = read_job(folder)
    assert (found.ranks, found.missing, found.agree) == ((0, 3), (range(1, 3),), None)


def test_world_size_names_ranks_beyond_the_last_log():
    found = read_job(JOBS / "equal", world_size=4)
    assert (found.missing, found.agree) == ((range(2, 4),), None)


def test_absurd_world_size_costs_nothing():
    found = read_job(JOBS / "equal", world_size=10**15)
    assert found.missing == (range(2, 10**15),)
    data = json.loads(render(found))
    assert (len(data["missing"]), data["missing_count"]) == (10_000, 10**15 - 2)
    assert list(incomplete(found)) == ["No log of ranks 2-999999999999999."]


def test_log_that_is_gone_before_it_is_read_is_incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = copied("equal", tmp_path)
    listing = logs_in(folder)
    log_of(folder, 1).unlink()
    monkeypatch.setattr("ctrace.inspector.features.compare.ranks_of_job.logs_in", lambda _folder: listing)
    found = read_job(folder)
    assert "No such file" in found.cut[1]
    assert found.agree is None


def test_unreadable_log_is_named_and_leaves_the_answer_open(tmp_path: Path):
    folder = copied("equal", tmp_path)
    (folder / "dedicated_log_torch_trace_rank_2.log").symlink_to("loop.log")
    (folder / "loop.log").symlink_to("dedicated_log_torch_trace_rank_2.log")
    found = read_job(folder)
    assert (found.ranks, found.agree) == ((0, 1), None)
    assert any("loop.log (Too many levels of symbolic links)" in note for note in found.notes)


def test_one_odd_rank_of_many_is_singled_out(tmp_path: Path):
    folder = copied("shape", tmp_path)
    usual = log_of(folder, 0).read_text(encoding="utf-8")
    for rank in range(2, 6):
        log_of(folder, rank).write_text(with_rank(usual, rank), encoding="utf-8")
    found = read_job(folder)
    assert found.groups == ((0, 2, 3, 4, 5), (1,))
    assert found.divergence is not None
    assert len(set(found.divergence.values.values())) == 2


def test_equal_ranks_share_their_summary(tmp_path: Path):
    folder = copied("equal", tmp_path)
    usual = log_of(folder, 0).read_text(encoding="utf-8")
    for rank in range(2, 50):
        log_of(folder, rank).write_text(with_rank(usual, rank), encoding="utf-8")
    found = read_job(folder)
    assert len(found.groups) == 1
    assert found.agree is True


def test_ids_devices_and_group_names_do_not_make_a_difference(tmp_path: Path):
    folder = copied("collectives", tmp_path)
    for rank in (0, 1):
        log = log_of(folder, rank)
        text = log.read_text(encoding="utf-8").replace("'0')", f"'{rank + 7}')").replace("]cpu", f"]cuda:{rank}")
        log.write_text(text, encoding="utf-8")
    lines = [summary_of(LogFile(log_of(folder, rank), rank, 0)).compilations[0].digests for rank in (0, 1)]
    assert lines[0].get("collective") == lines[1].get("collective")


def test_two_attempts_of_a_rank_are_refused(tmp_path: Path):
    folder = copied("equal", tmp_path)
    shutil.copy(log_of(folder, 1), folder / "dedicated_log_torch_trace_rank_1_again.log")
    with pytest.raises(RunError, match="rank 1 has 2 logs"):
        read_job(folder)


def test_two_jobs_in_one_folder_are_refused(tmp_path: Path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    copied("equal", tmp_path / "one")
    copied("shape", tmp_path / "two")
    with pytest.raises(RunError, match=r"every rank in .* has several logs: two jobs"):
        read_job(tmp_path)


def test_folder_without_logs_is_refused(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("nothing here\n", encoding="utf-8")
    with pytest.raises(RunError, match="has no trace log"):
        read_job(tmp_path)


def test_logs_without_ranks_are_refused(tmp_path: Path):
    shutil.copy(DATA / "print_break.torch.log", tmp_path / "one.log")
    with pytest.raises(RunError, match="have no rank"):
        read_job(tmp_path)


def test_ranks_of_different_torch_are_noted(tmp_path: Path):
    folder = copied("equal", tmp_path)
    log = log_of(folder, 1)
    text = log.read_text(encoding="utf-8")
    version = re.search(r'"pytorch_version": "([^"]+)"', text)
    assert version is not None
    payload = text.replace(version[1], "2.9.0")
    log.write_text(re.sub(r'("torch_version".*?), "has_payload": "\w+"', r"\1", payload), encoding="utf-8")
    assert any("different versions of torch" in note for note in read_job(folder).notes)


def test_damaged_compressed_log_is_incomplete(tmp_path: Path):
    for path in (JOBS / "equal").iterdir():
        data = path.read_bytes()
        (tmp_path / path.name).write_bytes(data if "rank_0" in path.name else data[: len(data) // 2])
    found = read_job(tmp_path)
    assert "cut short" in found.cut[1]


def test_file_in_another_folder_of_another_host_is_the_same_file(tmp_path: Path):
    folder = copied("equal", tmp_path)
    log = log_of(folder, 1)
    text = log.read_text(encoding="utf-8").replace("/home/user/project/train.py", "/elsewhere/train.py")
    log.write_text(re.sub(r', "has_payload": "\w+"', "", text), encoding="utf-8")
    found = read_job(folder)
    assert found.groups == ((0, 1),)
    assert found.compilations[0].file in ("/home/user/project/train.py", "/elsewhere/train.py")


def test_compilations_are_in_the_order_of_the_rank_with_the_most():
    assert [each.id for each in job("recompile").compilations] == ["0/0", "0/1"]
    assert [each.id for each in job("ddp").compilations] == ["0/0", "1/0", "2/0", "3/0", "4/0"]


def test_an_older_log_without_its_beginning_is_another_attempt(tmp_path: Path):
    folder = copied("equal", tmp_path)
    text = log_of(folder, 0).read_text(encoding="utf-8")
    half = text.index("\nV", len(text) // 2) + 1
    other = re.sub(r"^V(\d{4} \S+) \d+", r"V\1 999999", text[half:], flags=re.M)
    (folder / "rank_0_other_process.log").write_text(other, encoding="utf-8")
    with pytest.raises(RunError, match="rank 0 has 2 logs"):
        read_job(folder)
    older = re.sub(r"^V\d{4}", "V0101", text[half:], flags=re.M)
    (folder / "rank_0_other_process.log").write_text(older, encoding="utf-8")
    with pytest.raises(RunError, match="rank 0 has 2 logs"):
        read_job(folder)
