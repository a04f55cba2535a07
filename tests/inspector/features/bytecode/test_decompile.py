"""Reconstructed functions behave like their bytecode, and the verification notices every change of the bytecode."""

import itertools
import warnings
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from ctrace.inspector.facts.bytecode_facts import Constant
from ctrace.inspector.features.bytecode.canonical import form_of_code
from ctrace.inspector.features.bytecode.reconstruct import FunctionSource, NotReconstructed, reconstruct
from ctrace.inspector.features.bytecode.symbolic_machine import StopError
from ctrace.inspector.source.disassembly import disassembled
from tests.inspector.decompile import cases, recording
from tests.support.sampling import examples


def source_of(function):
    found = reconstruct(disassembled(function.__code__))
    assert isinstance(found, FunctionSource), found
    return found


def form_or_none(code):
    try:
        return form_of_code(code, None)
    except StopError:
        return None


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.__name__)
def test_the_text_takes_the_same_steps(case):
    data = disassembled(case.__code__)
    assert recording.difference(case.__code__, data, source_of(case)) is None


NAMED = ("LOAD_GLOBAL", "LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR", "STORE_GLOBAL", "LOAD_FAST")


UNSEEN = (cases.own_lists, cases.caught_as, cases.holds_itself)
"""They have constants without visible effect.

An index into a local list, the end of a slice of it, and the None that ends `except ... as error`.
"""


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.__name__)
def test_the_verification_notices_another_name_and_another_constant(case):
    data = disassembled(case.__code__)
    expected = form_of_code(data, None)
    used = {each.arg for each in data.instructions if each.opname == "LOAD_CONST"}
    for at, name in enumerate(data.names):
        names = tuple("another" if each == name else each for each in data.names)
        assert form_or_none(structs.replace(data, names=names)) != expected, at
    for at in (each for each in used if each is not None):
        if data.constants[at].code is None and case not in UNSEEN:
            changed = list(data.constants)
            changed[at] = Constant("int", "987654")
            assert form_or_none(structs.replace(data, constants=tuple(changed))) != expected, at


SWAPPED = [cases.straight, cases.inlined, cases.statements_between, cases.long_arguments, cases.items, cases.compared]


@pytest.mark.parametrize("case", SWAPPED, ids=lambda case: case.__name__)
def test_the_verification_notices_two_steps_that_changed_places(case):
    data = disassembled(case.__code__)
    expected = form_of_code(data)
    steps = list(data.instructions)
    effects = [at for at, each in enumerate(steps) if each.opname in (*NAMED, "BINARY_OP", "COMPARE_OP")]
    for first, second in itertools.pairwise(effects):
        if steps[first].opname != steps[second].opname or steps[first].arg == steps[second].arg:
            continue
        changed = list(steps)
        changed[first] = structs.replace(steps[first], arg=steps[second].arg)
        changed[second] = structs.replace(steps[second], arg=steps[first].arg)
        assert form_or_none(structs.replace(data, instructions=tuple(changed))) != expected, (first, second)


def test_the_text_reads_like_the_function():
    assert source_of(cases.tensor_if).text.splitlines() == [
        "def tensor_if(a, b):",
        "    x = a.run(b)",
        "    if x.any():",
        "        return resume_one(x, b)",
        "    return resume_two(b, x)",
    ]
    assert source_of(cases.loop_pairs).text.splitlines()[1:3] == [
        "    for key, value in pairs(a, b):",
        "        if key:",
    ]
    assert "    finally:" in source_of(cases.with_finally).text


def test_own_lists_that_nobody_sees_are_not_written():
    def frames(a):
        held = [[a.x, 1]]
        held[0][0:1] = []
        return a.resume([held[0][0]], *held[0])

    assert source_of(frames).text.splitlines()[1:] == ["    a.x", "    return a.resume([1], 1)"]


def test_a_cell_is_taken_from_a_function_that_reads_the_variable():
    def outer(scale):
        def hands_on(a):
            (cell,) = (lambda: scale).__closure__ or ()
            return a(cell)

        return hands_on

    found = source_of(outer(1))
    assert "(lambda: scale).__closure__[0]" in found.text
    assert found.text.startswith("# from the enclosing function: scale\n")
    assert found.free == ("scale",)


def test_a_constant_without_source_has_a_name():
    def takes(a):
        return a("replaced")

    code = takes.__code__.replace(co_consts=tuple(len if c == "replaced" else c for c in takes.__code__.co_consts))
    found = reconstruct(disassembled(code))
    assert isinstance(found, FunctionSource)
    ((name, number),) = found.constants
    assert found.text.startswith(f"# {name} is the constant <builtin_function_or_method>\n")
    assert code.co_consts[number] is len
    assert recording.difference(code, disassembled(code), found) is None


def generator(a):
    yield a


def uses_locals(a):
    return locals()


def while_loop(a):
    while a:
        a.x()


def maybe_unbound(a):
    if a:
        b = a.x
    return b


