"""Find kernel packages, write configurations into them, and watch them."""

import json
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.workshop.kernel_package import (
    bare_package,
    changed,
    code_diffs,
    next_change,
    package_at,
    packages_in,
    speed,
    stamp_of,
)
from ctrace.inspector.features.workshop.package_configurations import (
    best_of,
    chosen,
    faster_of,
    own_of,
    with_configurations,
    with_kernels,
    write_table,
)
from ctrace.inspector.features.workshop.package_model import (
    CheckedPackage,
    Element,
    KernelConfiguration,
    PackageTuning,
    SizeClass,
    Sizes,
    TriedConfiguration,
    TunedConfigurations,
)
from ctrace.reports.wording.kernel_packages import check_line

KERNEL = '''\
import triton

# the user's remark
CONFIGS = [
    triton.Config({'XBLOCK': 256}, num_warps=4, num_stages=1),
]
"""Triton times these."""


@triton.autotune(configs=CONFIGS, key=['n'])
@triton.jit
def kernel(x):
    pass
'''
SMALL, LARGE = KernelConfiguration({"XBLOCK": 128}, 2, 1), KernelConfiguration({"XBLOCK": 1024}, 8, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "ops" / "relu_0"
    found.mkdir(parents=True)
    (found / "ctrace.json").write_text(json.dumps({"op": "relu_0"}))
    (found / "__init__.py").write_text("")
    (found / "kernel.py").write_text(KERNEL)
    (found / "README.md").write_text("# relu_0\n\nMine.\n")
    return found


def kernel() -> TunedConfigurations:
    return TunedConfigurations(
        "kernel",
        (
            SizeClass(
                "as captured",
                "n=8",
                (TriedConfiguration(SMALL, seconds=2e-6, equal=True), TriedConfiguration(LARGE, seconds=3e-6)),
                SMALL,
            ),
            SizeClass(
                "size 2",
                "n=9000",
                (TriedConfiguration(SMALL, seconds=9e-6), TriedConfiguration(LARGE, seconds=4e-6)),
                LARGE,
            ),
            SizeClass(
                "size 3",
                "n=9",
                (TriedConfiguration(SMALL, seconds=2e-6), TriedConfiguration(LARGE, failed="out of resources")),
                SMALL,
            ),
        ),
        SMALL,
        (SMALL,),
    )


def test_packages_are_found_in_a_folder_and_as_one(folder: Path):
    assert [each.name for each in packages_in(str(folder))] == ["relu_0"]
    assert [each.name for each in packages_in(str(folder.parent))] == ["relu_0"]


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("ctrace.json", "{", "cannot be read"),
        ("kernel.py", "def f(:", "kernel.py, line 1"),
        ("kernel.py", "x = 1\n  y", "kernel.py, line 2"),
    ],
)
def test_a_package_that_cannot_be_read(folder: Path, name: str, text: str, what: str):
    (folder / name).write_text(text)
    with pytest.raises(TargetError, match=what):
        package_at(folder)


def test_no_package(tmp_path: Path, folder: Path):
    with pytest.raises(TargetError, match="no kernel package"):
        packages_in(str(tmp_path))
    with pytest.raises(TargetError, match="there is no folder") as error:
        packages_in(str(folder.parent / "relu_1"))
    assert "relu_0" in error.value.todo


def test_the_best_configuration_of_each_size_is_chosen_once():
    assert chosen(kernel()) == ((SMALL, ("n=8", "n=9")), (LARGE, ("n=9000",)))


def test_a_list_stays_if_nothing_is_faster():
    """A list of two was cut to the one that was faster by noise."""
    both = replace(kernel(), present=(SMALL, LARGE))
    assert chosen(both) == ()
    assert own_of(both, both.classes[1]) is best_of(both.classes[1])


def noisy(random: Random, seconds: float, share: float) -> list[float]:
    """Return the times of 15 rounds with noise."""
    return [seconds * (1 + abs(random.gauss(0, share))) for _ in range(15)]


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05])
def test_noise_is_not_faster(share: float):
    """Times of one and the same launch: the best of many was called faster, for one percent."""
    random = Random(0)
    for _ in range(300):
        others = {number: noisy(random, 1e-5, share) for number in range(4)}
        assert faster_of(noisy(random, 1e-5, share), others) is None


