"""Building blocks of pipeline parallelism: profiles, partitions, schedules, weight versions."""
