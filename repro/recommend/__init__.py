"""Which strategy, for a model, on a network: predictions, and measurements of others to hold them against."""
