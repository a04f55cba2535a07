"""Which calls of a changed function must run in the proof."""

from ctrace.inspector.features.fix.repairs.mining import other_callers

FILE = """\
def unit(x):
    if x.max() > 1:
        x = x / 255
    return x


class Images:
    def __getitem__(self, at):
        return unit(self.load(at))

    def several(self):
        for each in unit(self.load(0)):
            pass
        return 1


class Policy:
    def scaled(self, x):
        return x * self.scale.item()

    def forward(self, x):
        return self.scaled(unit(x))


class Replay:
    def add(self, x):
        self.items.append(self.policy.scaled(x))


def main(model):
    return unit(model.scaled(1))
"""


def lines(old: str, new: str) -> list[int]:
    assert old in FILE
    return [each.line for each in other_callers("model.py", FILE, FILE.replace(old, new))]


def test_methods_that_call_a_changed_function():
    assert lines("x / 255", "x / 256") == [9, 12, 22]


def test_methods_of_other_objects_that_call_a_changed_method():
    assert lines("self.scale.item()", "self.scale.detach()") == [27]


def test_a_change_of_what_nobody_calls():
    assert lines("return 1", "return 2") == []
