"""The pages of README and docs/, and what they contain: examples, and the commands that they name."""

import re
import shlex
from collections.abc import Iterator

import pages

ROOT = pages.ROOT
GENERATED = {
    str(path.relative_to(ROOT)): text for path, text in pages.generated().items() if path.name != "commands.md"
}
"""The pages that are not in git."""
PAGES = {name: path for path in pages.every_page() if (name := str(path.relative_to(ROOT))) not in GENERATED}
FENCE = re.compile(
    r"^```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)


def blocks(text: str, language: str) -> list[tuple[str | None, str]]:
    return [(found["title"], found["body"]) for found in FENCE.finditer(text) if found["language"] == language]


def commands(text: str) -> Iterator[list[str]]:
    """Yield every command that a page names, in shell blocks and in backticks."""
    lines = [line for _, body in blocks(text, "sh") for line in body.splitlines()]
    lines += [
        line.removeprefix("$ ") for _, body in blocks(text, "text") for line in body.splitlines() if line[:2] == "$ "
    ]
    lines += re.findall(r"`(ctrace [a-z][^`\n]*)`", FENCE.sub("", text))
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[:1] == ["ctrace"] and words[1:2]:
            yield words[1:]


NAMED = sorted({(page, shlex.join(words)) for page, path in PAGES.items() for words in commands(path.read_text())})
