"""A parameter server that is sharded over several ranks (iBatch).

shards      which elements of the model each server holds
shard       a server's weights, optimizer state and versions
server      when a server answers and updates: BSP, SSP, ASP
client      a worker's pulls and pushes
dropping    gradient dropping (Aji and Heafield)
profiler    measures startup, transfer and forward times on the fabric in use
"""
