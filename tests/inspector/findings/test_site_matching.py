"""Match sites of a run to those of the lock: built by hand, and for edits of a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ctrace.inspector.facts.findings import Break, Owner
from ctrace.inspector.facts.sites import Known, Site, SiteKey, SiteKind
from ctrace.inspector.findings.site_matching import matched
from tests.support.gated import ROOT, at_text, checked_of, kinds, lock_of, seen_of, session_of, site, state
from tests.support.helpers import fuzzing

BEFORE = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        y = torch.relu(x)
        print("mean", y.mean())
        z = y.sum().item()
        if x.sum() > 0:
            y = y + z
        return y
"""
WHERE = (("print(", "GB0059"), (".item()", "GB0124"), ("if x.sum()", "GB0170"))

HARMLESS = {
    "moved": "# A comment.\n\n\n" + BEFORE,
    "function": BEFORE.replace("forward", "run"),
    "class": BEFORE.replace("Net", "Model"),
    "reformatted": BEFORE.replace('print("mean", y.mean())', "print(\n            'mean',\n            y.mean(),\n        )"),
    "comments": BEFORE.replace("y.mean())", "y.mean())  # why"),
    "decorated": BEFORE.replace("    def", "    @torch.no_grad()\n    def"),
    "indented": BEFORE.replace("    ", "  "),
    "edited": BEFORE.replace('"mean", y.mean()', '"the mean of it", y.mean().abs()'),
}  # fmt: skip


def breaks_of(source: str, where: tuple[tuple[str, str], ...] = WHERE) -> list[Break]:
    return [at_text(source, text, gb=(gb,)) for text, gb in where]


def judged_now(now: str, where: tuple[tuple[str, str], ...] = WHERE, file: str = "model.py") -> list[str]:
    """Judge a source against the lock of BEFORE."""
    lock = lock_of(state(session_of(BEFORE, breaks_of(BEFORE))))
    session = session_of(now, breaks_of(now, where), file=f"{ROOT}/{file}")
    return kinds(checked_of(seen_of(state(session)), lock))


@pytest.mark.parametrize("now", HARMLESS.values(), ids=HARMLESS.keys())
def test_an_edit_that_hurts_nothing_is_not_said(now: str) -> None:
    assert judged_now(now) == []


def test_a_file_that_was_moved_is_not_said() -> None:
    assert judged_now(BEFORE, file="deep/other.py") == []


def test_names_that_changed_are_not_said() -> None:
    now = BEFORE.replace("y", "value").replace("z", "w").replace("forward", "run").replace("print(", "print (")
    assert judged_now(now, (("print (", "GB0059"), *WHERE[1:])) == []


def test_code_that_was_put_into_a_function_of_its_own_is_not_said() -> None:
    helper = '\ndef shown(t):\n    print("mean", t.mean())\n\ndef total(t):\n    return t.sum().item()\n'
    now = BEFORE.replace('print("mean", y.mean())', "shown(y)").replace("y.sum().item()", "total(y)") + helper
    assert judged_now(now) == []


@pytest.mark.parametrize(
    ("now", "where"),
    [
        (BEFORE.replace("return y", "print(y)\n        return y"), (*WHERE, ("print(y)", "GB0059"))),
        (BEFORE + "    def other(self, x):\n        print(x)\n", (*WHERE, ("print(x)", "GB0059"))),
        (BEFORE, (*WHERE, ("y = torch.relu", "GB0059"))),
        (BEFORE, (*WHERE, ("print(", "GB9999"))),
        (BEFORE, (*WHERE[:2], ("if x.sum()", "GB9999"))),
    ],
    ids=["same function", "other function", "other text", "other gb on the same line", "one for another"],
)
def test_a_break_more_is_said(now: str, where: tuple[tuple[str, str], ...]) -> None:
    lock = lock_of(state(session_of(BEFORE, breaks_of(BEFORE))))
    found = [at_text(now, 'print("mean"' if text == "print(" else text, gb=(gb,)) for text, gb in where]
    checked = checked_of(seen_of(state(session_of(now, found))), lock)
    assert kinds(checked) == ["new-site"]


