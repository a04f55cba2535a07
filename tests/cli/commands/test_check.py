"""The parts of `ctrace check` that need no torch: existing logs, the lock, reports and errors."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ctrace.cli.gate.check_request import CheckRequest
from ctrace.inspector.errors import TargetError
from ctrace.inspector.runs.capture_request import Options
from tests.cli.test_main import NO_TORCH, _ctrace
from tests.support.places import DATA


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A folder with torch's own log of one graph break."""
    folder = tmp_path / "traces"
    folder.mkdir()
    shutil.copy(DATA / "try_break.torch.log", folder / "dedicated_log_torch_trace_rank_0_x.log")
    return folder


def _check(folder: Path, *words: str) -> tuple[int, str, str]:
    done = _ctrace("check", *words, cwd=folder)
    return done.returncode, done.stdout, done.stderr


def test_a_trace_is_checked_recorded_and_compared(tmp_path: Path, traces: Path) -> None:
    code, out, _ = _check(tmp_path, "train", "--from-trace", "traces")
    assert code == 1
    assert out.startswith("WORSE  The model got worse.\n")
    again = "ctrace check train --from-trace traces --update"
    assert f" {again}  if this is intended: record" in out
    assert not (tmp_path / "ctrace.lock").exists()

    code, out, err = _check(tmp_path, *again.split()[2:])
    assert (code, err) == (0, "ctrace: wrote ctrace.lock\n")
    assert out.startswith("HOLDS")

    before = (tmp_path / "ctrace.lock").read_text()
    code, out, err = _check(tmp_path, *again.split()[2:])
    assert (code, err) == (0, "ctrace: ctrace.lock is unchanged\n")
    assert (tmp_path / "ctrace.lock").read_text() == before

    shutil.copy(DATA / "dynamic_sizes.torch.log", traces / "dedicated_log_torch_trace_rank_1_y.log")
    code, out, _ = _check(tmp_path, "train", "--from-trace", "traces", "--update", "--only-improve")
    assert (tmp_path / "ctrace.lock").read_text() == before


@pytest.mark.thorough
def test_traces_need_no_torch(tmp_path: Path, traces: Path) -> None:
    done = _ctrace("check", "train", "--from-trace", "traces", cwd=tmp_path, code=NO_TORCH)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("WORSE  The model got worse.\n")


def test_one_check_writes_all_reports(tmp_path: Path, traces: Path) -> None:
    (tmp_path / "summary.md").write_text("# Before\n")
    files = [
        "--junit",
        "j.xml",
        "--sarif",
        "s.sarif",
        "--diagnostics",
        "d.json",
        "--summary",
        "summary.md",
        "--json",
        "-o",
        "report.json",
    ]
    code, out, _ = _check(tmp_path, "train", "--from-trace", "traces", *files, "--annotations")
    assert code == 1
    assert out.startswith("::error file=")
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["verdict"], report["exit"]) == ("worse", 1)
    assert [each["site"]["kind"] for each in report["jobs"][0]["findings"]] == ["break", "skip"]
    assert len(json.loads((tmp_path / "s.sarif").read_text())["runs"][0]["results"]) == 2
    assert sum(len(each["diagnostics"]) for each in json.loads((tmp_path / "d.json").read_text())) == 2
    assert len(ElementTree.parse(tmp_path / "j.xml").findall(".//failure")) == 1
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("# Before\n### ctrace check: **worse**")


def test_a_policy_applies_to_traces(tmp_path: Path, traces: Path) -> None:
    (tmp_path / "ctrace.yaml").write_text("limits: {breaks: 1, skipped: 1}\n")
    assert _check(tmp_path, "--from-trace", "traces")[0] == 0


