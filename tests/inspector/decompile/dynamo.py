# ruff: noqa: PLW0603, RET504
"""A script: compile real functions, let their reconstructed codes run in place of Dynamo's, and compare what happens.

Prints JSON: for each situation whether all was the same, how many codes were reconstructed, and what was refused.
"""

import ast
import contextlib
import io
import json
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ctrace.inspector.features.bytecode.reconstruct import FunctionSource, compiled, reconstruct
from ctrace.inspector.source.disassembly import disassembled

SITUATIONS: list[Callable[[], object]] = []
COUNTER = 0


def situation(make):
    SITUATIONS.append(make)
    return make


def ran(function, *calls):
    """Call a compiled function several times: results, and errors by class."""
    fast, results = torch.compile(function, backend="eager"), []
    for arguments in calls:
        try:
            results.append(fast(*arguments))
        except RuntimeError as error:
            results.append(("raised", str(error)))
    return results


X, Y = torch.arange(6.0).reshape(2, 3), -torch.ones(2, 3)


@situation
def two_layers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    return ran(model, (X,), (Y,))


@situation
def print_break():
    def f(x):
        x = x + 1
        print("middle", x.shape)
        return x * 2

    return ran(f, (X,), (Y,))


@situation
def tensor_if():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            return y - 1
        return y + 1

    return ran(f, (X,), (Y,), (X,))


@situation
def tensor_if_in_module():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(3, 4), nn.Linear(4, 3)

        def forward(self, x):
            h = self.up(x)
            if h.norm() > 1:
                h = h / h.norm()
            return self.down(h)

    torch.manual_seed(0)
    return ran(M(), (X,), (X * 0,))


@situation
def item_branch():
    def f(x):
        n = x.sum().item()
        if n > 3:
            return x + n
        return x - n

    return ran(f, (X,), (Y,))


@situation
def no_grad_around_a_break():
    def f(x):
        x = x + 1
        with torch.no_grad():
            print("inside", torch.is_grad_enabled())
            x = x * 2
        return x, torch.is_grad_enabled()

    return ran(f, (X.clone().requires_grad_(),), (Y,))


@situation
def two_contexts_around_a_break():
    def f(x):
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            print("inside", torch.is_grad_enabled())
            x = x * 2
            with torch.enable_grad():
                print("deeper", torch.is_grad_enabled())
            x = x + 1
        return x

    return ran(f, (X,), (Y,)), torch.is_grad_enabled()


@situation
def two_contexts_and_an_error():
    def f(x):
        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            fails(x)
        return x

    @torch._dynamo.disable
    def fails(x):
        print("grad", torch.is_grad_enabled())
        raise RuntimeError("from inside")

    return ran(f, (X,)), torch.is_grad_enabled()


@situation
def function_mode_around_a_break():
    from torch.overrides import BaseTorchFunctionMode

    def f(x):
        with BaseTorchFunctionMode():
            x = x + 1
            print("in a mode")
            x = x * 2
        return x

    return ran(f, (X,), (Y,))


@situation
def own_context_around_a_break():
    entered = []

    class Own:
        def __enter__(self):
            entered.append("in")
            return self

        def __exit__(self, *error):
            entered.append("out")
            return False

    def f(x):
        with Own():
            x = x + 1
            print("in my own")
            x = x * 2
        return x

    return ran(f, (X,), (Y,)), entered


@situation
def dicts_and_classes():
    class Config(dict):
        pass

    config = Config(a=1)

    def f(x):
        config["b"] = x + 1
        config.update(c=2)
        made = Config(z=x)
        print("broken")
        return made, config

    results = ran(f, (X,))
    return [(type(m).__name__, list(m.items()), list(c)) for m, c in results]


@situation
def no_grad_and_an_error():
    def f(x):
        with torch.no_grad():
            print("before")
            raise_here(x)
        return x

    def raise_here(x):
        torch._dynamo.graph_break()
        raise RuntimeError("from inside")

    return ran(f, (X,)), torch.is_grad_enabled()


@situation
def try_around_a_break():
    def f(x):
        try:
            print("in try")
            x = x + 1
        except ValueError:
            x = x - 1
        finally:
            x = x * 3
        return x

    return ran(f, (X,))


@situation
def loops():
    def f(xs, n):
        total = xs[0] * 0
        for x in xs:
            total = total + x
        for number in range(n):
            total = total * number
        return total

    return ran(f, ([X, Y], 3), ([X, Y, X], 2))


@situation
def closures():
    scale, log = 3.0, []

    def f(x):
        y = x * scale
        log.append(y.shape)
        print("closure")
        return y + scale

    results = ran(f, (X,), (Y,))
    return results, log