def test_a_second_break_of_a_kind_on_a_line_is_said() -> None:
    now = BEFORE.replace("y.mean())", "y.mean()); print(1)")
    lock = lock_of(state(session_of(BEFORE, breaks_of(BEFORE))))
    twice = [replace(each, times=2) if each.gb == ("GB0059",) else each for each in breaks_of(BEFORE)]
    assert kinds(checked_of(seen_of(state(session_of(BEFORE, twice))), lock)) == ["more-times"]
    first, *rest = (at_text(now, text, gb=(gb,)) for text, gb in (('print("mean"', "GB0059"), *WHERE[1:]))
    apart = [replace(first, span=(0, 23)), replace(first, span=(25, 33)), *rest]
    assert kinds(checked_of(seen_of(state(session_of(now, apart))), lock)) == ["new-site"]


def test_a_break_that_is_gone_is_better() -> None:
    lock = lock_of(state(session_of(BEFORE, breaks_of(BEFORE))))
    checked = checked_of(seen_of(state(session_of(BEFORE, breaks_of(BEFORE, WHERE[1:])))), lock)
    assert kinds(checked) == []
    assert checked.better == (
        "-1 GB0059 model.py::Net.forward",
        "graphs: 3, no longer 4",
    )


def test_another_owner_or_kind_is_another_site() -> None:
    known = [Known(site().key)]
    for other in (site(owner=Owner.LIBRARY), site(kind=SiteKind.DISABLED), site(kind=SiteKind.SKIP)):
        assert matched([other], known).new == (other,)


def recompile(subject: str, place: str, kind: str = "attribute_value", owner: Owner = Owner.USER) -> SiteKey:
    return SiteKey(SiteKind.RECOMPILE, (kind,), owner, place, subject)


def test_a_wrapper_around_what_recompiles_is_not_said() -> None:
    known = [Known(recompile("self.calls", "model.py::Net.forward"))]
    wrapped = recompile("given[0].calls", "wrappers.py::passed.call")
    for now in (wrapped, replace(wrapped, owner=Owner.LIBRARY)):
        assert matched([Site(now)], known).new == ()


def test_another_cause_of_a_recompile_behind_a_wrapper_is_said() -> None:
    known = [Known(recompile("self.calls", "model.py::Net.forward"))]
    for now in (
        recompile("given[0].steps", "model.py::passed.call"),
        recompile("given[0].calls", "model.py::passed.call", "length"),
    ):
        assert matched([Site(now)], known).new == (Site(now),)


def test_what_is_the_same_comes_first() -> None:
    moved, same = site(place="a.py::f"), site()
    found = matched([moved, same], [Known(same.key)])
    assert [pair[0] for pair in found.pairs] == [same]
    assert found.new == (moved,)


keys = st.builds(
    SiteKey,
    st.sampled_from((SiteKind.BREAK, SiteKind.RECOMPILE)),
    st.sampled_from((("GB1",), ("GB2",))),
    st.just(Owner.USER),
    st.sampled_from(("a.py::f", "a.py::g", "b.py::f")),
    st.sampled_from(("print(x)", "print(y)", "f(x)", "y = f(x)")),
)
some_sites = st.lists(st.builds(Site, keys, st.integers(1, 4)), max_size=6, unique_by=lambda each: each.key)
some_known = st.lists(st.builds(Known, keys, st.integers(1, 4)), max_size=6, unique_by=lambda each: each.key)


@fuzzing
@given(some_sites, some_known)
def test_every_site_is_paired_once_or_left_over(sites: list[Site], known: list[Known]) -> None:
    found = matched(sites, known)
    assert sorted([site for site, _ in found.pairs] + [*found.new], key=lambda each: each.key) == sorted(
        sites, key=lambda each: each.key
    )
    left = [known for _, known in found.pairs] + [*found.gone]
    assert sorted(left, key=lambda each: each.key) == sorted(known, key=lambda each: each.key)
    assert not {site.key for site in found.new} & {known.key for known in found.gone}


@fuzzing
@given(some_sites, some_known, st.data())
def test_a_lock_that_knows_less_lets_no_more_pass(sites: list[Site], known: list[Known], data: st.DataObject) -> None:
    less = [each for each in known if data.draw(st.booleans())]
    assert {each.key for each in matched(sites, known).new} <= {each.key for each in matched(sites, less).new}
