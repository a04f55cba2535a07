"""Advice on numbers read from tensors: stored, used or branched on; on slices and recurrent layers."""

import pytest
from msgspec.structs import replace

from ctrace.inspector.diagnosis.advise import counts, diagnose
from ctrace.inspector.diagnosis.rules import branch_rules, value_rules
from ctrace.inspector.diagnosis.rules.value_rules import _only_raises
from ctrace.inspector.diagnosis.sentences import checked
from ctrace.inspector.facts.diagnosis import Counts
from ctrace.inspector.facts.findings import Cause, CauseKind, Recompile
from ctrace.inspector.source.source_names import RESULT
from tests.inspector.diagnosis.scenes import FILE, LIBRARY, broken, edited, ran, scene, with_trial


def written(*lines: str) -> str:
    return "\n".join(["import torch", "", "def forward(self, x):", *(f"    {line}" for line in lines)])


@pytest.mark.parametrize(
    ("line", "becomes"),
    [
        ("STATS[0] = x.abs().mean().item()", "STATS[0] = x.detach().abs().mean()"),
        ("self.last = float(torch.mean(x))", "self.last = torch.mean(x).detach()"),
        ("self.last = loss(x).item()", "self.last = loss(x).detach()"),
        ("self.last = (x - 1).detach().sum().item()", "self.last = (x - 1).detach().sum()"),
        ("self.all.append(x.mean().item())", "pass"),
    ],
)
def test_a_number_that_is_only_stored_stays_a_tensor(line, becomes):
    (found,) = value_rules.kept_numbers(scene(ran(written(line, "return x"), broken(4))))
    assert edited(found) == [becomes]


def test_a_number_that_is_computed_with_is_tried_as_a_tensor():
    run = ran(written("scale = x.sum().item()", "return x * scale"), broken(4))
    (found,) = value_rules.used_numbers(scene(run))
    assert edited(found) == ["scale = x.sum().detach()"]
    assert found.only_checked
    assert not list(value_rules.kept_numbers(scene(run)))


def test_dropping_item_is_not_offered_in_a_condition():
    run = ran(written("if x.sum().item() > 0:", "    x = x + 1", "return x"), broken(4))
    assert not list(value_rules.used_numbers(scene(run)))


LOOP = ("for _ in range(3):", "    token = x.argmax().item()", "    if token == 0:", "        break", "return x")


def test_a_number_that_ends_a_loop_is_for_the_loop_to_stay_outside():
    (found,) = value_rules.branched_numbers(scene(ran(written(*LOOP), broken(5))))
    assert found.text.startswith("net.py:5: the loop reads this value in Python and branches on it (line 6)")
    assert ".item()" not in found.text


def test_a_number_that_a_library_branches_on_is_kept_or_patched():
    text = written("flag = x.any().item()", "y = 1 if flag else 2", "return y")
    constant, kept = value_rules.branched_numbers(scene(ran(text, broken(4, file=LIBRARY), file=LIBRARY)))
    assert edited(constant) == ["flag = False"]
    assert "replace `x.any().item()` by False if none of your calls needs the other case" in constant.text
    assert constant.only_checked
    assert "kit branches on this value (line 5)" in kept.text
    number = text.replace("any", "max")
    (kept,) = value_rules.branched_numbers(scene(ran(number, broken(4, file=LIBRARY), file=LIBRARY)))
    assert kept.trial is None


def test_the_trial_shows_a_branch_that_the_function_does_not():
    text = written("n = x.max().item()", "return part(x, n)") + "\n\ndef part(x, n):\n    return x if n > 0 else -x"
    run = ran(text, broken(4))
    assert not list(value_rules.branched_numbers(scene(run)))
    run = with_trial(run, value_rules.SCALARS, None, "/home/me/net.py:8")
    (found,) = value_rules.branched_numbers(scene(run))
    assert "(line 8)" in found.text


CHOSEN = """import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        self.experts = {made}

    def forward(self, x):
        best = x.mean(0).argmax().item()
        return self.experts[{index}](x)
"""
MODULES = "nn.ModuleList(nn.Linear(4, 4) for _ in range(4))"


