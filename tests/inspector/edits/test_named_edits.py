"""Advice and repairs write the same, for programs that both change: advice on one line each, repairs in blocks."""

import ast
from collections.abc import Callable

import pytest

from ctrace.inspector.diagnosis.attribute_changes import patched_with
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate
from ctrace.inspector.diagnosis.rules.branch_rules import choices, messages
from ctrace.inspector.diagnosis.rules.numbers import numpy_on_numbers
from ctrace.inspector.diagnosis.rules.output_rules import printing
from ctrace.inspector.diagnosis.rules.value_rules import used_numbers
from ctrace.inspector.edits.numpy_functions import REPLACEMENTS, in_python
from ctrace.inspector.facts.findings import Break
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace
from tests.inspector.diagnosis.scenes import FILE, broken, ran, scene
from tests.support.repaired import REPAIRS

PROGRAMS = {
    "a rounded quotient as a size": (
        "import numpy as np\n\ndef f(x):\n    return x[: int(np.ceil(x.size(0) / 2))]\n",
        numpy_on_numbers,
        broken(4, "GB0208", called=""),
        "numpy_math",
        "x[:int(math.ceil(x.size(0) / 2))]",
    ),
    "a rounded quotient as a factor": (
        "import numpy as np\n\ndef f(x):\n    return x * np.ceil(x.size(0) / 2)\n",
        numpy_on_numbers,
        broken(4, "GB0208", called=""),
        "numpy_math",
        "x * float(math.ceil(x.size(0) / 2))",
    ),
    "a print": (
        "import torch\n\ndef f(x):\n    print(x.sum())\n    return x\n",
        printing,
        broken(4, "GB0007", construct="print", called=""),
        "output_guard",
        "if not torch.compiler.is_compiling():\n        print(x.sum())",
    ),
    "a message of a logger that is made there": (
        "import logging\nimport torch\n\ndef f(x):\n    logging.getLogger('net').warning_once(x.sum())\n    return x\n",
        printing,
        broken(5, "GB0007", construct="log", called=""),
        "output_guard",
        "if not torch.compiler.is_compiling():\n        logging.getLogger('net').warning_once(x.sum())",
    ),
    "a line to a stream, behind a test": (
        "import sys\nimport torch\n\ndef f(x):\n    if x.sum() > 0:\n        sys.stderr.write('bad')\n    return x\n",
        messages,
        broken(5, "GB0170", called=""),
        "output_guard",
        "if not torch.compiler.is_compiling() and x.sum() > 0:",
    ),
    "a number of a tensor": (
        "import torch\n\ndef f(x):\n    return x * x.max().item()\n",
        used_numbers,
        broken(4),
        "tensor_scalar",
        "x * x.max().detach()",
    ),
    "a branch with a steep side": (
        "import torch\n\ndef f(x):\n    y = x * 1\n    if x.sum() > 0:\n        y = x.log() / -2\n    return y + 1\n",
        choices,
        broken(5, "GB0170", called=""),
        "tensor_branch",
        "y = torch.where(condition, torch.where(condition, x, 1).log() / -2, y)",
    ),
    "a branch of two values": (
        "import torch\n\ndef f(x):\n    if x.sum() > 0:\n        return x * 2\n    return x - 1\n",
        choices,
        broken(4, "GB0170", called=""),
        "tensor_branch",
        "return torch.where(x.sum() > 0, x * 2, x - 1)",
    ),
    "a print behind a choice of two tests": (
        "import torch\n\ndef f(x, y):\n    if x.sum() > 0 if y is None else y.sum() > 0:\n        print(1)\n    return x\n",
        messages,
        broken(4, "GB0170", called=""),
        "output_guard",
        "if not torch.compiler.is_compiling() and (x.sum() > 0 if y is None else y.sum() > 0):",
    ),
}


class Plain(ast.NodeTransformer):
    """Writes what advice puts behind `if True:`, to keep its lines, as the statements alone; ends at a `return`."""

    def visit_If(self, node: ast.If) -> ast.stmt | list[ast.stmt]:
        is_always = isinstance(node.test, ast.Constant) and node.test.value is True
        return node.body if is_always else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        self.generic_visit(node)
        end = next(number for number, each in enumerate(node.body, 1) if isinstance(each, ast.Return))
        node.body = node.body[:end]
        return node


def plain(text: str) -> str:
    return ast.unparse(Plain().visit(ast.parse(text)))


@pytest.mark.parametrize(("text", "rule", "finding", "repair", "part"), PROGRAMS.values(), ids=PROGRAMS)
def test_advice_and_the_repair_write_the_same(
    text: str, rule: Callable[..., list[Candidate]], finding: Break, repair: str, part: str
):
    advised = next(iter(rule(scene(ran(text, finding)))))
    assert advised.trial is not None
    tried = plain(patched_with(advised.trial.edits, text))
    rewrite = next(iter(REPAIRS[repair].find(RepairPlace(FILE, text, finding.line, "f"))))
    assert part in tried
    assert plain(rewrite.source) == tried


@pytest.mark.parametrize("name", sorted(REPLACEMENTS))
def test_a_function_of_numpy_needs_its_number_of_arguments(name: str):
    written = [in_python(name, ["a"] * number) for number in range(4)]
    assert written[0] == written[3] == ""
    assert len([each for each in written if each]) == 1


def test_what_numpy_rounds_stays_a_float_unless_it_becomes_an_integer():
    assert in_python("floor", ["n"]) == "float(math.floor(n))"
    assert in_python("floor", ["n"], math="m", is_made_int=True) == "m.floor(n)"
    assert in_python("abs", ["n"]) == "abs(n)"
    assert in_python("sort", ["n"]) == ""
