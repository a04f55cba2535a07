"""Write man/ctrace.1 from the same help that `ctrace --help` prints: `make reference`."""

import re
from collections.abc import Iterator
from typing import Any

from ctrace.inspector.errors import Exit

_EXITS = (
    (Exit.DONE, "Done; for check: everything holds."),
    (Exit.WORSE, "check: something got worse."),
    (Exit.USAGE, "The command line, the target, the policy or a run file is wrong."),
    (Exit.PROGRAM, "The program raised, crashed, was cut off or timed out."),
    (Exit.UNTRUSTED, "check: nothing compiled, the log was cut off, or sources disagree."),
    (Exit.BUG, "A bug of ctrace itself."),
)


def man_page(app: Any, version: str) -> str:
    """Return the manual page of all commands, in troff's man macros."""
    lines = [
        f'.TH CTRACE 1 "" "ctrace {version}" "User Commands"',
        ".SH NAME",
        r"ctrace \- show what torch.compile did to a model, why, and what to change",
        ".SH SYNOPSIS",
        r".B ctrace",
        r".I command",
        "[options] [target]",
        ".SH DESCRIPTION",
        _text(app.help),
        "Data goes to stdout, messages and progress to stderr.",
        ".SH COMMANDS",
    ]
    for name, command in app.commands.items():
        lines += [f".SS ctrace {_text(name)}", *_paragraphs(command.help), *_parameters(command)]
        lines += _examples(command.epilog or "")
    lines += [".SH EXIT STATUS"]
    for code, meaning in _EXITS:
        lines += [".TP", str(int(code)), _text(meaning)]
    lines += [".SH SEE ALSO", r"ctrace \fIcommand\fR \-\-help"]
    return "\n".join(lines) + "\n"


def _paragraphs(text: str | None) -> Iterator[str]:
    for number, part in enumerate((text or "").strip().split("\n\n")):
        if number:
            yield ".PP"
        yield _text(" ".join(part.split()))


def _parameters(command: Any) -> Iterator[str]:
    for each in command.params:
        if getattr(each, "hidden", False):
            continue
        yield ".TP"
        if each.param_type_name == "argument":
            yield rf"\fI{_text((each.metavar or each.name).strip('[]'))}\fR"
        else:
            names = ", ".join(rf"\fB{_text(name)}\fR" for name in (*each.opts, *each.secondary_opts))
            yield names if each.is_flag else rf"{names} \fI{_text(each.metavar or each.name.upper())}\fR"
        yield _text(" ".join((each.help or "").split()))


def _examples(epilog: str) -> Iterator[str]:
    listed = [line.strip() for line in epilog.replace("\b", "").partition("Examples:")[2].strip().splitlines()]
    if listed:
        yield from (".PP", "Examples:", ".RS", ".nf")
        yield from (_text(re.sub(r" {2,}(?=\S)", "  # ", line)) for line in listed)
        yield from (".fi", ".RE")


def _text(text: str) -> str:
    """Escape text for troff: backslashes, hyphens that users type, and a dot or quote at the start of a line."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped
