"""Bytecode of models that torch rewrites in many ways, in this process: edits, kept parts, links and explanations."""

from pathlib import Path

import pytest

import ctrace
from ctrace.inspector.facts.session import Session
from ctrace.inspector.features.bytecode.bytecode_scene import PieceKind
from ctrace.inspector.features.bytecode.bytecode_view import KeptInstruction, apply, explained, function_codes
from ctrace.inspector.knowledge.version_differences import DEFERRED_CONSTANTS
from tests.inspector.features.bytecode.test_alignment import assert_same
from tests.integration.examples import run

pytestmark = pytest.mark.integration

PROGRAM = """
LOG = []
STATE = {"n": 0}
TOTAL = 0


class Thing:
    def __init__(self):
        self.value = 1


thing = Thing()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))
        self.register_buffer("seen", torch.zeros(1))
        self.step = 0
        self.history = []

    def forward(self, x, *, scale=2.0):
        global TOTAL
        self.seen += 1
        self.step += 1
        TOTAL += 1
        STATE["n"] += 1
        for layer in self.layers:
            x = layer(x)
        self.history.append(1)
        if x.sum() > 0:
            x = x * scale
        else:
            x = x - 1
        with torch.no_grad():
            print("inside")
            y = x + 1
        return y.relu()


def outer(k):
    table = torch.ones(3)

    def inner(x):
        nonlocal k
        z = x * k + table
        print("inner")
        k = k + 1
        return z * k

    return inner


def comprehension(xs):
    ys = [x + 1 for x in xs]
    print(len(ys))
    return sum(y for y in ys)


def trying(x, options, items):
    try:
        y = x.sin()
        options["a"] = y
        items.append(y)
        print(y)
    except ValueError:
        y = x
    finally:
        y = x + 1
    items[0] = y
    return {"a": y, "b": (x, items)}


def keywords(a, b=1, *rest, c, **more):
    s = a + b + c + rest[0] + more["z"]
    print("q", sep=";", end="\\n")
    return f"{s!r}", s


def helper(x):
    y = x + 1
    print("helper")
    return y * 2


def calling(x):
    return helper(x) + helper(x)


def making(x):
    made = Thing()
    made.other = x + 1
    thing.value = thing.value + 1
    thing.other = x * 2
    print("made")
    return made


def deleting(x):
    import random

    a = random.random()
    y = x + a
    del x
    print("deleted")
    return y.sum() + a


def generated(x):
    def rows():
        for row in x:
            yield row * 2

    return [row + 1 for row in rows()]


class Base(torch.nn.Module):
    def forward(self, x):
        return x + 1


class Child(Base):
    def forward(self, x):
        print("child")
        return super().forward(x) * 2


net = torch.compile(Net())
net(torch.ones(2, 4))
net(-torch.ones(2, 4))
inner = torch.compile(outer(3))
inner(torch.ones(3))
inner(torch.ones(3))
torch.compile(comprehension)([torch.ones(2), torch.zeros(2)])
torch.compile(trying)(torch.ones(2), {}, [])
torch.compile(keywords)(torch.ones(2), 2, torch.ones(2), c=torch.ones(2), z=3)
torch.compile(calling)(torch.ones(2))
torch.compile(making)(torch.ones(2))
torch.compile(deleting)(torch.ones(2))
torch.compile(generated)(torch.ones(2, 2))
torch.compile(Child())(torch.ones(2))
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    file: Path = tmp_path_factory.mktemp("bytecode") / "example.py"
    with ctrace.trace() as traced:
        run(PROGRAM, file)
    return traced.session


def test_every_function_is_shown_once(session: Session) -> None:
    shown = [each.compilation.id for function in function_codes(session) for each in function.all]
    assert sorted(shown) == sorted(session.codes)
    assert len(shown) >= 18
    assert all(function.resumes_at is None for function in function_codes(session))


def test_the_edits_produce_the_new_code_and_kept_parts_are_equal(session: Session) -> None:
    for function in function_codes(session):
        for compiled in function.all:
            each = explained(session, compiled)
            before, after = each.codes.before, each.codes.after
            assert apply(each.edits, before.instructions) == after.instructions
            kept = tuple((edit.before, edit.after) for edit in each.edits if isinstance(edit, KeptInstruction))
            assert kept
            assert_same(before, after, kept)


def test_links_name_existing_graphs_and_resume_functions(session: Session) -> None:
    graphs = {graph.id for graph in session.graphs}
    ends = 0
    for function in function_codes(session):
        known = {each.compilation.id for each in function.all}
        for compiled in function.all:
            for piece in explained(session, compiled).pieces:
                if piece.kind is PieceKind.GRAPH:
                    assert set(piece.link) == {compiled.compilation.id}
                    assert set(piece.link) <= graphs
                elif piece.kind is PieceKind.RESUME:
                    ends += 1
                    assert piece.link or "did not compile" in piece.text or "loads" in piece.text
                    assert set(piece.link) <= known
    assert ends > 10


def test_all_inserted_instructions_are_explained(session: Session) -> None:
    for function in function_codes(session):
        for compiled in function.all:
            each = explained(session, compiled)
            strange = [piece for piece in each.pieces if piece.kind is PieceKind.OTHER]
            assert not strange, (function.name, compiled.compilation.id, strange)


def test_side_effects_are_described(session: Session) -> None:
    texts = {
        piece.text.removeprefix("replays ")
        for function in function_codes(session)
        for compiled in function.all
        for piece in explained(session, compiled).pieces
        if piece.text.startswith("replays")
    }
    total = "operator.add(TOTAL, 1)" if DEFERRED_CONSTANTS.holds(session.environment.torch) else "1"
    assert {"self.step = 1", f"global TOTAL = {total}", "STATE.update({'n': 1})", "self.history[:] = [1]"} <= texts
    assert {"thing.value = 2", "(a new Thing).value = 1", "k = 4, in its cell"} <= texts
