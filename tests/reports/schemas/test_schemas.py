"""The JSON Schemas that ctrace ships are generated from the code and match the commands' output."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemas
import shapes
import typer.main
from msgspec.structs import replace

from ctrace.cli import kernel_choice as kernelviews
from ctrace.cli.commands import graphs as graphviews
from ctrace.cli.main import command_line
from ctrace.inspector.diagnosis.breaks_document import breaks_document
from ctrace.inspector.diagnosis.explain_document import explain_document
from ctrace.inspector.diagnosis.recompiles_document import recompiles_document
from ctrace.inspector.diagnosis.side_by_side_document import side_by_side_document
from ctrace.inspector.errors import CtraceError
from ctrace.inspector.facts.findings import Owner
from ctrace.inspector.facts.session import Session, Target
from ctrace.inspector.features.bytecode.bytecode_view import bytecode_document
from ctrace.inspector.findings.breaks.advice_lookup import cause_lesson, lesson
from ctrace.inspector.findings.fusion_view import fusion_document
from ctrace.inspector.findings.guard_view import guards_document
from ctrace.inspector.findings.shapes_document import shapes_document
from ctrace.inspector.knowledge.gpus.gpu_table import gpus
from ctrace.inspector.runs.store import SavedRun
from ctrace.inspector.self_check import ProbeResult
from ctrace.reports.gate.json import render_check_json
from ctrace.reports.json.printer import render
from tests.support import (
    built,
    fusions,
    guarded,
    helpers,
    kernelsessions,
    outcomes,
    recompiled,
    sessions,
    sizes,
    targeted,
    userkernels,
)
from tests.support.explained import explain_json
from tests.support.places import DATA
from tests.support.sampling import sampled

FILES = sorted(schemas.FOLDER.glob("*.json"))


def _sessions() -> Iterator[tuple[str, Session]]:
    """Yield every handmade session of the tests, and every recorded log."""
    for module in (
        built,
        fusions,
        guarded,
        kernelsessions,
        recompiled,
        sessions,
        sizes,
        targeted,
        userkernels,
    ):
        for name, value in vars(module).items():
            if isinstance(value, Session):
                yield f"{module.__name__}.{name}", value
    yield from sessions.ALL.items()


SESSIONS = dict(_sessions())
LOGS = [path.stem for path in sorted(DATA.glob("*.log"))]


def _graphs(**options: Any) -> Callable[[Session], str]:
    return lambda session: render(graphviews.graphs_answer(session, graphviews.GraphView(**options)))


def _kernels(**options: Any) -> Callable[[Session], str]:
    return lambda session: render(kernelviews.document(session, kernelviews.KernelChoice(**options)))


def _several(each: Callable[[Session], Any]) -> Callable[[Session], str]:
    return lambda session: render(side_by_side_document({"a100": session, "h100": session}, {"l4": "no"}, each))


WRITTEN: list[tuple[str, Callable[[Session], str]]] = [
    ("explain", explain_json),
    ("explain", _several(explain_document)),
    ("run", explain_json),
    ("breaks", lambda session: render(breaks_document(session))),
    ("recompiles", lambda session: render(recompiles_document(session))),
    ("guards", lambda session: render(guards_document(session))),
    ("shapes", lambda session: render(shapes_document(session))),
    ("bytecode", lambda session: render(bytecode_document(session))),
    ("bytecode", lambda session: render(bytecode_document(session, source=True))),
    ("graphs", _graphs()),
    ("graphs", _graphs(passes=True)),
    ("graphs", _graphs(stage="dynamo")),
    ("graphs", _graphs(stage="forward")),
    ("graphs", _graphs(diff="dynamo..forward")),
    ("graphs", _graphs(line="model.py:5")),
    ("fusion", lambda session: render(fusion_document(session))),
    ("kernels", _kernels()),
    ("kernels", _kernels(source=True)),
    ("kernels", _kernels(wrapper=True)),
    ("kernels", _kernels(line="model.py:5")),
    ("kernels", _kernels(ir="ptx")),
    ("kernels", _several(lambda session: kernelviews.document(session, kernelviews.KernelChoice()))),
]


@pytest.fixture(scope="module")
def validators() -> dict[str, jsonschema.Draft202012Validator]:
    read = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in FILES}
    return {name: jsonschema.Draft202012Validator(schemas.closed(schema)) for name, schema in read.items()}


Validators = dict[str, jsonschema.Draft202012Validator]


def _fits(validators: Validators, command: str, text: str) -> None:
    error = jsonschema.exceptions.best_match(validators[command].iter_errors(json.loads(text)))
    assert error is None, f"{command}: {error.json_path}: {error.message[:500]}"


def test_the_files_are_generated_from_the_code() -> None:
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in FILES}
    stale = [name for name, text in schemas.texts().items() if on_disk.get(name) != text]
    assert (stale, set(on_disk) - set(schemas.texts())) == ([], set()), "run `make schemas`, and commit what it writes"


@dataclass(frozen=True)
class Toy:
    """The input of the toy writer."""

    name: str
    kind: Owner
    size: int | None = None
    """In bytes."""
    pair: tuple[int, str] | None = None


def _toy(each: Toy, some: Sequence[Toy]) -> dict[str, Any]:
    if each.size is None:
        return {"name": each.name, "size": None, "small": True}
    head = {"name": each.name or None, "size": each.size}
    return {**head, "kind": str(each.kind), "pair": each.pair and list(each.pair), "others": [one.name for one in some]}


def _beyond(each: Toy) -> dict[str, Any]:
    return {"name": (lambda: each.name)()}


def test_a_writer_is_followed_through_its_branches() -> None:
    shape = schemas._schema(shapes.Writers().returned(_toy))
    assert shape["required"] == ["name", "size"]
    assert shape["properties"] == {
        "name": {"type": ["string", "null"]},
        "size": {"type": ["null", "integer"]},
        "small": {"const": True},
        "kind": {"enum": ["user", "library", "torch"]},
        "pair": {
            "type": ["array", "null"],
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": False,
            "minItems": 2,
        },
        "others": {"type": "array", "items": {"type": "string"}},
    }


def test_a_writer_that_cannot_be_followed_is_refused() -> None:
    with pytest.raises(shapes.UnknownSyntaxError, match=r"_beyond: .*lambda.*; teach tools"):
        shapes.Writers().returned(_beyond)


def test_every_command_with_json_has_one() -> None:
    commands = typer.main.get_command(command_line()).commands  # type: ignore[attr-defined]
    with_json = {name for name, each in commands.items() if any("--json" in option.opts for option in each.params)}
    below = {name for name in with_json if " " in name}  # a form in the schema of the command above
    assert with_json - below == set(schemas.COMMANDS)
    forms = [form.options.partition(" ")[0] for form in schemas.COMMANDS["kernels"]]
    assert {name.removeprefix("kernels ") for name in below} <= set(forms)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_value_has_a_type(path: Path) -> None:
    anything = path.read_text(encoding="utf-8").count("{}")
    assert anything == (1 if path.stem == "runs" else 0), "a value without a type: annotate what it is made of"


@pytest.mark.parametrize("path", sampled(FILES), ids=lambda path: path.stem)
def test_every_file_is_a_schema(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", sampled(SESSIONS))
def test_reports_fit(name: str, validators: Validators) -> None:
    _all_fit(SESSIONS[name], validators)


@pytest.mark.parametrize("name", sampled(LOGS))
def test_reports_of_recorded_logs_fit(name: str, validators: Validators) -> None:
    _all_fit(helpers.recorded(name), validators)


def _all_fit(session: Session, validators: Validators) -> None:
    for command, write in WRITTEN:
        try:
            text = write(session)
        except CtraceError:
            continue
        _fits(validators, command, text)


@pytest.mark.parametrize("name", outcomes.ALL)
def test_checks_fit(name: str, validators: Validators) -> None:
    _fits(validators, "check", render_check_json(outcomes.ALL[name]))


@pytest.mark.parametrize("name", ["GB0170", "loop", "print"])
def test_lessons_on_breaks_fit(name: str, validators: Validators) -> None:
    _fits(validators, "breaks", render(lesson(name)))


@pytest.mark.parametrize("name", ["size", "identity"])
def test_lessons_on_causes_fit(name: str, validators: Validators) -> None:
    _fits(validators, "recompiles", render(cause_lesson(name)))


def test_gpus_fit(validators: Validators) -> None:
    table = gpus(())
    _fits(validators, "targets", render(tuple(table.values())))
    _fits(validators, "targets", render(table["h100"]))


def test_a_dump_fits(tmp_path: Path, validators: Validators) -> None:
    _fits(validators, "kernels", _kernels(dump=tmp_path / "dump")(kernelsessions.KERNELS))


def test_lists_of_runs_and_doctor_checks_fit(validators: Validators) -> None:
    """`ctrace runs` and `ctrace doctor` do not report on a session."""
    run = SavedRun(Path("run"), "run", Target(path="model.py"), created=1.0)
    _fits(validators, "runs", render((run, replace(run, summary={"name": "other", "graphs": 2}))))
    _fits(validators, "doctor", render((ProbeResult("torch", True, "2.13"),)))


def test_a_name_missing_in_the_schema_is_found(validators: Validators) -> None:
    data = json.loads(explain_json(sessions.ALL["partial"]))
    data["breaks"][0]["surprise"] = 1
    assert not validators["explain"].is_valid(data)
    data = json.loads(explain_json(sessions.ALL["partial"]))
    data["verdict"] = "fine"
    assert not validators["explain"].is_valid(data)
