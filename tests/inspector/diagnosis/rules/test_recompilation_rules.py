import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import diagnose, trials
from ctrace.inspector.diagnosis.rules.counter_rules import buffers
from ctrace.inspector.facts.diagnosis import Counts
from ctrace.inspector.facts.findings import Break, BreakKind, Cause, CauseKind, Frame, Owner, Recompile
from ctrace.inspector.facts.guard_facts import GuardText
from ctrace.inspector.facts.kernel_facts import Kernel, Stage
from ctrace.inspector.facts.scenario_facts import Outcome
from ctrace.inspector.facts.session import Failure, FailurePhase, Graph, Scenario, Session
from ctrace.inspector.facts.shape_facts import (
    ConditionKind,
    Dimension,
    DimKind,
    DimPolicy,
    Shaped,
    ShapedTensor,
    SizeCondition,
)
from ctrace.inspector.facts.trial import UNCHANGED, LaterCalls, Marked, Trial, Tried
from ctrace.inspector.features.fix.repairs.repair_model import RepairPlace
from tests.inspector.diagnosis.scenes import scene
from tests.support.explained import explain_markdown, screen_of
from tests.support.golden import drawn
from tests.support.repaired import REPAIRS

FILE = "/home/user/model.py"


def recompile(*causes, entry=1, nearest=0, **about):
    return Recompile(f"0/{entry}", "forward", FILE, 3, False, causes, nearest=f"0/{nearest}", **about)


def dim(index, size, kind=DimKind.STATIC, policy=DimPolicy.NOT_VARIED, **about):
    return Dimension(index, str(size), kind, policy, **about)


def tensor(source, *sizes, name=None, role="input", dims=None):
    made = dims or tuple(dim(index, size) for index, size in enumerate(sizes))
    return ShapedTensor(source, name or source.removeprefix("L['").replace("']", "", 1), "float32", role, made)


def shaped(entry, *tensors, **about):
    return Shaped(f"0/{entry}", "forward", FILE, 3, tensors, **about)


def session(*recompiles, **about):
    graphs = tuple(Graph(f"0/{n}", "forward", FILE, 3, 1) for n in range(len(recompiles) + 1))
    return Session(recompiles=recompiles, graphs=graphs, **about)


def first(found):
    advice = diagnose(found).advice
    return advice[0].text if advice else ""


def cache(entry, length, tokens=1):
    kept = [tensor(f"L['past'].layers[0].{name}", 1, 2, length, 16) for name in ("keys", "values")]
    return shaped(entry, tensor("L['ids']", 1, tokens), *(kept if length else []))


def test_a_cache_that_grows_asks_for_one_of_fixed_size():
    prefill = recompile(Cause(CauseKind.ZERO_ONE, "ids.size(1)", "4", "1"))
    longer = recompile(Cause(CauseKind.SIZE, "past.layers[0].keys.size(2)", "4", "5", is_open=True), entry=2, nearest=1)
    found = session(prefill, longer, shapes=(cache(0, 0, 4), cache(1, 4), cache(2, 5)))
    assert first(found).startswith("Preallocate the cache")
    assert "Prefill and decode" in first(found)
    assert len(diagnose(found).causes) == 1
    manager = "+- GuardManager: source=L['past'], accessed_by=X, type=<class '{}'>, tag_safe=(False, False)"
    for kind, words in (("transformers.cache_utils.DynamicCache", "StaticCache"), ("net.Cache", "Preallocate")):
        assert words in first(replace(found, guards={"0/0": GuardText(manager.format(kind))}))


def test_caches_that_are_plain_arguments_count_too():
    def step(entry, length):
        return shaped(entry, tensor("L['x']", 2, 1, 8), tensor("L['k']", 2, length, 8), tensor("L['v']", 2, length, 8))

    grown = recompile(
        Cause(CauseKind.SIZE, "k.size(1)", "4", "5", is_open=True), Cause(CauseKind.SIZE, "v.size(1)", "4", "5")
    )
    assert "Preallocate" in first(session(grown, shapes=(step(0, 4), step(1, 5))))


def test_a_longer_batch_is_no_cache():
    def call(entry, length):
        return shaped(entry, tensor("L['ids']", 2, length), tensor("L['mask']", 2, length))

    grown = recompile(
        Cause(CauseKind.SIZE, "ids.size(1)", "4", "5", is_open=True), Cause(CauseKind.SIZE, "mask.size(1)", "4", "5")
    )
    assert "cache" not in first(session(grown, shapes=(call(0, 4), call(1, 5))))


def test_prefill_and_decode_with_a_static_cache_need_nothing():
    found = session(
        recompile(Cause(CauseKind.ZERO_ONE, "ids.size(1)", "4", "1")), shapes=(cache(0, 16, 4), cache(1, 16))
    )
    assert first(found).startswith("Nothing to change")
    assert diagnose(found).causes[0].expected


