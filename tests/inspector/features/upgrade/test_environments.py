"""What pip's answers mean, and the folders that ctrace makes; nothing is downloaded."""

import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ctrace.inspector.errors import CtraceError, RunError, TargetError
from ctrace.inspector.features.upgrade.environment_runs import eager_changes
from ctrace.inspector.features.upgrade.environments import (
    EnvironmentMaker,
    Fetched,
    UpgradePlan,
    _listed,
    _refused,
    dependents,
    parted,
    shown_step,
)
from ctrace.inspector.features.upgrade.upgrade_model import EagerFacts, EagerOutputs, EagerTensor

NO_NETWORK = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(': Failed to establish')': /simple/x/
ERROR: Could not find a version that satisfies the requirement torch==2.15.0 (from versions: none)
ERROR: No matching distribution found for torch==2.15.0
"""
NO_VERSION = """\
ERROR: Could not find a version that satisfies the requirement torch==99.0 (from versions: 2.13.0, 2.14.1, 2.15.0)
ERROR: No matching distribution found for torch==99.0
"""
OTHER_PYTHON = """\
ERROR: Ignored the following versions that require a different python version: 1.2 Requires-Python >=3.14
ERROR: Could not find a version that satisfies the requirement small==1.2 (from versions: none)
ERROR: No matching distribution found for small==1.2
"""
ONLY_SOURCE = "  Skipping link: No sources permitted for torch: /files/torch-99.0.tar.gz (from /simple/torch/)\n"
NO_ANSWER = """\
  Could not fetch URL /simple/x/: connection error: Max retries exceeded - skipping
ERROR: Could not find a version that satisfies the requirement x==1 (from versions: none)
ERROR: No matching distribution found for x==1
"""
UV_NO_VERSION = """\
error: No solution found when resolving dependencies
  cause: Because there is no version of x==1 and you require x==1, we can conclude that your requirements are unsatisfiable.
"""
UV_NO_ANSWER = """\
error: Failed to fetch: /simple/x/
  cause: tcp connect error
"""
UV_CONFLICT = """\
error: No solution found when resolving dependencies
  cause: Because mkdocs==1.6.1 depends on click>=7.0 and you require click==6.0, we can conclude that your requirements \
and mkdocs==1.6.1 are incompatible.
"""
CONFLICT = """\
ERROR: Cannot install torch==2.15.0 and torchvision==0.28.0 because these package versions have conflicting dependencies.

The conflict is caused by:
    The user requested torch==2.15.0
    torchvision 0.28.0 depends on torch==2.13.0

To fix this you could try to:
ERROR: ResolutionImpossible: for help visit ...
"""


@pytest.mark.parametrize(
    ("text", "status", "what"),
    [
        (NO_NETWORK, 1, "x==1 cannot be fetched: the index does not answer"),
        (NO_VERSION, 1, "the index has no torch==99.0"),
        (OTHER_PYTHON, 1, "small==1.2 has no wheel for Python"),
        (f"{ONLY_SOURCE}{NO_VERSION}", 1, "torch==99.0 has no wheel for Python"),
        (NO_ANSWER, 1, "x==1 cannot be fetched: the index does not answer"),
        (CONFLICT, 1, "The user requested torch==2.15.0; torchvision 0.28.0 depends on torch==2.13.0"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", 1, "disk is full"),
        (UV_NO_VERSION, 1, "x==1 is not there: there is no version of x==1"),
        (UV_NO_ANSWER, 1, "x==1 cannot be fetched: the index does not answer"),
        (UV_CONFLICT, 1, "x==1 does not fit what else is required: Because mkdocs==1.6.1 depends on click>=7.0"),
        ("Collecting torch", -9, "the installation of x==1 was killed by signal 9"),
        ("ERROR: something else", 1, "x==1 cannot be installed: something else"),
        ("", 1, "x==1 cannot be installed: exit code 1"),
    ],
)
def test_a_refusal_is_two_lines(text: str, status: int, what: str):
    error = _refused(text, status, "x==1")
    assert what in error.what
    assert error.todo
    assert "\n" not in error.what + error.todo
    assert error.exit_code == 2


def test_the_known_versions_are_named():
    assert _refused(NO_VERSION, 1, "torch==99.0").todo == "it has: 2.13.0, 2.14.1, 2.15.0"


def test_an_index_that_does_not_answer_is_named_beside_one_that_does():
    """The wanted version may be in the one that does not answer."""
    error = _refused(
        f"WARNING: Retrying: NewConnectionError('...: Connection refused')\n{NO_VERSION}", 1, "torch==99.0"
    )
    assert error.what == "torch==99.0 is not in the indexes that answer, and one does not answer"
    assert error.todo.endswith("found: 2.13.0, 2.14.1, 2.15.0")


def test_a_constraint_is_said_to_be_one():
    text = """ERROR: Cannot install x==2 because these package versions have conflicting dependencies.
