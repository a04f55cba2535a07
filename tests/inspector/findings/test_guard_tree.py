"""Torch's printed guard trees become trees."""

from itertools import count as numbers

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrace.inspector.facts.findings import Frame
from ctrace.inspector.facts.guard_facts import Guard, GuardNode, GuardText, GuardTree
from ctrace.inspector.findings.guard_tree import count, latency_of, parse, with_frames
from tests.support.helpers import MODEL, PREFIXES, SITE, TORCH_PREFIXES, fuzzing, recorded
from tests.support.places import DATA
from tests.support.sampling import sampled

OWNERS = {**PREFIXES, **TORCH_PREFIXES}
LIBRARY = Frame(f"{SITE}/einops/einops.py", 3, "rearrange")
TORCH = Frame(f"{SITE}/torch/nn/modules/linear.py", 134, "forward")
HERE = Frame(MODEL, 9, "forward")

TREE = """\

TREE_GUARD_MANAGER:
+- RootGuardManager
| +- DEFAULT_DEVICE: utils_device.CURRENT_DEVICE == None                           # _dynamo/output_graph.py:1122 in init_ambient_guards
| +- GLOBAL_STATE: ___check_global_state()
| +- GuardManager: source=L['self'], accessed_by=FrameLocalsGuardAccessor(key='self', framelocals_idx=0), type=<class '__main__.Net'>, tag_safe=(False, False)
| | +- TYPE_MATCH: ___check_type_id(L['self'], 938762), type=<class '__main__.Net'>  # return self.fc(x)  # ct/model.py:9 in forward (HINT: type Net)
| | +- GuardManager: source=L['self'].step, accessed_by=GetAttrGuardAccessor(step), type=<class 'int'>, tag_safe=(True, False)
| | | +- EQUALS_MATCH: L['self'].step == 1                                           # self.step += 1  # ct/model.py:12 in forward (HINT: make it a tensor)
| +- GuardManager: source=L['x'], accessed_by=FrameLocalsGuardAccessor(key='x', framelocals_idx=1), type=<class 'torch.Tensor'>, tag_safe=(False, False)
| | +- TENSOR_MATCH: check_tensor(L['x'], Tensor)
| | +- DIMENSION_DYNAMIC_MARKING_GUARD: hasattr(L['x'], '_dynamo_dynamic_indices') == False
| | +- DIMENSION_DYNAMIC_MARKING_GUARD: hasattr(L['x'], '_dynamo_static_indices') == False
| | +- NO_TENSOR_ALIASING: check_no_aliasing(L['x'], L['y'])
| +- GuardManager: source=L['y'], accessed_by=FrameLocalsGuardAccessor(key='y', framelocals_idx=2), type=<class 'torch.Tensor'>, tag_safe=(False, False)
| | +- DIMENSION_DYNAMIC_MARKING_GUARD: hasattr(L['y'], '_dynamo_static_indices') == False
| | +- NO_TENSOR_ALIASING
+- LAMBDA_GUARD: 2 <= L['x'].size()[0]  # return x  # ct/model.py:9 in forward (user code shown is first use of this value--the guard itself is not due user code)

Guard latency = 12.50 us"""

PAIRS = """\
+- RootGuardManager
| +- DictGuardManager: source=L['d'], accessed_by=FrameLocalsGuardAccessor(key='d', framelocals_idx=0), type=<class 'dict'>, tag_safe=(False, False)
| | +- DICT_LENGTH: len(L['d']) == 2
| | +- KeyValueManager pair at index=0
| | | +- KeyManager: GuardManager: source=list(dict.keys(L['d']))[0], type=<class 'str'>, tag_safe=(True, False)
| | | | +- EQUALS_MATCH: list(dict.keys(L['d']))[0] == 'a'
| | | +- ValueManager: GuardManager: source=L['d']['a'], type=<class 'int'>, tag_safe=(True, False)
| | | | +- EQUALS_MATCH: L['d']['a'] == 3
| | +- KeyValueManager pair at index=1
| | | +- ValueManager: GuardManager: source=L['d']['b'], type=<class 'int'>, tag_safe=(True, False)
| | | | +- EQUALS_MATCH: L['d']['b'] == 4
| +- GuardManager: source=L['n'], accessed_by=FrameLocalsGuardAccessor(key='n', framelocals_idx=1), type=<class 'int'>, tag_safe=(True, False)
| | +- EQUALS_MATCH: L['n'] == 5
"""


