"""Causes at lines of a library: its code is not called the user's."""

import pytest

from tests.integration.conftest import Command

LIBRARY = """
import torch


class Named(torch.nn.Module):
    def forward(self, x):
        return x * len(f"{x.size(0)}")
"""
MODEL = """
import torch
from named import Named

model = Named()
inputs = (torch.rand(40, 2),)
scenarios = {"more": lambda: (torch.rand(50, 2),), "most": lambda: (torch.rand(60, 2),)}
"""


@pytest.mark.long
def test_a_librarys_line_that_needs_a_number_is_quoted(ctrace: Command) -> None:
    ctrace.write("lib/python3.11/site-packages/named.py", LIBRARY)
    ctrace.write("model.py", MODEL)
    site = str(ctrace.folder / "lib" / "python3.11" / "site-packages")
    report = ctrace("explain", "model.py", "--fast", "--json", PYTHONPATH=site).report
    causes = [cause for each in report["recompiles"] for cause in each["causes"]]
    reasons = [cause["reason"] for cause in causes if (cause["file"] or "").endswith("named.py")]
    assert reasons
    for each in reasons:
        assert "our code" not in each.replace("The library's code", "")
        assert 'len(f"{x.size(0)}")' in each
