"""The tool that runs every torch with every Python: what it selects, stores and writes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from matrix.command import main
from matrix.environment import constraints_of
from matrix.pairs import Pair, chosen, pairs
from matrix.steps import STEPS, as_lock_of, counted, steps_of
from matrix.store import DATA, Cell, Store
from matrix.tables import PAGES, summary, tables, with_tables

from ctrace.inspector.errors import TargetError
from ctrace.inspector.knowledge.releases import RELEASES
from tests.support.places import ROOT

PAIR = Pair("2.15.0", "3.9.0", "3.12")
JUNIT = """<testsuites><testsuite>
<testcase name="a"/><testcase classname="tests.test_x" name="b"><failure/></testcase><testcase name="c"><skipped/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "matrix.json", tuple(STEPS))


@pytest.mark.parametrize(
    ("only", "names"),
    [
        (["2.15/3.14"], ["2.15.0/3.14"]),
        (["2.11.0/3.12", "2.15/3.14", "2.15.0/3.14"], ["2.11.0/3.12", "2.15.0/3.14"]),
        (["2.13"], [f"2.13.0/3.{minor}" for minor in (11, 12, 13, 14)]),
        (["/3.11"], [f"{each.torch}/3.11" for each in reversed(RELEASES)]),
    ],
)
def test_pairs_are_chosen_by_torch_python_or_both(only: list[str], names: list[str]) -> None:
    assert [pair.name for pair in chosen(only)] == names


def test_without_a_choice_every_pair_is_run() -> None:
    assert len(chosen([])) == sum(len(each.pythons) for each in RELEASES)


@pytest.mark.parametrize(("only", "near"), [("2.51", "2.15.0"), ("2.15/3.41", "2.15.0/3.14"), ("2.1", "2.1")])
def test_an_unknown_pair_gets_the_nearest_name(only: str, near: str) -> None:
    with pytest.raises(TargetError) as raised:
        chosen([only])
    assert only in raised.value.what
    assert near in raised.value.todo


def test_steps_keep_their_order_and_unknown_ones_are_named() -> None:
    assert steps_of("wheel,doctor") == ["doctor", "wheel"]
    with pytest.raises(TargetError, match="docter"):
        steps_of("docter")


def test_bad_names_end_with_two_lines_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "2.51"]) == 2
    assert capsys.readouterr().err.splitlines()[1] == "→ did you mean 2.15.0?"


def test_the_list_is_what_a_workflow_reads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--only", "2.15/3.12"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"torch": "2.15.0", "triton": "3.9.0", "python": "3.12"}]


def test_it_runs_before_anything_is_installed() -> None:
    command = [
        sys.executable,
        "-S",
        str(ROOT / "tools" / "matrix"),
        "--list",
        "--only",
        "2.15/3.12",
    ]  # no site-packages
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)[0]["torch"] == "2.15.0"


def test_a_reason_for_not_running_is_stored_where_there_is_no_result(tmp_path: Path) -> None:
    data = tmp_path / "matrix.json"
    Store(data, tuple(STEPS)).put(PAIR, "doctor", Cell("ok", "26 checks"))
    words = ["--only", PAIR.name, "--steps", "doctor,wheel", "--not-run", "it is dear", "--data", str(data)]
    assert main(words) == 0
    store = Store(data, tuple(STEPS))
    assert [str(store.cell(PAIR, step)) for step in ("doctor", "wheel")] == ["26 checks", "not run, because it is dear"]


def test_a_pair_that_never_ran_has_reasons_and_no_versions(store: Store) -> None:
    store.put(PAIR, "doctor", Cell("not run", "it is dear"))
    section = tables(store)["full"].split("### ")[2]
    assert section.startswith(
        "torch 2.15.0, Python 3.12\n\n| step | result |\n|---|---|\n| doctor | not run, because it is"
    )


