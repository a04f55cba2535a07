"""`ctrace doctor` probes every hook in the installed torch."""

from tests.integration.conftest import Command


def test_every_hook_finds_its_function(ctrace: Command) -> None:
    result = ctrace("doctor", "--json")
    assert result.code == 0, result.err
    assert [finding for finding in result.report if not finding["ok"]] == []
    assert {"python", "torch", "device", "fusion rounds", "backward, when it runs"} <= {
        each["name"] for each in result.report
    }
