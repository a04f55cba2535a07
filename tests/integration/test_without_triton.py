"""ctrace where Triton is not installed, as with torch for macOS: simulated by a Python that cannot find it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

SAMPLES = Path(__file__).resolve().parents[2] / "sample_models"

WITHOUT_TRITON = """
from importlib import machinery, metadata

find = machinery.PathFinder.find_spec
named = metadata.Distribution.from_name.__func__


def find_spec(cls, name, path=None, target=None):
    return None if name.partition(".")[0] == "triton" else find(name, path, target)


def from_name(cls, name):
    if name == "triton":
        raise metadata.PackageNotFoundError(name)
    return named(cls, name)


machinery.PathFinder.find_spec = classmethod(find_spec)
metadata.Distribution.from_name = classmethod(from_name)
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TRITON)
    return tmp_path


def _ctrace(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site), "CTRACE_DIR": str(site / "runs")}
    command = [sys.executable, "-m", "ctrace", *words]
    return subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.long
def test_a_model_is_explained_with_cpp_kernels(site: Path) -> None:
    done = _ctrace(site, "explain", str(SAMPLES / "mlp.py"))
    assert done.returncode == 0, done.stderr
    assert "Fully compiled: 1 graph" in done.stdout
    kernels = _ctrace(site, "kernels")
    assert "cpp_fused" in kernels.stdout


def test_code_for_a_gpu_needs_triton(site: Path) -> None:
    done = _ctrace(site, "explain", str(SAMPLES / "mlp.py"), "--target", "h100")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "ctrace: --target needs Triton, which is not installed in this environment",
        "  pip install triton",
    ]


def test_an_environment_that_cannot_start_is_not_blamed_on_the_model(site: Path) -> None:
    (site / "model.py").write_text("import torch\nmodel = torch.nn.ReLU()\ndef inputs(): return (torch.ones(2),)\n")
    (site / "sitecustomize.py").write_text(
        "import os, sys\nif any('inspector.capture' in word for word in sys.orig_argv): os._exit(1)\n"
    )
    done = _ctrace(site, "explain", "model.py")
    assert done.returncode == 3
    assert "The capture ended before it loaded the program" in " ".join(done.stdout.split())
    assert "A model file must not end the process" not in done.stdout
