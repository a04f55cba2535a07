"""What other files of a project do with what a change touches."""

from pathlib import Path

import pytest

from ctrace.inspector.features.fix.repairs.neighbor_files import read_neighbors

OPS = """\
import torch


def unit(x):
    return x / 255 if x.max() > 1 else x * 1.0


class Center(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.center = torch.zeros(3)

    def forward(self, h):
        return h - 2 if h.sum() > 1 else h - 1
"""
UNIT = OPS.replace("x / 255 if x.max() > 1 else x * 1.0", "torch.where(x.max() > 1, x / 255, x * 1.0)")
CENTER = OPS.replace("h - 2 if h.sum() > 1 else h - 1", "torch.where(h.sum() > 1, h - self.center, h - 1)")


def asked(folder: Path, other: str, after: str, name: str = "use.py") -> tuple[str, ...]:
    (folder / "ops.py").write_text(OPS)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(other)
    return read_neighbors(str(folder / "ops.py"), OPS, after).questions(())


@pytest.mark.parametrize(
    "other",
    [
        "import numpy as np\nfrom ops import unit\n\ndef load(path):\n    return unit(np.load(path))\n",
        "import numpy as np\nimport ops\n\ndef load(path):\n    return ops.unit(np.load(path))\n",
        "import ops as kit\n\ndef rate():\n    return kit.unit(\n        0.5)\n",
        "from ops import unit\n\nclass Data:\n    def __getitem__(self, at):\n        return unit(self.all[at])\n",
    ],
)
def test_a_caller_in_another_file_is_asked_about(tmp_path: Path, other: str):
    found = asked(tmp_path, other, UNIT)
    assert len(found) == 1
    assert any(f"ine {line} of use.py" in found[0] for line in (4, 5))


@pytest.mark.parametrize(
    "other",
    [
        "from ops import Center\n\nclass None_(Center):\n    def off(self):\n        self.center = None\n",
        "import ops\n\ndef off(net):\n    net.center = None\n",
        "from .ops import *\n\ndef off(net):\n    del net.center\n",
    ],
)
def test_a_write_in_another_file_is_asked_about(tmp_path: Path, other: str):
    assert any("use.py" in each for each in asked(tmp_path, other, CENTER))
    assert not asked(tmp_path, other, UNIT)


def test_a_line_of_a_loaded_file_must_run(tmp_path: Path):
    other = "from ops import unit\n\nclass Data:\n    def __getitem__(self, at):\n        return unit(self.all[at])\n"
    (tmp_path / "ops.py").write_text(OPS)
    (tmp_path / "use.py").write_text(other)
    found = read_neighbors(str(tmp_path / "ops.py"), OPS, UNIT)
    loaded = [str(tmp_path / "use.py")]
    assert found.questions(loaded) == ()
    assert [(each.file, each.line) for each in found.must_run(loaded)] == [(loaded[0], 5)]


def test_a_file_that_has_nothing_to_do_with_it_is_not_read(tmp_path: Path):
    assert asked(tmp_path, "def off(net):\n    net.center = None\n", CENTER) == ()
    assert asked(tmp_path, "import torch\n\ndef unit(x):\n    return x\n\nunit(3)\n", UNIT) == ()


def test_a_file_of_an_environment_is_not_one_of_the_project(tmp_path: Path):
    (tmp_path / "env").mkdir()
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    assert asked(tmp_path, "import ops\n\ndef off(net):\n    net.center = None\n", CENTER, "env/use.py") == ()


def test_a_package_is_read_whole(tmp_path: Path):
    package = tmp_path / "project"
    package.mkdir()
    (package / "__init__.py").write_text("from .ops import unit\n")
    other = "from project import unit\n\nRATE = unit(0.5)\n"
    (found,) = asked(package, other, UNIT, "tools/rates.py")
    assert "line 3 of rates.py" in found


def test_files_that_are_too_long_are_named(tmp_path: Path):
    other = "import ops\n" + "unit = 1\n" * 20_000
    (found,) = asked(tmp_path, other, UNIT)
    assert "use.py" in found
    (tmp_path / "further").mkdir()
    assert asked(tmp_path / "further", other.replace("unit", "other"), UNIT) == ()
