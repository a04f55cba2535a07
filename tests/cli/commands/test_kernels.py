"""The command line of `ctrace kernels`; none of it needs torch."""

import json
from pathlib import Path

import pytest

from ctrace.cli.kernel_choice import KernelChoice
from ctrace.inspector.errors import TargetError
from tests.cli.test_main import _ctrace
from tests.support.places import DATA

LOG = str(DATA / "trained.log")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ((), "stage forward"),
        (("--stage", "backward"), "stage backward"),
        (("--graph", "0/0", "--all"), "bytes and FLOPs not known"),
        (("--line", "trained.py:17"), "trained.py:17"),
        (("--source",), "its code is not in the log"),
    ],
)
def test_a_view(words: tuple[str, ...], shown: str, tmp_path: Path) -> None:
    done = _ctrace("kernels", LOG, *words, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert shown in done.stdout


def test_json_into_a_file(tmp_path: Path) -> None:
    done = _ctrace("kernels", LOG, "--json", "-o", "k.json", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "Wrote k.json\n")
    assert json.loads((tmp_path / "k.json").read_text())["parts"]


@pytest.mark.parametrize(
    ("words", "what", "todo"),
    [
        (("--graph", "9/0"), "--graph 9/0: this run has no such kernels", "did you mean"),
        (("--stage", "joint"), "--stage joint: there is no such stage", "there are: forward, backward"),
        (("--kernel", "nonsense"), "--kernel nonsense: no kernel name contains that", "there are: "),
        (("--line", "trained.py"), "--line trained.py: there is no line number", "write FILE:LINE"),
        (("--line", "trianed.py:3"), "--line trianed.py:3: this run has no such file", "did you mean trained.py?"),
        (("--line", "trained.py:999"), "--line trained.py:999: no kernel contains it", "lines with kernels: "),
        (("--line", "999", "--source"), "--line 999: no kernel contains it", "lines with kernels: "),
    ],
)
def test_missing_things_are_refused(words: tuple[str, ...], what: str, todo: str, tmp_path: Path) -> None:
    done = _ctrace("kernels", LOG, *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.startswith(f"ctrace: {what}")
    assert second.strip().startswith(todo)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"kernel": "a", "line": "1"}, "--line and --kernel"),
        ({"kernel": "a", "wrapper": True}, "--wrapper and --kernel"),
        ({"source": True, "wrapper": True}, "--wrapper and --source"),
        ({"dump": "d", "ir": "ptx"}, "--dump and --ir"),
        ({"dump": "d", "graph": "0/0"}, "--dump and --graph"),
        ({"ir": "ptx", "stage": "forward"}, "--ir and --stage"),
    ],
)
def test_exclusive_options_are_refused(options: dict[str, object], what: str) -> None:
    with pytest.raises(TargetError, match=f"{what} exclude each other"):
        KernelChoice(**options)  # type: ignore[arg-type]


def test_an_old_run_without_code(tmp_path: Path) -> None:
    # The log of trained.py holds no code that any version reads.
    done = _ctrace("kernels", LOG, "--wrapper", "--stage", "backward", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("ctrace: --wrapper: this run has no code for backward")