def test_one_token_is_no_last_batch():
    found = session(recompile(Cause(CauseKind.ZERO_ONE, "ids.size(1)", "4", "1")))
    assert "drop_last" not in first(found)


def test_a_last_batch_is_dropped_or_marked():
    short = recompile(Cause(CauseKind.SIZE, "x.size(0)", "8", "3", is_open=True))
    assert "drop_last=True" in first(session(short))
    assert "mark_dynamic(batch, 0)" in first(session(short))
    single = recompile(Cause(CauseKind.ZERO_ONE, "x.size(0)", "8", "1"))
    assert "drop_last=True" in first(session(single))
    assert "mark_dynamic" not in first(session(single))


def test_inputs_that_disagree_are_no_last_batch():
    causes = (
        Cause(CauseKind.SIZE, "x.size(0)", "8", "3", is_open=True),
        Cause(CauseKind.SIZE, "y.size(1)", "5", "6", is_open=True),
    )
    assert "drop_last" not in first(session(recompile(*causes)))
    assert "drop_last" not in first(session(recompile(Cause(CauseKind.SIZE, "x.size(0)", "3", "8", is_open=True))))


def test_a_batch_is_called_what_the_user_calls_it():
    short = recompile(Cause(CauseKind.SIZE, "x.size(0)", "8", "3", is_open=True))
    assert "mark_dynamic(x, 0)" in first(session(short, listings={FILE: "def forward(self, x):\n    return x"}))
    assert "mark_dynamic(x, 0)" not in first(session(short, listings={FILE: "def forward(self, y):\n    return y"}))


def test_a_smaller_batch_that_others_follow_is_no_last_batch():
    short = recompile(Cause(CauseKind.SIZE, "x.size(0)", "8", "3", is_open=True))
    after = recompile(Cause(CauseKind.DTYPE, "x.dtype", "float32", "float64"), entry=2, nearest=1)
    assert "drop_last" not in first(session(short, after))
    calls = tuple(Scenario(name, 2) for name in ("inputs", "small", "large"))
    small = replace(short, scenario="small", call=0)
    assert "drop_last" not in first(session(small, scenarios=calls))
    assert "drop_last" in first(session(small, scenarios=calls[:2]))


def test_a_list_that_grows_is_named():
    growing = [
        recompile(Cause(CauseKind.LENGTH, "len(self.keys)", str(n), str(n + 1)), entry=n + 1, nearest=n) for n in (0, 1)
    ]
    assert "len(self.keys) grows" in first(session(*growing))
    assert "grows" not in first(session(growing[0]))
    again = recompile(growing[0].causes[0], entry=2)
    assert "grows" not in first(session(growing[0], again))


def test_an_argument_of_other_lengths_grows_only_if_the_function_adds_to_it():
    longer = [
        recompile(Cause(CauseKind.LENGTH, "len(xs)", str(n), str(n + 1), file=FILE, line=4), entry=n, nearest=n - 1)
        for n in (1, 2)
    ]
    text = "import torch\n\ndef forward(xs):\n    {}\n    return sum(xs)\n"
    for adding in ("xs.append(xs[0] + 1)", "xs[len(xs)] = xs[0]"):
        assert "len(xs) grows" in first(session(*longer, listings={FILE: text.format(adding)}))
    assert "grows" not in first(session(*longer, listings={FILE: text.format("y = xs[0]")}))


def test_objects_with_other_numbers_of_items_are_no_list_that_grows():
    """Each call passes another tree."""
    longer = [
        recompile(
            Cause(CauseKind.LENGTH, "len(node.kids)", str(n), str(n + 1), file=FILE, line=4), entry=n + 1, nearest=n
        )
        for n in (0, 1)
    ]
    text = "import torch\n\ndef forward(x, node):\n    {}\n    return x * len(node.kids)\n"
    passed = first(session(*longer, listings={FILE: text.format("y = node.kids")}))
    assert passed.startswith("model.py:4: len(node.kids) differs between calls")
    for adding in ("node.kids.append(x)", "node.kids[x] = x", "node.kids += [x]"):
        assert "len(node.kids) grows" in first(session(*longer, listings={FILE: text.format(adding)}))


def test_a_later_change_tells_whether_a_number_becomes_dynamic():
    """At the first change of `layer`, nothing shows yet that the code compares it with numbers."""
    once = Cause(
        CauseKind.ARGUMENT_VALUE, "layer", "0", "1", fix="Compile with dynamic=True.", reason="It gets dynamic."
    )
    again = replace(once, was="1", now="2", fix="Compute with it.", reason="Your code needs the number.")
    found = session(recompile(once), recompile(again, entry=2, nearest=1))
    assert first(found).endswith(": Compute with it.")
    assert diagnose(found).causes[0].why == "Your code needs the number."


