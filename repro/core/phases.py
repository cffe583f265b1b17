"""The phases of a step on a rank's main task, as the training clock counts them; they add up to the step."""

PHASES = ("forward", "backward", "compress", "communicate", "wait", "update", "data", "imbalance", "other")
