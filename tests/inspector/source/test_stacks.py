"""The user's lines in the stack traces of graph nodes."""

from ctrace.inspector.source.stacks import user_lines
from tests.support.helpers import MODEL, SITE


def stack(*frames: tuple[str, int]) -> str:
    return "".join(f'  File "{file}", line {line}, in forward\n    return x\n' for file, line in frames)


def test_the_innermost_line_of_the_user_counts():
    assert user_lines([stack((MODEL, 3), (MODEL, 8), (f"{SITE}/torch/nn/functional.py", 99))], {}) == (f"{MODEL}:8",)


def test_each_line_once_in_the_order_of_the_stacks():
    stacks = [stack((MODEL, 9)), stack((MODEL, 4)), stack((MODEL, 2), (MODEL, 9))]
    assert user_lines(stacks, {}) == (f"{MODEL}:9", f"{MODEL}:4")


def test_a_stack_without_the_user_has_the_innermost_line_of_a_librarys_model():
    torch = (f"{SITE}/torch/nn/functional.py", 99)
    frames = [(f"{SITE}/transformers/bert.py", 3), (f"{SITE}/transformers/bert.py", 9), torch]
    assert user_lines([stack(*frames)], {}) == (f"{SITE}/transformers/bert.py:9",)
    assert user_lines([stack((MODEL, 8), *frames)], {}) == (f"{MODEL}:8",)


def test_a_stack_of_torch_alone_has_no_line():
    assert user_lines([stack((f"{SITE}/torch/nn/functional.py", 99)), "", "no stack at all"], {}) == ()


def test_known_folders_count():
    assert user_lines([stack((MODEL, 3), ("/shared/layers.py", 5))], {"/shared": "library"}) == (f"{MODEL}:3",)