def read(text: str, *stacks: tuple[Frame, ...] | None) -> GuardTree:
    """Parse a tree without stacks, as in a log that torch alone wrote."""
    return parse(GuardText(text, stacks or None), OWNERS)


def outline(node: GuardNode) -> dict[str, object]:
    """Return the sources with the kinds of their guards, as a tree."""
    kinds = [guard.kind for guard in node.guards]
    return {node.source: [*kinds, *map(outline, node.nodes)]}


def only(text: str, *stacks: tuple[Frame, ...] | None) -> Guard:
    """Read the guard on one line, which hangs on `x`."""
    node = "| +- GuardManager: source=L['x'], type=<class 'int'>, tag_safe=(True, False)\n"
    (guard,) = read(f"+- RootGuardManager\n{node}| | +- {text}\n", *stacks).all_guards()
    return guard


class TestTree:
    def test_guards_hang_on_their_values(self):
        assert outline(read(TREE).root) == {
            "L": [
                "DEFAULT_DEVICE", "GLOBAL_STATE",
                {"L['self']": ["TYPE_MATCH", {"L['self'].step": ["EQUALS_MATCH"]}]},
                {"L['x']": ["TENSOR_MATCH", "DIMENSION_DYNAMIC_MARKING_GUARD", "NO_TENSOR_ALIASING"]},
                {"L['y']": ["DIMENSION_DYNAMIC_MARKING_GUARD"]},
            ]
        }  # fmt: skip

    def test_values_have_a_type_and_a_way_to_them(self):
        first, *_ = read(TREE).root.nodes
        assert (first.type, first.accessor) == (
            "__main__.Net",
            "FrameLocalsGuardAccessor(key='self', framelocals_idx=0)",
        )
        assert (first.nodes[0].type, first.nodes[0].accessor) == ("int", "GetAttrGuardAccessor(step)")

    def test_all_of_them_in_torchs_order(self):
        kinds = [guard.kind for guard in read(TREE).all_guards()]
        assert kinds[:3] == ["DEFAULT_DEVICE", "GLOBAL_STATE", "TYPE_MATCH"]
        assert kinds[-2:] == ["DIMENSION_DYNAMIC_MARKING_GUARD", "LAMBDA_GUARD"]

    def test_what_comes_last_stands_apart(self):
        (last,) = read(TREE).epilogue
        assert (last.kind, last.code, last.source) == ("LAMBDA_GUARD", "2 <= L['x'].size()[0]", "")

    def test_guards_on_torchs_own_state_are_about_nothing_of_the_users(self):
        assert [guard.source for guard in read(TREE).root.guards] == ["", ""]

    def test_marks_of_dimensions_are_one_guard(self):
        marks = [guard.code for guard in read(TREE).all_guards() if guard.kind.startswith("DIMENSION")]
        assert marks == [
            "hasattr(L['x'], '_dynamo_dynamic_indices') == False and hasattr(L['x'], '_dynamo_static_indices') == False",
            "hasattr(L['y'], '_dynamo_static_indices') == False",
        ]

    def test_a_guard_on_several_values_counts_once(self):
        assert [guard.source for guard in read(TREE).all_guards() if guard.kind == "NO_TENSOR_ALIASING"] == ["L['x']"]

    def test_keys_and_values_of_a_dict(self):
        tree = read(PAIRS)
        assert outline(tree.root) == {
            "L": [
                {
                    "L['d']": [
                        "DICT_LENGTH",
                        {"list(dict.keys(L['d']))[0]": ["EQUALS_MATCH"]},
                        {"L['d']['a']": ["EQUALS_MATCH"]},
                        {"L['d']['b']": ["EQUALS_MATCH"]},
                    ]
                },
                {"L['n']": ["EQUALS_MATCH"]},
            ]
        }
        assert tree.root.nodes[0].nodes[1].accessor == ""
        assert tree.unread == 0

    @pytest.mark.parametrize(
        ("printed", "name"),
        [
            ("<class 'int'>", "int"),
            ("<class 'torch.nn.modules.linear.Linear'>", "torch.nn.modules.linear.Linear"),
            ("<enum 'Color'>", "Color"),
            ("odd", "odd"),
        ],
    )
    def test_types_as_a_metaclass_prints_them(self, printed: str, name: str):
        tree = read(f"+- RootGuardManager\n| +- GuardManager: source=L['x'], type={printed}, tag_safe=(True, False)")
        assert (tree.root.nodes[0].type, tree.unread) == (name, 0)

    @pytest.mark.parametrize("text", ["", "\n", "no tree\nat all"])
    def test_a_text_without_a_tree(self, text: str):
        assert read(text) == GuardTree(GuardNode("L", ""))


