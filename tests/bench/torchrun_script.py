"""Training without the harness: a script for torchrun that imports what a rank of the harness imports.

It takes the number of steps (default: one). Rank 0 prints when the first step ended.
"""

from __future__ import annotations

import json
import sys
import time

import torch
import torch.distributed as dist
from torch.nn import functional

from repro import data, models
from repro.rank import preflight, session  # noqa: F401 - imported as the harness does

BATCH, SEED = 20, 1


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    dataset = data.load_dataset("mnist", standin="always")
    model = models.build_model("mnist_mlp", dataset.input_shape, dataset.classes, SEED)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    workers = dist.get_world_size()
    minibatches = dataset.train.minibatches(BATCH, workers, SEED)
    for step in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        x, y = minibatches[step * workers + dist.get_rank()]
        optimizer.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        if step == 0 and dist.get_rank() == 0:
            print("@" + json.dumps({"first_step": time.perf_counter()}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