def carried(a):
    last = None
    for each in a:
        last = each.join(last)
    return last


REFUSED: dict[Any, str | tuple[str, ...]] = {
    generator: "It is a generator.",
    uses_locals: "It calls locals, which can see the function's own variables.",
    while_loop: ("is not supported yet.", "forms a loop that is not a `for` loop."),  # Python 3.11; from 3.12 on
    maybe_unbound: "where it has no value.",
    carried: "The variable last carries a value from one loop iteration to the next.",
}


@pytest.mark.parametrize("case", [generator, uses_locals, while_loop, maybe_unbound, carried], ids=lambda c: c.__name__)
def test_what_is_not_known_is_refused_in_a_sentence(case):
    found = reconstruct(disassembled(case.__code__))
    assert isinstance(found, NotReconstructed)
    assert found.why.endswith(REFUSED[case])


def test_another_python_is_refused():
    data = structs.replace(disassembled(cases.straight.__code__), python="3.9")
    assert reconstruct(data) == NotReconstructed(
        "It was recorded on Python 3.9; reconstructing needs the same version."
    )


def test_a_name_that_is_no_identifier_is_refused():
    data = disassembled(cases.straight.__code__)
    bad = structs.replace(data, names=("x\nimport os", *data.names[1:]))
    assert isinstance(reconstruct(bad), NotReconstructed)


def test_nested_functions():
    inside = [each.code for each in disassembled(cases.inner_function.__code__).constants if each.code is not None]
    assert [code.name for code in inside] == ["helper"]
    assert all(isinstance(reconstruct(code), FunctionSource) for code in inside)


def test_what_python_warns_of_when_the_text_is_compiled_is_not_printed(recwarn):
    source = "def f(x):\n    return 3(x)\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        namespace: dict[str, Any] = {}
        exec(source, namespace)
    assert isinstance(reconstruct(disassembled(namespace["f"].__code__)), FunctionSource)
    assert not recwarn.list


# -- random functions --------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c", "G", "H"])
leaves = names | st.sampled_from(["1", "'k'", "None", "-2"])


def _nodes(inner):
    return st.one_of(
        st.builds("{}.{}".format, names, st.sampled_from("xyz")),
        st.builds("{}({}, {})".format, names, inner, inner),
        st.builds("{}.m({}, *{}, k={})".format, names, inner, names, inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("({}, {})".format, inner, inner),
        st.builds("{{'p': {}, 'q': {}}}".format, inner, inner),
        st.builds("{}[{}]".format, names, inner),
        st.builds("({} + {})".format, names, inner),
        st.builds("({} if {} else {})".format, inner, names, inner),
        st.builds("({} and {})".format, names, inner),
        st.builds("({} is None)".format, names),
        st.builds("(not {})".format, names),
        st.builds("f'{{{}}}-{{{}:>3}}'".format, names, names),
    )


expressions = st.recursive(leaves, _nodes, max_leaves=6)
targets = st.sampled_from(["a", "b", "c"])
simple = st.one_of(
    st.builds("{} = {}".format, targets, expressions),
    st.builds("{}, {} = {}, {}".format, targets, targets, expressions, expressions),
    st.builds("{} += {}".format, targets, expressions),
    st.builds("{}.x = {}".format, targets, expressions),
    st.builds("{}[{}] = {}".format, targets, expressions, expressions),
    st.builds("del {}.y".format, targets),
    st.builds("{}({})".format, targets, expressions),
    st.builds("c = {}; del c; c = {}".format, expressions, expressions),
)


def _blocks(inner):
    lines = st.lists(inner, min_size=1, max_size=4).map("\n".join)

    def under(head, body):
        return head + "\n" + "\n".join("    " + line for line in body.splitlines())

    return st.one_of(
        st.builds(lambda test, body: under(f"if {test}:", body), expressions, lines),
        st.builds(lambda test, x, y: under(f"if {test}:", x) + "\n" + under("else:", y), names, lines, lines),
        st.builds(lambda body, value: under(f"if {value}:", body + f"\nreturn {value}"), lines, names),
        st.builds(lambda body, rest: under("try:", body) + "\n" + under("finally:", rest), lines, inner),
        st.builds(lambda body, rest: under("try:", body) + "\n" + under("except Boom:", rest), lines, inner),
        st.builds(lambda body: under("for d in G:", body), lines),
    )


bodies = st.lists(st.recursive(simple, _blocks, max_leaves=6), min_size=1, max_size=5).map("\n".join)


def check(text):
    world: dict = {}
    exec(text, world)  # our own text
    code = world["made"].__code__
    data = disassembled(code)
    found = reconstruct(data)
    if isinstance(found, FunctionSource):
        assert recording.difference(code, data, found, seeds=(0, 5)) is None, found.text
    return found


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(bodies, expressions)
def test_random_functions_are_right_or_refused(body, last):
    lines = "\n".join("    " + line for line in f"{body}\nreturn {last}".splitlines())
    check(f"def made(a, b, c):\n{lines}\n")
