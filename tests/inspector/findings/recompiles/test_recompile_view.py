"""Recompilations grouped by cause, and caches."""

from typing import Any

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.findings import CacheUse, Cause, CauseKind, Limit, Recompile
from ctrace.inspector.facts.session import Compilation, Coverage, Function, Session
from ctrace.inspector.findings.recompiles.recompile_view import Outlook, caches, groups
from tests.support.helpers import MODEL

SIZE = Cause(CauseKind.SIZE, "x.size(0)", "4", "8", fix="Mark it dynamic.")
STEP = Cause(CauseKind.ATTRIBUTE_VALUE, "self.step", "1", "2", 12, file=MODEL)
DTYPE = Cause(CauseKind.DTYPE, "x.dtype", "torch.float32", "torch.float64")


def again(number: int, *causes: Cause, frame: str = "0", expected: bool = False, **more: Any) -> Recompile:
    known = {"function": "forward", "file": MODEL, "line": 8, **more}
    return Recompile(f"{frame}/{number}", expected=expected, causes=causes, **known)


def compiled(id_: str, **more: Any) -> Compilation:
    return Compilation(**{"id": id_, "function": "forward", "file": MODEL, "line": 8, **more})


class TestGroups:
    def test_one_cause_is_one_group(self):
        second = replace(STEP, was="2", now="3")
        (group,) = groups(Session(recompiles=(again(1, STEP), again(2, second))))
        assert (group.kind, group.subject, group.function) == ("attribute_value", "self.step", "forward")
        assert (group.values, group.compilations) == (("1", "2", "3"), ("0/1", "0/2"))
        assert (group.file, group.line, group.is_fixed_here) == (MODEL, 12, True)
        assert group.prospect.outlook is Outlook.DIVERGES

    def test_a_cause_without_a_line_is_where_the_function_begins(self):
        (group,) = groups(Session(recompiles=(again(1, SIZE),)))
        assert (group.file, group.line, group.is_fixed_here, group.fix) == (MODEL, 8, False, "Mark it dynamic.")

    def test_a_line_that_only_a_later_one_knows(self):
        (group,) = groups(Session(recompiles=(again(1, SIZE), again(2, replace(SIZE, line=20, file="other.py")))))
        assert (group.file, group.line, group.is_fixed_here) == ("other.py", 20, True)

    def test_values_that_come_back_are_told_once(self):
        (group,) = groups(Session(recompiles=(again(1, SIZE), again(2, replace(SIZE, was="8", now="4")))))
        assert group.values == ("4", "8")

    def test_values_that_are_not_known(self):
        (group,) = groups(Session(recompiles=(again(1, Cause(CauseKind.IDENTITY, "fn")),)))
        assert group.values == ()

    def test_a_recompile_that_nobody_explains(self):
        (group,) = groups(Session(recompiles=(again(1),)))
        assert (group.kind, group.subject) == ("other", "torch logs no reason")

    def test_causes_of_one_recompile_name_each_other(self):
        found = groups(Session(recompiles=(again(1, STEP, DTYPE), again(2, STEP, SIZE))))
        assert [(group.subject, group.also) for group in found] == [
            ("self.step", ("x.dtype", "x.size(0)")),
            ("x.dtype", ("self.step",)),
            ("x.size(0)", ("self.step",)),
        ]

    @pytest.mark.parametrize(
        "other",
        [
            {"function": "helper"},
            {"file": "other.py"},
            {"frame": "1"},
            {"frame": "1", "line": 30},
        ],
        ids=["function", "file", "part-of-it", "of-the-same-name"],
    )
    def test_functions_are_kept_apart(self, other: dict[str, Any]):
        found = groups(Session(recompiles=(again(1, STEP), again(1, STEP, **other))))
        assert [group.prospect.outlook for group in found] == [Outlook.UNKNOWN] * 2

    def test_what_was_compiled_after_a_reset_belongs_together(self):
        (group,) = groups(Session(recompiles=(again(1, STEP), again(1, STEP, frame="2.0"))))
        assert group.compilations == ("0/1", "2.0/1")

    def test_what_goes_on_comes_first_and_what_is_expected_last(self):
        later = replace(DTYPE, subject="y.dtype")
        recompiles = (
            again(1, SIZE, expected=True, why_expected="It is."), again(2, DTYPE), again(3, later), again(4, STEP), again(5, STEP),
        )  # fmt: skip
        found = groups(Session(recompiles=recompiles))
        assert [group.subject for group in found] == ["self.step", "x.dtype", "y.dtype", "x.size(0)"]
        assert [group.expected for group in found] == [False, False, False, True]
        assert found[-1].why_expected == "It is."

    def test_a_cause_that_is_expected_only_at_times_is_not(self):
        (group,) = groups(Session(recompiles=(again(1, SIZE, expected=True, why_expected="It is."), again(2, SIZE))))
        assert not group.expected

    def test_seconds_are_those_of_its_recompiles(self):
        made = (compiled("0/0", seconds=5.0), compiled("0/1", seconds=0.5), compiled("0/2", seconds=0.25))
        (group,) = groups(Session(compilations=made, recompiles=(again(1, STEP), again(2, STEP))))
        assert group.seconds == 0.75
        (group,) = groups(Session(compilations=(compiled("0/1"),), recompiles=(again(1, STEP),)))
        assert group.seconds is None

    def test_none(self):
        assert groups(Session()) == ()


