"""Which component of a cache key differs, and which earlier key is compared."""

from ctrace.inspector.facts.compile_time import CacheLookup, CompileTime, KeyPart, LookupOutcome, TorchCachesUsed
from ctrace.inspector.findings.compile_time_view import KnownKey, answers, differences, nearest


def parts(**texts: str) -> tuple[KeyPart, ...]:
    return tuple(KeyPart(name, f"digest of {text}", text) for name, text in texts.items())


def known(run: str, key: str, graph: str = "0/0", **texts: str) -> KnownKey:
    return KnownKey(run, "fx_graph", graph, "forward", key, parts(**texts))


def missed(key: str = "new", graph: str = "0/0", **texts: str) -> CacheLookup:
    return CacheLookup("fx_graph", LookupOutcome.MISS, graph, "forward", key, "full_miss", components=parts(**texts))


def test_each_component_that_differs_is_named() -> None:
    found = differences(parts(same="1", gone="2", other="a"), parts(same="1", other="b", added="3"))
    assert [(each.component, each.was, each.now) for each in found] == [
        ("other", "a", "b"), ("added", None, "3"), ("gone", "2", None),
    ]  # fmt: skip


def test_a_long_text_is_shown_from_where_it_differs() -> None:
    (found,) = differences(parts(gm="\n".join(["same"] * 99 + ["relu(x)"])), parts(gm="\n".join(["same"] * 99 + ["y"])))
    assert (found.was, found.now) == ("relu(x)", "y")
    (found,) = differences(parts(gm="a" * 500 + "b"), parts(gm="a" * 500 + "c"))
    assert found.was == f"… {'a' * 30}b"


def test_a_difference_that_the_text_does_not_show_is_still_one() -> None:
    (found,) = differences((KeyPart("gm", "1", "same"),), (KeyPart("gm", "2", "same"),))
    assert "same text" in str(found.was)


def test_the_key_of_the_same_graph_with_the_fewest_differences_is_compared() -> None:
    far, near = known("far", "k1", a="1", b="2"), known("near", "k2", a="1", b="9")
    other_graph = known("other", "k3", graph="5/0", a="9", b="9")
    found = nearest(missed(a="9", b="9"), [near, far, other_graph])
    assert found is not None
    assert (found.run, [each.component for each in found.differs]) == ("near", ["a"])
    assert nearest(missed(a="1"), []) is None


def test_the_newest_of_equally_near_keys_is_compared() -> None:
    found = nearest(missed(a="3"), [known("old", "k1", a="1"), known("new", "k2", a="2")])
    assert found is not None
    assert found.run == "new"


def why(lookup: CacheLookup, *before: KnownKey, kind: str = "private") -> str:
    found = nearest(lookup, before)
    (answer,) = answers(CompileTime(lookups=(lookup,), earlier=(found,) if found else (), use=TorchCachesUsed(kind)))
    return answer.why


def test_every_miss_has_its_reason() -> None:
    assert "no earlier run" in why(missed(a="1"))
    assert "no earlier run to compare" in why(missed(a="1"), kind="")
    assert why(missed(a="1"), known("r", "k", a="2")) == "1 component of the key differs from run r: a"
    four = why(missed(a="1", b="1", c="1", d="1"), known("r", "k", a="2", b="2", c="2", d="2"))
    assert four == "4 components of the key differ from run r: a, b, c and 1 more"
    assert "cache has no entry" in why(missed("k", a="1"), known("r", "k", a="1"))
    guarded = CacheLookup("fx_graph", LookupOutcome.MISS, "0/0", "forward", "k", "guard_miss")
    assert "guards on sizes" in why(guarded)
