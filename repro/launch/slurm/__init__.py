"""Slurm: the site's options, the job script, what was submitted and how far it is. Ranks: `repro.launch.srun`."""
