"""Lines of source as names and statements that stay the same when code moves."""

import warnings

import pytest

from ctrace.inspector.source.statements import put_aside_names, put_aside_roots, qualified_name, start_of, statement

SOURCE = '''\
import torch

top = lambda x: x.item()

class Net(torch.nn.Module):
    size = compute(4)

    @checked
    @named(
        "it",
    )
    def forward(self, x):
        """Docstring."""
        def inner(y):
            return y.item()
        y = call(
            x,  # one
            x.mean().item(),
        )
        text = f"""{x.sum()}
            {x.max()} end"""
        rows = [
            row.item()
            for row in x
        ]
        try:
            risky(x)
        except ValueError:
            handled(x)
        else:
            fine(x)
        finally:
            last(x)
        match x:
            case 1:
                one(x)
            case _:
                other(x)
        with (
            first() as a,
            second() as b,
        ):
            within(x)
        if (
            x.sum() > 0
            and y
        ):
            then(x)
        elif x.min() < 0:
            less(x)
        else:
            otherwise(x)
        for row in x: print(row)
        while x.any():
            x = x - 1
        a = 1; print(x); b = x.item()
        return y

    async def later(self, x):
        async for row in x:
            print(row)
        async with x:
            pass
'''
LISTINGS = {"m.py": SOURCE}


def line_of(text: str, source: str = SOURCE) -> int:
    (line,) = (number for number, each in enumerate(source.split("\n"), 1) if text in each)
    return line


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("top =", "<lambda>"),
        ("size =", "Net"),
        ("@checked", "Net.forward"),
        ('"it",', "Net.forward"),
        ("return y.item()", "Net.forward.inner"),
        ("row.item()", "Net.forward"),
        ("handled(x)", "Net.forward"),
        ("other(x)", "Net.forward"),
        ("async for", "Net.later"),
    ],
)
def test_the_qualified_name_is_that_of_the_function_around(text: str, name: str) -> None:
    assert qualified_name(LISTINGS, "m.py", line_of(text), "<lambda>") == name


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x,  # one", "y = call(x, x.mean().item())"),
        ("x.mean().item()", "y = call(x, x.mean().item())"),
        ("row.item()", "rows = [row.item() for row in x]"),
        ("risky(x)", "risky(x)"),
        ("handled(x)", "handled(x)"),
        ("fine(x)", "fine(x)"),
        ("last(x)", "last(x)"),
        ("one(x)", "one(x)"),
        ("other(x)", "other(x)"),
        ("second() as b", "with first() as a, second() as b:"),
        ("within(x)", "within(x)"),
        ("and y", "if x.sum() > 0 and y:"),
        ("elif x.min()", "if x.min() < 0:"),
        ("otherwise(x)", "otherwise(x)"),
        ("while x.any()", "while x.any():"),
        ("async for", "async for row in x:"),
        ("async with", "async with x:"),
        ("match x:", "match x:"),
        ("try:", "try:"),
        ("@checked", "def forward"),
        ("def forward", "def forward"),
        ("class Net", "class Net"),
    ],
)
def test_a_statement_has_one_spelling(text: str, written: str) -> None:
    assert statement(LISTINGS, "m.py", line_of(text), "?") == written


def test_a_statement_in_an_f_string_of_several_lines_is_that_of_both() -> None:
    both = {statement(LISTINGS, "m.py", line_of(text), "?") for text in ("{x.sum()}", "{x.max()} end")}
    assert len(both) == 1
    assert both.pop().startswith("text = f")


@pytest.mark.parametrize(("column", "written"), [(0, "a = 1"), (7, "print(x)"), (17, "b = x.item()")])
def test_of_several_statements_of_a_line_columns_tell_which(column: int, written: str) -> None:
    assert statement(LISTINGS, "m.py", line_of("a = 1;"), "?", (column, column + 3)) == written


def test_without_columns_the_first_of_several_statements_counts() -> None:
    assert statement(LISTINGS, "m.py", line_of("a = 1;"), "?") == "a = 1"


@pytest.mark.parametrize(("column", "written"), [(11, "for row in x:"), (14, "print(row)")])
def test_columns_tell_the_head_of_a_block_from_its_body(column: int, written: str) -> None:
    assert statement(LISTINGS, "m.py", line_of("for row in x: "), "?", (column, column + 1)) == written


def test_columns_count_characters_where_the_parser_counts_bytes() -> None:
    source = "größe = 'äöü'; print(größe)\n"
    assert statement({"m.py": source}, "m.py", 1, "?", (15, 27)) == "print(größe)"


def test_columns_beyond_the_line_fall_back_to_the_line() -> None:
    assert statement(LISTINGS, "m.py", line_of("risky(x)"), "?", (500, 510)) == "risky(x)"


