"""What each source repair writes, and what it leaves alone; see tests/support/repaired.py for the cases."""

import pytest

from tests.support.repaired import FOLDER, REPAIRS, UPDATE, Case, all_cases, update

pytestmark = pytest.mark.thorough

CASES = all_cases()


@pytest.mark.parametrize(
    ("name", "case"), [pytest.param(name, case, id=f"{name}: {case.name}") for name, case in CASES]
)
def test_text_after_a_repair(name: str, case: Case):
    rewrite = case.rewrite(REPAIRS[name])
    if case.after is None:
        assert rewrite is None, rewrite
        return
    assert rewrite is not None
    assert rewrite.source == case.spelled(case.after)


@pytest.mark.skipif(not UPDATE, reason="only when golden files are written")
@pytest.mark.parametrize("name", sorted(REPAIRS))
def test_write_what_repairs_make(name: str):
    update(FOLDER / f"{name}.txt", REPAIRS[name])


@pytest.mark.parametrize("name", sorted(REPAIRS))
def test_every_repair_has_four_shapes_and_something_it_leaves_alone(name: str):
    mine = [case for repair, case in CASES if repair == name]
    assert sum(case.after is not None for case in mine) >= 4
    assert any(case.after is None for case in mine)


@pytest.mark.parametrize(
    ("name", "case"), [pytest.param(name, case, id=f"{name}: {case.name}") for name, case in CASES]
)
def test_comments_survive(name: str, case: Case):
    rewrite = case.rewrite(REPAIRS[name])
    for line in case.before.split("\n"):
        comment = line.partition("#")[2]
        assert rewrite is None or comment in rewrite.source


@pytest.mark.parametrize("name", sorted(REPAIRS))
@pytest.mark.parametrize("source", ["", "def f(:\n", "x = 1\n", "\0", "if x:\n    pass\n", "class A: pass\n"])
def test_a_text_that_is_not_meant_has_no_rewrite(name: str, source: str):
    place = CASES[0][1].place
    for line in (0, 1, 2, 99):
        changed = type(place)("/model.py", source, line, "")
        assert list(REPAIRS[name].find(changed)) == []