@situation
def nonlocal_counter():
    count = 0

    def f(x):
        nonlocal count
        count += 1
        y = x + count
        print("counted")
        return y * count

    return ran(f, (X,), (X,)), count


@situation
def own_cells():
    def f(x):
        k = x.sum()

        def inner(y):
            return y + k

        print("own cell")
        return inner(x)

    return ran(f, (X,), (Y,))


@situation
def side_effects():
    class Box:
        value: object

    box = Box()
    held: list[object] = []
    table: dict[str, object] = {}

    def f(x, box, held, table):
        box.value = x + 1
        held.append(x * 2)
        held.append(held)
        table["x"] = box.value
        table.setdefault("n", 0)
        del table["n"]
        return x

    results = ran(lambda x: f(x, box, held, table), (X,), (Y,))
    return results, box.value, held[0], held[1] is held, sorted(table), table["x"]


@situation
def global_counter():
    def f(x):
        global COUNTER
        COUNTER += 1
        return x + COUNTER

    return ran(f, (X,), (X,)), COUNTER


@situation
def generators():
    def parts(x):
        yield x + 1
        yield x * 2

    def f(x):
        total = sum(parts(x))
        print("after")
        return total

    return ran(f, (X,))


@situation
def results_in_containers():
    def f(x):
        a = [x + 1, x * 2]
        print("containers")
        return {"a": a, "again": a, "t": (x, a[0]), "n": None, "s": slice(1, 2)}

    return [(r["a"] is r["again"], r["t"], r["n"], r["s"], r["a"]) for r in ran(f, (X,), (Y,))]


@situation
def keywords_and_stars():
    def g(*args, **kwargs):
        print(len(args), sorted(kwargs))
        return args[0]

    def f(x, *args, scale=2, **kwargs):
        y = torch._dynamo.disable(g)(x, *args, scale=scale, **kwargs)
        return y * scale

    return ran(lambda x: f(x, 1, 2, other=3), (X,))


@situation
def sorted_with_lambda():
    def f(x):
        parts = sorted([x[0], x[1]], key=lambda t: -t.sum().item())
        return parts[0] * 2

    return ran(f, (X,), (Y,))


@situation
def comprehension_with_item():
    def f(x):
        return [part.sum().item() for part in x], {n: part.item() for n, part in enumerate(x[0])}

    return ran(f, (X,))


@situation
def logical():
    def f(x, flag):
        ok = bool(x.sum() > 0) and flag
        print(ok)
        return x + 1 if ok else x - 1

    return ran(f, (X, True), (Y, True), (X, False))


@situation
def optimizer():
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    steps = torch.optim.SGD(model.parameters(), lr=0.1)

    def f(x):
        steps.zero_grad()
        model(x).sum().backward()
        steps.step()
        return [p.detach().clone() for p in model.parameters()]

    return ran(f, (X,), (Y,))


def in_place_of(seen):
    def hook(code, new):
        found = reconstruct(disassembled(new))
        if not isinstance(found, FunctionSource):
            seen.append([new.co_qualname, found.why])
            return None
        seen.append([new.co_qualname, None])
        return None if found.constants else _with_frame_of(new, found)

    return hook


def _with_frame_of(new: types.CodeType, found: FunctionSource) -> types.CodeType:
    """Compile with the very free variables of the other code, which the frame brings along."""
    tree = ast.parse(found.text)
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef)
    for name in found.free:
        function.body.append(ast.parse(f"if 0: {name}").body[0])
    made = compiled(ast.unparse(ast.fix_missing_locations(tree)), found.free, new.co_flags)
    return made.replace(co_name=new.co_name, co_filename=new.co_filename, co_firstlineno=new.co_firstlineno)


def observed(make):
    global COUNTER
    COUNTER = 0
    torch._dynamo.reset()
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        result = make()
    return result, said.getvalue()


def same(left, right):
    if type(left) is not type(right):
        return False
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


def main():
    answers = {}
    for make in SITUATIONS:
        plain = observed(make)
        seen: list[Any] = []
        handle = torch._dynamo.convert_frame.register_bytecode_hook(in_place_of(seen))
        try:
            replaced = observed(make)
        finally:
            handle.remove()
        refused = [each for each in seen if each[1]]
        answers[make.__name__] = {"same": same(plain, replaced), "codes": len(seen), "refused": refused}
        if not answers[make.__name__]["same"]:
            answers[make.__name__]["difference"] = [repr(plain)[:600], repr(replaced)[:600]]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
