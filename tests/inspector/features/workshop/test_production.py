"""How a program uses a package without ctrace: the lines that import it run, and no diff has code that cannot."""

import subprocess
import sys
from pathlib import Path

import pytest

from ctrace.inspector.features.workshop.kernel_package import KernelPackage, diffs_of
from ctrace.inspector.features.workshop.package_model import AppliedPackage, ExpectedPlace
from ctrace.inspector.runs.target import ModelTarget

MODEL = "import os\n\n\ndef f(x):\n    return x * 2\n"


def made(folder: Path) -> KernelPackage:
    """Write a package that says so when it is installed."""
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("from .op import mul_0\n\ndef install():\n    print('installed')\n")
    (folder / "op.py").write_text(
        "def custom_op(f):\n    return f\n\n@custom_op\ndef mul_0(addmm):\n    return addmm\n"
    )
    return KernelPackage(folder, {})


@pytest.mark.parametrize("at", ["mul_0", "ops/mul_0", "deep/ops/mul_0", "my-ops/mul_0", "../elsewhere/mul_0"])
def test_the_lines_that_install_a_package_run_as_shown(tmp_path: Path, at: str):
    model = tmp_path / "project" / "model.py"
    model.parent.mkdir()
    model.write_text(MODEL)
    package = made(model.parent / at)
    diff, call = diffs_of([package], ModelTarget(model, None, None), found(model))
    added = [line[1:] for line in diff.splitlines() if line.startswith("+") and not line.startswith("+++")]
    model.write_text("\n".join(added) + f"\n{MODEL}")
    ran = subprocess.run([sys.executable, str(model)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ran.stdout, ran.stderr) == ("installed\n", "")
    assert all(line.startswith("#") for line in call.splitlines())
    assert "mul_0.mul_0(addmm) computes a part of" in call
    assert "model.py:5: return x * 2" in call


def found(model: Path) -> AppliedPackage:
    return AppliedPackage(
        "cpu", is_gpu=False, places=(ExpectedPlace("0/0", "forward", f"{model}:5", "ejected::mul_0", applied=True),)
    )


def test_two_packages_share_their_imports(tmp_path: Path):
    packages = [made(tmp_path / "far" / name) for name in ("mul_0", "add_1")]
    model = tmp_path / "near" / "model.py"
    model.parent.mkdir()
    model.write_text(MODEL)
    diff, *_ = diffs_of(packages, ModelTarget(model, None, None), found(model))
    assert diff.count("+import sys") == 1
    assert diff.count("+sys.path.insert") == 1