@pytest.mark.parametrize("flag", [["--json"], ["--markdown"]])
def test_printed_text_is_readable(tmp_path: Path, traces: Path, flag: list[str]) -> None:
    _, out, err = _check(tmp_path, "--from-trace", "traces", *flag)
    assert not err
    assert out.startswith({"--json": '{\n  "schema": 1', "--markdown": "### ctrace check: **worse**"}[flag[0]])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "there is no ctrace.yaml here or above"),
        (["--init"], "--init needs models to check"),
        (["--only-improve", "a.py"], "--only-improve needs --update"),
        (["a.py"], "a.py"),
        (["--init", "a.py"], "a.py"),
        (["--init", "nothing/*.py"], "nothing/*.py matches no Python file"),
        (["--init", "t", "--from-trace", "."], "--init is for models that run"),
        (["t", "--from-trace", ".", "--train"], "--train is for models that run"),
        (["t", "--from-trace", ".", "--target", "h100"], "--target is for models that run"),
        (["t", "--from-trace", ".", "--no-inductor-guards"], "--no-inductor-guards is for models that run"),
        (["t", "u", "--from-trace", "."], "--from-trace checks one model, but the command names 2"),
        (["t", "--from-trace", "nowhere"], "nowhere has no trace log"),
        (["--policy", "no.yaml"], "no.yaml"),
        (["a.py", "--json", "--annotations"], "--annotations and a report both go to stdout"),
        (["a.py", "--junit", "no/j.xml"], "no/j.xml"),
        (["a.py", "--jobs", "0"], "--jobs"),
        (["a.py", "--juni", "j.xml"], "--juni"),
    ],
    ids=" ".join,
)
def test_errors_are_reported_and_nothing_is_written(tmp_path: Path, words: list[str], message: str) -> None:
    code, out, err = _check(tmp_path, *words)
    assert code == 2
    assert message in out + err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "h1000"], "--target h1000: there is no such GPU\n  did you mean h100?"),
        (["--vary", "dytpe=float16"], "did you mean dtype?"),
        (["--mode", "max-autotun"], "did you mean max-autotune?"),
        (["--timeout", "0"], "timeout is 0.0, not a time"),
        (["--policy", "no/ctrace.yaml"], "there is no folder no"),
    ],
    ids=" ".join,
)
def test_an_invalid_first_policy_is_not_written(tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "a.py").write_text("model = abs\n")
    code, _, err = _check(tmp_path, "--init", "a.py", *words)
    assert code == 2
    assert message in err
    assert [each.name for each in tmp_path.iterdir()] == ["a.py"]


def test_a_target_is_named_as_in_the_lock() -> None:
    assert CheckRequest(gpu="H100, cpu,h100").targets == ("h100", "cpu")


def test_an_existing_policy_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "ctrace.yaml").write_text("# mine\n")
    (tmp_path / "a.py").write_text("model = abs\n")
    code, _, err = _check(tmp_path, "--init", "a.py")
    assert code == 2
    assert "ctrace.yaml already exists" in err
    assert (tmp_path / "ctrace.yaml").read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("ctrace.yaml", "models: [a.py]\nlimit: {breaks: 0}\n", "ctrace.yaml, line 2"),
        ("ctrace.yaml", "models: [a.py\n", "ctrace.yaml, line"),
        ("ctrace.lock", "[torch 2.13]\n\n{]\n", "ctrace.lock, line 3"),
        ("ctrace.lock", "<<<<<<< ours\n", "ctrace.lock, line 1: a git merge conflict"),
    ],
)
@pytest.mark.parametrize("words", [["a.py"], ["a.py", "--update"]], ids=["", "update"])
def test_an_invalid_file_is_named_with_its_line(
    tmp_path: Path, name: str, text: str, message: str, words: list[str]
) -> None:
    (tmp_path / "a.py").write_text("model = abs\n")
    (tmp_path / name).write_text(text)
    code, out, err = _check(tmp_path, *words)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.strip().splitlines()) == 2
    assert (tmp_path / name).read_text() == text


def test_the_command_repeats_the_options() -> None:
    options = Options(("float32[8,n]",), ("0=1,2",), train=True, mode="max-autotune", dynamic=False)
    request = CheckRequest(("a b.py",), Path("p.yaml"), Path("x.lock"), options, "h100", 90.0)
    assert request.command == (
        "ctrace check 'a b.py' --vary 0=1,2 --input 'float32[8,n]' --train --mode max-autotune --no-dynamic "
        "--policy p.yaml --lock x.lock --target h100 --timeout 90.0"
    )
    assert CheckRequest().command == "ctrace check"
    assert CheckRequest(inductor_guards=False).command == "ctrace check --no-inductor-guards"


def test_options_of_runs_go_with_models() -> None:
    CheckRequest(options=Options(train=True), gpu="h100").refuse(init=True)
    with pytest.raises(TargetError):
        CheckRequest(options=Options(dynamic=True), from_trace=Path()).refuse(init=False)


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--budget", "5s"), "--budget limits the search of --suggest"),
        (("--suggest", "--budget", "soon"), "--budget soon: not a time"),
        (("--suggest", "--update"), "--update records findings"),
        (("--suggest", "--init"), "--init has none"),
        (("--suggest", "--from-trace", "traces"), "--suggest is for models that run"),
    ],
)
def test_options_of_suggest_that_do_not_fit(tmp_path: Path, traces: Path, words: tuple[str, ...], what: str) -> None:
    code, _, err = _check(tmp_path, "net.py", *words)
    assert code == 2
    assert what in err
    assert len(err.strip().split("\n")) == 2
