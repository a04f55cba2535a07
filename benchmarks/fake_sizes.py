"""Explain large models without weights: time, and the memory of the largest process, whole and with two layers.

Each model is a folder with the config of a known one (`hf:`), and for a part of diffusers the header of a checkpoint,
which names the dtype. Each runs in a process of its own: `ctrace explain hf:FOLDER --target h100`, or `--fast`.

usage: fake_sizes.py [--fast] [--write] [--whole-only | --two-only] [--seconds N] [NAME]...
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fake_truth import replace_part

TEXT = {"dtype": "bfloat16", "max_position_embeddings": 4096, "tie_word_embeddings": False}
MODELS: dict[str, dict[str, Any]] = {
    "Llama-3-8B": TEXT
    | {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    },
    "Llama-3-70B": TEXT
    | {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
        "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256,
    },
    "Mixtral-8x7B": TEXT
    | {
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
    },
    "Qwen3-30B-A3B": TEXT
    | {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "head_dim": 128,
        "intermediate_size": 6144, "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32,
        "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 151936,
    },
    "FLUX.1-dev, transformer": {
        "_class_name": "FluxTransformer2DModel", "attention_head_dim": 128, "guidance_embeds": True, "in_channels": 64,
        "joint_attention_dim": 4096, "num_attention_heads": 24, "num_layers": 19, "num_single_layers": 38,
        "patch_size": 1, "pooled_projection_dim": 768,
    },
    "Whisper-large-v3": {
        "architectures": ["WhisperForConditionalGeneration"], "model_type": "whisper", "dtype": "bfloat16",
        "d_model": 1280, "encoder_layers": 32, "decoder_layers": 32, "encoder_attention_heads": 20,
        "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "num_mel_bins": 128,
        "vocab_size": 51866,
    },
    "ViT of 22B's sizes": {
        "architectures": ["ViTModel"], "model_type": "vit", "dtype": "bfloat16", "hidden_size": 6144,
        "num_hidden_layers": 48, "num_attention_heads": 48, "intermediate_size": 24576, "image_size": 224,
        "patch_size": 14,
    },
}  # fmt: skip
"""The configs, as the models' makers publish them; for ViT-22B, the sizes of its paper in transformers' plain ViT."""


@dataclass(frozen=True)
class Row:
    """One run."""

    name: str
    layers: str
    report: dict[str, Any] | None
    wall: float
    memory: int
    """The peak memory of the largest process, in KiB."""
    why: str = ""


def measured(name: str, layers: int | None, options: tuple[str, ...], seconds: float) -> Row:
    """Explain one model."""
    config = MODELS[name]
    with tempfile.TemporaryDirectory(prefix="ctrace-bench-") as folder:
        model = Path(folder) / "model"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
        if "_class_name" in config:
            header = json.dumps({"x_embedder.bias": {"dtype": "BF16", "shape": [3072], "data_offsets": [0, 6144]}})
            content = len(header).to_bytes(8, "little") + header.encode()
            (model / "diffusion_pytorch_model.safetensors").write_bytes(content)
        cut = () if layers is None else ("--layers", str(layers))
        command = ["timeout", f"{seconds:g}", sys.executable, "-m", "ctrace", "explain", "hf:./model", "--json"]
        began = time.monotonic()
        with (Path(folder) / "out").open("w+") as out, (Path(folder) / "err").open("w+") as err:
            child = subprocess.Popen([*command, *options, *cut], cwd=folder, stdout=out, stderr=err)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            wall = time.monotonic() - began
            out.seek(0)
            err.seek(0)
            try:
                report = json.loads(out.read())
            except ValueError:
                return Row(name, str(layers or "all"), None, wall, used.ru_maxrss, " ".join(err.read().split())[-200:])
    return Row(name, str(layers or "all"), report, wall, used.ru_maxrss)


def table(rows: list[Row], options: tuple[str, ...]) -> str:
    """Return the results in Markdown."""
    import torch

    lines = [
        f"`benchmarks/fake_sizes.py`, `explain hf:FOLDER {' '.join(options)}`, torch {torch.__version__}, Python "
        f"{platform.python_version()}, {os.cpu_count()} cores, which other work used at the same time, "
        f"{datetime.now(UTC):%Y-%m-%d}. Inputs are those that `hf:` makes; memory is that of the largest process.",
        "",
        "| model | layers | parameters | verdict | graphs, breaks | kernels | memory | wall | Dynamo |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        memory = f"{row.memory / (1 << 20):.2f} GiB"
        if row.report is None:
            lines.append(f"| {row.name} | {row.layers} | | {row.why} | | | {memory} | {row.wall:.0f} s | |")
            continue
        report = row.report
        stopped = report["stopped"]
        verdict = report["verdict"] if stopped is None else f"stops at {Path(stopped['file']).name}:{stopped['line']}"
        size = f"{report['parameters'] / 1e9:.2f} B, {report['parameter_bytes'] / 1e9:.1f} GB"
        counts = f"{len(report['graphs'])}, {len(report['breaks'])}"
        kernels = "" if "--fast" in options else str(len(report["kernels"] or ()))
        dynamo = (report["time"].get("phases") or {}).get("dynamo")
        seconds = "" if dynamo is None else f"{dynamo:.0f} s"
        cells = [row.name, row.layers, size, verdict, counts, kernels, memory, f"{row.wall:.0f} s", seconds]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Measure and print; return 1 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--fast", action="store_true", help="generate no kernels")
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/results/fake.md")
    parser.add_argument("--whole-only", action="store_true")
    parser.add_argument("--two-only", action="store_true")
    parser.add_argument("--seconds", type=float, default=1200, help="how long one run may take")
    asked = parser.parse_args()
    options = ("--fast",) if asked.fast else ("--target", "h100")
    sizes = [None] if asked.whole_only else [2] if asked.two_only else [2, None]
    rows = []
    for name in asked.names or MODELS:
        for layers in sizes:
            rows.append(row := measured(name, layers, options, asked.seconds))
            print(table([row], options).splitlines()[-1], file=sys.stderr, flush=True)
    text = table(rows, options)
    print(text)
    if asked.write:
        replace_part("fake_sizes", text)
    return int(any(row.report is None for row in rows))


if __name__ == "__main__":
    sys.exit(main())