def test_what_else_changed_each_time_is_named():
    both = [
        recompile(
            Cause(CauseKind.LENGTH, "len(cache)", str(n), str(n + 1)),
            Cause(CauseKind.ATTRIBUTE_VALUE, "self.layer_idx", str(n), str(n + 1)),
            entry=n + 1,
            nearest=n,
            reason="0/1: len(cache) == 2",
        )
        for n in range(3)
    ]
    assert diagnose(session(*both)).causes[0].detail == "Changed each time, too: self.layer_idx"
    assert diagnose(session(both[0])).causes[0].detail == "torch reports: len(cache) == 2"


def test_an_object_that_a_broken_call_handed_on_belongs_to_the_break():
    """The bound method of `seen.append(float(x))` is new in each call."""
    at_float = Break(("GB0124",), BreakKind.BREAK, Owner.USER, FILE, 9, "forward", "", "", "", 1, ("0/0",))
    gone = Cause(CauseKind.IDENTITY, "the value that the broken call returned")
    after = Recompile("1/1", "forward", FILE, 9, False, (gone,), nearest="1/0")
    (cause,) = diagnose(session(after, breaks=(at_float,))).causes
    assert [each.what for each in cause.symptoms] == ["break", "recompile"]


def test_any_keyword_arguments_are_no_list_that_grows():
    extra = recompile(Cause(CauseKind.LENGTH, "len(options)", "1", "2", file=FILE, line=3))
    text = "class Net:\n    pass\ndef forward(x, **options):\n    return x\n"
    said = first(session(extra, listings={FILE: text}))
    assert said.startswith("model.py:3: pass the same keyword arguments in each call: calls with 1 and 2 of them")
    assert "keyword" not in first(session(extra, listings={FILE: text.replace("**", "")}))


LOOP = SizeCondition("x.size(1) == 5", "", ConditionKind.NUMBER, FILE, 7, "for t in range(x.shape[1]):")


def looped(source):
    fixed = dim(
        1,
        5,
        DimKind.SPECIALIZED,
        DimPolicy.AUTOMATIC,
        fixed=SizeCondition("", "", ConditionKind.NUMBER, FILE, 7, source),
    )
    shapes = (shaped(1, tensor("L['x']", dims=(dim(0, 2), fixed))),)
    again = recompile(Cause(CauseKind.SIZE, "x.size(1)", "4", "5", line=7, file=FILE, fix="general"))
    return session(again, shapes=shapes)


def test_an_unrolled_loop_is_named_by_its_line():
    text = first(looped("for t in range(x.shape[1]):"))
    assert text.startswith("model.py:7: write `for t in range(x.shape[1])` with torch._higher_order_ops.scan")
    assert "Dynamo unrolls it for each length (4, 5)" in text
    assert "unrolled" not in first(looped("y = math.log(x.shape[1])"))


def test_a_mark_that_did_not_help_is_not_offered_again():
    cause = Cause(
        CauseKind.SIZE, "x.size(1)", "4", "5", is_open=False, fix="Mark it: torch._dynamo.mark_dynamic(x, dim)"
    )
    conditions = (SizeCondition("x.size(1) % 2 == 0", "", ConditionKind.OPERATION, FILE, 9, "y = scan(x)"),)
    open_ = dim(1, 5, DimKind.SYMBOLIC, DimPolicy.AUTOMATIC, conditions=conditions)
    refuted = Tried(Trial(marked=(Marked("x", 1),)), Counts(2, 0, 1), 1.0)
    shapes = (shaped(1, tensor("L['x']", dims=(dim(0, 2), open_))),)
    before = session(recompile(cause))
    after = session(recompile(cause), shapes=shapes, trials=(refuted,))
    assert "mark_dynamic(x" in first(before)
    assert first(after).startswith("Pad to a few lengths: 1 condition on x.size(1) (first in model.py:9)")


