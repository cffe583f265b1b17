"""The parts of a worker: model shard, computation, clock, optimizers, schedules, losses, evaluation."""
