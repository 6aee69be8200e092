"""Models of one node, and what ONNX Runtime says of them."""

import numpy as np
from onnx import helper, numpy_helper

_DICE = np.random.default_rng(11)


def f(*shape):
    """Floats."""
    return _DICE.standard_normal(shape).astype(np.float32)


def i(*shape, dtype=np.uint8, low=0, high=255):
    """Integers."""
    return _DICE.integers(low, high, shape).astype(dtype)


def model_of(name, inputs, told, kinds=(1,), domain="", version=17, constant=False):
    """A model of one node, and its inputs by name, or these as constants.

    Args:
        name: Of the operator.
        inputs: Arrays; None where one is left out.
        told: Attributes.
        kinds: ONNX's number of the dtype of each output.
        domain: Of the operator.
        version: Of ONNX's own set.
        constant: Whether inputs are constants.
    """
    names = [f"x{n}" if v is not None else "" for n, v in enumerate(inputs)]
    arrays = {n: np.asarray(v) for n, v in zip(names, inputs, strict=True) if n}
    outputs = [f"y{n}" for n in range(len(kinds))]
    node = helper.make_node(name, names, outputs, domain=domain, **told)
    given = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in ({} if constant else arrays).items()
    ]
    made = [helper.make_tensor_value_info(n, k, None) for n, k in zip(outputs, kinds, strict=True)]
    known = [numpy_helper.from_array(v, n) for n, v in arrays.items()] if constant else []
    sets = [helper.make_opsetid("", version)]
    sets += [helper.make_opsetid(domain, 1)] if domain else []
    graph = helper.make_graph([node], "g", given, made, known)
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    return model, {} if constant else arrays


def of_onnx_runtime(model, given):
    """What ONNX Runtime says, as the model is written."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, given)
