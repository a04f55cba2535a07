"""What a library remembers in its modules: the first compiled call finds it as in a process without ctrace."""

import pytest

from tests.integration.conftest import Command

CACHE = """
_kinds = {}


def kind_of(value):
    if type(value) not in _kinds:
        _kinds[type(value)] = type(value).__name__
    return _kinds[type(value)]
"""
OBJECT = """
class Settings:
    def __init__(self):
        self.kind = None


settings = Settings()


def kind_of(value):
    if settings.kind is None:
        settings.kind = type(value).__name__
    return settings.kind
"""
MODEL = """
import torch
from warmed import kind_of


def model(x):
    return x.sin() if kind_of(x) == "Tensor" else x.cos()


inputs = (torch.rand(4),)
"""
PLAIN = """
import torch
from model import inputs, model

graphs = []


def count(graph, _inputs):
    graphs.append(graph)
    return graph.forward


compiled = torch.compile(model, backend=count)
compiled(*inputs)
compiled(*inputs)
print(len(graphs))
"""


@pytest.mark.parametrize("library", [CACHE, OBJECT], ids=["cache", "object"])
def test_a_librarys_empty_cache_costs_a_recompilation(ctrace: Command, library: str) -> None:
    ctrace.write("lib/python3.11/site-packages/warmed.py", library)
    ctrace.write("model.py", MODEL)
    ctrace.write("plain.py", PLAIN)
    site = str(ctrace.folder / "lib" / "python3.11" / "site-packages")
    report = ctrace("explain", "model.py", "--fast", "--json", PYTHONPATH=site).report
    graphs = int(ctrace.python("plain.py", PYTHONPATH=site).stdout)
    assert (len(report["graphs"]), len(report["recompiles"])) == (graphs, graphs - 1) == (2, 1)
    (scenario,) = report["scenarios"]
    assert (scenario["calls"], scenario["compared"], scenario["not_compared"]) == (2, 1, None)
    assert (report["coverage"]["ops"], report["coverage"]["compiled"]) == (1, 1)
