"""Where a compilation's function is."""

import pytest

from ctrace.inspector.findings.functions import FunctionPlace, place_of
from ctrace.inspector.log.collected_log import CollectedLog
from tests.support.helpers import MODEL, SITE, Log

WRAPPER = f"{SITE}/torch/_dynamo/external_utils.py"
MODULE = f"{SITE}/torch/nn/modules/module.py"


def place(log: Log, at: str = "0/0") -> FunctionPlace:
    raw = CollectedLog()
    for entry in log.entries():
        raw.add(entry)
    assert raw.problems == []
    return place_of(raw, at)


def called(log: Log, at: str, line: int, wraps: str | None = None) -> Log:
    """Let a user's line call one of torch's modules, which Dynamo compiles inside its own wrapper."""
    frames = ((MODEL, line, "<module>"), (MODULE, 1778, "_wrapped_call_impl"), (WRAPPER, 67, "inner"))
    stack = [{"filename": log.file(file), "line": number, "name": name} for file, number, name in frames]
    log.record("dynamo_start", {"stack": stack}, at=at)
    return log if wraps is None else log.ctrace("graph", {"backend": "eager", "ops": 1, "wraps": wraps}, at=at)


def test_the_bytecode_hook_knows_best():
    log = Log().frame("0/0", "forward", 8).bytecode("0/0", "forward", 7).metrics("0/0", co_firstlineno=6)
    assert place(log) == FunctionPlace("forward", MODEL, 7)


def test_without_it_the_start_of_the_compilation_does():
    log = Log().frame("0/0", "forward", 8).metrics("0/0", co_name="run", co_filename="run.py", co_firstlineno=6)
    assert place(log) == FunctionPlace("forward", MODEL, 8)


def test_the_function_of_a_start_is_its_innermost():
    assert place(called(Log(), "0/0", 20)).function == "inner"


def test_the_metrics_know_it_last():
    log = Log().metrics("0/0", co_name="torch_dynamo_resume_in_run_at_9", co_filename="run.py", co_firstlineno=6)
    assert place(log) == FunctionPlace("run", "run.py", 6, 9)


def test_what_nobody_says_is_not_known():
    assert place(Log().metrics("0/0")) == place(Log()) == FunctionPlace("?", "?", 0)


@pytest.mark.parametrize("hook", [True, False])
def test_a_resumed_part_begins_where_it_goes_on(hook: bool):
    name = "torch_dynamo_resume_in_forward_at_12"
    found = place(Log().bytecode("0/0", name, 8) if hook else Log().frame("0/0", name, 8))
    assert found == FunctionPlace("forward", MODEL, 8, 12)
    assert found.begins == 12
    assert FunctionPlace("forward", MODEL, 8).begins == 8


def test_a_wrapped_module_is_named_by_its_class_and_is_where_it_is_called():
    log = called(Log().started(), "0/0", 20, "Sequential")
    assert place(log) == FunctionPlace("Sequential", MODEL, 20)
    assert place(log.bytecode("0/0", "inner", 67, WRAPPER)) == FunctionPlace("Sequential", MODEL, 20)


def test_the_line_is_that_of_the_innermost_caller():
    log = Log().started()
    frames = ((MODEL, 50, "main"), (MODEL, 31, "step"), (MODULE, 1778, "_call_impl"), (WRAPPER, 67, "inner"))
    stack = [{"filename": log.file(file), "line": number, "name": name} for file, number, name in frames]
    log.record("dynamo_start", {"stack": stack}, at="0/0").ctrace(
        "graph", {"backend": "eager", "ops": 1, "wraps": "Linear"}, at="0/0"
    )
    assert place(log) == FunctionPlace("Linear", MODEL, 31)


def test_one_wrapper_serves_all_modules():
    log = called(called(Log().started(), "0/0", 20, "Linear"), "0/1", 21, "Sequential")
    assert place(log, "0/0") == FunctionPlace("Linear", MODEL, 20)
    assert place(log, "0/1") == FunctionPlace("Sequential", MODEL, 21)


def test_a_wrapped_compilation_that_says_nothing_is_like_the_others():
    log = called(Log().started(), "0/0", 20, "Linear").metrics("0/1")
    assert place(log, "0/1") == FunctionPlace("Linear", MODEL, 20)
    assert place(called(log, "0/2", 22), "0/2") == FunctionPlace("Linear", MODEL, 22)


def test_a_wrapper_of_another_frame_says_nothing():
    log = called(called(Log().started(), "0/0", 20), "1/0", 21, "Linear")
    assert place(log, "0/0") == FunctionPlace("inner", MODEL, 20)


def test_a_wrapper_that_no_line_of_the_users_calls_stays_where_it_is():
    log = Log().started().frame("0/0", "inner", 67, WRAPPER)
    log.ctrace("graph", {"backend": "eager", "ops": 1, "wraps": "exp"}, at="0/0")
    assert place(log) == FunctionPlace("exp", WRAPPER, 67)


def test_folders_on_windows():
    windows = "C:\\venv\\Lib\\site-packages\\torch\\_dynamo\\external_utils.py"
    log = Log().frame("0/0", "inner", 67, windows)
    log.ctrace("graph", {"backend": "eager", "ops": 1, "wraps": "Linear"}, at="0/0")
    assert place(log).function == "Linear"


@pytest.mark.parametrize(("name", "file"), [("inner", MODEL), ("wrapped", WRAPPER)])
def test_other_functions_of_that_name_or_file_are_no_wrappers(name: str, file: str):
    log = Log().started().frame("0/0", name, 67, file)
    log.ctrace("graph", {"backend": "eager", "ops": 1, "wraps": "Linear"}, at="0/0")
    assert place(log) == FunctionPlace(name, file, 67)
