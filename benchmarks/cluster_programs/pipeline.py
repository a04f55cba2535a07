"""Pipeline stages, with the shapes between them given."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(world)]
layers[-1] = nn.Linear(32, 32)
part = torch.compile(layers[rank])
example = torch.rand(4, 32, requires_grad=True)
given = example.detach() if rank == 0 else example
stage = PipelineStage(part, rank, world, torch.device("cpu"), input_args=(given,), output_args=(example,))
schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=lambda found, wanted: (found - wanted).pow(2).mean())
for _ in range(2):
    if rank == 0:
        schedule.step(torch.rand(8, 32))
    elif rank == world - 1:
        schedule.step(target=torch.rand(8, 32))
    else:
        schedule.step()
dist.destroy_process_group()
