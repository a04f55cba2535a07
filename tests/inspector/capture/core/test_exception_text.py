"""Exceptions that misbehave when their text is read."""

from ctrace.inspector.capture.core.exception_text import (
    LONGEST,
    kind_and_message,
    message,
    text_of,
    traceback_text,
    type_name,
)


class _SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class _NumberError(Exception):
    def __str__(self) -> str:
        return 3  # type: ignore[return-value]  # noqa: PLE0307 - the test is about this


class _Meta(type):
    def __getattribute__(cls, name: str) -> object:
        raise RuntimeError(f"no {name}")


class _NamelessError(Exception, metaclass=_Meta):
    pass


def test_a_message_that_cannot_be_asked():
    assert kind_and_message(_SilentError()) == "_SilentError: <its __str__ raises RuntimeError>"
    assert kind_and_message(_NumberError()) == "_NumberError: <its __str__ raises TypeError>"


def test_a_class_that_lies_about_its_name():
    assert type_name(_NamelessError("x")) == "_NamelessError"


def test_letters_that_no_file_takes():
    assert message(ValueError("a\ud800b")) == "a\\ud800b"
    assert text_of("\ud800") == "\\ud800"


def test_a_message_that_is_too_long():
    text = message(ValueError("x" * 30_000_000))
    assert len(text) < LONGEST + 100
    assert text.endswith("x… (29,900,000 more characters)")


def test_an_exit_code_that_cannot_be_asked():
    assert text_of(_SilentError()) == "<a _SilentError whose __str__ raises RuntimeError>"


def test_tracebacks_are_shown_whatever_they_hold():
    assert "more characters" in traceback_text(ValueError("x" * 100_000), None)
    assert "_SilentError" in traceback_text(_SilentError(), None)
