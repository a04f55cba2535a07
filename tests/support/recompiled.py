"""Handmade sessions with recompiles, for every report on recompiles."""

from typing import Any

from msgspec.structs import replace

from ctrace.inspector.facts.findings import Advice, CacheUse, Cause, CauseKind, Limit, Recompile
from ctrace.inspector.facts.session import Compilation, Coverage, Function, Graph, Problem, Scenario, Session, Target
from tests.support.sessions import ENVIRONMENT, HEALTHY, HOSTILE_FILE, HOSTILE_TEXT, MODEL

SOURCE = """\
import torch


class Block(torch.nn.Module):
    def __init__(self, number):
        self.number = number

    def forward(self, x, scale=1.0):
        x = x * scale
        return x + self.number


class Net(torch.nn.Module):
    def forward(self, x, mask, how):
        for row in range(mask.shape[0]):
            x = x + mask[row]
        for block in self.blocks:
            x = block(x)
        return x.sum() if how == "sum" else x
"""

NUMBER = Cause(
    kind=CauseKind.ATTRIBUTE_VALUE,
    subject="self.number",
    line=10,
    file=MODEL,
    fix="Keep it in a tensor.",
    reason="Torch takes the integers that a module holds for constants: each value of `self.number` is a new graph.",
    advice=Advice(
        before="x = x + self.number\n",
        after="x = x + self.offset  # a tensor\n",
        switch="torch._dynamo.config.allow_unspec_int_on_nn_module = True",
        risk="Shapes that are made of such integers become dynamic.",
    ),
)
DTYPE = Cause(
    CauseKind.DTYPE,
    "x.dtype",
    "torch.float32",
    "torch.float64",
    fix="Cast before the call.",
    reason="Kernels are made for one dtype, and `x.dtype` changed.",
    others=51,
    advice=Advice("f(x.double())\n", "f(x)\n"),
)
SIZE = Cause(
    CauseKind.SIZE,
    "x.size(0)",
    "4",
    "8",
    fix="Mark it dynamic.",
    reason="The size changed.",
    expected="It is.",
    is_open=True,
)
LOOPED = Cause(CauseKind.SIZE, "mask.size(0)", "2", "3", 15, "Take the loop out.", MODEL, reason="The size changed.")
HOW = Cause(
    CauseKind.ARGUMENT_VALUE, "how", "'sum'", "'max'", 19, "Pass a tensor.", MODEL, reason="The code branches on it."
)


def block(number: int, **more: Any) -> Compilation:
    """One entry of the cache that all blocks share."""
    known = {"scenario": "base", "call": 0, "seconds": 0.4, "of_object": f"Block {number}", **more}
    return Compilation(f"1/{number}", "forward", MODEL, 8, **known)


def numbered(number: int) -> Recompile:
    cause = replace(NUMBER, was=str(number - 1), now=str(number))
    near = {f"1/{before}": 1 for before in range(number)}
    return Recompile(f"1/{number}", "forward", MODEL, 8, False, (cause,), "", "", f"1/{number - 1}", near, "base", 0)


def net(number: int, **more: Any) -> Compilation:
    return Compilation(
        f"0/{number}", "forward", MODEL, 14, **{"scenario": "base", "call": number, "seconds": 1.5, **more}
    )


def changed(number: int, nearest: int, distances: dict[str, int], *causes: Cause, why: str = "") -> Recompile:
    return Recompile(
        f"0/{number}", "forward", MODEL, 14, bool(why), causes, "0/9: torch's own words", why, f"0/{nearest}", distances, "base", number,
    )  # fmt: skip


