"""Which limit on Triton kernels a break is about."""

import pytest

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.findings.breaks.break_fold import ParsedBreak, triton_case


def parsed(explanation: str, gb: str = "GB0361", file: str = "model.py") -> ParsedBreak:
    return ParsedBreak((gb,), "", explanation, (), "", (Frame("model.py", 3, "f"), Frame(file, 9, "g")))


@pytest.mark.parametrize(
    ("words", "case"),
    [
        ("Only configs, keys, restore_value, and reset_to_zero are supported for triton.autotune", "triton_autotune"),
        ("pre_hook and post_hook are not supported in triton.Autotune or triton.Config", "triton_hooks"),
        (
            "Passing num_ctas directly to the Triton kernel is not supported. Please use a Config in @triton.autotune instead.",
            "triton_ctas",
        ),
        ("Passing multiple @triton.autotune decorators is not supported.", "triton_autotuned_twice"),
        ("Triton kernels should be called with only a single grid", "triton_two_grids"),
        ("Triton kernels should always be called with a grid", "triton_no_grid"),
        ("Triton kernel requires to be called with a grid", "triton_no_grid"),
        ("Only tuple grids are supported", "triton_grid"),
        ("Grid can have at most rank 3", "triton_rank"),
        ("@triton.heuristics must return constant values because configs can only", "triton_heuristics"),
        ("Unexpected argument type for a Triton kernel: UserDefinedObjectVariable(Thing).", "triton_argument"),
        ("something new", ""),
    ],
)
def test_torchs_words_tell(words: str, case: str) -> None:
    assert triton_case(parsed(f"Encountered triton kernel unsupported feature: {words}")) == case


def test_a_break_in_tritons_launcher_is_a_kernel_that_torch_does_not_see() -> None:
    assert triton_case(parsed("", "GB0007", "/venv/site-packages/triton/runtime/jit.py")) == "triton_unseen"
    assert triton_case(parsed("", "GB0007")) == ""
