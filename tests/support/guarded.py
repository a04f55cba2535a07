"""Handmade sessions with guards, for screens and reports."""

from msgspec.structs import replace

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.guard_facts import Duration, GuardCost, GuardText, KindCost, LeftOut, PartCost
from ctrace.inspector.facts.session import Compilation, Environment, Graph, Scenario, Session, Target

CWD = "/home/user/project"
MODEL = f"{CWD}/model.py"
HOSTILE_TEXT = "\x1b[31mred\x1b[0m \u202egnitirw"

_KEYS = "DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU)"


def _node(depth: int, source: str, kind: str = "int") -> str:
    return f"{'| ' * depth}+- GuardManager: source={source}, type=<class '{kind}'>, tag_safe=(False, False)\n"


def _leaf(depth: int, kind: str, code: str) -> str:
    return f"{'| ' * depth}+- {kind}: {code}\n"


def _tensor(depth: int, source: str, kind: str = "Tensor", size: str = "4, None", stride: str = "None, 1") -> str:
    guard = f"check_tensor({source}, {kind}, {_KEYS}, torch.float32, device=None, requires_grad={kind != 'Tensor'}, "
    return _node(depth, source, "torch.Tensor") + _leaf(
        depth + 1, "TENSOR_MATCH", f"{guard}size=[{size}], stride=[{stride}])"
    )


def _block(number: int) -> str:
    name = f"L['self']._modules['blocks']._modules['{number}']"
    checked = _leaf(4, "TYPE_MATCH", f"___check_type_id({name}, 93), type=<class 'model.Block'>")
    weight = _tensor(4, f"{name}._parameters['weight']", "Parameter", "4, 4", "4, 1")
    return _node(3, name, "model.Block") + checked + weight


def _tree(name: str = "step") -> str:
    return "".join(
        (
            "+- RootGuardManager\n",
            _leaf(1, "GLOBAL_STATE", "___check_global_state()"),
            _tensor(1, "L['x']"),
            _tensor(1, "L['images']", size="8, 3, 32, 32", stride="3072, 1, 96, 3"),
            _node(1, "L['self']", "model.Net"),
            _leaf(2, "TYPE_MATCH", "___check_type_id(L['self'], 92), type=<class 'model.Net'>"),
            _node(2, f"L['self'].{name}"),
            _leaf(3, "EQUALS_MATCH", f"L['self'].{name} == 3"),
            *map(_block, range(3)),
            _leaf(0, "LAMBDA_GUARD", "2 <= L['x'].size()[1]"),
            "\nGuard latency = 87.50 us\n",
        )
    )


_LINES = (None, 9, 9, 9, 9, 12, 12, 13, 13, 13, 13, 9)
"""The model's line that created each guard of the tree."""


def _text(tree: str) -> GuardText:
    stacks = tuple(None if line is None else (Frame(MODEL, line, "forward"),) for line in _LINES)
    return GuardText(tree, stacks, (LeftOut("EMPTY_NN_MODULE_HOOKS_DICT", "torch._dynamo.config.skip", 6),), _COST)


_COST = GuardCost(
    cold=80.0,
    warm=6.0,
    plain=Duration(79.0, 6.1),
    root=Duration(30.0, 1.0),
    epilogue=0.5,
    parts=(
        PartCost("L['x']", 0, 1, 9.0, 0.5),
        PartCost("L['self']", 0, 8, 36.0, 4.0),
        PartCost("L['self']._modules['blocks']", 1, 6, 20.0, 3.0),
        PartCost("", 1, 1, -0.5, 0.1),
    ),
    kinds=(KindCost("TENSOR_MATCH", 5, 1.5), KindCost("LAMBDA_GUARD", 1, 0.25)),
)


def _session(text: GuardText) -> Session:
    made = [
        Compilation(f"0/{number}", "forward", MODEL, 8, guards=40, scenario="base", call=number) for number in range(2)
    ]
    return Session(
        environment=Environment("0.1.0", "2.13.0", "3.7.1", "3.11.7", "cpu", "eager", cwd=CWD),
        target=Target("model.py", "model"),
        scenarios=(Scenario("base", 2, call_seconds=0.0004),),
        compilations=tuple(made),
        graphs=tuple(Graph(each.id, "forward", MODEL, 8, 12) for each in made),
        guards={"0/0": text, "0/1": replace(text, cost=None, body=text.text.replace("87.50", "60.00"))},
        listings={MODEL: "\n".join(["", *(f"line {number}" for number in range(2, 20))])},
    )


GUARDED = _session(_text(_tree()))
UNREAD = _session(GuardText(f"{_tree()}+- something else\n", ((Frame(MODEL, 9, "forward"),),)))
"""An unknown line, and places that do not match the text."""
HOSTILE = _session(_text(_tree(HOSTILE_TEXT)))
