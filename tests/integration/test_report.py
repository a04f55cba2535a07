"""`ctrace report` of a run for a GPU: a line, its nodes, its kernels and their PTX, in the browser as in `--json`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Command
from tests.reports.html.conftest import Opened
from tests.support.places import ROOT
from tests.support.warm import WarmServer

pytest.importorskip("triton")
LINE = 31
"""`weights = exponentials / ...`, which is one node of a Triton kernel."""


def rows(page: Any, pane: str, mark: str = ":is(.linked, .picked)") -> list[str]:
    found: list[str] = page.locator(f".pane.{pane} .row{mark}").all_inner_texts()
    return found


def numbers(page: Any, pane: str) -> set[int]:
    """Return the numbers of the highlighted lines of a pane; scroll through it, since it renders only what is visible."""
    seen: set[int] = set()
    total = page.evaluate(f"document.querySelector('.pane.{pane} .list').scrollHeight")
    for top in range(0, total, 400):
        page.evaluate(f"document.querySelector('.pane.{pane} .list').scrollTop = {top}")
        page.wait_for_timeout(40)
        texts = page.locator(f".pane.{pane} .row:is(.linked, .picked) .ln").all_inner_texts()
        seen |= set(map(int, texts))
    return seen


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory, warm_server: WarmServer | None) -> Command:
    """Explain attention for a GPU, in a folder whose last run this is."""
    ctrace = Command(tmp_path_factory.mktemp("emitted"), warm_server)
    model = str(ROOT / "sample_models" / "attention.py")
    assert ctrace("explain", model, "--target", "h100", "--json", "-o", "explain.json").code == 0
    return ctrace


def test_a_line_its_nodes_its_kernels_and_its_instructions(emitted: Command, browser: Any):
    ctrace = emitted
    assert ctrace("report").code == 0
    nodes = ctrace("graphs", "--stage", "post_grad", "--json").report["graph"]["nodes"]
    (part,) = ctrace("kernels", "--source", "--json").report["parts"]
    kernel = next(each for each in part["kernels"] if each["source"])
    codes = ctrace("kernels", "--ir", "ptx", "--json").report["code"]
    report = Opened(browser, Path(ctrace.folder) / "report.html", 1280)
    file = next(each["file"] for each in nodes if each["line"] == LINE)

    # From the line ...
    page = report.go(f"code?sel=line~{file}:{LINE}")
    at_line = {each["name"] for each in nodes if each["line"] == LINE}
    assert {each.split(" = ")[0] for each in rows(page, "graph")} == at_line
    statements = {each["line"] for each in kernel["statements"] if f"{file}:{LINE}" in each["lines"]}
    assert numbers(page, "kernel") == statements
    shown = page.locator("select[aria-label='Configuration']").input_value()
    code = next(each for each in codes if each["hash"] == shown)
    instructions = {line for line, source in code["source_lines"] if source in statements}
    assert numbers(page, "ir") == instructions
    assert len(instructions) > 3

    # ... and back from one of its instructions.
    line, source = next(pair for pair in code["source_lines"] if pair[0] == max(instructions))
    page.evaluate(f"document.querySelector('.pane.ir .list').scrollTop = {20 * (line - 5)}")
    page.locator(f".pane.ir .row[data-at='{line - 1}']").click()
    report.until("location.hash.includes('source')")
    page.wait_for_timeout(300)
    expected = next(each["lines"] for each in kernel["statements"] if each["line"] == source)
    assert numbers(page, "source") == {int(each.rpartition(":")[2]) for each in expected}
    assert numbers(page, "kernel") == {source}
    mine = {each["name"] for each in nodes if f"{each['file']}:{each['line']}" in expected}
    assert {each.split(" = ")[0] for each in rows(page, "graph")} == mine & set(kernel["graph_nodes"]["names"])

    # From a node to its kernel.
    name = kernel["graph_nodes"]["names"][0]
    page = report.go(f"code?sel=node~post_grad~{name}")
    assert rows(page, "graph", ".picked")[0].startswith(f"{name} = ")
    assert page.locator("select[aria-label='Kernel']").input_value().endswith(kernel["name"])
    assert (report.errors, report.foreign()) == ([], [])


def test_ptx_lines_are_those_of_the_source(emitted: Command):
    """Loads and stores of global memory come from `tl.load` and `tl.store`."""
    ctrace = emitted
    (part,) = ctrace("kernels", "--source", "--json").report["parts"]
    source = next(each["source"] for each in part["kernels"] if each["source"]).split("\n")
    for code in ctrace("kernels", "--ir", "ptx", "--json").report["code"]:
        lines = code["text"].split("\n")
        behind = {line: source[at - 1] for line, at in code["source_lines"]}
        loads = [at for at, line in enumerate(lines, 1) if "ld.global" in line]
        stores = [at for at, line in enumerate(lines, 1) if "st.global" in line]
        assert loads
        assert stores
        assert all("tl.load(" in behind[at] for at in loads), json.dumps(behind)
        assert all("tl.store(" in behind[at] for at in stores), json.dumps(behind)


GPT2 = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel


class Logits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        sizes = {"n_embd": 32, "n_head": 2, "vocab_size": 64, "n_positions": 16}
        ids = {"bos_token_id": 0, "eos_token_id": 0}
        self.model = GPT2LMHeadModel(GPT2Config(n_layer=2, use_cache=False, **sizes, **ids))

    def forward(self, tokens):
        return self.model(tokens).logits


model = Logits()
inputs = (torch.randint(0, 64, (2, 8)),)
"""
LLAMA = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM


