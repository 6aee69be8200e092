"""ONNX's own node cases on clprim's current device: ``python tests/onnx_suite.py [--every 10]``.

Each model is loaded, compiled and compared at the tolerance that ONNX asks for. What may fail has a
reason here; that nothing else does, and that all of it still does, is the exit status.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

#: By part of a name: why the expected values are not met.
REASONS = {
    "bernoulli": "the expected draws are NumPy's",
    "training_dropout": "the expected draws are NumPy's",
    "dft_axis": "a sum of rounded numbers, 1e-7 of them, stands where 0 is expected",
    "dft_inverse": "the expected zeros hold rounding errors above the tolerance",
}
#: Names of cases in 16 bits, of which the expected values are rounded after every step: they agree
#: to a few units in the last place of bfloat16 and float16.
ROUNDED = {"bf16": 2.0**-6, "fp16": 2.0**-9}
_MET = ("training_dropout_zero_ratio",)


def cases(every: int = 1, part: tuple[int, int] = (0, 1)) -> list[Any]:
    """Returns ONNX's cases, or a part of them, in which neighbours share kernels."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="node")
    return [case for n, case in enumerate(found[::every]) if n // 8 % part[1] == part[0]]


def reason(name: str) -> str:
    """Returns why a case may fail, or nothing."""
    if any(part in name for part in _MET):
        return ""
    return next((why for part, why in REASONS.items() if part in name), "")


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [_value(each) for each in value]
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def compare(wanted: Any, found: Any, rtol: float, atol: float) -> None:
    """Raises AssertionError where values differ."""
    if wanted is None or isinstance(wanted, list):
        assert (wanted is None) == (found is None), "an optional"
        assert len(wanted or []) == len(found or []), "lengths"
        for a, b in zip(wanted or [], found or [], strict=True):
            compare(a, b, rtol, atol)
        return
    wanted, found = np.asarray(wanted), np.asarray(found)
    if wanted.dtype.kind in "OUS":
        assert wanted.tolist() == found.tolist(), f"{found.tolist()} for {wanted.tolist()}"
        return
    assert (wanted.dtype, wanted.shape) == (found.dtype, found.shape), f"{found.dtype}{found.shape}"
    a, b = wanted.astype(np.float64), found.astype(np.float64)
    np.testing.assert_allclose(b, a, rtol=rtol, atol=atol)


def failure(case: Any) -> str:
    """Runs a case; returns what is wrong, or nothing."""
    import clprim.onnx

    rtol, atol = case.rtol, case.atol
    for part, units in ROUNDED.items():
        if part in case.name and "attention" in case.name:
            rtol, atol = max(rtol, units), max(atol, units)
    try:
        net = clprim.onnx.load(case.model)
        for inputs, outputs in case.data_sets:
            found = net.run([_value(v) for v in inputs])
            compare([_value(v) for v in outputs], found, rtol, atol)
    except (AssertionError, clprim.ClprimError) as error:
        return " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return ""


def run(chosen: Iterable[Any]) -> tuple[int, list[str], list[str]]:
    """Runs cases; returns how many pass, what fails for no reason, and what for one."""
    passed, wrong, explained = 0, [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in chosen:
            problem, why = failure(case), reason(case.name)
            if not problem:
                passed += 1
            elif why:
                explained.append(f"{case.name}: {why}")
            else:
                wrong.append(f"{case.name}: {problem}")
    return passed, wrong, explained


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the suite and prints what fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="every how many-th case")
    parser.add_argument("--part", default="0/1", help="as in 0/2: of that many parts the first")
    parser.add_argument("--optimised", action="store_true", help="kernels as users have them")
    args = parser.parse_args(argv)
    if not args.optimised:
        os.environ.setdefault("CLPRIM_BUILD_OPTIONS", "-cl-opt-disable")
    k, n = (int(word) for word in args.part.split("/"))
    start, chosen = time.time(), cases(args.every, (k, n))
    passed, wrong, explained = run(chosen)
    for line in (*explained, *wrong):
        print(line)
    took = time.time() - start
    print(f"{passed} of {len(chosen)} pass, {len(explained)} fail for a reason, {took:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
