from pathlib import Path

from ctrace.inspector.capture.calls.answering import place_of_failure

TORCH_SAYS = """\
no

from user code:
   File "/home/user/model.py", line 12, in forward
    return self.block(x)
  File "/home/user/block.py", line 7, in forward
    return x.view(3)
"""


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_the_code_that_was_compiled_goes_before_that_which_called_it():
    assert place_of_failure(raised(ValueError(TORCH_SAYS))) == ("/home/user/block.py", 7)


def test_the_stack_of_a_cause_counts():
    error = RuntimeError("the backend failed")
    error.__cause__ = ValueError(TORCH_SAYS.replace("from user code", "Original traceback"))
    assert place_of_failure(raised(error)) == ("/home/user/block.py", 7)


def test_without_such_a_stack_the_traceback_tells():
    place = place_of_failure(raised(ValueError("no")))
    assert place is not None
    assert Path(place[0]).name == Path(__file__).name


def test_files_in_a_message_are_no_stack():
    place = place_of_failure(raised(ValueError('File "/home/user/block.py", line 7, in forward')))
    assert place is not None
    assert Path(place[0]).name == Path(__file__).name
