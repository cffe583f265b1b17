"""iBatch: which of its results are shown, its claims and figures, the words of its page."""
