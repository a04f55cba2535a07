"""The table of GPUs that ctrace ships, and users' files that extend it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from ctrace.inspector.errors import Exit, TargetError
from ctrace.inspector.facts.target_gpu import Multiprocessor
from ctrace.inspector.findings.kernels.built_view import occupancy
from ctrace.inspector.knowledge.gpus.gpu_table import FORMATS, VECTOR_FORMATS, TargetGpu, gpu_named, gpus

NAMES = (
    "t4",
    "v100",
    "a10g",
    "a100",
    "a100-40gb",
    "l4",
    "l40s",
    "rtx-3090",
    "rtx-4090",
    "h100",
    "h100-pcie",
    "h200",
    "b200",
)
H100 = gpu_named("h100")


def test_those_that_should_be_there_are() -> None:
    assert set(NAMES) <= set(gpus())


@pytest.mark.parametrize("gpu", [each.gpu for each in gpus().values()], ids=lambda gpu: gpu.name)
class TestOfEach:
    def test_every_fact_has_a_source(self, gpu: TargetGpu) -> None:
        known = {each for each in gpu.__struct_fields__ if getattr(gpu, each) not in (None, {})}
        assert set(gpu.sources) >= known - {"name", "sources"}
        assert all(len(source) > 5 for source in gpu.sources.values())

    def test_its_sizes_are_sane(self, gpu: TargetGpu) -> None:
        assert gpu.warp == 32
        assert gpu.threads_per_block == 1024 <= gpu.threads <= 2048
        assert gpu.registers == 65536
        assert gpu.shared_per_block == 49152 < gpu.shared_per_block_optin <= gpu.shared <= 256 << 10
        assert 8 <= gpu.processors <= 256
        assert 8 << 30 < gpu.memory < 256 << 30
        assert 1 << 20 < gpu.l2 < 256 << 20

    def test_its_speeds_are_sane(self, gpu: TargetGpu) -> None:
        assert gpu.clock is not None
        assert 1e9 < gpu.clock < 3e9
        assert gpu.bandwidth is not None
        assert 0.2e12 < gpu.bandwidth < 10e12

    def test_its_rates_are_dense_and_in_order(self, gpu: TargetGpu) -> None:
        rates = gpu.rates
        assert set(rates) <= set(FORMATS)
        assert set(gpu.vector_rates) <= set(VECTOR_FORMATS)
        assert rates.get("bfloat16", rates["float16"]) == rates["float16"]
        assert rates.get("tf32", rates["float16"] / 2) == pytest.approx(rates["float16"] / 2, rel=0.03)
        assert rates.get("float8", rates["float16"] * 2) == pytest.approx(rates["float16"] * 2, rel=0.02)

    def test_its_occupancy_can_be_computed(self, gpu: TargetGpu) -> None:
        part = Multiprocessor(gpu.capability, gpu.registers, gpu.threads, gpu.shared, gpu.warp)
        assert occupancy(part, registers=32, warps=4, shared=0) is not None


def test_the_h100_is_as_a_driver_read_it() -> None:
    assert TargetGpu(
        "h100", "NVIDIA H100 80GB HBM3", (9, 0), 132, 65536, 2048, 233472, 49152, 232448, 85017493504, 52428800, 1024, 32,
        1980000e3, 2 * 2619000e3 * 5120 / 8, H100.rates, H100.vector_rates, H100.sources,
    ) == H100  # fmt: skip


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("h100", "h100"), ("H100", "h100"), ("NVIDIA H100 80GB HBM3", "h100"), ("nvidia h100", "h100"),
        ("RTX 4090", "rtx-4090"), ("rtx4090", "rtx-4090"), ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("Tesla T4", "t4"),
        ("A100-SXM4-80GB", "a100"), (" a100 40GB", "a100-40gb"),
    ],
)  # fmt: skip
def test_by_name_or_title(given: str, name: str) -> None:
    assert gpu_named(given).name == name


@pytest.mark.parametrize(
    ("given", "todo"),
    [
        ("h10", "did you mean h100?"), ("H100 HBM3", "did you mean h100?"), ("GTX 4090", "did you mean rtx-4090?"),
        ("", "there are: t4, "), ("nvidia", "there are: t4, "), ("\x1b[31m" * 90, "there are: t4, "),
    ],
)  # fmt: skip
def test_no_such_gpu(given: str, todo: str) -> None:
    with pytest.raises(TargetError) as caught:
        gpu_named(given)
    assert caught.value.exit_code is Exit.USAGE
    assert caught.value.what.endswith("there is no such GPU" if given else "names no GPU")
    assert todo in caught.value.todo
    assert "\x1b" not in caught.value.what


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gpus.yaml"


class TestAFileOfTheUser:
    def test_one_extends_another_and_changes_a_part(self, file: Path) -> None:
        file.write_text("slow:\n  extends: H100\n  clock: 1.2e9\n  rates: {float16: 5e14}\n")
        slow = gpu_named(str(file))
        assert (slow.name, slow.clock, slow.processors) == ("slow", 1.2e9, 132)
        assert slow.rates == {**H100.rates, "float16": 5e14}
        assert slow.sources["clock"] == "your gpus.yaml"
        assert slow.sources["rates"] == f"float16: your gpus.yaml; others: {H100.sources['rates']}"
        assert slow.sources["l2"] == H100.sources["l2"]

    def test_one_extends_another_of_the_same_file(self, file: Path) -> None:
        file.write_text("b: {extends: a, l2: 1}\na: {extends: l4, processors: 7}\n")
        assert gpu_named(f"{file}:b").processors == 7

    def test_what_is_extended_need_not_be_whole(self, file: Path) -> None:
        file.write_text(
            "a: {extends: b, title: T, capability: '9.0', processors: 7}\nb: {memory: 8589934592, l2: 9, rates: null}"
        )
        with pytest.raises(TargetError, match="b lacks title"):
            gpu_named(f"{file}:a")
        file.write_text("a: {extends: b, rates: {tf32: 1e12}}\nb: {extends: h100, rates: null}")
        assert gpu_named(f"{file}:a").rates == {"tf32": 1e12}

    def test_another_capability_brings_what_all_of_it_share(self, file: Path) -> None:
        file.write_text("old: {extends: h100, capability: 8.9, threads: 1024}")
        old = gpu_named(str(file))
        assert (old.capability, old.shared, old.threads) == ((8, 9), 102400, 1024)

    def test_null_is_not_known(self, file: Path) -> None:
        file.write_text("x: {extends: h100, clock: null, rates: null}")
        assert (gpu_named(str(file)).clock, gpu_named(str(file)).rates) == (None, {})

    def test_a_whole_entry(self, file: Path) -> None:
        file.write_text("My GPU: {title: T, capability: '9.0', processors: 7, memory: 8589934592, l2: 100}")
        mine = gpu_named(f"{file}:my gpu")
        assert (mine.name, mine.threads, mine.rates, mine.bandwidth) == ("my-gpu", 2048, {}, None)

    def test_theirs_wins(self, file: Path) -> None:
        file.write_text("H100: {extends: h100, processors: 10}\nmine: {extends: h100}\n")
        table = gpus([str(file)])
        assert gpu_named("h100", [str(file)]).processors == 10
        assert (table["h100"].file, table["h100"].replaces) == (str(file), True)
        assert (table["mine"].replaces, table["mine"].gpu.processors) == (False, 10)
        assert table["t4"].file is None
        assert gpu_named("h100") == H100

    def test_a_later_file_extends_an_earlier_one(self, file: Path, tmp_path: Path) -> None:
        file.write_text("a: {extends: h100, processors: 10}")
        other = tmp_path / "other.yml"
        other.write_text("a: {extends: a, l2: 7}")
        assert gpu_named("a", [str(file), str(other)]) == replace(
            gpu_named("a", [str(file)]), l2=7, sources=gpu_named("a", [str(file), str(other)]).sources
        )

    @pytest.mark.parametrize(
        ("text", "what", "todo"),
        [
            ("", "defines no GPU", "ctrace targets h100"),
            ("[1]", "defines no GPU", ""),
            ("a: 3", "a is not a table of facts", ""),
            ("a: {1: 2}", "a is not a table of facts", ""),
            ("'a/b': {}", "a/b is not a valid GPU name", "letters"),
            ("true: {}", "True is not a valid GPU name", ""),
            ("a: {extends: h100}\na: {extends: l4}", "gpus.yaml:2: a is defined twice", "correct"),
            ("a: {l2: 1, l2: 2}", "l2 is defined twice", ""),
            ("a: {extends: l4}\nA: {extends: l4}", "a is defined twice", ""),
            ("a: {extends: h100\n", "gpus.yaml:2: ", "correct the YAML there"),
            ("a: {extends: h100, procesors: 3}", "a: there is no fact procesors", "did you mean processors?"),
            ("a: {extends: h100, rates: {fp16: 1e12}}", "there is no fact fp16", "float16"),
            ("a: {extends: h100, rates: {float16: fast}}", "rates of float16 is fast", "a number from"),
            ("a: {extends: h100, rates: 3}", "rates is 3, not a table", ""),
            ("a: {extends: h100, memory: 80 GB}", "memory is 80 GB", "(bytes)"),
            ("a: {extends: h100, processors: 132.0}", "processors is 132.0", "whole number"),
            ("a: {extends: h100, processors: true}", "processors is True", "whole number"),
            ("a: {extends: h100, processors: null}", "processors is None", "whole number"),
            ("a: {extends: h100, clock: 1980}", "clock is 1980", "a number from 1e+06"),
            ("a: {extends: h100, clock: .inf}", "clock is inf", ""),
            ("a: {extends: h100, clock: 1e999}", "clock is inf", ""),
            ('a: {extends: h100, clock: "\\ud800"}', "clock is", "a number from"),
            ("a: {extends: h100, capability: hopper}", "capability is hopper", '"9.0"'),
            ("a: {extends: h100, title: 3}", "title is 3, not a short text", 'title: "..."'),
            ("a: {extends: h100, shared_per_block: 300000}", "greater than shared_per_block_optin", "bytes"),
            ("a: {extends: h100, sources: {memry: x}}", "there is no fact memry", "did you mean memory?"),
            ("a: {extends: h100, sources: [x]}", "sources is not a table", ""),
            ("a: {extends: a}", "a extends a, which does not exist", ""),
            ("a: {extends: b}\nb: {extends: a}", "extends itself", "write all facts"),
            ("a: {extends: h101}", "a extends h101, which does not exist", "did you mean h100?"),
            ("a: {capability: '9.0'}", "a lacks title, processors, memory, l2", "extends"),
            ("a: {title: T, capability: '6.1'}", "lacks processors, registers, threads", "extends"),
            ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor", ""),
            ("a: 2001-99-99", "is not YAML", ""),
            ("a: !!int", "is not YAML", ""),
            ("a: !!bool x", "is not YAML", ""),
            ("[" * 5000, "is not YAML", ""),
            ("a: " + "9" * 6000, "is not YAML", ""),
            ("x" * (2 << 20), "too large", "another file"),
        ],
    )
    def test_a_wrong_one(self, file: Path, text: str, what: str, todo: str) -> None:
        file.write_text(text)
        with pytest.raises(TargetError) as caught:
            gpu_named(str(file))
        assert caught.value.exit_code is Exit.USAGE
        assert what in caught.value.what
        assert todo in caught.value.todo
        assert "\n" not in caught.value.what + caught.value.todo

    def test_no_text(self, file: Path) -> None:
        file.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(TargetError, match="not UTF-8 text"):
            gpu_named(str(file))

    def test_which_of_several(self, file: Path) -> None:
        file.write_text("a: {extends: h100}\nb: {extends: l4}\n")
        with pytest.raises(TargetError, match="defines 2 GPUs: a, b") as caught:
            gpu_named(str(file))
        assert caught.value.todo == f"pick one: --target {file}:a"
        with pytest.raises(TargetError, match="defines no GPU c"):
            gpu_named(f"{file}:c")

    @pytest.mark.parametrize("name", ["no.yaml", "no/such.yml:a", "../gpus.YAML"])
    def test_not_there(self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(TargetError, match="cannot be read: No such file"):
            gpu_named(name)
