"""Shaped networks on one machine: network namespaces joined by a bridge, each link limited to a given rate.

Only a namespace daemon holds the namespaces open, so they vanish when it ends, however it ends. `network` is the
interface for other packages; `namespace_daemon`, `enter` and `starter` are programs.
"""
