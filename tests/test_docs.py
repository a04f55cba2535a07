"""README and docs/ are true: commands, options, files, links and generated pages."""

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path

import jsonschema
import pages
import pytest
import schemas
import typer.main
import yaml

from ctrace.cli.commands.run import separated
from ctrace.cli.main import command_line, joined
from ctrace.inspector.features.check.policy_file import load_policy
from ctrace.inspector.knowledge.advice import known_ids
from tests.support.documentation import FENCE, GENERATED, NAMED, PAGES, blocks, commands

ROOT = pages.ROOT
VIEWS = ("explain", "breaks", "recompiles", "guards", "shapes", "bytecode", "graphs", "fusion", "kernels")
FLAGS = {"--all", "--by-line", "--rounds", "--nodes", "--passes", "-v"}
COMMANDS = typer.main.get_command(command_line()).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize(("page", "command"), NAMED)
def test_commands_and_their_options_exist(page: str, command: str) -> None:
    """Typer parses each command as on a command line; nothing runs."""
    name, *words = joined(separated(shlex.split(command)))
    assert name in COMMANDS, page
    if words:  # the name alone may lack arguments that the command needs
        COMMANDS[name].make_context(name, words)


def test_every_command_is_named_in_the_readme() -> None:
    named = {words[0] for words in commands(PAGES["README.md"].read_text())}
    alone = {name for name in COMMANDS if " " not in name}
    assert alone - named <= {"run", "runs", "targets"}


def test_the_readme_is_short() -> None:
    assert len(PAGES["README.md"].read_text().splitlines()) <= 200


def test_every_ratio_of_the_readmes_cost_table_is_on_the_page_with_its_conditions() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "reference" / "cost.md").read_text(encoding="utf-8")
    table = readme[readme.index("## What it costs") : readme.index("## Supported")]
    rows = [line.split("|")[2:4] for line in table.splitlines() if line.startswith("|")][2:]
    numbers = {number for row in rows for cell in row for number in re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", cell)}
    assert len(rows) == 8
    assert len(numbers) > 15
    assert [
        number for number in sorted(numbers - {"2.11", "2.13"}) if not re.search(rf"(?<![\d.]){number}", page)
    ] == []


def test_the_reference_is_generated_from_the_code() -> None:
    path = pages.REFERENCE / "commands.md"
    assert path.read_text() == pages.commands_page(), "run `make reference`, and commit what it writes"
    assert pages.MANUAL.read_text() == pages.manual(), "run `make reference`, and commit what it writes"
    assert set(re.findall(r"^## (\w+)$", pages.schemas_page(), re.MULTILINE)) == set(schemas.COMMANDS)


@pytest.mark.parametrize("page", PAGES)
def test_links_have_targets(page: str) -> None:
    """`make docs` checks those between pages with their anchors; this one checks README, too."""
    path = PAGES[page]
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)[^)]*\)", FENCE.sub("", path.read_text()))
    generated = {Path(each).name for each in GENERATED}
    assert [each for each in links if Path(each).name not in generated and not (path.parent / each).exists()] == []


def test_every_page_is_in_the_navigation() -> None:
    nav = re.findall(r"- ((?:\w+/)*[\w-]+\.md)", (ROOT / "mkdocs.yml").read_text())
    assert sorted([*nav, "README.md"]) == sorted(page.removeprefix("docs/") for page in (*PAGES, *GENERATED))


def test_every_gb_id_is_in_the_reference_once() -> None:
    breaks = {Path(name).stem: text for name, text in GENERATED.items() if "/breaks/" in name}
    listed = re.findall(r"^- \[?(GB\d{4})", breaks["index"], re.MULTILINE)
    assert sorted(listed) == sorted(known_ids())
    anchors = {
        f"{page}.md#{anchor}" for page, text in breaks.items() for anchor in re.findall(r"\{ #([\w-]+) \}", text)
    }
    assert set(re.findall(r"\((\w+\.md#[\w-]+)\)", breaks["index"])) <= anchors


@pytest.mark.parametrize("page", PAGES)
def test_examples_in_other_languages_can_be_read(page: str) -> None:
    text = PAGES[page].read_text()
    for _, body in blocks(text, "python"):
        ast.parse(body)
    for _, body in blocks(text, "toml"):
        tomllib.loads(body)
    for _, body in blocks(text, "yaml"):
        yaml.safe_load(body)
    for _, body in blocks(text, "json"):
        json.loads(body)


def test_the_policy_example_is_valid(tmp_path: Path) -> None:
    ((title, body),) = [each for each in blocks(PAGES["docs/guide/ci.md"].read_text(), "yaml") if each[0]]
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mask.py").touch()
    (tmp_path / str(title)).write_text(body)
    policy = load_policy(tmp_path / str(title))
    assert [each.gb for each in policy.allow] == ["GB0170"]


def test_json_names_are_those_of_the_schema() -> None:
    page = PAGES["docs/reference/json.md"].read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| `ctrace explain --json`")]
    named = re.findall(r"`(\w+)`", row)
    properties = schemas.schema_of("explain")["$defs"]["report"]["properties"]
    assert set(named) == set(properties)


@pytest.mark.integration
def test_getting_started_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs the page's model file with its command, then every view that a page names without a target."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CTRACE_DIR", raising=False)
    page = PAGES["docs/start.md"].read_text()
    for title, body in blocks(page, "python"):
        (tmp_path / str(title)).write_text(body)
    explain = ["explain", "model.py", "--fast"]
    assert explain in list(commands(page))
    assert _shown(explain, capsys).startswith("PARTIAL  model.py\n")
    named = {tuple(words) for path in PAGES.values() for words in commands(path.read_text()) if _shows_last_run(words)}
    assert named >= {(view,) for view in VIEWS}
    for words in sorted(named):
        assert _shown(words, capsys) != "", words
    for view in VIEWS:
        data = json.loads(_shown((view, "--json"), capsys))
        jsonschema.validate(data, schemas.closed(schemas.schema_of(view)), jsonschema.Draft202012Validator)


@pytest.mark.integration
def test_the_model_of_the_readme_runs_as_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CTRACE_DIR", raising=False)
    page = PAGES["README.md"].read_text()
    ((title, body),) = [each for each in blocks(page, "python") if each[0]]
    (tmp_path / str(title)).write_text(body)
    assert ["explain", str(title)] in list(commands(page))
    assert _shown(["explain", str(title), "--fast"], capsys).startswith("COMPILED  model.py\n")


def _shows_last_run(words: Sequence[str]) -> bool:
    return words[0] in VIEWS and set(words[1:]) <= FLAGS


def _shown(words: Sequence[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command in this process, which saves starting another one."""
    capsys.readouterr()
    command_line()(words, standalone_mode=False)
    return capsys.readouterr().out
