"""What the names of a file are, as the scopes of the file tell."""

import libcst as cst
import pytest

from ctrace.inspector.edits.syntax_code import ParsedFile, walk
from ctrace.inspector.edits.syntax_names import assigned

IN_FUNCTION = """
def f(x):
    h = x.sum()
    {line}
    return h
"""


def values_of(source: str, name: str) -> list[str]:
    """Return the values of the last use of a name in a file."""
    code = ParsedFile(source)
    last = [one for one in walk(code.module) if isinstance(one, cst.Name) and one.value == name][-1]
    return sorted(code.text(one) for one in assigned(code, last))


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("pass", ["x.sum()"]),
        ("h = 3", ["3", "x.sum()"]),
        ("g = h = x.mean()", ["x.mean()", "x.sum()"]),
        ("[h for h in x]", ["x.sum()"]),
        ("lambda h: h", ["x.sum()"]),
        ("global other", ["x.sum()"]),
        ("def g():\n        h = 3", ["x.sum()"]),
        ("def g():\n        nonlocal h\n        h = 3", ["3", "x.sum()"]),
    ],
)
def test_values_of_a_local_name_are_those_that_its_own_scope_gets(line: str, values: list[str]):
    assert values_of(IN_FUNCTION.format(line=line), "h") == values


@pytest.mark.parametrize(
    "line",
    [
        "h, g = x",
        "h += 1",
        "h: int = 3",
        "for h in x: pass",
        "with x as h: pass",
        "import h",
        "def h(): pass",
        "[(h := y) for y in x]",
    ],
)
def test_a_name_that_something_else_binds_has_no_known_values(line: str):
    assert values_of(IN_FUNCTION.format(line=line), "h") == []


@pytest.mark.parametrize(
    "source",
    [
        "h = 3\nh",
        "def f(h):\n    h = 3\n    return h",
        "def f():\n    h = 3\n    return lambda: h",
        "def f():\n    global h\n    h = 3\n    return h",
    ],
    ids=["module", "parameter", "other function", "global"],
)
def test_a_name_that_is_not_local_has_no_known_values(source: str):
    assert values_of(source, "h") == []


def test_imports_bind_names_of_modules_and_of_what_is_in_them():
    code = ParsedFile(
        "import torch\nimport torch.nn.functional as F\nimport os.path\nfrom math import sqrt as root\n"
        "from . import near\ndef f():\n    import numpy as np\n"
    )
    in_module = {"torch": "torch", "F": "torch.nn.functional", "os": "os", "root": "math.sqrt"}
    assert code.module_imports == in_module
    assert code.imports == {**in_module, "np": "numpy"}


@pytest.mark.parametrize(
    "line",
    [
        "math = 3",
        "def f(math): pass",
        "[math for math in x]",
        "with x as math: pass",
        "try:\n    pass\nexcept ValueError as math:\n    pass",
        "class A:\n    math = 3",
        "def f():\n    global math\n    math = 3",
    ],
)
def test_a_name_that_the_file_binds_in_another_way_is_no_import(line: str):
    assert ParsedFile(f"import math\n{line}\n").imports == {}


def test_the_last_import_of_a_name_counts():
    code = ParsedFile("try:\n    import numpy as xp\nexcept ImportError:\n    import torch as xp\n")
    assert code.imports == {"xp": "torch"}
    assert code.module_imports == {}


def test_text_in_an_annotation_binds_nothing():
    assert ParsedFile("import math\nx: 'lambda math: math' = 3\n").imports == {"math": "math"}
