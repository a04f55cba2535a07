"""Packages of ejected kernels on disk."""

import ast
import json
import re
from pathlib import Path

import pytest
from msgspec import structs

from ctrace.inspector.errors import DumpError
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.workshop.eject_kernel import EjectedPackage, Size, package_of
from ctrace.inspector.features.workshop.kernel_region import CppKernel
from ctrace.reports.dump.eject_writing import (
    EjectDocument,
    Ejected,
    Written,
    make_folder,
    write_package,
)
from ctrace.reports.dump.package_files import package_files
from ctrace.reports.terminal.kernel_files_screen import ejected_screen
from tests.support.ejecting import session
from tests.support.golden import drawn

ALLOWED = {"torch", "triton", "pytest", "importlib", "os", "subprocess", "sys", "pathlib", "hashlib", "operator",
           "collections", "contextlib", "contextvars", "dataclasses", "functools", "itertools", "math", "numpy", "types", "typing",
           "ast", "re", "site", "sysconfig"}  # fmt: skip


def package() -> EjectedPackage:
    found = session()
    return package_of(found, found.kernels[0])


def written(folder: Path) -> Written:
    make_folder(folder)
    return write_package(session(), package(), folder)


def written_file(name: str, package: EjectedPackage) -> str:
    return package_files(package)[name]


def test_a_package_has_the_fixed_names(tmp_path: Path) -> None:
    done = written(tmp_path / "ops")
    assert done.folder == tmp_path / "ops" / "exp_mul_0"
    assert sorted(done.files) == sorted(
        [
            "__init__.py",
            "kernel.py",
            "op.py",
            "place.py",
            "sources.py",
            "cases.py",
            "checks.py",
            "test_exp_mul_0.py",
            "bench.py",
            "README.md",
            "ctrace.json",
        ]
    )
    assert sorted(each.name for each in done.folder.iterdir()) == sorted(done.files)


def test_a_package_needs_torch_and_triton_alone(tmp_path: Path) -> None:
    for file in written(tmp_path).folder.glob("*.py"):
        tree = ast.parse(file.read_text())
        modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
        assert {each.split(".")[0] for each in modules} <= ALLOWED, file.name


def test_the_files_are_complete(tmp_path: Path) -> None:
    for file in written(tmp_path).folder.iterdir():
        assert "$" not in file.read_text(), file.name


def test_the_readme_calls_the_op_with_all_of_its_arguments() -> None:
    found = package()
    assert "`mul_1 = exp_mul_0.exp_mul_0(mm)` computes a part of" in written_file("README.md", found)
    text = written_file("README.md", structs.replace(found, sizes=(Size("n", "", 32), Size("m", "mm.shape[1]", 8))))
    assert "`mul_1 = exp_mul_0.exp_mul_0(mm, n)` computes a part of" in text
    assert "The sizes n occur only in expressions" in text


def test_the_files_of_a_cpp_kernel_speak_of_it() -> None:
    cpp = CppKernel("void kernel() {}", "", ("mm", "mul_1"), ())
    found = structs.replace(package(), cpp=cpp)
    assert "1. Edit `kernel.cpp`. `ctrace kernels edit exp_mul_0` checks it on every save.\n" in written_file(
        "README.md", found
    )
    written = Ejected(found.kernel, Written(found, Path("ops/exp_mul_0"), ()))
    document = EjectDocument(run=Session().run, target_gpu=None, kernels=(written,), model="model.py")
    shown = drawn(ejected_screen(document, 100), 100)
    assert "edit kernel.cpp; ctrace kernels edit ops/exp_mul_0" in shown
    assert "ctrace kernels apply ops/exp_mul_0 model.py" in shown
    assert "and on other devices, the op computes" in written_file("README.md", found)
    text = written_file("op.py", found)
    assert "on other devices, for other dtypes" in text
    assert "grid" not in text


def test_small_values_are_no_test_of_a_choice_among_values() -> None:
    found = package()
    assert "HAS_SMALL = True" in written_file("cases.py", found)
    steps = (structs.replace(found.region.steps[0], target="aten.argmax.default"), *found.region.steps[1:])
    region = structs.replace(found.region, steps=steps)
    assert "HAS_SMALL = False" in written_file("cases.py", structs.replace(found, region=region))


