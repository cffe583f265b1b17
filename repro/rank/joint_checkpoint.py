"""One checkpoint file for all ranks of a run, to take it to another machine.

Replicas are mostly equal bit for bit, so each tensor is stored once: of ResNet-20 on four workers one copy of weights
and momentum, and four residuals. `repro.rank.checkpoints` loads it.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import torch

from repro.rank.checkpoints import Checkpoints, Damaged, last_common, map_tensors


def join_checkpoints(folder: Path, ranks: int, most_bytes: int) -> tuple[int, bytes]:
    """(iteration, file) of the newest checkpoint of the run in `folder` that can be verified for every rank.

    Damaged if it has none, or one of more than `most_bytes`.
    """
    if not (folder / "checkpoints").is_dir():
        raise Damaged("it has no checkpoint")
    files = [Checkpoints(folder, rank) for rank in range(ranks)]
    available, problem = [each.available() for each in files], "it has no checkpoint of all ranks"
    while (iteration := last_common(available)) is not None:
        try:
            states = [each.load(iteration) for each in files]
            break
        except Damaged as error:
            problem = str(error)
        available = [[older for older in each if older < iteration] for each in available]
    else:
        raise Damaged(problem)
    stored: dict[tuple[torch.dtype, torch.Size, bytes], torch.Tensor] = {}

    def once(tensor: torch.Tensor) -> torch.Tensor:
        plain = tensor.detach().contiguous()
        digest = hashlib.sha256(plain.reshape(-1).view(torch.uint8).numpy().data).digest()
        return stored.setdefault((plain.dtype, plain.shape, digest), plain.clone())

    file = io.BytesIO()
    torch.save({"ranks": [map_tensors(state, once) for state in states]}, file)
    if (size := len(content := file.getvalue())) > most_bytes:
        raise Damaged(f"its checkpoint has {size / 2**20:.1f} MiB, of {most_bytes >> 20} that are packed")
    return iteration, content
