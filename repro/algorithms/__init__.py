"""Building blocks of the papers' strategies: pipelines, parameter servers, batching, load imbalance, closed forms."""