SEVERAL = Session(
    environment=ENVIRONMENT,
    target=Target("model.py", "model"),
    scenarios=(Scenario("base", 6, Coverage(14, 10)),),
    compilations=(
        *(net(number) for number in range(5)),
        *(block(number) for number in range(10)),
        block(
            10, seconds=None, fail_type="RecompileLimitExceeded", fail_reason="Dynamo recompile limit exceeded\nmore"
        ),
    ),
    graphs=(*(Graph(f"0/{n}", "forward", MODEL, 14, 5) for n in range(5)), *(Graph(f"1/{n}", "forward", MODEL, 8, 2) for n in range(10))),
    functions=(
        Function("Net.forward", MODEL, 14, graphs=5, coverage=Coverage(20, 20), compiled_for_itself=True),
        Function("Block.forward", MODEL, 8, graphs=10, coverage=Coverage(24, 20), compiled_for_itself=True),
    ),
    coverage=Coverage(44, 40),
    recompiles=(
        changed(1, 0, {"0/0": 1}, SIZE, why="Its first change is left open."),
        changed(2, 1, {"0/1": 53, "0/0": 53}, DTYPE, HOW),
        changed(3, 1, {"0/2": 53, "0/1": 1, "0/0": 2}, LOOPED),
        changed(4, 3, {"0/3": 1, "0/2": 54, "0/1": 1, "0/0": 2}, replace(LOOPED, was="3", now="5")),
        *(numbered(number) for number in range(1, 10)),
    ),
    limit=Limit(hit=True, functions=(CacheUse("forward", 5, 8, "0"), CacheUse("forward", 10, 10, "1", refused=True))),
    problems=(Problem("the guards behind a recompile could not be recorded", 812),),
    listings={MODEL: SOURCE},
)  # fmt: skip

_ODD = Cause(
    CauseKind.OTHER, HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, 1, HOSTILE_TEXT, HOSTILE_FILE, reason=HOSTILE_TEXT
)
HOSTILE = Session(
    environment=ENVIRONMENT,
    target=Target(f"{HOSTILE_TEXT}.py", "model"),
    scenarios=(Scenario(HOSTILE_TEXT, 2),),
    compilations=tuple(
        Compilation(
            f"0/{number}", HOSTILE_TEXT, HOSTILE_FILE, 1, scenario=HOSTILE_TEXT, call=number,
            of_object=f"{HOSTILE_TEXT} {number}", fail_reason=HOSTILE_TEXT,
        )
        for number in range(3)
    ),
    graphs=(Graph("0/0", HOSTILE_TEXT, HOSTILE_FILE, 1, 1),),
    recompiles=(
        Recompile(
            "0/1", HOSTILE_TEXT, HOSTILE_FILE, 1, True,
            (replace(_ODD, advice=Advice(*[HOSTILE_TEXT] * 4)), replace(_ODD, subject=f"{HOSTILE_TEXT}2")),
            HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, {HOSTILE_TEXT: 3}, HOSTILE_TEXT, 1,
        ),
        Recompile("0/2", HOSTILE_TEXT, HOSTILE_FILE, 1, False, (_ODD,), HOSTILE_TEXT),
    ),
    limit=Limit(functions=(CacheUse(HOSTILE_TEXT, 3, 8, "0"),)),
    problems=(Problem(HOSTILE_TEXT),),
    listings={HOSTILE_FILE: f"{HOSTILE_TEXT}\n"},
)  # fmt: skip

TOLD_BY_TORCH = Session(
    environment=replace(ENVIRONMENT, ctrace="", cwd=""),
    compilations=tuple(Compilation(f"0/{number}", "forward", MODEL, 8) for number in range(3)),
    graphs=tuple(Graph(f"0/{number}", "forward", MODEL, 8, 1) for number in range(3)),
    recompiles=(
        Recompile(
            "0/1",
            "forward",
            MODEL,
            8,
            False,
            (Cause(CauseKind.SIZE, "x.size(0)", "4", "8"),),
            "0/0: its words",
            "",
            "0/0",
        ),
        Recompile("0/2", "forward", MODEL, 8, False, ()),
    ),
    limit=Limit(functions=(CacheUse("forward", 3, 8, "0"),)),
)
"""As from torch's own log: no distances, no calls, no times, and one recompile without a reason."""

ALL = {"healthy": HEALTHY, "several": SEVERAL, "hostile": HOSTILE, "torch": TOLD_BY_TORCH}