COUNTER = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return x * self.steps
"""


def counted(text, line, subject="self.steps"):
    causes = [Cause(CauseKind.ATTRIBUTE_VALUE, subject, str(n), str(n + 1), line, file=FILE) for n in (1, 2)]
    made = [recompile(cause, entry=n, nearest=n - 1) for n, cause in enumerate(causes, 1)]
    return session(*made, listings={FILE: text})


def test_a_counter_is_tried_as_a_buffer_and_then_left_open():
    tried = []

    def attempt(trial, through_backend):
        tried.append(trial)
        return counted(COUNTER, 10)  # the buffer does not help

    list(trials(counted(COUNTER, 10), attempt))
    unchanged, edited, settings = tried
    assert unchanged == UNCHANGED, "what more calls do without a change is the measure of every trial"
    edit = edited.edits[0]
    assert (edit.line, edit.text.strip()) == (7, 'self.register_buffer("steps", torch.tensor(0), persistent=False)')
    assert settings.settings == (("allow_unspec_int_on_nn_module", True),)


@pytest.mark.parametrize("start", [0, 1, 5])
def test_the_buffer_of_a_counter_starts_where_init_starts_it_as_in_the_repair(start: int):
    text = COUNTER.replace("steps = 0", f"steps = {start}")
    (found,) = buffers(scene(counted(text, 10)))
    assert found.trial is not None
    rewrite = next(iter(REPAIRS["counter_attribute"].find(RepairPlace(FILE, text, 10, "forward"))))
    assert found.trial.edits[0].text in rewrite.source.split("\n")
    assert f"torch.tensor({start})" in found.text


def test_a_module_may_call_itself_otherwise():
    tried = []
    run = counted(COUNTER.replace("self", "net"), 10, "net.steps")

    def attempt(trial, through_backend):
        tried.append(trial)
        return run

    list(trials(run, attempt))
    assert tried[1].edits[0].text.strip() == 'net.register_buffer("steps", torch.tensor(0), persistent=False)'
    assert tried[2].settings == (("allow_unspec_int_on_nn_module", True),)


def test_a_number_that_the_caller_sets_is_left_open():
    text = COUNTER.replace("        self.steps += 1\n", "")
    assert "allow_unspec_int_on_nn_module = True" in first(counted(text, 9))


@pytest.mark.parametrize(("used", "asked"), [("1.0 / self.steps", "ZeroDivisionError"), ("self.steps / 7.0", "")])
def test_a_division_by_a_number_that_is_left_open_is_asked_about(used, asked):
    text = COUNTER.replace("        self.steps += 1\n", "").replace("x * self.steps", f"x * ({used})")
    said = first(counted(text, 9))
    assert "allow_unspec_int_on_nn_module = True" in said
    assert ("ZeroDivisionError" in said) is bool(asked)


BRANCHES = (
    "if self.steps % 2 == 0:\n            x = -x",
    "n = self.steps - 1\n        x = x if n > 3 else -x",
    "x = self.layers[self.steps](x)",
)


@pytest.mark.parametrize("branch", BRANCHES)
def test_no_buffer_is_offered_for_a_number_that_python_needs(branch):
    text = first(counted(COUNTER.replace("return x * self.steps", f"{branch}\n        return x"), 10))
    assert "buffer" not in text
    assert "allow_unspec_int_on_nn_module = True, or choose what depends on it outside of compiled code" in text


def test_no_setting_of_modules_is_offered_for_another_object():
    text = first(counted(COUNTER.replace("(torch.nn.Module)", ""), 10))
    assert "buffer" not in text
    assert "allow_unspec_int_on_nn_module" not in text


def test_the_advice_is_on_the_change_that_the_title_names():
    on = Cause(CauseKind.AUTOCAST, "autocast(cpu)_enabled", "False", "True", fix="Use autocast around every call.")
    dtype = Cause(CauseKind.AUTOCAST, "autocast(cpu)_dtype", "bfloat16", "float16", fix="Use one autocast dtype.")
    found = session(recompile(on), recompile(dtype, entry=2))
    assert diagnose(found).causes[0].title.startswith("autocast(cpu)_dtype changed")
    assert first(found).endswith("Use one autocast dtype.")


def test_a_global_of_the_program_gets_its_advice():
    fix = "Pass it as an argument."
    grown = recompile(Cause(CauseKind.GLOBAL_VALUE, "__main__.COUNT", "0", "1", line=4, file=FILE, fix=fix))
    assert first(session(grown)) == f"model.py:4: {fix}"


def test_flags_of_single_submodules_are_switched_together():
    flags = (
        Cause(CauseKind.TRAINING_MODE, "self.a.training", "True", "False"),
        Cause(CauseKind.TRAINING_MODE, "self.b.training", "False", "True"),
    )
    mixed = session(Recompile("0/1", "forward", FILE, 3, True, flags, why_expected="Both are normal."))
    assert "switch all submodules at once (self.a, self.b)" in first(mixed)
    assert not diagnose(mixed).causes[0].expected
    both = session(Recompile("0/1", "forward", FILE, 3, True, flags[:1], why_expected="Both are normal."))
    assert first(both) == ""
    assert diagnose(both).causes[0].expected


def test_an_argument_that_is_left_out_is_always_passed():
    assert "lways pass mask" in first(session(recompile(Cause(CauseKind.NONE, "mask", "None", "not None"))))
    assert "lways pass" not in first(session(recompile(Cause(CauseKind.NONE, "self.cache", "None", "not None"))))
    number = first(session(recompile(Cause(CauseKind.NONE, "top_k", "int", "None"))))
    assert number.startswith("Nothing to change if you need calls with and without top_k")
    assert "tensor" not in number
    calls = (
        shaped(0, tensor("L['kwargs']['ids']", 2, 6), tensor("L['kwargs']['attention_mask']", 2, 6)),
        shaped(1, tensor("L['kwargs']['ids']", 2, 6)),
    )
    assert "lways pass attention_mask" in first(
        session(recompile(Cause(CauseKind.LENGTH, "len(kwargs)", "2", "1")), shapes=calls)
    )


@pytest.mark.parametrize("inside", ["cache.size(1)", "cache[0][1].size(2)"])
def test_no_neutral_value_is_asked_for_where_sizes_vary_too(inside: str):
    without = recompile(Cause(CauseKind.NONE, "cache", "None", "torch.Tensor"))
    longer = recompile(Cause(CauseKind.ZERO_ONE, inside, "1", "2"), entry=2, nearest=1)
    assert first(session(without, longer)).startswith("Nothing to change: cache is None in some calls")
    other = recompile(Cause(CauseKind.ZERO_ONE, "x.size(1)", "1", "2"), entry=2, nearest=1)
    assert "lways pass cache" in first(session(without, other))


def test_the_change_that_is_in_most_recompilations_names_the_cause():
    """An optimizer's first step creates its buffers, too, but each step has another learning rate."""
    filled = Cause(CauseKind.LENGTH, "len(optimizer.state[key 0])", "0", "1")
    rates = [
        Cause(CauseKind.ATTRIBUTE_VALUE, "optimizer.param_groups[0]['lr']", *each)
        for each in (("0.4", "0.3"), ("0.3", "0.2"))
    ]
    steps = [recompile(*([filled] if n == 0 else []), rate, entry=n + 1, nearest=n) for n, rate in enumerate(rates)]
    (cause,) = diagnose(session(*steps)).causes
    assert cause.title.startswith("optimizer.param_groups[0]['lr'] changed")