@pytest.mark.parametrize(
    ("made", "index", "words"),
    [
        (MODULES, "best", "stack the parameters of its modules with torch.stack"),
        ("[torch.relu, torch.tanh]", "best", "stack what it holds, if it is tensors, with torch.stack"),
        ("torch.ones(4)", "best", ""),
        ("make()", "best", ""),
        (MODULES, "0", ""),
    ],
)
def test_a_number_that_indexes_a_list_has_no_tensor_as_advice(made, index, words):
    run = ran(CHOSEN.format(made=made, index=index), broken(9))
    found = [each.text for each in value_rules.indexing_numbers(scene(run))]
    assert [words in each for each in found] == ([True] if words else [])
    assert bool(list(value_rules.numbers(scene(run)))) == (not words)
    assert bool(list(value_rules.used_numbers(scene(run)))) == (not words)
    if words:
        assert found[0].startswith("net.py:9: the number indexes `self.experts` (line 10)")
        assert [each.text for each in diagnose(run).advice] == found


def test_a_trial_that_moves_the_break_says_so():
    run = ran(written("n = x.max().item()", "return x * n + part(x, n)"), broken(4))
    after = Counts(1, 1, 0, 100.0)
    (solved,) = diagnose(with_trial(run, value_rules.SCALARS, Counts(1, 0, 0, 100.0))).advice
    (moved,) = diagnose(with_trial(run, value_rules.SCALARS, after, "/home/me/net.py:5")).advice
    assert "the number then stays in the graph" in solved.text
    assert "the graph then breaks at net.py:5 instead" in moved.text
    assert checked(solved) == "checked: graphs 2 → 1, graph breaks 1 → 0, ops in graphs 90% → 100%"
    assert checked(moved) == "checked: graphs 2 → 1, graph breaks 1 → 1 (new: net.py:5), ops in graphs 90% → 100%"


@pytest.mark.parametrize("after", ["    if n > 0:\n            x = x / n", "    while n > 0:\n            n = n - 1"])
def test_a_branch_on_the_tensor_in_place_of_its_number_is_no_step(after):
    """Python needs the number there: the graph breaks again, and the branch itself runs one op more in eager."""
    run = ran(written("for part in x:", "    n = part.sum().item()", after, "return x"), broken(5))
    (found,) = value_rules.used_numbers(scene(run))
    assert found.trial is not None
    moved = with_trial(run, found.trial, counts(run), f"{FILE}:6")
    assert not list(value_rules.used_numbers(scene(moved)))
    (advice,) = diagnose(moved).advice
    assert "the loop reads" in advice.text
    elsewhere = with_trial(run, found.trial, counts(run), f"{FILE}:8")
    assert list(value_rules.used_numbers(scene(elsewhere)))


def test_a_number_that_is_the_length_of_a_slice_has_no_tensor_in_its_place():
    text = written("size = int(x.max())", "at = 3", "return x[:, at : at + size]")
    run = ran(text, broken(4, called="", construct="cast"))
    (found,) = value_rules.sizing_numbers(scene(run))
    assert found.text.startswith("net.py:4: `size` is the length of a slice, `x[:, at : at + size]` (line 6)")
    assert not list(value_rules.sizing_numbers(scene(ran(text.replace("+ size", "+ 1"), broken(4)))))
    helped = with_trial(run, value_rules.SCALARS, Counts(1, 0, 0, 100.0))
    assert "capture_scalar_outputs" in diagnose(helped).advice[0].text


def test_a_slice_by_a_tensor_is_masked():
    text = written("longest = x.max()", "return x[:, :longest]")
    (found,) = value_rules.slices(scene(ran(text, broken(5, expression=":longest"))))
    assert "torch.arange(size) < longest" in found.text
    assert not list(
        value_rules.slices(
            scene(ran(written("return x[:, :4] * x.sum().item()"), broken(4, expression="x.sum().item()")))
        )
    )


def test_a_number_beside_a_slice_is_no_bound_of_it():
    for expression in ("", "x[b : b + 1] == int(i)"):  # torch before 2.13 does not say which part it read
        run = ran(written("at = x[b : b + 1] == int(i)"), broken(4, expression=expression))
        assert not list(value_rules.slices(scene(run)))