@pytest.mark.parametrize(("share", "gain"), [(0.001, 0.03), (0.01, 0.05), (0.05, 0.2)])
def test_a_difference_beyond_noise_is_faster(share: float, gain: float):
    random = Random(0)
    for _ in range(100):
        others = {number: noisy(random, 1e-5 * (1 - gain * number / 2), share) for number in (0, 1, 2)}
        assert faster_of(noisy(random, 1e-5, share), others) == 2


def test_only_the_list_of_configurations_changes():
    once = with_configurations(KERNEL, "kernel", chosen(kernel()), "a GPU", Path("kernel.py"))
    assert "# the user's remark\n# Tuned by ctrace on a GPU" in once
    assert "triton.Config({'XBLOCK': 1024}, num_warps=8, num_stages=1),  # n=9000" in once
    assert once.partition('"""Triton')[2] == KERNEL.partition('"""Triton')[2]
    assert with_configurations(once, "kernel", chosen(kernel()), "a GPU", Path("kernel.py")) == once


SEVERAL = """\
import triton

CONFIGS_1 = [triton.Config({'XBLOCK': 1}, num_warps=1, num_stages=1)]


@triton.autotune(configs=CONFIGS_1, key=['n'])
@triton.jit
def first(x):
    pass


CONFIGS = [triton.Config({'XBLOCK': 2}, num_warps=2, num_stages=1)]


@triton.autotune(CONFIGS, ['n'])
@triton.jit
def kernel(x):
    pass
"""


def test_each_kernel_has_a_list_of_its_own():
    best = ((LARGE, ("n=9000",)),)
    first = with_configurations(SEVERAL, "first", best, "a GPU", Path("kernel.py"))
    assert "CONFIGS_1 = [\n    triton.Config({'XBLOCK': 1024}, num_warps=8, num_stages=1),  # n=9000\n]" in first
    assert "CONFIGS = [triton.Config({'XBLOCK': 2}, num_warps=2, num_stages=1)]" in first
    second = with_configurations(SEVERAL, "kernel", best, "a GPU", Path("kernel.py"))
    assert "CONFIGS_1 = [triton.Config({'XBLOCK': 1}, num_warps=1, num_stages=1)]" in second
    assert "CONFIGS = [\n    triton.Config({'XBLOCK': 1024}" in second


def test_a_list_of_two_kernels_is_refused():
    with pytest.raises(TargetError, match="kernel and first have the same list CONFIGS_1"):
        with_configurations(SEVERAL.replace("(CONFIGS,", "(CONFIGS_1,"), "kernel", (), "a GPU", Path("kernel.py"))


def test_kernels_are_chosen_by_name(folder: Path):
    packages = packages_in(str(folder))
    assert with_kernels(packages, ()) == packages
    assert with_kernels(packages, ["kernel"]) == packages
    with pytest.raises(TargetError, match="is called kernal") as error:
        with_kernels(packages, ["kernal"])
    assert "kernel" in error.value.todo


def test_a_kernel_without_the_list_is_refused():
    with pytest.raises(TargetError, match="assigns CONFIGS 0 times"):
        with_configurations("x = 1\n", "kernel", (), "a GPU", Path("kernel.py"))


def test_the_table_is_written_once_and_keeps_the_users_text(folder: Path):
    tuned = PackageTuning("a GPU", is_timed=True, kernels=(kernel(),))
    package = package_at(folder)
    assert write_table(package, tuned) == ""
    text = (folder / "README.md").read_text()
    assert text.startswith("# relu_0\n\nMine.\n")
    assert "| n=9000 | `triton.Config({'XBLOCK': 1024}, num_warps=8, num_stages=1)` | 4.00 | 9.00 |" in text
    write_table(package, tuned)
    assert (folder / "README.md").read_text() == text


def test_a_readme_that_the_user_changed_stays(folder: Path):
    (folder / "ctrace.json").write_text(json.dumps({"files": {"README.md": "0" * 64}}))
    before = (folder / "README.md").read_text()
    why = write_table(package_at(folder), PackageTuning("a GPU", is_timed=True, kernels=()))
    assert "stays as it is" in why
    assert (folder / "README.md").read_text() == before


