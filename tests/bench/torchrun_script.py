"""One training step without the harness: a script for torchrun that imports what a rank of the harness imports.

Rank 0 prints when the step ended.
"""

from __future__ import annotations

import json
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
    x, y = dataset.train.minibatches(BATCH, dist.get_world_size(), SEED)[dist.get_rank()]
    functional.cross_entropy(model(x), y).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    if dist.get_rank() == 0:
        print("@" + json.dumps({"first_step": time.perf_counter()}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
