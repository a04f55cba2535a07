"""What objects that the file makes otherwise, and callers of methods, may hold."""

from ctrace.inspector.source.other_objects import other_objects

SIZED = """\
import torch

class Net(torch.nn.Module):
    def __init__(self, levels=1):
        super().__init__()
        self.slots = torch.nn.Parameter(torch.randn(levels, 8))
        self.scale = 2.0

    def forward(self, h):
        {line}
        return h

def small():
    return Net(levels=1)

def large():
    return Net(levels={large})
"""
COPIED = """\
import copy

class Net:
    def __init__(self, stats):
        self.stats = stats

    def {method}(self, stats):
        self.stats["mean"] = {value}

    def forward(self, h):
        kept = {copy}
        return h - kept["mean"]
"""


def asked(name: str, large: int) -> tuple[str, ...]:
    before = f"h = h + self.{name} if h.sum() > 0 else h"
    after = f"h = torch.where(h.sum() > 0, h + self.{name}, h)"
    return other_objects(*(SIZED.format(line=line, large=large) for line in (before, after)))


def test_a_size_that_another_object_has_is_asked_about():
    (question,) = asked("slots", 4)
    assert "`self.slots`" in question
    assert "Line 17" in question


def test_equal_objects_and_attributes_of_one_size_are_not():
    assert asked("slots", 1) == ()
    assert asked("scale", 4) == ()


def copies(method: str, value: str) -> tuple[str, ...]:
    made = ("copy.deepcopy(self.stats)", "{k: v.clone() for k, v in self.stats.items()}")
    return other_objects(*(COPIED.format(method=method, value=value, copy=each) for each in made))


def test_a_copy_of_what_a_caller_passes_is_asked_about():
    (question,) = copies("set_stats", "stats")
    assert "`self.stats`" in question
    assert "line 8" in question


def test_a_copy_of_what_the_class_makes_itself_is_not():
    assert copies("reset", "0.0") == ()
