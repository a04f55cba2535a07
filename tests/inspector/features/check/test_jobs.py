"""A policy expands to jobs."""

from pathlib import Path

import pytest

from ctrace.inspector.errors import PolicyError, TargetError
from ctrace.inspector.features.check.jobs import Jobs, jobs_of
from ctrace.inspector.features.check.policy_model import CheckPolicy, Count, Limits, ModelRule
from ctrace.inspector.runs.capture_request import Options
from ctrace.inspector.runs.target import resolve

MODEL = "import torch\nmodel = torch.nn.Linear(2, 2)\ninputs = (torch.rand(2, 2),)\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    names = ("b.py", "a.py", "deep/c.py", "deep/er/d.py", ".venv/hidden.py", "__pycache__/cached.py", "test_model.py")
    for name in names:
        path = tmp_path / "models" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MODEL)
    for name in ("__init__.py", "conftest.py", "_helper.py", "test_a.py"):
        (tmp_path / "models" / name).write_text("x = 1\n")
    (tmp_path / "models/notes.txt").write_text("no Python")
    (tmp_path / "models/tools.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _policy(*models: str | ModelRule, **others: object) -> CheckPolicy:
    rules = tuple(ModelRule(each) if isinstance(each, str) else each for each in models)
    return CheckPolicy(rules, **others)  # type: ignore[arg-type]


def _names(jobs: Jobs) -> list[str]:
    return [str(job.key) for job in jobs.jobs]


def test_a_glob_gives_the_model_files_below_sorted(project: Path) -> None:
    jobs = jobs_of(_policy("models/**/*.py"), project)
    expected = ["a.py", "b.py", "deep/c.py", "deep/er/d.py", "test_model.py"]
    assert _names(jobs) == [f"models/{each}" for each in expected]


def test_a_file_under_a_glob_that_is_no_model_is_wrong_but_for_those_that_never_are(project: Path) -> None:
    ((key, error),) = jobs_of(_policy("models/*.py"), project).wrong
    assert key.model == "models/tools.py"
    assert isinstance(error, TargetError)


def test_a_glob_that_matches_nothing_is_wrong(project: Path) -> None:
    ((key, error),) = jobs_of(_policy("modles/*.py"), project).wrong
    assert key.model == "modles/*.py"
    assert "matches no Python file" in error.what


@pytest.mark.parametrize("pattern", ["a**b/*.py", "*\0", "[", "**", "*" * 5000])
def test_no_glob_is_an_exception(project: Path, pattern: str) -> None:
    jobs = jobs_of(_policy(pattern), project)
    assert jobs.wrong
    assert all(isinstance(error, PolicyError) for _key, error in jobs.wrong)


def test_a_file_that_is_not_there_is_wrong_once(project: Path) -> None:
    policy = _policy("models/aa.py", scenarios={"base": Options(), "train": Options(train=True)})
    ((key, error),) = jobs_of(policy, project).wrong
    assert key.model == "models/aa.py"
    assert error.todo == "did you mean models/a.py?"


def test_names_and_modules_are_taken_as_they_are(project: Path) -> None:
    jobs = jobs_of(_policy("./models/a.py:net", "pkg.models:tiny", "models/deep/*.py:Net"), project)
    assert _names(jobs) == ["models/a.py:net", "pkg.models:tiny", "models/deep/c.py:Net"]


def test_models_are_crossed_with_scenarios_and_targets(project: Path) -> None:
    scenarios = {"base": Options(), "train": Options(train=True)}
    jobs = jobs_of(_policy("models/a.py", scenarios=scenarios, targets=("cpu", "h100")), project)
    a = "models/a.py"
    assert _names(jobs) == [a, f"{a} · h100", f"{a} · train", f"{a} · train · h100"]
    assert [(job.options.train, job.options.gpu) for job in jobs.jobs] == [
        (False, None),
        (False, "h100"),
        (True, None),
        (True, "h100"),
    ]


def test_a_later_rule_holds_for_a_model_in_the_place_of_an_earlier_one(project: Path) -> None:
    special = ModelRule("models/b.py", targets=("h100",), limits=Limits({Count.GRAPHS: 3}), timeout=9)
    jobs = jobs_of(_policy("models/[ab].py", special, limits=Limits({Count.BREAKS: 1}), timeout=50), project)
    first, second = jobs.jobs
    assert (str(first.key), first.timeout, dict(first.limits.most)) == ("models/a.py", 50, {Count.BREAKS: 1})
    assert (str(second.key), second.timeout) == ("models/b.py · h100", 9)
    assert dict(second.limits.most) == {Count.BREAKS: 1, Count.GRAPHS: 3}


def test_a_scenario_that_the_policy_lacks_is_wrong(project: Path) -> None:
    policy = _policy(ModelRule("models/a.py", scenarios=("bas",), line=7), file=str(project / "ctrace.yaml"))
    ((_key, error),) = jobs_of(policy, project).wrong
    assert (error.what, error.todo) == ("ctrace.yaml:7: the policy has no scenario bas", "did you mean base?")


@pytest.mark.parametrize(
    ("rule", "options", "trace_only"),
    [
        (ModelRule("models/a.py"), Options(train=True), True),
        (ModelRule("models/a.py"), Options(backend="inductor", mode="reduce-overhead"), True),
        (ModelRule("models/a.py"), Options(backend="aot_eager"), False),
        (ModelRule("models/a.py"), Options(build=True), False),
        (ModelRule("models/a.py", targets=("h100",)), Options(), False),
        (ModelRule("models/a.py", limits=Limits({Count.KERNELS: 4})), Options(), False),
        (ModelRule("models/a.py", limits=Limits({Count.SPILLS: 0})), Options(), False),
        (ModelRule("models/a.py", limits=Limits({Count.CUDA_GRAPH_SKIPS: 0})), Options(), False),
        (ModelRule("models/a.py", limits=Limits({Count.CUDA_GRAPH_RERECORDINGS: 0})), Options(), True),
        (ModelRule("models/a.py", limits=Limits({Count.MISSED_BYTES: 0})), Options(), False),
        (ModelRule("models/a.py", limits=Limits({Count.GRAPHS: 1})), Options(), True),
    ],
)
def test_no_more_is_asked_for_than_limits_need(
    project: Path, rule: ModelRule, options: Options, trace_only: bool
) -> None:
    (job,) = jobs_of(_policy(rule, scenarios={"base": options}), project).jobs
    assert job.options.trace_only is trace_only


@pytest.mark.parametrize(
    ("rule", "left_out"),
    [
        (ModelRule("models/a.py"), True),
        (ModelRule("models/a.py", targets=("h100",)), False),
        (ModelRule("models/a.py", limits=Limits({Count.KERNELS: 4})), False),
    ],
)
def test_guards_are_left_out_only_where_inductor_does_not_run(project: Path, rule: ModelRule, left_out: bool) -> None:
    (job,) = jobs_of(_policy(rule, inductor_guards=False), project).jobs
    assert job.options.inductor_guards is not left_out
    (job,) = jobs_of(_policy(rule), project).jobs
    assert job.options.inductor_guards


def test_options_that_exclude_each_other_are_wrong(project: Path) -> None:
    policy = _policy("models/a.py", scenarios={"base": Options(build=True)}, targets=("h100",))
    jobs = jobs_of(policy, project)
    assert not jobs.jobs
    assert [error.what for _key, error in jobs.wrong] == ["--target and --build exclude each other"]


def test_what_is_wanted_restricts_the_models(project: Path) -> None:
    policy = _policy(ModelRule("models/*.py", timeout=5), "models/a.py:other", "nothing/*.py")
    wanted = jobs_of(policy, project, ["models/deep/../a.py"])
    assert _names(wanted) == ["models/a.py", "models/a.py:other"]
    assert not wanted.wrong
    assert _names(jobs_of(policy, project, ["models/a.py:other"])) == ["models/a.py:other"]


def test_what_the_policy_does_not_name_has_its_defaults(project: Path) -> None:
    policy = _policy(ModelRule("models/a.py", timeout=5), timeout=77)
    (job,) = jobs_of(policy, project, ["models/deep/c.py"]).jobs
    assert (str(job.key), job.timeout) == ("models/deep/c.py", 77)


def test_a_path_works_from_the_working_directory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project / "models/deep")
    policy = _policy("models/a.py", "models/deep/*.py")
    for jobs in (jobs_of(policy, project), jobs_of(policy, Path("../.."))):
        assert _names(jobs) == ["models/a.py", "models/deep/c.py"]
        assert all(resolve(job.target) for job in jobs.jobs)
    (job,) = jobs_of(policy, project, ["c.py"]).jobs
    assert job.key.model == "models/deep/c.py"


def test_a_program_is_a_job_unless_it_is_told_how_to_call_a_model(project: Path) -> None:
    (project / "train.py").write_text("import torch\ntorch.compile(print)()\n")
    assert _names(jobs_of(_policy("train.py"), project)) == ["train.py"]
    assert jobs_of(_policy("train.py", scenarios={"base": Options(train=True)}), project).wrong
