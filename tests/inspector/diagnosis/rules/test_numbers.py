"""Advice on NumPy calls with Python numbers, and on integers in buffers."""

import pytest

from ctrace.inspector.diagnosis.rules.numbers import (
    integer_buffers,
    limits_of_numpy,
    numpy_attributes,
    numpy_on_numbers,
    numpy_sequences,
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


@pytest.mark.parametrize(
    ("numpy", "python"),
    [
        ("np.ceil(np.log(n)).astype('int').item()", "int(math.ceil(math.log(n)))"),
        ("np.sqrt(n).astype(np.int64)", "int(math.sqrt(n))"),
        ("np.sqrt(n).astype(float).item()", "float(math.sqrt(n))"),
        ("np.prod(n).item()", "math.prod(n)"),
    ],
)
def test_what_makes_a_number_of_the_result_of_numpy_goes_with_it(numpy: str, python: str):
    text = f"import numpy as np\n\ndef forward(self, x, n):\n    u = {numpy}\n    return x[:u]\n"
    (found,) = numpy_on_numbers(scene(ran(text, broken(4, "GB0208", called=""))))
    assert edited(found) == ["import numpy as np; import math", f"u = {python}"]


@pytest.mark.parametrize("numpy", ["np.sqrt(n).astype(bool)", "np.sqrt(n, dtype=n.dtype).item()", "np.sort(n).item()"])
def test_other_results_of_numpy_are_left_alone(numpy: str):
    text = f"import numpy as np\n\ndef forward(self, x, n):\n    u = {numpy}\n    return x[:u]\n"
    found = [line for each in numpy_on_numbers(scene(ran(text, broken(4, "GB0208")))) for line in edited(each)]
    assert not any(line.startswith("u = ") and "astype" not in line for line in found)


LOOPED = """import numpy as np

def mesh(*size):
    size = np.array(size)
    return [np.linspace(-1, 1, x) for x in size]
"""


def test_sizes_over_which_python_loops_are_a_list():
    (found,) = numpy_sequences(scene(ran(LOOPED, broken(5, "GB0033", called=""))))
    assert edited(found) == ["size = list(size)"]
    assert found.only_checked
    in_a_loop = LOOPED.replace(
        "    return [np.linspace(-1, 1, x) for x in size]", "    for x in size:\n        print(x)"
    )
    assert list(numpy_sequences(scene(ran(in_a_loop, broken(6, "GB0033", called="")))))
    for other in (LOOPED.replace("in size]", "in range(2)]"), LOOPED.replace("np.array(size)", "np.array(size, int)")):
        assert not list(numpy_sequences(scene(ran(other, broken(5, "GB0033", called="")))))


KEPT = """import numpy as np
import torch

class Padded(torch.nn.Conv2d):
    def __init__(self, size, pad):
        self.is_padded = np.sum(pad) != 0
        self.size = np.broadcast_to(np.asarray(size), [2])
        self.scale = np.sqrt(size) / 2
        self.rate = float(np.sqrt(size))

    def forward(self, x):
        if self.is_padded:
            x = x[: self.size[0]]
        return x * self.scale * self.rate
"""


@pytest.mark.parametrize(
    ("line", "gb", "new"),
    [
        (12, "GB0170", "self.is_padded = bool(np.sum(pad) != 0)"),
        (13, "GB0033", "self.size = np.broadcast_to(np.asarray(size), [2]).tolist()"),
        (14, "GB0033", "self.scale = (np.sqrt(size) / 2).tolist()"),
    ],
)
def test_what_a_constructor_computes_with_numpy_is_kept_as_pythons(line: int, gb: str, new: str):
    (found,) = numpy_attributes(scene(ran(KEPT, broken(line, gb, called=""))))
    assert edited(found) == [new]
    assert found.only_checked
    assert f"line {line} needs it in Python" in found.text


def test_what_the_line_does_not_read_or_numpy_does_not_compute_is_kept():
    assert not list(numpy_attributes(scene(ran(KEPT, broken(11, "GB0170", called="")))))
    plain = KEPT.replace("np.sum(pad) != 0", "sum(pad) != 0")
    assert not list(numpy_attributes(scene(ran(plain, broken(12, "GB0170", called="")))))


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


def test_a_number_drawn_before_the_line_that_needs_it():
    text = "import random\n\ndef forward(x):\n    n = random.randint(1, 3)\n    return x.roll(n, 0)\n"
    (found,) = random_numbers(scene(ran(text, broken(5, "GB0033"))))
    assert found.text.startswith("net.py:5: draw the number before the compiled call and pass it as an argument")
    assert "random.randint() draws it at line 4" in found.text
    other = text.replace("random.randint(1, 3)", "x.shape[0]")
    assert not list(random_numbers(scene(ran(other, broken(5, "GB0033")))))


def test_a_loop_over_a_drawn_number():
    text = "import random\n\ndef forward(x):\n    for _ in range(random.randint(0, 3)):\n        x = x.sin()\n    return x\n"
    (found,) = random_numbers(scene(ran(text, broken(4, "GB0160"))))
    assert "a loop over what random.randint() draws" in found.text


def test_a_random_number_of_numpy_is_not_an_array():
    text = "import numpy as np\n\ndef forward(x):\n    return x * np.random.rand()\n"
    (found,) = random_numbers(scene(ran(text, broken(4, "GB0033"))))
    assert "does not trace np.random.rand()" in found.text
    assert not list(random_numbers(scene(ran(text.replace("np.random", "random"), broken(4, "GB0033")))))
