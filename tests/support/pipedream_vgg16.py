"""Facts: the profile of VGG16 published with PipeDream's code, and what its authors' partitioner answers on it.

Source: github.com/msr-fiddle/pipedream (MIT), branch pipedream, commit 7db6a1c3e64996d5b319faec6ca38cb31bfea1c4: the
profile of VGG16 at a minibatch of 128, and the outputs of optimizer/optimizer_graph_hierarchical.py on it (`max`: with
`sum` of computation and synchronisation replaced by `max`), as found in shared/oracles/pipedream.
"""

from typing import NamedTuple

# node, what it is, forward and backward milliseconds, bytes of its outputs and of its parameters
NODES = [
    (1, "Input", 17.972, 0, 77070336, 0),
    (2, "Conv2d(3, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 22.307, 24.613, 1644167168, 7168),
    (3, "ReLU(inplace)", 4.446, 5.553, 1644167168, 0),
    (4, "Conv2d(64, 64, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 46.201, 113.33, 1644167168, 147712),
    (5, "ReLU(inplace)", 4.455, 5.311, 1644167168, 0),
    (6, "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)", 3.795, 5.579, 411041792, 0),
    (7, "Conv2d(64, 128, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 15.155, 39.648, 822083584, 295424),
    (8, "ReLU(inplace)", 2.359, 2.738, 822083584, 0),
    (9, "Conv2d(128, 128, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 22.062, 53.379, 822083584, 590336),
    (10, "ReLU(inplace)", 2.513, 2.62, 822083584, 0),
    (11, "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)", 2.211, 2.788, 205520896, 0),
    (12, "Conv2d(128, 256, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 10.814, 18.335, 411041792, 1180672),
    (13, "ReLU(inplace)", 1.377, 1.38, 411041792, 0),
    (14, "Conv2d(256, 256, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 17.458, 27.023, 411041792, 2360320),
    (15, "ReLU(inplace)", 1.64, 1.463, 411041792, 0),
    (16, "Conv2d(256, 256, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 14.245, 33.888, 411041792, 2360320),
    (17, "ReLU(inplace)", 1.549, 1.321, 411041792, 0),
    (18, "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)", 1.169, 1.513, 102760448, 0),
    (19, "Conv2d(256, 512, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 9.249, 14.574, 205520896, 4720640),
    (20, "ReLU(inplace)", 1.026, 0.696, 205520896, 0),
    (21, "Conv2d(512, 512, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 15.359, 21.9, 205520896, 9439232),
    (22, "ReLU(inplace)", 0.848, 0.679, 205520896, 0),
    (23, "Conv2d(512, 512, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 11.775, 28.67, 205520896, 9439232),
    (24, "ReLU(inplace)", 0.881, 0.642, 205520896, 0),
    (25, "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)", 0.802, 0.781, 51380224, 0),
    (26, "Conv2d(512, 512, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 5.608, 7.381, 51380224, 9439232),
    (27, "ReLU(inplace)", 0.784, 0.266, 51380224, 0),
    (28, "Conv2d(512, 512, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 4.07, 7.396, 51380224, 9439232),
    (29, "ReLU(inplace)", 0.463, 0.19, 51380224, 0),
    (30, "Conv2d(512, 512, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))", 4.042, 8.648, 51380224, 9439232),
    (31, "ReLU(inplace)", 0.455, 0.175, 51380224, 0),
    (32, "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)", 0.553, 0.234, 12845056, 0),
    (33, "Size(0)", 0, 0, 4, 0),
    (34, "View(-1)", 0, 0, 12845056, 0),
    (35, "Linear(in_features=25088, out_features=4096, bias=True)", 2.475, 4.575, 2097152, 411058176),
    (36, "ReLU(inplace)", 0.377, 0.03, 2097152, 0),
    (37, "Dropout(p=0.5)", 0, 0, 2097152, 0),
    (38, "Linear(in_features=4096, out_features=4096, bias=True)", 0.709, 0.734, 2097152, 67125248),
    (39, "ReLU(inplace)", 0.277, 0.032, 2097152, 0),
    (40, "Dropout(p=0.5)", 0, 0, 2097152, 0),
    (41, "Linear(in_features=4096, out_features=1000, bias=True)", 0.393, 0.548, 512000, 16388000),
]
# each node goes to the next one, and this is besides: the size of a tensor is a node of its own
BRANCH = (32, 34)


class Answer(NamedTuple):
    """seconds; stages: (first layer, last, replicas), compared only where `optima`, where it is known, is 1."""

    machines: int
    bandwidth: float
    activations: bool
    straight: bool
    cost_model: str
    pipeline_s: float
    data_parallel_s: float
    single_s: float
    stages: list[tuple[int, int, int]]
    optima: int | None


ANSWERS = [
    Answer(
        4,
        3.125e09,
        True,
        False,
        "released-sum",
        0.17338726634666668,
        0.30095699224000005,
        0.6725350000000001,
        [(0, 16, 3), (17, 39, 1)],
        1,
    ),
    Answer(
        4,
        3.125e09,
        False,
        False,
        "released-sum",
        0.17153659967999998,
        0.30095699224000005,
        0.6725350000000001,
        [(0, 14, 3), (15, 39, 1)],
        1,
    ),
    Answer(
        4,
        1.25e09,
        True,
        False,
        "released-sum",
        0.17634916586666669,
        0.5001918556,
        0.672535,
        [(0, 16, 3), (17, 39, 1)],
        1,
    ),
    Answer(
        4,
        1.25e09,
        False,
        False,
        "released-sum",
        0.17449849920000005,
        0.5001918556,
        0.6725350000000001,
        [(0, 14, 3), (15, 39, 1)],
        1,
    ),
    Answer(
        8,
        3.125e09,
        True,
        False,
        "released-sum",
        0.09366112877714286,
        0.16154709964,
        0.672535,
        [(0, 23, 7), (24, 39, 1)],
        1,
    ),
    Answer(
        8,
        3.125e09,
        False,
        False,
        "released-sum",
        0.09175018302222222,
        0.16154709964000002,
        0.6725350000000001,
        [(0, 17, 6), (18, 21, 1), (22, 39, 1)],
        3,
    ),
    Answer(
        8,
        1.25e09,
        True,
        False,
        "released-sum",
        0.10084139337142857,
        0.2777674366,
        0.672535,
        [(0, 23, 7), (24, 39, 1)],
        1,
    ),
    Answer(
        8,
        1.25e09,
        False,
        False,
        "released-sum",
        0.09335713400000001,
        0.2777674366,
        0.6725349999999999,
        [(0, 7, 4), (8, 18, 2), (19, 21, 1), (22, 39, 1)],
        18,
    ),
    Answer(
        4,
        3.125e09,
        True,
        True,
        "released-sum",
        0.26306674688,
        0.30095699224000005,
        0.6725350000000001,
        [(0, 4, 1), (5, 9, 1), (10, 20, 1), (21, 39, 1)],
        122,
    ),
    Answer(
        8,
        3.125e09,
        True,
        True,
        "released-sum",
        0.26306674688,
        0.16154709964000002,
        0.6725350000000001,
        [(0, 4, 1), (5, 10, 1), (11, 11, 1), (12, 13, 1), (14, 15, 1), (16, 17, 1), (18, 19, 1), (20, 39, 1)],
        415388,
    ),
    Answer(4, 1e09, True, False, "released-sum", 0.205520896, 0.583206382, 0.672535, [(0, 16, 3), (17, 39, 1)], 1),
    Answer(
        8,
        1e10,
        True,
        False,
        "released-sum",
        0.08992645988571427,
        0.10827944520000002,
        0.6725350000000001,
        [(0, 21, 7), (22, 39, 1)],
        1,
    ),
    Answer(
        8, 1e09, True, False, "released-sum", 0.1038331702857143, 0.326192577, 0.672535, [(0, 23, 7), (24, 39, 1)], 1
    ),
    Answer(
        4,
        3.125e09,
        True,
        False,
        "released-max",
        0.16813374999999997,
        0.16813374999999997,
        0.6725349999999999,
        [(0, 39, 4)],
        None,
    ),
    Answer(
        4,
        1.25e09,
        True,
        False,
        "released-max",
        0.17141266666666666,
        0.3320581056,
        0.672535,
        [(0, 16, 3), (17, 39, 1)],
        None,
    ),
    Answer(8, 3.125e09, True, False, "released-max", 0.084066875, 0.084066875, 0.672535, [(0, 39, 8)], None),
    Answer(
        8,
        1.25e09,
        True,
        False,
        "released-max",
        0.08887428571428573,
        0.1937005616,
        0.672535,
        [(0, 23, 7), (24, 39, 1)],
        None,
    ),
]


def text() -> str:
    """The profile as it is in the authors' files: nodes in no order, then the edges."""
    lines = [
        f"node{node} -- {what} -- forward_compute_time={forward:.3f}, backward_compute_time={backward:.3f}, "
        f"activation_size={activation:.3f}, parameter_size={parameters:.3f}"
        for node, what, forward, backward, activation, parameters in reversed(NODES)
    ]
    edges = [(node, node + 1) for node, *_ in NODES[:-1]] + [BRANCH]
    return "\n".join([*lines, *(f"\tnode{first} -- node{second}" for first, second in edges)]) + "\n"
