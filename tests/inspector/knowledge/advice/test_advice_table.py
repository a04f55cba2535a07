"""A table has the same entries as a YAML parser's result."""

from pathlib import Path

import pytest
import yaml

from ctrace.inspector.knowledge.advice import AdviceEntry, LazyTable, entries, files_of


@pytest.mark.parametrize("table", ["breaks", "skips", "causes", "attention", "dangers", "fusion"])
def test_it_reads_what_a_yaml_parser_reads(table: str):
    whole = {}
    for file in files_of(table):
        whole.update(yaml.safe_load(file.read_text(encoding="utf-8")))
    assert dict(entries(table)) == {key: AdviceEntry(**fields) for key, fields in whole.items()}


def test_an_entry_is_made_once_and_only_if_somebody_asks(tmp_path: Path):
    file = tmp_path / "a.yaml"
    file.write_text("# comment\none:\n  x: 1\n'quoted':\n  x: 2\n".replace("'", '"'), encoding="utf-8")
    made: list[object] = []

    def make(fields: dict[str, int]) -> int:
        made.append(fields)
        return fields["x"]

    table = LazyTable((file,), make)
    assert (list(table), len(table), "one" in table, "two" in table, made) == (["one", "quoted"], 2, True, False, [])
    assert (table["quoted"], table["quoted"], made) == (2, 2, [{"x": 2}])
    assert table.get("two") is None
