"""Constructs with an exact replacement, kinds of integers, and advice that contradicts the run."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import diagnose
from ctrace.inspector.diagnosis.diagnosis_scene import Candidate
from ctrace.inspector.diagnosis.preconditions import contradiction, is_edit_of_library
from ctrace.inspector.diagnosis.rules import construct_rules
from ctrace.inspector.facts.findings import CacheUse, Cause, CauseKind, Limit, Recompile
from ctrace.inspector.facts.session import Environment, Session
from ctrace.inspector.facts.trial import Trial
from tests.inspector.diagnosis.scenes import FILE, LIBRARY, broken, edited, ran, scene

VARIABLE = """import torch
from torch.autograd import Variable

def forward(x, y):
    h = Variable(torch.zeros(2, 4).cuda(), requires_grad=False)
    c = Variable(x + y)
    w = Variable(torch.ones(2), requires_grad=True)
    return x + h + c
"""


def test_a_variable_is_its_tensor_detached():
    (found,) = construct_rules.variables(scene(ran(VARIABLE, broken(5, "GB0007", called=""))))
    assert found.text.startswith(
        "net.py:5: remove Variable (2 places), which Dynamo does not trace: write `torch.zeros"
    )
    assert edited(found) == ["h = torch.zeros(2, 4).cuda()", "c = (x + y).detach()"]


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("import torch", "torch.autograd.Variable"),
        ("from torch import autograd", "autograd.Variable"),
        ("import torch.autograd as ag", "ag.Variable"),
        ("import torch as th", "th.autograd.Variable"),
        ("from torch.autograd import Variable as V", "V"),
    ],
)
def test_a_variable_is_found_by_what_was_imported(head: str, name: str):
    (found,) = construct_rules.variables(
        scene(ran(f"{head}\ndef forward(x):\n    return {name}(x)", broken(3, "GB0007")))
    )
    assert edited(found) == ["return x.detach()"]


@pytest.mark.parametrize("call", ["Variable(x, requires_grad=True)", "Variable(*x)", "nn.Variable(x)"])
def test_no_other_variable_is_removed(call: str):
    text = f"from torch.autograd import Variable\ndef forward(x):\n    return {call}"
    assert not list(construct_rules.variables(scene(ran(text, broken(3, "GB0007")))))


def test_a_condition_on_a_dynamic_size_becomes_a_bool():
    reason = "scaled_dot_product_attention(): argument 'is_causal' must be bool, not SymBool"
    text = "def forward(q, T):\n    return sdpa(q, q, q, is_causal=T > 1)"
    (found,) = construct_rules.symbolic_conditions(scene(ran(text, broken(2, "GB0112", reason=reason))))
    assert edited(found) == ["return sdpa(q, q, q, is_causal=(True if T > 1 else False))"]
    other = broken(2, "GB0112", reason="argument 'mode' must be str, not SymInt")
    assert not list(construct_rules.symbolic_conditions(scene(ran(text, other))))


NET = """import torch
class Net(torch.nn.Module):
    def forward(self, x):
        {0}
        return x * self.n
