"""Advice on NumPy calls with Python numbers, and on integers in buffers."""

import pytest

from ctrace.inspector.diagnosis.rules.numbers import (
    integer_buffers,
    limits_of_numpy,
    numpy_on_numbers,
    permutations,
    random_numbers,
)
from tests.inspector.diagnosis.scenes import LIBRARY, broken, edited, ran, scene

NUMPY = """import numpy as np
import torch

def sizes(parts):
    return np.lcm(parts[0], parts[1])

def forward(self, x):
    total = np.sum(self.parts)
    return x.view(total, sizes(self.parts))

def other(x):
    return np.prod(x)
"""


def test_numpy_is_replaced_in_the_function_that_breaks_and_in_those_it_calls():
    (found,) = numpy_on_numbers(scene(ran(NUMPY, broken(9))))
    assert edited(found) == [
        "import numpy as np; import math",
        "return math.lcm(parts[0], parts[1])",
        "total = sum(self.parts)",
    ]
    assert found.only_checked
    assert found.text.startswith("net.py:5: use Python's math.lcm() for np.lcm()")


def test_numpy_elsewhere_in_the_file_is_left_alone():
    text = NUMPY.replace("np.sum(self.parts)", "8").replace("sizes(self.parts)", "1")
    assert not list(numpy_on_numbers(scene(ran(text, broken(9)))))


def test_the_call_that_breaks_is_offered_alone_too():
    every, alone = numpy_on_numbers(scene(ran(NUMPY, broken(8))))
    assert len(edited(every)) == 3
    assert edited(alone) == ["total = sum(self.parts)"]


@pytest.mark.parametrize(
    ("limits", "new"),
    [
        ("np.finfo(torch.tensor(0, dtype=e.dtype).numpy().dtype).min", "torch.finfo(e.dtype).min"),
        ("np.finfo(e.detach().cpu().numpy().dtype).max", "torch.finfo(e.dtype).max"),
        ("np.iinfo(e.numpy().dtype).max", "torch.iinfo(e.dtype).max"),
        ("np.finfo(e.dtype).max", None),
        ("np.finfo(np.float32).max", None),
    ],
)
def test_limits_of_a_tensors_dtype_are_torchs(limits, new):
    text = (
        f"import numpy as np\nimport torch\n\ndef forward(self, e):\n    return e.masked_fill(e > 0, float({limits}))\n"
    )
    found = list(limits_of_numpy(scene(ran(text, broken(5)))))
    assert [edited(each) for each in found] == ([[f"return e.masked_fill(e > 0, float({new}))"]] if new else [])


def test_functions_with_more_arguments_are_left_alone():
    text = NUMPY.replace("np.sum(self.parts)", "np.sum(self.parts, axis=0)").replace("sizes(self.parts)", "1")
    assert not list(numpy_on_numbers(scene(ran(text, broken(9)))))


def test_code_of_a_library_is_named_with_its_package():
    (found,) = numpy_on_numbers(scene(ran(NUMPY, broken(9, file=LIBRARY), file=LIBRARY)))
    assert "(kit: patch it from your code" in found.text


def test_a_permutation_of_numpy_is_drawn_by_torch():
    text = "import numpy as np\nimport torch\n\ndef forward(self, x):\n    at = np.random.permutation(x.size(1))[:4]\n"
    (found,) = permutations(scene(ran(text, broken(5))))
    assert edited(found) == ["at = torch.randperm(x.size(1)).numpy()[:4]"]
    assert found.only_checked


BUFFER = """import torch

class Net(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("size", torch.tensor(size, dtype=torch.int64))

    def forward(self, x):
        n = torch.ceil(x.shape[0] / self.size).to(torch.int64)
        return x.view(int(n), -1)
"""


def test_an_integer_buffer_becomes_a_number_and_its_rounding_pythons():
    (found,) = integer_buffers(scene(ran(BUFFER, broken(10))))
    assert edited(found) == ["import torch; import math", "self.size = size", "n = math.ceil(x.shape[0] / self.size)"]


def test_buffers_made_of_integer_tensors_become_numbers():
    text = BUFFER.replace(
        'self.register_buffer("size", torch.tensor(size, dtype=torch.int64))',
        "one = torch.tensor(size, dtype=torch.int64); self.size = torch.nn.Buffer(one - 1, persistent=False)",
    )
    (found,) = integer_buffers(scene(ran(text, broken(10))))
    assert "one = size; self.size = one - 1" in edited(found)


def test_a_buffer_that_is_written_is_left_alone():
    for write in ("self.size += 1", "self.size.add_(1)", "self.size = x.sum()"):
        text = BUFFER.replace("        return", f"        {write}\n        return")
        assert not list(integer_buffers(scene(ran(text, broken(9))))), write


def test_a_buffer_of_fractions_or_of_several_numbers_is_left_alone():
    for value in ("torch.tensor(0.5)", "torch.tensor([1, 2])", "torch.tensor(size)", "torch.zeros(1)"):
        text = BUFFER.replace("torch.tensor(size, dtype=torch.int64)", value)
        assert not list(integer_buffers(scene(ran(text, broken(10))))), value


def test_a_random_number_is_not_drawn_once():
    text = "import random\n\ndef forward(x):\n    if random.random() < 0.5:\n        x = x + 1\n    return x\n"
    (found,) = random_numbers(scene(ran(text, broken(4, "GB0007"))))
    assert found.text.startswith("net.py:4: draw the number before the compiled call and pass it as an argument")
    one_line = text.replace(":\n        x", ": x")
    assert list(random_numbers(scene(ran(one_line, broken(4, "GB0007")))))
    assert not list(random_numbers(scene(ran(text, broken(5, "GB0007")))))
    assert not list(random_numbers(scene(ran(text, broken(4, "GB0124")))))


def test_a_random_number_of_numpy_is_not_an_array():
    text = "import numpy as np\n\ndef forward(x):\n    return x * np.random.rand()\n"
    (found,) = random_numbers(scene(ran(text, broken(4, "GB0033"))))
    assert "does not trace np.random.rand()" in found.text
    assert not list(random_numbers(scene(ran(text.replace("np.random", "random"), broken(4, "GB0033")))))
