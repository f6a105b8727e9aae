"""ONNX graphs, written node by node: the step of a tracker, and the loop of any step over a sequence.

The single step is a graph from a token and a state to logits and the next state; the state before the first token is
in its metadata. The whole sequence is a Scan whose body is that graph, so that batch and length are free. Torch's own
exporter would unroll the recurrence for one length.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from torch import Tensor

from statewise.export.steps import Step, TrackerStep
from statewise.recurrence import token_table
from statewise.transitions import CP, Additive, LinearTransition

# old enough for every runtime of the last years; Scan and ReduceMax with axes as an input are in it
OPSET, IR_VERSION = 18, 9
# the logarithm of the size of a vector that is 0
_NOTHING = -1e30
_TYPES = {torch.float32: TensorProto.FLOAT, torch.float64: TensorProto.DOUBLE, torch.int64: TensorProto.INT64}
_TYPES |= {torch.bool: TensorProto.BOOL, torch.int32: TensorProto.INT32}


@dataclass
class StepGraph:
    """The nodes of a step, and the weights that they read.

    Args:
        nodes: in an order in which they can be computed.
        weights: constants by name.
        token: the name of the token, [batch].
        state: names of the tensors of the state that enters.
        logits: the name of the logits, [batch, classes].
        after: names of the tensors of the state that leaves.
        prefix: of the names that are made here.
    """

    token: str
    state: tuple[str, ...]
    nodes: list[NodeProto] = field(default_factory=list)
    weights: dict[str, TensorProto] = field(default_factory=dict)
    logits: str = "logits"
    after: tuple[str, ...] = ()
    prefix: str = ""

    def constant(self, name: str, value: Tensor | np.ndarray | Sequence[int]) -> str:
        """Keep a constant, and return its name."""
        name = self.prefix + name
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        self.weights[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def add(self, operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Append a node with one output, and return the output's name."""
        output = name or f"{self.prefix}{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output


def tracker_graph(step: TrackerStep) -> StepGraph:
    """Write the step of a tracker as nodes."""
    graph = StepGraph("token", step.names, after=tuple(f"{name}_next" for name in step.names))
    transition, readout = step.model.transition, step.model.readout.detach()
    with torch.no_grad():
        table = token_table(transition, step.model.embeddings)
    read = graph.constant("readout", readout.T)
    like = readout.dtype
    if isinstance(transition, Additive):
        coefficients, offset = table
        moved = _act(graph, transition.linear, coefficients)
        if step.scaled:
            unit = _add_scaled(graph, moved, offset, like)
        else:
            unit = graph.add(
                "Add", moved, graph.add("Gather", graph.constant("offset", offset), "token"), name="hidden_next"
            )
    else:
        assert isinstance(transition, LinearTransition)
        moved = _act(graph, transition, table, "" if step.scaled else "hidden_next")
        unit = _unit(graph, _rescale(graph, moved, like), like) if step.scaled else moved
    graph.add("MatMul", unit, read, name="logits")
    return graph


def _act(graph: StepGraph, transition: LinearTransition, table: Tensor, name: str = "") -> str:
    """Apply A of the token to the hidden state: three factors, numbers on the diagonal, or blocks."""
    size = transition.hidden_size
    with torch.no_grad():
        if isinstance(transition, CP):
            gate = graph.add("Gather", graph.constant("gate", table), "token")
            projected = graph.add("MatMul", "hidden", graph.constant("right", transition.right))
            gated = graph.add("Mul", gate, projected)
            return graph.add("MatMul", gated, graph.constant("left", transition.left.T), name=name)
        blocks = transition.blocks(table)
    count, block = blocks.shape[1:3]
    if block == 1:
        diagonal = graph.add("Gather", graph.constant("diagonal", blocks.flatten(1)), "token")
        return graph.add("Mul", diagonal, "hidden", name=name)
    matrices = graph.add("Gather", graph.constant("matrices", blocks), "token")
    parts = graph.add("Reshape", "hidden", graph.constant("in_blocks", [0, count, block, 1]))
    moved = graph.add("MatMul", matrices, parts)
    return graph.add("Reshape", moved, graph.constant("in_line", [0, size]), name=name)


