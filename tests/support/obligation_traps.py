"""Traps for each obligation of a repair: ten changes of a program that only this obligation tells apart.

Each breaks the graph at a branch or a number, and a hasty change removes the break. The change is right in everything
but one: `trap_oracle.py`, which knows no obligation, sees a difference, and a proof must name the obligation alone.
"""

from collections.abc import Iterator
from typing import NamedTuple

_HEAD = """\
import copy
import logging
import random
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("net")


class Config:
    pass


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("scale", torch.tensor(2.0))
        self.config = Config()
        self.warm = False
        self.strict = False
{init}

    def forward(self, x):
        h = self.linear(x)
{body}
        return y + 1


torch.manual_seed(0)
model = Net()


def inputs():
    return (torch.randn(4, 8, generator=torch.Generator().manual_seed(3)),)
"""
_BRANCH = "if h.sum() > 0:\n    y = h * 2\nelse:\n    y = h * 3"
_WHERE = "y = torch.where(h.sum() > 0, h * 2, h * 3)"


class ObligationTrap(NamedTuple):
    """A program, a hasty change of it, and the obligation that alone refuses the change."""

    obligation: str
    name: str
    before: str
    after: str

    @property
    def id(self) -> str:
        return f"{self.obligation}: {self.name}"


def _program(body: str, init: str) -> str:
    def indented(text: str) -> str:
        return "\n".join(f"        {line}" for line in text.strip("\n").split("\n"))

    return _HEAD.format(body=indented(body), init=indented(init) if init else "")


def _trap(obligation: str, name: str, before: str, after: str, init: str = "") -> ObligationTrap:
    return ObligationTrap(obligation, name, _program(before, init), _program(after, init))


def obligation_traps() -> list[ObligationTrap]:
    """Return all traps."""
    makers = (
        _values, _dtypes, _overflows, _gradients, _identities, _states, _state_dicts, _exceptions, _effects, _random, _costs, _compiled,
    )  # fmt: skip
    return [trap for maker in makers for trap in maker()]


def _values() -> Iterator[ObligationTrap]:
    """Yield changes that forget what only some sizes and values need."""
    tests = (
        "x.shape[0] > 64", "x.shape[0] == 65", "x.shape[0] >= 32", "x.shape[0] == 17", "x.shape[0] > 100",
        "bool((x.to_dense() == 7).all())", "bool((x.to_dense() == 5.0).all())", "bool((x.to_dense() == 0.75).all())",
        "bool((x.to_dense() == -3).all())",
        "x.shape[0] % 11 == 10",
    )  # fmt: skip
    for test in tests:
        yield _trap("value", test, f"{_BRANCH}\nif {test}:\n    y = y + 0.5", _WHERE)


def _dtypes() -> Iterator[ObligationTrap]:
    """Yield changes that round to float32, which float64 shows."""
    terms = (
        "x.abs().mean()", "x.var(1, correction=0).sum()", "x.norm()", "x.exp().mean()", "x.sum() * 0.1", "x.square().mean()", "x.cos().sum()",
        "x.abs().sum() / 3", "(x * 0.3).sum()", "x.softmax(1).square().sum()",
    )  # fmt: skip
    for term in terms:
        yield _trap(
            "dtype",
            term,
            f"t = ({term}).detach()\n{_BRANCH}\ny = y + t",
            f"t = ({term}).detach()\n{_WHERE}\ny = y + t.float().to(t.dtype)",
        )


def _overflows() -> Iterator[ObligationTrap]:
    """Yield changes that multiply by a mask: zero times infinity is NaN."""
    sides = (
        ("h * 2", "h * 3"), ("h * 2", "h.relu()"), ("h.abs()", "h * 3"), ("h * 2", "-h"), ("h * 0.5", "h.abs()"),
        ("h + 1", "h * 3"), ("h * 2", "h - 1"), ("h.relu()", "h * 4"), ("-h", "h * 0.25"), ("h.clamp(min=-1)", "h * 3"),
    )  # fmt: skip
    for first, second in sides:
        yield _trap(
            "overflow",
            f"{first} or {second}",
            f"if h.sum() > 0:\n    y = {first}\nelse:\n    y = {second}",
            f"m = (h.sum() > 0).to(h.dtype)\ny = m * ({first}) + (1 - m) * ({second})",
        )


