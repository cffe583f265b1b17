"""What training in a pipeline needs besides strategies and fabrics: profiles, partitions, schedules, versions."""
