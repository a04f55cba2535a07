"""Unmet guards that only follow from others."""

import pytest

from ctrace.inspector.capture.consequences import divided
from ctrace.inspector.capture.unmet import Unmet

MODES = "___check_torch_function_mode_stack()"
DEVICE = Unmet("utils_device.CURRENT_DEVICE == None", "cpu")
ONE = Unmet("2 <= L['x'].size()[0]", "1")
EQUAL = Unmet("G['b'].size()[0] == L['x'].size()[0]", "8")


@pytest.mark.parametrize(
    ("found", "following"),
    [
        ([Unmet("GLOBAL_STATE changed: autocast(cpu)_enabled"), Unmet("check_tensor(L['x'], ...)")], [1]),
        ([Unmet("GLOBAL_STATE changed: num_threads"), Unmet("check_tensor(L['x'], ...)")], []),
        ([Unmet(MODES, "DeviceContext", "none"), DEVICE], [0]),
        ([Unmet(MODES, "DeviceContext, a.Mode", "none"), DEVICE], []),
        ([Unmet(MODES, "a.Mode", "none")], []),
        ([EQUAL, ONE], [0]),
        ([EQUAL, Unmet("2 <= L['x'].size()[0] <= 6", "8")], []),
        ([EQUAL, Unmet("2 <= L['y'].size()[0]", "1")], []),
        ([Unmet("not ___dict_contains('a', G['C'])", "True"), Unmet("not G['C']", "1")], [1]),
        ([Unmet("___dict_contains('a', L['d'])"), Unmet("len(L['d']) != 1", "2")], [1]),
        ([Unmet("___dict_contains('a', L['d'])"), Unmet("len(L['e']) == 1", "2")], []),
        ([Unmet("not set.__contains__(L['s'], 3)"), Unmet("L['s'] == {1, 2}", "{3}")], [0]),
        ([Unmet("not set.__contains__(L['s'], 3)")], []),
        ([Unmet("L['n'] == 2"), Unmet("L['m'] == 3")], []),
    ],
)
def test_what_follows_from_what(found: list[Unmet], following: list[int]):
    assert divided(found) == (
        [unmet for at, unmet in enumerate(found) if at not in following],
        [found[at] for at in following],
    )
