"""An autoencoder that samples its latents."""

import torch
from diffusers import AutoencoderKL

PACKAGES = ("diffusers", "transformers", "tokenizers", "safetensors", "huggingface-hub")

torch.manual_seed(0)
model = AutoencoderKL(block_out_channels=(32,), layers_per_block=1, norm_num_groups=8).eval()


def inputs():
    torch.manual_seed(1)
    return {"sample": torch.rand(1, 3, 16, 16), "sample_posterior": True}