"""


def recompiled(statement: str, file: str = FILE) -> Session:
    cause = Cause(CauseKind.ATTRIBUTE_VALUE, "self.n", "4", "8", 5, file=file, fix="The table's advice.")
    made = Recompile("0/1", "forward", file, 3, False, (cause,), "", nearest="0/0")
    return Session(recompiles=(made,), listings={file: NET.format(statement)})


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("self.n = self.n + 1", "self.n in a buffer"),
        ("self.n = x.shape[0]", "self.n holds a size of a tensor (`x.shape[0]`), which changes from call to call"),
        ("self.n = len(x)", "or use `len(x)` itself"),
        ("self.n += x.size(1)", "self.n adds up lengths (`x.size(1)`)"),
        ("self.n = pick(x)", "self.n changes from call to call"),
        ("pass", "self.n changes from call to call"),
    ],
)
def test_what_an_integer_holds_is_named(statement: str, said: str):
    texts = [each.text for each in diagnose(recompiled(statement)).advice]
    assert said in texts[0]
    assert ("buffer" in texts[0]) == (statement == "self.n = self.n + 1")


@pytest.mark.parametrize("statement", ["self.n = self.n + 1", "pass"])
def test_nobody_is_told_to_change_the_attributes_of_a_package(statement: str):
    (found,) = diagnose(recompiled(statement, LIBRARY)).advice
    assert "buffer" not in found.text
    assert found.text.endswith(
        "allow_unspec_int_on_nn_module = True (kit: patch it from your code, or report it there)."
    )
    on = Environment(settings={"allow_unspec_int_on_nn_module": True})
    (left,) = diagnose(replace(recompiled(statement, LIBRARY), environment=on)).advice
    assert left.text == "net.py:5: Not known what to change: self.n changed: 4 → 8, in code of kit."


RUN = Session(environment=Environment(settings={"capture_scalar_outputs": True, "assume_static_by_default": False}))


@pytest.mark.parametrize(
    ("text", "trial"),
    [
        ("Set torch._dynamo.config.capture_scalar_outputs = True.", None),
        ("Compile with dynamic=True, which makes the float dynamic.", None),
        ("Make the size dynamic.", Trial(dynamic=True)),
        ("Keep numbers.", Trial(settings=(("capture_scalar_outputs", True),))),
        ("Call torch._dynamo.mark_dynamic(x, 0) before the first call.", None),
    ],
)
def test_advice_that_is_followed_already_is_not_printed(text: str, trial: Trial | None):
    offered = Candidate(text, (), trial)
    assert contradiction(offered, scene(RUN))
    assert not contradiction(offered, scene(Session())), "a log without settings contradicts nothing"


def test_nothing_to_change_contradicts_a_limit_that_was_hit():
    run = recompiled("pass")
    (cause,) = scene(run).causes
    offered = Candidate("Nothing to change if you need both values.", (cause.id,), is_no_change=True)
    assert not contradiction(offered, scene(run))
    hit = replace(run, limit=Limit(hit=True, functions=(CacheUse("forward", 8, 8, "0", refused=True),)))
    assert contradiction(offered, scene(hit))


def test_a_new_leaf_amid_the_graph_is_the_tensor_itself():
    text = VARIABLE.replace("torch.ones(2)", "(x * 2).sum()")
    (found,) = construct_rules.new_leaves(scene(ran(text, broken(7, "GB0007", called=""))))
    assert found.text.startswith("net.py:7: use `(x * 2).sum()` itself, unless its gradient has to end here")
    assert edited(found) == ["w = ((x * 2).sum())"]


def test_a_leaf_that_is_new_anyway_is_kept():
    assert not list(construct_rules.new_leaves(scene(ran(VARIABLE, broken(7, "GB0007", called="")))))


def test_requires_grad_is_not_set_in_compiled_code():
    text = "import torch\ndef forward(self, mask):\n    mask.requires_grad = False\n    return mask"
    (found,) = construct_rules.detached(scene(ran(text, broken(3, "GB0206", called=""))))
    assert edited(found) == ["mask = mask.detach()"]
    assert not list(construct_rules.detached(scene(ran(text.replace("False", "True"), broken(3, "GB0206", called="")))))


def test_all_lines_of_a_cause_are_rewritten_in_one_trial():
    """One alone leaves the break at the other, and so no count changes."""
    text = (
        "import torch\ndef forward(self, a, b):\n    a.requires_grad = False\n    b.requires_grad = False\n    return a"
    )
    run = ran(text, *(broken(line, "GB0206", called="") for line in (3, 4)))
    joined = replace(scene(run).causes[0], symptoms=tuple(one for each in scene(run).causes for one in each.symptoms))
    (found,) = construct_rules.detached(replace(scene(run), causes=(joined,)))
    assert edited(found) == ["a = a.detach()", "b = b.detach()"]
    assert found.text.startswith("net.py:3: write `a = a.detach()`")
    assert found.text.endswith("The same at net.py:4.")


def test_a_private_function_of_torch_has_a_public_name():
    text = "import torch\ndef forward(self, x):\n    return x if torch._C._is_tracing() else x.sin()"
    (found,) = construct_rules.public_names(scene(ran(text, broken(3, "GB0208", called=""))))
    assert edited(found) == ["return x if torch.jit.is_tracing() else x.sin()"]
    other = text.replace("_is_tracing()", "_get_default_device()")
    assert not list(construct_rules.public_names(scene(ran(other, broken(3, "GB0208", called="")))))


def test_a_tensor_is_created_without_requires_grad():
    text = "import torch\ndef forward(self, x):\n    loss = torch.tensor([0.5], dtype=x.dtype, requires_grad=True)"
    (found,) = construct_rules.made_with_gradients(scene(ran(text, broken(3, "GB0225", called=""))))
    assert edited(found) == ["loss = torch.tensor([0.5], dtype=x.dtype)"]
    assert not list(construct_rules.made_with_gradients(scene(ran(text, broken(3, "GB0007", called="")))))


def test_a_created_tensor_keeps_its_other_arguments():
    text = "import torch\ndef forward(x, kw):\n    return torch.zeros(3, dtype=x.dtype, **kw, requires_grad=True)"
    (found,) = construct_rules.made_with_gradients(scene(ran(text, broken(3, "GB0225", called=""))))
    assert edited(found) == ["return torch.zeros(3, dtype=x.dtype, **kw)"]


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("target = target.squeeze_()", "target = target.squeeze()"),
        ("target.unsqueeze_(0)", "target = target.unsqueeze(0)"),
        ("t = target.transpose_(0, 1)", "t = target = target.transpose(0, 1)"),
    ],
)
def test_a_new_view_takes_the_place_of_one_in_place(line: str, new: str):
    text = f"import torch\ndef forward(self, target):\n    {line}\n    return target"
    (found,) = construct_rules.new_views(scene(ran(text, broken(3, "GB0148", called=""))))
    assert edited(found) == [new]
    assert not list(construct_rules.new_views(scene(ran(text, broken(3, "GB0007", called="")))))


@pytest.mark.parametrize("line", ["f(target.squeeze_())", "self.x.squeeze_()", "target.__init__()", "x = target.T"])
def test_another_statement_stays(line: str):
    text = f"import torch\ndef forward(self, target):\n    {line}\n    return target"
    assert not list(construct_rules.new_views(scene(ran(text, broken(3, "GB0148", called="")))))


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("nn.MSELoss(size_average=False)(y, t)", 'nn.MSELoss(reduction="sum")(y, t)'),
        ("nn.MSELoss(size_average=0)(y, t)", 'nn.MSELoss(reduction="sum")(y, t)'),
        ("F.l1_loss(y, t, size_average=True)", 'F.l1_loss(y, t, reduction="mean")'),
        ("F.nll_loss(y, t, ignore_index=0, reduce=False)", 'F.nll_loss(y, t, ignore_index=0, reduction="none")'),
        ("F.kl_div(y, t, None, reduce=None, size_average=False)", 'F.kl_div(y, t, None, reduction="sum")'),
        ('F.mse_loss(y, t, size_average=False, reduction="none")', 'F.mse_loss(y, t, reduction="sum")'),
    ],
)
def test_reduction_takes_the_place_of_old_names(line: str, new: str):
    text = f"from torch import nn\ndef forward(self, y, t):\n    return {line}"
    (found,) = construct_rules.old_reductions(scene(ran(text, broken(3, "GB0208", called=""))))
    assert edited(found) == [f"return {new}"]
    assert not list(construct_rules.old_reductions(scene(ran(text, broken(3, "GB0007", called="")))))


@pytest.mark.parametrize(
    "line", ["F.mse_loss(y, t, size_average=self.mean)", "F.mse_loss(y, t)", "torch.get_rng_state()"]
)
def test_a_reduction_that_is_not_written_down_stays(line: str):
    text = f"from torch import nn\ndef forward(self, y, t):\n    return {line}"
    assert not list(construct_rules.old_reductions(scene(ran(text, broken(3, "GB0208", called="")))))


class TestEditOfLibrary:
    def test_it_is_no_advice_unless_a_trial_confirmed_it(self):
        text = (
            "import torch\ndef forward(x):\n    n = x.max().item()\n    if n > 3:\n        return x\n    return x + n"
        )
        run = ran(text, broken(3, file=LIBRARY, expression="x.max().item()"), file=LIBRARY)
        assert "Not known" in diagnose(run).advice[0].text

    @pytest.mark.parametrize(
        ("words", "file", "expected"),
        [
            ("net.py:3: patch this line", LIBRARY, True),
            ("net.py:3: patch this line", FILE, False),
            ("Pass the mask in each call", LIBRARY, False),
        ],
    )
    def test_which_advice_it_is(self, words: str, file: str, expected: bool):
        run = scene(ran("import torch\n\nx.item()", broken(3, file=file), file=file))
        ids = tuple(each.id for each in run.causes)
        assert is_edit_of_library(Candidate(words, ids), run) is expected

    def test_a_setting_is_for_the_caller(self):
        run = scene(ran("import torch\n\nx.item()", broken(3, file=LIBRARY), file=LIBRARY))
        setting = Candidate("net.py:3: set it", tuple(each.id for each in run.causes), Trial(settings=(("a", True),)))
        assert not is_edit_of_library(setting, run)


SCRIPTED = """import torch

class Block(torch.jit.ScriptModule):
    @torch.jit.script_method
    def forward(self, x):
        return x + 1

@torch.jit.script
def scaled(x):
    return x * 2

body = torch.jit.freeze(torch.jit.script(Block()))
head = torch.jit.script(torch.nn.ReLU())

def forward(x):
    return head(x)
"""


def test_a_module_for_torchscript_is_offered_as_it_is():
    (found,) = construct_rules.torchscript(scene(ran(SCRIPTED, broken(16, "GB4695"))))
    # Dynamo traces a function for TorchScript.
    assert edited(found) == [
        "class Block(torch.nn.Module):",
        "body = Block()",
        "head = torch.nn.ReLU()",
        "",
    ]
    assert found.text.startswith(
        "net.py:3: derive from torch.nn.Module instead of torch.jit.ScriptModule, and remove `@"
    )
    assert not list(construct_rules.torchscript(scene(ran(SCRIPTED, broken(16)))))
    assert not list(construct_rules.torchscript(scene(ran(VARIABLE, broken(5, "GB4695")))))
