"""Loading images: a training step whose images are decoded ahead, against the same step with them in memory.

One rank trains ResNet-50 on ImageNet's files, or where there are none on JPEGs of their mean size that are written for
it. The two sides draw the same minibatches and take turns. The first steps of a turn are not timed: minibatches that
were decoded between the turns would else be free. What is compared are seconds of a wall clock, as it is waiting that
loading costs; the goal is for a rank with 16 cores, and judged there. The files are few enough to be in memory, too,
undecoded: how fast a disk is does not count.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn import functional

from repro import models
from repro.bench.goals import Goal, of_ratio, ratio
from repro.core.errors import FaultError
from repro.data.base import Batches, Samples
from repro.data.readers import lazy, prefetch
from repro.data.sets import imagenet

MODEL, SIZE, TURNS = "resnet50", 224, 4
BATCHES = {"cuda": (64, 20), "cpu": (4, 4)}  # device -> samples of a minibatch, timed steps of a turn
LOADED = Goal("a step with images decoded ahead over the same step with them in memory", 1.05)
CORES = 16  # that the goal is for
WARMUP = prefetch.AHEAD + 2  # two steps tell how far the next ones are, and what lay ready is used up
FILE, GRAIN = (375, 500), 24  # of an image that is written: sides about ImageNet's means, noise for its mean bytes
IMAGES = 8  # minibatches of an epoch
SIDES = ("ahead", "memory")


def measure(turns: int = TURNS, model: str = MODEL, size: int = SIZE, steps: int | None = None) -> dict[str, Any]:
    """{model, batch, image_size, device, cores, dataset, bytes (of a file, mean), step_s {side: {median, min, all}},
    ratio {median, min, max}, decoding_cpu_s, decoding_cores, against_goals}; on a GPU where torch sees one, else on one
    thread.

    decoding_cpu_s: of an image, all threads. decoding_cores: how many it keeps busy beside a step that does not wait.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    batch, usual = BATCHES[device.type]
    steps = steps or usual
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as holder:
            real = imagenet.find()
            folder = real or written(Path(holder), batch * IMAGES)
            sides = {side: Side(folder, side, model, size, batch, device) for side in SIDES}
            sides["ahead"].check(sides["memory"])
            seconds = alternated(sides, turns, steps)
            decoding_s, nbytes = sides["ahead"].decoding()
    finally:
        torch.set_num_threads(threads)
    cores = len(os.sched_getaffinity(0))
    over = ratio(seconds["ahead"], seconds["memory"])
    return {
        "model": model,
        "batch": batch,
        "image_size": size,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu, one thread",
        "cores": cores,
        "dataset": sides["ahead"].dataset.name if real else "written here",
        "bytes": nbytes,
        "step_s": {
            side: {"median": statistics.median(times), "min": min(times), "all": times}
            for side, times in seconds.items()
        },
        "ratio": over,
        "decoding_cpu_s": decoding_s,
        "decoding_cores": batch * decoding_s / statistics.median(seconds["memory"]),
        "against_goals": [of_ratio(LOADED, over)] if cores >= CORES else [],
    }


def alternated(sides: dict[str, Side], turns: int, steps: int) -> dict[str, list[float]]:
    """Seconds of a step, of each turn of each side."""
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for turn in range(turns):
        for name in sorted(sides, reverse=bool(turn % 2)):
            seconds[name].append(sides[name].turn(steps))
    return seconds


class Side:
    """The same training of one rank from images on the disk, or from memory."""

    def __init__(self, folder: Path, side: str, model: str, size: int, batch: int, device: torch.device):
        given: dict[str, Any] = {"decode": "lazy", "ahead": prefetch.AHEAD} if side == "ahead" else {"decode": "memory"}
        limits = {"images": batch * IMAGES, "test_images": 1}
        self.dataset = imagenet.read(folder, image_size=size, **limits, **given)
        assert isinstance(self.dataset.train, Samples)
        self.batches, self.device = Batches(self.dataset.train, batch, 0, device=device), device
        self.split = self.batches.split
        self.model = models.build(model, self.dataset.input_shape, imagenet.CLASSES, 0, device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.done = 0

    def check(self, other: Side) -> None:
        """FaultError where the two do not draw the same."""
        if not all(torch.equal(one, two) for one, two in zip(self.batches[0], other.batches[0], strict=True)):
            raise FaultError("loading: the minibatch that was decoded ahead is not the one in memory")

    def decoding(self) -> tuple[float, float]:
        """CPU seconds of this process, and bytes, of an image."""
        assert isinstance(self.split, lazy.LazySplit)
        nbytes = statistics.fmean(len(source.open("rb").read()) for source in self.split.paths)
        used = time.process_time()
        lazy.decode(self.split.paths, self.split.decoder)
        return (time.process_time() - used) / len(self.split), nbytes

    def turn(self, steps: int) -> float:
        """Seconds of a step in the steady state; what it has begun is then over."""
        for _ in range(WARMUP):
            self.step()
        began = now(self.device)
        for _ in range(steps):
            self.step()
        took = now(self.device) - began
        if isinstance(self.split, lazy.LazySplit):
            self.split.settle()
        return took / steps

    def step(self) -> None:
        x, y = self.batches[self.done]
        self.done += 1
        self.optimizer.zero_grad()
        functional.cross_entropy(self.model(x), y).backward()
        self.optimizer.step()


def now(device: torch.device) -> float:
    """Seconds, at which the GPU has done what it was asked for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def written(place: Path, images: int) -> Path:
    """A folder in ImageNet's layout with so many JPEGs of two classes, from a seed: soft shapes with some grain."""
    draw = np.random.default_rng(0)
    for part, count in (("train", images), ("val", 2)):
        for number in range(count):
            coarse = Image.fromarray(draw.integers(0, 256, (12, 16, 3), dtype=np.uint8))
            soft = np.asarray(coarse.resize(FILE[::-1], Image.Resampling.BICUBIC), dtype=np.int16)
            pixels = (soft + draw.normal(0, GRAIN, soft.shape)).clip(0, 255).astype(np.uint8)
            path = place / part / f"n{number % 2}" / f"{number}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path, quality=90)
    return place


def table(result: dict[str, Any]) -> str:
    cores = result["cores"]
    lines = [
        f"loading: {result['model']} on images of {result['image_size']}x{result['image_size']} ({result['dataset']}, "
        f"{result['bytes'] / 1e3:.0f} kB each), batch {result['batch']}, {result['device']}, {cores} cores"
    ]
    for side, name in (("ahead", "decoded ahead"), ("memory", "in memory")):
        lines.append(f"  {name:15}{1e3 * result['step_s'][side]['median']:>10.1f} ms a step")
    lines.append("  ratio{median:>20.3f} ({min:.3f}-{max:.3f})".format(**result["ratio"]))
    lines.append(
        f"  decoding takes {1e3 * result['decoding_cpu_s']:.1f} ms of CPU an image: {result['decoding_cores']:.2f} "
        "cores beside the step"
    )
    if cores < CORES:
        lines.append(f"  goal at most {LOADED.bound:g} is for {CORES} cores: not judged on {cores}")
    return "\n".join(lines)
