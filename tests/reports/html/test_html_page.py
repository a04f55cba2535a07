"""The file of `ctrace report`: what a browser may run and load, and that its data is what `--json` prints."""

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from ctrace.cli import run_request
from ctrace.inspector.errors import TargetError
from ctrace.inspector.facts.memory_facts import StepMemoryDocument
from ctrace.inspector.facts.session import Problem, Session
from ctrace.inspector.runs.load import load_log
from ctrace.reports.html import html_page as html_page
from ctrace.reports.html.documents import json_for_script, packed, source_hash
from ctrace.reports.html.html_page import render_html
from ctrace.reports.json.printer import render
from tests.support import built, compared, followed, kernelsessions, sessions, targeted
from tests.support.inprocess import ctrace
from tests.support.obeyed import obeyed
from tests.support.places import DATA
from tests.support.poison import poisoned, poisons
from tests.support.sampling import sampled

MOST_BYTES = 300_000
MADE = {
    **sessions.ALL,
    "kernels": kernelsessions.KERNELS,
    "emitted": targeted.EMITTED,
    "fused": load_log(DATA / "fused.log"),
    "wrong": compared.WRONG,
    "followed": followed.FOLLOWED,
}


class Read(HTMLParser):
    """The elements of a page, and the text of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, dict[str, str | None], str]] = []
        self.shown = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in ("script", "style") and self.cdata_elem:
            self.texts.append((*self.tags[-1], data))
        else:
            self.shown += data

    def documents(self) -> dict[str, Any]:
        """Return the documents of the page by name, parsed."""
        texts = {attributes.get("id"): text for _, attributes, text in self.texts}
        names = [each["name"] for each in json.loads(texts["head"])["documents"]]
        packed_ = [texts[f"data-{number}"] for number in range(len(names))]
        return {
            name: json.loads(zlib.decompress(base64.b64decode(each))) for name, each in zip(names, packed_, strict=True)
        }


def test_one_script_and_one_style_may_run():
    read = Read(render_html(MADE["fused"]))
    (policy,) = [
        each["content"]
        for tag, each in read.tags
        if tag == "meta" and each.get("http-equiv") == "Content-Security-Policy"
    ]
    scripts = [text for tag, attributes, text in read.texts if tag == "script" and "type" not in attributes]
    styles = [text for tag, _, text in read.texts if tag == "style"]
    assert len(scripts) == len(styles) == 1
    assert policy == (
        f"default-src 'none'; script-src {source_hash(scripts[0])}; style-src {source_hash(styles[0])}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def test_nothing_is_loaded():
    text = render_html(MADE["emitted"])
    read = Read(text)
    assert [each for _, each in read.tags if "src" in each or any(name.startswith("on") for name in each)] == []
    assert [each["href"] for _, each in read.tags if "href" in each] == ["data:,"]
    program = "".join(text for tag, attributes, text in read.texts if "type" not in attributes)
    assert not re.search(
        r"https?://(?!www\.w3\.org/2000/svg)|@import|url\(|\bfetch\(|XMLHttpRequest|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|new Function",
        program,
    )


def test_size():
    read = Read(render_html(MADE["fused"]))
    data = sum(len(text) for _, attributes, text in read.texts if attributes.get("type") == "text/plain")
    assert len(render_html(MADE["fused"])) - data < MOST_BYTES


@pytest.mark.parametrize("command", ["explain", "breaks", "recompiles", "shapes", "graphs", "fusion"])
def test_data_is_what_json_prints(monkeypatch: pytest.MonkeyPatch, command: str):
    monkeypatch.setattr(run_request, "saved", lambda target, store, rank=None: MADE["fused"])
    assert Read(render_html(MADE["fused"])).documents()[command] == json.loads(ctrace(command, "--json").out)


def test_stages_and_kernels_are_what_json_prints(monkeypatch: pytest.MonkeyPatch):
    session = MADE["fused"]
    monkeypatch.setattr(run_request, "saved", lambda target, store, rank=None: session)
    documents = Read(render_html(session)).documents()
    assert documents["kernels"] == json.loads(ctrace("kernels", "--source", "--json").out)
    stages = [name.split() for name in documents if name.startswith("stage ")]
    assert len(stages) > 4
    for _, graph, stage in stages:
        assert documents[f"stage {graph} {stage}"] == json.loads(
            ctrace("graphs", "--graph", graph, "--stage", stage, "--json").out
        )
    diffs = [name.split() for name in documents if name.startswith("diff ")]
    for _, graph, stages_ in diffs:
        assert documents[f"diff {graph} {stages_}"] == json.loads(
            ctrace("graphs", "--graph", graph, "--diff", stages_, "--json").out
        )


@pytest.mark.parametrize("way", poisons())
@pytest.mark.parametrize("name", sampled(MADE))
def test_hostile_text_is_no_markup(name: str, way: str):
    text = render_html(poisoned(MADE[name], poisons()[way]))
    assert obeyed(text) == []
    tags = [tag for tag, _ in Read(text).tags]
    assert set(tags) <= {
        "html",
        "head",
        "meta",
        "title",
        "link",
        "style",
        "body",
        "div",
        "main",
        "h1",
        "h2",
        "p",
        "ol",
        "li",
        "noscript",
        "script",
    }
    assert tags.count("script") == 2 + len(Read(text).documents())


def test_the_answer_needs_no_script():
    read = Read(render_html(MADE["fused"]))
    assert "Fully compiled: 1 graph" in read.shown


def test_problems_are_on_the_page():
    session = replace(MADE["fused"], problems=(Problem("line 7 of the log is damaged", 7, is_doubt=True),))
    read = Read(render_html(session))
    assert "Line 7 of the log is damaged." in read.shown


def test_what_cannot_be_written_is_a_note():
    def fails(*_: Any, **options: Any) -> Any:
        raise TargetError("nvdisasm is missing", "pip install triton")

    with patch("ctrace.reports.html.documents.kernels_document", fails):
        read = Read(render_html(MADE["fused"]))
    head = json.loads(next(text for _, attributes, text in read.texts if attributes.get("id") == "head"))
    assert head["notes"] == [{"name": "kernels", "why": "nvdisasm is missing", "todo": "pip install triton"}]


def test_sass_is_left_out_unless_requested():
    with patch(
        "ctrace.inspector.findings.kernels.built_view.disassembled", lambda binaries: tuple("NOP" for _ in binaries)
    ):
        without, with_it = (Read(render_html(built.SESSION, sass=sass)).documents() for sass in (False, True))
    assert {name.rpartition(" ")[2] for name in set(with_it) - set(without)} == {"sass"}
    assert any(name.endswith(" ptx") for name in without)


def test_scripts_are_listed():
    """A script that is not listed would be left out of every page."""
    scripts = {each.name for each in html_page._FOLDER.glob("*.js")}
    assert scripts == {*html_page._SCRIPTS, *html_page.DIFF_SCRIPTS, *html_page.RANKS_SCRIPTS, *html_page.RUNS_SCRIPTS}


def test_json_cannot_end_its_block():
    text = json_for_script({"a": "</script><!--\u2028&::error::##[x]"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--\u2028&::error::##[x]"}


def test_packed_text_is_read_back():
    text = "漢字\n" * 1000
    assert zlib.decompress(base64.b64decode(packed(text))).decode() == text


def test_an_empty_run():
    assert "Nothing was compiled" in Read(render_html(Session())).shown


def test_the_page_of_numbers_is_there_if_they_were_compared():
    for name, there in (("wrong", True), ("healthy", False)):
        read = Read(render_html(MADE[name]))
        head = next(json.loads(text) for _, attributes, text in read.texts if attributes.get("id") == "head")
        assert head["numbers"] is there
    data = Read(render_html(MADE["wrong"])).documents()["explain"]
    assert [(each["line"], each["ops"]) for each in data["culprits"]] == [(14, ["aten.relu"])]
    assert {"equal", "path", "promises", "first_nonfinite", "not_compared"} <= set(data["accuracy"])


def test_the_memory_of_a_page_is_what_the_command_prints():
    step = StepMemoryDocument("model.py", followed.FOUND, followed.CWD)
    printed = json.loads(render(step))
    shown = Read(render_html(followed.FOLLOWED)).documents()["memory"]
    assert {**shown, "target": "model.py"} == printed


def test_no_peak_is_on_the_page_of_a_run_whose_memory_was_not_followed():
    assert "memory" not in Read(render_html(MADE["fused"])).documents()
    failed = replace(followed.FOLLOWED, memory=replace(followed.FOUND, why_not="it was killed"))
    text = render_html(failed)
    assert "memory" not in Read(text).documents()
    assert "it was killed" in text
