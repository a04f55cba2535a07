"""The configurations that a command line selects."""

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.time.timing_model import CompileConfiguration, configurations


def selected(
    modes: str | None = None,
    backends: str | None = None,
    *options: str,
    mode: str | None = None,
    backend: str | None = None,
) -> tuple[CompileConfiguration, ...]:
    return configurations(modes, backends, options, mode=mode, backend=backend)


def test_nothing_is_the_default():
    assert selected() == (CompileConfiguration("default"),)


def test_a_mode_and_options_are_one_configuration():
    found = selected(None, None, "a=1,b=x", "c=2", mode="max-autotune")
    assert found == (
        CompileConfiguration("max-autotune a=1,b=x,c=2", "max-autotune", None, {"a": "1", "b": "x", "c": "2"}),
    )


def test_lists_and_options_are_rows_each_once():
    found = selected("default,max-autotune", "inductor,eager,default", "a=1")
    assert [each.name for each in found] == ["default", "max-autotune", "backend eager", "backend default", "a=1"]
    assert [each.backend for each in found] == [None, None, "eager", "default", None]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ({"modes": "default", "mode": "max-autotune"}, "--mode and --modes"),
        ({"backends": "eager", "mode": "max-autotune"}, "--mode and --backends"),
        ({"modes": "default", "backend": "eager"}, "--backend and --modes"),
        ({"modes": " , "}, "--modes names nothing"),
        ({"backend": "eager", "mode": "default"}, "--mode and --backend eager"),
        ({"modes": ",".join(map(str, range(33)))}, "too many"),
    ],
)
def test_what_excludes_each_other_is_refused(words: dict[str, str], what: str):
    with pytest.raises(TargetError, match=what):
        selected(**words)


@pytest.mark.parametrize("text", ["x", "=1", "a=", "a=1,b", ""])
def test_what_is_no_option_is_refused(text: str):
    with pytest.raises(TargetError, match="not KEY=VALUE"):
        selected(None, None, text)


def test_options_of_another_backend_are_refused():
    with pytest.raises(TargetError, match="--options and --backend eager"):
        selected(None, None, "a=1", backend="eager")
