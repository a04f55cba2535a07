"""Accuracy facts made by hand: a run whose relu is wrong."""

from msgspec.structs import replace

from ctrace.inspector.facts.accuracy_facts import Accuracy, Culprit, FirstNonfinite, NotCompared, PathStep, Promises
from ctrace.inspector.facts.findings import Danger
from ctrace.inspector.facts.scenario_facts import Comparison, Rule
from ctrace.inspector.findings.silent_dangers import UNEXPLAINED, blamed
from tests.support.sessions import HEALTHY

RELU = Culprit(
    "kernel", "cpp_fused_relu_0", 0, "forward", "base", "/work/model.py", 14, "forward", ("aten.relu",), 1.0, 0.0,
    "float64", "h = torch.relu(x)", "Inductor's code for aten.relu", "torch._inductor.lowering.make_fallback(...)", 0.0,
    "float32",
)  # fmt: skip
COMPARED = Accuracy(
    equal=False,
    culprits=(RELU,),
    first_nonfinite=FirstNonfinite("/work/model.py", 15, "aten.log", "cpp_fused_log_2", in_eager=True),
    path=(PathStep("cpp_fused_relu_0", "/work/model.py:14", 1.0),),
    promises=Promises(run_to_run=True, batch_invariant=False),
    not_compared=(NotCompared("aten.rand", "aten.rand draws random numbers"),),
    compared=5,
    kernels=2,
    graphs=1,
    scenarios=("base",),
    result="wrong",
    compiled_runs=2,
    pieces=7,
)
RIGHT = replace(COMPARED, equal=True, culprits=(), first_nonfinite=None, path=(), not_compared=(), result="rounding")
NOTHING_COMPARED = Accuracy(not_compared=(NotCompared("the model", "no C++ compiler works, and kernels run here"),))
DIFFERS = Danger(
    "base", 0, UNEXPLAINED, "", "the result differs in 8 of 8 values, by up to 1",
    why="The results differ: nothing explains it.", fix="Try torch.compile(backend=\"eager\").",
    comparison=Comparison(Rule.REFERENCE, 1e-7, 1.0),
)  # fmt: skip
WRONG = replace(HEALTHY, accuracy=COMPARED, dangers=blamed((DIFFERS,), COMPARED))
