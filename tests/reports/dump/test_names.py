"""Names of dumped files."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.reports.dump.dump_folder import FileNames, safe


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("aten.mm.default", "aten_mm_default"),
        ("../../etc/passwd", "etc_passwd"),
        ("/absolute", "absolute"),
        ("a\0b\nc", "a_b_c"),
        ("..", "unnamed"),
        ("", "unnamed"),
        ("CON", "_CON"),
        ("lpt1", "_lpt1"),
        ("größe", "gr_e"),
    ],
)
def test_safe(text: str, name: str):
    assert safe(text) == name


def test_long_names_keep_their_number():
    name = safe("triton_poi_fused_" + "add_" * 60 + "17")
    assert len(name) <= 80
    assert name.startswith("triton_poi_fused_add")
    assert name.endswith("_17")


def test_names_are_unique_on_any_file_system():
    names = FileNames("wrapper")
    assert [names.new(each) for each in ("a", "A", "a", "Wrapper")] == ["a", "A-2", "a-3", "Wrapper-2"]


@given(st.lists(st.text(max_size=200), max_size=20))
def test_any_text(texts: list[str]):
    names = FileNames()
    made = [names.new(text) for text in texts]
    assert len({name.lower() for name in made}) == len(made)
    for name in made:
        assert name.isascii()
        assert name.replace("_", "").replace("-", "").isalnum() or set(name) <= set("_-")
        assert 0 < len(name) < 100
