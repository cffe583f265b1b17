"""PS-Sync: synchronous SGD through a parameter server on a rank of its own (Pipe-SGD sections 2 and 4)."""

from __future__ import annotations

from typing import Any

from repro.algorithms.timing.setting import Place, Setting
from repro.algorithms.timing.step import Step, assemble_step
from repro.algorithms.timing.step_forms import server_step_shared
from repro.fabric.collectives import dense as collectives
from repro.strategies.base import StepReport
from repro.strategies.shared.parameter_server import PULL, ParameterServer


class PSSync(ParameterServer):
    """Workers push gradients; the server sums them in rank order, updates, and returns the weights."""

    name = "ps_sync"

    @classmethod
    def step_form(cls, setting: Setting, place: Place, options: Any) -> Step:
        """The server is on its own machine, whose network card all workers share.

        A late worker is hidden for as long as the others' gradients fill the card.
        """
        network, (p, n) = (place.alpha, place.beta, setting.testbed.gamma_s_per_byte), (place.workers, setting.nbytes)
        seconds = server_step_shared(p, n, *network, setting.update_s, setting.computation_s)
        late = max(0.0, setting.late_s - (p - 1) * n * place.beta)
        return assemble_step(setting, seconds - setting.update_s - setting.computation_s, late=late)

    def serve(self) -> StepReport:
        worker, fabric = self.worker, self.worker.fabric
        clients = range(worker.workers)
        with worker.clock.phase("communicate"):
            collectives.serve_sum(fabric, self.gradient, clients)
        worker.update(self.gradient)
        with worker.clock.phase("communicate"):
            for send in [fabric.isend(worker.model_shard.weights, client, PULL) for client in clients]:
                send.wait()
        self.iteration += 1
        return StepReport(None, (), 0)
