"""The phases of a training step on a rank's main task; their times add up to the step's."""

MAIN_LINE = "main"  # of a traced step: the main task of a rank
COMMUNICATION = "communicate"
COMPUTATION = ("forward", "backward", "update", "data")  # without compression, which a strategy adds
PHASES = ("forward", "backward", "compress", COMMUNICATION, "wait", "update", "data", "imbalance", "other")