def _gradients() -> Iterator[ObligationTrap]:
    """Yield changes that keep a number in a tensor which may be trained one day."""
    frozen = "self.rate = nn.Parameter(torch.tensor(1.5), requires_grad=False)"
    several = "self.rate = nn.Parameter(torch.tensor([1.5, 0.5]), requires_grad=False)"
    plain = "self.rate = torch.tensor(1.5)"
    held = "self.config.rate = torch.tensor(1.5)"
    forms = (
        ("a factor", frozen, "self.rate", "y = h * n"),
        ("a summand", frozen, "self.rate", "y = h + n"),
        ("a divisor", frozen, "self.rate", "y = h / n"),
        ("one of two", several, "self.rate[0]", "y = h * n"),
        ("a sum", several, "self.rate.sum()", "y = h * n"),
        ("the largest", several, "self.rate.max()", "y = h - n"),
        ("a plain tensor", plain, "self.rate", "y = h * n"),
        ("a square", plain, "self.rate.square()", "y = h * n"),
        ("of another object", held, "self.config.rate", "y = h * n"),
        ("of another object, subtracted", held, "self.config.rate", "y = h - n"),
    )
    for name, init, read, use in forms:
        yield _trap("gradient", name, f"n = {read}.item()\n{use}", f"n = {read}\n{use}", init)


def _identities() -> Iterator[ObligationTrap]:
    """Yield changes after which the state shares memory with a parameter or a buffer."""
    bias, row, scale = "self.linear.bias.detach()", "self.linear.weight.detach()[0]", "self.scale.detach()"
    forms = (
        ("a bias", bias, "self.last = {}"),
        ("a buffer", scale, "self.last = {}"),
        ("a row", row, "self.last = {}"),
        ("a weight, turned", "self.linear.weight.detach().t()", "self.last = {}"),
        ("a bias in a list", bias, "self.kept = [{}]"),
        ("a buffer in a list", scale, "self.kept = [{}]"),
        ("a row in a dictionary", row, "self.kept = {{'row': {}}}"),
        ("a buffer in a dictionary", scale, "self.kept = {{'scale': {}}}"),
        ("a bias of another object", bias, "self.config.last = {}"),
        ("a buffer of another object", scale, "self.config.last = {}"),
    )
    for name, shared, kept in forms:
        yield _trap(
            "identity",
            name,
            f"{_BRANCH}\n{kept.format(f'{shared}.clone()')}",
            f"{_WHERE}\n{kept.format(shared)}",
            "self.last = None\nself.kept = None\nself.config.last = None",
        )


def _states() -> Iterator[ObligationTrap]:
    """Yield changes that leave something else in attributes, buffers and checkpoints."""
    init = "self.kept = None\nself.register_buffer('count', torch.tensor(0))"
    kept = (
        ("a number becomes a tensor", "self.kept = {}", "(h > 0).sum()", "item()"),
        ("numbers become tensors", "self.kept = [{}]", "(h > 0).sum()", "item()"),
        ("a dictionary of numbers", "self.kept = {{'n': {}}}", "(h > 0).sum()", "item()"),
        ("a place becomes a tensor", "self.kept = {}", "h.argmax()", "item()"),
        ("a list becomes a tensor", "self.kept = {}", "h.argmax(1)", "tolist()"),
        ("a flag becomes a tensor", "self.kept = {}", "(h > 0).all()", "item()"),
        ("of another object", "self.config.kept = {}", "(h > 0).sum()", "item()"),
    )
    for name, keep, value, read in kept:
        before = keep.format(f"{value}.{read}")
        yield _trap("state", name, f"{before}\ny = h * 2", f"{keep.format(value)}\ny = h * 2", init)
    sides = (
        ("a buffer of one side", "self.count.add_(1)"),
        ("an attribute of one side", "self.kept = 'up'"),
        ("an attribute of another object", "self.config.kept = 1.0"),
    )
    for name, written in sides:
        yield _trap(
            "state",
            name,
            f"if h.sum() > 0:\n    {written}\n    y = h * 2\nelse:\n    y = h * 3",
            f"{written}\n{_WHERE}",
            init,
        )