class TestComments:
    def test_the_code_ends_where_the_comment_begins(self):
        assert only("EQUALS_MATCH: L['x'] == 3       # return x  # model.py:9 in forward").code == "L['x'] == 3"
        assert only("EQUALS_MATCH: L['x'] == 3").code == "L['x'] == 3"

    @pytest.mark.parametrize(
        ("comment", "place", "hint"),
        [
            ("# return x  # ct/model.py:9 in forward", Frame("ct/model.py", 9, "forward", "return x"), ""),
            ("# return x  # model.py:9 in <lambda>", Frame("model.py", 9, "<lambda>", "return x"), ""),
            ("# x[0]  # a  # model.py:9 in f", Frame("model.py", 9, "f", "x[0]  # a"), ""),
            ("# x  # model.py:9 in f (HINT: type Net)", Frame("model.py", 9, "f", "x"), "type Net"),
            ("# x  # model.py:9 in f (HINT: use f(x) (or g))", Frame("model.py", 9, "f", "x"), "use f(x) (or g)"),
            ("# x  # model.py:9 in f (user code shown is first use)", Frame("model.py", 9, "f", "x"), ""),
            ("# _dynamo/output_graph.py:1122 in init", None, ""),
            ("# nobody knows where", None, ""),
            (f"# x  # model.py:{'9' * 5000} in f", None, ""),
        ],
        ids=numbers(),
    )
    def test_the_comment_says_where(self, comment: str, place: Frame | None, hint: str):
        guard = only(f"EQUALS_MATCH: L['x'] == 3  {comment}")
        assert (guard.place, guard.hint) == (place, hint)


class TestStacks:
    """If ctrace recorded where guards were created, torch's comments are ignored."""

    TEXT = "EQUALS_MATCH: L['x'] == 3  # return x  # ct/other.py:1 in f (HINT: make it a tensor)"

    @pytest.mark.parametrize(
        ("stack", "place"),
        [
            ((Frame(MODEL, 2, "main"), HERE), HERE),
            ((HERE, TORCH), HERE),
            ((HERE, LIBRARY, TORCH), HERE),
            ((LIBRARY, TORCH), LIBRARY),
            ((TORCH,), None),
            ((), None),
            (None, None),
        ],
        ids=["user", "torch-in-user", "library-in-user", "library", "torch", "empty", "none"],
    )
    def test_the_innermost_line_of_the_user(self, stack: tuple[Frame, ...] | None, place: Frame | None):
        guard = only(self.TEXT, stack)
        assert (guard.place, guard.hint) == (place, "make it a tensor")

    def test_one_for_each_line(self):
        places = [(Frame(MODEL, number, "forward"),) for number in range(1, 12)]
        found = {guard.kind: guard.place and guard.place.line for guard in read(TREE, *places).all_guards()}
        assert found == {
            "DEFAULT_DEVICE": 1, "GLOBAL_STATE": 2, "TYPE_MATCH": 3, "EQUALS_MATCH": 4, "TENSOR_MATCH": 5,
            "NO_TENSOR_ALIASING": 8, "DIMENSION_DYNAMIC_MARKING_GUARD": 9, "LAMBDA_GUARD": 11,
        }  # fmt: skip

    @pytest.mark.parametrize("number", [1, 10, 12])
    def test_stacks_that_are_not_as_many_as_lines_are_not_used(self, number: int):
        tree = read(TREE, *[(HERE,)] * number)
        assert tree.is_misplaced
        assert list(tree.all_guards()) == list(read(TREE).all_guards())

    def test_as_many_stacks_as_lines_fit(self):
        assert not read(TREE, *[(HERE,)] * 11).is_misplaced
        assert not read(TREE).is_misplaced


class TestCount:
    @pytest.mark.parametrize(("text", "number"), [("", 0), (TREE, 9), (PAIRS, 5), ("EQUALS_MATCH: x == 3", 0)])
    def test_guards(self, text: str, number: int):
        assert count(text) == number == len(list(read(text).all_guards()))

    @pytest.mark.parametrize("name", sampled(sorted(path.stem for path in DATA.glob("*.log"))))
    def test_of_recorded_logs(self, name: str):
        for printed in recorded(name).guards.values():
            tree = parse(printed, OWNERS)
            assert count(printed.text) == len(list(tree.all_guards()))
            assert tree.unread == 0
            assert latency_of(printed.text)

    @pytest.mark.parametrize(
        ("text", "latency"),
        [(TREE, 12.5), ("Guard latency = 3 us", 3.0), (PAIRS, None), ("Guard latency = ... us", None), ("", None)],
    )
    def test_latency(self, text: str, latency: float | None):
        assert latency_of(text) == latency


