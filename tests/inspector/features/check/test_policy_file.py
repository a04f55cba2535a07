"""The policy: a full one, where it is found, and each mistake with its line and advice."""

from datetime import date
from pathlib import Path

import pytest

from ctrace.inspector.errors import Exit, PolicyError
from ctrace.inspector.features.check.policy_file import find_policy, load_policy, target_gpu
from ctrace.inspector.features.check.policy_model import Allow, CheckPolicy, Count, Limits, ModelRule
from ctrace.inspector.runs.capture_request import Options

FULL = """\
version: 1
models:
  - models/*.py
  - path: pkg.models:tiny
    scenarios: [training]
    targets: [h100]
    limits: {breaks: 2}
    timeout: 2m
scenarios:
  base: {}
  training: {train: true}
  sizes: {vary: ["0=1,2,8", dtype=float64], inputs: ["float32[8,128]"], provoke: false, mode: default, dynamic: null}
  whole: {fullgraph: yes, dynamic: false, mode: null}
  large: {fake: true, assume: ["model.py:31:12=True,False"], layers: 2}
targets: [cpu, NVIDIA H100, h100]
owned: [src/mylib]
limits:
  breaks: {user: 0, library: 3, torch: 1}
  skipped: 0
  recompiles: 0
  graphs: 1
  eager_ops: 0
  limit_hits: 0
  coverage: 99.5
  kernels: 12
  spills: 0
  missed_bytes: 1.5MiB
allow:
  - gb: gb0170
    place: mask.py::Mask.forward
    text: if is_pad.any()
    reason: the mask is read once per batch; see issue 12
    expires: 2027-01-31
  - text: "print(x)"
    reason: >
      on purpose
timeout: 90s
inductor_guards: false
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a project as the working folder."""
    project = (tmp_path / "project").resolve()
    (project / "src" / "mylib").mkdir(parents=True)
    (project / ".git").mkdir()
    monkeypatch.chdir(project)
    return project


def loaded(folder: Path, text: str) -> CheckPolicy:
    (folder / "ctrace.yaml").write_text(text, encoding="utf-8")
    return load_policy(folder / "ctrace.yaml")


def refused(folder: Path, text: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        loaded(folder, text)
    assert caught.value.exit_code is Exit.USAGE
    assert "\n" not in caught.value.what + caught.value.todo
    return caught.value


class TestFull:
    def test_models(self, folder: Path):
        tiny = ModelRule("pkg.models:tiny", ("training",), ("h100",), Limits({Count.BREAKS: 2}), 120.0, line=4)
        assert loaded(folder, FULL).models == (ModelRule("models/*.py", line=3), tiny)

    def test_scenarios(self, folder: Path):
        sizes = Options(inputs=("float32[8,128]",), vary=("0=1,2,8", "dtype=float64"), mode="default")
        whole = Options(fullgraph=True, dynamic=False)
        large = Options(fake=True, assume=("model.py:31:12=True,False",), layers=2)
        ways = {"base": Options(), "training": Options(train=True), "sizes": sizes, "whole": whole, "large": large}
        assert loaded(folder, FULL).scenarios == ways
        assert list(loaded(folder, FULL).scenarios) == list(ways)

    def test_targets_are_named_as_the_table_does(self, folder: Path):
        assert loaded(folder, FULL).targets == ("cpu", "h100")

    def test_owned_places(self, folder: Path):
        assert loaded(folder, FULL).owned == (str(folder / "src" / "mylib"),)

    def test_limits(self, folder: Path):
        zeros = dict.fromkeys((Count.BREAKS, Count.SKIPPED, Count.RECOMPILES, Count.EAGER_OPS, Count.LIMIT_HITS), 0)
        others = {Count.LIBRARY_BREAKS: 3, Count.TORCH_BREAKS: 1, Count.GRAPHS: 1, Count.KERNELS: 12, Count.SPILLS: 0}
        assert loaded(folder, FULL).limits == Limits({**zeros, **others, Count.MISSED_BYTES: 3 << 19}, 99.5)

    def test_allow_entries(self, folder: Path):
        reason = "the mask is read once per batch; see issue 12"
        first = Allow(reason, "GB0170", "mask.py::Mask.forward", "if is_pad.any()", date(2027, 1, 31), line=29)
        assert loaded(folder, FULL).allow == (first, Allow("on purpose", text="print(x)", line=34))

    def test_the_rest(self, folder: Path):
        policy = loaded(folder, FULL)
        assert policy.timeout == 90.0
        assert not policy.inductor_guards
        assert policy.file == str(folder / "ctrace.yaml")


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "---\n", "null", "{}", "\ufeff", "version: 1\r\n", "models:\nscenarios:\nallow:\nlimits:\n",
     "models: []\nscenarios: {}\ntargets: []\nowned: []\nlimits: {}\nallow: []\n"],
)  # fmt: skip
def test_what_is_not_said_is_the_default(folder: Path, text: str):
    assert loaded(folder, text) == CheckPolicy(file=str(folder / "ctrace.yaml"))