def _state_dicts() -> Iterator[ObligationTrap]:
    """Yield changes that leave each call as it is, and alter what a checkpoint has."""
    rate = "self.register_buffer('rate', torch.tensor(2.0){})"
    forms = (
        ("a buffer that is no longer saved", rate.format(""), rate.format(", persistent=False")),
        ("a buffer that is saved now", rate.format(", persistent=False"), rate.format("")),
    )
    for name, before, after in forms:
        yield ObligationTrap(
            "state",
            name,
            _program(f"{_BRANCH}\ny = y + self.rate", before),
            _program(f"{_WHERE}\ny = y + self.rate", after),
        )


def _exceptions() -> Iterator[ObligationTrap]:
    """Yield changes that no longer raise, or raise something else."""
    raising = (
        ("a large value", "h.abs().max() > 1e3", "ValueError('too large')"),
        ("a value that is not finite", "not torch.isfinite(h).all()", "ValueError('not finite')"),
        ("NaN", "torch.isnan(x).any()", "RuntimeError('NaN')"),
        ("zeros", "(x == 0).all()", "ValueError('zeros')"),
        ("a negative sum", "x.sum() < -20", "ArithmeticError('negative')"),
        ("a positive sum", "x.sum() > 20", "ArithmeticError('positive')"),
        ("equal values", "(x == x.flatten()[0]).all()", "ValueError('constant')"),
        ("ones", "(x == 1).all()", "KeyError('ones')"),
        ("one large value", "(x.abs() > 1e3).any()", "ValueError('one is large')"),
    )
    for name, test, error in raising:
        yield _trap("exceptions", name, f"if {test}:\n    raise {error}\ny = h * 2", "y = h * 2")
    yield _trap(
        "exceptions",
        "another class",
        "if x.abs().max() > 1e3:\n    raise ValueError('large')\ny = h * 2",
        "torch._assert_async((x.abs().max() > 1e3).logical_not(), 'large')\ny = h * 2",
    )


def _effects() -> Iterator[ObligationTrap]:
    """Yield changes that write something on the wrong side, or not at all."""
    written = (
        "print('up')", "print('up', flush=True)", "log.warning('up')", "log.error('up %d', 1)", "warnings.warn('up')",
        "warnings.warn('up', FutureWarning)", "print('up', end='')", "print(tuple(x.shape))", "log.critical('up')",
        "logging.getLogger('other').warning('up')",
    )  # fmt: skip
    for each in written:
        yield _trap("effects", each, f"if h.sum() > 0:\n    {each}\n    y = h * 2\nelse:\n    y = h * 3", _WHERE)


def _random() -> Iterator[ObligationTrap]:
    """Yield changes that draw numbers which one side alone drew."""
    draws = (
        "torch.rand(2)", "torch.randn(2)", "torch.randint(4, (2,))", "torch.randperm(4)", "torch.rand_like(x)",
        "torch.bernoulli(torch.full((2,), 0.5))", "torch.empty(2).normal_()", "torch.empty(2).uniform_()",
        "F.dropout(torch.ones(4), 0.5, True)", "torch.multinomial(torch.ones(4), 2)",
    )  # fmt: skip
    for draw in draws:
        yield _trap(
            "random", draw, f"if h.sum() > 0:\n    {draw}\n    y = h * 2\nelse:\n    y = h * 3", f"{draw}\n{_WHERE}"
        )


def _costs() -> Iterator[ObligationTrap]:
    """Yield changes that compute what one side alone computed, and at length."""
    steps = (
        "g = g.tanh()", "g = g.sin()", "g = g.relu()", "g = g.sigmoid()", "g = g.clamp(-1, 1)", "g = (g * 0.5).tanh()",
        "g = g.softmax(-1)", "g = g.abs().tanh()", "g = g.flip(0)", "g = g.atan()",
    )  # fmt: skip
    for step in steps:
        long = f"g = h.detach()\nfor _ in range(120):\n    {step}"
        inside = long.replace("\n", "\n    ")
        yield _trap(
            "eager_cost",
            step,
            f"if h.sum() > 1e4:\n    {inside}\nelse:\n    g = h.detach()\ny = h * 2 + g",
            f"{long}\ny = h * 2 + torch.where(h.sum() > 1e4, g, h.detach())",
        )


