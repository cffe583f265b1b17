"""Fabrics between real processes: MPI, torch.distributed over gloo and NCCL, and emulation."""
