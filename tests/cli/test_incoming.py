"""Logs from standard input, and logs that a job still writes."""

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.places import DATA
from tests.support.sampling import sampled

LOG = DATA / "print_break.torch.log"
CTRACE = (sys.executable, "-m", "ctrace")


def piped(data: bytes, *words: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*CTRACE, *words], input=data, capture_output=True, check=False)


@pytest.mark.parametrize("pack", sampled([bytes, gzip.compress]), ids=["plain", "gzip"])
@pytest.mark.parametrize("command", sampled(["explain", "breaks"]))
def test_a_log_from_standard_input_reads_like_the_file(command: str, pack):
    named = subprocess.run([*CTRACE, command, str(LOG), "--json"], capture_output=True, check=True)
    done = piped(pack(LOG.read_bytes()), command, "-", "--json")
    assert done.returncode == 0
    assert done.stdout.replace(b"standard input", str(LOG).encode()) == named.stdout


def test_standard_input_without_a_log_is_refused():
    done = piped(b"hello\n", "explain", "-")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == b"ctrace: standard input is not a trace log"
    assert piped(b"", "explain", "-").stderr.splitlines()[0] == b"ctrace: standard input is empty"


def test_follow_needs_a_file(tmp_path: Path):
    done = piped(b"", "explain", str(tmp_path), "--follow")
    assert done.returncode == 2
    assert b"--follow needs the log that a job writes" in done.stderr


def test_a_growing_log_is_followed_until_ctrl_c(tmp_path: Path):
    log, data = tmp_path / "job.log", LOG.read_bytes()
    log.write_bytes(data[:700])
    child = subprocess.Popen([*CTRACE, "explain", str(log), "--follow"], stdout=-1, stderr=-1, text=True)
    assert child.stderr is not None
    said = [child.stderr.readline()]
    with log.open("ab") as file:
        for begin in range(700, len(data), 5_000):
            file.write(data[begin : begin + 5_000])
            file.flush()
            time.sleep(0.01)
    while "1/0 compiled" not in said[-1]:
        said.append(child.stderr.readline())
    child.send_signal(signal.SIGINT)
    screen, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert any("graph break" in line for line in said)
    assert screen.startswith("PARTIAL")


def test_file_without_a_record_is_not_a_log(tmp_path: Path):
    (tmp_path / "other.log").write_text("2026-07-21 12:00 service started\n", encoding="utf-8")
    done = piped(b"", "explain", str(tmp_path / "other.log"))
    assert done.returncode == 2
    assert done.stderr.splitlines()[0].endswith(b"other.log is not a trace log: it has no record")


@pytest.mark.parametrize(("data", "code", "says"), sampled([
    (LOG.read_bytes(), 0, b""),
    (b"", 2, b" is empty"),
    (b"hello\n", 2, b" is not a trace log"),
]))  # fmt: skip
def test_a_named_pipe_is_read_like_standard_input(data: bytes, code: int, says: bytes, tmp_path: Path):
    os.mkfifo(pipe := tmp_path / "pipe")
    writer = subprocess.Popen(["sh", "-c", 'cat > "$0"', str(pipe)], stdin=subprocess.PIPE)
    done = subprocess.Popen([*CTRACE, "breaks", str(pipe)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    writer.communicate(data)
    out, err = done.communicate()
    assert done.returncode == code
    assert says in err
    assert (b"print_break.py:9" in out) == (code == 0)


@pytest.mark.parametrize("data", sampled([b"\x28\xb5\x2f\xfd\x00", gzip.compress(b"a,b\n1,2\n")]), ids=["zstd", "gzip"])
def test_a_compressed_file_without_a_record_is_no_python_program(data: bytes, tmp_path: Path):
    if data[0] == 0x28:
        pytest.importorskip("zstandard")
    (tmp_path / "data.bin").write_bytes(data)
    done = piped(b"", "explain", str(tmp_path / "data.bin"))
    assert done.returncode == 2
    assert b"data.bin is not a trace log: it has no record" in done.stderr


def test_a_compressed_log_is_not_followed(tmp_path: Path):
    (log := tmp_path / "job.log.gz").write_bytes(gzip.compress(LOG.read_bytes()))
    done = piped(b"", "explain", str(log), "--follow")
    assert done.returncode == 2
    assert b"job.log.gz is compressed, so no job writes it" in done.stderr