The conflict is caused by:
    The user requested x==2
    The user requested (constraint) x<=1

ERROR: ResolutionImpossible
"""
    error = _refused(text, 1, "x==2")
    assert error.what == (
        "x==2 does not fit what else is required: The user requested x==2; The user requested (constraint) x<=1"
    )
    assert "pip config list names it" in error.todo


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "Downloading nvidia_cudnn_cu13-9.26.0.51-py3-none-manylinux_2_27_x86_64.whl (366.2 MB)",
            "Downloading nvidia_cudnn_cu13 9.26.0.51 (366.2 MB)",
        ),
        (
            "Downloading triton-3.9.0-cp311-cp311-manylinux_2_27.whl.metadata (1.7 kB)",
            "Downloading triton 3.9.0 (1.7 kB)",
        ),
        ("Collecting sympy>=1.13 (from torch==2.15.0)", "Collecting sympy>=1.13"),
        ("Installing collected packages: triton, torch", "Installing collected packages: triton, torch"),
    ],
)
def test_a_step_names_the_package(line: str, shown: str):
    assert shown_step(line) == shown


def test_an_upgrade_must_fit_what_requires_the_package():
    pins = dependents({"click"})
    assert any(each.startswith("typer==") or each.startswith("uvicorn==") for each in pins)
    assert not any(each.startswith("ctrace==") for each in dependents({"torch", "msgspec"}))


def wheel(folder: Path, name: str, version: str, needs: str = "") -> Path:
    """Write a small wheel."""
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{name}/__init__.py", f"VERSION = {version!r}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", f"{name}/__init__.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return path


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let pip know a folder of wheels, and nothing else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return tmp_path


@pytest.mark.thorough
def test_an_environment_is_made_reused_listed_and_removed(offline: Path):
    path = wheel(offline / "wheels", "smallpackage", "1.5")
    requirements, _ = parted(["smallpackage==1.5"])
    maker = EnvironmentMaker(offline / ".ctrace")
    assert maker.made(requirements) is None
    plan = maker.plan(requirements)
    assert [(each.name, each.version, each.bytes) for each in plan.packages] == [
        ("smallpackage", "1.5", path.stat().st_size)
    ]
    assert plan.hosts == ("this machine",)
    found = maker.make(plan)
    assert found.executable == sys.executable
    assert (Path(found.first[0]) / "smallpackage" / "__init__.py").is_file()
    assert Path(found.first[0]).is_relative_to(offline / ".ctrace" / "environments")
    assert maker.made(requirements) == found
    (listed,) = maker.environments()
    assert (listed.requirements, listed.created is not None, listed.bytes > 100) == (("smallpackage==1.5",), True, True)
    removed, kept = maker.clean()
    assert ([each.name for each in removed], kept) == ([listed.name], [])
    assert maker.environments() == []


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Serve an index with two wheels, one of which needs the other, and their metadata apart; yield what is fetched."""
    folder = tmp_path / "simple"
    fetched: list[str] = []
    for name, needs in (("smallpackage", "Requires-Dist: smallneeded\n"), ("smallneeded", "")):
        path = wheel(folder / name, name, "1.5", needs)
        with zipfile.ZipFile(path) as file:
            Path(f"{path}.metadata").write_bytes(file.read(f"{name}-1.5.dist-info/METADATA"))
        (folder / name / "index.html").write_text(f'<a href="{path.name}" data-core-metadata="true">x</a>')

    class Served(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            fetched.append(self.path)
            super().do_GET()

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Served, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
        yield fetched
        server.shutdown()


@pytest.mark.thorough
def test_no_wheel_is_fetched_before_a_yes(index: list[str], tmp_path: Path):
    """pip's own dry run fetches all of them, gigabytes for torch."""
    maker = EnvironmentMaker(tmp_path / ".ctrace")
    plan = maker.plan(parted(["smallpackage==1.5"])[0])
    wheels = [(tmp_path / "simple" / each / f"{each}-1.5-py3-none-any.whl") for each in ("smallneeded", "smallpackage")]
    assert [(each.pin, each.bytes) for each in plan.packages] == [
        ("smallneeded==1.5", wheels[0].stat().st_size),
        ("smallpackage==1.5", wheels[1].stat().st_size),
    ]
    assert plan.hosts == ("127.0.0.1",)
    assert [each for each in index if each.endswith(".whl")] == []
    made = maker.make(plan)
    assert all((Path(made.first[0]) / each / "__init__.py").is_file() for each in ("smallneeded", "smallpackage"))


def test_a_failed_installation_is_removed(offline: Path):
    (offline / "wheels").mkdir()
    maker = EnvironmentMaker(offline / ".ctrace")
    folder = offline / ".ctrace" / "environments" / "gone"
    with pytest.raises(CtraceError, match=r"the index has no gone==1\.0"):
        maker.make(UpgradePlan(folder, (Fetched("gone", "1.0"),), ("gone==1.0",)))
    assert not folder.exists()


@pytest.mark.thorough
def test_what_a_killed_installation_left_is_removed_before_the_next(offline: Path):
    wheel(offline / "wheels", "smallpackage", "1.5")
    left = offline / ".ctrace" / "environments" / "torch-2.15.0-0123456789"
    (left / "site-packages").mkdir(parents=True)
    maker = EnvironmentMaker(offline / ".ctrace")
    assert [(each.name, each.created) for each in maker.environments()] == [(left.name, None)]
    maker.make(maker.plan(parted(["smallpackage==1.5"])[0]))
    assert not left.exists()
    assert len(maker.environments()) == 1


def test_what_cannot_fit_is_not_begun(tmp_path: Path):
    maker = EnvironmentMaker(tmp_path / ".ctrace")
    plan = UpgradePlan(tmp_path / ".ctrace" / "environments" / "x", (Fetched("x", "1", bytes=1 << 60),), ("x==1",))
    with pytest.raises(RunError, match="MB free"):
        maker.make(plan)
    assert not plan.folder.exists()


def test_a_python_that_is_none_is_refused(tmp_path: Path):
    maker = EnvironmentMaker(tmp_path / ".ctrace")
    with pytest.raises(TargetError, match="there is no Python"):
        maker.supported(tmp_path / "python", may_install=False)
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with pytest.raises(TargetError, match="does not start"):
        maker.supported(broken, may_install=False)


def test_our_own_python_needs_nothing(tmp_path: Path):
    maker = EnvironmentMaker(tmp_path / ".ctrace")
    assert maker.supported(Path(sys.executable), may_install=False).last == ()
    assert not (tmp_path / ".ctrace").exists()


def tensor(*sample: float, dtype: str = "float32", digest: str = "") -> EagerTensor:
    norm = sum(each * each for each in sample) ** 0.5
    return EagerTensor(dtype, (len(sample),), digest or json.dumps(sample), repr(norm), tuple(map(repr, sample)))


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        (tensor(1.0, 2.0), tensor(1.0, 2.0), 0),
        (tensor(1.0, 2.0), tensor(1.0, 2.000001), 0),
        (tensor(1.0, 2.0), tensor(1.0, 2.1), 1),
        (tensor(1.0, 2.0), tensor(1.0, 2.0, dtype="float64"), 1),
        (tensor(1.0, 2.0), tensor(1.0, 2.0, 3.0), 1),
        (tensor(1.0, float("nan")), tensor(1.0, 2.0), 1),
        (tensor(1, 2, dtype="int64"), tensor(1, 3, dtype="int64"), 1),
        (tensor(1.0, 2.0, dtype="bfloat16"), tensor(1.0, 2.02, dtype="bfloat16"), 0),
    ],
)
def test_eager_results_differ_if_more_than_rounding_does(old: EagerTensor, new: EagerTensor, changes: int):
    before, after = (EagerFacts((EagerOutputs("base", (each,)),), {}) for each in (old, new))
    assert len(list(eager_changes(before, after))) == changes


def test_what_uv_would_install_is_read():
    text = "Would install 2 packages\n - click==8.5.1\n + click==8.1.8\n ~ einops==0.8.1\n"
    assert [each.pin for each in _listed(text)] == ["click==8.1.8", "einops==0.8.1"]


def test_looking_for_pip_leaves_setuptools_importable():
    """setuptools gives way to pip once any finder is asked for it; Inductor's C++ builder imports setuptools."""
    words = "installer = __import__('ctrace.inspector.features.upgrade.environments', fromlist=['_has_pip'])"
    run = subprocess.run([sys.executable, "-c", f"{words}\ninstaller._has_pip()\nimport setuptools"], check=False)
    assert run.returncode == 0
