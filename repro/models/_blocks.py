"""Converts any nn.Module to an nn.Sequential of blocks: its children, if its forward pass is a chain; else one block.

torch.fx traces the forward pass. A block is a child (or member of a ModuleList) with the operations after it, up to the
next one. The model is cut only where exactly one tensor passes, so children under a residual connection stay together.
Also the adapter of a user's class or function that makes an nn.Module.
"""

from __future__ import annotations

import inspect
import random
from collections import Counter, OrderedDict
from collections.abc import Iterable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import torch
from torch import fx, nn
from torch.func import functional_call

from repro.core import own_code
from repro.core.errors import InputError
from repro.core.without_pytorch import require_pytorch

ONE_BLOCK = "one_block"  # attribute of a block: the reason why the model could not be cut


def blocks_of(model: nn.Module, input_shape: tuple[int, ...]) -> nn.Sequential:
    """The model's blocks; parameters that its forward pass does not use are frozen. InputError for several inputs."""
    if isinstance(model, nn.Sequential) and type(model).forward is nn.Sequential.forward and _each_once(model):
        return model
    _check_inputs(model)
    model.register_forward_hook(_output)
    try:
        blocks = _chain(model)
    except _OneBlock as reason:
        setattr(model, ONE_BLOCK, str(reason))
        _freeze_unused(model, input_shape)
        return nn.Sequential(OrderedDict(model=model))
    next(reversed(blocks.values())).register_forward_hook(_output)
    return nn.Sequential(blocks)


def _freeze_unused(model: nn.Module, input_shape: tuple[int, ...]) -> None:
    """Freeze parameters that get no gradient in a pass on the meta device, if such a pass is possible."""
    weights = {name: torch.empty_like(parameter, device="meta").requires_grad_(parameter.requires_grad)
               for name, parameter in model.named_parameters()}  # fmt: skip
    buffers = {name: torch.empty_like(buffer, device="meta") for name, buffer in model.named_buffers()}
    for dtype in (torch.float32, torch.int64):
        try:
            x = torch.empty(2, *input_shape, dtype=dtype, device="meta")
            functional_call(model, weights | buffers, (x,)).sum().backward()
        except InputError:
            raise
        except Exception:  # the model needs values, or other inputs
            continue
        for name, parameter in model.named_parameters():
            if weights[name].grad is None:
                parameter.requires_grad_(False)
        return


class _OneBlock(Exception):
    """The reason why a model is not cut."""


class _Tracer(fx.Tracer):
    """Traces the calls of children, not what they do."""

    def is_leaf_module(self, module: nn.Module, qualified_name: str) -> bool:
        return True

    def create_arg(self, argument: Any) -> Any:
        """Replaces an output object, as Hugging Face's models return it, by its logits."""
        return super().create_arg(argument if isinstance(argument, fx.Proxy) else _logits(argument))

    def create_args_for_root(self, function: Any, is_module: bool, concrete_args: Any = None) -> Any:
        """Traces the first input; others have their defaults."""
        return function, [self.root, self.create_proxy("placeholder", "x", (), {})]


