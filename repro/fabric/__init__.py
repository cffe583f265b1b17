"""How ranks talk: the interface (`base`), three implementations (`mpi`, `torch_dist`, `virtual`), and collectives."""
