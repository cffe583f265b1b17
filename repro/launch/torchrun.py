"""torchrun with a rendezvous store that listens on loopback only; torch's own listens on all interfaces.

`python -m repro.launch.torchrun --nproc-per-node RANKS PROGRAM...`, otherwise as torchrun.
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile

from torch.distributed import TCPStore, run
from torch.distributed.elastic.rendezvous import RendezvousParameters, rendezvous_handler_registry
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

from repro.rank import ends

NAME, LOOPBACK = "loopback", "127.0.0.1"
TIMEOUT_S = 600


class Loopback(StaticTCPRendezvous):
    """The rendezvous of a single agent, whose store uses a socket bound to loopback."""

    def __init__(self, parameters: RendezvousParameters):
        listener = socket.create_server((LOOPBACK, 0))
        port = listener.getsockname()[1]
        super().__init__(LOOPBACK, port, rank=0, world_size=1, run_id=parameters.run_id, timeout=TIMEOUT_S)
        self._store = TCPStore(
            LOOPBACK, port, 1, True, self.timeout, multi_tenant=True, master_listen_fd=listener.detach()
        )

    def get_backend(self) -> str:
        return NAME


if __name__ == "__main__":
    rendezvous_handler_registry.register(NAME, Loopback)
    # torchrun does not remove its folder of logs
    with tempfile.TemporaryDirectory(prefix="torchrun-", dir=os.environ.get(ends.VARIABLE)) as logs:
        run.main(["--rdzv-backend", NAME, "--local-addr", LOOPBACK, "--log-dir", logs, *sys.argv[1:]])