def test_a_flag_is_no_reason_for_a_change():
    text = first(
        session(recompile(Cause(CauseKind.ARGUMENT_VALUE, "half", "True", "False", fix="choose with torch.where")))
    )
    assert text.startswith("Nothing to change if you need both values of half")
    assert "torch.where" not in text
    named = first(session(recompile(Cause(CauseKind.ARGUMENT_VALUE, "reduction", "'mean'", "'sum'"))))
    assert named.startswith("Nothing to change if you need both values of reduction")
    assert "request id" in named
    for value in ("'7f3a-91'", "2"):
        assert "Nothing" not in first(session(recompile(Cause(CauseKind.ARGUMENT_VALUE, "id", value, "'b'"))))
    modes = [("Mode.A", "Mode.B"), ("Mode.B", "Mode.C"), ("Mode.C", "Mode.D")]
    switched = [
        recompile(Cause(CauseKind.ARGUMENT_VALUE, "mode", *each), entry=n, nearest=n - 1)
        for n, each in enumerate(modes, 1)
    ]
    assert first(session(*switched[:1])).startswith("Nothing to change if you need both values of mode")
    assert first(session(*switched[:2])).startswith("Nothing to change if you need all values of mode")
    assert "Nothing" not in first(session(*switched))
    assert "both values" not in first(session(recompile(Cause(CauseKind.ARGUMENT_VALUE, "n", "1", "2"))))


def test_what_a_break_hands_on_is_not_for_the_user_to_change():
    fix = "Cast to one dtype before the call."
    assert fix in first(session(recompile(Cause(CauseKind.DTYPE, "x.dtype", "int64", "float32", fix=fix))))
    assert not first(session(recompile(Cause(CauseKind.DTYPE, "___stack0.dtype", "int64", "float32", fix=fix))))


def test_advice_to_change_nothing_has_no_place():
    fix = "Nothing to change, this costs one graph, once."
    assert (
        first(session(recompile(Cause(CauseKind.ZERO_ONE, "x.size(1)", "4", "1", line=7, file=FILE, fix=fix)))) == fix
    )


def test_only_inputs_that_are_one_are_cloned():
    assert "pass y.clone()" in first(session(recompile(Cause(CauseKind.ALIASING, "x is y", "False", "True"))))
    assert "clone" not in first(session(recompile(Cause(CauseKind.ALIASING, "None is None", "False", "True"))))
    assert "clone" not in first(session(recompile(Cause(CauseKind.IDENTITY, "self.act", "a", "b"))))


def test_a_learning_rate_is_kept_in_a_tensor():
    rate = recompile(Cause(CauseKind.ATTRIBUTE_VALUE, "optimizer.param_groups[0]['lr']", "0.1", "0.09", is_open=True))
    assert first(session(rate)).startswith("Pass lr=torch.tensor(0.1)")
    warm = recompile(replace(rate.causes[0], was="0.03333333333333333"))
    assert first(session(warm)).startswith("Pass lr=torch.tensor(...)")
    once = recompile(rate.causes[0], entry=1, nearest=0)
    assert first(session(replace(once, expected=True, why_expected="Once."))) == ""
    assert "torch.tensor(" not in first(
        session(recompile(Cause(CauseKind.ATTRIBUTE_VALUE, "self.scale", "0.1", "0.09")))
    )


