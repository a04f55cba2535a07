"""Hand-made sessions that every report renders."""

from ctrace.inspector.model import (
    Break,
    BreakKind,
    Bytecode,
    CacheUse,
    Cause,
    Compilation,
    Coverage,
    Environment,
    Failure,
    FailurePhase,
    Fusion,
    FusionRound,
    Graph,
    Kernel,
    Limit,
    Owner,
    Problem,
    Recompile,
    Scenario,
    Session,
    Skip,
    Stage,
    Target,
    Time,
)

CWD = "/home/user/project"
MODEL = f"{CWD}/model.py"
ENVIRONMENT = Environment(
    ctrace="0.1.0", torch="2.13.0", triton="3.7.1", python="3.11.7", device="cpu", backend="inductor", cwd=CWD
)

HEALTHY = Session(
    environment=ENVIRONMENT,
    target=Target("model.py", "model"),
    scenarios=(Scenario("base", 2, 14, 14),),
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
    time=Time(9.4, {"dynamo": 0.4, "aot": 0.3, "inductor": 1.1}),
)

PARTIAL = Session(
    environment=ENVIRONMENT,
    target=Target("model.py", "model"),
    scenarios=(Scenario("base", 2, 14, 10), Scenario("wide", 2, 14, 10)),
    compilations=(
        Compilation("0/0", "forward", MODEL, 8, guards=21, bytecode=Bytecode(120, 340)),
        Compilation("1/0", "forward", MODEL, 8, resumes_at=10, guards=12, bytecode=Bytecode(80, 200)),
        Compilation("0/1", "forward", MODEL, 8, guards=22, bytecode=Bytecode(120, 340)),
        Compilation("2/0", "slow", MODEL, 20, fail_type="Unsupported", fail_reason="a break in a loop"),
    ),
    graphs=(
        Graph("0/0", "forward", MODEL, 8, 5),
        Graph("1/0", "forward", MODEL, 10, 2),
        Graph("0/1", "forward", MODEL, 8, 5),
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
            reason="Dynamo cannot trace this built-in with these arguments.",
            fix="Move a print or log call out of forward.",
            times=3,
            compilations=("0/0", "0/1"),
        ),
        Break(
            gb=("GB0098",),
            kind=BreakKind.DISABLED,
            owner=Owner.LIBRARY,
            file=MODEL,
            line=23,
            function="slow",
            source="side(x)",
            reason="The function is kept out of compilation by torch.compiler.disable. Its author says: talks to redis.",
            fix="Remove the torch.compiler.disable.",
            times=1,
            compilations=("2/0",),
        ),
    ),
    skips=(
        Skip("slow", MODEL, 20, "The function is kept out of compilation by torch.compiler.disable.", 1),
        Skip("load", f"{CWD}/data.py", 3, "Import failure", None),
    ),
    recompiles=(
        Recompile(
            "0/1",
            "forward",
            MODEL,
            8,
            True,
            (Cause("size", "x.size(0)", "4", "8", None, "Mark the dimension dynamic."),),
        ),
        Recompile(
            "1/1",
            "forward",
            MODEL,
            10,
            False,
            (Cause("attribute_value", "self.step", "1", "2", 12, "Keep it in a tensor."),),
        ),
    ),
    limit=Limit(hit=True, functions=(CacheUse("forward", 8, 8), CacheUse("forward (from line 10)", 2, 8))),
    time=Time(4.1, {"dynamo": 0.4, "aot": 0.3, "inductor": 1.1}),
    problems=(Problem("the payload of 'artifact' is cut short or damaged", 812),),
    unknown={"artifact:new_thing": 2},
)

HOSTILE_TEXT = "</script><b>|x|</b> `tick` \x1b[31mred\x1b[0m \u202eright to left\rgone"
HOSTILE = Session(
    environment=Environment(ctrace="0.1.0", torch="2.13.0", python="3.11.7", device="cpu", backend="eager", cwd=CWD),
    target=Target(f"{HOSTILE_TEXT}.py", "model"),
    graphs=(Graph("0/0", HOSTILE_TEXT, f"{CWD}/{HOSTILE_TEXT}.py", 1, 1),),
    breaks=(
        Break(
            (),
            BreakKind.BREAK,
            Owner.USER,
            f"{CWD}/{HOSTILE_TEXT}.py",
            1,
            HOSTILE_TEXT,
            HOSTILE_TEXT,
            HOSTILE_TEXT,
            "",
            1,
            (),
        ),
    ),
    recompiles=(Recompile("0/1", HOSTILE_TEXT, MODEL, 1, False, (Cause("other", HOSTILE_TEXT, HOSTILE_TEXT, None),)),),
    problems=(Problem(HOSTILE_TEXT),),
)

NOTHING = Session(environment=ENVIRONMENT, target=Target("model.py", "model"), time=Time(3.0))

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
    time=Time(3.0),
)

CRASHED = Session(
    environment=ENVIRONMENT,
    target=Target("train.py", None, ("--epochs", "1")),
    compilations=(Compilation("0/0", "forward", MODEL, 8, guards=21, bytecode=Bytecode(120, 340)),),
    graphs=(Graph("0/0", "forward", MODEL, 8, 7),),
    failure=Failure(FailurePhase.CRASH, "SIGSEGV", "the program crashed with SIGSEGV"),
    time=Time(12.0, {"dynamo": 0.4}),
)

ALL = {
    "healthy": HEALTHY, "partial": PARTIAL, "hostile": HOSTILE, "nothing": NOTHING, "failed": FAILED, "crashed": CRASHED,
}  # fmt: skip
