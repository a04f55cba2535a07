"""What is read from a user's kernel without running it."""

import ast
from pathlib import Path

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.workshop.kernel_reading import (
    SourceFile,
    flow_of,
    kernel_named,
    launches_of,
    parsed,
    split,
)
from ctrace.inspector.features.workshop.triton_op_model import limits_of
from ctrace.inspector.features.workshop.triton_op_writing import flops_per_element, wrapped
from tests.support.triton_kernels import SOURCE


@pytest.fixture
def file(tmp_path: Path) -> SourceFile:
    path = tmp_path / "zoo.py"
    path.write_text(SOURCE)
    return parsed(path)


@pytest.mark.parametrize(
    ("kernel", "written", "read"),
    [
        ("softmax_kernel", ("out_ptr",), ("in_ptr",)),
        ("scale_kernel", ("x_ptr",), ("x_ptr",)),  # through a helper that stores
        ("limited_kernel", ("total_ptr",), ("x_ptr",)),  # an atomic operation
        ("add_one_kernel", ("out_ptr",), ("x_ptr",)),
    ],
)
def test_pointers_are_followed_to_stores_and_loads(
    file: SourceFile, kernel: str, written: tuple[str, ...], read: tuple[str, ...]
):
    found = kernel_named(file, kernel)
    assert (found.written, found.read, found.assumed) == (written, read, "")


def flow(body: str) -> tuple[list[str], list[str]]:
    tree = ast.parse(f"def kernel(a, b, n):\n{body}")
    node = tree.body[0]
    assert isinstance(node, ast.FunctionDef)
    found = flow_of(node, {})
    return list(found.written), list(found.unknown)


def test_a_pointer_that_moves_in_a_loop_is_followed():
    body = "    p = a\n    q = b\n    for i in range(n):\n        tl.store(q, tl.load(p))\n        q = p\n"
    assert set(flow(body)[0]) == {"a", "b"}


def test_a_loaded_value_is_no_pointer():
    assert flow("    i = tl.load(a)\n    tl.store(b + i, i)\n")[0] == ["b"]


def test_a_pointer_in_an_unknown_function_counts_as_written():
    written, unknown = flow("    helper(a)\n    tl.store(b, 1)\n")
    assert (set(written), unknown) == ({"a", "b"}, ["helper"])


def test_descriptors_are_followed():
    assert flow("    d = tl.make_tensor_descriptor(a, [n], [1], [8])\n    d.store([0], d.load([0]))\n")[0] == ["a", "n"]


def test_limits_of_torch_that_apply(file: SourceFile):
    kernel = kernel_named(file, "limited_kernel")
    applying = [each.what for each in limits_of(kernel, launches_of(file, kernel)[0]) if each.applies]
    assert any("@triton.heuristics only below @triton.autotune" in each for each in applying)
    assert any("`configs` and `key` only; this kernel has warmup" in each for each in applying)
    kernel = kernel_named(file, "scale_kernel")
    assert not [each for each in limits_of(kernel, launches_of(file, kernel)[0]) if each.applies]


def test_flops_are_counted_only_element_by_element(file: SourceFile):
    assert flops_per_element(kernel_named(file, "add_one_kernel")) == 1
    assert flops_per_element(kernel_named(file, "softmax_kernel")) is None


def test_a_function_becomes_an_operator_without_mutated_arguments(file: SourceFile):
    made = wrapped(file, "softmax_kernel")
    assert (made.name, made.mutates, made.returns, made.cpu) == ("zoo::softmax", (), "Tensor", "interpreter")
    assert 'triton_op("zoo::softmax", mutates_args=())' in made.source
    assert "wrap_triton(softmax_kernel)[(rows,)]" in made.source
    assert "@softmax.register_fake" in made.source


def test_an_argument_that_a_view_of_is_written_is_mutated(tmp_path: Path):
    path = tmp_path / "zoo.py"
    path.write_text(SOURCE.replace("    if x.device.type", "    add_in_place(x)\n    if x.device.type").replace(
        "    add_one_kernel[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)\n", ""))  # fmt: skip
    made = wrapped(parsed(path), "add_one_kernel")
    assert (made.function, made.mutates, made.returns) == ("add_in_place", ("x",), "None")
    assert "times: int = 1" in made.source


def test_a_launch_in_a_method_becomes_an_operator_of_its_own(file: SourceFile):
    made = wrapped(file, "scale_kernel")
    assert (made.name, made.mutates) == ("zoo::scale", ("x_ptr",))
    assert any("is in forward, a method" in each for each in made.notes)
    assert made.calls[1] == "scale(y, n, self.scale)"
    assert "def square(x):" in made.source  # what the kernel calls is copied


def test_the_users_branch_for_the_cpu_stays(file: SourceFile):
    made = wrapped(file, "add_one_kernel")
    assert made.cpu == "branch"
    assert 'if x.device.type == "cpu":\n        return x + 1' in made.source


def read_launches(text: str) -> None:
    path, name = split(text)
    launches_of(parsed(path), kernel_named(parsed(path), name))


@pytest.mark.parametrize(
    ("text", "what", "todo"),
    [
        ("zoo.py", "names no kernel", "name one"),
        ("zo.py:softmax_kernel", "there is no file", "did you mean zoo.py?"),
        ("zoo.py:softmax_kernl", "has no kernel softmax_kernl", "did you mean softmax_kernel?"),
        ("zoo.py:softmax", "is not a Triton kernel", "softmax_kernel"),
        ("zoo.py:square", "nothing in", "launches"),
    ],
)
def test_bad_names(file: SourceFile, monkeypatch: pytest.MonkeyPatch, text: str, what: str, todo: str):
    monkeypatch.chdir(file.path.parent)
    with pytest.raises(TargetError) as error:
        read_launches(text)
    assert what in error.value.what
    assert todo in error.value.todo or todo in error.value.what


def test_a_file_that_does_not_parse(tmp_path: Path):
    (tmp_path / "bad.py").write_text("def f(:\n")
    with pytest.raises(TargetError, match=r"bad\.py, line 1"):
        parsed(tmp_path / "bad.py")


def test_a_kernel_in_an_operator_is_left_alone(tmp_path: Path):
    path = tmp_path / "zoo.py"
    path.write_text(SOURCE.replace("    softmax_kernel[(rows,)]", "    wrap_triton(softmax_kernel)[(rows,)]"))
    with pytest.raises(TargetError, match="in an operator already"):
        wrapped(parsed(path), "softmax_kernel")
