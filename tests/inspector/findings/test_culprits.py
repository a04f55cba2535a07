"""A culprit explains a wrong result of its scenario, and nothing else does."""

from msgspec.structs import replace

from ctrace.inspector.facts.accuracy_facts import Accuracy
from ctrace.inspector.findings.culprits import culprit_sentence, named_in, remedied
from ctrace.inspector.findings.silent_dangers import blamed
from tests.support.compared import COMPARED, DIFFERS, NOTHING_COMPARED, RELU, RIGHT


def blame(accuracy: Accuracy | None) -> tuple[str | None, int | None]:
    (danger,) = blamed((DIFFERS,), accuracy)
    return danger.file, danger.line


def test_a_wrong_result_gets_the_line_of_its_culprit() -> None:
    (danger,) = blamed((DIFFERS,), COMPARED)
    assert (danger.file, danger.line, danger.proven) == ("/work/model.py", 14, False)
    assert danger.why.startswith("`h = torch.relu(x)` is wrong: off by 1 where eager is off by 0")
    assert danger.fix.startswith("torch._inductor.lowering.make_fallback(...) makes the error go away")
    assert danger.difference == DIFFERS.difference


def test_nothing_else_explains_it() -> None:
    no_line = replace(RELU, file=None, line=None)
    elsewhere = replace(RELU, scenario="wide")
    rounded = replace(RELU, against="eager")
    for each in (no_line, elsewhere, rounded):
        assert blame(replace(COMPARED, culprits=(each,))) == (None, None)
    for none in (None, RIGHT, NOTHING_COMPARED):
        assert blame(none) == (None, None)
    assert blame(replace(COMPARED, culprits=(no_line, RELU))) == ("/work/model.py", 14)
    explained = replace(DIFFERS, kind="attribute", subject="model.scale")
    assert blamed((explained,), COMPARED) == (explained,)


def test_words() -> None:
    assert culprit_sentence(replace(RELU, source="")) == "aten.relu is wrong: off by 1 where eager is off by 0"
    assert culprit_sentence(replace(RELU, error=None)).endswith("off by NaN or infinity where eager is off by 0")
    lost = replace(RELU, against="eager", error=0.25)
    assert culprit_sentence(lost).endswith("no less exact: it differs from eager by 0.25")
    assert named_in(RELU) == (
        "Off by 1 where eager is off by 0, in kernel cpp_fused_relu_0 (forward); why: Inductor's code for aten.relu."
    )
    assert named_in(replace(RELU, kind="pass", name="post-grad passes", reason=None)).endswith(
        ", by post-grad passes (forward)."
    )
    assert remedied(replace(RELU, remedy=None)).startswith("Report it: ctrace repro --culprit writes")
