"""The phases of a training step on a rank's main task; their times add up to the step's."""

PHASES = ("forward", "backward", "compress", "communicate", "wait", "update", "data", "imbalance", "other")
