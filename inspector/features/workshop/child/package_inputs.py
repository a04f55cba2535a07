"""The inputs on which a package is checked and timed: those of its `cases.py`, which the user may extend."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.core.exception_text import kind_and_message
from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.workshop.child.importing import Imported, Operator

_EJECT_AGAIN = "eject the kernel again into an empty folder, and copy your kernel file into it"


class Case(Struct, frozen=True):
    """Inputs of one size class."""

    kind: str
    """What is special about the inputs, such as `non-contiguous inputs`; of timed ones, empty."""
    sizes: Any
    configuration: int
    """Which of the kernel's configurations to run."""
    args: list[Any]
    """All arguments of the operator: tensors, then sizes."""
    expected: tuple[Any, ...]
    """What the definition returns in float64, where it does not cast."""
    plain: Callable[[], tuple[Any, ...]]
    """Computes the definition in the inputs' own dtypes."""

    @property
    def name(self) -> str:
        """Return the sizes for a table, or the shapes where they are fixed."""
        if self.sizes:
            return ", ".join(f"{name}={value}" for name, value in dict(self.sizes).items())
        return " ".join(str(list(each.shape)) for each in self.args if hasattr(each, "shape"))


def cases(found: Imported, operator: Operator, device: str) -> Iterator[Case]:
    """Yield one case of each size class on a device, to time and to compile.

    Raises:
        TargetError: cases.py is missing, does not import, or has no inputs.
    """
    tests = _tests(found)
    for sizes in tests.SIZES:
        with _reading(found, sizes):
            values = tests.usable(sizes, device)
            case = _case(operator, tests, "", sizes, 0, values, tuple(tests.reference(values, sizes)))
        yield case


def every_case(found: Imported, operator: Operator, device: str) -> Iterator[Case]:
    """Yield all that the package's own test compares: sizes, configurations, strides, dtypes, unusual values.

    Raises:
        TargetError: cases.py is missing, does not import, or has no inputs.
    """
    tests = _tests(found)
    with _reading(found, "all sizes"):
        listed = list(tests.cases(device))
    for kind, sizes, configuration, make in listed:
        with _reading(found, sizes):
            values = make()
            expected = None if values is None else tests.wanted(values, sizes)
            if values is None or expected is None:
                continue
            case = _case(operator, tests, str(kind), sizes, int(configuration), values, tuple(expected))
        yield case


def _case(
    operator: Operator,
    tests: ModuleType,
    kind: str,
    sizes: Any,
    configuration: int,
    values: list[Any],
    expected: tuple[Any, ...],
) -> Case:
    args = [*values, *tests.passed(sizes)]
    return Case(kind, sizes, configuration, args, expected, lambda: outputs(operator.module.definition(*args)))


@contextmanager
def _reading(found: Imported, sizes: Any) -> Iterator[None]:
    """Turn an error of the package's cases into one about the package.

    Raises:
        TargetError: the block raised.
    """
    try:
        yield
    except Exception as error:
        what = f"{found.package.folder}: the inputs for {sizes} fail: {kind_and_message(error)}"
        raise TargetError(what[:600], "correct cases.py or the definition in op.py") from None


def _tests(found: Imported) -> ModuleType:
    file = found.package.folder / "cases.py"
    try:
        module = importlib.import_module(f"{found.module.__name__}.cases")
    except Exception as error:
        what = f"{file} cannot be imported: {kind_and_message(error)}"
        raise TargetError(what[:600], _EJECT_AGAIN) from None
    needed = ("SIZES", "usable", "passed", "reference", "cases", "wanted")
    missing = [each for each in needed if not hasattr(module, each)]
    if missing:
        raise TargetError(f"{file} lacks {', '.join(missing)}", _EJECT_AGAIN)
    return module


def outputs(value: Any) -> tuple[Any, ...]:
    """Return the outputs of an operator as a tuple."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)
