"""What else asks which kernel is wrong: explain --build, check --accuracy, repro --culprit and the report."""

import subprocess
import sys

import pytest

from tests.integration.conftest import Command
from tests.integration.test_accuracy import MODEL, PASS, RELU

pytestmark = pytest.mark.integration

BACKWARD = """\
import torch
from torch._inductor import decomposition

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x):
        for _ in range(2):
            h = self.one(x)
            h = torch.nn.functional.gelu(h)
            x = x + self.two(h)
        return torch.tanh(x)

model = Model()

def inputs():
    return (torch.randn(4, 8),)

TABLE = decomposition.decompositions
NAME = torch.ops.aten.gelu_backward.default
right = TABLE[NAME]
"""
REPLACED = """
def wrong(grad, x, *, approximate="none"):
    return grad * (0.5 * (1 + torch.erf(x * 0.7071067811865476)) + 0.1)

TABLE[NAME] = wrong
"""
CHANGED = """
TABLE[NAME] = lambda *args, **kwargs: right(*args, **kwargs) * 1.1
"""


@pytest.mark.long
def test_explain_names_the_line_that_is_wrong(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL + RELU)
    shown = ctrace("explain", "model.py", "--build", COLUMNS="80")
    assert shown.code == 0, shown.err
    words = " ".join(shown.out.split())
    assert "Numbers model.py:11 `h = torch.relu(h)` is wrong: off by 1 where eager is off by 0" in words
    assert "make_fallback(torch.ops.aten.relu.default, override_decomp=True) makes the error go away" in words
    report = ctrace("explain", "--json").report
    assert [(each["file"], each["line"], each["ops"]) for each in report["culprits"]] == [
        ("model.py", 11, ["aten.relu"])
    ]
    assert [(each["file"], each["line"]) for each in report["dangers"]] == [("model.py", 11)]
    page = ctrace("report", "-o", "report.html")
    assert page.code == 0, page.err
    assert '"numbers":true' in (ctrace.folder / "report.html").read_text().replace(" ", "")


@pytest.mark.long
def test_explain_compares_no_kernel_where_results_agree(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    report = ctrace("explain", "model.py", "--build", "--json").report
    assert (report["culprits"], report["accuracy"], report["dangers"]) == (None, None, [])


@pytest.mark.long
def test_check_fails_on_wrong_numbers_until_the_lock_knows_them(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL + RELU)
    ctrace.write("ctrace.yaml", "accuracy: true\nmodels: [model.py]\n")
    first = ctrace("check", "--json", "--sarif", "a.sarif", "--junit", "a.xml", "--summary", "a.md")
    assert first.code == 1, first.err
    (job,) = first.report["jobs"]
    (found,) = job["findings"]
    assert (found["kind"], found["line"], job["counts"]["culprits"]) == ("new-site", 11, 1)
    assert (found["site"]["kind"], found["site"]["causes"]) == ("culprit", ["float32", "aten.relu"])
    assert '"startLine": 11' in (ctrace.folder / "a.sarif").read_text()
    for name in ("a.sarif", "a.xml", "a.md"):
        assert "torch.relu(h)" in (ctrace.folder / name).read_text(), name
    assert ctrace("check", "--update").code == 0
    assert '"culprit": ["float32", "aten.relu"]' in (ctrace.folder / "ctrace.lock").read_text()
    assert ctrace("check").code == 0


@pytest.mark.long
def test_repro_writes_the_kernel_that_is_wrong(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL + RELU)
    result = ctrace("repro", "model.py:11", "--culprit", "-o", "repro.py", timeout=900)
    assert result.code == 0, result.err
    text = (ctrace.folder / "repro.py").read_text()
    assert "torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = 'accuracy'" in text
    assert "torch.ops.aten.relu.default(" in text
    assert "aten.mul" not in text
    assert "ctrace" not in text
    done = subprocess.run(
        [sys.executable, "repro.py"], cwd=ctrace.folder, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode != 0
    # The fault gives x + 1, so random numbers show more than the model's own, which are small.
    assert done.stdout.startswith("off by 1")
    assert "from float64, eager by 0\n" in done.stdout


@pytest.mark.long
def test_repro_says_so_if_a_pass_of_the_user_is_wrong(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL + PASS.format(setting="post_grad_custom_post_pass"))
    result = ctrace("repro", "model.py", "--culprit")
    assert (result.code, result.out) == (2, "")
    assert "the pass that `post_grad_custom_post_pass` is set to: it is your own code" in result.err


def test_repro_says_so_if_no_kernel_is_wrong(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    result = ctrace("repro", "model.py", "--culprit")
    assert (result.code, result.out) == (2, "")
    assert "no kernel is wrong" in result.err


@pytest.mark.long
@pytest.mark.parametrize("fault", [REPLACED, CHANGED], ids=["no right value", "a right value on the way"])
def test_a_wrong_decomposition_in_a_backward_has_its_line(ctrace: Command, fault: str) -> None:
    ctrace.write("model.py", BACKWARD + fault)
    report = ctrace("accuracy", "model.py", "--train", "--json").report
    assert {(each["kind"], each["stage"], each["line"]) for each in report["culprits"]} == {
        ("decomposition", "backward", 12)
    }
    assert report["equal"] is False
    assert report["compiled_runs"] <= 3
    without = ctrace("accuracy", "model.py", "--json").report
    assert (without["equal"], without["culprits"]) == (True, [])


NOISE = """
TABLE[NAME] = lambda *args, **kwargs: right(*args, **kwargs) + 0.01
"""


@pytest.mark.long
def test_a_backward_whose_gradient_is_rounding_has_the_line_that_its_reason_proves(ctrace: Command) -> None:
    lines = BACKWARD.replace("x = x + self.two(h)", "x = h[:, :8]").replace("torch.tanh(x)", "torch.softmax(h, -1)")
    ctrace.write("model.py", lines.replace("range(2)", "range(1)") + NOISE)
    report = ctrace("accuracy", "model.py", "--train", "--json").report
    (found,) = report["culprits"]
    assert (found["kind"], found["stage"], found["line"]) == ("decomposition", "backward", 12)
    assert found["reason"].startswith("the decomposition of aten.gelu_backward in model.py:")
