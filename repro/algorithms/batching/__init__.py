"""iBatch's decision: which layers' parameters are pulled together (Wang, Pi, Zhou, AAAI 2019, Equations (1) to (5)).

profile  what is known of a network on a cluster: startup time, transfer time and forward time of each layer
ticks    a profile's times as whole numbers, so that sums and comparisons are exact
times    what batches take: the paper's EXETime, Equation (4), the executed time of the pipeline, constraint (5)
greedy   Algorithms 1 and 2, and the better of the two
exact    the true optima, by dynamic programming
modes    every way to decide, by name
"""
