"""A parameter server cut over several ranks: which server holds what, what it does, how workers pull and push (iBatch).

shards      which elements of the model each server holds
shard       one server's part: weights, optimizer, versions
server      what a server answers, and when: BSP, SSP, ASP
client      a worker's pulls and pushes
dropping    gradients that are sent in part (Aji and Heafield)
profiler    startup, transfer and forward times, measured on the fabric in use
"""
