"""Side effects that torch replays: of a dict and a list of one's own class, and of plain ones; two equal calls."""

import torch


class Table(dict):
    pass


class Rows(list):
    pass


table, rows, plain, state = Table(a=1), Rows([1]), {"z": 1}, {"n": 0}


def change(x):
    table["b"] = x + 1
    rows.append(x)
    del plain["z"]
    state["n"] += 1
    print("one", end=""), print("one", end="")
    return x.sin()


torch.compile(change, backend="eager")(torch.ones(2))
