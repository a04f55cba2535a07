"""Handmade sessions that every report renders."""

from typing import Any

from msgspec.structs import replace

from ctrace.inspector.facts.findings import (
    Advice,
    Break,
    BreakKind,
    CacheUse,
    Cause,
    CauseKind,
    Cost,
    Danger,
    Frame,
    Limit,
    Owner,
    Recompile,
    Skip,
)
from ctrace.inspector.facts.fusion_facts import Fusion, FusionRound
from ctrace.inspector.facts.kernel_facts import Kernel, Stage
from ctrace.inspector.facts.scenario_facts import Comparison, Outcome, Rule, ScenarioKind
from ctrace.inspector.facts.session import (
    Bytecode,
    Compilation,
    Coverage,
    Environment,
    Failure,
    FailurePhase,
    Function,
    Graph,
    PhaseTimes,
    Problem,
    Scenario,
    Session,
    Target,
)

CWD = "/home/user/project"
MODEL = f"{CWD}/model.py"
ENVIRONMENT = Environment(
    ctrace="0.1.0", torch="2.13.0", triton="3.7.1", python="3.11.7", device="cpu", backend="inductor", cwd=CWD
)

SOURCE = '''\
import torch
from kept import side


class Net(torch.nn.Module):
    """A model that prints."""

    def forward(self, x):
        x = x.sin().cos()
        print("mean", x.mean())
        return slow(x)


def loaded(rows):
    for row in rows:
        yield row * 2


# Row by row, as the paper has it.

def slow(x):
    total = 0
    for row in x:
        total += side(row)
    return total
'''

HEALTHY = Session(
    environment=ENVIRONMENT,
    target=Target("model.py", "model"),
    scenarios=(Scenario("base", 2, Coverage(14, 14)),),
    compilations=(Compilation("0/0", "forward", MODEL, 8, guards=21, bytecode=Bytecode(120, 340), seconds=1.8),),
    graphs=(Graph("0/0", "forward", MODEL, 8, 7),),
    coverage=Coverage(14, 14),
    limit=Limit(functions=(CacheUse("forward", 1, 8),)),
    fusions=(
        Fusion(
            "0/0",
            Stage.FORWARD,
            7,
            3,
            (FusionRound(7, 3, (("op0", "op1"), ("op2", "op3"))), FusionRound(3, 3)),
            refused=2,
        ),
    ),
    kernels=(
        Kernel(
            "0/0",
            Stage.FORWARD,
            "cpp_fused_add_exp_0",
            "cpp",
            ("aten.add", "aten.exp"),
            (f"{MODEL}:9", f"{MODEL}:10"),
            2,
        ),
        Kernel("0/0", Stage.FORWARD, "extern_kernels.addmm", "external", ("aten.addmm",), (f"{MODEL}:11",)),
    ),
    time=PhaseTimes(9.4, {"dynamo": 0.4, "aot": 0.3, "inductor": 1.1}),
)

