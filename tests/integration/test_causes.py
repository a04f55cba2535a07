"""Causes of real recompilations: kind, subject, values, the line that made it matter, expected or not."""

import pytest

import ctrace
from ctrace.inspector.facts.session import Session
from tests.integration.examples import recompiles_of, run

pytestmark = pytest.mark.integration

MODULE = "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
OPEN = True
"""An expected recompile: torch then makes the value dynamic."""

USUAL = "DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU)"
BATCHED = (
    "DispatchKeySet(CPU, BackendSelect, FuncTorchDynamicLayerBackMode, ADInplaceOrView, AutogradCPU, FuncTorchBatched, "
    "FuncTorchDynamicLayerFrontMode)"
)
PROGRAMS = {
    "the entry that is no special one is the nearest": (
        "f = torch.compile(lambda x: x * 2)\nfor n in (4, 1, 0, 7): f(torch.ones(n))",
        [("zero_one", "x.size(0)", "4", "1", None, False), ("zero_one", "x.size(0)", "4", "0", None, False),
         ("size", "x.size(0)", "4", "7", None, OPEN)],
    ),
    "both inputs": (
        "f = torch.compile(lambda x, y: x.sum() + y.sum())\nfor n in (4, 8): f(torch.ones(n), torch.ones(n + 1))",
        [("size", "x.size(0)", "4", "8", None, OPEN), ("size", "y.size(0)", "5", "9", None, OPEN)],
    ),
    "strides that follow from sizes": (
        "f = torch.compile(lambda x: x * 2)\nfor n in (4, 8): f(torch.ones(3, n))",
        [("size", "x.size(1)", "4", "8", None, OPEN)],
    ),
    "a loop over a size": (
        "@torch.compile\ndef f(x):\n    for _ in range(x.shape[0]): x = x * 2\n    return x\n"
        "for n in (4, 5, 6): f(torch.ones(n, 3))",
        [("size", "x.size(0)", "4", "5", 5, False), ("size", "x.size(0)", "5", "6", 5, False)],
    ),
    "a loop over a number": (
        "@torch.compile\ndef f(x, n):\n    for _ in range(n): x = x * 2\n    return x\n"
        "for n in (2, 3, 4): f(torch.ones(3), n)",
        [("argument_value", "n", "2", "3", 5, False), ("argument_value", "n", "3", "4", 5, False)],
    ),
    "branches on a number": (
        "@torch.compile\ndef f(x, n):\n    if n == 9: x = x + 1\n    return x * n\nfor n in (2, 3, 9): f(torch.ones(3), n)",
        [("argument_value", "n", "2", "3", 5, OPEN), ("range", "n", "not 9", "9", 5, False)],
    ),
    "a branch on a size": (
        "@torch.compile(dynamic=True)\ndef f(x):\n    if x.shape[0] > 6: return x + 1\n    return x * 2\n"
        "for n in (4, 8): f(torch.ones(n))",
        [("range", "x.size(0)", "2 to 6", "8", 5, False)],
    ),
    "numbers and what is none": (
        "f = torch.compile(lambda x, n: x + 1 if n is None else x * n)\nfor n in (2, 2.5, None): f(torch.ones(3), n)",
        [("type", "n", "int", "float", 3, False), ("none", "n", "float", "None", 3, False)],
    ),
    "members of an enum": (
        "import enum\nE = enum.Enum('E', 'A B')\nf = torch.compile(lambda x, e: x * 2 if e is E.A else x + 1)\n"
        "for e in E: f(torch.ones(3), e)",
        [("argument_value", "e", "E.A", "E.B", 5, False)],
    ),
    "a variable of an enclosing function": (
        "def make(k):\n    return lambda x: x * k\n@torch.compile\ndef f(x, g): return g(x)\n"
        "for k in (2, 3): f(torch.ones(3), make(k))",
        [("closure_value", "k", "2", "3", 4, OPEN)],
    ),
    "functions": (
        "def a(x): return x + 1\ndef b(x): return x - 1\nf = torch.compile(lambda x, g: g(x))\n"
        "for g in (a, b): f(torch.ones(3), g)",
        [("identity", "g", "a (example.py:3)", "b (example.py:4)", 5, False)],
    ),
    "a module that torch wraps": (
        "model = torch.compile(torch.nn.Linear(4, 4))\nfor n in (3, 5): model(torch.ones(n, 4))",
        [("size", "input.size(0)", "3", "5", None, OPEN)],
    ),
    "a key, and not that the length follows": (
        "CACHE = {}\n@torch.compile\ndef f(x):\n    if 'a' not in CACHE: CACHE['a'] = x * 2\n    return x + CACHE['a']\n"
        "for _ in range(3): f(torch.ones(3))",
        [("key_order", "'a' in CACHE", "False", "True", 6, True)],
    ),
    "a dict's length and what else changed": (
        "f = torch.compile(lambda d, n: sum(d.values()) * n)\nx = torch.ones(3)\n"
        "f({'a': x}, 2)\nf({'a': x, 'b': x + 1}, 3)",
        [("length", "len(d)", "1", "2", None, False), ("argument_value", "n", "2", "3", 3, False)],
    ),
    "the order of keys": (
        "f = torch.compile(lambda d: [2 * v for v in d.values()])\nx, y = torch.ones(3), torch.zeros(3)\n"
        "f({'a': x, 'b': y})\nf({'b': x, 'a': y})",
        [("key_order", "d", "'a'", "'b'", 3, False)],
    ),
    "an attribute that is made": (
        f"{MODULE}    def forward(self, x):\n        if not hasattr(self, 'scale'): self.scale = 2\n        return x * self.scale\n"
        "model = torch.compile(Net())\nfor _ in range(2): model(torch.ones(3))",
        [("attribute_value", "self.scale", "missing", "there", 7, True)],
    ),
    "a default device, and not the mode that it is": (
        "f = torch.compile(lambda x: x + torch.ones(3))\nx = torch.ones(3)\nf(x)\ntorch.set_default_device('cpu')\nf(x)",
        [("global_state", "default device", "not set", "cpu", None, False)],
    ),
    "inference mode, and not what it takes from tensors": (
        "f = torch.compile(lambda x: x * 2)\nf(torch.ones(3))\nwith torch.inference_mode(): f(torch.ones(3))",
        [("grad_mode", "grad_mode", "True", "False", None, True)],
    ),
    "an inference tensor, beside no_grad": (
        "f = torch.compile(lambda x, y: x * y)\nx = torch.ones(3)\nf(x, x + 1)\nwith torch.no_grad(): f(x, x + 1)\n"
        "with torch.inference_mode():\n    z = torch.ones(3)\n    f(z, z + 1)",
        [("grad_mode", "grad_mode", "True", "False", None, True),
         ("dispatch_keys", "x.dispatch keys", USUAL, "DispatchKeySet(CPU, BackendSelect)", None, False),
         ("dispatch_keys", "y.dispatch keys", USUAL, "DispatchKeySet(CPU, BackendSelect)", None, False)],
    ),
    "usual tensors inside of inference mode, beside no_grad": (
        "f = torch.compile(lambda x: x * 2)\nx = torch.ones(3)\nf(x)\nwith torch.no_grad(): f(x)\n"
        "with torch.inference_mode(): f(x)",
        [("grad_mode", "grad_mode", "True", "False", None, True),
         ("dispatch_keys", "x.dispatch keys", USUAL, "DispatchKeySet(CPU, BackendSelect, ADInplaceOrView)", None, False)],
    ),
    "an inference tensor outside of inference mode": (
        "f = torch.compile(lambda x: x * 2)\nx = torch.ones(3)\nwith torch.inference_mode(): z = torch.ones(3)\n"
        "f(x)\nf(z)",
        [("dispatch_keys", "x.dispatch keys", USUAL, "DispatchKeySet(CPU, BackendSelect, ADInplaceOrView)", None, False)],
    ),
    "the mode of a module, beside many tensors that inference mode changed": (
        "net = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(3, 3), torch.nn.Dropout())\n"
        "f = torch.compile(net, backend='eager')\nx = torch.ones(2, 3)\nf(x)\nnet.eval()\n"
        "with torch.inference_mode(): f(torch.ones(2, 3))\nnet.train()\nwith torch.inference_mode(): f(torch.ones(2, 3))",
        [("grad_mode", "grad_mode", "True", "False", None, True),
         ("training_mode", "model[0].training", "True", "False", None, True),
         ("training_mode", "model[2].training", "True", "False", None, True),
         ("training_mode", "model[0].training", "False", "True", None, True),
         ("training_mode", "model[2].training", "False", "True", None, True)],
    ),
    "the rest of a function after a break, without gradients": (
        "@torch.compile(backend='eager')\ndef f(x, w):\n    h = x * w\n    print('')\n    return h + 1\n"
        "x, w = torch.ones(3), torch.ones(3, requires_grad=True)\nf(x, w)\nwith torch.no_grad(): f(x, w)",
        [("grad_mode", "grad_mode", "True", "False", None, True)] * 2,
    ),
    "vmap, and not the dimension that it hides": (
        "f = torch.compile(lambda x: x * 2, backend='eager')\nx = torch.ones(2, 3)\nf(x)\ntorch.vmap(f)(x)",
        [("dispatch_keys", "x.dispatch keys", USUAL, BATCHED, None, False)],
    ),
    "autocast with another dtype": (
        "f = torch.compile(lambda x: x @ x)\nx = torch.ones(3, 3)\n"
        "for dtype in (torch.bfloat16, torch.float16):\n    with torch.autocast('cpu', dtype=dtype): f(x)",
        [("autocast", "autocast(cpu)_dtype", "torch.bfloat16", "torch.float16", None, False)],
    ),
    "another layout": (
        "f = torch.compile(lambda x: x * 2)\nf(torch.ones(4, 4))\nf(torch.ones(4, 4).to_mkldnn())",
        [("layout", "x.layout", "strided", "mkldnn", None, False)],
    ),
    "memory that is shared": (
        "import functools\n@functools.partial(torch.compile.func, backend='aot_eager', dynamic=True)\ndef f(a, b):\n    a.add_(1)\n"
        "    return a + b\nx = torch.ones(10)\nf(x[:5], x[5:])\nf(x[:5], x[2:7])",
        [("aliasing", "memory of a and b", "apart", "shared", None, False),
         ("aliasing", "b.storage_offset() == a.size(0)", "True", "False", None, False)],
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    """Run all programs in one trace."""
    with ctrace.trace() as traced:
        for number, (code, _) in enumerate(PROGRAMS.values()):
            run(code, tmp_path_factory.mktemp(f"program_{number}") / "example.py")
    return traced.session


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_change_is_named(name: str, session: Session) -> None:
    recompiles = recompiles_of(session, list(PROGRAMS).index(name))
    found = [
        (cause.kind, cause.subject, cause.was, cause.now, cause.line, each.expected)
        for each in recompiles
        for cause in each.causes
    ]
    assert found == PROGRAMS[name][1]


def test_torchs_first_reasons_are_among_ours(session: Session) -> None:
    assert session.problems == ()
