"""iBatch's decision which layers to pull together (Wang, Pi, Zhou, AAAI 2019, Equations (1) to (5)).

profile  the inputs: the startup time, and each layer's transfer and forward time
ticks    a profile's times as integers, so that sums and comparisons are exact
times    the duration of batches: the paper's EXETime, Equation (4), the pipeline's executed time, constraint (5)
greedy   Algorithms 1 and 2, and the better of the two
exact    the optima, by dynamic programming
modes    all decisions, by name
"""
