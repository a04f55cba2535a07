"""Starting another Python like this one."""

import pytest

from ctrace.inspector.processes.boot import options


@pytest.mark.parametrize(
    ("command", "kept"),
    [
        ("python -m ctrace run x.py", ""),
        ("python -X dev -um ctrace -W x", "-X dev -u"),
        ("python -Wd -IX a=b /usr/bin/ctrace -O", "-Wd -I -X a=b"),
        ("python -i -x -OO ctrace", "-OO"),
        ("python --check-hash-based-pycs always -c 1", "--check-hash-based-pycs always"),
        ("/usr/bin/python3 -sP /usr/bin/ctrace", "-sP"),
        ("python", ""),
        ("python -", ""),
    ],
)
def test_options_for_python_itself_are_passed_on(command: str, kept: str) -> None:
    assert options(command.split()) == kept.split()
