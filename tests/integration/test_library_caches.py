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

DISTRIBUTIONS = """
import torch
from torch.distributions import Normal, kl_divergence


def model(mean):
    return kl_divergence(Normal(mean, mean.exp()), Normal(mean.sin(), mean.cosh())).sum()


inputs = (torch.rand(4),)
"""


@pytest.mark.long
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


def test_what_distributions_of_torch_look_up_first_breaks_as_in_a_new_process(ctrace: Command) -> None:
    """An eager call before would leave the function for the two kinds in `torch.distributions.kl._KL_MEMOIZE`."""
    ctrace.write("model.py", DISTRIBUTIONS)
    ctrace.write("plain.py", PLAIN)
    report = ctrace("explain", "model.py", "--fast", "--json").report
    graphs = int(ctrace.python("plain.py").stdout)
    assert (len(report["graphs"]), [each["line"] for each in report["breaks"]]) == (graphs, [7])
    assert graphs > 1
