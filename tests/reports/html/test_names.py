"""The time of a page does not grow faster than the names in a log."""

import re
import time
from pathlib import Path

import pytest

from ctrace.inspector.findings.guard_tree import read_comment
from ctrace.inspector.runs.load import load_log
from ctrace.reports.html.html_page import render_html
from tests.support.places import DATA

NAMES = (
    ("print_break.torch.log", "print"),
    ("print_break.torch.log", "__builtins_dict___1"),
    ("print_break.torch.log", "print_break|_dynamo|builtins|0"),
    ("fused.log", "True|False"),
)


def _seconds(log: Path) -> float:
    began = time.process_time()
    render_html(load_log(log))
    return time.process_time() - began


@pytest.mark.parametrize(("name", "words"), NAMES)
def test_names_of_any_length_take_linear_time(name: str, words: str, tmp_path: Path):
    text = (DATA / name).read_text(encoding="utf-8")
    sizes = (1_000, 32_000)
    _seconds(DATA / name)  # imports
    found = []
    for size in sizes:
        log = tmp_path / f"{size}.log"
        log.write_text(re.sub(rf"\b({words})\b", rf"\1{'f' * size}", text), encoding="utf-8")
        found.append(_seconds(log))  # once, since ctrace remembers what it made of a name
    small, large = found
    assert large / small < sizes[1] / sizes[0]  # linear, beside what no name changes; quadratic: up to 1,024


def test_a_comment_without_a_place_takes_linear_time():
    found = []
    for size in (4_000, 40_000):
        began = time.process_time()
        assert read_comment("L['x']  # " + "f" * size) == (None, "")
        found.append(time.process_time() - began)
    assert found[1] < 50 * max(found[0], 0.001)
