"""Tasks of the virtual fabric share one thread: torch's thread-local state and errors still belong to each task."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from repro.fabric.base import FabricError
from repro.fabric.virtual.fabric import Network, run
from tests.support.virtual import NETWORK


def state():
    return torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    ("mode", "inside"),
    [
        (torch.no_grad, (False, False, False)),
        (torch.inference_mode, (False, True, False)),
        (lambda: torch.autocast("cpu"), (True, False, True)),
    ],
)
def test_the_modes_of_torch_are_a_tasks_own(mode, inside):
    def other(fabric):
        states = [state()]
        fabric.sleep(0.5)
        return [*states, state()]

    def main(fabric):
        if fabric.rank:
            return other(fabric)
        with mode():
            late = fabric.spawn(lambda: other(fabric), "late")
            fabric.sleep(0.2)
            states = [state()]
            states += late.join()
            states.append(state())
        return states, state()

    usual = (True, False, False)
    mine, after = run(2, main, NETWORK)[0]
    assert mine == [inside, usual, usual, inside] and after == usual
    assert run(2, main, NETWORK)[1] == [usual, usual]


def test_a_dispatch_mode_sees_only_its_tasks_operations():
    class Count(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    def main(fabric):
        with Count() as count:
            for _ in range(3):
                fabric.sleep(1.0)
                torch.zeros(1)
        return count.calls

    assert run(3, main, NETWORK) == [3, 3, 3]


def test_tasks_must_not_wait_inside_a_backward_pass():
    def main(fabric):
        x = torch.ones(1, requires_grad=True)
        x.register_hook(lambda _: fabric.sleep(1.0))
        (2 * x).backward()

    with pytest.raises(FabricError, match="waits inside a backward pass"):
        run(2, main, NETWORK)
    assert run(1, lambda fabric: fabric.sleep(1.0), NETWORK) == [None]


def test_errors_of_torch_in_tasks_that_others_started():
    """torch records the C stack: if greenlets started deep in another's stack, that would end the process."""

    def depth(fabric, left):
        if left:
            return depth(fabric, left - 1)
        fabric.sleep(1e-3)
        with pytest.raises(NotImplementedError):
            torch.empty(1, device="meta").cpu()
        return fabric.rank

    def main(fabric):
        tasks = [fabric.spawn(lambda left=left: depth(fabric, left), f"task{left}") for left in range(20)]
        states = [depth(fabric, 30)] + [task.join() for task in tasks]
        fabric.barrier()
        return states

    assert run(5, main, NETWORK) == [[rank] * 21 for rank in range(5)]


def test_a_run_inside_of_a_task():
    def main(fabric):
        fabric.sleep(1.0)
        inner = run(3, lambda other: (other.barrier(), other.now())[1], Network(0.5, 0.0))
        fabric.barrier()
        return inner

    assert run(2, main, NETWORK) == [[1.0] * 3] * 2


def test_an_interrupt_ends_the_run():
    def main(fabric):
        fabric.sleep(1.0)
        if fabric.rank:
            raise KeyboardInterrupt
        fabric.recv(torch.zeros(1), 1)

    with pytest.raises(KeyboardInterrupt):
        run(2, main, NETWORK)
