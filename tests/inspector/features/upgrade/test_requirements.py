"""A word with `==`, `>=`, `~=` or `@` is a requirement, every other one a model."""

import pytest

from ctrace.inspector.errors import TargetError
from ctrace.inspector.features.upgrade.environments import parted


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("torch==2.15.0", "torch"),
        ("Torch_Geometric>=2.6,<3", "torch-geometric"),
        ("transformers[torch]~=5.2", "transformers"),
        ("einops @ file:///wheels/einops.whl", "einops"),
        ("a==1.0+cpu", "a"),
    ],
)
def test_a_requirement_is_told_by_its_mark(word: str, name: str):
    requirements, targets = parted([word, "model.py", "net.py:Net", "pkg.models:tiny"])
    assert [(each.text, each.name) for each in requirements] == [(word, name)]
    assert targets == ["model.py", "net.py:Net", "pkg.models:tiny"]


@pytest.mark.parametrize("word", ["==2.15", "torch==", "torch== 2.15 --index-url x", "-e@x", "torch@"])
def test_what_is_no_requirement_is_refused(word: str):
    with pytest.raises(TargetError, match="is no requirement"):
        parted([word])


def test_one_equals_sign_gets_the_command():
    with pytest.raises(TargetError) as caught:
        parted(["torch=2.15.0"])
    assert caught.value.todo == "write torch==2.15.0"


def test_a_package_is_named_once():
    with pytest.raises(TargetError, match="torch is named twice"):
        parted(["torch==2.15.0", "Torch>=2.14"])
