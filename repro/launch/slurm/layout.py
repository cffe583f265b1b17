"""Where the ranks of a run are on the nodes of a job: shared out evenly, servers without a GPU behind the others."""

from __future__ import annotations

from typing import NamedTuple

from repro.launch.slurm.site import Site


class Layout(NamedTuple):
    """The place of every rank.

    ranks     how many there are
    on_gpus   how many of them, the first ones, have a GPU
    nodes     of the job
    per_node  ranks that a node has room for
    places    of each rank the number of its node; None: neighbours in order, as `srun --distribution=block` does
    """

    ranks: int
    on_gpus: int
    nodes: int
    per_node: int
    places: tuple[int, ...] | None = None

    @property
    def tasks(self) -> int:
        """How many tasks to ask sbatch for: where ranks have places, room for as many on every node."""
        return self.ranks if self.places is None else self.nodes * self.per_node

    def hosts(self, names: list[str]) -> str:
        """The hosts of the ranks in their order, as `srun --nodelist` takes them; names: of the job's nodes."""
        return ",".join(names[place] for place in self.places or ())  # Slurm 22.05 takes no NAME*COUNT for several


def layout(site: Site, ranks: int, gpu_ranks: int | None = None) -> Layout:
    """Of so many ranks, of which the first `gpu_ranks` compute on GPUs (None: all, where the site has any).

    A site's number of ranks on a node is of those with a GPU, where any has one. Ranks without one come on top, on the
    last node first: a parameter server costs a core, not a GPU, and no node of its own.
    """
    on_gpus = min(ranks, ranks if gpu_ranks is None else gpu_ranks) if site.gpus_per_node else 0
    placed = on_gpus or ranks
    nodes, per_node, others = site.nodes(placed), site.on_a_node(placed), ranks - placed
    if not others or nodes == 1:
        return Layout(ranks, on_gpus, nodes, per_node + others)
    places = [rank // per_node for rank in range(placed)] + [nodes - 1 - other % nodes for other in range(others)]
    return Layout(ranks, on_gpus, nodes, per_node + -(-others // nodes), tuple(places))
