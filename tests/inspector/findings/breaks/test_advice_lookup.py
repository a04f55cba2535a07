"""What is known about a kind of break without a run."""

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.findings.breaks import advice_lookup
from ctrace.inspector.findings.breaks.advice_lookup import Registered, cause_lesson, lesson
from ctrace.inspector.knowledge.advice import entries
from tests.support.sampling import sampled

TOLD = Registered("GB9999", "A new break", "Too new.", ("Wait.",))


@pytest.fixture(autouse=True)
def torch_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend to have a torch that knows two gb ids."""
    registry = {"GB9999": TOLD, "GB0170": Registered("GB0170", "Data-dependent branching", "No.", ())}
    monkeypatch.setattr(advice_lookup, "registered", registry.get)
    monkeypatch.setattr(advice_lookup, "registered_ids", lambda: tuple(registry))


@pytest.mark.parametrize("name", ["GB0170", "gb0170", "Gb170", "170", "0170", " gb0170 "])
def test_a_gb_id_however_it_is_written(name: str):
    found = lesson(name)
    assert found.name == "GB0170"
    assert found.entry is not None
    assert found.torch is not None
    assert (found.entry.title, found.torch.title) == ("a branch on a tensor's value", "Data-dependent branching")


@pytest.mark.parametrize(
    ("name", "key"), [("loop", "loop"), ("PRINT", "print"), ("dispatch mode", "dispatch_mode"), (" try ", "try")]
)
def test_a_situation_by_its_name(name: str, key: str):
    found = lesson(name)
    assert (found.name, found.torch, found.cases) == (key, None, {})
    assert found.entry is not None


def test_special_cases_of_an_id():
    cases = lesson("GB0170").cases
    assert {"assert", "check", "while", "ternary"} <= set(cases)
    assert "assert" in cases["assert"].title
    assert lesson("GB0059").cases == {}


def test_an_id_that_ctrace_has_no_words_for():
    found = lesson("9999")
    assert (found.name, found.entry, found.cases, found.torch) == ("GB9999", None, {}, TOLD)


def test_an_id_that_torch_has_no_words_for():
    assert lesson("GB0124").torch is None


@pytest.mark.parametrize(("gb", "absence"), [("GB9193", "torch 2.15 and newer have it"), ("GB0060", "")])
def test_an_id_of_another_torch(gb: str, absence: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(advice_lookup, "torch_version", lambda: "2.13.0+cpu")
    found = lesson(gb)
    assert (found.torch, found.version, found.absence) == (None, "2.13", absence)


def test_why_there_is_no_advice():
    found = lesson("GB0027")
    assert found.entry is None
    assert found.unadvised is not None
    assert found.unadvised.kind == "internal"
    assert lesson("GB0170").unadvised is None
    assert lesson("GB9999").unadvised is None


@pytest.mark.parametrize("name", sampled(key for key in (*entries("breaks"), *entries("skips")) if "/" not in key))
def test_nothing_is_left_to_fill_in(name: str):
    found = lesson(name)
    for entry in (found.entry, *found.cases.values()):
        assert entry is not None
        assert "{it}" not in entry.why + entry.fix


@pytest.mark.parametrize(("name", "near"), [("lop", "loop"), ("GB9998", "GB9999"), ("genrator", "generator")])
def test_a_name_that_is_nearly_right(name: str, near: str):
    with pytest.raises(TargetError) as caught:
        lesson(name)
    assert caught.value.todo == f"did you mean {near}?"


@pytest.mark.parametrize("name", ["nonsense", "", "12345", "GB", "😀"])
def test_a_name_of_nothing(name: str):
    with pytest.raises(TargetError) as caught:
        lesson(name)
    assert caught.value.what == f"{name}: no such kind of graph break"
    assert "GB0170" in caught.value.todo
    assert "loop" in caught.value.todo


class TestCauses:
    @pytest.mark.parametrize(
        ("name", "key"),
        [
            ("size", "size"),
            (" Grad Mode ", "grad_mode"),
            ("zero-one", "zero_one"),
            ("size/parameter", "size/parameter"),
            ("attribute value/object int", "attribute_value/object_int"),
        ],
    )
    def test_a_kind_however_it_is_written(self, name: str, key: str):
        found = cause_lesson(name)
        assert (found.name, found.entry.title) == (key, entries("causes")[key].title)

    def test_a_kind_comes_with_its_cases(self):
        assert list(cause_lesson("zero_one").cases) == ["zero_one/first"]
        assert cause_lesson("zero_one/first").cases == {}
        assert cause_lesson("dtype").cases == {}

    @pytest.mark.parametrize("key", entries("causes"))
    def test_nothing_is_left_to_fill_in(self, key: str):
        found = cause_lesson(key)
        for entry in (found.entry, *(case.entry for case in found.cases.values())):
            assert "{it}" not in entry.why + entry.fix

    @pytest.mark.parametrize(
        ("name", "near"),
        [
            ("sise", "size"),
            ("trainingmode", "training_mode"),
            ("num_threads", "global_state/num_threads"),
            ("fixed", "size/fixed or attribute_value/fixed or argument_value/fixed"),
        ],
    )
    def test_a_name_that_is_nearly_right(self, name: str, near: str):
        with pytest.raises(TargetError) as caught:
            cause_lesson(name)
        assert caught.value.todo == f"did you mean {near}?"

    @pytest.mark.parametrize("name", ["what", "", "/", "GB0170", "😀"])
    def test_a_name_of_nothing(self, name: str):
        with pytest.raises(TargetError) as caught:
            cause_lesson(name)
        assert caught.value.what == f"{name}: no such cause of a recompilation"
        assert caught.value.todo.startswith("name one of: aliasing, argument_value, ")
