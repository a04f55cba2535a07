"""Descriptions, for the log, of choices that torch would time."""

from dataclasses import dataclass, field
from typing import Any

from ctrace.inspector.facts.target_gpu import TimedCandidate
from ctrace.inspector.features.gpus.child.gpu_tuning import candidate, subject_of, taken_of


@dataclass
class _Node:
    size: tuple[Any, ...]

    def get_size(self) -> tuple[Any, ...]:
        return self.size

    def get_dtype(self) -> str:
        return "torch.bfloat16"


@dataclass
class TritonTemplateCaller:
    """Has the name of torch's class."""

    name: str
    description: str = ""
    input_nodes: list[_Node] = field(default_factory=list)


class ExternKernelCaller(TritonTemplateCaller):
    """Has the name of torch's class."""


def test_a_template_is_listed_with_its_configuration() -> None:
    described = candidate(TritonTemplateCaller("triton_mm_4", "BLOCK_M=64, num_warps=4"))
    assert described == TimedCandidate("triton_mm_4", "triton", "BLOCK_M=64, num_warps=4")


def test_a_choice_of_an_unknown_kind_has_no_language() -> None:
    class NewCaller(TritonTemplateCaller):
        pass

    assert candidate(NewCaller("x")).language == ""


def test_a_library_is_taken_before_a_template() -> None:
    first, second, library = TritonTemplateCaller("a"), TritonTemplateCaller("b"), ExternKernelCaller("mm")
    assert taken_of([first, library, second]) is library
    assert taken_of([first, second]) is first


def test_an_operation_is_named_by_its_shapes() -> None:
    choice = TritonTemplateCaller("a", input_nodes=[_Node((128, 64)), _Node((64, 256))])
    assert subject_of("mm", choice) == "mm(128x64, 64x256) bfloat16"


def test_symbolic_sizes_and_many_inputs() -> None:
    choice = TritonTemplateCaller("a", input_nodes=[_Node(("s77", "256*s77")), _Node((2,)), _Node((3,)), _Node((4,))])
    assert subject_of("flex_attention", choice) == "flex_attention(s77x(256*s77), 2, 3, ...) bfloat16"
