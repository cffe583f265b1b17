"""Which strategy, for a model, on a network: predictions, and measurements of others to hold them against.

answer.recommend(model, bandwidth, workers, ...) -> Answer     ranked strategies; `text` has it in words and as data
candidates.yaml   the strategies that are ranked        cluster.yaml   what is assumed of a cluster
published.yaml    throughputs that others measured
"""