def test_file_names_are_completed():
    tree = with_frames(read(TREE), lambda frame: Frame(f"/home/{frame.file}", frame.line, frame.function))
    files = {guard.place.file for guard in tree.all_guards() if guard.place}
    assert files == {"/home/ct/model.py"}
    assert outline(tree.root) == outline(read(TREE).root)


class TestDamage:
    @pytest.mark.parametrize(
        "line",
        ["| +- GuardManager: source=L['x']", "| +- lower case", "| +- ", "+- X", "| | | +- KeyManager: nothing"],
    )
    def test_a_line_that_cannot_be_read_is_counted(self, line: str):
        before, after = read(PAIRS), read(f"{PAIRS}{line}\n")
        assert after.unread == 1
        assert after.root == before.root

    def test_a_tree_without_its_beginning(self):
        text = "\n".join(PAIRS.splitlines()[3:])
        assert [guard.code for guard in read(text).all_guards()] == [
            "list(dict.keys(L['d']))[0] == 'a'", "L['d']['a'] == 3", "L['d']['b'] == 4", "L['n'] == 5",
        ]  # fmt: skip

    @pytest.mark.parametrize("tree", [TREE, PAIRS])
    def test_a_tree_cut_anywhere(self, tree: str):
        whole = [guard.code for guard in read(tree).all_guards()]
        for end in range(len(tree)):
            found = [guard.code for guard in read(tree[:end]).all_guards()]
            assert found[:-1] == whole[: len(found)][:-1]

    def test_a_tree_of_any_depth(self):
        lines = [
            f"{'| ' * depth}+- GuardManager: source=L['x']{'[0]' * depth}, type=<class 'list'>, tag_safe=(True, False)"
            for depth in range(1500)
        ]
        tree = read("\n".join((*lines, "| | +- EQUALS_MATCH: L['x'] == 3")))
        assert tree.unread > 0
        assert [guard.code for guard in tree.all_guards()] == ["L['x'] == 3"]

    @fuzzing
    @given(st.text())
    def test_any_text(self, text: str):
        assert read(text).unread >= 0
        assert count(text) >= 0
        latency_of(text)

    PARTS = st.sampled_from(
        [
            *TREE.splitlines(), *PAIRS.splitlines(), "", "+- ", "| ", "| | | | | | +- ", "RootGuardManager", "EQUALS_MATCH: ",
            "KeyValueManager pair", "GuardManager: source=", ", type=<class 'int'>, tag_safe=(a, b)", "  # ", "model.py:1 in ",
            "(HINT: ", ")", "Guard latency = . us", "9" * 5000, "\x00", "\u2028", "\ud800",
        ]
    )  # fmt: skip

    @fuzzing
    @given(
        st.lists(PARTS, max_size=30),
        st.sampled_from(["\n", " ", ""]),
        st.lists(st.none() | st.just((HERE,)), max_size=9),
    )
    def test_anything_like_a_tree(self, parts: list[str], joint: str, stacks: list[tuple[Frame, ...] | None]):
        text = joint.join(parts)
        tree = parse(GuardText(text, tuple(stacks)), OWNERS)
        assert len(list(tree.all_guards())) <= len(text.splitlines())
        assert count(text) >= 0
        latency_of(text)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("L['s'] == ___get_current_stream(torch.device('cuda'))", "CURRENT_STREAM_MATCH"),
        ("L['s'] != ___get_current_stream(torch.device('cuda'))", "CURRENT_STREAM_MATCH"),
        ("___cow_tensor_matches(L['x'], False)", "COW_TENSOR_MATCH"),
        ("___list_reverseiterator_len(L['items']) == 3", "LIST_REVERSEITERATOR_LEN"),
        ("2 <= L['x'].size()[0]", "LAMBDA_GUARD"),
    ],
)
def test_a_lambda_is_named_for_the_helper_that_it_calls(code: str, kind: str):
    """The code of these guards is that of GuardBuilder, _dynamo/guards.py (2.15)."""
    tree = read(f"+- RootGuardManager\n| +- LAMBDA_GUARD: {code}")
    assert [(guard.kind, guard.code) for guard in tree.root.guards] == [(kind, code)]
