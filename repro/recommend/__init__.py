"""Which strategy, for a model, on a network: predictions, and measurements of others to hold them against.

recommend(model, bandwidth, workers, ...)   ranked strategies; `text` has the answer in words and as data
candidates.yaml   the strategies that are ranked        cluster.yaml   what is assumed of a cluster
published.yaml    throughputs that others measured
"""

from repro.recommend.answer import recommend

__all__ = ["recommend"]
