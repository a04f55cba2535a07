"""`ctrace autotune` beside torch's own log, on a CPU: the same choices, times and winner."""

import json
import re

import pytest

from tests.integration.conftest import Command

MODEL = """\
import torch
import torch._inductor.config
torch._inductor.config.freezing = True
torch.set_grad_enabled(False)
model = torch.nn.Linear(64, 32).eval()
def inputs():
    return (torch.rand(16, 64),)
"""
_CHOICE = re.compile(r"^(?:\| )?  (\S+) ([\d.]+) ms [\d.]+% ?(.*)$", re.MULTILINE)
"""How torch's log shows a choice: `  mm 0.0113 ms 100.0% `."""


@pytest.mark.long
def test_the_table_is_that_of_torchs_log(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    result = ctrace("autotune", "model.py", "--build", "--mode", "max-autotune-no-cudagraphs", "--json")
    assert result.code == 0, result.err
    data = json.loads(result.out)
    (operation,) = data["operations"]
    printed = {name: float(milliseconds) for name, milliseconds, _ in _CHOICE.findall(result.err)}
    assert len(printed) == 2
    assert {each["name"]: round(each["seconds"] * 1e3, 4) for each in operation["choices"]} == printed
    assert f"AUTOTUNE {operation['op']}({', '.join(operation['shapes'])})" in result.err
    assert operation["winner"] == operation["taken"] == next(iter(printed))
    # On a busy machine, the 100 ms that torch measures a choice for may be over after one run, which has no spread.
    spreads = [each["spread"] for each in operation["choices"] if each["spread"] is not None]
    assert spreads
    assert all(spread["runs"] > 1 for spread in spreads)
    assert operation["noise"] in ("beyond", "within")
    assert not data["problems"]
    saved = ctrace("autotune", "--json")
    assert json.loads(saved.out) == data


@pytest.mark.slow
def test_without_freezing_torch_has_one_choice_and_says_why(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.replace("freezing = True", "freezing = False"))
    result = ctrace("autotune", "model.py", "--build", "--mode", "max-autotune-no-cudagraphs", "--json")
    (operation,) = json.loads(result.out)["operations"]
    assert [each["status"] for each in operation["choices"]] == ["not_timed"]
    (untried,) = operation["not_tried"]
    assert untried["what"] == "C++ templates"
    assert "freezing" in untried["reasons"][0]


@pytest.mark.slow
def test_choices_for_a_target_are_listed_and_not_timed(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL.replace("freezing = True", "freezing = False"))
    result = ctrace("autotune", "model.py", "--target", "h100", "--mode", "max-autotune", "--json")
    (operation,) = json.loads(result.out)["operations"]
    assert len(operation["choices"]) > 9
    assert {each["status"] for each in operation["choices"]} == {"not_timed"}
    assert operation["winner"] is None


@pytest.mark.slow
def test_what_torch_prints_of_autotuning_is_kept_from_the_terminal_of_a_measurement(ctrace: Command) -> None:
    ctrace.write("model.py", MODEL)
    result = ctrace("time", "model.py", "--mode", "max-autotune-no-cudagraphs", "--rounds", "1", "-v")
    assert result.code == 0, result.err
    assert "AUTOTUNE" not in result.err
    assert len(_CHOICE.findall(result.out)) == 2
