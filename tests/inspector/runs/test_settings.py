"""The table [tool.ctrace] of a project."""

import sys
from pathlib import Path

import pytest

from ctrace.inspector.errors import Exit, SettingsError
from ctrace.inspector.runs.settings import Settings, settings_at


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = (tmp_path / "project").resolve()
    folder.mkdir()
    return folder


def write(project: Path, table: str) -> None:
    (project / "pyproject.toml").write_text(f"[tool.ctrace]\n{table}\n", encoding="utf-8")


def refused(project: Path) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        settings_at(project)
    assert caught.value.exit_code is Exit.USAGE
    assert str(project / "pyproject.toml") in caught.value.what
    return caught.value


def test_without_a_file_there_are_none(project: Path):
    assert settings_at(project) == Settings() == Settings(owned=())


@pytest.mark.parametrize(
    "text", ["", "[project]\nname = 'x'\n", "[tool.other]\na = 1\n", "[tool.ctrace]\n", "tool = 3\n"]
)
def test_a_file_that_says_nothing_of_ctrace(project: Path, text: str):
    (project / "pyproject.toml").write_text(text)
    assert settings_at(project) == Settings()


def test_the_nearest_file_above_counts(project: Path):
    write(project, 'owned = ["lib"]')
    inner = project / "lib" / "inner"
    inner.mkdir(parents=True)
    assert settings_at(inner).owned == (str(project / "lib"),)
    (project / "lib" / "pyproject.toml").write_text("")
    assert settings_at(inner) == Settings()


class TestOwned:
    def test_folders_and_files_beside_the_file(self, project: Path):
        (project / "lib").mkdir()
        (project / "one.py").touch()
        write(project, 'owned = ["lib", "one.py"]')
        assert settings_at(project).owned == (str(project / "lib"), str(project / "one.py"))

    def test_an_absolute_path(self, project: Path, tmp_path: Path):
        write(project, f'owned = ["{tmp_path.resolve()}"]')
        assert settings_at(project).owned == (str(tmp_path.resolve()),)

    def test_a_link_is_known_by_both_names(self, project: Path):
        (project / "real").mkdir()
        (project / "link").symlink_to("real")
        write(project, 'owned = ["link"]')
        assert settings_at(project).owned == (str(project / "link"), str(project / "real"))

    def test_a_package_that_can_be_imported(self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        package = tmp_path.resolve() / "site" / "ctrace_probe"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise AssertionError('it was imported')\n")
        monkeypatch.syspath_prepend(str(package.parent))
        write(project, 'owned = ["ctrace_probe"]')
        assert settings_at(project).owned == (str(package),)
        assert "ctrace_probe" not in sys.modules

    def test_a_part_of_a_package(self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        package = tmp_path.resolve() / "site" / "ctrace_probe"
        (package / "inner").mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "one.py").touch()
        monkeypatch.syspath_prepend(str(package.parent))
        write(project, 'owned = ["ctrace_probe.inner", "ctrace_probe.one"]')
        assert settings_at(project).owned == (str(package / "inner"), str(package / "one.py"))

    def test_a_package_without_an_init_file(self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        package = tmp_path.resolve() / "site" / "ctrace_probe"
        package.mkdir(parents=True)
        monkeypatch.syspath_prepend(str(package.parent))
        write(project, 'owned = ["ctrace_probe"]')
        assert settings_at(project).owned == (str(package),)

    def test_a_module_of_one_file(self, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        module = tmp_path.resolve() / "ctrace_probe.py"
        module.touch()
        monkeypatch.syspath_prepend(str(tmp_path.resolve()))
        write(project, 'owned = ["ctrace_probe"]')
        assert settings_at(project).owned == (str(module),)

    def test_what_is_beside_the_file_goes_before_a_package(self, project: Path):
        (project / "json").mkdir()
        write(project, 'owned = ["json"]')
        assert settings_at(project).owned == (str(project / "json"),)

    def test_the_whole_project(self, project: Path):
        write(project, 'owned = ["."]')
        assert settings_at(project).owned == (str(project),)

    @pytest.mark.parametrize(
        "name",
        ["no_such_thing", "no_such.thing", "json.no_such_part", "..no", "no/such", "n" * 5000, "json." + "n" * 5000],
    )
    def test_what_is_neither(self, project: Path, name: str):
        write(project, f'owned = ["{name}"]')
        error = refused(project)
        assert f"owned names {name!r}" in error.what
        assert "folder or file" in error.todo


class TestGpus:
    def test_files_beside_the_file(self, project: Path):
        (project / "gpus.yaml").touch()
        write(project, 'gpus = ["gpus.yaml"]')
        inner = project / "inner"
        inner.mkdir()
        assert settings_at(inner).gpus == (str(project / "gpus.yaml"),)

    @pytest.mark.parametrize("name", ["no.yaml", ".", "", "\\u0000", "n" * 5000])
    def test_what_is_not_there(self, project: Path, name: str):
        write(project, f'gpus = ["{name}"]')
        assert "which does not exist" in refused(project).what

    @pytest.mark.parametrize("value", ['"gpus.yaml"', "3", "[1]", "{ a = 1 }"])
    def test_no_list_of_strings(self, project: Path, value: str):
        write(project, f"gpus = {value}")
        assert 'gpus = ["gpus.yaml"]' in refused(project).todo


class TestWrong:
    def test_a_key_that_is_nearly_right(self, project: Path):
        write(project, 'owner = ["lib"]')
        error = refused(project)
        assert "unknown key owner" in error.what
        assert error.todo == "did you mean owned?"

    def test_any_other_key(self, project: Path):
        write(project, "colour = 3")
        assert refused(project).todo == "there are: owned, gpus"

    @pytest.mark.parametrize("value", ['"lib"', "3", "true", "[1]", '["lib", 2]', '{ lib = "x" }'])
    def test_owned_is_no_list_of_strings(self, project: Path, value: str):
        write(project, f"owned = {value}")
        error = refused(project)
        assert "not a list of strings" in error.what
        assert 'owned = ["mylib"]' in error.todo

    @pytest.mark.parametrize("text", ["[tool.ctrace\n", "owned = \n", "a = 1\na = 2\n", "\0"])
    def test_a_damaged_file(self, project: Path, text: str):
        (project / "pyproject.toml").write_text(text)
        assert "cannot be read" in refused(project).what

    def test_a_file_that_is_no_text(self, project: Path):
        (project / "pyproject.toml").write_bytes(b"\xff\xfe\x00")
        assert "cannot be read" in refused(project).what

    @pytest.mark.parametrize("text", ["[tool]\nctrace = 3\n", "[tool]\nctrace = ['owned']\n"])
    def test_something_else_than_a_table(self, project: Path, text: str):
        (project / "pyproject.toml").write_text(text)
        error = refused(project)
        assert "not a table" in error.what
        assert "[tool.ctrace]" in error.todo
