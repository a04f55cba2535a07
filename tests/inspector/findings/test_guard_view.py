"""Grouping, filtering and naming guards."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.guard_facts import Guard
from ctrace.inspector.facts.session import Compilation, Session
from ctrace.inspector.findings.guard_view import (
    GuardBranch,
    GuardFilter,
    about,
    by_kind,
    by_line,
    by_object,
    constants,
    guarded,
    heads,
    place_text,
)
from tests.support.helpers import MODEL, PREFIXES, SITE, Log, fuzzing, recorded

HERE, THERE = Frame(MODEL, 9, "forward"), Frame(MODEL, 12, "forward")
LIBRARY = Frame(f"{SITE}/einops/einops.py", 3, "rearrange")


def guard(source: str = "L['x']", kind: str = "EQUALS_MATCH", code: str = "", place: Frame | None = None) -> Guard:
    return Guard(kind, code or f"{source} == 1", source, place)


def outline(branches: tuple[GuardBranch, ...]) -> dict[str, Any]:
    """Return names with number, times and children; a leaf has only its number."""
    return {
        f"{branch.name} x{branch.times}" if branch.times > 1 else branch.name: (
            (branch.number, outline(branch.branches)) if branch.branches else branch.number
        )
        for branch in branches
    }


def objects(*sources: str) -> dict[str, Any]:
    return outline(by_object(guard(source) for source in sources))


class TestByLine:
    def test_most_first(self):
        found = by_line([guard(place=HERE), guard(), guard(place=THERE), guard(place=THERE)])
        assert [(place, len(members)) for place, members in found] == [(THERE, 2), (HERE, 1), (None, 1)]

    def test_a_line_is_one_whoever_came_by(self):
        found = by_line([guard(place=HERE), guard(place=Frame(MODEL, 9, "<lambda>", "x[0]"))])
        assert [(place, len(members)) for place, members in found] == [(HERE, 2)]

    def test_lines_of_the_same_number_in_other_files(self):
        assert len(by_line([guard(place=HERE), guard(place=Frame("other.py", 9, "forward"))])) == 2

    def test_none(self):
        assert by_line([]) == ()


def test_kinds_most_first():
    found = [guard(kind="TYPE_MATCH"), guard(kind="ID_MATCH"), guard(kind="ID_MATCH")]
    assert by_kind(found) == (("ID_MATCH", 2), ("TYPE_MATCH", 1))


class TestByObject:
    def test_what_hangs_on_an_object(self):
        assert objects("L['self'].step", "L['self']._modules['fc']._parameters['weight']", "L['x']") == {
            "self": (2, {".step": 1, ".fc": (1, {".weight": 1})}),
            "x": 1,
        }

    def test_globals_and_torchs_own_state_stand_apart(self):
        assert objects("G['RATE']", "", "", "L['x']") == {"torch's own state": 2, "globals": (1, {"RATE": 1}), "x": 1}

    def test_modules_that_were_imported(self):
        assert objects("G['__import_torch_dot_nn_dot_modules_dot_linear'].F") == {
            "globals": (1, {"torch.nn.modules.linear": (1, {".F": 1})})
        }

    def test_layers_that_are_alike_are_one(self):
        layers = [f"L['self']._modules['layers']._modules['{n}']._parameters['{w}']" for n in range(12) for w in "ab"]
        assert objects(*layers) == {"self": (24, {".layers": (24, {"[0..11] x12": (2, {".a": 1, ".b": 1})})})}

    def test_a_layer_that_differs_stands_for_itself(self):
        layers = [f"L['self']._modules['layers']._modules['{n}'].training" for n in (0, 1, 2, 3)]
        found = objects(*layers, "L['self']._modules['layers']._modules['2'].rate")
        assert found == {
            "self": (
                5,
                {".layers": (5, {"[0,1,3] x3": (1, {".training": 1}), "[2]": (2, {".training": 1, ".rate": 1})})},
            )
        }

    def test_keys_that_are_alike_are_one(self):
        names = ["'a'", "'b'", "'c'", "'d'", "'e'"]
        assert objects(*(f"L['d'][{name}]" for name in names)) == {"d": (5, {"['a','b','c','d',…] x5": 1})}

    def test_attributes_that_are_alike_are_not(self):
        assert objects("L['self'].a", "L['self'].b") == {"self": (2, {".a": 1, ".b": 1})}

    def test_what_weighs_most_goes_first(self):
        found = objects("L['a']", *(f"L['xs'][{n}]" for n in range(3)), "L['b']", "L['b']")
        assert list(found) == ["xs", "b", "a"]

    @pytest.mark.parametrize("source", ["list(dict.keys(L['d']))[0]", "L['x'].size()[0]", "L['xs'][0](1)"])
    def test_what_is_no_plain_way_counts_for_its_root(self, source: str):
        ((name, number),) = objects(source).items()
        assert (name, number) == (source.partition("L['")[2].partition("'")[0], 1)

    @fuzzing
    @given(st.lists(st.text(max_size=5) | st.text(max_size=5).map(lambda text: f"L['x']{text}"), max_size=9))
    def test_every_guard_is_counted(self, sources: list[str]):
        def number(branches: tuple[GuardBranch, ...]) -> int:
            return sum(branch.number * branch.times for branch in branches)

        assert number(by_object(guard(source) for source in sources)) == len(sources)


class TestConstants:
    def only(self, *found: Guard) -> list[tuple[str, str]]:
        return [(each.subject, each.value) for each in constants(found, PREFIXES)]

    def test_values_that_code_reads(self):
        assert self.only(guard("L['self'].step", code="L['self'].step == 3", place=HERE)) == [("self.step", "3")]
        assert self.only(guard(code="L['mode'] == 'a == b'", place=HERE)) == [("mode", "'a == b'")]

    @pytest.mark.parametrize(
        "found",
        [
            guard(),
            guard(place=HERE, kind="TYPE_MATCH"),
            guard(place=HERE, code="L['x'] is None"),
            guard(place=HERE, code="list(dict.keys(L['d'])) == ['a']"),
        ],
        ids=["nobody", "type", "no-comparison", "keys"],
    )
    def test_what_is_none(self, found: Guard):
        assert self.only(found) == []

    def test_those_of_the_user_go_first(self):
        found = [
            guard("L['a']", place=LIBRARY),
            guard("L['b']", code="f(L['b']) == 1", place=HERE),
            guard("L['c']", place=HERE),
        ]
        assert self.only(*found) == [("c", "1"), ("f(b)", "1"), ("a", "1")]


class TestChoice:
    FOUND = guard("L['self']._modules['fc'].training", "EQUALS_MATCH", place=HERE)

    @pytest.mark.parametrize(
        ("choice", "takes"),
        [
            (GuardFilter(), True),
            (GuardFilter(name="self.fc"), True),
            (GuardFilter(name="_modules['fc']"), True),
            (GuardFilter(name="self.other"), False),
            (GuardFilter(kind="equals"), True),
            (GuardFilter(kind="TYPE"), False),
            (GuardFilter(line="9"), True),
            (GuardFilter(line="model.py:9"), True),
            (GuardFilter(line=f"{MODEL}:9"), True),
            (GuardFilter(line="other.py:9"), False),
            (GuardFilter(line="el.py:9"), False),
            (GuardFilter(line="90"), False),
            (GuardFilter(line="model.py"), False),
            (GuardFilter("self.fc", "equals", "9"), True),
            (GuardFilter("self.fc", "equals", "8"), False),
        ],
    )
    def test_which_it_takes(self, choice: GuardFilter, takes: bool):
        assert choice.takes(self.FOUND) is takes
        assert bool(choice) is (choice != GuardFilter())

    def test_a_guard_of_no_line_is_on_none(self):
        assert not GuardFilter(line="9").takes(guard())


def test_names_of_what_guards_are_about():
    assert about(guard("L['self']._modules['fc']")) == "self.fc"
    assert about(guard("")) == ""


def test_places():
    assert (place_text(HERE), place_text(None)) == ("model.py:9", "")


TREE = "+- RootGuardManager\n| +- EQUALS_MATCH: G['N'] == 3  # n  # ct/model.py:9 in forward\n"


class TestSession:
    def session(self, **stored: Any) -> Session:
        log = Log().started().compiled("0/0").compiled("1/0").guards("1/0", TREE + TREE.partition("\n")[2])
        return log.guards("0/0", f"{TREE}Guard latency = 2.5 us").session(**stored)

    def test_compilations_with_most_guards_first(self):
        found = [(head.compilation.id, head.number, head.latency) for head in heads(self.session())]
        assert found == [("1/0", 2, None), ("0/0", 1, 2.5)]

    def test_what_was_counted_is_there(self):
        session = self.session()
        assert [len(guarded(session, head).guards) for head in heads(session)] == [2, 1]

    def test_a_file_name_that_torch_cut_is_completed(self):
        head = Compilation("0/0", "forward", f"/home/project/{'ct/model.py'}", 8)
        session = Session(compilations=(head,), guards=self.session().guards)
        (found,) = guarded(session, heads(session)[0]).guards
        assert found.place is not None
        assert found.place.file == "/home/project/ct/model.py"

    def test_unless_two_files_end_so(self):
        files = [Compilation(f"0/{n}", "forward", f"/home/{n}/ct/model.py", 8) for n in (0, 1)]
        session = Session(compilations=tuple(files), guards=self.session().guards)
        (found,) = guarded(session, heads(session)[0]).guards
        assert found.place is not None
        assert found.place.file == "ct/model.py"

    @pytest.mark.parametrize("name", ["sizes", "sizes.torch", "attribute_counter"])
    def test_recorded_guards_know_their_lines(self, name: str):
        session = recorded(name)
        for head in heads(session):
            found = guarded(session, head)
            lines = {place.file for place, _ in by_line(found.guards) if place is not None}
            assert f"/home/user/project/{name.partition('.')[0]}.py" in lines
            assert sum(number for _, number in by_kind(found.guards)) == head.number
