"""Resolve what the user typed to a target."""

from pathlib import Path

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.runs.target import ModelTarget, ProgramTarget, program, resolve

COMPILES = "import torch\nf = torch.compile(len)\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of a file in a new working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "net.py"


def refused(text: str, *args: str) -> TargetError:
    with pytest.raises(TargetError) as caught:
        resolve(text, args)
    return caught.value


@pytest.mark.parametrize(
    "source",
    [
        "model = 1\ninputs = (1,)",
        "def model(): ...",
        "class model: ...",
        "model: object = 1",
        "(model, other) = 1, 2",
        "from nets import model",
        "from nets import big as model",
        "import nets.small as model",
        "if True:\n    model = 1",
        "try:\n    model = 1\nexcept ImportError:\n    model = 2",
        "with open('x') as file:\n    model = file.read()",
        "for model in (): ...",
        "print(model := 1)",
    ],
)
def test_a_file_that_binds_model_is_a_model_file(file: Path, source: str):
    file.write_text(source)
    assert resolve("net.py") == ModelTarget(Path("net.py"), None, None)


@pytest.mark.parametrize(
    "source",
    [
        "def make():\n    model = 1",
        "if __name__ == '__main__':\n    model = 1",
        "print(model)",
        "models = 1",
        "import re\npattern = re.compile('x')",
    ],
)
def test_a_file_that_binds_it_elsewhere_has_nothing_to_explain(file: Path, source: str):
    file.write_text(source)
    error = refused("net.py")
    assert error.what == "net.py defines no `model` and does not call torch.compile"
    assert ("ctrace run net.py" in error.todo) == ("import" in source)


def test_a_file_with_a_class_is_told_how_to_make_a_model(file: Path):
    file.write_text("class Small: ...\nclass Large:\n    model = 1")
    assert "model = Large(...)" in refused("net.py").todo


@pytest.mark.parametrize(
    "source",
    [
        COMPILES,
        "from torch import compile",
        "import torch\n@torch.compile(backend='eager')\ndef f(): ...",
        "net.compile()",
        "self.encoder.compile(mode='default')",
        "if __name__ == '__main__':\n    import torch\n    torch.compile(len)",
        "torch._dynamo.optimize('eager')(f)",
    ],
)
def test_a_file_that_compiles_is_a_program(file: Path, source: str):
    file.write_text(source)
    assert resolve("net.py", ["--epochs", "1"]) == ProgramTarget(Path("net.py"), None, ("--epochs", "1"))


def test_a_model_that_compiles_itself_and_names_no_inputs_is_a_program(file: Path):
    file.write_text(f"{COMPILES}model = f")
    assert isinstance(resolve("net.py"), ProgramTarget)
    assert isinstance(resolve("net.py", has_inputs=True), ModelTarget)


def test_a_model_with_inputs_is_a_model_even_if_it_compiles(file: Path):
    file.write_text(f"{COMPILES}model = f\ninputs = (1,)")
    assert isinstance(resolve("net.py"), ModelTarget)


def test_another_object_of_a_file(file: Path):
    file.write_text("encoder = 1")
    assert resolve("net.py:encoder") == ModelTarget(Path("net.py"), None, "encoder")
    assert resolve("net.py:nets.encoder") == ModelTarget(Path("net.py"), None, "nets.encoder")


def test_an_absolute_path(file: Path):
    file.write_text("model = 1")
    assert resolve(f"{file}:model") == ModelTarget(file, None, "model")


def test_an_object_of_a_module(file: Path):
    assert resolve("package.module:name") == ModelTarget(None, "package.module", "name")


def test_a_file_with_a_colon_in_its_name(file: Path):
    Path("a:b.py").write_text("model = 1")
    assert resolve("a:b.py") == ModelTarget(Path("a:b.py"), None, None)


def test_a_file_is_never_executed(file: Path):
    file.write_text("model = 1\nraise SystemExit('executed')")
    assert isinstance(resolve("net.py"), ModelTarget)


@pytest.mark.parametrize("text", ["net.py", "net.py:other", "package.module:name"])
def test_models_take_no_arguments(file: Path, text: str):
    file.write_text("model = 1")
    error = refused(text, "--epochs", "3")
    assert "--epochs 3" in error.what
    assert error.todo == "use ctrace run for a program"


@pytest.mark.parametrize("text", ["nte.py", "nte.py:model"])
def test_a_misspelt_file_is_guessed(file: Path, text: str):
    file.write_text("model = 1")
    error = refused(text)
    assert error.what == "there is no file nte.py"
    assert error.todo == "did you mean net.py?"


