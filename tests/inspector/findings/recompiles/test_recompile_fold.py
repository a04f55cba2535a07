"""Recompilations of a function, and the recompile limit."""

from typing import Any

import pytest

from ctrace.inspector.facts.findings import Advice, CacheUse
from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.recompiles.recompile_fold import failed_of
from ctrace.inspector.knowledge.advice import entries
from tests.support.helpers import MODEL, SITE, Log, unmet

LIBRARY = f"{SITE}/einops/einops.py"


def kinds(session: Session) -> list[list[str]]:
    return [[cause.kind for cause in recompile.causes] for recompile in session.recompiles]


class TestRecompiles:
    SIZE = "tensor 'L['x']' size mismatch at index 0. expected 4, actual 8"

    def again(self, *entries: dict[str, Any], left_open: str | None = None) -> Log:
        """Compile twice; `left_open` is what the second compilation has a symbol for."""
        log = Log().started().compiled("0/0").recompile("0/1", *entries).compiled("0/1")
        return log if left_open is None else log.symbol("0/1", left_open)

    def test_the_first_compilation_of_each_function_is_none(self):
        assert Log().compiled("0/0").compiled("1/0", "helper", 30).session().recompiles == ()

    def test_a_second_one_has_a_cause(self):
        (recompile,) = self.again(unmet(self.SIZE)).session().recompiles
        assert (recompile.compilation, recompile.function, recompile.file, recompile.line) == (
            "0/1",
            "forward",
            MODEL,
            8,
        )
        (cause,) = recompile.causes
        assert (cause.kind, cause.subject, cause.was, cause.now) == ("size", "x.size(0)", "4", "8")
        assert cause.fix

    def test_the_nearest_entry_explains(self):
        far, near = unmet("L['n'] == 1", self.SIZE, entry="0/1"), unmet("L['flag'] == True", entry="0/0")
        assert kinds(self.again(far, near).session()) == [["argument_value"]]

    def test_the_newer_entry_explains_on_a_tie(self):
        newer, older = unmet("L['n'] == 2", entry="0/1"), unmet("L['n'] == 1", entry="0/0")
        ((cause,),) = (recompile.causes for recompile in self.again(newer, older).session().recompiles)
        assert cause.was == "2"

    KEYS = "tensor 'L['{}']' dispatch key set mismatch. expected DispatchKeySet({}), actual DispatchKeySet({})"
    FULL, PLAIN = "CPU, BackendSelect, ADInplaceOrView, AutogradCPU", "CPU, BackendSelect"
    GRAD = "GLOBAL_STATE changed: grad_mode. expected True, actual False"

    @pytest.mark.parametrize("swapped", [False, True])
    @pytest.mark.parametrize("tensors", ["x", "xyz"])
    def test_an_inference_tensor_is_nearer_to_no_grad_than_to_grad(self, tensors: str, swapped: bool):
        keys = [self.KEYS.format(name, self.FULL, self.PLAIN) for name in tensors]
        with_grad = {**unmet(self.GRAD, entry="0/0"), "following": keys}
        entries = (with_grad, unmet(*keys, entry="0/1"))
        (recompile,) = self.again(*(reversed(entries) if swapped else entries)).session().recompiles
        assert recompile.nearest == "0/1"
        assert {cause.kind for cause in recompile.causes} == {"dispatch_keys"}

    def test_dispatch_keys_explain_where_grad_mode_agrees(self):
        keys = [self.KEYS.format(name, self.PLAIN, self.FULL) for name in "xy"]
        entries = unmet(self.GRAD, entry="0/1"), unmet(*keys, entry="0/0")
        assert kinds(self.again(*entries).session()) == [["dispatch_keys"] * 2]

    @pytest.mark.parametrize(
        "one_cause",
        [
            [f"tensor 'L['{name}']' dtype mismatch. expected Float, actual Double" for name in "abc"],
            [
                f"tensor 'L['{name}']' stride mismatch at index {at}. expected {was}, actual {now}"
                for name, at, was, now in [("a", 0, 4, 1), ("a", 1, 1, 3), ("b", 0, 5, 1), ("b", 1, 1, 7)]
            ],
            [f"L['self']._modules['{name}'].training == True" for name in "abc"],
            [f"tensor 'L['{name}']' size mismatch at index 0. expected 4, actual 8" for name in "abc"],
            [KEYS.format("a", FULL, PLAIN), KEYS.format("b", FULL, "CPU, BackendSelect, ADInplaceOrView")],
        ],
    )
    def test_one_cause_counts_once_however_many_guards_carry_it(self, one_cause: list[str]):
        near, far = unmet(*one_cause, entry="0/0"), unmet("L['n'] == 2", "L['m'] == 3", entry="0/1")
        (recompile,) = self.again(far, near).session().recompiles
        assert recompile.nearest == "0/0"

    def test_other_values_of_two_names_are_two_causes(self):
        near, far = unmet(self.SIZE, entry="0/0"), unmet("L['n'] == 2", "L['m'] == 2", entry="0/1")
        assert kinds(self.again(far, near).session()) == [["size"]]

    @pytest.mark.parametrize("swapped", [False, True])
    def test_the_entry_whose_tensor_got_furthest_explains(self, swapped: bool):
        other_dtype = unmet("tensor 'L['x']' dtype mismatch. expected Double, actual Float", entry="0/1")
        other_stride = unmet("tensor 'L['x']' stride mismatch at index 0. expected 5, actual 1", entry="0/0")
        entries = (other_stride, other_dtype) if swapped else (other_dtype, other_stride)
        assert kinds(self.again(*entries).session()) == [["stride"]]

    def test_fewer_unmet_guards_go_before_how_far_a_tensor_got(self):
        two = unmet("tensor 'L['x']' stride mismatch at index 0. expected 5, actual 1", "L['n'] == 2", entry="0/1")
        one = unmet("tensor 'L['x']' dtype mismatch. expected Double, actual Float", entry="0/0")
        assert kinds(self.again(two, one).session()) == [["dtype"]]

    def test_an_entry_for_none_is_nearer_than_one_for_a_tensor(self):
        tensor = unmet("expected type of 'L['m']' to be a tensor type, ' but found <class 'NoneType'>", entry="0/1")
        assert kinds(self.again(tensor, unmet(self.SIZE)).session()) == [["size"]]

    @pytest.mark.parametrize("layers", [1, 3])
    def test_a_cache_that_grew_is_nearer_to_its_last_size_than_to_none(self, layers: int):
        sizes = [
            f"tensor 'L['cache'][{layer}][{at}]' size mismatch at index 1. expected {1 + layer}, actual {2 + layer}"
            for layer in range(layers)
            for at in (0, 1)
        ]
        without = unmet("L['cache'] is None", now="list")
        (recompile,) = self.again(unmet(*sizes, entry="0/1"), without).session().recompiles
        assert recompile.nearest == "0/1"

    def test_what_is_not_inside_of_a_cache_does_not_bring_its_entry_nearer(self):
        without = unmet("L['cache'] is None", now="list")
        (recompile,) = self.again(unmet("L['n'] == 2", "L['m'] == 3", entry="0/1"), without).session().recompiles
        assert recompile.nearest == "0/0"

    def test_the_more_general_entry_explains_on_a_tie(self):
        checked = "check_tensor(L['x'], Tensor, DispatchKeySet(CPU), torch.float32, device=None, requires_grad=False, size=[{}, 3], stride=[3, 1])"
        tree = "+- RootGuardManager\n| +- GuardManager: source=L['x'], type=<class 'Tensor'>, tag_safe=(True, False)\n| | +- TENSOR_MATCH: "
        newer, older = unmet("L['n'] == 2", entry="0/1"), unmet("L['n'] == 1", entry="0/0")
        log = Log().started().compiled("0/0").guards("0/0", tree + checked.format("None"))
        log.compiled("0/1").guards("0/1", tree + checked.format("8")).recompile("0/2", newer, older).compiled("0/2")
        assert [recompile.nearest for recompile in log.session().recompiles] == [None, "0/0"]

    @pytest.mark.parametrize("swapped", [False, True])
    def test_a_value_of_the_same_type_is_nearer(self, swapped: bool):
        entries = [
            unmet("___check_type_id(L['scale'], 7), type=<class 'float'>", entry="0/1", now="int"),
            unmet("L['scale'] == 2", entry="0/0", now="4"),
        ]
        (recompile,) = self.again(*(reversed(entries) if swapped else entries)).session().recompiles
        assert [(cause.kind, cause.was, cause.now) for cause in recompile.causes] == [("argument_value", "2", "4")]

    def test_a_condition_on_a_dynamic_size_goes_before_a_static_size(self):
        checked = "check_tensor(L['x'], Tensor, DispatchKeySet(CPU), torch.float32, device=None, requires_grad=False, size=[{}, 3], stride=[3, 1])"
        tree = "+- RootGuardManager\n| +- GuardManager: source=L['x'], type=<class 'Tensor'>, tag_safe=(True, False)\n| | +- TENSOR_MATCH: "
        conditions = ("L['x'].size()[0] % 4 != 0", "L['x'].size()[0] // 4 <= 1")
        newer, older = unmet(*conditions, entry="0/1"), unmet(self.SIZE)
        log = Log().started().compiled("0/0").guards("0/0", tree + checked.format("4"))
        log.compiled("0/1").guards("0/1", tree + checked.format("None")).recompile("0/2", newer, older).compiled("0/2")
        (_, recompile) = log.session().recompiles
        assert recompile.nearest == "0/1"
        assert {cause.kind for cause in recompile.causes} == {"range"}

    def test_an_argument_that_is_none_is_no_state_of_the_model(self):
        of_argument = unmet("L['batch'].mask is None", now="torch.Tensor")
        of_model = unmet("L['self'].mask is None", now="torch.Tensor")
        for entry, key in ((of_argument, "none"), (of_model, "none/attribute")):
            ((cause,),) = (recompile.causes for recompile in self.again(entry).session().recompiles)
            assert cause.fix == entries("causes")[key].fix.replace("{it}", f"`{cause.subject}`")

    def test_how_far_each_entry_is(self):
        newer, older = unmet("L['n'] == 2", entry="0/1"), {**unmet("L['n'] == 1", "L['m'] == 1"), "number": 90}
        (recompile,) = self.again(newer, older).session().recompiles
        assert (recompile.nearest, recompile.distances) == ("0/1", {"0/1": 1, "0/0": 90})

    def test_a_few_causes_that_are_alike_are_listed(self):
        dtypes = [f"tensor 'L['{name}']' dtype mismatch. expected Float, actual Double" for name in "abc"]
        (recompile,) = self.again(unmet(*dtypes)).session().recompiles
        assert [(cause.subject, cause.others) for cause in recompile.causes] == [(f"{n}.dtype", 0) for n in "abc"]

    @pytest.mark.parametrize(("unlisted", "others"), [(0, 5), (30, 35)])
    def test_many_causes_that_are_alike_are_counted(self, unlisted: int, others: int):
        dtypes = [f"tensor 'L['{name}']' dtype mismatch. expected Float, actual Double" for name in "abcdef"]
        entry = unmet("L['n'] == 2", *dtypes)
        entry["number"] += unlisted
        (recompile,) = self.again(entry).session().recompiles
        assert [(cause.subject, cause.others) for cause in recompile.causes] == [("n", 0), ("a.dtype", others)]

    def test_the_call_that_compiled_again(self):
        log = Log().started().ctrace("call", {"scenario": "wide", "index": 1}).compiled("0/0").compiled("0/1")
        (recompile,) = log.session().recompiles
        assert (recompile.scenario, recompile.call) == ("wide", 1)
        assert [(each.scenario, each.call) for each in log.session().compilations] == [("wide", 1)] * 2

    def test_an_entry_that_torch_threw_away_explains_where_no_other_does(self):
        gone = {"id": "0/0", "unmet": [], "invalid": "Cache line invalidated because L['self'] got deallocated"}
        ((cause,),) = (recompile.causes for recompile in self.again(gone).session().recompiles)
        assert (cause.kind, cause.subject) == ("identity", "self")
        assert kinds(self.again(gone, unmet(self.SIZE, entry="0/1")).session()) == [["size"]]

    def test_a_value_of_an_enclosing_function(self):
        data = {"entries": [unmet("L['rate'] == 0.5", now="1.5")], "closure": ["rate"]}
        log = Log().started().compiled("0/0").ctrace("recompile", data, at="0/1").compiled("0/1")
        assert kinds(log.session()) == [["closure_value"]]

    def test_the_line_of_a_value_that_a_break_returned_is_that_of_the_call(self):
        resumed, entry = "torch_dynamo_resume_in_forward_at_12", unmet("L['___stack0'] == 2.0", lines=(14,))
        log = Log().started().compiled("1/0", resumed).recompile("1/1", entry).compiled("1/1", resumed)
        ((cause,),) = (recompile.causes for recompile in log.session().recompiles)
        assert (cause.kind, cause.line) == ("break_result", 12)

    def test_an_entry_without_unmet_guards_explains_nothing(self):
        assert kinds(self.again(unmet(), unmet(self.SIZE)).session()) == [["size"]]

    def test_a_cause_is_told_once(self):
        assert kinds(self.again(unmet("L['n'] == 2", "L['n'] == 2")).session()) == [["argument_value"]]

    def test_the_line_is_the_innermost_of_the_user(self):
        entry = unmet("L['n'] == 2", lines=(20, 9))
        entry["unmet"][0]["stack"].append({"file": LIBRARY, "line": 3, "name": "rearrange"})
        ((cause,),) = (recompile.causes for recompile in self.again(entry).session().recompiles)
        assert cause.line == 9

    def test_torchs_own_words_are_kept(self):
        log = self.again(unmet(self.SIZE)).artifact("recompile_reasons", "0/0: because", at="0/1")
        assert log.session().recompiles[0].reason == "0/0: because"

    def test_torchs_own_words_explain_where_our_hook_was_not(self):
        words = "0/0: L['n'] == 2                  # return x * n  # model.py:9 in forward"
        log = Log().compiled("0/0").artifact("recompile_reasons", words, at="0/1").compiled("0/1")
        (cause,) = log.session().recompiles[0].causes
        assert (cause.kind, cause.subject, cause.was, cause.now, cause.line) == ("argument_value", "n", "2", None, 9)
        assert cause.advice.before == entries("causes")["argument_value/int"].before

    def test_torchs_own_words_name_a_local_without_its_scope(self):
        words = "0/0: tensor 'x' size mismatch at index 0. expected 4, actual 8"
        log = Log().compiled("0/0").artifact("recompile_reasons", words, at="0/1").compiled("0/1")
        (recompile,) = log.symbol("0/1", "L['x'].size()[0]").session().recompiles
        assert (recompile.causes[0].is_open, recompile.expected, recompile.nearest) == (True, True, "0/0")

    def test_a_cause_comes_with_its_reason_and_advice(self):
        (cause,) = self.again(unmet(self.SIZE)).session().recompiles[0].causes
        entry = entries("causes")["size"].about(cause.subject)
        assert (cause.fix, cause.reason, cause.expected) == (entry.fix, entry.why, entry.expected)
        assert cause.subject in cause.reason
        assert cause.advice == Advice(entry.before, entry.after, entry.switch, entry.risk)

    @pytest.mark.parametrize(
        ("guard", "hint", "key"),
        [
            ("L['self'].step == 1", "torch.compile considers integer attributes of the nn.Module)", "int"),
            ("L['self'].step == 1", "", "object_int"),
            ("not hasattr(L['self'], 'scale')", "", "missing"),
        ],
    )
    def test_advice_fits_the_special_case(self, guard: str, hint: str, key: str):
        (cause,) = self.again(unmet(guard, now="2", hint=hint)).session().recompiles[0].causes
        assert cause.advice.before == entries("causes")[f"attribute_value/{key}"].before

    @pytest.mark.parametrize(("entry", "key"), [("0/0", "zero_one/first"), ("0/1", "zero_one")])
    def test_a_first_call_with_one_is_a_case_of_its_own(self, entry: str, key: str):
        guard = "tensor 'L['x']' size mismatch at index 0. expected 1, actual 8"
        (cause,) = self.again(unmet(guard, entry=entry)).session().recompiles[0].causes
        assert cause.advice.before == entries("causes")[key].before

    def test_a_recompile_that_nobody_explains(self):
        (recompile,) = Log().compiled("0/0").compiled("0/1").session().recompiles
        assert (recompile.causes, recompile.reason, recompile.expected) == ((), "", False)

    def test_a_refused_compilation_is_none(self):
        assert Log().compiled("0/0").limit_hit("0/1").session().recompiles == ()

    def test_a_compilation_after_a_failed_one_is_the_first(self):
        log = Log().frame("0/0").metrics("0/0", fail_type="Unsupported").compiled("0/1")
        assert log.session().recompiles == ()

    def test_a_compilation_without_a_graph_counts_if_it_has_bytecode(self):
        log = Log().frame("0/0").bytecode("0/0").frame("0/1").bytecode("0/1")
        assert len(log.session().recompiles) == 1

    @pytest.mark.parametrize(
        ("guard", "expected"),
        [
            ("L['self'].training == True", True),
            ("GLOBAL_STATE changed: grad_mode", True),
            ("GLOBAL_STATE changed: autocast_enabled", True),
            ("L['self'].cache is None", True),
            ("not hasattr(L['self'], 'cache')", True),
            ("hasattr(L['self'], 'cache')", False),
            ("len(L['self'].state[list(dict.keys(L['self'].state))[0]]) == 2", True),
            ("len(L['self'].seen) == 2", False),
            ("L['m'] is None", False),
            ("L['self'].step == 2", False),
            ("L['n'] == 2", False),
            (SIZE, False),
            ("tensor 'L['x']' dtype mismatch. expected Float, actual Double", False),
        ],
    )
    def test_some_changes_are_expected(self, guard: str, expected: bool):
        (recompile,) = self.again(unmet(guard)).session().recompiles
        assert recompile.expected is expected
        assert bool(recompile.why_expected) is expected

    @pytest.mark.parametrize(
        ("guard", "source"),
        [
            (SIZE, "L['x'].size()[0]"),
            ("L['n'] == 2", "L['n']"),
            ("tensor 'L['x']' stride mismatch at index 0. expected 4, actual 8", "L['x'].stride()[0]"),
        ],
    )
    def test_what_the_new_graph_leaves_open_is_expected_once(self, guard: str, source: str):
        (recompile,) = self.again(unmet(guard), left_open=source).session().recompiles
        assert recompile.causes[0].is_open
        assert recompile.expected

    def test_a_value_that_the_new_graph_compiled_in_is_not_open(self):
        log = self.again(unmet(self.SIZE), left_open="L['x'].size()[0]").symbol_fixed("0/1", "s0", "8", line=12)
        (recompile,) = log.session().recompiles
        assert (recompile.causes[0].is_open, recompile.expected) == (False, False)

    def test_a_size_that_is_left_open_beside_something_else_is_not_expected(self):
        log = self.again(unmet(self.SIZE, "L['mode'] == 'a'"), left_open="L['x'].size()[0]")
        (recompile,) = log.session().recompiles
        assert ([cause.is_open for cause in recompile.causes], recompile.expected) == ([True, False], False)

    def test_a_mode_and_something_else_is_not_expected(self):
        (recompile,) = self.again(unmet("GLOBAL_STATE changed: grad_mode", "L['n'] == 2")).session().recompiles
        assert not recompile.expected


