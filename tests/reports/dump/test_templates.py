"""Foreign text cannot leave the string or comment that contains it, and is no template."""

import ast
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from ctrace.reports.dump.templates import block, comment, literal, quoted, rendered
from tests.support.places import ROOT

HOSTILE = st.text(
    st.sampled_from(["'", '"', "\\", "\n", "\r", "\x0c", "\0", "\x85", "\u2028", "\u202e", "#", "a", "("])
)


@given(HOSTILE)
def test_a_string_is_itself(text: str):
    for written in (literal(text), block(text)):
        assert ast.literal_eval(written) == text


@given(HOSTILE)
def test_a_comment_is_one_line(text: str):
    tree = ast.parse(f"{comment(text)}\nlast = 1\n")
    assert [type(each) for each in tree.body] == [ast.Assign]


@given(HOSTILE)
def test_text_in_a_docstring_stays_there(text: str):
    tree = ast.parse(f'"""{quoted(text)}: a place."""\nlast = 1\n')
    assert [type(each) for each in tree.body] == [ast.Expr, ast.Assign]


def test_text_in_a_field_is_no_template():
    text = "{{ 7 * 7 }}{% include 'tensors.jinja' %}{# gone #}"
    written = rendered("dump_graph_head", title=text)
    assert written.startswith(f"# {text}\n")


def test_a_field_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError, match="capability"):
        rendered("package_kernel_cpp", name="op")


def test_few_commands_pay_for_jinja():
    code = (
        "import sys, ctrace.reports.dump.dumping, ctrace.reports.dump.eject_writing; sys.exit('jinja2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
