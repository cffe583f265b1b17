"""The training loop: step, and at fixed iterations settle, evaluate, checkpoint, log."""

from __future__ import annotations

from repro.rank.preemption import Notice
from repro.rank.recorder import RunLog
from repro.strategies.base import Strategy
from repro.training.stops import TrainingPlan
from repro.training.worker import Worker


def train(
    worker: Worker, strategy: Strategy, plan: TrainingPlan, log: RunLog, start: int, notice: Notice | None = None
) -> int:
    """Train from iteration `start` to the plan's end, or to where a preemption has it; every rank calls it.

    Returns the iteration at which it ended.
    """
    clock, done = worker.clock, start
    alone = strategy.local_checkpoints
    clock.start()
    if start == 0:
        with clock.paused():
            log.evaluate(0)  # where every curve begins
            log.resume_together()
    elif log.unlogged and plan.at(start).evaluate:  # the run ended between its checkpoint and that
        strategy.settle()
        with clock.paused():
            log.stop(start)
            log.evaluate(start)
            log.resume_together()
    for stop in plan.stops(after=start):
        step, last = strategy.steps(done * worker.workers), strategy.steps(stop.iteration * worker.workers)
        while step < last:
            log.step(strategy.step)
            step += 1
            if notice and notice.given:
                stop = notice.sooner(stop, step)
                last = strategy.steps(stop.iteration * worker.workers)
        done = stop.iteration
        ended = done == plan.iterations
        checkpoint = (stop.checkpoint or stop.leave) and not ended
        if alone and checkpoint:
            with clock.paused():
                log.checkpoint_alone(done)
            if not (stop.evaluate or stop.leave):
                continue
        strategy.drain() if ended else strategy.settle()
        with clock.paused():
            log.stop(done)
            if stop.evaluate:
                log.evaluate(done)
            if checkpoint and not alone:
                log.checkpoint(done)
            log.resume_together()
        if stop.leave:
            break
    return done
