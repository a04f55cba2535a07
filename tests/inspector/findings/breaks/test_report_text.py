"""Parsing torch's report of a break: gb ids, reason and stack."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.findings.breaks.break_fold import BreakOutcome, parse_break
from ctrace.inspector.source.stacks import resumed
from tests.support.helpers import MODEL, REST_IN_EAGER, SITE, SKIPPED, break_text, fuzzing

IN_A_LOOP = """\
Graph break in user code at /home/user/project/model.py:10
Graph Break Reason: Failed to handle graph break gracefully. Skipping the function and falling back to eager.

Call to `torch._dynamo.graph_break()`
  Explanation: User-inserted graph break. Message: None
  Hint: Remove the `torch._dynamo.graph_break()` call.

  Developer debug context: Called `torch._dynamo.graph_break()` with args `[]`, kwargs `{}`

 For more details about this graph break, please visit: https://example.org/gb/gb0025.html

*** While handling this graph break, another graph break occurred: ***

graph break in loop
  Explanation: torch.compile detected a graph break in a for/while loop.
  Hint: This graph break may have been caused by an earlier graph break.

  Developer debug context: frame skipped: repeated (/home/user/project/model.py line 6)

 For more details about this graph break, please visit: https://example.org/gb/gb7000.html

Stack variable source attribution:
  RangeIteratorVariable() originated from:
  File "/home/user/project/model.py", line 8
        for _ in range(3):

User code traceback:
  File "/home/user/project/model.py", line 10, in repeated
    torch._dynamo.graph_break()

Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/torch/_dynamo/symbolic_convert.py", line 1076, in wrapper
    return inner_fn(self, inst)
