"""ctrace checks advice on a real model by running it, without changing the file."""

from typing import Any

import pytest

from tests.integration.conftest import Command

MODEL = """import torch


class Net(torch.nn.Module):
    def forward(self, x):
        for _ in range(2):
            x = x.sin() + 1
            print("round")
        return x.cos() * 2


model = Net()
inputs = (torch.randn(4, 8),)
"""


def explained(ctrace: Command, *options: str) -> Any:
    ctrace.write("model.py", MODEL)
    return ctrace("explain", "model.py", *options, "--json").report


@pytest.mark.long
@pytest.mark.integration
def test_prints_have_one_cause_and_checked_advice(ctrace: Command) -> None:
    report = explained(ctrace)
    (cause,) = report["causes"]
    assert cause["kind"] == "output"
    assert len([each for each in cause["symptoms"] if each["what"] == "break"]) == len(report["breaks"])
    best = report["advice"][0]
    assert (best["checked"], best["causes"]) == (True, [cause["id"]])
    assert best["effect"]["graphs"] == [0, 1]
    assert best["effect"]["breaks"][1] == 0
    assert best["same_results"] is True
    assert (ctrace.folder / "model.py").read_text() == MODEL


@pytest.mark.integration
def test_fast_runs_only_dynamo(ctrace: Command) -> None:
    report = explained(ctrace, "--fast")
    assert report["breaks"]
    assert report["kernels"] == []
    assert report["environment"]["fast"] is True
    assert "kernels" in report["environment"]["not_looked_at"]
    assert report["time"]["advice"] is None
    assert set(report["time"]["phases"]) == {"dynamo", "backend"}


SEARCH = """import torch


class Cell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.linear(x)) + x


class Search(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell()

    def forward(self, x):
        for step in range(6):
            x = self.cell(x)
            if float(x.abs().max()) > 100:
                break
        return x


model = Search().eval()
inputs = (torch.ones(2, 4),)
"""


@pytest.mark.long
@pytest.mark.integration
def test_the_part_that_a_loop_calls_is_compiled_instead_of_the_whole(ctrace: Command) -> None:
    ctrace.write("model.py", SEARCH)
    report = ctrace("explain", "model.py", "--json").report
    found = next(each for each in report["advice"] if each["rule"] == "other_places")
    assert found["checked"]
    assert found["apply"]["kind"] == "place"
    assert found["apply"]["text"] == "model.cell.forward = torch.compile(model.cell.forward)"
    assert found["effect"]["breaks"][1] == 0


OF_BYTES = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        h = self.linear(x)
        index = (h > 0).byte()
        out = h * 1.0
        out[index] = h[index] * 2
        return out + 1


model = Net()


def inputs():
    return (torch.randn(6, 4),)
"""


@pytest.mark.long
@pytest.mark.integration
def test_code_that_cannot_be_compiled_is_tried_in_another_way(ctrace: Command) -> None:
    """Its text is known, although no graph and no break has it."""
    ctrace.write("net.py", OF_BYTES)
    best = ctrace("explain", "net.py", "--json").report["advice"][0]
    assert (best["checked"], best["rule"], best["apply"]["kind"]) == (True, "failures", "patch")
    assert "index with `index.bool()`" in best["text"]


DRAWING = """\
import os
import random

import torch

OTHER


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        h = self.linear(x)
        note(h)
        s = h.abs().max().item()
        return h / s


@torch.compiler.disable
def note(h):
    import numpy

    drawn = float(h.sum()), float(torch.rand(())), random.random(), numpy.random.rand()
    with open("drawn.txt", "a") as file:
        print(os.getpid(), *drawn, file=file)


model = Net()


def inputs():
    return (torch.randn(6, 4),)
"""
START_ANEW = "os.environ['OF_THE_MODEL'] = '1'"
"""What only a new process can do before torch is imported, so that a fork asks for one."""


@pytest.mark.long
@pytest.mark.integration
@pytest.mark.parametrize("other", ["", START_ANEW])
def test_trials_draw_the_numbers_of_the_run(ctrace: Command, other: str):
    """Else a trial might take another side of a branch, or count it as its effect that a value was not drawn."""
    ctrace.write("net.py", DRAWING.replace("OTHER", other))
    first = drawn_in(ctrace)
    assert len(first) > 2
    assert all(len(numbers) >= 2 and numbers[:2] == first[0][:2] for numbers in first)
    assert first[0][0] != first[0][1]
    if not other:  # the command draws the seed, before it is known where its captures run
        assert drawn_in(ctrace)[0][0] != first[0][0]


def drawn_in(ctrace: Command) -> list[list[str]]:
    """Explain the model; return what each process drew in each call, where an eager call draws what it is compared with."""
    assert ctrace("explain", "net.py", "--json").code == 0
    file = ctrace.folder / "drawn.txt"
    lines = [line.split(" ", 1) for line in file.read_text().splitlines()]
    file.unlink()
    return [
        list(dict.fromkeys(numbers for one, numbers in lines if one == process))
        for process in dict.fromkeys(process for process, _ in lines)
    ]


@pytest.mark.integration
def test_one_advice_everywhere(ctrace: Command) -> None:
    """Each view of a new run checks the advice that it shows, so that none says less than another."""
    wanted = explained(ctrace)["advice"][0]
    (found,) = ctrace("breaks", "model.py", "--json").report["advice"]
    assert (found["text"], found["checked"], found["effect"]) == (wanted["text"], True, wanted["effect"])
    for command in ("explain", "breaks", "check"):
        shown = " ".join(ctrace(command, "model.py").out.split())
        assert wanted["text"] in shown, command
        assert "checked: graph breaks 2 → 0" in shown or "graph breaks 1 → 0" in shown, shown
