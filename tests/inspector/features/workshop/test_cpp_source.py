"""A C++ kernel as an op calls it."""

import pytest

from ctrace.inspector.facts.kernel_facts import Pointer
from ctrace.inspector.features.workshop.eject_kernel import package_of
from ctrace.inspector.features.workshop.kernel_region import (
    is_loaded,
    is_loaded_first,
    is_used,
    vector_instructions,
)
from ctrace.inspector.features.workshop.size_expressions import RefusalError
from tests.support.ejecting import session

LOAD = "auto tmp0 = at::vec::Vectorized<float>::loadu({0} + static_cast<int64_t>(x0), static_cast<int64_t>({1}));"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("auto tmp0 = p[static_cast<int64_t>(0L)];\np[static_cast<int64_t>(0L)] = tmp0;", True),
        (
            "p[static_cast<int64_t>(x0)] = static_cast<float>(tmp_acc0);\nauto tmp0 = p[static_cast<int64_t>(x0)];",
            False,
        ),
        (LOAD.format("p", 16) + "\ntmp0.store(p + static_cast<int64_t>(x0));", True),
        ("tmp0.store(p + static_cast<int64_t>(x0));\n" + LOAD.format("p", 16), False),
        (
            "auto out_ptr0 = p;\nout_ptr0[static_cast<int64_t>(x0)] = tmp0;\nauto tmp1 = p[static_cast<int64_t>(x0)];",
            False,
        ),
        ("auto tmp0 = q[0L];", False),
    ],
)
def test_what_is_written_first_is_no_input(body: str, expected: bool) -> None:
    source = f'extern "C" void kernel(float* p)\n{{\n{body}\n}}'
    assert is_loaded_first(Pointer("p", "buf0", "buf1"), source) is expected


def test_vector_instructions_follow_from_the_width() -> None:
    assert vector_instructions(LOAD.format("p", 16)) == "AVX512"
    assert vector_instructions(LOAD.format("p", 8)) == "AVX2"
    assert vector_instructions("float tmp0 = p[0L];") == ""
    with pytest.raises(RefusalError, match="vector instructions"):
        vector_instructions("at::vec::Vectorized<double>(tmp1)")


def test_vectors_that_are_all_partly_filled_follow_from_the_steps() -> None:
    """A sum over 5 columns loads 5 of 16."""
    loop = "for(;; x0+=static_cast<int64_t>(16L)) at::vec::Vectorized<{}>::loadu(p, static_cast<int64_t>(5L));"
    assert vector_instructions(loop.format("float")) == "AVX512"
    with pytest.raises(RefusalError, match="vector instructions"):
        vector_instructions(loop.format("at::BFloat16"))


def test_what_a_loop_writes_and_the_next_one_reads_is_known() -> None:
    source = "void kernel(float* p, float* q)\n{\np[0L] = tmp0;\nauto tmp1 = p[0L];\ntmp1.store(q);\n}"
    assert is_loaded(Pointer("p", "", "buf1"), source)
    assert not is_loaded(Pointer("q", "", "buf2"), source)
    assert not is_used("r", source)
    assert is_used("q", source)


def test_a_cpp_kernel_becomes_an_op_with_fixed_sizes() -> None:
    found = session(language="cpp")
    package = package_of(found, found.kernels[0])
    assert package.cpp is not None
    assert package.cpp.arguments == ("mm", "mul_1")
    assert package.sizes == ()
