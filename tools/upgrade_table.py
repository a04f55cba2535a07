"""Write a table of docs/reference/versions.md from answers of `ctrace upgrade --json`.

    ctrace upgrade torch==2.15.0 mlp.py --json -o mlp.json
    python tools/upgrade_table.py "2.14 to 2.15" mlp.json ...    between <!-- upgrade: 2.14 to 2.15 --> and its end
    python tools/upgrade_table.py - mlp.json ...                 on the screen

A row is a reason, with the models that it changes, and how many changes of each kind a model has of it. The rows stand
in the order in which the files name the reasons; models without a change, and those that were not compared, come last.
"""

import argparse
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "versions.md"
_PLACE = re.compile(r" \(at /.*\)$")
_BLOCK = re.compile(r"(<!-- upgrade: (?P<name>[^>]+) -->\n).*?(<!-- end of upgrade -->\n)", re.DOTALL)


def table_of(answers: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the table."""
    models = [model for answer in answers for model in answer["models"]]
    # A call that ended early names the models that it did not reach: nothing is known of them.
    models = [model for model in models if model["error"] is None or model["error"]["phase"] != "interrupt"]
    counts: dict[tuple[str, str, str], dict[str, Counter[str]]] = {}
    for model in models:
        for each in model["changes"]:
            of_reason = counts.setdefault(_reason(each["reason"]), {})
            of_reason.setdefault(_name(model), Counter())[each["what"]] += 1
    yield "| reason | before | after | what changed |"
    yield "|---|---|---|---|"
    for reason, changed in counts.items():
        yield _row(*reason, "; ".join(_changed(changed)))
    if equal := [_name(model) for model in models if model["error"] is None and not model["changes"]]:
        yield _row("no change", "", "", ", ".join(equal))
    for model in models:
        if (error := model["error"]) is not None:
            # Without the place in a file of this machine.
            message = _PLACE.sub("", error["message"])
            yield _row(f"not compared: {error['environment']}, {message}", "", "", _name(model))


def _name(model: dict[str, Any]) -> str:
    return f"`{Path(model['name']).name}`"


def _changed(changed: dict[str, "Counter[str]"]) -> Iterator[str]:
    """Yield what changed, with all models that changed alike."""
    alike: dict[str, list[str]] = {}
    for name, kinds in changed.items():
        text = ", ".join(f"{number} {kind}" for kind, number in kinds.items())
        alike.setdefault(text, []).append(name)
    yield from (f"{text}: {', '.join(names)}" for text, names in alike.items())


def _reason(reason: dict[str, Any]) -> tuple[str, str, str]:
    if reason["kind"] == "unknown":
        return f"not found: {reason['note']}", "", ""
    if reason["kind"] == "torch" and reason["name"] == "torch":
        return "torch itself; the place was not found", "", ""
    was, now = (f"`{each}`" if each else "" for each in (reason["before"], reason["after"]))
    source = reason["source"]
    place = f" ({source})" if source and source not in (reason["before"], reason["after"]) else ""
    return f"{reason['kind']}: `{reason['name']}`{place}", was, now


def _row(*cells: str) -> str:
    return f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


def with_table(text: str, name: str, lines: Iterable[str]) -> str:
    """Return a page with the table of this name replaced.

    Raises:
        ValueError: the page has no such table.
    """
    made = "".join(f"{line}\n" for line in lines)
    if name not in [match["name"] for match in _BLOCK.finditer(text)]:
        raise ValueError(f"there is no <!-- upgrade: {name} -->")
    return _BLOCK.sub(lambda match: f"{match[1]}{made}{match[3]}" if match["name"] == name else match[0], text)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("answers", nargs="+", type=Path, metavar="FILE")
    words = parser.parse_args()
    lines = list(table_of(json.loads(each.read_text(encoding="utf-8")) for each in words.answers))
    if words.name == "-":
        print("\n".join(lines))
    else:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), words.name, lines), encoding="utf-8")


if __name__ == "__main__":
    main()
