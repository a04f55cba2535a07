"""The inputs on which a package is checked and timed: those that its own test makes, which the user may extend."""

import importlib
import importlib.util
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.capture.kernel_packages.importing import Imported, Operator
from ctrace.inspector.errors import SetupError, TargetError


class Case(Struct, frozen=True):
    """Inputs of one size class."""

    sizes: Any
    args: list[Any]
    """All arguments of the operator: tensors, then sizes."""
    expected: tuple[Any, ...]
    """What the definition returns in float64, where it does not cast."""

    @property
    def name(self) -> str:
        """Return the sizes for a table, or the shapes where they are fixed."""
        if self.sizes:
            return ", ".join(f"{name}={value}" for name, value in dict(self.sizes).items())
        return " ".join(str(list(each.shape)) for each in self.args if hasattr(each, "shape"))


def cases(found: Imported, operator: Operator, device: str) -> Iterator[Case]:
    """Yield the inputs of each size class on a device.

    Raises:
        SetupError: pytest is missing, which the package's test imports.
        TargetError: the test does not import, or has no inputs.
    """
    tests = _tests(found, operator)
    for sizes in tests.SIZES:
        try:
            values = tests.usable(sizes, device)
            passed = tests.passed(sizes)
            expected = tuple(tests.reference(values, sizes))
        except Exception as error:
            what = f"{found.package.folder}: the test's inputs for {sizes} fail: {kind_and_message(error)}"
            raise TargetError(what[:600], "correct the test or the definition in op.py") from None
        yield Case(sizes, [*values, *passed], expected)


def _tests(found: Imported, operator: Operator) -> ModuleType:
    name = f"test_{operator.name.rpartition('::')[2]}"
    if importlib.util.find_spec("pytest") is None:
        raise SetupError("the package's test, which makes the inputs, needs pytest", "pip install pytest")
    try:
        module = importlib.import_module(f"{found.module.__name__}.{name}")
    except Exception as error:
        what = f"{found.package.folder / name}.py cannot be imported: {kind_and_message(error)}"
        raise TargetError(what[:600], "correct it, or eject the kernel again into an empty folder") from None
    if not all(hasattr(module, each) for each in ("SIZES", "usable", "passed", "reference")):
        what = f"{found.package.folder / name}.py lacks SIZES, usable, passed or reference"
        raise TargetError(what, "restore them from a freshly ejected package")
    return module


def outputs(value: Any) -> tuple[Any, ...]:
    """Return the outputs of an operator as a tuple."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)
