"""Which functions of torch differ between two releases, and which of them are tried first."""

from pathlib import Path

import pytest

from ctrace.inspector.features.upgrade.reasons import (
    TorchFunction,
    called_functions,
    differing_functions,
    likely_functions,
    mentioned_names,
)
from ctrace.inspector.features.upgrade.upgrade_model import UpgradeChange

FILE = "_inductor/fx_passes/joint_graph.py"
BEFORE = '''\
import operator


def same(x):
    """A docstring."""
    return x + 1


def changed(x: int):
    return operator.mul(x, 1)


def without_helper(x):
    return gone(x)


def with_helper(x):
    return helper(x)


def helper(x):
    return x


class Pass:
    def apply(self, x):
        def inner():
            return x
        return inner()


def not_called(x):
    return x
'''
AFTER = '''\
import operator


def same(x):
    """Another docstring, and a comment."""  # here
    return x + 1


def changed(x):
    return operator.add(x, 1)


def without_helper(x):
    return x


def with_helper(x):
    return other_helper(x)


def other_helper(x):
    return x + 1


class Pass:
    def apply(self, x):
        def inner():
            return x + 0
        return inner()


def not_called(x):
    return x + 1
'''
CALLED = {
    FILE: ["<module>", "same", "changed", "without_helper", "with_helper", "Pass.apply.<locals>.inner"],
    "_inductor/none.py": ["x"],
}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    found = tmp_path / "before" / "torch", tmp_path / "after" / "torch"
    for folder, text in zip(found, (BEFORE, AFTER), strict=True):
        (folder / FILE).parent.mkdir(parents=True)
        (folder / FILE).write_text(text)
    return found


def test_called_functions_that_differ_are_found_if_their_earlier_code_can_run(folders: tuple[Path, Path]):
    found = list(differing_functions(*folders, CALLED, ["_inductor/"]))
    places = [(each.name, each.before, each.after) for each in found]
    assert places == [("Pass.apply", 26, 26), ("changed", 9, 9), ("with_helper", 17, 17)]
    assert found[1].module == "torch._inductor.fx_passes.joint_graph"
    assert (set(found[1].words), "operator" in found[1].other_words) == ({"mul", "add"}, True)
    assert list(differing_functions(*folders, CALLED, ["_dynamo/"])) == []


def test_names_are_those_that_called_functions_and_imported_modules_read(tmp_path: Path):
    (tmp_path / "_inductor").mkdir()
    (tmp_path / "_inductor" / "config.py").write_text("declared: bool = True\nif at_import:\n    set_there = 1\n")
    (tmp_path / "_inductor" / "ir.py").write_text(
        "def called():\n    def inner():\n        return config.read\n    return inner\n\n\n"
        "class Node:\n    def method(self):\n        return patch({'by_name': 1})\n\n"
        "    def not_called(self):\n        return config.unread\n"
    )
    called = {
        "_inductor/config.py": ["<module>"],
        "_inductor/ir.py": ["called.<locals>.inner", "Node.method"],
        "gone.py": ["f"],
    }
    names = mentioned_names(tmp_path, called)
    assert names >= {"at_import", "config", "read", "by_name"}
    assert not names & {"declared", "set_there", "unread"}


def test_what_a_process_called_is_read(tmp_path: Path):
    record = tmp_path / "called"
    assert called_functions(record) == {}
    record.write_text("_dynamo/guards.py\tf\n_dynamo/guards.py\tA.g.<locals>.<lambda>\nversion.py\t<module>\n")
    assert called_functions(record) == {"_dynamo/guards.py": ["f", "A.g.<locals>.<lambda>"], "version.py": ["<module>"]}


def function(file: str, name: str, *words: str) -> TorchFunction:
    return TorchFunction(file, name, 1, 1, frozenset(words))


def test_functions_of_the_stage_with_rare_words_are_likely():
    mask = function("_inductor/codegen/cpp.py", "mask", "vec_mask_cast", "tmp7")
    other = function("_inductor/codegen/cpp.py", "other", "tmp7")
    elsewhere = function("_dynamo/guards.py", "guard", "vec_mask_cast")
    unrelated = function("_inductor/codegen/cpp.py", "unrelated", "nothing")
    detail = ("@@ -1 +1 @@", " auto tmp6 = unrelated;", "-auto tmp7 = cast(tmp4);", "+auto tmp7 = vec_mask_cast(tmp4);")
    change = UpgradeChange("kernel", "changed", "net.py:3 forward", "k", "k", detail)
    assert likely_functions([change], [unrelated, other, mask, elsewhere]) == [mask, other]
