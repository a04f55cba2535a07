"""Any file of GPUs either parses, or raises an error with one line on what is wrong and one on what to do."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ctrace.inspector.errors import TargetError
from ctrace.inspector.knowledge.gpus.gpu_table import FACTS, TargetGpu, gpu_named
from tests.support.sampling import examples

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.just("h100")
    | st.dates().map(str)
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
)
_KEYS = st.sampled_from(["extends", "sources", "float16", *FACTS]) | st.text(max_size=9)
_ENTRIES = st.dictionaries(_KEYS, _VALUES | st.dictionaries(_KEYS, _SCALARS, max_size=3), max_size=9)
_TABLES = st.dictionaries(st.sampled_from(["a", "b", "h100"]) | st.text(max_size=5), _ENTRIES, max_size=3)
_PIECES = st.lists(
    st.sampled_from(
        ["a: ", "b:\n", "  ", "{", "}", "[", "]", "&x ", "*x", "<<: ", "!!int ", "!!set ", "- ", "? ", "| ", "'", '"', "#",
         ": ", ",", "h100", "1e9", "0x1F", "1:60", "~", "---\n", "\n", "\t", "%", "2001-1-1", "é", "extends", "null"]
    ),
    max_size=25,
).map("".join)  # fmt: skip
_FUZZ = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _ends_well(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    try:
        assert isinstance(gpu_named(str(file)), TargetGpu)
    except TargetError as error:
        assert error.what
        assert error.todo
        assert "\n" not in error.what + error.todo


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gpus.yaml"


@_FUZZ
@given(content=st.binary(max_size=200))
def test_bytes(file: Path, content: bytes) -> None:
    _ends_well(file, content)


@_FUZZ
@given(text=_PIECES)
def test_pieces_of_yaml(file: Path, text: str) -> None:
    _ends_well(file, text.encode())


@_FUZZ
@given(table=_TABLES)
def test_tables(file: Path, table: dict[str, object]) -> None:
    _ends_well(file, json.dumps(table).encode())


@_FUZZ
@given(facts=st.dictionaries(st.sampled_from(FACTS), _VALUES, max_size=4))
def test_facts_that_are_none(file: Path, facts: dict[str, object]) -> None:
    _ends_well(file, json.dumps({"a": {"extends": "h100", **facts}}).encode())