class TestCaches:
    def test_entries_of_a_function_that_was_compiled_again(self):
        made = (compiled("0/0"), compiled("1/0", function="helper"), compiled("0/1"), compiled("10/0"))
        use = CacheUse("forward", 2, 8, "0")
        limit = Limit(functions=(CacheUse("helper", 1, 8, "1"), use))
        (cache,) = caches(Session(compilations=made, recompiles=(again(1, STEP),), limit=limit))
        assert [each.of.id for each in cache.entries] == ["0/0", "0/1"]
        assert (cache.function, cache.line, cache.use, cache.refused, cache.left) == ("forward", 8, use, False, None)

    def test_none_is_there_without_a_recompile(self):
        assert caches(Session(compilations=(compiled("0/0"), compiled("1/0")))) == ()

    def test_a_refused_compilation_is_no_entry(self):
        refused = compiled("0/1", fail_type="Unsupported", fail_reason="Dynamo recompile limit exceeded")
        (cache,) = caches(Session(compilations=(compiled("0/0"), refused)))
        assert cache.refused
        assert [each.of.id for each in cache.entries] == ["0/0"]

    def test_another_failure_is_no_refusal(self):
        failed = compiled("0/1", fail_type="Unsupported", fail_reason="a break in a loop")
        assert caches(Session(compilations=(compiled("0/0"), failed))) == ()

    def test_a_part_of_a_function_is_where_it_goes_on(self):
        made = (compiled("0/0", resumes_at=12), compiled("0/1", resumes_at=12))
        (cache,) = caches(Session(compilations=made, recompiles=(again(1, STEP),)))
        assert cache.line == 12

    def test_modules_that_share_it_are_named_once(self):
        made = [compiled(f"0/{n}", of_object=name) for n, name in enumerate(("Block 0", "Block 1", "Block 0", None))]
        (cache,) = caches(Session(compilations=tuple(made), recompiles=(again(1, STEP),)))
        assert cache.objects == ("Block 0", "Block 1")

    def test_ops_that_were_left(self):
        functions = (
            Function("other", MODEL, 30, coverage=Coverage(50, 1)), Function("Net.forward", MODEL, 8, coverage=Coverage(9, 2)),
        )  # fmt: skip
        made = (compiled("0/0"), compiled("0/1"))
        (cache,) = caches(Session(compilations=made, recompiles=(again(1, STEP),), functions=functions))
        assert cache.left == 7
