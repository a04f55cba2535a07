"""Import a kernel package (`imported`), and find its operators and the inputs on which it is checked and timed: those
of its `cases.py`, which the user may extend (`cases`).
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import Struct

from ctrace.inspector.capture.core.exception_text import kind_and_message, message
from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.workshop.kernel_package import KernelPackage, check_parses

_AGAIN = "correct the package, or eject the kernel again into an empty folder"


class Operator(Struct, frozen=True):
    """An operator of a package, and the functions around it."""

    name: str
    """The qualified name, such as `ejected::softmax`."""
    definition: Any
    """The `CustomOpDef`."""
    module: ModuleType
    """The module with `run_kernel`, `definition` and `covers`."""
    kernel: Any
    """The kernel as `run_kernel` takes it: what `triton.autotune` or `triton.jit` made, or a tuple of these."""

    @property
    def kernels(self) -> tuple[Any, ...]:
        """The Triton kernels, in the order of their launches; empty for a kernel in C++."""
        if self.is_cpp or self.kernel is None:
            return ()
        if isinstance(self.kernel, tuple):
            return self.kernel
        return (self.kernel,)

    @property
    def is_cpp(self) -> bool:
        """Whether the kernel is C++ for the CPU."""
        return hasattr(self.module, "is_supported")

    def with_kernels(self, made: Callable[[Any], Any]) -> Any:
        """Return what `run_kernel` takes, with something else in the place of each kernel."""
        if isinstance(self.kernel, tuple):
            return tuple(map(made, self.kernel))
        return made(self.kernel)


class Imported(Struct, frozen=True):
    """An imported package."""

    package: KernelPackage
    module: ModuleType

    def part(self, name: str) -> ModuleType | None:
        """Return a module of the package."""
        return sys.modules.get(f"{self.module.__name__}.{name}")

    def operators(self) -> Iterator[Operator]:
        """Yield its operators."""
        from torch._library.custom_ops import CustomOpDef

        seen = set()
        for name, module in sorted(sys.modules.items()):
            if not name.startswith(f"{self.module.__name__}.") or module is None:
                continue
            for value in list(vars(module).values()):
                if isinstance(value, CustomOpDef) and id(value) not in seen:
                    seen.add(id(value))
                    yield Operator(value._qualname, value, module, _kernel_in(module))


def _kernel_in(module: ModuleType) -> Any:
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    if hasattr(module, "KERNEL"):
        return module.KERNEL
    # triton.autotune wraps the function: of the two, the outer one chooses the configuration.
    kernels = [each for each in vars(module).values() if isinstance(each, Autotuner | JITFunction)]
    return next((each for each in kernels if isinstance(each, Autotuner)), kernels[0] if kernels else None)


def imported(package: KernelPackage) -> Imported:
    """Import a package as the user's program would: by its name, from the folder above.

    Raises:
        TargetError: its code raises, or another module has its name.
    """
    # Before the import, whose error would lack the file and the line.
    check_parses(package)
    if package.name in sys.modules:
        raise _imported_already(package, Path(getattr(sys.modules[package.name], "__file__", None) or "?"))
    sys.path.insert(0, str(package.root))
    try:
        module = importlib.import_module(package.name)
    except Exception as error:
        what = f"{package.folder} cannot be imported: {kind_and_message(error)}"
        raise TargetError(what[:600], _AGAIN) from None
    # A module of that name may stand earlier on the path, or be a namespace without a file.
    found = Path(getattr(module, "__file__", "") or "").parent
    if found.resolve() != package.folder.resolve():
        what = f"import {package.name} finds {found}, not {package.folder}"
        raise TargetError(what, "rename the package's folder: its name must not be that of another module")
    return Imported(package, module)


def _imported_already(package: KernelPackage, file: Path) -> TargetError:
    if file.parent.resolve() == package.folder.resolve():
        what = f"the model's file imports {package.name}, so the unchanged model would have it, too"
        return TargetError(what, f"leave import {package.name} and its install() out of the file while apply compares")
    todo = "rename the package's folder: its name must not be that of another module"
    return TargetError(f"{package.name} is imported already, from {file}", todo)


def installed(found: Imported) -> Any:
    """Call the package's `install()`, and return the pass that it returns.

    Raises:
        TargetError: it has none, or it raises.
    """
    install = getattr(found.module, "install", None)
    if not callable(install):
        raise TargetError(f"{found.package.folder} has no install()", _AGAIN)
    try:
        return install()
    except Exception as error:
        what = f"install() of {found.package.folder} failed: {kind_and_message(error)}"
        raise TargetError(what[:600], _AGAIN) from None


def operators_of(packages: Iterable[Imported]) -> dict[str, Operator]:
    """Return the operators of all packages, by qualified name.

    Raises:
        TargetError: a kernel in C++ does not compile.
    """
    found = {each.name: (one.package, each) for one in packages for each in one.operators()}
    for package, operator in found.values():
        _check_compiles(package, operator)
    return {name: operator for name, (_, operator) in found.items()}


def _check_compiles(package: KernelPackage, operator: Operator) -> None:
    """Compile a kernel in C++ now: in the model's call, its error would look like one of the model."""
    loading = sys.modules.get(f"{operator.module.__name__.rpartition('.')[0]}.kernel")
    load = getattr(loading, "load", None)
    if not operator.is_cpp or load is None or not operator.module.is_supported():
        return
    try:
        load()
    except Exception as error:
        what = f"the kernel of {package.folder} cannot be loaded: {message(error)}"
        raise TargetError(what[:600], "correct kernel.cpp; ctrace kernels edit checks it on every save") from None


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
        # In full at once: the package's generator runs its code here, where its errors are reported as its own.
        listed = list(tests.cases(device))
    for kind, sizes, configuration, make in listed:
        with _reading(found, sizes):
            values = make()
            if values is None:
                continue
            expected = tests.wanted(values, sizes)
            if expected is None:
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
    if isinstance(value, list | tuple):
        return tuple(value)
    return (value,)