PARTIAL = Session(
    environment=ENVIRONMENT,
    target=Target("model.py", "model"),
    scenarios=(Scenario("base", 2, Coverage(14, 10)), Scenario("wide", 2, Coverage(14, 10))),
    compilations=(
        Compilation("0/0", "forward", MODEL, 8, guards=21, bytecode=Bytecode(120, 340)),
        Compilation("1/0", "forward", MODEL, 8, resumes_at=10, guards=12, bytecode=Bytecode(80, 200)),
        Compilation("0/1", "forward", MODEL, 8, guards=22, bytecode=Bytecode(120, 340)),
        Compilation("2/0", "slow", MODEL, 21, fail_type="Unsupported", fail_reason="a break in a loop"),
    ),
    graphs=(
        Graph("0/0", "forward", MODEL, 8, 5),
        Graph("1/0", "forward", MODEL, 10, 2),
        Graph("0/1", "forward", MODEL, 8, 5),
    ),
    functions=(
        Function("Net.forward", MODEL, 8, graphs=3, coverage=Coverage(18, 16), compiled_for_itself=True),
        Function("slow", MODEL, 21, coverage=Coverage(8, 2), compiled_for_itself=True),
        Function("side", f"{CWD}/kept.py", 3, coverage=Coverage(2, 2)),
    ),
    coverage=Coverage(28, 20),
    breaks=(
        Break(
            gb=("GB0059",),
            kind=BreakKind.BREAK,
            owner=Owner.USER,
            file=MODEL,
            line=10,
            function="forward",
            source='print("mean", x.mean())',
            reason='`print("mean", x.mean())` writes to the screen while the model runs.',
            fix="Take it out, or guard it with `if not torch.compiler.is_compiling()`.",
            times=3,
            compilations=("0/0", "0/1"),
            paths=(
                (Frame(f"{CWD}/train.py", 31, "main"), Frame(MODEL, 10, "forward")),
                (Frame(f"{CWD}/evaluate.py", 12, "<module>"), Frame(MODEL, 10, "forward")),
            ),
            span=(0, 23),
            expression='print("mean", x.mean())',
            advice=Advice(
                'x = x + 1\nprint("mean", x.mean())\nreturn x * 2\n',
                "x = x + 1\nreturn x * 2\n",
                "torch._dynamo.config.reorderable_logging_functions.add(print)",
                "Prints then come after the graph has run, later than in eager.",
            ),
            cost=Cost(2, 1),
        ),
        Break(
            gb=("GB0098",),
            kind=BreakKind.DISABLED,
            owner=Owner.LIBRARY,
            file=MODEL,
            line=24,
            function="slow",
            source="total += side(row)",
            reason="What `side(row)` calls is kept out of compilation. Its author says: talks to redis.",
            fix="Remove the torch.compiler.disable.",
            times=1,
            compilations=("2/0",),
            paths=((Frame(MODEL, 24, "slow"),),),
            span=(9, 18),
            expression="side(row)",
            cost=Cost(0, 0),
        ),
    ),
    skips=(
        Skip(
            "slow",
            MODEL,
            21,
            "The break (line 24) is inside of a loop: the whole function stays in eager.",
            break_index=1,
            rule="loop",
            fix="Remove the torch.compiler.disable. Or move the body of the loop into a function of its own.",
            cost=Cost(6, 1),
        ),
        Skip(
            "loaded",
            MODEL,
            14,
            "`loaded` is a generator, and Dynamo does not compile one by itself.",
            rule="generator",
            fix="Compile a function that consumes it, or return a list.",
            cost=Cost(1),
        ),
    ),
    recompiles=(
        Recompile(
            "0/1",
            "forward",
            MODEL,
            8,
            True,
            (Cause(CauseKind.SIZE, "x.size(0)", "4", "8", None, "Mark the dimension dynamic."),),
        ),
        Recompile(
            "1/1",
            "forward",
            MODEL,
            10,
            False,
            (Cause(CauseKind.ATTRIBUTE_VALUE, "self.step", "1", "2", 12, "Keep it in a tensor."),),
        ),
    ),
    limit=Limit(
        hit=True,
        functions=(CacheUse("forward", 8, 8, "0", refused=True), CacheUse("forward (from line 10)", 2, 8, "1")),
    ),
    time=PhaseTimes(4.1, {"dynamo": 0.4, "aot": 0.3, "inductor": 1.1}),
    problems=(Problem("the payload of 'artifact' is cut short or damaged", 812),),
    unknown={"artifact:new_thing": 2},
    listings={MODEL: SOURCE},
)

HOSTILE_TEXT = "</script><b>|x|</b> `tick` \x1b[31mred\x1b[0m \u202eright to left\rgone"
HOSTILE_FILE = f"{CWD}/{HOSTILE_TEXT}.py"
HOSTILE = Session(
    environment=Environment(ctrace="0.1.0", torch="2.13.0", python="3.11.7", device="cpu", backend="eager", cwd=CWD),
    target=Target(f"{HOSTILE_TEXT}.py", "model"),
    graphs=(Graph("0/0", HOSTILE_TEXT, HOSTILE_FILE, 1, 1),),
    functions=(Function(HOSTILE_TEXT, HOSTILE_FILE, 1, coverage=Coverage(3, 1), compiled_for_itself=True),),
    breaks=(
        Break(
            gb=(),
            kind=BreakKind.BREAK,
            owner=Owner.USER,
            file=HOSTILE_FILE,
            line=1,
            function=HOSTILE_TEXT,
            source=HOSTILE_TEXT,
            reason=HOSTILE_TEXT,
            fix="",
            times=1,
            compilations=(),
            paths=((Frame(HOSTILE_FILE, 1, HOSTILE_TEXT), Frame(HOSTILE_FILE, 1, HOSTILE_TEXT)),),
            span=(9, 12),
            expression=HOSTILE_TEXT,
            advice=Advice(HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT),
        ),
    ),
    skips=(Skip(HOSTILE_TEXT, HOSTILE_FILE, 1, HOSTILE_TEXT, rule=HOSTILE_TEXT, fix=HOSTILE_TEXT),),
    recompiles=(
        Recompile("0/1", HOSTILE_TEXT, MODEL, 1, False, (Cause(CauseKind.OTHER, HOSTILE_TEXT, HOSTILE_TEXT, None),)),
    ),
    problems=(Problem(HOSTILE_TEXT),),
    listings={HOSTILE_FILE: f"{HOSTILE_TEXT}\n\t{HOSTILE_TEXT}\n"},
)