def broken(line, source, gb="GB0000", function="step", called=""):
    path = (Frame(FILE, line, function, source),)
    return Break(
        (gb,), BreakKind.BREAK, Owner.USER, FILE, line, function, source, "", "", 1, (), (path,), called=called
    )


def test_a_training_step_is_one_cause():
    breaks = (
        broken(5, "optimizer.zero_grad()", called="Optimizer.zero_grad"),
        broken(7, "loss.backward()", "GB0123"),
        broken(9, "return loss.item()", "GB0124"),
    )
    found = diagnose(Session(breaks=breaks))
    assert [cause.kind for cause in found.causes] == ["training_step"]
    assert "compile the model (and the loss), not the whole training step" in found.advice[0].text


def test_an_optimizer_alone_is_compiled_as_it_should_be():
    found = diagnose(Session(breaks=(broken(5, "optimizer.step()", called="Optimizer.step"),)))
    assert found.causes[0].expected
    assert not found.advice


def test_a_backward_of_what_a_compiled_call_returns_is_no_training_step():
    source = "compiled(x).backward()"
    inside = Frame("/env/torch/nn/parallel/distributed.py", 1757, "_pre_forward", "self.logger.log()")
    own = broken(5, source)
    wrapper = replace(own, owner=Owner.TORCH, paths=((*own.paths[0], inside),))
    assert diagnose(Session(breaks=(own,))).causes[0].kind == "training_step"
    assert diagnose(Session(breaks=(wrapper,))).causes[0].kind != "training_step"


def test_a_whole_step_is_named_before_torchs_own_wrapper():
    breaks = (
        replace(broken(5, "optimizer.zero_grad()", called="torch.optim.Optimizer.zero_grad"), owner=Owner.TORCH),
        broken(7, "loss.backward()", "GB0123"),
    )
    assert "not the whole training step" in first(Session(breaks=breaks))
    assert first(Session(breaks=breaks[:1])) == ""


MARKED = """\
def forward(x):
    for row in range(x.shape[1]):
        x = x + row
    return x


def inputs():
    x = torch.ones(2, 6)
    torch._dynamo.mark_dynamic(x, 1)
    return (x,)
"""


def violated():
    fixed = dim(
        1,
        6,
        DimKind.SPECIALIZED,
        DimPolicy.MARKED_DYNAMIC,
        fixed=SizeCondition("", "", ConditionKind.NUMBER, FILE, 2, "for row in range(x.shape[1]):"),
    )
    failed = Shaped(
        "0/0", "forward", FILE, 1, (tensor("L['x']", dims=(dim(0, 2), fixed)),), fail_type="ConstraintViolationError"
    )
    failure = Failure(FailurePhase.RUN, "ConstraintViolationError", "Constraints violated", FILE, 2)
    return Session(failure=failure, shapes=(failed,), listings={FILE: MARKED})


def test_a_violated_mark_is_dropped():
    tried = []

    def attempt(trial, through_backend):
        tried.append(trial)
        return Session(graphs=(Graph("0/0", "forward", FILE, 1, 1),))

    done = tuple(trials(violated(), attempt))
    assert [(edit.line, edit.text) for edit in tried[0].edits] == [(9, "    pass")]
    advice = diagnose(replace(violated(), trials=done)).advice[0]
    assert advice.checked
    assert "model.py:2: `for row in range(x.shape[1]):`" in advice.text
    assert "model.py:9" in advice.text


RESHAPED = """\
def forward(self, x):
    return x.reshape({}, -1, 8)


def inputs():
    x = torch.ones(4, 6)
    torch._dynamo.mark_dynamic(x, 0)
    return (x,)
"""


def reshaped(size):
    text = RESHAPED.format(size)
    fixed = SizeCondition("", "", ConditionKind.OPERATION, FILE, 2, text.split("\n")[1].strip())
    batch = dim(0, 4, DimKind.SPECIALIZED, DimPolicy.MARKED_DYNAMIC, fixed=fixed)
    failed = Shaped("0/0", "forward", FILE, 1, (tensor("L['x']", dims=(batch,)),), fail_type="ConstraintViolationError")
    failure = Failure(FailurePhase.RUN, "ConstraintViolationError", "Constraints violated", FILE, 2)
    return Session(failure=failure, shapes=(failed,), listings={FILE: text})


@pytest.mark.parametrize("size", ["self.batch", "4"])
def test_a_size_is_taken_from_the_tensor_where_that_was_seen_to_work(size):
    tried = []

    def attempt(trial, through_backend):
        tried.append(trial)
        return Session(graphs=(Graph("0/0", "forward", FILE, 1, 1),))

    done = tuple(trials(reshaped(size), attempt))
    assert tried[0].edits[0].text.strip() == "return x.reshape(x.shape[0], -1, 8)"
    advice = diagnose(replace(reshaped(size), trials=done)).advice[0]
    assert advice.checked
    assert f"`x.shape[0]` for `{size}`" in advice.text
    assert "x.shape[0]` for" not in first(reshaped(size))


