"""Torch's reports of breaks become sites."""

from typing import Any

import pytest

from ctrace.inspector.facts.findings import Advice, Break, BreakKind, Owner
from tests.support.helpers import HOME, MODEL, PROJECT, SITE, Log

HELPER = (MODEL, 31, "helper", "print(x)")
LIBRARY = (f"{SITE}/einops/einops.py", 9, "rearrange", "cache()")
TORCH = (f"{SITE}/torch/nn/functional.py", 77, "embedding", "graph_break()")
SOURCE = """\
def forward(x):
    x = x + 1
    assert x.sum() > 0, f"{x}"
    print(x); y = [x.mean(),
        1]
    return y
"""


def only(log: Log) -> Break:
    (found,) = log.session().breaks
    return found


class TestSites:
    def test_a_site(self):
        (found,) = Log().started().compiled("0/0").breaks("0/0").session().breaks
        assert (found.gb, found.kind, found.owner) == (("GB0059",), BreakKind.BREAK, Owner.USER)
        assert (found.file, found.line, found.function, found.source) == (MODEL, 10, "forward", "print(x)")
        assert (found.times, found.compilations) == (1, ("0/0",))

    def test_reports_of_one_site_are_one_break(self):
        log = Log().breaks("0/0").breaks("0/1").breaks("0/1")
        (found,) = log.session().breaks
        assert (found.times, found.compilations) == (3, ("0/0", "0/1"))

    @pytest.mark.parametrize(
        "other",
        [
            {"gb": ("0124",)},
            {"frames": ((MODEL, 11, "forward", "print(x)"),)},
            {"frames": ((f"{PROJECT}/other.py", 10, "forward", "print(x)"),)},
            {"frames": ((MODEL, 10, "forward", "print(x)"), LIBRARY)},
        ],
        ids=["id", "line", "file", "owner"],
    )
    def test_what_tells_two_sites_apart(self, other: dict[str, Any]):
        assert len(Log().started().breaks("0/0").breaks("0/0", **other).session().breaks) == 2

    def test_what_does_not_tell_two_sites_apart(self):
        (found,) = Log().breaks("0/0").breaks("0/0", title="Other words", hints=()).session().breaks
        assert found.times == 2

    def test_a_break_is_at_the_innermost_line_of_the_user(self):
        frames = ((MODEL, 10, "forward", "rearrange(x)"), LIBRARY)
        (found,) = Log().started().breaks("0/0", frames=frames).session().breaks
        assert (found.line, found.function, found.owner) == (10, "forward", Owner.LIBRARY)

    def test_places_of_a_library_below_one_line_of_the_user_are_apart(self):
        user = (MODEL, 10, "forward", "odeint(f, y, t)")
        log = Log().started()
        for line in (9, 12):
            log.breaks("0/0", frames=(user, (LIBRARY[0], line, "step", "if t > x:")))
        found = log.session().breaks
        assert [(each.line, each.place.file, each.place.line, each.place.function) for each in found] == [
            (10, LIBRARY[0], 9, "step"),
            (10, LIBRARY[0], 12, "step"),
        ]

    def test_a_place_that_two_lines_of_the_user_lead_to_is_one_break(self):
        lines = [(MODEL, line, "forward", "rearrange(x)") for line in (10, 11)]
        log = Log().started().breaks("0/0", frames=(lines[0], LIBRARY)).breaks("1/0", frames=(lines[1], LIBRARY))
        found = only(log)
        assert [(each.at.line, each.compilations) for each in found.user_lines] == [(10, ("0/0",)), (11, ("1/0",))]
        assert (found.line, found.times) == (10, 2)

    def test_frames_of_torch_and_of_ctrace_are_no_place(self):
        polyfill = (f"{SITE}/torch/_dynamo/polyfills/__init__.py", 5, "instantiate", "cls()")
        found = only(Log().started().breaks("0/0", frames=((MODEL, 10, "forward", "Box(x)"), polyfill)))
        assert (found.place.file, found.place.line) == (MODEL, 10)
        ours = (f"{HOME}/models.py", 9, "call", "model(*args)")
        found = only(Log().started().breaks("0/0", frames=(ours, TORCH)))
        assert (found.place.file, found.place.line) == TORCH[:2]

    def test_the_reason_is_about_the_line_of_the_library(self):
        inside = (f"{SITE}/einops/einops.py", 9, "rearrange", "if x.sum() > 0:")
        frames = ((MODEL, 10, "forward", "rearrange(x)"), inside)
        (found,) = Log().started().breaks("0/0", gb=("0170",), frames=frames).session().breaks
        assert found.reason.startswith("Python branches on `x.sum() > 0` in einops.py:9,")
        assert found.expression == "rearrange(x)"

    def test_the_owner_is_that_of_the_innermost_frame(self):
        frames = ((MODEL, 10, "forward", "embedding(x)"), TORCH)
        (found,) = Log().started().breaks("0/0", frames=frames).session().breaks
        assert found.owner is Owner.TORCH

    def test_a_stack_without_the_user_keeps_its_innermost_line(self):
        (found,) = Log().started().breaks("0/0", frames=(TORCH, LIBRARY)).session().breaks
        assert (found.file, found.line) == LIBRARY[:2]

    def test_ways_to_a_site_start_at_the_users_first_frame(self):
        runner = ("/usr/lib/python3.11/runpy.py", 3, "run_path", "exec(code)")
        one = (runner, (MODEL, 50, "<module>", "model(x)"), HELPER)
        other = (runner, (MODEL, 51, "<module>", "model(y)"), HELPER)
        (found,) = Log().started().breaks("0/0", frames=one).breaks("1/0", frames=other).session().breaks
        assert [[frame.line for frame in path] for path in found.paths] == [[50, 31], [51, 31]]

    def test_frames_of_torch_on_the_way_are_left_out(self):
        frames = ((MODEL, 50, "<module>", "model(x)"), TORCH, HELPER)
        assert [
            [frame.line for frame in path] for path in only(Log().started().breaks("0/0", frames=frames)).paths
        ] == [[50, 31]]

    def test_the_frame_that_broke_stays_even_if_it_is_torchs(self):
        frames = ((MODEL, 50, "<module>", "model(x)"), TORCH)
        (path,) = only(Log().started().breaks("0/0", frames=frames)).paths
        assert [frame.file for frame in path] == [MODEL, TORCH[0]]

    def test_where_the_user_has_no_frame_a_way_starts_below_ctraces_own(self):
        ours = (f"{HOME}/models.py", 9, "call", "model(*args)")
        runner = ("/usr/lib/python3.11/runpy.py", 3, "run_path", "exec(code)")
        (path,) = only(Log().started().breaks("0/0", frames=(runner, ours, LIBRARY, TORCH, LIBRARY))).paths
        assert [frame.file for frame in path] == [LIBRARY[0], LIBRARY[0]]

    def test_one_way_that_is_gone_twice_is_told_once(self):
        assert len(only(Log().breaks("0/0").breaks("0/1")).paths) == 1

    def test_a_report_without_a_place_is_no_break(self):
        assert Log().artifact("dynamo_graph_break_reason", "words", at="0/0").session().breaks == ()