def _rescale(graph: StepGraph, h: str, like: torch.dtype) -> str:
    """Multiply by a power of two, so that the largest entry is near 1 and none is rounded."""
    largest = _guard(graph, graph.add("ReduceMax", graph.add("Abs", h), _last_axis(graph), keepdims=1), like)
    binary = graph.add("Mul", graph.add("Log", largest), _number(graph, "per_octave", 1 / math.log(2), like))
    most = math.frexp(torch.finfo(like).max)[1] - 2
    bounds = (_number(graph, "least_exponent", -most, like), _number(graph, "most_exponent", most, like))
    exponent = graph.add("Clip", graph.add("Ceil", binary), *bounds)
    scale = graph.add("Pow", _number(graph, "two", 2, like), graph.add("Neg", exponent))
    return graph.add("Mul", h, scale, name="hidden_next")


def _unit(graph: StepGraph, h: str, like: torch.dtype) -> str:
    """Divide by the norm; a state that is 0 stays."""
    return graph.add("Div", h, _guard(graph, _norm(graph, h), like))


def _add_scaled(graph: StepGraph, moved: str, offset: Tensor, like: torch.dtype) -> str:
    """Add e^s A h and b at a common scale, as `Additive.act_scaled` does, and make the norm 1."""
    double = torch.float64
    size = graph.add("ReduceMax", graph.add("Abs", moved), _last_axis(graph), keepdims=1)
    sizes = graph.add("Cast", size, to=TensorProto.DOUBLE)
    log_norm = graph.add("Unsqueeze", "log_norm", _last_axis(graph))
    log_size = graph.add("Log", _guard(graph, sizes, double))
    some = graph.add("Greater", sizes, _number(graph, "zero_double", 0, double))
    nothing = _number(graph, "nothing", _NOTHING, double)
    moved_log = graph.add("Where", some, graph.add("Add", log_size, log_norm), nothing)
    largest = offset.detach().abs().amax(dim=-1, keepdim=True)
    units = offset.detach() / torch.where(largest > 0, largest, 1.0)
    logs = torch.where(largest > 0, largest.double().log(), _NOTHING)
    added = graph.add("Gather", graph.constant("offset", units), "token")
    added_log = graph.add("Gather", graph.constant("offset_log", logs), "token")
    common = graph.add("Max", moved_log, added_log)
    parts = []
    for part, log in ((graph.add("Div", moved, _guard(graph, size, like)), moved_log), (added, added_log)):
        weight = graph.add("Cast", graph.add("Exp", graph.add("Sub", log, common)), to=_TYPES[like])
        parts.append(graph.add("Mul", weight, part))
    whole = graph.add("Add", *parts)
    norm = _guard(graph, _norm(graph, whole), like)
    reached = graph.add("Add", common, graph.add("Log", graph.add("Cast", norm, to=TensorProto.DOUBLE)))
    graph.add("Squeeze", reached, _last_axis(graph), name="log_norm_next")
    return graph.add("Div", whole, norm, name="hidden_next")


def _norm(graph: StepGraph, h: str) -> str:
    return graph.add("ReduceL2", h, _last_axis(graph), keepdims=1)


def _guard(graph: StepGraph, value: str, like: torch.dtype) -> str:
    """Replace 0 by 1."""
    suffix = str(like).removeprefix("torch.float")
    positive = graph.add("Greater", value, _number(graph, f"zero_{suffix}", 0, like))
    return graph.add("Where", positive, value, _number(graph, f"one_{suffix}", 1, like))


def _last_axis(graph: StepGraph) -> str:
    return graph.constant("last_axis", [-1])


def _number(graph: StepGraph, name: str, value: int | float, like: torch.dtype) -> str:
    return graph.constant(name, torch.tensor(value, dtype=like))


