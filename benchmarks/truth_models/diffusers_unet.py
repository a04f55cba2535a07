"""A conditional U-Net for diffusion."""

import torch
from diffusers import UNet2DConditionModel

PACKAGES = ("diffusers", "transformers", "tokenizers", "safetensors", "huggingface-hub")

torch.manual_seed(0)
model = UNet2DConditionModel(
    sample_size=8,
    block_out_channels=(32, 32),
    layers_per_block=1,
    cross_attention_dim=16,
    attention_head_dim=8,
    down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
).eval()


def inputs():
    torch.manual_seed(1)
    return {"sample": torch.rand(1, 4, 8, 8), "timestep": 10, "encoder_hidden_states": torch.rand(1, 4, 16)}