def _check_inputs(model: nn.Module) -> None:
    needed = [
        name
        for name, parameter in inspect.signature(model.forward).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(needed) > 1:
        raise InputError(
            f"forward of {type(model).__name__} takes {len(needed)} inputs ({', '.join(needed)}), but a data set has "
            "one: join them into one tensor, and split it in a wrapping module (docs/model.md)"
        )


def _logits(output: Any) -> Any:
    """The logits of an output object; other outputs unchanged."""
    return output.logits if not isinstance(output, torch.Tensor) and hasattr(output, "logits") else output


def _output(module: nn.Module, inputs: Any, output: Any) -> torch.Tensor:
    """A forward hook that converts the output to one tensor."""
    tensor = _logits(output)
    tensor = tensor[0] if isinstance(tensor, tuple) else tensor
    if not isinstance(tensor, torch.Tensor):
        raise InputError(
            f"{type(module).__name__} returns a value of type {type(output).__name__}; must be a tensor, an object "
            "with logits, or a tuple that begins with a tensor"
        )
    return tensor


def _chain(model: nn.Module) -> OrderedDict[str, nn.Module]:
    """The blocks by name; _OneBlock if there are fewer than two."""
    if hasattr(model, "reset_state"):
        raise _OneBlock("it has its own reset_state")
    graph = _traced(model)
    nodes = [node for node in graph.nodes if node.op not in ("output", "get_attr")]
    calls = [place for place, node in enumerate(nodes) if node.op == "call_module"]
    if len(calls) < 2:
        raise _OneBlock("its forward pass calls fewer than two children")
    bounds = [0, *(place for place in calls[1:] if len(_crossing(nodes, place)) == 1), len(nodes)]
    (result,) = [node for node in graph.nodes if node.op == "output"]
    blocks: OrderedDict[str, nn.Module] = OrderedDict()
    for start, end in pairwise(bounds):
        called = next(str(node.target) for node in nodes[start:end] if node.op == "call_module").replace(".", "_")
        again = [name for name in blocks if name.partition("__")[0] == called]
        name = f"{called}__{len(again) + 1}" if again else called
        entering = next(iter(_crossing(nodes, start))) if start else nodes[0]
        leaving = next(iter(_crossing(nodes, end))) if end < len(nodes) else result.args[0]
        blocks[name] = _module(model, nodes[start:end], entering, leaving)
    if len(blocks) < 2:
        raise _OneBlock("its forward pass is no chain of two or more children")
    if shared := _shared(blocks.values()):
        raise _OneBlock(f"{shared} is used in two places")
    return blocks


def _traced(model: nn.Module) -> fx.Graph:
    """The operations of a forward pass; _OneBlock if they may differ between calls."""
    training, graphs = model.training, []
    before = random.getstate(), torch.get_rng_state()
    try:
        for mode in (True, False):  # tracing would fix an operation that depends on it
            graphs.append(_Tracer().trace(model.train(mode)))
    except Exception as error:  # the forward pass may use anything that cannot be traced
        raise _OneBlock(f"torch.fx cannot trace its forward pass ({' '.join(str(error).split())[:200]})") from None
    finally:
        model.train(training)
    if (before[0], before[1].tolist()) != (random.getstate(), torch.get_rng_state().tolist()):
        random.setstate(before[0])
        torch.set_rng_state(before[1])
        raise _OneBlock("its forward pass draws random numbers itself")
    if str(graphs[0]) != str(graphs[1]):
        raise _OneBlock("its forward pass differs between training and evaluation")
    if constants := [node.target for node in graphs[0].nodes if "_tensor_constant" in str(node.target)]:
        raise _OneBlock(f"its forward pass creates a tensor ({constants[0]})")
    return graphs[0]


def _crossing(nodes: list[fx.Node], end: int) -> dict[fx.Node, None]:
    """The values computed before node `end` that it or a later one uses."""
    after = {*nodes[end:]}
    return {node: None for node in nodes[:end] if any(user in after or user.op == "output" for user in node.users)}


def _module(model: nn.Module, nodes: list[fx.Node], entering: fx.Node, leaving: fx.Node) -> fx.GraphModule:
    graph = fx.Graph()
    copied = {entering: graph.placeholder("x")}

    def value(node: fx.Node) -> fx.Node:
        if node not in copied and node.op == "get_attr":
            copied[node] = graph.node_copy(node)
        return copied[node]

    for node in nodes:
        if node is not entering and node.op != "placeholder":
            copied[node] = graph.node_copy(node, value)
    graph.output(copied[leaving])
    return fx.GraphModule(model, graph, type(model).__name__)


def _each_once(model: nn.Sequential) -> bool:
    """Whether its forward pass calls each child once, and children share no parameters. torch lists a repeated child
    once."""
    return len([*model.children()]) == len(model) and not _shared(model.children())


def _shared(blocks: Iterable[nn.Module]) -> str:
    """The name of a parameter or buffer that two of the blocks share; empty if there is none."""
    names: dict[int, str] = {}
    counted: Counter[int] = Counter()
    for block in blocks:
        block_names = {id(tensor): name for name, tensor in [*block.named_parameters(), *block.named_buffers()]}
        names |= block_names
        counted.update(block_names.keys())
    return next((names[tensor] for tensor, count in counted.items() if count > 1), "")


ANYTHING = "anything"  # TAKES of a user's model, whose forward may take any inputs


def adapt_module(name: str, factory: Any) -> Any:
    """The model's module. name: FILE:NAME or MODULE:NAME; factory: the object there, a module itself returned as it is.

    InputError if it cannot make a module."""
    if inspect.ismodule(factory):
        if not hasattr(factory, "build"):
            raise InputError(
                f"model {name}: has no function `build`; name a class or function of it, as {name.rstrip(':')}:Net"
            )
        return factory
    try:
        file = inspect.getsourcefile(factory)
    except TypeError:  # a built-in, or an object
        if callable(factory) and not inspect.isbuiltin(factory):
            require_pytorch()  # it may be a placeholder
        kind = type(factory).__name__
        raise InputError(
            f"model {name}: must be a class or function, written in Python, that makes an nn.Module; is of type {kind}"
        ) from None
    try:
        parameters = inspect.signature(factory).parameters
    except ValueError as error:
        raise InputError(f"model {name}: {error}") from None
    options = own_code.plugin_parameters(factory, own_code.FROM_DATA)

    def build(input_shape: tuple[int, ...], classes: int, **values: Any) -> Any:
        if missing := [
            key for key, parameter in options.items() if parameter.default is parameter.empty and key not in values
        ]:
            raise InputError(f"model {name}: its argument {missing[0]} has no default; set model.{missing[0]}=VALUE")
        data = {"input_shape": input_shape, "classes": classes, "num_classes": classes}
        return factory(**{key: value for key, value in data.items() if key in parameters}, **values)

    defaults = {key: None if option.default is option.empty else option.default for key, option in options.items()}
    keywords = [option.replace(kind=option.KEYWORD_ONLY, default=defaults[key]) for key, option in options.items()]
    build.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    build.__annotations__ = own_code.plugin_annotations(factory)
    return SimpleNamespace(build=build, TAKES=ANYTHING, __file__=file)
