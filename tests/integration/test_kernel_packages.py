"""Eject a kernel, apply it, break it, tune it: on a CPU, where the kernel itself runs in Triton's interpreter."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Command
from tests.support.places import ROOT
from tests.support.triton_kernels import SOURCE
from tests.support.warm import WarmServer

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

MODEL = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(60, 60, bias=False)

    def forward(self, x):
        for _ in range(2):
            x = torch.exp(torch.sin(self.up(x) + 0.25))
            x = x / x.sum(-1, keepdim=True)
        return x

def model():
    torch.manual_seed(0)
    return Net().requires_grad_(False)

def inputs():
    return (torch.randn(30, 60),)
"""
SPLIT = """\
import torch

def model():
    return lambda z: (z * z).sum()

def inputs():
    return (torch.randn(2000, 1000),)
"""
OTHER = MODEL.replace("+ 0.25", "+ 0.75")


@pytest.fixture(scope="module")
def ejected(tmp_path_factory: pytest.TempPathFactory, warm_server: WarmServer | None) -> Path:
    """Eject a normalization, whose rows of 60 need a mask in blocks of 64."""
    folder = tmp_path_factory.mktemp("ejected")
    ctrace = Command(folder, warm_server)
    ctrace.write("model.py", MODEL)
    done = ctrace("kernels", "eject", "sin", "-o", "ops", "--of", "model.py", "--target", "h100")
    assert done.code == 0, done.err
    return folder / "ops"


@pytest.fixture
def package(ctrace: Command, ejected: Path) -> Path:
    """Copy the package beside a model, where a test may edit it."""
    ctrace.write("model.py", MODEL)
    shutil.copytree(ejected, ctrace.folder / "ops", ignore=shutil.ignore_patterns("__pycache__"))
    (found,) = (each.parent for each in (ctrace.folder / "ops").glob("*/kernel.py"))
    return found


def edit(package: Path, pattern: str, by: str) -> None:
    """Change the kernel."""
    file = package / "kernel.py"
    before = file.read_text()
    after = re.sub(pattern, by, before, count=1)
    assert after != before
    file.write_text(after)


def apply(ctrace: Command, package: Path, model: str = "model.py", *words: str) -> tuple[int, Any]:
    done = ctrace("kernels", "apply", str(package), model, "--json", *words)
    assert done.out, done.err
    return done.code, done.report


@pytest.mark.long
def test_an_unchanged_package_applies_to_every_place(ctrace: Command, package: Path):
    code, found = apply(ctrace, package, "model.py", "--diff")
    assert code == 0, found
    assert [each["applied"] for each in found["places"]] == [True, True]
    assert all(each["line"].endswith("model.py:12") for each in found["places"])
    assert found["equal"] is True
    assert found["largest_difference"] < 1e-5
    assert {each["ran"] for each in found["regions"]} <= {"gpu", "interpreter"}
    if not torch.cuda.is_available():
        assert (found["before"], found["after"]) == (None, None)
        assert "there is no GPU" in found["not_measured"]
    assert f"+{package.name}.install()" in found["diffs"][0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("pattern", "by"),
    [
        (r"(r0_mask = r0_index < r0_numel)", r"\1 - 1"),
        (r"tl\.where\([^,]+, ([^,]+), [^)]+\)", r"\1"),
        (r"(= \w+) \+ 0\.25", r"\1 + 0.26"),
        (r"(= \w+) \+ 0\.25", r"\1 + quarter"),
        (r"(\n +)(tl\.store\()\w+_ptr( \+ \(r0_1.*)", r"\1\2INPUT_ptr\3\g<0>"),
        (r"xindex < xnumel", "xindex < xnumel // 2 * 2"),
        (r"(tl\.program_id\(0\)) \* XBLOCK", r"\1 * 1"),
        (r"(\n +)(\w+) = tl\.load\(.*", r"\g<0>\1\2 = tl.where(\2 != \2, 0.0, \2)"),
        (r"(\n +)(\w+) = tl\.load\((\w+) .*", r"\g<0>\1\2 += 0.0 * tl.load(\3 + xnumel * r0_numel)"),
    ],
    ids=[
        "off_by_one", "no_where", "wrong_constant", "unknown_name", "store_to_an_input", "odd_sizes",
        "one_configuration", "nan", "outside",
    ],
)  # fmt: skip
def test_a_wrong_edit_is_caught_before_anything_is_timed(ctrace: Command, package: Path, pattern: str, by: str):
    text = (package / "kernel.py").read_text()
    first = re.search(r"(\w+)_ptr,", text)
    assert first is not None
    edit(package, pattern, by.replace("INPUT", first[1]))
    done = ctrace("kernels", "edit", str(package), "--once", "--json")
    assert done.code == 1, done.err
    assert done.report["equal"] is False
    wrong = next(each for each in done.report["checks"] if not each["equal"])
    if "quarter" in by:
        assert "does not compile" in wrong["note"]
        assert "quarter" in wrong["note"]
    elif "INPUT" in by:
        assert "writes to input 1" in wrong["note"]
    elif "xnumel * r0" in by:
        assert "reads outside of argument 1 of its launch, at 1 past its end" in wrong["note"]
    else:
        assert wrong["first_difference"]["at"] is not None
    if "25" in pattern or "INPUT" in by:
        code, found = apply(ctrace, package)
        assert (code, found["equal"], found["before"]) == (1, False, None)
    if "0.26" in by:
        assert len(found["first_difference"]["at"]) == 2


