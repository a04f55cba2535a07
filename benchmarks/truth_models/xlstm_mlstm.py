"""A stack of mLSTM blocks."""

import torch
from xlstm import mLSTMBlockConfig, mLSTMLayerConfig, xLSTMBlockStack, xLSTMBlockStackConfig

PACKAGES = ("xlstm", "dacite", "omegaconf")

torch.manual_seed(0)
block = mLSTMBlockConfig(mlstm=mLSTMLayerConfig(conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=2))
model = xLSTMBlockStack(
    xLSTMBlockStackConfig(mlstm_block=block, context_length=16, num_blocks=2, embedding_dim=32)
).eval()


def inputs():
    torch.manual_seed(1)
    return (torch.rand(2, 16, 32),)