class TestLimit:
    def test_how_much_of_its_cache_a_function_used(self):
        session = Log().compiled("0/0").compiled("0/1").compiled("1/0", "helper", 30).session()
        assert not session.limit.hit
        assert session.limit.functions == (CacheUse("forward", 2, 8, "0"), CacheUse("helper", 1, 8, "1"))

    def test_a_refused_compilation_hits_it(self):
        log = Log().compiled("0/0").limit_hit("0/1").counters(recompile_limit=1)
        assert log.session().limit.hit
        assert log.session().limit.functions == (CacheUse("forward", 1, 1, "0", refused=True),)

    def test_parts_of_a_function_have_limits_of_their_own(self):
        log = Log().compiled("0/0").compiled("1/0", "torch_dynamo_resume_in_forward_at_12", 8)
        assert [use.function for use in log.session().limit.functions] == ["forward", "forward (from line 12)"]

    def test_functions_that_never_compiled_use_nothing(self):
        assert Log().frame("0/0").metrics("0/0", fail_type="Unsupported").session().limit.functions == ()

    def test_frames_with_like_numbers_are_kept_apart(self):
        log = Log().compiled("11/0", "forward", 8).compiled("11/1", "forward", 8).compiled("1/0", "helper", 30)
        assert log.session().limit.functions == (CacheUse("forward", 2, 8, "11"), CacheUse("helper", 1, 8, "1"))


