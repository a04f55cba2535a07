"""Foreign text cannot leave the string or comment that contains it."""

import ast

from hypothesis import given
from hypothesis import strategies as st

from ctrace.reports.dump.module import block, comment, string

HOSTILE = st.text(
    st.sampled_from(["'", '"', "\\", "\n", "\r", "\x0c", "\0", "\x85", "\u2028", "\u202e", "#", "a", "("])
)


@given(HOSTILE)
def test_a_string_is_itself(text: str):
    for written in (string(text), block(text)):
        assert ast.literal_eval(written) == text


@given(HOSTILE)
def test_a_comment_is_one_line(text: str):
    tree = ast.parse(f"{comment(text)}\nlast = 1\n")
    assert [type(each) for each in tree.body] == [ast.Assign]