@pytest.mark.parametrize("text", ["models: a.py", "models: [a.py]", "models: {path: a.py}", "models:\n- path: a.py"])
def test_one_entry_needs_no_list(folder: Path, text: str):
    assert [rule.models for rule in loaded(folder, text).models] == ["a.py"]


def test_a_number_of_breaks_is_the_users(folder: Path):
    assert loaded(folder, "limits: {breaks: 3}").limits == Limits({Count.BREAKS: 3})


def test_aliases(folder: Path):
    policy = loaded(folder, "limits: &all {graphs: 1}\nmodels: [{path: a.py, limits: *all}]")
    assert policy.models[0].limits == policy.limits == Limits({Count.GRAPHS: 1})


@pytest.mark.parametrize(
    ("written", "size"), [("0", 0), ("4096", 4096), ("1KiB", 1024), ("2 gib", 2 << 30), ("0.5MiB", 1 << 19), ("7B", 7)]
)
def test_bytes(folder: Path, written: str, size: int):
    assert loaded(folder, f"limits: {{missed_bytes: {written}}}").limits.most == {Count.MISSED_BYTES: size}


@pytest.mark.parametrize(("written", "seconds"), [("1", 1), ("0.5", 0.5), ("90s", 90), ("10m", 600), ("1.5h", 5400)])
def test_times(folder: Path, written: str, seconds: float):
    assert loaded(folder, f"timeout: {written}").timeout == seconds


