"""The table of sizes: what it counts, and what it counts as added since the start."""

import pytest
from size import by_capability, capabilities, measured, print_table

HOUSE = {
    "cli/commands/memory.py": "from ctrace.cli.asked import asked\nfrom ctrace.reports.memory_screen import screen\n",
    "cli/commands/diff.py": "from ctrace.reports.words import plain\n",
    "cli/asked.py": "from ctrace.reports.words import plain\n",
    "cli/main.py": "",
    "inspector/features/compare/door.py": "DOOR = Door(commands=('diff',))\n",
    "inspector/features/memory/door.py": "DOOR = Door(commands=('memory',))\n",
    "inspector/features/memory/child/door.py": "from ctrace.inspector.bytes_of import bytes_of\n",
    "inspector/features/fake/door.py": "DOOR = Door()\n",
    "inspector/features/fake/child/door.py": "from ctrace.inspector.bytes_of import bytes_of\n",
    "inspector/bytes_of.py": '"""What both ask."""\n\n# The reason.\nvalue = 1 if 2 else 3\n',
    "reports/memory_screen.py": "from ctrace.reports.words import plain\nfrom ctrace.reports.bars import bar\n",
    "reports/bars.py": "bar = 1\n",
    "reports/words.py": "plain = 1\n",
}


def test_a_capability_has_its_folder_its_commands_and_what_serves_them_alone():
    assert capabilities(measured(HOUSE.items())) == {
        "inspector.features.memory.door": "memory",
        "inspector.features.memory.child.door": "memory",
        "cli.commands.memory": "memory",
        "cli.asked": "memory",
        "reports.memory_screen": "memory",
        "reports.bars": "memory",
        "inspector.features.fake.door": "fake",
        "inspector.features.fake.child.door": "fake",
        "inspector.bytes_of": "fake+memory",
    }


def test_what_existed_and_what_was_added_make_the_whole():
    modules = measured(HOUSE.items())
    counts = by_capability(modules)
    assert [counts[name].modules for name in counts] == [4, 9, 2, 1, 6]
    assert list(counts) == ["at the start", "added since", "  fake", "  fake+memory", "  memory"]
    assert counts["at the start"].code + counts["added since"].code == sum(each.code for each in modules.values())
    shared = counts["  fake+memory"]
    assert (shared.lines, shared.code, shared.conditionals, shared.comments, shared.lonely) == (4, 1, 1, 1, 0)


def test_the_table_has_a_row_for_each(capsys: pytest.CaptureFixture[str]):
    modules = measured(HOUSE.items())
    print_table(modules, {}, "v1")
    rows = {line[:32].strip(): line[32:].split() for line in capsys.readouterr().out.splitlines()}
    assert rows["at the start"][:4] == ["4", "+4", "3", "+3"]
    assert rows["added since"][:2] == ["9", "+9"]
    assert rows["memory"][-1] == "3", "of cli.asked, reports.memory_screen and reports.bars"
