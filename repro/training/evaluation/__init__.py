"""What a model is worth: evaluation, metrics, METEOR."""
