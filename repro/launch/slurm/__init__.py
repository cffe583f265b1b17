"""Submission to Slurm: site options, job scripts, records of submissions and their status."""