@pytest.mark.long
def test_a_kernel_that_does_not_end_is_ended(ctrace: Command, package: Path):
    edit(package, r"(\n +)(xmask = .*)", r"\1\2\1turn = 0\1while turn >= 0:\1    turn = turn * 1")
    done = ctrace("kernels", "edit", str(package), "--once", "--timeout", "20")
    assert done.code == 1
    assert "no result within 20 s" in done.out


INNER = """\
import torch

def model(x):
    y = torch.exp(torch.sin(x) + 0.25)
    return y / y.sum(-1, keepdim=True)

def inputs():
    return (torch.randn(8, 60),)

scenarios = {"wide": lambda: (torch.randn(8, 100),), "tall": lambda: (torch.randn(11, 60),)}
"""


@pytest.mark.long
def test_a_scenario_may_change_an_inner_size(ctrace: Command):
    """What Dynamo had learned from the unchanged side hid the graph that the package came from."""
    ctrace.write("model.py", INNER)
    done = ctrace("kernels", "eject", "--graph", "0/0", "--all", "-o", "ops", "--of", "model.py", "--target", "h100")
    assert done.code == 0, done.err
    (folder,) = (ctrace.folder / "ops").iterdir()
    code, found = apply(ctrace, folder, "model.py", "--no-time")
    assert (code, [(each["graph"], each["applied"]) for each in found["places"]]) == (0, [("0/0", True)])
    kept = [each for each in found["notes"] if "keeps the kernel that Inductor made for it" in each]
    assert [each.split()[1] for each in kept] == ["0/1", "0/2"]


def test_a_model_that_does_not_fit_names_the_node(ctrace: Command, package: Path):
    ctrace.write("other.py", OTHER)
    code, found = apply(ctrace, package, "other.py")
    assert code == 1
    assert [each["applied"] for each in found["places"]] == [False]
    assert "0.25" in found["places"][0]["why"]
    assert "0.75" in found["places"][0]["why"]


def test_a_package_that_does_not_parse(ctrace: Command, package: Path):
    (package / "kernel.py").write_text("def f(:\n")
    for command in (("apply", str(package), "model.py"), ("edit", str(package), "--once"), ("tune", str(package))):
        done = ctrace("kernels", *command)
        assert done.code == 2
        assert "kernel.py, line 1" in done.err
        assert "Traceback" not in done.err


