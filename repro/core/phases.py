"""The phases of a step on a rank's main line, as the training clock books them; they sum to the step."""

PHASES = ("forward", "backward", "compress", "communicate", "wait", "update", "data", "imbalance", "other")
