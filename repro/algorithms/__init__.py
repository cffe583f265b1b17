"""What the papers' strategies stand on: pipelines, parameter servers, batching, load imbalance, closed forms of
time."""