def test_a_run_replaces_its_own_cells_only(store: Store) -> None:
    store.put(PAIR, "doctor", Cell("ok", "26 checks"), date="2026-11-01")
    store.put(PAIR, "wheel", Cell("failed", "exit code 1"), date="2026-11-01")
    again = Store(store.path, tuple(STEPS))
    again.put(PAIR, "wheel", Cell("ok", "a.whl"), date="2026-11-02")
    assert [str(Store(store.path, tuple(STEPS)).cell(PAIR, step)) for step in ("doctor", "wheel", "check")] == [
        "26 checks", "a.whl", "not run, because it was not tried yet",
    ]  # fmt: skip
    assert again.about(PAIR, "date") == "2026-11-02"


def test_a_step_that_did_not_run_does_not_replace_a_result(store: Store) -> None:
    store.put(PAIR, "doctor", Cell("ok", "26 checks"))
    store.put(PAIR, "doctor", Cell("not run", "the machine has no Python 3.12"))
    store.put(PAIR, "wheel", Cell("not run", "the machine has no Python 3.12"))
    assert str(store.cell(PAIR, "doctor")) == "26 checks"
    assert str(store.cell(PAIR, "wheel")) == "not run, because the machine has no Python 3.12"


def test_newer_cells_of_another_run_are_copied(store: Store, tmp_path: Path) -> None:
    store.put(PAIR, "doctor", Cell("ok", "new"), date="2026-11-03")
    store.put(PAIR, "wheel", Cell("ok", "old"), date="2026-11-01")
    other = Store(tmp_path / "other.json", tuple(STEPS))
    for step in ("doctor", "wheel"):
        other.put(PAIR, step, Cell("ok", "other"), date="2026-11-02")
    store.merge(other.path)
    assert [store.cell(PAIR, step).detail for step in ("doctor", "wheel")] == ["new", "other"]


def test_a_summary_counts_and_hides_no_failure() -> None:
    ok, bad, left = (Cell(result, "x") for result in ("ok", "failed", "not run"))
    assert summary([left, left]) == "not run"
    assert summary([ok, ok]) == "all ok"
    assert summary([ok, bad, left]) == "1 of 3 ok, 1 failed, 1 not run"


def test_tests_are_counted_and_failed_ones_are_named(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    report.write_text(JUNIT)
    assert counted(report) == Cell("failed", "1 of 3: test_x.py::b")
    report.write_text(JUNIT.replace("<failure/>", ""))
    assert counted(report) == Cell("ok", "2 passed, 1 skipped")
    report.write_text("<testsuites/>")
    assert counted(report) == Cell("failed", "no test ran")


@pytest.mark.parametrize(("torch", "made_with"), [("2.13.0+cpu", "2.13"), ("2.15.0", "2.14")])
def test_a_torch_without_a_section_is_compared_with_the_newest(torch: str, made_with: str, tmp_path: Path) -> None:
    lock = tmp_path / "ctrace.lock"
    text = "[torch 2.13]\na\n\n[torch 2.14]\nb\n"
    assert as_lock_of(torch, text, lock) == made_with
    assert f"[torch {'.'.join(torch.split('.')[:2])}]" in lock.read_text()


def test_constraints_get_the_torch_and_the_triton_of_the_pair() -> None:
    lines = constraints_of(PAIR).splitlines()
    assert {"torch==2.15.0", "triton==3.9.0"} <= set(lines)
    assert not [line for line in lines if line.startswith("#")]  # a new comment is no reason to install again
    assert len([line for line in lines if line.startswith(("torch==", "triton=="))]) == 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_tables_match_the_stored_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "<!-- matrix: short -->" in text
    assert with_tables(text, tables(Store(DATA, tuple(STEPS)))) == text, "run python tools/matrix --tables"


def test_every_cell_has_a_result_or_a_reason() -> None:
    store = Store(DATA, tuple(STEPS))
    for pair in pairs():
        for step in STEPS:
            cell = store.cell(pair, step)
            assert cell.result in ("ok", "failed", "not run")
            assert cell.detail


def test_classifiers_name_only_tested_pythons() -> None:
    store = Store(DATA, tuple(STEPS))
    run = {pair.python for pair in pairs() for step in STEPS if store.cell(pair, step).result != "not run"}
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = {version for version in ("3.11", "3.12", "3.13", "3.14", "3.15") if f"Python :: {version}" in text}
    assert named <= run