def test_configurations_compile_for_an_absent_gpu(ctrace: Command, package: Path):
    before = (package / "kernel.py").read_text()
    done = ctrace("kernels", "tune", str(package), "--target", "h100", "--most", "4", "--json")
    assert done.code == 0, done.err
    (found,) = done.report["packages"]
    tried = found["kernels"][0]["sizes"][0]["tried"]
    assert len(tried) == 4
    assert all(each["registers"] > 0 and each["occupancy"] is not None and each["seconds"] is None for each in tried)
    assert (package / "kernel.py").read_text() == before


@pytest.mark.long
def test_each_kernel_of_a_package_is_tuned(ctrace: Command):
    ctrace.write("model.py", SPLIT)
    done = ctrace("kernels", "eject", "--all", "-o", "ops", "--of", "model.py", "--target", "h100")
    assert done.code == 0, done.err
    (package,) = ctrace.folder.glob("ops/*/kernel.py")
    words = ("kernels", "tune", str(package.parent), "--target", "h100", "--most", "2", "--json")
    done = ctrace(*words)
    assert done.code == 0, done.err
    found = done.report["packages"][0]["kernels"]
    assert len(found) == 2
    tried = [one for each in found for one in each["sizes"][0]["tried"]]
    assert len(tried) == 4
    assert all(each["registers"] > 0 for each in tried)
    done = ctrace(*words, "--kernel", found[1]["kernel"])
    assert [each["kernel"] for each in done.report["packages"][0]["kernels"]] == [found[1]["kernel"]]
    assert ctrace(*words, "--kernel", "other").code == 2


def test_bad_gpus(ctrace: Command, package: Path):
    done = ctrace("kernels", "tune", str(package), "--target", "h1000")
    assert done.code == 2
    assert "h100" in done.err
    if not torch.cuda.is_available():
        done = ctrace("kernels", "tune", str(package))
        assert done.code == 2
        assert "--target" in done.err


def test_edit_compares_the_compiled_code(ctrace: Command, package: Path):
    done = ctrace("kernels", "edit", str(package), "--once", "--ir", "--no-time", "--json")
    assert done.code == 0, done.err
    (code,) = done.report["code"].values()
    assert ".visible .entry" in code["ptx"]
    assert "tt.func" in code["ttir"]


def test_a_wrapped_kernel_passes_all_checks(ctrace: Command):
    done = ctrace("kernels", "wrap", str(ROOT / "sample_models" / "triton_kernel.py:add_relu_kernel"), "--json")
    assert done.code == 0, done.err
    found = done.report
    assert (found["operator"], found["mutates"], found["kernel_writes"]) == ("triton_kernel::add_relu", [], ["out_ptr"])
    assert found["kernel_writes_from"] == "triton"
    assert [each for each in found["checks"] if each["passed"] is not True] == []


@pytest.mark.parametrize("kernel", ["softmax_kernel", "scale_kernel"])
def test_a_kernel_without_a_branch_for_the_cpu_is_interpreted(ctrace: Command, kernel: str):
    ctrace.write("zoo.py", SOURCE)
    done = ctrace("kernels", "wrap", f"zoo.py:{kernel}", "-o", "made.py")
    assert done.code == 0, done.out + done.err
    assert "through Triton's interpreter" in done.out
    assert "class Interpreted" in (ctrace.folder / "made.py").read_text()
    again = ctrace("kernels", "wrap", f"zoo.py:{kernel}", "-o", "made.py")
    assert again.code == 2
    assert "exists" in again.err


def test_a_kernel_that_differs_from_the_branch_for_the_cpu_is_caught(ctrace: Command):
    ctrace.write(
        "zoo.py",
        SOURCE.replace("mask=offsets < n) + 1, mask=offsets < n)", "mask=offsets < n) + 1, mask=offsets < n - 1)"),
    )
    done = ctrace("kernels", "wrap", "zoo.py:add_one_kernel", "--json")
    assert done.code == 3
    failed = [each["what"] for each in done.report["checks"] if each["passed"] is False]
    assert failed == ["the kernel, in Triton's interpreter, equals the function's branch for the CPU"]
    assert json.loads(done.out)["kernel_writes"] == ["out_ptr"]
