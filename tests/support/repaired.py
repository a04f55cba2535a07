"""Places in made-up files, and what a repair makes of them."""

from textwrap import dedent

from ctrace.inspector.repairs.model import Place, Rewrite, SourceRepair


def place(source: str, at: str, *, gb_id: str = "", kind: str = "", names: tuple[str, ...] = ()) -> Place:
    """Return the place of the first line that holds a text."""
    source = clean(source)
    line = next(number for number, text in enumerate(source.splitlines(), 1) if at in text)
    return Place("/model.py", source, line, None, "", kind, gb_id, "", names)


def clean(source: str) -> str:
    """Return a source without the indentation of the test around it; its line ends stay."""
    return dedent(source).lstrip("\n") if "\r" not in source else source


def rewrites(repair: SourceRepair, source: str, at: str, **about: str) -> list[Rewrite]:
    """Return every rewrite of a place; each is Python."""
    found = list(repair.find(place(source, at, **about)))
    for one in found:
        compile(one.source, "model.py", "exec")
        assert one.summary.endswith((".", "?")), one.summary
    return found


def rewritten(repair: SourceRepair, source: str, at: str, **about: str) -> str:
    """Return the new text of the only rewrite, or of the first one."""
    found = rewrites(repair, source, at, **about)
    assert found, "no rewrite"
    return found[0].source