def test_recurrent_layers_are_allowed_by_trial():
    (found,) = value_rules.recurrent_layers(scene(ran(written("return self.lstm(x)"), broken(4, "GB0014"))))
    assert found.trial is not None
    assert found.trial.settings == (("allow_rnn", True),)
    assert not list(value_rules.recurrent_layers(scene(ran(written("return x.item()"), broken(4)))))


@pytest.mark.parametrize(
    ("test", "guarded"),
    [("x.sum() > 0", "x.sum() > 0"), ("x.any() or x.all()", "(x.any() or x.all())")],
)
def test_a_branch_that_only_prints_tests_in_eager_only(test, guarded):
    text = written(f"if {test}:", "    print('large')", "    logger.info(x.sum())", "return x")
    (found,) = branch_rules.messages(scene(ran(text, broken(4, "GB0170"))))
    assert edited(found) == [f"if not torch.compiler.is_compiling() and {guarded}:"]
    assert found.text.endswith("compiled calls then leave out `print('large')`.")
    assert found.only_checked


def test_a_branch_on_a_number_of_python_selects_on_one_of_torch():
    text = written("if random.random() < self.p:", "    y = x", "else:", "    y = x + 1", "return y")
    (found,) = branch_rules.draws(scene(ran(text, broken(4, "GB0007"))))
    assert "`y = torch.where(torch.rand(()) < self.p, x, x + 1)`" in found.text
    assert found.only_checked
    (found,) = branch_rules.draws(scene(ran(text.replace("if ", "if self.on and "), broken(4, "GB0007"))))
    assert edited(found) == ["if self.on:", "y = torch.where(torch.rand(()) < self.p, x, x + 1)"]


@pytest.mark.parametrize(
    ("lines", "edits"),
    [
        (
            ("if x.sum() == 0:", "    x = 1 - x", "    y = 1 - y", "return x / y"),
            ["condition = x.sum() == 0; x = torch.where(condition, 1 - x, x); "
             "y = torch.where(condition, 1 - y, y)", "pass"],
        ),
        (
            ("if not x.any():", "    y = x", "    z = x * 2", "else:", "    y = x + 1", "    z = x"),
            ["condition = x.any(); y = torch.where(condition, x + 1, x); z = torch.where(condition, x, x * 2)",
             "pass"],
        ),
    ],
)  # fmt: skip
def test_a_branch_that_sets_several_names_selects_each(lines, edits):
    (found,) = branch_rules.choices(scene(ran(written(*lines), broken(4, "GB0170"))))
    assert edited(found)[1:] == edits
    assert "by `condition = " in found.text


@pytest.mark.parametrize(
    "lines",
    [
        ("if x.any():", "    y = x", "    z = y * 2", "return z"),  # reads what the branch has set
        ("if x.any():", "    y = x", "    self.z = x", "return y"),
        ("if x.any():", "    y = x", "    z = x", "else:", "    y = x + 1", "return y"),
        ("if x.any():", "    y = x", "    y = y * 2", "return y"),
    ],
)
def test_other_branches_that_set_several_names_stay(lines):
    assert not list(branch_rules.choices(scene(ran(written(*lines), broken(4, "GB0170")))))


@pytest.mark.parametrize(
    ("lines", "edits"),
    [
        (
            ("if self.training and torch.rand(()) < p:", "    x = x * 2", "return x"),
            ["if self.training:", "x = torch.where(torch.rand(()) < p, x * 2, x)"],
        ),
        (
            ("if (a or b) and c and x.sum() > 0:", "    y = x", "else:", "    y = -x"),
            ["if (a or b) and c:", "y = torch.where(x.sum() > 0, x, -x)"],
        ),
    ],
)
def test_what_python_tests_first_stays_outside_of_the_selection(lines, edits):
    """torch.where raises TypeError for a bool, so with `self.training and ...` it would raise in evaluation."""
    (found,) = branch_rules.choices(scene(ran(written(*lines), broken(4, "GB0170"))))
    assert edited(found) == edits
    assert f"test `{edits[0]}` only, and below it select with `{edits[1]}`" in found.text


