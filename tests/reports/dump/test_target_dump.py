"""Dumps of runs with `--target`: which GPU the files need, what each kernel takes, and its code at every stage."""

import json
from pathlib import Path

from msgspec.structs import replace

from ctrace.inspector.facts.built import Ir
from ctrace.inspector.facts.kernel_facts import Kernel, OutputCode, Stage
from ctrace.inspector.facts.session import Session
from ctrace.reports.dump.dumping import built_of, code_files, dump, instructions
from tests.support.targeted import ATTENTION, EMITTED, H100, MUL, built

SASS = {"ptx": Ir(".version 8.7\n"), "sass": Ir("EXIT ;\n")}


def test_code_of_several_configurations_has_numbers() -> None:
    found = built_of(EMITTED, "0/0", Stage.FORWARD)[ATTENTION]
    files = list(code_files(EMITTED, "k", found, instructions(EMITTED, "0/0")))
    assert [each.name for each in files] == ["k.1.ttir", "k.1.ptx", "k.2.ttir", "k.2.ptx"]
    head, version = files[1].text.splitlines()[:2]
    assert head == (
        f"// {ATTENTION}, 4 warps 1 stage XBLOCK=1, emitted for h100 (NVIDIA H100 80GB HBM3, sm_90), not run"
    )
    assert version == ".version 8.7"


def test_instructions() -> None:
    session = replace(EMITTED, built=(built(MUL, "cc", Stage.BACKWARD, ir=SASS),))
    (only,) = built_of(session, "0/0", Stage.BACKWARD)[MUL]
    names = [each.name for each in code_files(session, "k", (only,), instructions(session, "0/0"))]
    assert names == ["k.ptx", "k.sass"]
    assert instructions(replace(session, built=()), "0/0").why_not == ""


def test_a_dump_names_its_target(tmp_path: Path) -> None:
    name = "triton_poi_fused_0"
    text = (
        "import torch\n"
        "from torch._inductor.async_compile import AsyncCompile\n"
        "async_compile = AsyncCompile()\n"
        f"{name} = async_compile.triton('{name}', '''\ndef {name}(x): pass\n''')\n"
        "def call(args):\n"
        "    arg0_1, = args\n"
        f"    {name}.run(arg0_1)\n"
        "    return (arg0_1, )\n"
    )
    session = Session(
        kernels=(Kernel("0/0", Stage.INFERENCE, name, "triton"),),
        code=(OutputCode("0/0", Stage.INFERENCE, text),),
        built=(built(name, "aa", Stage.INFERENCE, ir=SASS),),
        gpu=H100,
    )
    dumped = dump(session, tmp_path / "d")
    page = (dumped.folder / "README.md").read_text()
    assert "copy them to a machine with that GPU" in page
    assert "32 registers, 0 spills" in page
    index = json.loads((dumped.folder / "index.json").read_text())
    assert index["target_gpu"]["name"] == "h100"
    kernel = index["parts"][0]["kernels"][0]
    assert kernel["built"][0]["registers"] == 32
    assert [each.rpartition(".")[2] for each in kernel["code"]] == ["ptx", "sass"]
    assert all((dumped.folder / each).is_file() for each in kernel["code"])
    assert "emitted for h100" in (dumped.folder / "0_0-inference" / "wrapper.py").read_text()
