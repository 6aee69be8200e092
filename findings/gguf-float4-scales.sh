#!/usr/bin/env bash
# Guess: scales of blocks of floats of 4 bits are what their formats say: of MXFP4 a byte 255 is NaN, of
#   NVFP4 a byte 0x7f is NaN and bit 7 a sign; and a block that holds a NaN says so when it is read.
# Truth: MXFP4's 255 is 2^128, and a block made of a NaN or an infinity is 32 zeros; NVFP4's 0x7f is 0,
#   and bit 7 is ignored.
# Matters: to who checks a model for NaN by its weights, or writes such blocks himself: a layer that
#   overflowed while it was converted is silently one of zeros.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check "gguf==0.19.0" "numpy==2.2.6"
"$folder/venv/bin/python" - <<'PYTHON'
import sys

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize

mx = np.zeros((1, 17), np.uint8)
mx[0, :2] = 255, 0x01  # the first code is 1, which is a half
largest = dequantize(mx, Type.MXFP4)[0, 0]

nv = np.zeros((3, 36), np.uint8)
nv[:, 0], nv[:, 4] = (0x7F, 0x38, 0xB8), 0x02  # 0x38 is 1, 0xb8 would be -1
scales = dequantize(nv, Type.NVFP4)[:, 0]

lost = np.ones((2, 32), np.float32)
lost[0, 3], lost[1, 3] = np.nan, np.inf
with np.errstate(all="ignore"):
    kept = dequantize(quantize(lost, Type.MXFP4), Type.MXFP4)

print("MXFP4, scale byte 255:", largest)
print("NVFP4, scale bytes 0x7f, 0x38, 0xb8:", scales.tolist())
print("MXFP4 of ones with a NaN, with an infinity:", kept[:, :5].tolist())
as_described = (
    largest == 2.0**127 and scales.tolist() == [0.0, 1.0, 1.0] and not kept.any()
)
print("as described above" if as_described else "the behaviour has changed")
sys.exit(not as_described)
PYTHON
