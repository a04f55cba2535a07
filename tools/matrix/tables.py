"""The tables of README.md and docs/reference/versions.md.

They are made from the stored results and from inspector/knowledge/.
"""

import re
from collections.abc import Iterator, Sequence

from ctrace.inspector.knowledge.hooks import HOOKS
from ctrace.inspector.knowledge.releases import RELEASES
from ctrace.inspector.knowledge.version_differences import DIFFERENCES
from matrix.pairs import ROOT, pairs
from matrix.store import Cell, Store

PAGES = (ROOT / "README.md", ROOT / "docs" / "reference" / "versions.md")
_TABLE = re.compile(r"(<!-- matrix: (?P<name>\w+) -->\n).*?(<!-- end of matrix -->\n)", re.DOTALL)


def write_tables(store: Store) -> None:
    """Write the tables into their pages."""
    made = tables(store)
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8"), made), encoding="utf-8")


def with_tables(text: str, made: dict[str, str]) -> str:
    """Return a page with its tables replaced."""
    return _TABLE.sub(lambda match: f"{match[1]}{made[match['name']]}{match[3]}", text)


def tables(store: Store) -> dict[str, str]:
    """Return the tables, by the names in the pages' markers."""
    return {
        "short": "\n".join(_short(store)) + "\n",
        "full": "\n".join(_full(store)) + "\n",
        "differences": "\n".join(_differences()) + "\n",
        "hooks": "\n".join(_hooks()) + "\n",
    }


def _short(store: Store) -> Iterator[str]:
    pythons = list(dict.fromkeys(pair.python for pair in pairs()))
    yield f"| torch | {' | '.join(f'Python {each}' for each in pythons)} |"
    yield f"|---|{'---|' * len(pythons)}"
    for release in reversed(RELEASES):
        cells = {pair.python: summary(store.cells(pair)) for pair in pairs() if pair.torch == release.torch}
        yield f"| {release.torch} | {' | '.join(cells.get(each, 'not supported') for each in pythons)} |"


def summary(cells: Sequence[Cell]) -> str:
    """Return one cell of the short table."""
    run = [cell for cell in cells if cell.result != "not run"]
    failed = sum(cell.result == "failed" for cell in run)
    if not run:
        return "not run"
    right = "all" if len(run) - failed == len(cells) else f"{len(run) - failed} of {len(cells)}"
    rest = len(cells) - len(run)
    words = [f"{right} ok", *([f"{failed} failed"] if failed else []), *([f"{rest} not run"] if rest else [])]
    return ", ".join(words)


def _full(store: Store) -> Iterator[str]:
    for pair in pairs():
        known = store.cells(pair)
        reasons = {cell.detail for cell in known}
        yield f"### torch {pair.torch}, Python {pair.python}\n"
        if all(cell.result == "not run" for cell in known) and len(reasons) == 1:
            yield f"Not run, because {reasons.pop()}.\n"
            continue
        date, torch, python = (store.about(pair, key) for key in ("date", "torch", "python"))
        if date:
            yield f"torch {torch}, Triton {pair.triton}, Python {python}; {date}.\n"
        yield "| step | result |\n|---|---|"
        yield from (f"| {step} | {_escaped(str(cell))} |" for step, cell in zip(store.steps, known, strict=True))
        yield ""


def _differences() -> Iterator[str]:
    yield "| torch | what differs | what ctrace does |\n|---|---|---|"
    for each in DIFFERENCES:
        yield f"| {each.range} | {_escaped(each.what)} | {_escaped(each.effect)} |"


def _hooks() -> Iterator[str]:
    yield "| place in torch | what it tells | releases |\n|---|---|---|"
    for each in HOOKS:
        releases = f"{each.since} to {each.until}" if each.until else f"from {each.since}"
        yield f"| `{each.place}` | {_escaped(each.tells)} | {releases} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
