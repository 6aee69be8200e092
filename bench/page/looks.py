"""One colour and one mark for each contender, in every chart."""

from __future__ import annotations

#: Bars of clprim, and the lighter ones of its time on the device.
OWN, OWN_DEVICE = "#4c78a8", "#b9cde3"

# Told apart by shape as well as by colours that the colour-blind tell apart (Okabe and Ito).
_LOOKS = {
    "oneDNN": ("#d55e00", "D"),
    "oneDNN prepacked": ("#e69f00", "o"),
    "PyTorch": ("#6a3d9a", "p"),
    "MKL": ("#882255", "h"),
    "onnxruntime": ("#cc79a7", "^"),
    "inductor": ("#b15928", "d"),
    "openvino": ("#332288", "<"),
    "ncnn": ("#0072b2", "8"),
    "tinygrad": ("#f0e442", "P"),
    "CLBlast": ("#56b4e9", "v"),
    "cuDNN": ("#76b900", "*"),
    "NumPy": ("#000000", "X"),
    "PyOpenCL": ("#666666", "<"),
    "cl.array": ("#8c6d31", ">"),
    "clprim, unpacked": ("#009e73", "s"),
    "clprim, separate": ("#117733", "d"),
    "clprim, call by call": ("#009e73", "d"),
    "clprim, compiled": ("#117733", "H"),
    "clprim, grouped products": ("#44aa99", "H"),
    "clprim, on the device": (OWN_DEVICE, "s"),
    "clprim": (OWN, "s"),
    "bare enqueue": ("#999999", "|"),
    "kernel(queue, …)": ("#bbbbbb", "_"),
}


def look_of(name: str) -> tuple[str, str]:
    """Return colour and mark of a contender.

    Args:
        name: Its own, or with what it runs behind a comma, as in ``PyTorch, NHWC``.
    """
    for known in (name, name.partition(",")[0]):
        if known in _LOOKS:
            return _LOOKS[known]
    return _LOOKS["clprim"]
