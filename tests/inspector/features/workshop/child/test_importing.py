"""Packages are imported as the user's program imports them."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.workshop.child.importing import imported, operators_of
from ctrace.inspector.features.workshop.eject_kernel import package_of
from ctrace.inspector.features.workshop.kernel_package import KernelPackage, package_at
from ctrace.reports.dump.eject_writing import write_package
from tests.support.ejecting import session

torch = pytest.importorskip("torch")
pytest.importorskip("triton")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelPackage]:
    """Write a package with a kernel in C++ that is not C++."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    found = session(language="cpp")
    done = write_package(found, package_of(found, found.kernels[0]), tmp_path)
    (done.folder / "kernel.cpp").write_text("int broken(\n")
    yield package_at(done.folder)
    for name in [each for each in sys.modules if each.split(".")[0] == done.folder.name]:
        del sys.modules[name]


def test_a_kernel_in_cpp_that_does_not_compile_is_an_error_of_the_package(package: KernelPackage) -> None:
    """In the model's call, it would be a traceback, as of an error in the model."""
    found = imported(package)
    with pytest.raises(TargetError, match=r"cannot be loaded: kernel\.cpp does not compile: kernel\.cpp:1:\d+: error"):
        operators_of([found])


def test_two_packages_of_one_operator_are_refused(package: KernelPackage) -> None:
    """The second one took the place of the first one, without a word."""
    copy = package.folder.with_name("copied_package")
    shutil.copytree(package.folder, copy, ignore=shutil.ignore_patterns("__pycache__"))
    imported(package)
    with pytest.raises(TargetError, match=r"defines the operator ejected::\w+, too"):
        imported(package_at(copy))
    with pytest.raises(TargetError, match="the model's file imports"):
        imported(package)