def test_a_save_is_noticed_once(folder: Path):
    package = bare_package(folder)
    before = stamp_of(package)

    def save() -> None:
        (folder / "kernel.py").write_text(KERNEL + "# more\n")

    after = next_change(package, before, save, seconds=0.01)
    assert changed(before, after) == ("kernel.py",)


def checked(seconds: float | None, code: str = "", **rest: object) -> CheckedPackage:
    size = Sizes("relu_0", "n=8", "gpu", equal=True, largest=1e-8, seconds=seconds, **rest)  # type: ignore[arg-type]
    return CheckedPackage("a GPU", (size,), {"ejected::relu_0": {"ptx": code}} if code else {})


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (None, 2e-6, "2 us"),
        (2e-6, 2e-6, "2 us: as fast as before"),
        (4e-6, 2e-6, "2 us: 2.00x faster"),
        (2e-6, 4e-6, "4 us: 2.00x slower"),
        (2e-6, None, "time not measured"),
    ],
)
def test_speed_against_the_version_before(before: float | None, after: float | None, text: str):
    assert speed(None if before is None else checked(before), checked(after)) == text


def test_a_time_that_was_not_measured_says_why():
    assert speed(None, replace(checked(None), untimed="there is no GPU here")) == (
        "time not measured: there is no GPU here"
    )


def test_one_line_for_a_correct_kernel():
    line = check_line(checked(4e-6), checked(2e-6))
    assert line == "correct within 1e-8 for 1 size, 1 set of inputs, 2 us: 2.00x faster"


def test_configurations_are_counted():
    """The definition of another dtype was compared with itself, so the kernel ran for two sets only."""
    other = Sizes("relu_0", "n=8", "fallback", equal=True, largest=0.0, note="other dtype", inputs="float64")
    ran = [replace(checked(None).checks[0], configuration=f"XBLOCK={size} 4w 1s") for size in (64, 128)]
    assert check_line(None, CheckedPackage("cpu", (*ran, other))) == (
        "correct within 1e-8 for 1 size, 2 configurations, 2 sets of inputs, time not measured"
    )


def test_a_kernel_that_was_ended_is_not_correct():
    unended = Sizes(
        "relu_0", "n=8", "unended", equal=False, largest=None, note="no result within 5 s", inputs="NaN in x"
    )
    found = CheckedPackage("cpu", (*checked(None).checks, unended))
    assert not found.is_right
    assert check_line(None, found) == "NOT CORRECT for n=8, NaN in x: no result within 5 s"


def test_a_wrong_kernel_is_named_with_its_inputs():
    wrong = Element("the output", (3, 5), "0.5", "nan", 2, 9)
    size = Sizes("relu_0", "n=8", "cpu", equal=False, largest=1.0, wrong=wrong, inputs="non-contiguous inputs",
                 configuration="XBLOCK=8 2w 1s")  # fmt: skip
    assert check_line(None, CheckedPackage("cpu", (size,))) == (
        "WRONG for n=8, non-contiguous inputs, XBLOCK=8 2w 1s: the output[3, 5] is nan, expected 0.5; 2 of 9 values differ"
    )


def test_a_kernel_that_was_not_run_is_not_called_correct():
    """The operator's definition was compared with itself."""
    not_run = Sizes("relu_0", "n=8", "fallback", equal=True, largest=0.0, note="no interpreter")
    none = CheckedPackage("cpu", (not_run,))
    assert not none.is_right
    assert check_line(None, none) == "NOT CHECKED, the kernel was not run: no interpreter"
    ran = Sizes("relu_0", "n=4", "interpreter", equal=True, largest=1e-8)
    some = CheckedPackage("cpu", (ran, not_run))
    assert some.is_right
    assert check_line(None, some) == (
        "correct within 1e-8 for 1 size, 1 set of inputs in Triton's interpreter, not run for 1 other (no interpreter), "
        "time not measured"
    )
    assert not CheckedPackage("cpu", ()).is_right


def test_places_in_compiled_code_are_no_difference():
    before, after = checked(1e-6, ".loc 1 2\nadd.f32 a;\n// one"), checked(1e-6, ".loc 1 3\nadd.f32 a;\n// two")
    assert code_diffs(before, after) == ["# ejected::relu_0: ptx is the same"]
    assert "-add.f32 a;" in code_diffs(before, checked(1e-6, "mul.f32 a;"))[0]