def _compiled() -> Iterator[ObligationTrap]:
    """Yield changes that are right in eager alone."""
    forms = (
        ("another value", "y = y + 0.5"),
        ("another factor", "y = y * 2"),
        ("another dtype", "y = y.double()"),
        ("another shape", "y = y[:2]"),
        ("no gradient", "y = y.detach()"),
        ("another attribute", "self.seen = 1"),
        ("another buffer", "self.count.add_(1)"),
        ("an input that is written", "x.mul_(2)"),
        ("numbers that are drawn", "y = y + torch.rand_like(y) * 0"),
        ("a row less", "y = y[1:]"),
    )
    for name, deed in forms:
        yield _trap(
            "compiled",
            name,
            _BRANCH,
            f"{_WHERE}\nif torch.compiler.is_compiling():\n    {deed}",
            "self.seen = 0\nself.register_buffer('count', torch.tensor(0))",
        )


def class_traps() -> list[ObligationTrap]:
    """Return traps of classes that false proofs came from, ten each; `obligation` names the class.

    Several obligations may refuse one; classes that an obligation's own traps show, such as exceptions, are left out.
    """
    makers = (_dropped_copies, _shared_keys, _default_dictionaries, _checkpoints, _expanded)
    return [trap for maker in makers for trap in maker()]


def _dropped_copies() -> Iterator[ObligationTrap]:
    """Yield changes that drop a copy of what somebody writes to."""
    init = "self.config.k = torch.tensor(2.0)\nself.config.kept = [torch.tensor(1.0)]\nself.last = None"
    forms = (
        ("written in place", "c.k.mul_(0.5)", "c.k"),
        ("written in place where it is warm", "if self.warm:\n    c.k.mul_(0.5)", "c.k"),
        ("written in place where it is strict", "if self.strict:\n    c.k.add_(1)", "c.k"),
        ("another attribute", "c.k = torch.tensor(3.0)", "c.k"),
        ("a list that grows", "c.kept.append(torch.tensor(2.0))", "len(c.kept)"),
        ("an item that is written", "c.kept[0].add_(1)", "c.kept[0]"),
        ("an item that is replaced", "c.kept[0] = c.kept[0] * 2", "c.kept[0]"),
        ("the copy is kept", "self.last = c.k", "c.k"),
        ("the copy is kept in a list", "self.last = [c.kept[0]]", "c.kept[0]"),
        ("one that is trained", "y = h + 1", "c.k"),
    )
    for name, deed, factor in forms:
        yield _trap(
            "dropped copy",
            name,
            f"c = copy.deepcopy(self.config)\n{deed}\ny = h * {factor}",
            f"c = self.config\n{deed}\ny = h * {factor}",
            init,
        )


def _shared_keys() -> Iterator[ObligationTrap]:
    """Yield changes after which two names no longer have one tensor, or have one for the first time."""
    forms = (
        ("two keys", "self.last = {{'a': t, 'b': {}}}"),
        ("two items", "self.last = [t, {}]"),
        ("two attributes", "self.last, self.other = t, {}"),
        ("of another object", "self.config.a, self.config.b = t, {}"),
        ("an attribute and a key", "self.last, self.other = t, {{'b': {}}}"),
    )
    for name, kept in forms:
        for which, one, other in (("parted", "t", "t * 1"), ("joined", "t * 1", "t")):
            yield _trap(
                "shared keys",
                f"{name} {which}",
                f"t = h.detach() * 2\n{_BRANCH}\n{kept.format(one)}",
                f"t = h.detach() * 2\n{_WHERE}\n{kept.format(other)}",
                "self.last = None\nself.other = None\nself.config.a = None\nself.config.b = None",
            )