PLAIN = (MODEL, 3, "forward", "y = f(x)")


class TestWords:
    def test_torchs_own_words_stand_in_for_advice(self):
        found = only(
            Log().breaks("0/0", gb=("9999",), frames=[PLAIN], explanation="Too new.", hints=("Wait.", "Or not."))
        )
        assert (found.reason, found.fix, found.advice) == ("Too new.", "Wait.", Advice())

    def test_a_title_stands_in_for_an_explanation(self):
        text = "Graph break in user code at a.py:3\nGraph Break Reason: call to zip\n"
        found = only(Log().artifact("dynamo_graph_break_reason", text, at="0/0"))
        assert (found.reason, found.fix) == ("call to zip", "")

    def test_advice_goes_before_torchs_words(self):
        found = only(Log().breaks("0/0", gb=("0124",), frames=[PLAIN], hints=("Wait.",)))
        assert found.reason.startswith("`f(x)` turns a tensor into a Python number")
        assert "Wait" not in found.fix
        assert ".item()" in found.advice.before
        assert ".item()" not in found.advice.after
        assert found.advice.switch
        assert found.advice.risk

    def test_a_loggers_switch_names_the_method_that_was_called(self):
        called = "method: <Logger kit (WARNING)>.warning_once, args: [], kwargs: {}"
        found = only(Log().breaks("0/0", gb=("0291",), frames=[PLAIN], context=called))
        assert found.advice.switch.endswith("ignore_logging_functions.add(logging.Logger.warning_once)")

    def test_a_switch_that_does_nothing_for_the_call_is_left_out(self):
        found = only(Log().breaks("0/0", gb=("0291",), frames=[PLAIN]))
        assert (found.advice.switch, found.advice.risk) == ("", "")

    def test_nobody_is_to_remove_a_break_that_torch_asks_for(self):
        (found,) = Log().started().breaks("0/0", gb=("0025",), frames=(PLAIN, TORCH)).session().breaks
        assert "Remove" not in found.fix

    def test_the_first_id_that_is_known_has_the_say(self):
        assert "Python numbers" in only(Log().breaks("0/0", gb=("9999", "0109", "0124"), frames=[PLAIN])).reason

    def test_torchs_words_on_this_very_case_are_added_where_ours_are_general(self):
        found = only(Log().breaks("0/0", gb=("0147",), frames=[PLAIN], explanation="Object `Cache` is odd."))
        assert found.reason.endswith(" Torch says: Object `Cache` is odd.")

    def test_torchs_context_is_added_where_it_says_more(self):
        assert only(Log().breaks("0/0", gb=("0088",), frames=[PLAIN])).reason.endswith(
            " Torch says: builtin print [] False"
        )

    @pytest.mark.parametrize("gb", ["0098", "0099"])
    @pytest.mark.parametrize("reason", ["talks to the disk", "calls f(x)", "see (reason: f(x))"])
    def test_a_disabled_function_says_its_authors_reason(self, gb: str, reason: str):
        explanation = f"Skip calling `torch.compiler.disable()`d function (reason: {reason})"
        found = only(Log().breaks("0/0", gb=(gb,), explanation=explanation))
        assert found.kind is BreakKind.DISABLED
        assert found.reason.endswith(f"Its author says: {reason}.")

    @pytest.mark.parametrize("explanation", ["Skip calling it", "Skip calling it (reason: None)", ""])
    def test_a_disabled_function_without_a_reason(self, explanation: str):
        found = only(Log().breaks("0/0", gb=("0098",), explanation=explanation))
        assert "author says" not in found.reason


