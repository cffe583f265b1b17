"""What a worker trains with: its model shard, its clock, optimizers, schedules, losses."""
