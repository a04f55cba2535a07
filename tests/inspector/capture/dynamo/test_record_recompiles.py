"""Failed guards that only follow from others."""

import pytest

from ctrace.inspector.capture.dynamo.record_recompiles import divided
from ctrace.inspector.capture.dynamo.unmet import Unmet

MODES = "___check_torch_function_mode_stack()"
DEVICE = Unmet("utils_device.CURRENT_DEVICE == None", "cpu")
ONE = Unmet("2 <= L['x'].size()[0]", "1")
EQUAL = Unmet("G['b'].size()[0] == L['x'].size()[0]", "8")


KEYS = "tensor '{}' dispatch key set mismatch. expected DispatchKeySet(CPU), actual DispatchKeySet(CPU, {})"
BATCHED, WRAPPED = (Unmet(KEYS.format("L['x']", key)) for key in ("FuncTorchBatched", "FuncTorchGradWrapper"))
RANK = Unmet("tensor 'L['x']' rank mismatch. expected 2, actual 1")
REQUIRES = "tensor '{}' requires_grad mismatch. expected {}, actual {}"
REQUIRED = Unmet(REQUIRES.format("L['x']", False, True))
NO_GRAD = Unmet("GLOBAL_STATE changed: grad_mode. expected True, actual False")


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
        ([BATCHED, RANK], [1]),
        ([BATCHED, Unmet(RANK.guard.replace("'x'", "'y'"))], []),
        ([WRAPPED, RANK], []),
        ([WRAPPED, REQUIRED], [1]),
        ([BATCHED, REQUIRED], []),
        ([NO_GRAD, Unmet(REQUIRES.format("L['h']", True, False))], []),
    ],
)
def test_what_follows_from_what(found: list[Unmet], following: list[int]):
    assert divided(found) == (
        [unmet for at, unmet in enumerate(found) if at not in following],
        [found[at] for at in following],
    )


@pytest.mark.parametrize(
    ("name", "was", "now", "follows"),
    [
        ("L['h']", True, False, True),
        ("h", True, False, True),
        ("L['h']", False, True, False),
        ("L['self']._parameters['w']", True, False, False),
        ("self.w", True, False, False),
    ],
)
def test_what_a_resumed_function_takes_requires_gradients_as_grad_mode_says(name, was, now, follows):
    requires = Unmet(REQUIRES.format(name, was, now))
    assert divided([NO_GRAD, requires], resumed=True)[1] == ([requires] if follows else [])
