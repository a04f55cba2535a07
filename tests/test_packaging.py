"""The installed package contains every file of the tree."""

import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

import ctrace
from tests.support.places import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]


def shipped_files() -> list[tuple[str, Path]]:
    """Return every file below the mapped folders, with the dotted name of its package."""
    found = []
    for package, folder in SETUPTOOLS["package-dir"].items():
        for path in sorted((ROOT / folder).rglob("*")):
            below = path.relative_to(ROOT / folder)
            hidden = any(part == "__pycache__" or part.startswith(".") for part in below.parts)
            if path.is_file() and not hidden:
                found.append((".".join([package, *below.parts[:-1]]), path))
    return found


def requirement_name(requirement: str) -> str:
    """Return the normalized name at the head of a requirement: `types_PyYAML>=6; ...` gives `types-pyyaml`."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement.strip(), maxsplit=1)[0]).lower()


def test_package_list_equals_the_tree():
    on_disk = {package for package, path in shipped_files() if path.suffix == ".py" or path.suffix == ".yaml"}
    assert set(SETUPTOOLS["packages"]) == on_disk


def test_every_package_has_an_init_file():
    with_init = {package for package, path in shipped_files() if path.name == "__init__.py"}
    assert set(SETUPTOOLS["packages"]) <= with_init


def test_every_data_file_is_shipped():
    patterns = SETUPTOOLS["package-data"]
    left_out = [
        str(path.relative_to(ROOT))
        for package, path in shipped_files()
        if path.suffix != ".py" and not any(fnmatch(path.name, pattern) for pattern in patterns.get(package, []))
    ]
    assert left_out == [], "name them in [tool.setuptools.package-data]"


def test_the_version_stands_in_one_place():
    assert PYPROJECT["project"]["dynamic"] == ["version"]
    module, _, name = SETUPTOOLS["dynamic"]["version"]["attr"].rpartition(".")
    assert getattr(import_module(module), name) == ctrace.__version__


def test_every_dependency_is_pinned():
    project = PYPROJECT["project"]
    extras = project["optional-dependencies"]
    every = project["dependencies"] + [line for extra in extras.values() for line in extra]
    wanted = {requirement_name(line) for line in every}
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert wanted == {requirement_name(line) for line in lines if "==" in line and not line.startswith("#")}


def test_importing_ctrace_loads_no_torch():
    code = "import sys, ctrace; sys.exit(bool({'torch', 'triton', 'ctrace.inspector'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_public_functions_are_found_on_first_use():
    assert all(callable(getattr(ctrace, name)) for name in ctrace.__all__ if name != "__version__")
    assert not hasattr(ctrace, "no_such_name")