DANGEROUS = replace(
    HEALTHY,
    scenarios=(
        Scenario(
            "base",
            2,
            Coverage(14, 14),
            ScenarioKind.BASE,
            compared=2,
            comparison=Comparison(Rule.REFERENCE, 0.00041, 0.00039),
        ),
        Scenario("scaled", 2, Coverage(14, 14), compared=2),
        Scenario("clock", 2, Coverage(14, 14), compared=0, not_compared="the model gives different results each time"),
        Scenario(
            "dim0=1",
            2,
            Coverage(14, 14),
            ScenarioKind.PROVOKED,
            compared=2,
            comparison=Comparison(Rule.TOLERANCE, no_reference="the call quantizes"),
        ),
        Scenario("eval", 2, Coverage(12, 12), ScenarioKind.PROVOKED, compared=2),
        Scenario("no_grad", 2, Coverage(12, 0), ScenarioKind.PROVOKED, compared=2),
        Scenario(
            "dtype=float64", 0, Coverage(), ScenarioKind.PROVOKED, Outcome.NOT_TAKEN, "RuntimeError: another dtype"
        ),
        Scenario("dim1=8", 1, Coverage(), ScenarioKind.PROVOKED, Outcome.COMPILE_FAILED, "ValueError: <b>no|such"),
    ),
    recompiles=(
        Recompile(
            "0/1",
            "forward",
            MODEL,
            8,
            False,
            (Cause(CauseKind.ZERO_ONE, "x.size(0)", "4", "1"),),
            scenario="dim0=1",
            call=0,
        ),
    ),
    dangers=(
        Danger(
            "scaled",
            0,
            "environment",
            "SCALE",
            "the result differs in 8 of 8 values, by up to 1.5",
            "'1'",
            "'2'",
            MODEL,
            9,
            proven=True,
            why="The environment variable `SCALE` is read while the model runs: no guard protects it.",
            fix="Read `SCALE` once, when the model is made.",
            calls=2,
            comparison=Comparison(Rule.EXPERIMENT),
        ),
        Danger(
            "scaled",
            1,
            "unexplained",
            "",
            "the result is 1 in eager, 2 compiled",
            why="Not explained.",
            fix="Look.",
            comparison=Comparison(Rule.REFERENCE, 2e-7, 1.0),
        ),
    ),
)

NOTHING = Session(environment=ENVIRONMENT, target=Target("model.py", "model"), time=PhaseTimes(3.0))

FAILED = Session(
    environment=ENVIRONMENT,
    target=Target("model.py", "model"),
    failure=Failure(
        FailurePhase.EAGER,
        "ValueError",
        "no such luck\nat all",
        MODEL,
        12,
        "Make the model run without torch.compile first.",
    ),
    time=PhaseTimes(3.0),
)

CRASHED = Session(
    environment=ENVIRONMENT,
    target=Target("train.py", None, ("--epochs", "1")),
    compilations=(Compilation("0/0", "forward", MODEL, 8, guards=21, bytecode=Bytecode(120, 340)),),
    graphs=(Graph("0/0", "forward", MODEL, 8, 7),),
    failure=Failure(FailurePhase.CRASH, "SIGSEGV", "the program crashed with SIGSEGV"),
    time=PhaseTimes(12.0, {"dynamo": 0.4}),
)


def bare_break(**parts: Any) -> Break:
    """A break with few known facts."""
    known = {
        "gb": ("GB0124",),
        "kind": BreakKind.BREAK,
        "owner": Owner.USER,
        "file": MODEL,
        "line": 10,
        "function": "forward",
        "source": "y = x.item()",
        "reason": "`x.item()` turns a tensor into a Python number.",
        "fix": "Keep the value a tensor.",
        "times": 1,
        "compilations": ("0/0",),
    }
    return Break(**{**known, **parts})


MANY = Session(
    environment=ENVIRONMENT,
    target=Target("model.py", "model"),
    graphs=(Graph("0/0", "forward", MODEL, 8, 7),),
    coverage=Coverage(40, 12),
    functions=tuple(Function(f"f{n}", MODEL, n, coverage=Coverage(n + 2, 1)) for n in range(1, 9)),
    breaks=tuple(
        bare_break(
            owner=Owner.TORCH if line == 4 else Owner.USER,
            line=line,
            function=f"f{line}",
            times=line,
            paths=((Frame(MODEL, 3, "forward"), Frame(MODEL, line, f"f{line}")),),
            expression="x.item()",
            advice=Advice("y = x.item()", "y = x"),
            cost=Cost(line),
        )
        for line in range(1, 9)
    ),
)
"""More breaks than a screen shows, none of them with its source, all with the same advice."""

ALL = {
    "healthy": HEALTHY, "dangerous": DANGEROUS, "partial": PARTIAL, "hostile": HOSTILE, "nothing": NOTHING, "failed": FAILED, "crashed": CRASHED,
}  # fmt: skip