def test_a_common_end_does_not_make_files_alike(file: Path):
    file.write_text("model = 1")
    Path("syn.py").write_text("")
    assert refused("missing.py").todo == "name a Python file, file.py:name or package.module:name"


@pytest.mark.parametrize("text", ["weights.bin", "nowhere/net.py", "nowhere/net.py:model", "", ":", "model:"])
def test_no_such_file(file: Path, text: str):
    assert refused(text).todo


def test_a_name_without_a_module(file: Path):
    assert refused(":model").todo


def test_a_folder_is_no_target(file: Path):
    Path("nets").mkdir()
    assert refused("nets").what == "nets is a folder"


def test_a_colon_without_a_name(file: Path):
    file.write_text("model = 1")
    assert "ends in a colon" in refused("net.py:").what


@pytest.mark.parametrize(
    "source", [b"model = (\n", b"model = 1\n  x = 2\n", b"print 'x'\n", b"model = '\xff'\n", b"\0"]
)
def test_a_file_that_python_cannot_read(file: Path, source: bytes):
    file.write_bytes(source)
    error = refused("net.py")
    assert error.what.startswith("net.py")
    assert error.todo == "correct the file; Python cannot read it"


def test_a_syntax_error_names_its_line(file: Path):
    file.write_text("import torch\nmodel = )\n")
    assert refused("net.py").what.startswith("net.py, line 2: ")


@pytest.mark.parametrize("head", [b"\xef\xbb\xbf", b"# -*- coding: latin-1 -*-\n# \xe9\n"])
def test_encodings_that_python_reads(file: Path, head: bytes):
    file.write_bytes(head + b"model = 1\n")
    assert isinstance(resolve("net.py"), ModelTarget)


@pytest.mark.parametrize(
    "text",
    ["x" * 300, f"{'x' * 300}/net.py", f"{'x' * 300}:model", "x" * 5000, "net\0.py"],
    ids=["long", "long-folder", "long-before-a-colon", "longer-than-any-path", "nul"],
)
def test_a_name_that_no_file_system_takes(file: Path, text: str):
    if ":" in text:
        assert resolve(text) == ModelTarget(None, "x" * 300, "model")
    else:
        assert refused(text).todo
        with pytest.raises(TargetError, match="there is no file"):
            program(Path(text), [])


def test_any_file_can_be_run_as_a_program(file: Path):
    file.write_text("print('hello')")
    assert program(Path("net.py"), ["a", "b"]) == ProgramTarget(Path("net.py"), None, ("a", "b"))


def test_a_program_has_to_be_there(file: Path):
    file.write_text("print('hello')")
    with pytest.raises(TargetError) as caught:
        program(Path("ent.py"), [])
    assert caught.value.todo == "did you mean net.py?"


def test_a_program_has_to_be_python(file: Path):
    file.write_text("this is no python")
    with pytest.raises(TargetError, match=r"net\.py, line 1"):
        program(Path("net.py"), [])


def test_a_log_is_no_model(tmp_path: Path):
    log = tmp_path / "dedicated_log_torch_trace_rank_0_x.log"
    log.write_text('V1123 05:36:12.375000 631 torch/_dynamo/convert_frame.py:1 {"dynamo_start": {}, "rank": 0}\n')
    for named, what in ((log, "is a log of torch"), (tmp_path, "is a folder with logs of torch")):
        with pytest.raises(TargetError) as raised:
            resolve(str(named), ())
        assert str(raised.value).startswith(f"{named} {what}: this command needs a model")


def test_file_in_a_folder_that_we_may_not_enter_is_not_said_to_be_missing(monkeypatch: pytest.MonkeyPatch):
    def refuse(self: Path, **_options: object) -> object:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "stat", refuse)
    with pytest.raises(TargetError, match=r"locked/model\.py cannot be read: Permission denied") as caught:
        resolve("locked/model.py")
    assert caught.value.todo == "check the permissions of its folder"


@pytest.mark.parametrize("cells", ['{"cells": [], "count": null}', "{}", ""])
def test_a_notebook_is_no_file_of_python(tmp_path: Path, cells: str):
    notebook = tmp_path / "net.ipynb"
    notebook.write_text(cells)
    for of in (resolve, lambda name: program(Path(name), ())):
        with pytest.raises(TargetError) as caught:
            of(str(notebook))
        assert "is a notebook" in caught.value.what
        assert "%load_ext ctrace" in caught.value.todo