def test_the_users_lines_are_in_order() -> None:
    kernel = structs.replace(session().kernels[0], lines=("b.py:20", "b.py:9", "a.py:30", "b.py:9"))
    assert package_of(structs.replace(session(), kernels=(kernel,)), kernel).lines == ("b.py:9", "b.py:20", "a.py:30")


def test_the_users_lines_are_comments(tmp_path: Path) -> None:
    text = (written(tmp_path).folder / "op.py").read_text()
    assert "# model.py:8: return torch.exp(h * 0.5) * h" in text
    assert "exp = aten.exp.default(mul)" in text


def test_where_it_came_from(tmp_path: Path) -> None:
    origin = json.loads((written(tmp_path).folder / "ctrace.json").read_text())
    assert origin["op"] == "exp_mul_0"
    assert origin["kernel"] == "triton_poi_fused_exp_mul_0"
    assert origin["lines"] == ["/home/me/model.py:8"]
    assert origin["sizes"] == {"n": {"from": "mm.shape[0]", "captured": 32}}
    assert set(origin["files"]) == {each for each in origin["files"] if len(origin["files"][each]) == 64}


def test_a_size_of_zero_stays_zero() -> None:
    """Of transformers, `logits_to_keep=0`: with 2, the definition could not add its inputs."""
    sizes = (Size("n", "mm.shape[0]", 32), Size("m", "", 0))
    changed = structs.replace(package(), sizes=sizes)
    assert "and n > 0\n        and m == 0" in written_file("op.py", changed)
    assert set(re.findall(r"'m': (\d+)", written_file("cases.py", changed))) == {"0"}


def test_an_unchanged_package_is_written_again(tmp_path: Path) -> None:
    first = written(tmp_path)
    assert written(tmp_path) == first


def test_a_changed_file_is_not_overwritten(tmp_path: Path) -> None:
    file = written(tmp_path).folder / "kernel.py"
    file.write_text(file.read_text() + "# mine\n")
    with pytest.raises(DumpError, match="was changed since ctrace wrote it"):
        written(tmp_path)
    assert file.read_text().endswith("# mine\n")


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "exp_mul_0").mkdir()
    (tmp_path / "exp_mul_0" / "notes.txt").write_text("mine")
    with pytest.raises(DumpError, match="ctrace did not write"):
        written(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "ops").write_text("")
    with pytest.raises(DumpError, match="ops"):
        make_folder(tmp_path / "ops")


def test_a_cpp_kernel_is_a_custom_op(tmp_path: Path) -> None:
    found = session(language="cpp")
    done = write_package(found, package_of(found, found.kernels[0]), tmp_path)
    text = (done.folder / "op.py").read_text()
    assert '@custom_op("ejected::exp_mul_0", mutates_args=())' in text
    assert "triton" not in text
    assert "kernel(mm, mul_1)" in text
    assert (done.folder / "kernel.cpp").is_file()
    for file in done.folder.glob("*.py"):
        ast.parse(file.read_text())


def test_a_region_of_views_alone_returns_a_copy() -> None:
    """opcheck refused the operator: its definition returned the memory of its input."""
    found = package()
    assert ".clone()" not in written_file("op.py", found)
    steps = (structs.replace(found.region.steps[-1], target="aten.reshape.default", args="mm, [16384]"),)
    assert "as_strided_copy(mul_1.clone(), " in written_file(
        "op.py", structs.replace(found, region=structs.replace(found.region, steps=steps))
    )


@pytest.mark.parametrize(
    ("target", "dtype", "has"),
    [
        ("aten.amax.default", "float32", True),
        ("prims.prepare_softmax_online.default", "bfloat16", True),
        ("aten.amax.default", "float16", False),
        ("aten.max_pool2d_with_indices.default", "float32", False),
    ],
)
def test_the_maximum_of_a_row_needs_large_values(target: str, dtype: str, has: bool) -> None:
    found = package_of(session(), session().kernels[0])
    steps = (structs.replace(found.region.steps[0], target=target), *found.region.steps[1:])
    inputs = tuple(structs.replace(each, dtype=dtype) for each in found.region.inputs)
    region = structs.replace(found.region, steps=steps, inputs=inputs)
    assert f"HAS_MAXIMUM = {has}\n" in written_file("cases.py", structs.replace(found, region=region))
