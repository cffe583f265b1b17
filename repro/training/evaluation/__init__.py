"""Evaluation of models: losses, accuracies, METEOR."""
