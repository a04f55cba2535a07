"""Templates of the files in dumps and packages, as text and not as modules, because most of them import torch.

`dump_*.jinja` are the files of a dump, `package_*.jinja` those of a package; the others are parts of several files.

Text from a log fills the fields of a template; it never becomes a template, or the name of one. What it may contain,
line breaks or quotes, a field's filter makes harmless: `literal`, `block`, `comment`, `quoted`, `cell`.
"""

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ctrace.reports import format as fmt
from ctrace.reports.markup import code

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = Path(__file__).parent


def rendered(template: str, /, **fields: object) -> str:
    """Fill the template `TEMPLATE.jinja` of this folder."""
    return _environment().get_template(f"{template}.jinja").render(fields)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # here, since few commands write files

    made = Environment(
        loader=FileSystemLoader(_FOLDER),
        undefined=StrictUndefined,
        autoescape=False,  # the files are Python and Markdown; escapes of HTML would change the code
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(literal=literal, block=block, comment=comment, quoted=quoted, cell=cell, code=code, repr=repr)
    made.filters.update(one_line=fmt.one_line, memory=fmt.memory, path=fmt.path)
    return made


def literal(value: object) -> str:
    """Write any text, or a list or tuple of texts, as a one-line literal."""
    return ascii(value)


def block(text: str) -> str:
    """Write any text as a multi-line literal, which is easy to read and edit, or else as a one-line literal."""
    written = f"r'''{text}'''"
    try:
        is_same = ast.literal_eval(written) == text
    except (SyntaxError, ValueError, MemoryError):  # the text would end the literal early, or contains a zero byte
        is_same = False
    if is_same:
        return written
    return literal(text)


def comment(text: str, limit: int = 110) -> str:
    """Write any text as a one-line comment."""
    return f"# {fmt.one_line(text, limit)}"


def quoted(text: str) -> str:
    """Make foreign text safe inside of a docstring: one line, and nothing that ends the docstring or escapes."""
    return fmt.one_line(text).replace("\\", "/").replace('"', "'")


def cell(text: str) -> str:
    """Make foreign text safe for a cell of a Markdown table: one line, no bars, no markup."""
    line = fmt.one_line(text, 200)
    return "".join(f"\\{letter}" if letter in "|`<>[]*\\" else letter for letter in line)