def test_a_test_that_may_be_a_bool_of_python_selects_nothing():
    text = written("if self.training or x.sum() > 0:", "    x = x + 1", "return x")
    assert not list(branch_rules.choices(scene(ran(text, broken(4, "GB0170")))))


def test_a_branch_that_returns_none_is_for_the_caller():
    text = written("if (x == 0).all():", "    return None", "return x")
    (found,) = branch_rules.other_results(scene(ran(text, broken(4, "GB0170"))))
    assert "leave the test `(x == 0).all()` to the caller" in found.text
    assert found.general
    other = text.replace("return None", "return x + 1")
    assert not list(branch_rules.other_results(scene(ran(other, broken(4, "GB0170")))))


@pytest.mark.parametrize("test", ["random.random() < f(x)", "random.uniform(0, 1) < p", "random.random()"])
def test_other_draws_of_python_are_not_selected_on(test):
    text = written(f"if {test}:", "    y = x", "else:", "    y = x + 1", "return y")
    assert not list(branch_rules.draws(scene(ran(text, broken(4, "GB0007")))))


@pytest.mark.parametrize(
    "inside",
    ["x = x + 1", "print(x := x + 1)", "self.log(x)", "print(self.step(x))", "print(x.add_(1))", "print(f(x))"],
)
def test_a_branch_that_does_more_than_print_is_not_left_out(inside):
    text = written("if x.sum() > 0:", f"    {inside}", "return x")
    assert not list(branch_rules.messages(scene(ran(text, broken(4, "GB0170")))))


@pytest.mark.parametrize(
    ("lines", "chosen"),
    [
        (("if x.sum() > 0:", "    x = x + 1", "return x"), "x = torch.where(x.sum() > 0, x + 1, x)"),
        (("if x.sum().item() > 0:", "    y = x", "else:", "    y = -x"), "y = torch.where(x.sum() > 0, x, -x)"),
        (("if x.sum() > 0:", "    return x", "return -x"), "return torch.where(x.sum() > 0, x, -x)"),
        (("if not x.all():", "    x = x + 1", "return x"), "x = torch.where(x.all(), x, x + 1)"),
    ],
)
def test_a_branch_whose_sides_set_one_name_becomes_a_choice(lines, chosen):
    (found,) = branch_rules.choices(scene(ran(written(*lines), broken(4, "GB0170"))))
    assert edited(found) == ["if True:", chosen]


@pytest.mark.parametrize(
    ("lines", "chosen"),
    [
        (
            ("if x.max() > 1:", "    x = x / x.max()", "return x"),
            "condition = x.max() > 1; x = torch.where(condition, x / torch.where(condition, x.max(), 1), x)",
        ),
        (
            ("if x.sum() > 0:", "    return x.log()", "return torch.sqrt(x ** 2)"),
            "condition = x.sum() > 0; return torch.where(condition, torch.where(condition, x, 1).log(), "
            "torch.sqrt(torch.where(condition, 1, torch.where(condition, 1, x) ** 2)))",
        ),
    ],
)
def test_a_side_whose_gradients_may_be_nan_gets_ones_where_it_is_not_selected(lines, chosen):
    (found,) = branch_rules.choices(scene(ran(written(*lines), broken(4, "GB0170"))))
    assert edited(found) == ["if True:", chosen]
    assert all(f"`{statement}`" in found.text for statement in chosen.split("; "))


def test_a_branch_that_does_something_else_is_no_choice():
    for body in ("print(x)", "x = x + 1; y = 2", "self.n = x", "x = x + torch.rand_like(x)"):
        run = ran(written("if x.sum() > 0:", f"    {body}", "return x"), broken(4, "GB0170"))
        assert not list(branch_rules.choices(scene(run))), body


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [
        (("for t in range(int(n.max())):", "    x = x + t", "return x"), 4, "loop to a size, such as x.size(1)"),
        (
            ("for t in range(9):", "    x = x + 1", "    if x.sum() > 9:", "        break", "return x"),
            6,
            "run the loop",
        ),
        (("while x.sum() > 9:", "    x = x / 2", "return x"), 4, "make the number of steps a constant"),
    ],
)
def test_a_loop_that_a_value_ends_gets_a_fixed_number_of_steps(lines, line, words):
    kind = "GB0124" if "int" in lines[0] else "GB0170"
    (found,) = branch_rules.loops(scene(ran(written(*lines), broken(line, kind))))
    assert f"net.py:{line}: {words}" in found.text
    assert found.general


def test_a_branch_that_ends_no_loop_is_none():
    lines = ("for t in range(9):", "    if x.sum() > 9:", "        x = x + 1", "return x")
    assert not list(branch_rules.loops(scene(ran(written(*lines), broken(5, "GB0170")))))


CHECKS = (
    ("if not x.isfinite().all():", "ValueError", 'torch._assert_async(x.isfinite().all(), "bad")'),
    ("if x.isnan().any():", "ValueError", 'torch._assert_async(torch.logical_not(x.isnan().any()), "bad")'),
    ("if bool(x.isnan().any()):", "ValueError", 'torch._assert_async(torch.logical_not(x.isnan().any()), "bad")'),
    ("if x.max() >= self.size:", "IndexError", 'torch._assert_async(~(x.max() >= self.size), "bad")'),
    ("if x.max().item() >= 3:", "IndexError", 'torch._assert_async(~(x.max() >= 3), "bad")'),
)


@pytest.mark.parametrize(("test", "raised", "asserted"), CHECKS)
def test_a_branch_that_only_raises_becomes_an_assertion(test, raised, asserted):
    text = written(test, f'    raise {raised}("bad")', "return x")
    (found,) = branch_rules.checks(scene(ran(text, broken(4, "GB0170"))))
    assert edited(found)[0] == asserted
    assert f"raises RuntimeError instead of {raised}" in found.text
    assert "where" not in found.text


def test_a_check_of_a_number_read_before_keeps_the_tensor():
    text = written("ok = bool(x.isfinite().all())", "if not ok:", '    raise ValueError(f"bad {x.shape}")', "return x")
    (found,) = branch_rules.checks(scene(ran(text, broken(4))))
    assert edited(found)[:2] == ["ok = x.isfinite().all()", 'torch._assert_async(ok, "bad")']
    assert found.text.startswith("net.py:5: keep `ok` a tensor, and replace the check by")


@pytest.mark.parametrize(
    "test", ["if self.strict and x.isnan().any():", "if float(x.max()) > 1:", "if x is None:", "if x.max() in (1, 2):"]
)
def test_no_assertion_is_written_for_what_is_no_tensor(test):
    text = written(test, "    raise ValueError", "return x")
    assert not list(branch_rules.checks(scene(ran(text, broken(4, "GB0170")))))


def test_a_branch_that_does_more_than_raise_is_no_check():
    for text in (
        written("if x.any():", "    y = x", "    raise ValueError(y)", "return x"),
        written("if x.any():", "    raise ValueError", "else:", "    x = -x", "return x"),
    ):
        assert not list(branch_rules.checks(scene(ran(text, broken(4, "GB0170")))))


def test_a_cast_that_is_tested_only_to_raise_is_no_choice_of_tensors():
    text = written("if float(x.max()) > 1:", "    raise ValueError", "return x")
    (found,) = value_rules.branched_numbers(scene(ran(text, broken(4, expression="float(x.max())"))))
    assert "torch._assert_async" in found.text
    assert "torch.where" not in found.text


def test_an_item_of_a_list_is_not_the_number_that_a_branch_tests():
    text = written("h = self.acts[i](x)", "if h is not None:", "    x = h", "return x")
    assert not list(value_rules.branched_numbers(scene(ran(text, broken(4, expression="self.acts[i](x)")))))


def test_a_store_by_a_tensors_number_gets_an_index_of_one_element():
    text = written("for i in range(3):", "    index = label[i]", "    y[i, index] += 0.5", "return y")
    (found,) = value_rules.indexed_stores(scene(ran(text, broken(6, "GB0033"))))
    assert edited(found) == ["y[i, index[None]] += 0.5"]
    assert found.only_checked
    assert not list(value_rules.indexed_stores(scene(ran(text.replace("+=", "=="), broken(6, "GB0033")))))