def test_what_was_checked_of_a_mark_is_its_removal():
    text = first(reshaped("other"))
    assert "allows only 4: drop the mark of x.size(0) (model.py:7)." in text


def test_what_raises_in_eager_is_put_right_first():
    failure = Failure(FailurePhase.EAGER, "ValueError", "no", FILE, 2)
    assert "without torch.compile, too" in first(Session(failure=failure))


def failed(message, type_="Unsupported"):
    return Session(failure=Failure(FailurePhase.RUN, type_, message, FILE, 3))


def test_a_break_in_a_full_graph_is_not_moved_to_another_break():
    page = "https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0170.html"
    text = first(failed(f"Data-dependent branching\n For more details, please visit: {page}"))
    assert text.startswith("model.py:3: Compute both sides and select with torch.where, or use torch.cond. Or compile")
    assert "without fullgraph=True" in text
    assert "disable" not in text
    assert "Rewrite the line, or compile without fullgraph=True" in first(failed(page.replace("0170", "9999")))


def test_an_operator_without_a_fake_implementation_gets_one():
    message = "got RuntimeError('There was no fake impl registered for <CustomOpDef(mine::twice)>. This is necessary')"
    text = first(failed(message, "TorchRuntimeError"))
    assert text.startswith("model.py:3: register a fake implementation of mine::twice (torch.library.register_fake)")


def test_what_becomes_dynamic_does_not_name_a_cause_that_has_another_change():
    """With n dynamic from the start, the call would compile again for requires_grad."""
    number = Cause(CauseKind.ARGUMENT_VALUE, "n", "3", "4", is_open=True, expected="Once.", fix="Make n dynamic.")
    grad = Cause(CauseKind.REQUIRES_GRAD, "x.requires_grad", "True", "False", fix="Pass inputs that agree.")
    (cause,) = diagnose(session(recompile(number, grad))).causes
    assert cause.title.startswith("x.requires_grad changed")
    (cause,) = diagnose(
        session(recompile(replace(number, kind=CauseKind.SIZE), replace(grad, kind=CauseKind.STRIDE)))
    ).causes
    assert cause.title.startswith("n changed")


def test_a_path_of_its_own_while_compiling_is_found():
    text = "def forward(x):\n    if torch.compiler.is_compiling():\n        raise ValueError\n    return x\n"
    failure = Failure(FailurePhase.RUN, "Unsupported", "no", FILE, 3)
    tried = []

    def attempt(trial, through_backend):
        tried.append(trial)
        return Session()

    list(trials(Session(failure=failure, listings={FILE: text}), attempt))
    assert tried[0].edits[0].text == "    if False:"


def test_what_raises_before_the_model_was_called_says_nothing_of_eager():
    failure = Failure(FailurePhase.RUN, "ModuleNotFoundError", "No module named 'torch'")
    called, not_run = Scenario("base"), Scenario("base", outcome=Outcome.NOT_RUN)
    assert diagnose(Session(failure=failure, scenarios=(called,))).advice
    assert not diagnose(Session(failure=failure, scenarios=(not_run,))).advice


CONSTANTS = (
    "for _ in range(self.steps):\n            x = x + 1",
    'self.name = f"step {self.steps}"',
    "CACHE[self.steps] = x",
    "if self.steps in CACHE:\n            x = -x",
)


@pytest.mark.parametrize("use", CONSTANTS)
def test_no_setting_is_offered_for_a_number_that_torch_always_specializes_on(use):
    text = first(counted(COUNTER.replace("return x * self.steps", f"{use}\n        return x"), 10))
    assert "Count outside of compiled code, and pass in what depends on it" in text
    assert "allow_unspec_int_on_nn_module" not in text


def grown_with_a_counter(use):
    made = [
        recompile(
            Cause(CauseKind.LENGTH, "len(CACHE)", str(n), str(n + 1), file=FILE, line=10),
            Cause(CauseKind.ATTRIBUTE_VALUE, "self.steps", str(n), str(n + 1), file=FILE, line=10),
            entry=n + 1,
            nearest=n,
        )
        for n in (0, 1, 2)
    ]
    text = COUNTER.replace("return x * self.steps", f"{use}\n        return x")
    return session(*made, listings={FILE: text})


def test_a_container_that_grows_by_the_keys_of_a_counter_is_its_consequence():
    (cause,) = diagnose(grown_with_a_counter("CACHE[self.steps] = x")).causes
    assert cause.title.startswith("self.steps changed: 0 → 1")
    assert cause.detail == "Changed each time, too: len(CACHE)"
    assert "self.steps counts up from call to call" in first(grown_with_a_counter("CACHE[self.steps] = x"))


def test_a_container_that_grows_beside_a_counter_needs_both_changed():
    text = first(grown_with_a_counter("CACHE.append(x)"))
    assert "len(CACHE) grows from call to call" in text
    assert "Count self.steps outside, too" in text


