"""How `ctrace run` tells its own options from the program's."""

import pytest

from ctrace.cli.commands.run import separated


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("run -m pkg.tool --verbose x", "run -m pkg.tool -- --verbose x"),
        ("run --build -o r.json -m pkg.tool -o x", "run --build -o r.json -m pkg.tool -- -o x"),
        ("run -m pkg.tool", "run -m pkg.tool --"),
        ("run train.py -m x", "run train.py -m x"),
        ("run --timeout 3 train.py -m x", "run --timeout 3 train.py -m x"),
        ("run -- train.py -m x", "run -- train.py -m x"),
        ("explain -m", "explain -m"),
        ("run", "run"),
        ("", ""),
    ],
)
def test_separated(words: str, expected: str) -> None:
    assert separated(words.split()) == expected.split()
