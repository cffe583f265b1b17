"""PipeDream's profiler (section 3.2): T_l, a_l and w_l of every block of a model, measured on one device.

Each block runs alone, as on a stage: forward from the detached output of the block before it, backward from the
gradient of its output. The loss is part of the last block. As in training, a block without trainable blocks before it
computes no gradient of its inputs. T_l excludes data loading and the update.

Times are medians over minibatches, for each block and pass separately, to exclude disturbances by other programs. The
paper uses 1,000 minibatches, which "vary little".
"""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from repro import data, models
from repro.algorithms.pipeline.layers import Layer, Profile, parameter_bytes, tensor_bytes
from repro.algorithms.pipeline.profile import check_sizes
from repro.core.errors import InputError
from repro.data.base import Dataset
from repro.data.minibatches import Minibatches
from repro.experiment import files
from repro.experiment.schema import Numerics
from repro.fabric.real.gpus import pick_device
from repro.records import provenance
from repro.training import numerics, optimizers
from repro.training.cuda_timer import DeviceTimes
from repro.training.model_shard import carries_state, reset_state

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def profile_model(
    name: str,
    dataset: str,
    batch: int,
    minibatches: int,
    warmup: int,
    device: str = "auto",
    model_options: Mapping[str, Any] | None = None,
    dataset_options: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Profile:
    """The measured profile of a model on this machine, on its data set or the stand-in; InputError for wrong options.

    device: auto (a GPU if torch has a working one), cpu or cuda. torch's number of threads; fp32 without TF32, as runs.
    """
    check_sizes(batch, minibatches, warmup)
    numerics.prepare_process(Numerics())
    place = pick_device(device, 0)
    loaded, classes = profile_inputs(name, dataset, dict(dataset_options or {}))
    model = models.build_model(name, loaded.input_shape, classes, seed, place, **dict(model_options or {}))
    return of_model(name, model, loaded, batch, minibatches, warmup, place, seed)


def of_model(
    name: str,
    model: nn.Sequential,
    dataset: Dataset,
    batch: int,
    minibatches: int,
    warmup: int,
    device: torch.device,
    seed: int,
    progress: Callable[[int], object] = lambda number: None,
) -> Profile:
    """The measured profile of a model on the device; progress(n) is called after the n-th minibatch."""
    dataset.iterations(batch)  # InputError if there are too few samples
    batches = dataset.train.minibatches(batch, 1, seed, device)
    check_forward(name, model, batches, dataset.name)
    layers = measure_layers(model, batches, optimizers.loss_of(dataset.task), device, minibatches, warmup, progress)
    x, _ = batches[0]
    return Profile(name, batch, hardware_name(device), tuple(layers), minibatches, warmup, "measured", tensor_bytes(x))


def check_forward(name: str, model: nn.Sequential, batches: Minibatches, dataset: str) -> None:
    """InputError if the model, perhaps a user's own module, cannot compute a forward pass of the data."""
    x, _ = batches[0]
    try:
        with torch.no_grad():
            model(x)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # a user's module may raise anything
        shape, reason = " x ".join(map(str, x.shape)), (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"model {name}: its forward pass fails on a minibatch of {dataset} ({shape}): {reason}"
        ) from None
    finally:
        if carries_state(model):
            reset_state(model)


def check_workload(name: str, dataset: str | None, options: Mapping[str, Mapping[str, Any]]) -> None:
    """InputError for options (of `model` and `dataset`) that a model or its data set does not have, and for a data set
    of another kind than the model takes; NotHere for required data that are not on this machine. dataset: None: the
    usual one."""
    models.check_options(name, options["model"])
    dataset = dataset or usual_dataset(name)
    data.check_options(dataset, options["dataset"])
    takes, kind = models.input_kind(name), data.input_kind(dataset)
    if takes not in (kind, models.ANYTHING):
        fitting = ", ".join(other for other in data.dataset_names() if data.input_kind(other) == takes) or "none"
        raise InputError(f"model {name} takes {takes}, and {dataset} is {kind}; must be of {fitting}")
    data.check_found(dataset, options["dataset"].get("standin"))


def profile_inputs(name: str, dataset: str, options: dict[str, Any]) -> tuple[Dataset, int]:
    """(data set, number of classes) for a model; a stand-in's images have the size of the real ones.

    options: of the data set, and `standin`. InputError as `check_workload`.
    """
    check_workload(name, dataset, {"model": {}, "dataset": options})
    rest = {option: value for option, value in options.items() if option != "standin"}
    if "image_size" in data.load_source(dataset).OPTIONS:
        rest = {"image_size": data.load_shapes(dataset, **rest).input_shape[-1]} | rest
    loaded = data.load_dataset(dataset, standin=options.get("standin", "auto"), **rest)
    return loaded, classes_of(loaded, dataset, rest)


def classes_of(loaded: Dataset, name: str, options: Mapping[str, Any]) -> int:
    """The real data set's number of classes, also for its stand-in: it determines the last layer's size."""
    return data.load_shapes(name, **options).classes if loaded.standin else loaded.classes


def usual_dataset(name: str) -> str:
    """The data set on which most experiments train a model; without any, the one in the model's name, else the smallest
    that fits. InputError for an unknown model, and if none fits."""
    kind = models.input_kind(name)
    uses: Counter[str] = Counter()
    for experiment in files.group_names("experiment"):
        overrides: dict[str, str] = {}
        for default in files.own_file(experiment).get("defaults", []):
            overrides |= default if isinstance(default, dict) else {}
        if overrides.get("override /model") == name and "override /dataset" in overrides:
            uses[overrides["override /dataset"]] += 1
    if uses:
        return uses.most_common(1)[0][0]
    fitting = sorted((dataset for dataset in data.dataset_names() if data.input_kind(dataset) == kind), key=_size)
    named = [dataset for dataset in fitting if dataset in name]
    usual = max(named, key=len, default=None) or next((each for each in fitting if _takes(name, each)), None)
    if usual is None:
        raise InputError(f"model {name}: no data set of the project fits; name one by --dataset")
    return usual


def _size(dataset: str) -> int:
    """The number of values in the real training set."""
    real = data.load_shapes(dataset)
    return len(real.train) * math.prod(real.input_shape)


def _takes(name: str, dataset: str) -> bool:
    """Whether a model can be built for the samples of a data set."""
    real = data.load_shapes(dataset)
    try:
        models.build_model(name, real.input_shape, real.classes, 0, "meta")
    except InputError:
        return False
    return True


def hardware_name(device: torch.device) -> str:
    """The hardware in words: its class, the device, threads, torch."""
    facts = provenance.hardware("none", device.type if device.type == "cpu" else "auto")
    if device.type == "cpu":
        threads = torch.get_num_threads()
        used = f"{facts['cpu']}, {threads} thread{'s' * (threads != 1)}"
    else:
        used = torch.cuda.get_device_name(device)
    return f"{facts['class']} ({used}, torch {torch.__version__})"


def measure_layers(
    model: nn.Sequential,
    batches: Minibatches,
    loss_function: Loss,
    device: torch.device,
    minibatches: int,
    warmup: int,
    progress: Callable[[int], object] = lambda number: None,
) -> list[Layer]:
    """The layers of a model, from `minibatches` after `warmup` others; progress as in `of_model`."""
    blocks = dict(model.named_children())
    watch, stateful = Watch(device), carries_state(model)
    timed: list[list[float]] = []
    sizes: list[list[int]] = []
    for number in range(warmup + minibatches):
        x, y = batches[number]
        if stateful and batches.begins(number):
            reset_state(model)
        for parameter in model.parameters():
            parameter.grad = None
        watch.start()
        produced = run_minibatch(list(blocks.values()), x, y, loss_function, watch)
        seconds = watch.seconds()
        if number >= warmup:
            timed.append(seconds)
            sizes.append(produced)
        progress(number + 1)
    columns = [statistics.median(column) for column in zip(*timed)]
    activations = [statistics.fmean(column) for column in zip(*sizes)]  # lengths differ between minibatches
    forward, backward = columns[: len(blocks)], columns[len(blocks) :][::-1]
    return list(map(Layer, blocks, forward, backward, activations, map(parameter_bytes, blocks.values())))


def run_minibatch(
    blocks: list[nn.Module], x: torch.Tensor, y: torch.Tensor, loss_function: Loss, watch: Watch
) -> list[int]:
    """Run one minibatch; `watch` times each block's forward pass, then each one's backward pass, the last block first.

    Returns the bytes of the blocks' outputs.
    """
    inputs, outputs, sizes, value = [], [], [], x
    for index, block in enumerate(blocks):
        block_input = value.detach()
        if value.requires_grad:
            block_input.requires_grad_()
        with watch:
            value = block(block_input)
            sizes.append(tensor_bytes(value))
            if index == len(blocks) - 1:
                value = loss_function(value, y)
        inputs.append(block_input)
        outputs.append(value)
    gradient = None
    for block_input, output in zip(reversed(inputs), reversed(outputs)):
        with watch:
            if output.requires_grad:
                torch.autograd.backward(output, gradient)
        gradient = block_input.grad
    return sizes


class Watch:
    """Times sections of work on a device: `with watch:`; on a GPU by events, without synchronisation."""

    def __init__(self, device: torch.device):
        self.device = device
        self.events = DeviceTimes() if device.type == "cuda" else None
        self.marks: list[Any] = []

    def start(self) -> None:
        """Start a minibatch, after the device has become idle."""
        self.marks = []
        if self.events:
            torch.cuda.synchronize(self.device)
            self.events.anchor(time.perf_counter())

    def __enter__(self) -> None:
        self._mark()

    def __exit__(self, *_: object) -> None:
        self._mark()

    def _mark(self) -> None:
        self.marks.append(self.events.mark() if self.events else time.perf_counter())

    def seconds(self) -> list[float]:
        """The seconds of each section since `start`."""
        times = self.events.seconds(self.marks) if self.events else self.marks
        return [end - begin for begin, end in zip(times[::2], times[1::2])]
