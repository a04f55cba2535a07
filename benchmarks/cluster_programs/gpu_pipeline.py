"""Stages of a pipeline on GPUs, each with the shapes that it exchanges."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

rank = int(os.environ["RANK"])
device = torch.device("cuda", rank % torch.cuda.device_count())  # cpu: device = torch.device("cpu")
torch.cuda.set_device(device)  # cpu: pass
dist.init_process_group("nccl", device_id=device)  # cpu: dist.init_process_group("gloo")
world = dist.get_world_size()
torch.manual_seed(0)


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


torch.manual_seed(0)
module = torch.compile(Stage().to(device))
example = torch.randn(2, 16, device=device, requires_grad=True)
given = example.detach() if rank == 0 else example
stage = PipelineStage(module, rank, world, device, input_args=(given,), output_args=(example,))
schedule = Schedule1F1B(stage, n_microbatches=world, loss_fn=lambda out, target: (out - target).pow(2).mean())
x, target = torch.randn(2 * world, 16, device=device), torch.randn(2 * world, 16, device=device)
for _ in range(2):
    if rank == 0:
        schedule.step(x)
    elif rank == world - 1:
        losses = []
        schedule.step(target=target, losses=losses)
        print(torch.stack(losses).mean().item())
    else:
        schedule.step()
dist.destroy_process_group()
