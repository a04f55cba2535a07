"""The table of hooks names what the capture patches, and every row is one."""

import ast
from collections.abc import Iterator
from fnmatch import fnmatchcase

import pytest

from ctrace.inspector.knowledge.hooks import HOOKS, PatchedPlace, hook_at, missing_of
from tests.support.places import ROOT

CAPTURE = ROOT / "inspector" / "capture"
NOT_OF_TORCHS_COMPILER = {
    "calls": "what the user's program does, and trials",
    "comparing": "eager calls",
    "isolation": "second runs",
    "dynamo/eager_backend.py": "a backend of our own, without a hook on torch's stages",
    "kernels/interpreted.py": "Triton's interpreter, while it runs",
    "inductor/attention_misses.py": "patterns, while ctrace searches with them",
}
"""Files and folders below capture/ whose patches are no hooks on a stage."""


RECORDERS_OF_ALL = {each.recorder for each in HOOKS if each.place.endswith(".*")}
"""Modules with a row for all attributes of one owner."""


ALSO = {
    "bench": "CachingAutotuner.*",
    "precompile": "CachingAutotuner.*, where caches stay on",
    "force_non_lazy_backward_lowering": "only in a torch that has neither place for a backward graph",
}
"""Names that no row ends with."""


def patched_names() -> Iterator[tuple[str, str]]:
    """Yield the module and the attribute of every patch with a literal name."""
    for path in CAPTURE.rglob("*.py"):
        where = path.relative_to(CAPTURE).as_posix()
        if where in NOT_OF_TORCHS_COMPILER or where.partition("/")[0] in NOT_OF_TORCHS_COMPILER:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "patched":
                name = node.args[1]
                if isinstance(name, ast.Constant):
                    yield where.removesuffix(".py"), str(name.value)


@pytest.mark.parametrize(("module", "name"), sorted(set(patched_names())))
def test_a_patch_is_in_the_table(module: str, name: str):
    ends = {each.place.rpartition(".")[2] for each in HOOKS}
    assert (
        name in ends
        or any(fnmatchcase(name, end) for end in ends - {"*"})
        or module in RECORDERS_OF_ALL
        or name in ALSO
    )


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.place)
def test_a_row_names_its_recorder(hook: PatchedPlace):
    assert (CAPTURE / f"{hook.recorder}.py").is_file()
    assert hook_at(hook.place.replace("*", "x")) is hook


def test_a_place_that_moved_is_missing():
    places = {each.place.replace("*", "x") for each in HOOKS if "cleanup" not in each.place}
    assert [each.tells for each in missing_of(places, "2.13.0+cpu", build=False)] == [
        "which sizes are static or dynamic"
    ]


def test_a_place_of_another_release_is_not_missed():
    new = {each.place.replace("*", "x") for each in HOOKS if not each.until}
    assert missing_of(new, "2.13.0", build=False) == missing_of(new, "2.15.0", build=True) == []
    assert {each.since for each in missing_of(new, "2.11.0", build=False)} == {"2.11"}


@pytest.mark.integration
def test_a_capture_patches_every_place_and_no_other():
    from ctrace.inspector.capture.core.patch import patched_places
    from ctrace.inspector.capture.probe import _probe

    patched_places.clear()  # of other tests in this process
    (found,) = [each for each in _probe() if each["name"] == "places of torch that ctrace patches"]
    assert found["ok"], found
    assert [each for each in patched_places if each.startswith(("torch.", "triton.")) and hook_at(each) is None] == []
