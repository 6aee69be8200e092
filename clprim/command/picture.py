"""Pictures without any package: as PNG files, and in terminals that can show them."""

from __future__ import annotations

import base64
import os
import struct
import sys
import zlib
from typing import Any

import numpy as np

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
# Characters of a picture's width, where it is drawn by characters; bytes of a part for kitty.
_COLUMNS, _PART = 96, 4096


def png(pixels: Pixels) -> bytes:
    """Returns a PNG file."""
    height, width, _ = pixels.shape
    # A zero before every row: stored as it is, without a filter.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes())),
        (b"IEND", b""),
    ]
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def terminal_picture(pixels: Pixels) -> str:
    """Returns what shows a picture in this terminal; nothing where it cannot.

    Kitty's and iTerm2's protocols show the pixels; terminals of 24-bit colours get two of them a
    character.
    """
    if not sys.stdout.isatty():
        return ""
    if "KITTY_WINDOW_ID" in os.environ or os.environ.get("TERM") == "xterm-kitty":
        return _kitty(png(pixels))
    if os.environ.get("TERM_PROGRAM") in ("iTerm.app", "WezTerm"):
        data = base64.b64encode(png(pixels)).decode()
        return f"\033]1337;File=inline=1;width={_COLUMNS}:{data}\a\n"
    if os.environ.get("COLORTERM") in ("truecolor", "24bit"):
        return _blocks(pixels)
    return ""


def _kitty(file: bytes) -> str:
    data = base64.b64encode(file).decode()
    parts = [data[at : at + _PART] for at in range(0, len(data), _PART)]
    last = len(parts) - 1
    return (
        "".join(
            f"\033_G{f'a=T,f=100,c={_COLUMNS},' if n == 0 else ''}m={int(n < last)};{part}\033\\"
            for n, part in enumerate(parts)
        )
        + "\n"
    )


def _blocks(pixels: Pixels) -> str:
    """Two pixels a character: the upper half in its colour, on the lower half's."""
    step = max(1, -(-pixels.shape[1] // _COLUMNS))
    height, width = (size // step for size in pixels.shape[:2])
    whole = pixels[: height * step, : width * step].reshape(height, step, width, step, 3)
    small = whole.mean((1, 3)).astype(np.uint8)
    lines = []
    for upper, lower in zip(small[::2], small[1::2], strict=False):
        cells = (
            f"\033[38;2;{r};{g};{b};48;2;{s};{h};{c}m▀"
            for (r, g, b), (s, h, c) in zip(upper.tolist(), lower.tolist(), strict=True)
        )
        lines.append("".join(cells) + "\033[0m")
    return "\n".join(lines) + "\n"