"""


@pytest.mark.parametrize(
    ("name", "function", "line"),
    [
        ("forward", "forward", None),
        ("torch_dynamo_resume_in_forward_at_12", "forward", 12),
        ("torch_dynamo_resume_in__step_at_home_at_7", "_step_at_home", 7),
        ("torch_dynamo_resume_in_<lambda>_at_3", "<lambda>", 3),
        ("torch_dynamo_resume_in_forward", "torch_dynamo_resume_in_forward", None),
        ("", "", None),
    ],
)
def test_resume_functions_are_named_by_the_function_they_resume(name: str, function: str, line: int | None):
    assert resumed(name) == (function, line)


def test_a_break_in_torchs_words():
    parsed = parse_break(break_text(hints=("Avoid `print`.", "Report it."), gb=("0059",)))
    assert parsed.gb == ("GB0059",)
    assert parsed.title == "Failed to trace builtin operator"
    assert parsed.explanation == "Dynamo does not know how to trace `print`"
    assert parsed.hints == ("Avoid `print`.", "Report it.")
    assert parsed.context == "builtin print [] False"
    assert parsed.frames == (Frame(MODEL, 10, "forward", "print(x)"),)
    assert not parsed.is_disabled


def test_frames_are_outermost_first_and_named_by_the_users_function():
    frames = ((MODEL, 20, "main", "f(x)"), (MODEL, 9, "torch_dynamo_resume_in_f_at_7", "print(x)"))
    assert parse_break(break_text(frames=frames)).frames == (
        Frame(MODEL, 20, "main", "f(x)"),
        Frame(MODEL, 9, "f", "print(x)"),
    )


def test_frames_of_dynamo_itself_are_left_out():
    assert all(frame.file == MODEL for frame in parse_break(break_text()).frames)


@pytest.mark.parametrize(
    ("source", "carets", "span"),
    [
        ("print(x)", "^^^^^^^^", (0, 8)),
        ("y = x.item()", "    ^^^^^^^^", (4, 12)),
        ("if total > 10:", "   ~~~~~~^~~~", (3, 13)),
        ("y = xs[0]", "    ~~^^^", (4, 9)),
        ("y = a @ b", "      ^", (6, 7)),
    ],
)
def test_markers_under_a_source_line_are_its_columns_and_no_source(source: str, carets: str, span: tuple[int, int]):
    (frame,) = parse_break(break_text(frames=[(MODEL, 10, "forward", source, carets)])).frames
    assert frame == Frame(MODEL, 10, "forward", source, span)


def test_each_frame_has_its_own_columns():
    frames = ((MODEL, 20, "main", "y = f(x)", "    ^^^^"), (MODEL, 9, "f", "print(x)"))
    assert [frame.span for frame in parse_break(break_text(frames=frames)).frames] == [(4, 8), None]


@pytest.mark.parametrize("line", ["  ^^^^", "    ^^ ^^", "    ~~x~~", "    "])
def test_other_lines_under_a_source_line_are_no_columns(line: str):
    text = break_text().replace("    print(x)\n", f"    print(x)\n{line}\n")
    assert parse_break(text).frames == (Frame(MODEL, 10, "forward", "print(x)"),)


def test_a_frame_without_a_source_line():
    text = break_text(frames=(("<stdin>", 1, "<module>", "x"),)).replace("\n    x\n", "\n")
    assert parse_break(text).frames == (Frame("<stdin>", 1, "<module>", ""),)


def test_without_a_traceback_the_head_says_where():
    text = break_text().partition("\nUser code traceback:")[0]
    assert parse_break(text).frames == (Frame(MODEL, 10, ""),)


def test_several_ids_each_once():
    assert parse_break(break_text(gb=("0124", "7", "0124"))).gb == ("GB0124", "GB7")


def test_a_break_without_an_id():
    assert parse_break(break_text(gb=())).gb == ()


def test_ids_in_the_users_code_are_none():
    frames = ((MODEL, 3, "forward", 'fetch("https://example.org/gb/gb9999.html")'),)
    assert parse_break(break_text(gb=("0025",), frames=frames)).gb == ("GB0025",)


def test_explanations_over_several_lines_are_one():
    assert parse_break(break_text(explanation="one\n    two   three")).explanation == "one two three"


@pytest.mark.parametrize("gb", [("0098",), ("0099",), ("0124", "0099")])
def test_a_disabled_function(gb: tuple[str, ...]):
    assert parse_break(break_text(gb=gb)).is_disabled


def test_a_function_is_cut_where_torch_says_nothing_else():
    assert parse_break(break_text()).outcome is BreakOutcome.CUT
    assert not parse_break(break_text()).in_loop


@pytest.mark.parametrize(
    ("lead", "outcome"), [(REST_IN_EAGER, BreakOutcome.REST_IN_EAGER), (SKIPPED, BreakOutcome.SKIPPED)]
)
def test_a_function_that_is_not_cut(lead: str, outcome: BreakOutcome):
    parsed = parse_break(break_text(lead=lead, frames=[(MODEL, 10, "forward", "print(x)")]))
    assert parsed.outcome is outcome
    assert (parsed.title, parsed.gb) == ("Failed to trace builtin operator", ("GB0059",))


def test_a_break_in_a_loop():
    parsed = parse_break(IN_A_LOOP)
    assert (parsed.outcome, parsed.in_loop) == (BreakOutcome.SKIPPED, True)


def test_a_loop_in_the_users_words_is_none():
    frames = ((MODEL, 3, "forward", "graph break in loop"),)
    assert not parse_break(break_text(title="graph break in loop", frames=frames)).in_loop
    assert not parse_break(break_text(consequence="no graph break in loops")).in_loop
    assert parse_break(break_text(consequence="graph break in loop")).in_loop


def test_a_break_that_could_not_be_handled_has_the_stack_of_the_first():
    parsed = parse_break(IN_A_LOOP)
    assert parsed.frames == (Frame(MODEL, 10, "repeated", "torch._dynamo.graph_break()"),)
    assert parsed.gb[0] == "GB0025"


def test_a_break_that_could_not_be_handled_is_the_first():
    parsed = parse_break(IN_A_LOOP)
    assert parsed.gb == ("GB0025",)
    assert parsed.title == "Call to `torch._dynamo.graph_break()`"
    assert parsed.explanation == "User-inserted graph break. Message: None"
    assert parsed.hints == ("Remove the `torch._dynamo.graph_break()` call.",)
    assert parsed.context == "Called `torch._dynamo.graph_break()` with args `[]`, kwargs `{}`"


def test_a_library_inside():
    frames = ((MODEL, 4, "forward", "rearrange(x)"), (f"{SITE}/einops/einops.py", 9, "rearrange", "cache()"))
    assert parse_break(break_text(frames=frames)).frames[-1].file == f"{SITE}/einops/einops.py"


@pytest.mark.parametrize("text", ["", "\n", "Graph Break Reason: ", "User code traceback:\n", "an older torch's words"])
def test_other_words_are_no_error(text: str):
    parsed = parse_break(text)
    assert (parsed.gb, parsed.frames) == ((), ())


def test_a_reason_without_parts_is_its_first_line():
    assert parse_break("Graph Break Reason: call to print\nmore").title == "call to print"


@fuzzing
@given(st.integers(0, len(IN_A_LOOP)), st.integers(0, len(IN_A_LOOP)), st.text(max_size=8))
def test_any_text_can_be_parsed(start: int, end: int, middle: str):
    for frame in parse_break(IN_A_LOOP[:start] + middle + IN_A_LOOP[end:]).frames:
        assert frame.line >= 0
