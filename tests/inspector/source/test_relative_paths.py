"""One name for a file on every machine."""

from pathlib import Path

import pytest

from ctrace.inspector.source.relative_paths import relative_path

ROOT = Path("/home/user/project")
PREFIXES = {"/opt/libs": "library", "C:\\Python311\\Lib": "library"}


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/home/user/project/models/mask.py", "models/mask.py"),
        ("/home/user/project/models/../other/./mask.py", "other/mask.py"),
        ("/home/user/project/.venv/lib/python3.11/site-packages/einops/layers.py", "einops/layers.py"),
        ("/home/user/project/.venv/lib64/python3.11/site-packages/einops/layers.py", "einops/layers.py"),
        ("/usr/lib/python3/dist-packages/numpy/core.py", "numpy/core.py"),
        ("/usr/lib/python3.11/random.py", "random.py"),
        ("/root/.pyenv/versions/3.12.1/lib/python3.12/json/decoder.py", "json/decoder.py"),
        ("C:\\venv\\Lib\\site-packages\\einops\\layers.py", "einops/layers.py"),
        ("C:\\Python311\\Lib\\random.py", "random.py"),
        ("/opt/libs/deep/kernel.py", "deep/kernel.py"),
        ("/somewhere/else/models/mask.py", "models/mask.py"),
        ("C:\\work\\models\\mask.py", "models/mask.py"),
        ("C:\\mask.py", "mask.py"),
        ("/mask.py", "mask.py"),
        ("models/deep/mask.py", "models/deep/mask.py"),
        ("./mask.py", "mask.py"),
        ("<string>", "<string>"),
        ("", ""),
    ],
)
def test_a_file_has_a_name_that_no_machine_is_in(file: str, name: str) -> None:
    assert relative_path(file, ROOT, PREFIXES) == name


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src" / "models").mkdir(parents=True)
    (folder / "src" / "models" / "mask.py").touch()
    (folder / "mask.py").touch()
    return folder


@pytest.mark.parametrize("file", ["/ci/build/src/models/mask.py", "D:\\ci\\src\\models\\mask.py", "src/models/mask.py"])
def test_a_file_of_another_machine_is_the_longest_end_that_is_here(project: Path, file: str) -> None:
    assert relative_path(file, project, {}) == "src/models/mask.py"


def test_a_root_behind_a_link_is_the_same_root(project: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(project)
    for root in (project, link):
        for file in (project / "src/models/mask.py", link / "src/models/mask.py"):
            assert relative_path(str(file), root, {}) == "src/models/mask.py"


def test_a_relative_path_with_steps_up_leaves_no_file_of_the_project(project: Path) -> None:
    assert relative_path("../../etc/passwd", project, {}) == "../../etc/passwd"


@pytest.mark.parametrize("file", ["/x/" + "a" * 5000 + ".py", "/x/\0.py"])
def test_a_name_that_no_file_can_have_is_only_a_name(project: Path, file: str) -> None:
    assert relative_path(file, project, {}) == file.removeprefix("/")
