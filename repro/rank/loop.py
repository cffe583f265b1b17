"""The training loop: steps, with stops at fixed iterations for evaluation, checkpoint and log."""

from __future__ import annotations

from repro.rank import meters
from repro.rank.checkpointer import Checkpointer
from repro.rank.evaluator import Evaluator
from repro.rank.preemption import Notice
from repro.rank.step_log import StepLog
from repro.training.stops import TrainingPlan


def train_to_end(
    plan: TrainingPlan,
    log: StepLog,
    evaluator: Evaluator,
    checkpointer: Checkpointer,
    start: int,
    notice: Notice | None = None,
) -> int:
    """Train from iteration `start` to the plan's end or a preemption; returns the last iteration. All ranks call it."""
    worker, strategy, clock = log.worker, log.strategy, log.worker.clock
    alone, done = strategy.local_checkpoints, start

    def evaluate(iteration: int) -> None:
        evaluator.evaluate(iteration, log.train_s, log.loss)

    clock.start()
    if start == 0:
        with clock.paused():
            evaluate(0)  # where every curve begins
            continue_together(log)
    elif log.unlogged and plan.at(start).evaluate:  # the run ended between its checkpoint and this evaluation
        strategy.settle()
        with clock.paused():
            log.stop(start)
            evaluate(start)
            continue_together(log)
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
                checkpointer.save_alone(done)
            if not (stop.evaluate or stop.leave):
                continue
        strategy.drain() if ended else strategy.settle()
        with clock.paused():
            log.stop(done)
            if stop.evaluate:
                evaluate(done)
            if checkpoint and not alone:
                checkpointer.save(done)
            continue_together(log)
        if stop.leave:
            break
    return done


def continue_together(log: StepLog) -> None:
    """Wait for all ranks, so that no training clock runs while another rank still evaluates."""
    if log.events:
        log.events.flush()
    with log.worker.clock.activity("synchronisation"):
        log.worker.fabric.exchange(None)
    meters.reset_peak(log.worker.model_shard.device)
