"""Advice on settings of torch, which a trial decides."""

from ctrace.inspector.diagnosis.advise import diagnose, trials
from ctrace.inspector.diagnosis.rules import option_rules, output_rules
from ctrace.inspector.facts.findings import Advice, Frame
from ctrace.inspector.facts.trial import Trial
from tests.inspector.diagnosis.scenes import FILE, LIBRARY, broken, edited, ran, scene

TEXT = "import torch\ndef forward(x):\n    return torch.autograd.grad(x.sum(), x)"
NESTED = Trial(settings=(("nested_graph_breaks", True),))


def switched(switch: str):
    return scene(ran(TEXT, broken(3, "GB9186", called="", advice=Advice(switch=switch))))


def test_a_setting_that_the_tables_name_is_tried():
    (found,) = option_rules.torchs_options(switched("torch._dynamo.config.trace_autograd_ops = True"))
    assert found.trial == Trial(settings=(("trace_autograd_ops", True),))
    assert found.only_checked
    assert found.text == "net.py:3: set torch._dynamo.config.trace_autograd_ops = True: Dynamo then traces it."


def test_a_limit_is_never_raised_and_other_rules_offer_their_settings():
    assert not list(option_rules.torchs_options(switched("torch._dynamo.config.recompile_limit = 16")))
    assert not list(option_rules.torchs_options(switched("torch._dynamo.config.capture_scalar_outputs = True")))


def test_nested_breaks_are_tried_where_a_called_function_breaks():
    deep = ((Frame(FILE, 3, "forward"), Frame(LIBRARY, 9, "step")),)
    assert [each.trial for each in option_rules.nested_breaks(scene(ran(TEXT, broken(3, paths=deep))))] == [NESTED]
    flat = ((Frame(FILE, 3, "forward"),),)
    assert not list(option_rules.nested_breaks(scene(ran(TEXT, broken(3, paths=flat)))))


def test_the_warning_of_a_library_is_dropped():
    place = Frame(LIBRARY, 71, "_warn")
    run = ran(TEXT, broken(3, "GB0007", called="module: _warnings, qualname: warn, skip reason: none", inside=place))
    (found,) = output_rules.warnings_of_libraries(scene(run))
    assert found.trial == Trial(ignored=("warnings:warn",))
    assert not list(
        output_rules.warnings_of_libraries(scene(ran(TEXT, broken(3, "GB0007", called="module: _warnings"))))
    )


def test_what_works_around_a_break_is_tried_before_a_combination_of_what_changed_nothing():
    deep = ((Frame(FILE, 3, "forward"), Frame(LIBRARY, 9, "step")),)
    text = "import torch\ndef forward(x):\n    y = x.max().item()\n    return y + 1"
    run = ran(text, broken(3, paths=deep))
    tried = [each.trial for each in trials(run, lambda _trial, _backend: run)]
    assert NESTED in tried
    assert diagnose(run).advice


def test_filters_of_warnings_are_set_before_the_call():
    text = 'import warnings\ndef forward(x):\n    warnings.simplefilter("ignore")\n    return x'
    (found,) = output_rules.filters(scene(ran(text, broken(3, "GB0007"))))
    assert found.trial is not None
    assert [edit.text for edit in found.trial.edits] == ["    pass"]
    assert found.text == (
        'net.py:3: remove `warnings.simplefilter("ignore")`, and call it once before the compiled model is called.'
    )
    assert not list(output_rules.filters(scene(ran(text.replace("simplefilter", "warn"), broken(3, "GB0007")))))


CLOCK = """import time
import torch

def forward(self, x):
    began = time.time()
    x = x + 1
    self.times.append(time.time() - began)
    return x
"""


def test_clocks_are_read_in_eager_only_all_of_the_function():
    (found,) = output_rules.clocks(scene(ran(CLOCK, broken(5, "GB0007", construct="clock"))))
    eager = "(0.0 if torch.compiler.is_compiling() else time.time())"
    assert edited(found) == [f"began = {eager}", f"self.times.append({eager} - began)"]
    assert "net.py:5: remove the clock, or read it in eager only, also at line 7" in found.text
    assert found.only_checked


def test_a_counter_of_a_class_counts_in_eager_only():
    text = "import torch\n\nclass Clip(torch.autograd.Function):\n    def forward(ctx, x):\n        Clip.calls += 1\n"
    (found,) = output_rules.counters(scene(ran(text, broken(5, "GB4841"))))
    assert found.trial is not None
    assert [each.text.strip() for each in found.trial.edits] == [
        "if not torch.compiler.is_compiling(): Clip.calls += 1"
    ]
    other = text.replace("Clip.calls += 1", "self.calls += 1")
    assert not list(output_rules.counters(scene(ran(other, broken(5, "GB4841")))))