def step_model(step: Step, graph: StepGraph, facts: Mapping[str, Any]) -> ModelProto:
    """Return the single step as a model; its metadata has the state before the first token, of one sequence."""
    state = [_value(n, v, a) for n, v, a in zip(graph.state, step.initial(), step.axes, strict=True)]
    token = helper.make_tensor_value_info(graph.token, TensorProto.INT64, ["batch"])
    after = [_value(n, v, a) for n, v, a in zip(graph.after, step.initial(), step.axes, strict=True)]
    outputs, weights = [_logits(step, graph, ["batch"]), *after], list(graph.weights.values())
    made = helper.make_graph(graph.nodes, "step", [token, *state], outputs, weights)
    first = {name: value.tolist() for name, value in zip(graph.state, step.initial(), strict=True)}
    return _model(made, {**facts, "initial": first})


def sequence_model(step: Step, graph: StepGraph, facts: Mapping[str, Any]) -> ModelProto:
    """Return the loop of a step over whole sequences: tokens [batch, time] to logits [batch, time, classes]."""
    # names inside the body are its own
    whole = StepGraph("tokens", (), weights=dict(graph.weights), prefix="loop/")
    batch = whole.add("Slice", whole.add("Shape", "tokens"), whole.constant("from_0", [0]), whole.constant("to_1", [1]))
    begun = []
    for name, value, axis in zip(graph.state, step.initial(), step.axes, strict=True):
        sizes = [
            batch if place == axis else whole.constant(f"size_{size}", [size]) for place, size in enumerate(value.shape)
        ]
        shape = whole.add("Concat", *sizes, axis=0)
        begun.append(whole.add("Expand", whole.constant(f"initial_{name}", value), shape))
    along = whole.add("Transpose", "tokens", perm=[1, 0])
    entering = [_value(n, v, a) for n, v, a in zip(graph.state, step.initial(), step.axes, strict=True)]
    leaving = [_value(n, v, a) for n, v, a in zip(graph.after, step.initial(), step.axes, strict=True)]
    token = helper.make_tensor_value_info(graph.token, TensorProto.INT64, ["batch"])
    body = helper.make_graph(graph.nodes, "body", [*entering, token], [*leaving, _logits(step, graph, ["batch"])])
    last = [f"{name}_last" for name in graph.state]
    scan = helper.make_node("Scan", [*begun, along], [*last, "loop/logits"], body=body, num_scan_inputs=1)
    whole.nodes.append(scan)
    answers = whole.add("Transpose", "loop/logits", name="all_logits", perm=[1, 0, 2])
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "time"])
    logits = _logits(step, graph, ["batch", "time"], answers)
    states = [_value(n, v, a) for n, v, a in zip(last, step.initial(), step.axes, strict=True)]
    made = helper.make_graph(whole.nodes, "sequence", [tokens], [logits, *states], list(whole.weights.values()))
    return _model(made, facts)


def _logits(step: Step, graph: StepGraph, axes: list[Any], name: str = "") -> ValueInfoProto:
    with torch.no_grad():
        logits = step(torch.zeros(1, dtype=torch.int64), *step.initial())[0]
    return helper.make_tensor_value_info(name or graph.logits, _TYPES[logits.dtype], [*axes, logits.shape[-1]])


def _value(name: str, value: Tensor, axis: int) -> ValueInfoProto:
    sizes: list[Any] = ["batch" if place == axis else size for place, size in enumerate(value.shape)]
    return helper.make_tensor_value_info(name, _TYPES[value.dtype], sizes)


def _model(graph: GraphProto, facts: Mapping[str, Any]) -> ModelProto:
    from statewise import __version__

    imports = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(
        graph, producer_name="statewise", producer_version=__version__, opset_imports=imports, ir_version=IR_VERSION
    )
    helper.set_model_props(model, written_facts(facts))
    return model


def written_facts(facts: Mapping[str, Any]) -> dict[str, str]:
    """Write facts as the metadata of a model has them: each as JSON."""
    return {name: json.dumps(value, ensure_ascii=False) for name, value in facts.items()}