class TestExpressions:
    def at(self, line: int, source: str, carets: str = "", gb: str = "0170", text: str = SOURCE) -> Break:
        frame = (MODEL, line, "forward", source, *([carets] if carets else []))
        return only(Log().listing(text).breaks("0/0", gb=(gb,), frames=[frame]))

    def test_columns_name_the_expression(self):
        found = self.at(3, 'assert x.sum() > 0, f"{x}"', "       ^^^^^^^")
        assert (found.expression, found.span) == ("x.sum()", (7, 14))
        assert "`x.sum()`" in found.reason

    def test_without_columns_it_is_what_the_statement_decides_by(self):
        found = self.at(3, 'assert x.sum() > 0, f"{x}"')
        assert (found.expression, found.span) == ("x.sum() > 0", (7, 18))

    def test_the_construct_chooses_the_advice(self):
        assert "torch._assert_async" in self.at(3, 'assert x.sum() > 0, f"{x}"').fix
        assert "is_compiling" in self.at(4, "print(x); y = [x.mean(),", "^^^^^^^^").fix

    def test_an_expression_on_several_lines_has_no_columns_but_those_of_torch(self):
        found = self.at(4, "print(x); y = [x.mean(),", "              ^^^^^^^^^^")
        assert (found.expression, found.span) == ("[x.mean(), 1]", (14, 24))

    def test_without_the_file_the_line_says_what_it_can(self):
        found = only(Log().breaks("0/0", frames=[(MODEL, 3, "forward", "print(x); f(x)", "^^^^^^^^")]))
        assert (found.expression, found.span) == ("print(x)", (0, 8))
        assert found.reason.startswith("`print(x)` writes to the screen")

    def test_without_the_file_the_head_of_a_block_is_one(self):
        found = only(Log().breaks("0/0", gb=("0170",), frames=[(MODEL, 3, "forward", "if x.sum() > 0:")]))
        assert (found.expression, found.span) == ("x.sum() > 0", (3, 14))

    def test_a_part_of_a_statement_has_torchs_columns_alone(self):
        found = only(Log().breaks("0/0", frames=[(MODEL, 3, "forward", "print(x,", "^^^^^")]))
        assert (found.expression, found.span) == ("", (0, 5))

    def test_a_file_that_is_shorter_than_torch_says_is_no_error(self):
        found = self.at(99, "print(x)")
        assert (found.expression, found.span, found.line) == ("", None, 99)

    def test_nothing_is_left_to_fill_in(self):
        for found in (self.at(3, "assert", gb="0170"), self.at(3, "assert", gb="0170", text="")):
            assert "{it}" not in found.reason + found.fix


