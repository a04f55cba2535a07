"""Functions that Dynamo rewrote, and what their new code does in a few words."""

from msgspec.structs import replace

from ctrace.inspector.features.bytecode.bytecode_view import explained, function_codes
from tests.support.helpers import recorded, whole

SESSION = recorded("rewritten")


def test_resume_functions_are_under_the_function_they_resume() -> None:
    found = {each.name: each for each in function_codes(SESSION)}
    assert list(found) == ["Net.forward", "scaled.<locals>.inner"]
    assert [(each.resumes_at, each.compiled[0].compilation.id) for each in found["Net.forward"].resumes] == [
        (18, "1/0"),
        (19, "2/0"),
        (22, "3/0"),
    ]


def test_without_the_code_of_the_caller_the_nearest_function_of_that_name() -> None:
    codes = {id_: each for id_, each in SESSION.codes.items() if id_ not in ("1/0", "2/0")}
    (forward, _) = function_codes(replace(SESSION, codes=codes))
    assert [each.resumes_at for each in forward.resumes] == [22]


def test_a_resume_function_alone_stands_for_itself() -> None:
    (only,) = function_codes(replace(SESSION, codes={"3/0": SESSION.codes["3/0"]}))
    assert (only.name, only.resumes_at) == ("forward", 22)


def test_a_log_without_bytecode_has_no_functions() -> None:
    assert function_codes(whole().session()) == ()


def test_links_lead_to_what_is_there() -> None:
    graphs, known = {graph.id for graph in SESSION.graphs}, set(SESSION.codes)
    for function in function_codes(SESSION):
        for compiled in function.all:
            for piece in explained(SESSION, compiled).pieces:
                assert set(piece.link) <= (graphs if piece.kind == "graph" else known)


def test_outline() -> None:
    forward = function_codes(SESSION)[0]
    assert explained(SESSION, forward.compiled[0]).outline == (
        "calls graph 0/0 with 3 inputs",
        "replays side effects in 3 writes",
        'line 18 runs eagerly: print("mean", sep=": ")',
        "goes on in forward at line 19 (1/0)",
    )
