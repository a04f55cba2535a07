"""Graphs as DOT, SVG and JSON."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ctrace.inspector.facts.session import Session
from ctrace.inspector.findings.graphs.fx import FxGraph
from ctrace.inspector.findings.graphs.graph_view import compiled
from ctrace.inspector.findings.graphs.graphs_document import (
    graph_line_document,
    graph_stage_document,
    graphs_document,
    passes_document,
    stage_diff_document,
)
from ctrace.reports.json.printer import render
from ctrace.reports.svg import dot_text, svg_text
from tests.support.printed import HOSTILE, trained

EDGE = re.compile(r"  n\d+_\d+ -> n\d+_\d+;")
NODE = re.compile(r'  n\d+_\d+ \[label="(?:[^"\\\n]|\\.)*" fillcolor="#[0-9a-f]{6}"\];')


def _graph(session: Session, stage: str) -> FxGraph:
    graph = compiled(session)[0].stage(stage).graph
    assert graph is not None
    return graph


@pytest.fixture
def no_graphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")


@pytest.mark.parametrize(("session", "stage"), [(trained(), "forward"), (trained(), "dynamo"), (HOSTILE, "forward")])
def test_dot_has_every_node_and_edge_and_nothing_else(session: Session, stage: str) -> None:
    graph = _graph(session, stage)
    first, title, style, *rest, last = dot_text(graph, 'a "title" \\').splitlines()
    assert (first, title, last) == ("digraph {", r'  label="a \"title\" \\";', "}")
    assert style.startswith("  node [")
    assert all(EDGE.fullmatch(line) or NODE.fullmatch(line) for line in rest)
    assert sum(bool(NODE.fullmatch(line)) for line in rest) == len(graph.nodes)
    assert sum(bool(EDGE.fullmatch(line)) for line in rest) == sum(len(node.uses) for node in graph.nodes)


@pytest.mark.parametrize(("session", "stage"), [(trained(), "joint"), (HOSTILE, "forward")])
def test_our_own_picture(session: Session, stage: str, no_graphviz: None) -> None:
    graph = _graph(session, stage)
    text, drawn_by = svg_text(graph, "a <title> & more", "digraph {}")
    assert drawn_by == "ctrace in layers, since Graphviz is not installed"
    root = ET.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    assert {element.tag.removeprefix(space) for element in root.iter()} == {"svg", "rect", "path", "text"}
    assert len(root.findall(f"{space}rect")) == len(graph.nodes) + 1
    assert len(root.findall(f"{space}path")) == sum(len(node.uses) for node in graph.nodes)
    words = [element.text for element in root.iter(f"{space}text")]
    assert "a <title> & more" in words
    assert graph.nodes[0].name in words


def _fake(folder: Path, script: str) -> None:
    program = folder / "dot"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_graphviz_draws_if_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    _fake(tmp_path, "cat > /dev/null; echo '<svg/>'")
    assert svg_text(FxGraph("g"), "t", "digraph {}") == ("<svg/>\n", "Graphviz")
    _fake(tmp_path, "echo 'syntax error' >&2; exit 1")
    text, drawn_by = svg_text(FxGraph("g"), "t", "digraph {}")
    assert drawn_by == "ctrace in layers, since Graphviz failed: syntax error"
    assert ET.fromstring(text).tag.endswith("svg")


def test_json_of_all_graphs() -> None:
    first, second = json.loads(render(graphs_document(trained())))["graphs"]
    assert first["id"] == "0/0"
    assert first["mutated"] == [{"name": "self.calls", "data": True, "metadata": False}]
    assert first["saved"]["bytes"] == sum(
        {each["memory_of"]: each["bytes"] for each in first["saved"]["tensors"] if each["made"]}.values()
    )
    assert first["symbols"] == {"s77": {"name": "x.size(0)", "value": "2"}}
    assert (second["saved"], second["recomputed"], second["mutated"]) == (None, None, [])
    assert "erf" in first["recomputed"]


def test_json_of_a_stage_and_of_text_that_cannot_be_read() -> None:
    session = trained()
    data = json.loads(render(graph_stage_document(session, "0/0", "forward")))
    assert [node["name"] for node in data["graph"]["nodes"]] == [node.name for node in _graph(session, "forward").nodes]
    assert "text" not in data
    data = json.loads(render(graph_stage_document(HOSTILE, stage="backward")))
    assert (data["graph"], data["text"]) == (None, "no \x1b graph")


def test_json_of_a_line_and_of_a_difference() -> None:
    data = json.loads(render(graph_line_document(trained(), "17")))
    assert data["stages"][0]["nodes"][0]["source"] == "mixed = torch.softmax(scores, -1) @ x"
    data = json.loads(render(stage_diff_document(trained(), "joint..forward", "0/0")))
    removed = {gone["name"]: gone for line in data["changes"] for gone in line["removed"]}
    assert {gone["why"] for gone in removed.values()} >= {"moved", "duplicate", "view"}
    assert all((gone["same_as"] is None) == (gone["why"] != "duplicate") for gone in removed.values())


def test_json_of_a_difference_has_the_passes_that_changed_something_and_that_of_passes_has_all() -> None:
    names = ("graph", "stage", "subsystem", "name", "within", "nodes_before", "nodes_after", "changed")
    every = json.loads(render(passes_document(trained(), "0/0")))["passes"]
    assert {tuple(each) == names for each in every} == {True, False}
    assert all(("ops" in each) == (each["changed"] or bool(each.get("patterns"))) for each in every)
    found = json.loads(render(stage_diff_document(trained(), "post_grad", "0/0")))["passes"]
    assert [each for each in every if each in found] == found
    assert all("ops" in each for each in found)
