"""A reproducer as a program and as an issue, and what is claimed about it."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.facts.diagnosis import Finding
from ctrace.inspector.facts.session import Environment
from ctrace.inspector.features.fix.reduction.finding import Sought
from ctrace.inspector.features.fix.reduction.saved_reproducers import Reproducer, written
from ctrace.reports.json.printer import plain
from ctrace.reports.reproducer import claim, render_issue, render_program

ENVIRONMENT = Environment(torch="2.13.0", python="3.11.7", device="cpu")
SOUGHT = Sought("b-1", Finding.BREAK, "GB0170", ("GB0170",), title="A branch in `/home/me/project/model.py`")
TEXT, LINES = written("import torch\n\ndef f(x):\n    if x:\n        pass\n", (4,), SOUGHT, ENVIRONMENT)
MADE = Reproducer(
    sought=SOUGHT, text=TEXT, line=LINES[-1], form="fullgraph=True raises", start="f alone", environment=ENVIRONMENT,
    lines=6, lines_before=80, tries=21, seconds=8.4, verified=True, output="Traceback\n```\x1b[31m\n", is_complete=True,
)  # fmt: skip


def test_the_file_says_what_it_shows_where_and_with_what():
    assert str(render_program(MADE)) == (
        "# GB0170: A branch in `model.py`\n# torch 2.13.0, Python 3.11.7, cpu\n"
        "import torch\n\ndef f(x):\n    if x:  # <- graph break\n        pass\n"
    )
    assert LINES == (6,)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (MADE, "runs by itself, shows GB0170 at line 6; 6 lines; 21 tries, 8 s"),
        (replace(MADE, tries=1, line=None), "runs by itself, shows GB0170; 6 lines; 1 try, 8 s"),
        (replace(MADE, verified=False), "not verified: a fresh process did not show GB0170 at line 6; 6 lines; 21 tries, 8 s"),
        (replace(MADE, is_complete=False), "runs by itself, shows GB0170 at line 6; 6 lines; 21 tries, 8 s; --budget is spent, so not the least"),
    ],
)  # fmt: skip
def test_only_what_was_proved_is_claimed(made: Reproducer, text: str):
    assert claim(made) == text


def test_an_issue_has_the_program_its_output_and_versions():
    text = str(render_issue(MADE))
    assert "```python\n# GB0170" in text
    assert "`python repro.py` (fullgraph=True raises):" in text
    assert "\x1b" not in text
    assert text.count("```") == 4
    assert text.endswith("Versions: torch 2.13.0, Python 3.11.7, cpu.\n")


def test_a_long_output_is_cut_at_its_begin():
    text = str(render_issue(replace(MADE, output="\n".join(map(str, range(100))))))
    assert "... 60 lines left out\n60\n" in text


def test_json_names():
    data = plain(MADE, "")
    assert (data["line"], data["verified"], data["finding"]["ids"]) == (6, True, ["GB0170"])