def _default_dictionaries() -> Iterator[ObligationTrap]:
    """Yield changes that make a plain dictionary of one with defaults, or of one of another class."""
    init = "from collections import Counter, OrderedDict, defaultdict\nself.table = {}\nself.last = None"
    forms = (
        ("a default that is read", "defaultdict(lambda: 1.0, a=2.0)", "d['z']"),
        ("a default under a flag", "defaultdict(lambda: 1.0, a=2.0)", "d['z' if self.warm else 'a']"),
        ("a list by default", "defaultdict(list, a=[1.0])", "len(d['z']) + 1"),
        ("a number by default", "defaultdict(int, a=1)", "d['z'] + 1"),
        ("a default for large inputs", "defaultdict(lambda: 3.0, a=2.0)", "d['z' if x.shape[0] > 64 else 'a']"),
        ("a counter", "Counter('aab')", "d['z'] + 1"),
        ("the dictionary is kept", "defaultdict(lambda: 1.0, a=2.0)", "d['a']"),
        ("an ordered one is kept", "OrderedDict(a=2.0, b=1.0)", "d['a']"),
        ("a counter is kept", "Counter('aab')", "d['a']"),
        ("a list by default is kept", "defaultdict(list, a=[1.0])", "len(d['a'])"),
    )
    for name, made, read in forms:
        keep = "\nself.last = d" if "kept" in name else ""
        yield _trap(
            "defaultdict",
            name,
            f"d = copy.deepcopy(self.table){keep}\ny = h * ({read})",
            f"d = dict(self.table){keep}\ny = h * ({read})",
            init.replace("{}", made),
        )


def _checkpoints() -> Iterator[ObligationTrap]:
    """Yield changes that alter what a checkpoint has, or that do not follow one that is loaded."""
    made = "self.register_buffer('rate', torch.tensor({}))"
    forms = (
        ("a number", made.format(2), "self.rate = 2"),
        ("a fraction", made.format(1.5), "self.rate = 1.5"),
        ("a number of another class", made.format(3), "self.rate = 3.0"),
        ("another name", made.format(2), "self.register_buffer('pace', torch.tensor(2))\nself.rate = 2"),
        ("not saved", made.format(2), "self.register_buffer('rate', torch.tensor(2), persistent=False)"),
        ("a parameter", "self.rate = nn.Parameter(torch.tensor(2.0))", "self.rate = 2.0"),
        ("a frozen parameter", "self.rate = nn.Parameter(torch.tensor(2.0), requires_grad=False)", "self.rate = 2.0"),
        ("a parameter becomes a buffer", "self.rate = nn.Parameter(torch.tensor(2.0))", made.format(2.0)),
        ("another dtype", made.format(2), "self.register_buffer('rate', torch.tensor(2.0))"),
        ("another shape", made.format(2), "self.register_buffer('rate', torch.tensor([2]))"),
    )
    for name, before, after in forms:
        is_number = after.startswith("self.rate =") or "self.rate = 2" in after
        read = "self.rate" if is_number else "self.rate.detach().float().reshape(())"
        yield ObligationTrap(
            "checkpoints",
            name,
            _program("n = self.rate.item()\ny = h * n", before),
            _program(f"n = {read}\ny = h * n", after),
        )


def _expanded() -> Iterator[ObligationTrap]:
    """Yield changes that accept tensors whose elements share memory, which the program refuses."""
    forms = (
        ("a view", "x.view(-1)", "x.reshape(-1)"),
        ("a view of pairs", "x.view(-1, 2)", "x.reshape(-1, 2)"),
        ("a view of three dimensions", "x.view(2, -1, 4)", "x.reshape(2, -1, 4)"),
        ("a view that is turned", "x.t().t().view(-1)", "x.reshape(-1)"),
        ("a view of a column", "x.view(-1, 1)", "x.reshape(-1, 1)"),
        ("a flat view of its data", "x.detach().view(-1)", "x.detach().flatten()"),
        ("a view of its bits", "x.view(-1).view(torch.int32).float()", "x.reshape(-1).view(torch.int32).float()"),
        ("a write", "x.detach().mul_(1.5)", "x.detach().mul(1.5)"),
        ("another write", "x.detach().add_(0.5)", "x.detach().add(0.5)"),
        ("a mask that is written", "x.detach().masked_fill_(x > 0, 0.5)", "x.detach().masked_fill(x > 0, 0.5)"),
    )
    for name, before, after in forms:
        yield _trap(
            "expanded", name, f"t = {before}.sum()\n{_BRANCH}\ny = y + t", f"t = {after}.sum()\n{_WHERE}\ny = y + t"
        )