DTYPE = "tensor 'x' dtype mismatch. expected Double, actual Float"
STRIDE = "tensor 'x' stride mismatch at index 0. expected 6, actual 1"
ONE = "tensor 'x' size mismatch at index 0. expected 1, actual 8"
FOUR = "tensor 'x' size mismatch at index 0. expected 4, actual 8"
STEP = "self.step == 3                     # return x * self.step  # er/project/train.py:7 in forward"


@pytest.mark.parametrize(
    ("reasons", "entry"),
    [
        ([f"0/0: {DTYPE}"], "0/0"),
        ([f"0/1: {DTYPE}", f"0/0: {STRIDE}"], "0/0"),
        ([f"0/1: {STRIDE}", f"0/0: {DTYPE}"], "0/1"),
        ([f"0/1: {ONE}", f"0/0: {FOUR}"], "0/0"),
        ([f"0/1: {ONE}", "0/0: x is None    # if x is None:  # er/project/train.py:7 in forward"], "0/1"),
        ([f"0/2: {STEP}", f"0/1: {STEP}", f"0/0: {STEP}"], "0/2"),
    ],
)
def test_nearest_entry_passes_the_most_checks(reasons: list[str], entry: str):
    failed = failed_of("0/3", reasons, ())
    assert failed is not None
    assert [each.id for each in failed.entries] == [entry]


def test_guard_has_its_users_line():
    failed = failed_of("0/1", [f"0/0: {STEP}\nUser stack trace:\n"], ["/home/user/project/train.py"])
    assert failed is not None
    (guard,) = failed.entries[0].unmet
    assert guard.text == "self.step == 3"
    assert [(each.file, each.line) for each in guard.stack] == [("/home/user/project/train.py", 7)]


def test_torch_may_name_no_entry():
    assert failed_of("0/1", ["Unable to find recompilation reasons"], ()) is None


def test_files_of_torch_are_not_the_users():
    text = "0/0: fn.training == True     # return F.dropout(input)  # nn/modules/dropout.py:73 in forward"
    failed = failed_of("0/1", [text], ["/venv/lib/python3.11/site-packages/torch/_dynamo/external_utils.py"])
    assert failed is not None
    (frame,) = failed.entries[0].unmet[0].stack
    assert frame.file == "/venv/lib/python3.11/site-packages/torch/nn/modules/dropout.py"