class TestTargets:
    def test_a_file_of_the_users_own_beside_the_policy(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        (folder / "gpus.yaml").write_text("mine: {extends: h100}\nother: {extends: t4}\n")
        monkeypatch.chdir(folder / "src")
        assert loaded(folder, "targets: ['gpus.yaml:mine']").targets == ("gpus.yaml:mine",)
        assert target_gpu("gpus.yaml:mine", folder).name == "mine"

    def test_a_file_of_the_projects_settings(self, folder: Path):
        (folder / "gpus.yaml").write_text("mine: {extends: h100}\n")
        (folder / "pyproject.toml").write_text('[tool.ctrace]\ngpus = ["gpus.yaml"]\n')
        assert loaded(folder, "targets: [mine]").targets == ("mine",)

    def test_the_cpu_in_capitals(self, folder: Path):
        assert loaded(folder, "targets: CPU").targets == ("cpu",)


class TestFound:
    @pytest.mark.parametrize("name", ["ctrace.yaml", "ctrace.yml"])
    def test_in_the_folder_or_above(self, folder: Path, name: str):
        (folder / name).touch()
        assert find_policy(folder) == find_policy(folder / "src" / "mylib") == folder / name

    def test_a_relative_folder(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        (folder / "ctrace.yaml").touch()
        monkeypatch.chdir(folder / "src")
        assert find_policy(Path()) == folder / "ctrace.yaml"

    def test_the_nearest(self, folder: Path):
        (folder / "ctrace.yaml").touch()
        (folder / "src" / "ctrace.yml").touch()
        assert find_policy(folder / "src" / "mylib") == folder / "src" / "ctrace.yml"

    def test_not_beyond_the_repository(self, folder: Path):
        (folder.parent / "ctrace.yaml").touch()
        assert find_policy(folder / "src") is None
        assert find_policy(folder.parent) == folder.parent / "ctrace.yaml"

    def test_a_folder_of_that_name_is_none(self, folder: Path):
        (folder / "ctrace.yaml").mkdir()
        assert find_policy(folder) is None


MISTAKES = [
    ("model: a.py", 1, "unknown key model in the policy", "did you mean models?"),
    ("\ncolour: red", 2, "unknown key colour in the policy", "there are: version, models, scenarios"),
    ("- a", 1, "the file is a list, not a table", "key: value"),
    ("version: 2", 1, "version 2", "update ctrace"),
    ("version: '1'", 1, "version is 1", "write version: 1"),
    ("version: true", 1, "version is true", "write version: 1"),
    ("models:\n- 3", 2, "models is 3, not a text", "quotes"),
    ("models:\n- ", 2, "models is nothing", "write a text"),
    ("models:\n- {limits: {}}", 2, "no path", "write path:"),
    ("models:\n- path: a.py\n  limit: {}", 3, "unknown key limit in models", "did you mean limits?"),
    ("models:\n- path: a.py\n  limits:\n    graph: 1", 4, "unknown key graph in models.limits", "did you mean graphs?"),
    ("models:\n- path: a.py\n  timeout: x", 3, "models.timeout is x, not a time", "10m"),
    ("models: \"a\\nb\"", 1, "not a name", "on one line"),
    ("models: \"a\\0\"", 1, "not a name", "on one line"),
    ("models:\n- path: a.py\n  scenarios: [trainin]\nscenarios: {training: {}}", 3, "no scenario trainin", "did you mean training?"),
    ("models:\n- path: a.py\n  scenarios: training", 3, "no scenario training", "there are: base"),
    ("models:\n- path: a.py\n  targets: [h10]", 3, "target h10", "did you mean h100?"),
    ("targets:\n- cpu\n- cup", 3, "no target cup", "did you mean cpu?"),
    ("targets: [zzzzzz]", 1, "target zzzzzz", "there are: cpu, t4"),
    ("targets: [1]", 1, "targets is 1", "quotes"),
    ("targets: no.yaml", 1, "cannot be read", "another file"),
    ("owned:\n- src/mylib\n- nothing", 3, "owned names nothing, which is neither", "beside the policy"),
    (f"owned: {'n' * 299}", 1, "which is neither", "beside the policy"),
    (f"owned: {'n' * 400}", 1, "not a name", "300 characters"),
    ("scenarios: [base]", 1, "scenarios is a list", "key: value"),
    ("scenarios:\n  a b: {}", 2, "a b is not a scenario name", "digits, - and _"),
    ("scenarios:\n  a: {trian: true}", 2, "unknown key trian in scenarios.a", "did you mean train?"),
    ("scenarios:\n  a:\n    train: 1", 3, "scenarios.a.train is 1", "true or false"),
    ("scenarios:\n  a: {inputs: ['float3[8]']}", 2, "no dtype 'float3'", "did you mean float32?"),
    ("scenarios:\n  a:\n    inputs:\n    - x=1\n    - x=2", 5, "the input x is defined twice, the first time in line 4", "take one"),
    ("scenarios:\n  a: {vary: ['dtyp=float64']}", 2, "cannot vary 'dtyp'", "did you mean dtype?"),
    ("scenarios:\n  a: {vary: 3}", 2, "scenarios.a.vary is 3", "quotes"),
    ("scenarios:\n  a: {mode: reduce}", 2, "no mode reduce", "reduce-overhead"),
    ("scenarios:\n  a: {dynamic: maybe}", 2, "dynamic is maybe", "true or false"),
    ("scenarios:\n  a: {target: h100}", 2, "a scenario has no option target", "the policy's targets"),
    ("scenarios:\n  a: {backend: eager}", 2, "a scenario has no option backend", "remove it"),
    ("scenarios:\n  a: {build: true}", 2, "a scenario has no option build", "remove it"),
    ("limits: {break: 0}", 1, "unknown key break in limits", "did you mean breaks?"),
    ("limits: {library_breaks: 0}", 1, "library_breaks", "breaks: {library: 0}"),
    ("limits:\n  breaks: {usr: 0}", 2, "unknown key usr in limits.breaks", "did you mean user?"),
    ("limits:\n  graphs:", 2, "limits.graphs is nothing", "remove the line"),
    ("limits: {graphs: -1}", 1, "limits.graphs is -1", "such as 0"),
    ("limits: {graphs: true}", 1, "limits.graphs is true", "such as 0"),
    ("limits: {graphs: 1.0}", 1, "limits.graphs is 1.0", "such as 0"),
    ("limits: {graphs: 0x10}", 1, "limits.graphs is 0x10", "such as 0"),
    (f"limits: {{graphs: {'9' * 5000}}}", 1, "limits.graphs is 999", "such as 0"),
    ("scenarios: {a: {layers: 0}}", 1, "layers is 0", "such as 2"),
    ("scenarios: {a: {assume: here}}", 1, "not a place with values", "write FILE:LINE=VALUES"),
    ("scenarios: {a: {fake: 8B}}", 1, "fake is 8B", "true or false"),
    ("limits: {coverage: 101}", 1, "not a percentage", "from 0 to 100"),
    ("limits: {coverage: .nan}", 1, "not a percentage", "from 0 to 100"),
    ("limits: {missed_bytes: 1MB}", 1, "limits.missed_bytes is 1MB", "1MiB"),
    ("limits: {missed_bytes: -1}", 1, "limits.missed_bytes is -1", "1MiB"),
    ("timeout: 0", 1, "timeout is 0", "90s"),
    ("timeout: 1:30", 1, "timeout is 1:30", "90s"),
    ("timeout: 999999h", 1, "timeout is 999999h", "at most a week"),
    ("allow:\n- reason: x", 2, "names no site", "add gb"),
    ("allow:\n- text: x\n- text: y", 2, "no reason", "add reason"),
    ("allow:\n- text: x\n  reason: ''", 3, "allow.reason is an empty text", "write a text"),
    ("allow:\n- text: x\n  reason: 12", 3, "allow.reason is 12", "quotes"),
    ("allow:\n- gb: '170'\n  reason: x", 2, "170 is not a gb id", "GB0170"),
    ("allow:\n- {gb: GB1, reason: x, expires: 2027-13-01}", 2, "not a valid date", "2027-01-31"),
    ("allow:\n- {gb: GB1, reason: x, expires: 20270131}", 2, "not a day", "2027-01-31"),
    ("allow:\n- {gb: GB1, reason: x, expired: 2027-01-31}", 2, "unknown key expired in allow", "did you mean expires?"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "what", "todo"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_has_a_line_and_a_way_out(folder: Path, text: str, line: int, what: str, todo: str):
    error = refused(folder, text)
    assert error.what.startswith(f"ctrace.yaml, line {line}: ")
    assert what in error.what
    assert todo in error.todo


class TestFile:
    def test_one_that_is_not_there(self, folder: Path):
        with pytest.raises(PolicyError, match=r"^no\.yaml cannot be read: No such file"):
            load_policy(folder / "no.yaml")

    def test_a_folder(self, folder: Path):
        with pytest.raises(PolicyError, match=r"^src cannot be read: Is a directory"):
            load_policy(folder / "src")

    def test_below_another_folder_it_is_named_in_full(self, folder: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(folder / "src")
        assert refused(folder, "a: 1").what.startswith(f"{folder / 'ctrace.yaml'}, line 1: ")

    def test_a_broken_gpu_file_is_told_at_the_target(self, folder: Path):
        (folder / "gpus.yaml").write_text("mine: 3")
        assert refused(folder, "targets:\n- gpus.yaml").what.startswith("ctrace.yaml, line 2: target ")
