"""Code that several modules or functions share is compiled once for each of them."""

import pytest

from ctrace.inspector.diagnosis.root_causes import root_causes
from ctrace.inspector.facts.diagnosis import RootKind
from ctrace.inspector.facts.findings import Recompile
from ctrace.inspector.findings.recompiles.recompile_view import Outlook, groups
from tests.support.helpers import MODEL, Log, unmet

SOURCE = """\
class Net:
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

class Layer:
    def forward(self, x):
        print(x)
        return x * self.heads
"""


def layers(*objects: str | None, guard: str = "L['self'].heads == 2") -> Log:
    """Compile the same code for each object, all in one call."""
    log = Log().started().listing(SOURCE).ctrace("call", {"scenario": "base", "index": 0})
    for number, of_object in enumerate(objects):
        at = f"1/{number}"
        if number:
            log.recompile(at, unmet(guard, entry=f"1/{number - 1}", now=str(2 + number)))
        log.compiled(at, line=8)
        log.ctrace("guards", {"stacks": [], "lines": [], "object": of_object}, at=at)
    return log


def only(log: Log) -> Recompile:
    (found,) = log.session().recompiles
    return found


def test_modules_of_one_class_share_their_code():
    found = only(layers("Layer 0", "Layer 1"))
    assert found.shared_by == "Layer modules"
    assert "differ in self.heads" in found.causes[0].reason
    assert found.causes[0].fix == ""
    assert groups(layers("Layer 0", "Layer 1").session())[0].prospect.outlook is Outlook.FINITE


@pytest.mark.parametrize("objects", [("Layer 0", "Layer 0"), (None, "Layer 0"), ("Layer 0", None)])
def test_a_module_that_changes_shares_nothing(objects: tuple[str | None, str | None]):
    assert only(layers(*objects)).shared_by == ""


def test_an_input_of_another_module_that_changes_is_no_sharing():
    assert only(layers("Layer 0", "Layer 1", guard="L['n'] == 2")).shared_by == ""


def test_a_wider_layer_gets_a_wider_tensor():
    guard = "tensor 'x' size mismatch at index 1. expected 2, actual 3"
    log = layers("Layer 0", "Layer 1", guard=guard)
    assert only(log).shared_by == "Layer modules"
    assert root_causes(log.session())[0].title == (
        "forward of Layer modules is compiled once for each of 2 values of x.size(1): 2, 3"
    )
    later = Log().started().listing(SOURCE).compiled("1/0", line=8)
    later.ctrace("guards", {"stacks": [], "lines": [], "object": "Layer 0"}, at="1/0")
    later.ctrace("call", {"scenario": "base", "index": 1}).recompile("1/1", unmet(guard, entry="1/0", now="3"))
    later.compiled("1/1", line=8)
    later.ctrace("guards", {"stacks": [], "lines": [], "object": "Layer 1"}, at="1/1")
    assert only(later).shared_by == ""


@pytest.mark.parametrize(
    ("receiver", "shared"), [("s", "Layer modules"), ("self", "")], ids=["of the module", "of another argument"]
)
def test_hooks_of_another_module_differ_and_nothing_changed_over_time(receiver: str, shared: str):
    """FSDP2 over tensor parallelism: hook ids of two layers differ, and the first layer's input needs no gradient."""
    log = Log().started().listing(SOURCE).compiled("1/0", line=8)
    log.ctrace("guards", {"stacks": [], "lines": [], "object": "Layer 0", "receiver": receiver}, at="1/0")
    hooks = "L['s']._modules['up']._forward_pre_hooks"
    guards = (
        "tensor 'L['x']' requires_grad mismatch. expected False, actual True",
        "getattr failed on source L['s']._modules['up']._forward_hooks[3]",
        f"{hooks}[list(dict.keys({hooks}))[0]].__closure__[0].cell_contents is L['s'].weight.device_mesh",
    )
    log.recompile("1/1", unmet(*guards, entry="1/0")).compiled("1/1", line=8)
    log.ctrace("guards", {"stacks": [], "lines": [], "object": "Layer 1", "receiver": receiver}, at="1/1")
    assert only(log).shared_by == shared
    assert any(cause.fix == "" for cause in only(log).causes) is bool(shared)
    if shared:  # what the hooks hold is torch's, and says nothing to the user
        title = "forward of Layer modules is compiled once for each of 2 values of x.requires_grad: False, True"
        assert root_causes(log.session())[0].title == title


def test_objects_of_one_call_share_a_function():
    log = layers(None, None, guard="___check_obj_id(L['fn'], 123), type=<class 'function'>")
    assert only(log).shared_by == "calls"


def test_a_number_may_be_counted_up_within_a_call():
    assert only(layers(None, None, guard="L['n'] == 2")).shared_by == ""


def test_the_title_says_what_is_shared():
    (cause,) = root_causes(layers("Layer 0", "Layer 1", "Layer 2").session())
    assert cause.title == "forward of Layer modules is compiled once for each of 3 values of self.heads: 2, 3, 4"


def test_a_break_that_makes_each_layer_a_frame_leads():
    log = layers("Layer 0", "Layer 1")
    frames = ((MODEL, 4, "forward", "x = layer(x)"), (MODEL, 9, "forward", "print(x)"))
    (cause,) = root_causes(log.compiled("0/0", line=2).breaks("0/0", frames=frames).session())
    assert cause.kind is RootKind.OUTPUT
    assert cause.detail.startswith("Because of the break, forward of Layer modules is compiled once for each of 2")


def test_a_function_that_was_traced_again_without_ops_recompiled() -> None:
    log = (
        Log()
        .started()
        .compiled("0/0")
        .bytecode("0/0")
        .recompile("0/1", unmet("L['n'] == 2"))
        .frame("0/1")
        .metrics("0/1")
    )
    assert [each.compilation for each in log.session().recompiles] == ["0/1"]
