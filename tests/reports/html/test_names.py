"""The time of a page does not grow faster than the names in a log."""

import re
import time
from pathlib import Path

import pytest

from ctrace.inspector.runs.load import load_log
from ctrace.reports.html.page import render_html
from tests.support.places import DATA

NAMES = {
    "print_break.torch.log": "print|accessed_by|__builtins_dict___1",
    "fused.log": "True|False|forward",
    "several_causes.log": "forward|self|x|__closure__|cell_contents",
}


def _seconds(log: Path) -> float:
    began = time.process_time()
    render_html(load_log(log))
    return time.process_time() - began


@pytest.mark.parametrize("name", NAMES)
def test_names_of_any_length_take_linear_time(name: str, tmp_path: Path):
    text = (DATA / name).read_text(encoding="utf-8")
    sizes = (1_000, 16_000)
    found = []
    for size in sizes:
        log = tmp_path / f"{size}.log"
        log.write_text(re.sub(rf"\b({NAMES[name]})\b", rf"\1{'f' * size}", text), encoding="utf-8")
        found.append(min(_seconds(log) for _ in range(2)))
    small, large = found
    assert large / small < 8 * sizes[1] / sizes[0]  # quadratic: 256 times
