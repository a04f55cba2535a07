"""In a process, functions get the code of another file, and those that are called are recorded."""

import gc
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.upgrade.child.earlier_functions import put_back, record_calls
from ctrace.inspector.features.upgrade.reasons import called_functions
from ctrace.inspector.runs.capture_request import TorchSource

pytestmark = pytest.mark.thorough

LATER = """\
import functools

TABLE = []


def decorated(function):
    @functools.wraps(function)
    def wrapper(*words):
        return function(*words)
    TABLE.append(wrapper)
    return wrapper


@decorated
def plain(x):
    return x + 2


class Pass:
    def apply(self, x):
        return (self, x)[1] + 2


def maker(by):
    def made(x):
        return x + by + 2
    return made


def other(x, y):
    return x + y


made = maker(10)
"""
EARLIER = LATER.replace("+ 2", "+ 1").replace("def other(x, y):\n    return x + y", "def other(x):\n    return x")


@pytest.fixture(autouse=True)
def _frozen() -> Iterator[None]:
    """Freeze again what the tests collected, which `put_back` unfreezes: else each full collection searches it all."""
    was_frozen = gc.get_freeze_count() > 0
    yield
    if was_frozen:
        gc.freeze()


@pytest.fixture
def later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "later_torch_module.py").write_text(LATER)
    (tmp_path / "earlier.py").write_text(EARLIER)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("later_torch_module")
    del sys.modules["later_torch_module"]


def source(folder: Path, *names: str) -> TorchSource:
    return TorchSource("later_torch_module", str(folder / "earlier.py"), names)


def test_functions_get_the_earlier_code_and_stay_the_same_objects(later: ModuleType, tmp_path: Path):
    """So a table that holds them needs no change, nor do closures that were made before."""
    held = later.TABLE[0]
    assert (held(1), later.Pass().apply(1), later.made(1)) == (3, 3, 13)
    put_back(source(tmp_path, "plain", "Pass.apply", "maker"))
    assert (held(1), later.Pass().apply(1), later.made(1), later.maker(5)(1)) == (2, 2, 12, 7)


def test_functions_of_one_name_keep_their_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As the lambdas in `SourcelessBuilder.make_type_handlers` of 2.15: all got the code of the last one."""
    text = "def table():\n    return [lambda x: x + 2, lambda x: x * 10]\n\n\nmade = table()\n"
    (tmp_path / "torch_with_lambdas.py").write_text(text)
    (tmp_path / "earlier.py").write_text(text.replace("+ 2", "+ 1"))
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("torch_with_lambdas")
    put_back(TorchSource("torch_with_lambdas", str(tmp_path / "earlier.py"), ("table",)))
    assert [each(3) for each in module.made] == [5, 30]
    assert [each(3) for each in module.table()] == [4, 30]
    del sys.modules["torch_with_lambdas"]


def test_a_helper_that_is_gone_comes_with_the_code(later: ModuleType, tmp_path: Path):
    """As `decltype_promoted` of Inductor's C++, which `arith_promoted` has replaced in 2.14."""
    helper = "\n\ndef promoted(x):\n    return x - 1\n"
    text = EARLIER.replace("def plain(x):\n    return x + 1", "def plain(x):\n    return promoted(x)")
    (tmp_path / "earlier.py").write_text(text + helper)
    put_back(source(tmp_path, "plain"))
    assert later.TABLE[0](5) == 4


def test_a_proxy_whose_object_is_gone_is_passed_over(later: ModuleType, tmp_path: Path):
    gone = [weakref.proxy(later.Pass())]
    put_back(source(tmp_path, "plain"))
    assert later.plain(1) == 2
    assert len(gone) == 1


def test_functions_of_a_fork_are_found(later: ModuleType, tmp_path: Path):
    """Its parent has frozen what it imported."""
    gc.freeze()
    put_back(source(tmp_path, "plain"))
    assert later.plain(1) == 2


def test_earlier_code_gets_the_imports_that_the_later_module_no_longer_has(later: ModuleType, tmp_path: Path):
    """torch._dynamo.guards of 2.12 imports tensor_always_has_static_shape, which 2.13 has, but not there."""
    edited = EARLIER.replace("return x + 1", "return fsum([x, 1])")
    (tmp_path / "earlier.py").write_text(f"from math import fsum, gone_from_torch\nimport json as functools\n{edited}")
    put_back(source(tmp_path, "plain"))
    assert later.plain(1) == 2
    assert later.functools.__name__ == "functools"
    assert not hasattr(later, "gone_from_torch")


@pytest.mark.parametrize("name", ["other", "none"])
def test_another_signature_is_refused(later: ModuleType, tmp_path: Path, name: str):
    with pytest.raises(TargetError, match=f"later_torch_module.{name} cannot be put back"):
        put_back(source(tmp_path, name))
    assert later.other(1, 2) == 3


def test_functions_are_recorded_in_threads_and_forks_too(tmp_path: Path):
    """Kernels are generated in a fork, which ends without exit functions."""
    import torch
    from torch.utils import _pytree

    before = sys.getprofile()
    try:
        record_calls(tmp_path / "called")
        _pytree.tree_leaves([1])
        thread = threading.Thread(target=_pytree.tree_map, args=(abs, [1]))
        thread.start()
        thread.join()
        if not (pid := os.fork()):
            _pytree.treespec_dumps(_pytree.tree_structure([1]))
            os._exit(0)
        os.waitpid(pid, 0)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    found = called_functions(tmp_path / "called")
    assert {"tree_leaves", "tree_map", "treespec_dumps"} <= set(found["utils/_pytree.py"])
    assert all((Path(torch.__file__).parent / file).is_file() for file in found if ":" not in file)
