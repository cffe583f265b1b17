"""Hosts of our own on one machine: network namespaces joined by a bridge, each link limited to a given rate.

A namespace daemon holds the namespaces open and nothing else does, so that they are gone when it ends, however it ends.
`network` is what the rest of the project uses; `namespace_daemon`, `enter` and `starter` are programs that run inside.
"""