class Logits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        sizes = {"hidden_size": 32, "intermediate_size": 64, "vocab_size": 64, "max_position_embeddings": 16}
        heads = {"num_attention_heads": 2, "num_key_value_heads": 1}
        self.model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=2, use_cache=False, **sizes, **heads))

    def forward(self, tokens):
        return self.model(tokens).logits


model = Logits()
inputs = (torch.randint(0, 64, (2, 8)),)
"""
CALL = "        return self.model(tokens).logits"


def _of_the_line(nodes: dict[str, list[dict[str, Any]]], kernels: list[dict[str, Any]]) -> set[str]:
    """Return the nodes at the stage `post_grad` that the kernels of the one line of the user compute."""
    ops = {each["name"]: each["op"] for each in nodes["post_grad"]}
    also = {each["name"] for each in nodes["post_grad_backward"] if ops.get(each["name"]) == each["op"]}
    found = set()
    for each in kernels:
        names = set(each["graph_nodes"]["names"])
        found |= names if each["graph_nodes"]["stage"] == "post_grad" else names & also
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("source", [GPT2, LLAMA], ids=["gpt2", "llama"])
def test_nodes_of_a_library_belong_to_the_line_that_calls_it(ctrace: Command, browser: Any, source: str):
    """The nodes have lines of transformers; the kernels have the one line of the user, and PTX has the kernels'."""
    pytest.importorskip("transformers")
    Path(ctrace.folder, "logits.py").write_text(source, encoding="utf-8")
    line = source.split("\n").index(CALL) + 1
    place = f"logits.py:{line}"
    assert ctrace("explain", "logits.py", "--train", "--target", "h100", "--json", "-o", "explain.json").code == 0
    assert ctrace("report").code == 0
    stages = ("post_grad", "post_grad_backward")
    nodes = {stage: ctrace("graphs", "--stage", stage, "--json").report["graph"]["nodes"] for stage in stages}
    kernels = [
        each
        for part in ctrace("kernels", "--source", "--json").report["parts"]
        for each in part["kernels"]
        if each["lines"] == [place] and each["graph_nodes"]
    ]
    codes = ctrace("kernels", "--ir", "ptx", "--json").report["code"]
    expected = _of_the_line(nodes, kernels)
    assert len(expected) > 20
    report = Opened(browser, Path(ctrace.folder) / "report.html", 1280)
    page = report.go(f"code?sel=line~{place}&st=post_grad")
    assert f"{len(expected)} nodes at post_grad" in page.locator(".status").inner_text()

    for stage in stages:
        kernel = next(
            each
            for each in kernels
            if each["source"] and each["graph_nodes"]["exact"] and each["graph_nodes"]["stage"] == stage
        )
        key = f"{kernel['graph']} {kernel['stage']} {kernel['name']}"
        statement = kernel["statements"][0]["line"]

        # From a node, and from a line of its kernel, back to the line of the user.
        for selection in (f"node~{stage}~{kernel['graph_nodes']['names'][0]}", f"source~{key}~{statement}"):
            page = report.go(f"code?sel={selection}")
            assert numbers(page, "source") == {line}, selection

        # From a line of the kernel to its instructions, and from one of them back to the line of the kernel.
        shown = page.locator("select[aria-label='Configuration']").input_value()
        code = next(each for each in codes if each["hash"] == shown and each["kernel"] == kernel["name"])
        instructions = {at for at, behind in code["source_lines"] if behind == statement}
        assert numbers(page, "ir") == instructions
        last, behind = code["source_lines"][-1]
        page.evaluate(f"document.querySelector('.pane.ir .list').scrollTop = {20 * (last - 5)}")
        page.locator(f".pane.ir .row[data-at='{last - 1}']").click()
        report.until(f"document.querySelector('.pane.ir .row.picked')?.dataset.at === '{last - 1}'")
        assert numbers(page, "kernel") == {behind}
    assert (report.errors, report.foreign()) == ([], [])
