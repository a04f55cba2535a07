"""Where things of the checkout lie, however deep the test is that asks."""

from pathlib import Path

ROOT = next(folder for folder in Path(__file__).resolve().parents if (folder / "pyproject.toml").exists())
TESTS = ROOT / "tests"
DATA = TESTS / "data"
SCRIPTS = TESTS / "scripts"