class TestSkippedFiles:
    CONTEXT = "module: tqdm, qualname: scale, skip reason: file is under skip directory ({})"

    def reason(self, file: str) -> str:
        return only(Log().started().breaks("0/0", gb=("0007",), context=self.CONTEXT.format(file))).reason

    def test_a_users_file_with_the_name_of_a_library(self):
        assert "has the name of a library that torch skips" in self.reason(f"{PROJECT}/tqdm.py")

    def test_the_library_itself(self):
        assert "has the name of a library" not in self.reason(f"{SITE}/tqdm/std.py")


def test_a_function_that_contextlib_calls_is_named_by_what_torch_says():
    context = "module: pkg.net, qualname: Net._inside, skip reason: file matches MOD_SKIPLIST (/pkg/_compile)"
    called = (
        f"{SITE}/pkg/contextlib.py",
        105,
        "__init__",
        "self.gen = func(*args, **kwds)",
        "           ^^^^^^^^^^^^^^^^^^^",
    )
    frames = ((MODEL, 10, "forward", "with self._inside():"), called)
    found = only(Log().started().breaks("0/0", gb=("0007",), frames=frames, context=context))
    assert found.reason.startswith("Dynamo cannot trace into `Net._inside` in contextlib.py:105:")


def test_a_function_of_torch_is_named_without_its_address():
    context = "TypeError <built-in method stack of type object at 0x7fcec12cea40>: expected Tensor, but got str"
    found = only(Log().breaks("0/0", gb=("0112",), frames=[PLAIN], context=context))
    assert found.reason.endswith("Torch says: TypeError torch.stack: expected Tensor, but got str")


NEEDS = """\
def forward(self, x, path):
    y = self.net(x)
    key = str(y.sum())
    mode = open(path)
    return key
"""


@pytest.mark.parametrize(
    ("line", "source", "fix"),
    [
        (
            3,
            "key = str(y.sum())",
            "Return `y`, and compute `str(y.sum())`, and what uses it, after the compiled call: "
            "it needs what the compiled code computes.",
        ),
        (4, "mode = open(path)", "Move `open(path)` before the compiled call, and pass in what it returns."),
    ],
)
def test_what_needs_a_computed_value_moves_behind_the_call(line: int, source: str, fix: str):
    carets = " " * source.index("= ") + "  " + "^" * (len(source) - source.index("= ") - 2)
    frame = (MODEL, line, "forward", source, carets)
    found = only(Log().started().listing(NEEDS).breaks("0/0", gb=("0059",), frames=[frame]))
    assert found.fix == fix
    assert bool(found.advice.before) == (line == 4)