@pytest.mark.parametrize(
    "other",
    [
        SOURCE.replace("\n", "\r\n"),
        SOURCE.replace("    ", "\t"),
        "\ufeff" + SOURCE,
        "\n\n# comment\n" + SOURCE.replace("x.mean().item(),", "x.mean(  ).item(),  # why"),
    ],
)
def test_line_ends_tabs_marks_and_comments_change_nothing(other: str) -> None:
    line = next(number for number, each in enumerate(other.split("\n"), 1) if "x.mean(" in each)
    assert statement({"m.py": other}, "m.py", line, "?") == "y = call(x, x.mean().item())"
    assert qualified_name({"m.py": other}, "m.py", line, "?") == "Net.forward"


@pytest.mark.parametrize("source", ["", "def broken(:\n  x = 1", "\0", "x = " + "(" * 500 + ")" * 500])
def test_sources_that_are_unknown_or_broken_leave_the_words_of_torch(source: str) -> None:
    assert qualified_name({"m.py": source}, "m.py", 1, "forward") == "forward"
    assert statement({"m.py": source}, "m.py", 1, "y  =  x.item()  # why") == "y = x.item()"
    assert statement({"m.py": source}, "m.py", 1, "if x.sum() > 0:  # why") == "if x.sum() > 0:"
    assert statement({"m.py": source}, "m.py", 1, "elif   x:") == "elif x:"
    assert statement({}, "m.py", 1, "") == ""


def test_a_line_that_the_source_does_not_have_leaves_the_words_of_torch() -> None:
    assert statement(LISTINGS, "m.py", 5000, "print(x)", (0, 5)) == "print(x)"
    assert qualified_name(LISTINGS, "m.py", 0, "forward") == "forward"


def test_an_expression_that_nests_too_deeply_is_left_as_it_is() -> None:
    text = "y = " + " + ".join(f"x{number}" for number in range(3000))
    assert statement({"m.py": text}, "m.py", 1, text) == text
    assert put_aside_names(text) == text


def test_what_python_warns_of_does_not_hide_a_file() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert statement({"m.py": 'p = "\\d"; q = 0\nprint( 1 )'}, "m.py", 2, "?") == "print(1)"


def test_a_statement_starts_at_its_first_line() -> None:
    assert start_of(LISTINGS, "m.py", line_of("x.mean().item()")) == start_of(LISTINGS, "m.py", line_of("y = call("))
    assert start_of(LISTINGS, "other.py", 7) == (7, 0)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("y = x.item()", "value = tensor.item()"),
        ("y = x.item()", "return q.item()"),
        ("if total.sum() > limit:", "if t.sum() > l:"),
        ("for a, b in rows:", "for c, d in pairs:"),
        ("rows = [f(a) for a in x]", "q = [g(b) for b in y]"),
        ("y = apply(lambda x: x.item())", "y = apply(lambda z: z.item())"),
        ("def forward", "def renamed"),
        ("async with lock:", "async with other:"),
    ],
)
def test_names_that_are_put_aside_do_not_count(one: str, other: str) -> None:
    assert put_aside_names(one) == put_aside_names(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("print(x)", "len(x)"),
        ("y = x.item()", "y = x.tolist()"),
        ("y = self.a.item()", "y = self.b.item()"),
        ("f(a, b)", "f(a, a)"),
        ("f(key=a)", "f(other=a)"),
        ("if x.sum() > 0:", "while x.sum() > 0:"),
        ("def forward", "class forward"),
        ("x.size(0)", "x.size(1)"),
    ],
)
def test_attributes_builtins_and_structure_do_count(one: str, other: str) -> None:
    assert put_aside_names(one) != put_aside_names(other)


@pytest.mark.parametrize("text", ["", "elif x:", "a sentence of words", "x; y"])
def test_what_is_no_statement_stays_as_it_is(text: str) -> None:
    assert put_aside_names(text) == text
    assert put_aside_roots(text) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("self.calls", "given[0].calls"),
        ("self.calls", "named['model'].calls"),
        ("x", "given[1]"),
        ("len(self.steps)", "len(given[0].steps)"),
        ("'calls' in state.__dict__", "'calls' in given[2].__dict__"),
        ("x.size(0)", "renamed.size(0)"),
        ("self.cache.dtype, x.size(0)", "given[1].size(0), given[0].cache.dtype"),
    ],
)
def test_roots_that_are_put_aside_do_not_count(one: str, other: str) -> None:
    assert put_aside_roots(one) == put_aside_roots(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("self.calls", "self.steps"),
        ("self.layers[0].calls", "self.layers[1].calls"),
        ("self.calls", "len(self.calls)"),
        ("x.size(0)", "x.size(1)"),
        ("self.calls", "self.calls, self.calls"),
    ],
)
def test_what_is_below_a_root_does_count(one: str, other: str) -> None:
    assert put_aside_roots(one) != put_aside_roots(other)


def test_a_subject_that_nests_too_deeply_is_left_as_it_is() -> None:
    text = " + ".join(f"x{number}" for number in range(3000))
    assert put_aside_roots(text) == text