def test_a_number_that_is_a_tensor_in_some_calls_is_to_be_one_in_all():
    changes = (("int", "float"), ("float", "torch.Tensor"), ("float", "bool"))
    made = [
        recompile(
            Cause(CauseKind.TYPE, "scale", was, now, fix="tensor" if "Tensor" in now else "float"),
            entry=n + 1,
            nearest=n,
        )
        for n, (was, now) in enumerate(changes)
    ]
    (cause,) = diagnose(session(*made)).causes
    assert cause.title == "scale changed: int → float → torch.Tensor → bool"
    assert first(session(*made)) == "model.py:3: tensor"


def test_what_the_first_call_sets_needs_no_change_if_later_calls_compile_nothing():
    changed = Cause(CauseKind.ATTRIBUTE_VALUE, "self.last_size", "(None, None)", "(6, 4)", fix="Set it once.")
    again = recompile(changed, call=1, scenario="base")
    later = LaterCalls(10, 2, 1, limit_hit=False)
    found = session(again, calls=2)
    assert first(found) == "model.py:3: Set it once."

    def after(outlook):
        return first(replace(found, trials=(Tried(UNCHANGED, Counts(2, 0, 1), 1.0, calls=10, outlook=outlook),)))

    assert after(later) == (
        "Nothing to change: self.last_size changed: (None, None) → (6, 4). The first calls compile one more graph for "
        "it, and calls 3 to 10 compiled none."
    )
    assert after(LaterCalls(10, 9, 8, limit_hit=True)) == "model.py:3: Set it once."
    assert after(LaterCalls(10, 3, 2, limit_hit=False)) == "model.py:3: Set it once."


@pytest.mark.parametrize(
    ("subject", "is_settled"),
    [("self._buffers['centers']", True), ("self.centers", True), ("x", False), ("past.keys", False)],
)
def test_a_buffer_that_the_first_call_replaces_is_such_state_and_an_input_is_not(subject: str, is_settled: bool):
    changed = Cause(CauseKind.SIZE, subject, "2 dimensions", "4 dimensions", fix="Reshape it.")
    unchanged = Tried(UNCHANGED, Counts(2, 0, 1), 1.0, calls=10, outlook=LaterCalls(10, 2, 1, limit_hit=False))
    found = replace(session(recompile(changed, call=1, scenario="base"), calls=2), trials=(unchanged,))
    assert first(found).startswith("Nothing to change") is is_settled


def test_another_value_in_another_scenario_is_not_set_by_the_first_call():
    changed = Cause(CauseKind.ATTRIBUTE_VALUE, "self.mode", "(1,)", "(2,)", fix="Set it once.")
    found = session(recompile(changed, call=0, scenario="other"), calls=4)
    unchanged = Tried(UNCHANGED, Counts(2, 0, 1), 1.0, calls=10, outlook=LaterCalls(10, 2, 1, limit_hit=False))
    assert first(replace(found, trials=(unchanged,))) == "model.py:3: Set it once."


def test_what_a_growing_cache_cost_is_what_happened_in_this_run():
    longer = recompile(Cause(CauseKind.ZERO_ONE, "past.layers[0].keys.size(2)", "4", "5"), entry=2, nearest=1)
    static = session(longer, shapes=(cache(1, 4), cache(2, 5)))
    assert "4 → 5): 1 recompilation in this run." in first(static)
    kept = tensor("L['past'].layers[0].keys", dims=(dim(0, 1), dim(1, 2), dim(2, 6, DimKind.SYMBOLIC), dim(3, 16)))
    dynamic = replace(static, shapes=(*static.shapes, shaped(3, tensor("L['ids']", 1, 1), kept)))
    assert "1 recompilation in this run, after which one graph takes all lengths." in first(dynamic)
    assert "a graph for each length" not in first(static) + first(dynamic)


@pytest.mark.parametrize("expected", [True, False])
def test_what_nobody_has_to_change_is_a_choice(expected: bool):
    size = Cause(CauseKind.SIZE, "x.size(0)", "8", "3", is_open=True)
    short = replace(recompile(size), expected=expected, why_expected="The first change." if expected else "")
    found = session(short)
    (only,) = diagnose(found).advice
    assert "drop_last=True" in only.text
    assert only.optional is expected
    screen = drawn(screen_of(found, 80), 80)
    assert ("What to do" in screen) is not expected
    assert ("Nothing to fix.\nA choice: x.size(0)" in screen) is expected
    assert ("What to do" in str(explain_markdown(found))) is not expected


def test_a_run_that_trains_needs_a_graph_without_gradients_too():
    modes = recompile(Cause(CauseKind.GRAD_MODE, "grad_mode", "True", "False"))
    assert "only run inference" in first(session(modes))
    backward = Kernel("0/0", Stage.BACKWARD, "mm", "external")
    assert "only run inference" not in first(session(modes, kernels=(backward,)))
