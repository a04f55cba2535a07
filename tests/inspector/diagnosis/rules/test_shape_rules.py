"""Advice on data-dependent sizes, loggers, gradients and torch's own modules."""

from ctrace.inspector.diagnosis.rules import construct_rules, general, option_rules, output_rules, shape_rules
from ctrace.inspector.facts.findings import Frame, Owner
from ctrace.inspector.facts.session import Scenario
from ctrace.inspector.facts.trial import Part, Trial
from tests.inspector.diagnosis.scenes import FILE, LIBRARY, broken, edited, ran, scene

EXPERTS = """import torch

@use_experts_implementation
class Experts(torch.nn.Module):
    def forward(self, x, choice):
        for index, expert in enumerate(self.experts):
            rows = torch.nonzero(choice == index)
            x = x.index_add(0, rows, expert(x[rows]))
        return x
"""


def test_experts_see_all_rows():
    checked, spoken = shape_rules.data_dependent_shapes(scene(ran(EXPERTS, broken(7, "GB0036"))))
    assert checked.trial is not None
    assert checked.only_checked
    assert (
        spoken.text
        == "net.py:7: run every expert on all rows and multiply by the mask, so that no size depends on the routing."
    )


def test_the_method_of_a_library_to_replace_is_named():
    *_, spoken = shape_rules.data_dependent_shapes(scene(ran(EXPERTS, broken(7, "GB0036", file=LIBRARY), file=LIBRARY)))
    assert "(kit: replace Experts.forward from your code, or report it there)" in spoken.text


def test_one_function_gets_one_advice():
    breaks = (broken(6, "GB0036", expression="a"), broken(7, "GB0036", expression="b"))
    _, spoken = shape_rules.data_dependent_shapes(scene(ran(EXPERTS, *breaks)))
    assert len(spoken.causes) == 2


def test_a_mask_without_experts_selects():
    run = ran("import torch\ndef forward(x):\n    return x[x > 0]", broken(3, "GB0036"))
    assert all(
        "keep all rows and select with torch.where" in each.text
        for each in shape_rules.data_dependent_shapes(scene(run))
    )


def test_a_count_has_no_mask_to_multiply_by():
    run = ran("import torch\ndef forward(x):\n    return torch.bincount(x, minlength=4) / 2", broken(3, "GB0036"))
    for each in shape_rules.data_dependent_shapes(scene(run)):
        assert "count with torch.zeros(length).index_add(0, index, ones)" in each.text
        assert "mask" not in each.text


def test_experts_that_can_be_chosen_are_by_the_librarys_own_switch():
    (found,) = shape_rules.experts_of_transformers(scene(ran(EXPERTS, broken(7, "GB0036", file=LIBRARY), file=LIBRARY)))
    assert found.trial is not None
    assert found.trial.calls == (("set_experts_implementation", "batched_mm"),)
    plain = EXPERTS.replace("@use_experts_implementation\n", "\n")
    assert not list(shape_rules.experts_of_transformers(scene(ran(plain, broken(7, "GB0036")))))


LOGS = "import torch\ndef forward(x):\n    logger.warning_once('slow')\n    return x"
CALLED = "method: <Logger kit (WARNING)>.warning_once, args: [], kwargs: {}"


def test_a_logger_in_the_users_code_is_guarded():
    run = ran(LOGS, broken(3, "GB0291", called=CALLED))
    (found,) = output_rules.printing(scene(run))
    assert edited(found) == ["if not torch.compiler.is_compiling(): logger.warning_once('slow')"]
    assert not list(output_rules.loggers(scene(run)))


def test_a_logger_in_a_library_is_ignored_by_the_method_that_is_called():
    run = ran(LOGS, broken(3, "GB0291", called=CALLED, file=LIBRARY), file=LIBRARY)
    (found,) = output_rules.loggers(scene(run))
    assert found.trial is not None
    assert found.trial.ignored == ("logging:Logger.warning_once",)
    assert found.only_checked


def test_gradients_are_tried_only_where_an_eval_model_records_them():
    text = "def forward(x):\n    return x.item()"
    unused = Scenario("base", training=False, unused_grad=True)
    (found,) = option_rules.unused_gradients(scene(ran(text, broken(2), scenarios=(unused,))))
    assert found.only_checked
    for other in (Scenario("base", training=True, unused_grad=True), Scenario("base", training=False)):
        assert not list(option_rules.unused_gradients(scene(ran(text, broken(2), scenarios=(other,)))))


def test_a_print_is_not_what_gradients_are_for():
    run = ran("def forward(x):\n    print(x)", broken(2, "GB0059", construct="print"))
    run = ran(run.listings[FILE], *run.breaks, scenarios=(Scenario("base", training=False, unused_grad=True),))
    assert not list(option_rules.unused_gradients(scene(run)))


def test_nobody_is_sent_to_edit_torch():
    quantized = broken(
        2, "GB0055", owner=Owner.TORCH, called="call_function args: UserDefinedObjectVariable(ScriptObject)"
    )
    (found,) = construct_rules.torchs_own(scene(ran("def forward(x):\n    return f(x)", quantized)))
    assert found.text.startswith("net.py:2: run this model eagerly")
    assert not list(construct_rules.torchs_own(scene(ran("def forward(x):\n    return x.item()", broken(2)))))


def test_the_blocks_that_fsdp_wraps_are_compiled_in_a_trial():
    hooked = broken(2, "GB0007", owner=Owner.TORCH, called="torch.distributed.fsdp._fully_shard._fsdp_common.wrapper")
    kinds = {"model": "FSDPNet", "model.0": "FSDPBlock", "model.0.up": "Linear", "model.1": "FSDPBlock"}
    older = {"model": "FullyShardedDataParallel", "model._fsdp_wrapped_module": "Net"}
    expected = {("model.0", "model.1"): kinds, ("model._fsdp_wrapped_module",): older}
    for paths, wrapped in expected.items():
        parts = tuple(Part(path, kind, FILE, 1, 2) for path, kind in wrapped.items())
        (found,) = construct_rules.torchs_own(scene(ran("def forward(x):\n    return f(x)", hooked, parts=parts)))
        assert "compile each block by itself" in found.text
        assert found.trial == Trial(parts=paths)
    (program,) = construct_rules.torchs_own(scene(ran("def forward(x):\n    return f(x)", hooked)))
    assert program.trial is None


def test_nothing_is_known_about_code_of_a_library_and_it_is_named():
    path = (Frame(LIBRARY, 2, "forward", ""),)
    run = ran("def forward(x):\n    return f(x)", broken(2, "GB0059", file=LIBRARY, paths=(path,)), file=LIBRARY)
    (found,) = general.last_resort(scene(run))
    assert found.general
    assert (
        found.text
        == "net.py:2: Not known how to keep this in the graph: Dynamo cannot trace the code of kit that it runs."
    )