@pytest.mark.parametrize(
    ("line", "worth"),
    [("y = x * x.max().item()", 72), ("stats = {'loss': x.max().item()}", 62), ("return x.max().item()", 62)],
)
def test_a_number_that_is_only_passed_on_is_kept_by_the_setting_first(line: str, worth: int):
    (found,) = value_rules.used_numbers(scene(ran(written(line, "return x"), broken(4))))
    assert found.worth == worth


def test_a_break_behind_is_no_branch_on_the_number():
    text = written("n = int(x.max())", "y = x * n", "print(n)", "return y")
    run = ran(text, broken(4, expression="int(x.max())"))
    behind = with_trial(run, value_rules.SCALARS, Counts(2, 1, 0), f"{FILE}:6")
    assert not list(value_rules.branched_numbers(scene(behind)))


BRANCHED = (
    "import torch\ndef forward(x):\n    scale = x.abs().max().item()\n    if scale > 1.0:\n        x = x / scale\n"
    "    return x.sin()"
)


def test_a_number_on_which_python_branches_is_not_just_captured():
    """capture_scalar_outputs would move the break to the branch."""
    run = ran(BRANCHED, broken(3))
    assert not any("capture_scalar_outputs" in each.text for each in diagnose(run).advice)
    only_raises = ran(BRANCHED.replace("x = x / scale", "raise ValueError(scale)"), broken(3))
    trials = [each.trial for each in value_rules.numbers(scene(only_raises))]
    assert trials == [value_rules.SCALARS]


def test_a_number_on_which_python_branches_stays_a_tensor():
    candidate = next(branch_rules.choices(scene(ran(BRANCHED, broken(3)))))
    assert edited(candidate) == [
        "scale = x.abs().max().detach()",
        "if True:",
        "condition = scale > 1.0; x = torch.where(condition, x / torch.where(condition, scale, 1), x)",
    ]
    assert candidate.text.startswith(
        "net.py:3: keep `scale` a tensor (`scale = x.abs().max().detach()`), and replace the branch"
    )


def test_a_log_without_sources_shows_by_its_recompilation_that_python_branches_on_a_number():
    condition = Cause(CauseKind.RANGE, RESULT, "1.0 or less", None, file=FILE, line=4)
    resumed = Recompile("1/1", "forward", FILE, 3, False, (condition,))
    session = replace(ran(BRANCHED, broken(3), recompiles=(resumed,)), listings={})
    (cause,) = diagnose(session).causes  # the recompilation follows from the break
    assert len(cause.symptoms) == 2
    (only,) = diagnose(session).advice
    assert "branches on" in only.text
    assert "(line 4)" in only.text


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("def f(x):\n    assert x.item() > 0\n    return x\n", 2, True),
        ("def f(x):\n    if x.item() > 0:\n        raise ValueError\n    return x\n", 2, True),
        ("def f(x):\n    if x.item() > 0:\n        x = x + 1\n        raise ValueError\n    return x\n", 2, True),
        ("def f(x):\n    if x.item() > 0:\n        return x * 2\n    return x\n", 2, False),
        ("def f(x):\n    assert x is not None\n    if x.item():\n        x = x + 1\n    return x\n", 3, False),
    ],
)
def test_a_test_that_only_raises_keeps_no_number_out_of_the_graph(text: str, line: int, expected: bool):
    assert _only_raises(text, line) is expected


@pytest.mark.parametrize(
    ("text", "then", "asked"),
    [
        ("assert x.item() > 0", "return x", "AssertionError"),
        ("if x.item() > 0: x = x + 1", "return x", ""),
        ("n = x.item()", "return x * (1.0 / n)", "ZeroDivisionError"),
        ("n = x.item()", "return x * (7 % n)", "ends the process"),
        ("n = x.item()", "return x / n", ""),  # a tensor divided by zero is infinite, compiled or not
        ("n = x.item()", "return x * (n / 2.0)", ""),
        ("n = x.item()", "return x * n ** 0.5", "complex"),
    ],
)
def test_what_a_number_in_the_graph_changes_is_a_question(text: str, then: str, asked: str):
    run = scene(ran(written(text, then), broken(4, expression="x.item()")))
    found = " ".join(value_rules.scalar_questions(run))
    assert (asked in found) if asked else not found
