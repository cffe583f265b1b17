"""The assignment of a run's ranks to the nodes of a job: evenly, with servers that have no GPU last."""

from __future__ import annotations

from typing import NamedTuple

from repro.launch.slurm.site import Site


class Layout(NamedTuple):
    """The node of every rank.

    ranks     number of ranks
    on_gpus   number of ranks with a GPU, which come first
    nodes     number of nodes of the job
    per_node  capacity of a node in ranks
    places    node number of each rank; None: consecutive, as by `srun --distribution=block`
    """

    ranks: int
    on_gpus: int
    nodes: int
    per_node: int
    places: tuple[int, ...] | None = None

    @property
    def tasks(self) -> int:
        """The number of tasks for sbatch; if ranks have places, every node needs its full capacity."""
        return self.ranks if self.places is None else self.nodes * self.per_node

    def hosts(self, names: list[str]) -> str:
        """The hosts in rank order, in the format of `srun --nodelist`; names: of the job's nodes."""
        return ",".join(names[place] for place in self.places or ())  # Slurm 22.05 does not accept NAME*COUNT


def node_layout(site: Site, ranks: int, gpu_ranks: int | None = None) -> Layout:
    """The layout of `ranks` ranks, of which the first `gpu_ranks` compute on GPUs (None: all, if the site has GPUs).

    If any rank has a GPU, the site's ranks per node count only those that do. The others are added to these nodes, last
    node first: a parameter server needs a core, but neither a GPU nor a node of its own.
    """
    on_gpus = min(ranks, ranks if gpu_ranks is None else gpu_ranks) if site.gpus_per_node else 0
    placed = on_gpus or ranks
    nodes, per_node, others = site.nodes(placed), site.on_a_node(placed), ranks - placed
    if not others or nodes == 1:
        return Layout(ranks, on_gpus, nodes, per_node + others)
    places = [rank // per_node for rank in range(placed)] + [nodes - 1 - other % nodes for other in range(others)]
    return Layout(ranks, on_gpus, nodes, per_node + -(-others // nodes), tuple(places))
