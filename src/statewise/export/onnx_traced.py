"""ONNX graphs of networks that are not trackers: torch's exporter writes the step, and the loop is ours.

Torch's exporter (package onnxscript) translates a program of torch.export. A step has no loop over time, so that every
network with a state of fixed shapes gets its whole sequence from one Scan around it.
"""

from collections.abc import Mapping
from typing import Any

import torch
from onnx import ModelProto, helper
from torch.export import ExportedProgram

from statewise.errors import NetworkError, shorten
from statewise.export.onnx_graph import IR_VERSION, OPSET, StepGraph, written_facts
from statewise.export.programs import forward_program, quiet, step_program
from statewise.export.steps import Step
from statewise.models.interface import SequenceModel


def traced_graph(step: Step, name: str) -> StepGraph:
    """Return the step of a network as nodes, translated by torch's exporter."""
    model = translate(step_program(step, name), ["token", *step.names], ["logits", *_after(step)], name)
    weights = {weight.name: weight for weight in model.graph.initializer}
    return StepGraph("token", step.names, list(model.graph.node), weights, "logits", _after(step))


def _after(step: Step) -> tuple[str, ...]:
    return tuple(f"{name}_next" for name in step.names)


def translate(program: ExportedProgram, inputs: list[str], outputs: list[str], name: str) -> ModelProto:
    """Translate a program of torch.export; what the exporter has no word for becomes one sentence."""
    try:
        with quiet():
            made: Any = torch.onnx.export(
                program, input_names=inputs, output_names=outputs, opset_version=OPSET, dynamo=True, verbose=False
            )
            model: ModelProto = made.model_proto
    except ImportError:
        raise
    except Exception as error:
        lines = [line for line in str(error).splitlines() if "No ONNX function" in line]
        what = shorten((lines or [type(error).__name__])[0].rpartition(">: ")[2], 120)
        raise NetworkError(
            f"torch's ONNX exporter does not take {name}: {what}; export it --to torch or --to safetensors"
        ) from None
    if model.functions or any(entry.domain not in ("", "ai.onnx") for entry in model.opset_import):
        raise NetworkError(
            f"the ONNX graph of {name} has functions of its own; export it --to torch or --to safetensors"
        )
    model.ir_version = IR_VERSION
    return model


def traced_sequence(model: SequenceModel, name: str, facts: Mapping[str, Any]) -> ModelProto:
    """Return the forward of a model without a state as ONNX: tokens [batch, time] to logits [batch, time, classes]."""
    made = translate(forward_program(model, name, model.longest), ["tokens"], ["all_logits"], name)
    helper.set_model_props(made, written_facts(facts))
    return made
