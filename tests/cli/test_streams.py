"""Streams without some letters, without a reader, or without room: a command's answer and exit code stay the same."""

import errno
import json
import os
import subprocess
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from ctrace.cli import streams
from ctrace.cli.streams import equivalent, open_standard_streams, put
from ctrace.reports.escape import SafeText, html_text, json_text, markup_text, plain_text
from tests.support.places import DATA, ROOT
from tests.support.sampling import sampled

_BOOT = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from ctrace.cli.main import app; app(prog_name='ctrace')"
LACKING = ("latin-1", "ascii", "cp1252", "cp932", "cp437")


@pytest.fixture
def lacking(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> TextIOWrapper:
    """Set up stdout with an encoding that lacks letters."""
    monkeypatch.setattr(sys, "stdout", TextIOWrapper(BytesIO(), request.param, newline="\n", write_through=True))
    monkeypatch.setattr(sys, "stderr", TextIOWrapper(BytesIO(), "ascii", newline="\n", write_through=True))
    open_standard_streams()
    assert isinstance(sys.stdout, TextIOWrapper)
    return sys.stdout


def _written(stream: TextIOWrapper) -> bytes:
    assert isinstance(stream.buffer, BytesIO)
    return stream.buffer.getvalue()


@pytest.mark.parametrize("lacking", LACKING, indirect=True)
def test_a_stream_fails_on_no_letter(lacking: TextIOWrapper) -> None:
    every = "".join(map(chr, range(0x20, 0x3000))) + "日本\U0001f600\udc80"
    print(every, file=lacking)
    print(every, file=sys.stderr)
    assert _written(lacking).count(b"\n") == 1


@pytest.mark.parametrize("lacking", ["ascii"], indirect=True)
def test_signs_become_similar_ones_and_columns_stay_in_line(lacking: TextIOWrapper) -> None:
    print("size 4 → 8   │ 3\nsize 4 of 8  │ 3\n├──┼──┤ … · × größe", file=lacking)
    assert _written(lacking).decode() == "size 4 -> 8  | 3\nsize 4 of 8  | 3\n+--+--+ ... - x gr\\xf6\\xdfe\n"


def test_no_sign_of_ours_is_a_number() -> None:
    """A sign in our own sentences has an equivalent; escapes are for the letters of users."""
    texts = [
        file.read_text(encoding="utf-8")
        for folder in ("cli", "inspector", "reports")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".py", ".yaml")
    ]
    signs = {letter for text in texts for letter in text if not letter.isascii()}
    assert len(signs) > 10
    assert [sign for sign in signs if equivalent(sign).startswith("\\")] == []


@pytest.mark.parametrize("lacking", LACKING, indirect=True)
def test_documents_for_programs_stay_what_they_are(lacking: TextIOWrapper) -> None:
    data = {"größe": "日本 → \U0001f600"}
    put(json_text(data), lacking)
    written = _written(lacking)
    assert json.loads(written) == data
    assert json.loads(written.decode(lacking.encoding)) == data
    put(markup_text("<a>größe</a>"), lacking)
    assert _written(lacking).endswith(b"<a>gr&#246;&#223;e</a>")
    put(html_text("größe"), lacking)
    assert _written(lacking).endswith("größe".encode())


@pytest.mark.parametrize("lacking", ["utf-8", "utf-16"], indirect=True)
@pytest.mark.parametrize("document", [json_text("größe"), html_text("größe"), plain_text("größe")])
def test_a_stream_with_all_letters_gets_them(lacking: TextIOWrapper, document: SafeText) -> None:
    put(document, lacking)
    assert _written(lacking).decode(lacking.encoding) == document


def _command(words: str, streams: str, folder: Path, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    script = f'"$0" -c "$1" {words} {streams}; exit ${{PIPESTATUS[0]}}'
    return subprocess.run(
        ["bash", "-c", script, sys.executable, _BOOT],
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


@pytest.mark.skipif(os.name != "posix", reason="the streams are made by a shell")
@pytest.mark.parametrize(
    ("streams", "code"),
    sampled([("| true", 0), ("2> /dev/full", 0), ("<&- >&- 2>&-", 0), ("> /dev/full", 2)]),
)
def test_the_exit_code_is_that_of_the_answer(streams: str, code: int, tmp_path: Path) -> None:
    if "full" in streams and not Path("/dev/full").exists():
        pytest.skip("this system has no full device")
    done = _command(f"explain {DATA / 'fused.log'}", streams, tmp_path)
    assert (done.returncode, b"Traceback" in done.stderr) == (code, False)


@pytest.mark.skipif(os.name != "posix", reason="locales are those of POSIX")
def test_a_locale_without_letters_is_no_bug(tmp_path: Path) -> None:
    bare = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = _command(f"breaks {DATA / 'break_first.log'}; true", "", tmp_path, **bare)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()


@pytest.mark.skipif(os.name != "posix", reason="pipes of Windows always block")
def test_a_pipe_that_does_not_block_gets_all() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with subprocess.Popen(["wc", "-c"], stdin=reading, stdout=subprocess.PIPE) as counter:
        os.close(reading)
        with streams._Output(writing, "w") as output:
            data = memoryview(b"x" * 3_000_000)
            while data:
                data = data[output.write(data) :]
        assert counter.stdout is not None
        assert int(counter.stdout.read()) == 3_000_000


def test_a_full_disk_is_an_error_of_stdout_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no full device")
    with streams._Output(os.open("/dev/full", os.O_WRONLY), "w") as output:
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            output.write(b"x")
        monkeypatch.setattr(output, "fileno", lambda: 2)
        assert output.write(b"x") == 1
