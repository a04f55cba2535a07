"""Things grouped by a key."""

from ctrace.inspector.grouping import collected, grouped


def test_keys_and_values_keep_their_order() -> None:
    assert list(grouped("bAaB", str.lower).items()) == [("b", ["b", "B"]), ("a", ["A", "a"])]
    assert collected([(2, "x"), (1, "y"), (2, "z")]) == {2: ["x", "z"], 1: ["y"]}


def test_nothing_has_no_groups() -> None:
    assert grouped((), len) == {}
