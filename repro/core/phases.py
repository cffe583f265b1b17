"""The phases of a training step on a rank's main task; their times add up to the step's."""

from collections.abc import Mapping

MAIN_LINE = "main"  # of a traced step: the main task of a rank
COMMUNICATION = "communicate"
COMPUTATION = ("forward", "backward", "update", "data")  # without compression, which a strategy adds
PHASES = ("forward", "backward", "compress", COMMUNICATION, "wait", "update", "data", "imbalance", "other")
OVERLAPPED = "overlapped"  # seconds of tasks' communication during computation, beside the phases


def split_communication(phases: Mapping[str, float], overlapped_s: float) -> dict[str, float]:
    """{total_s, exposed_s, overlapped_s} of a step with these phase seconds; exposed: on the main task."""
    exposed_s = phases[COMMUNICATION]
    return {"total_s": exposed_s + overlapped_s, "exposed_s": exposed_s, "overlapped_s": overlapped_s}
