"""The configuration of the series' runs: small, with as much state as possible that a resume could lose.

They use momentum, weight decay, a learning rate that changes at every update, warm-up, and each strategy's options with
the most state: residuals, queues, versions of weights, random numbers of a codec.
"""

from __future__ import annotations

from repro import strategies

EXPERIMENT = "pipesgd/fig4-mnist"
SCALE = "quick"
WORKERS = 3
CHECKPOINTS = 20  # in a run
# steps of milliseconds, a checkpoint every few steps, an evaluation in each epoch
SIZES = (
    "testbed=here", "dataset.standin=always", f"workers={WORKERS}", "batch=60", "epochs=5", "eval_every=1",
    f"checkpoint_every={5 / CHECKPOINTS}",
)  # fmt: skip
OPTIMIZER = (
    "optimizer.lr=0.02", "optimizer.momentum=0.9", "optimizer.weight_decay=0.001", "optimizer.schedule=cosine",
    "optimizer.warmup=[0.2,0.6]",
)  # fmt: skip
SPARSE = ("density=0.01", "warmup_densities=[0.2,0.05]", "momentum_correction=true", "codec=quantize8")
OPTIONS: dict[str, tuple[str, ...]] = {
    "ddp": ("hook=powersgd", "powersgd_start=2", "powersgd_rank=2"),
    "diloco": ("H=7",),
    "dsync": ("codec=ternary",),
    "eager_majority": ("sync_epochs=1",),
    "eager_quorum": (f"quorum={WORKERS}", "density=0.1"),
    "eager_solo": ("density=0.1", "late=drop"),
    "gpipe": ("flush=6",),
    "gtopk": (*SPARSE, "K=2", "residual=exact"),
    "horovod": ("fp16=true",),
    "ibatch": ("push=batches", "drop=0.9"),
    "parameter_averaging": ("codec=quantize8",),
    "pipe_sgd": ("K=3", "segments=2", "staleness_lr=true", "warmup_epochs=0.5", "codec=ternary"),
    "pipedream": ("config=2-1", "semantics=vertical_sync"),
    "powersgd": ("rank=2",),
    "ps_default": ("servers=1", "drop=0.9"),
    "ps_layerwise": ("push=layerwise", "placement=vector"),
    "topk": (*SPARSE, "thread=false"),
    "torch_pipelining": ("schedule=gpipe",),
    "wfbp": ("bucket_mb=0.5", "first_bucket_mb=0.1", "codec=ternary"),
}
# deterministic with these options, though not in general: a quorum of all ranks waits for all
SAME_BITS = ("eager_quorum",)


def overrides_of(strategy: str) -> list[str]:
    """The overrides of a strategy's run."""
    chosen = [f"strategy.{option}" for option in OPTIONS.get(strategy, ())]
    needs = strategies.load_strategy(strategy).requires
    launcher = ["testbed.launcher=torchrun"] if "torch.distributed" in needs else []
    return [*SIZES, *OPTIMIZER, f"strategy={strategy}", *chosen, *launcher]


def ends_with_same_bits(strategy: str) -> bool:
    """Whether the strategy, with these options, always ends with the same bits."""
    if strategy in SAME_BITS:
        return True
    import yaml

    kind = strategies.load_strategy(strategy)
    options = (option.split("=", 1) for option in OPTIONS.get(strategy, ()))
    return kind(kind.parse({name: yaml.safe_load(value) for name, value in options})).deterministic
