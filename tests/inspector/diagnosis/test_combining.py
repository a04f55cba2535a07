"""Several changes in one trial, if no single one is enough."""

from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import combined, diagnose, trials
from ctrace.inspector.diagnosis.rules import numbers, option_rules, shape_rules, value_rules
from ctrace.inspector.edits.line_edits import is_disjoint
from ctrace.inspector.facts.diagnosis import Counts
from ctrace.inspector.facts.trial import LineEdit
from tests.inspector.diagnosis.scenes import FILE, LIBRARY, broken, edited, ran, scene, with_trial

TEXT = """\
import torch
import numpy as np
def forward(self, x):
    size = np.lcm(self.a, self.b)
    if x.shape[0] % size:
        x = x[1:]
    top = x.max().item()
    return x[:top]"""


def reports(trial):
    """Return a run that only both changes together improve."""
    left = [] if trial.edits and trial.settings else [broken(5, "GB0170"), broken(7)]
    return ran(TEXT, *left)


def test_what_helps_only_together_is_tried_together():
    run = ran(TEXT, broken(5, "GB0170"), broken(7))
    done = tuple(trials(run, lambda trial, _backend: reports(trial)))
    assert len(done) == 3
    assert done[-1].trial.settings == value_rules.SCALARS.settings
    assert any("math.lcm(self.a, self.b)" in edit.text for edit in done[-1].trial.edits)
    (advice,) = diagnose(replace(run, trials=done)).advice
    assert advice.checked
    assert advice.text == (
        "Together: use Python's math.lcm() for np.lcm() at net.py:4; "
        "and set torch._dynamo.config.capture_scalar_outputs = True."
    )


def test_what_raised_is_not_combined():
    run = ran(TEXT, broken(5, "GB0170"), broken(7))
    assert list(combined(scene(run), candidates(run)))
    raised = with_trial(run, value_rules.SCALARS, None)
    assert not list(combined(scene(raised), candidates(raised)))


def test_a_setting_is_named_once():
    run = ran("import torch\ndef forward(x):\n    y = x.nonzero()\n    return y[: x.max().item()]", *SIZES)
    offered = [*shape_rules.data_dependent_shapes(scene(run)), *value_rules.numbers(scene(run))]
    assert not list(combined(scene(run), offered))


SIZES = (broken(3, "GB0036"), broken(4))


def candidates(run):
    return [*numbers.numpy_on_numbers(scene(run)), *value_rules.numbers(scene(run))]


def test_one_change_that_is_as_good_comes_first():
    run = ran(TEXT, broken(5, "GB0170"), broken(7))
    single = next(each for each in trials(run, lambda _trial, _backend: run) if each.trial.edits)
    done = tuple(trials(run, lambda _trial, _backend: run))
    counts = Counts(1, 1, 0, 90.0)
    known = tuple(replace(each, counts=counts, breaks=(f"{FILE}:7",)) for each in done if each.trial.edits)
    text = diagnose(replace(run, trials=known)).advice[0].text
    assert single.trial.edits
    assert not text.startswith("Together")


def test_changes_of_one_line_are_not_combined():
    edit = LineEdit(FILE, 3, "pass")
    assert not is_disjoint([edit], [LineEdit(FILE, 3, "return")])
    assert is_disjoint([edit], [LineEdit(FILE, 4, "pass"), LineEdit(LIBRARY, 3, "pass")])


LIBRARY_TEXT = """\
import torch
class Hash:
    def forward(self, x):
        if self.hash_seed is not None:
            torch.manual_seed(self.hash_seed)
        if self.training:
            torch.manual_seed(1)
        return x"""


def test_an_option_that_a_statement_depends_on_is_named():
    run = ran(LIBRARY_TEXT, broken(5, "GB0007", file=LIBRARY), broken(7, "GB0007", file=LIBRARY), file=LIBRARY)
    (found,) = option_rules.optional_statements(scene(run))
    assert "pass hash_seed=None to the model or its config" in found.text
    assert edited(found) == ["if False:"]
    mine = ran(LIBRARY_TEXT, broken(5, "GB0007"))
    assert not list(option_rules.optional_statements(scene(mine)))
