"""Which notes are played? A network listens to two seconds of sound.

It is that of the package `basic-pitch` (Spotify, Apache 2.0):

    pip install clprim[onnx]
    pip install --no-deps basic-pitch
    python examples/notes.py

The sound is a melody over a chord, out of a few sines; the table is the piano roll that the network
makes of it.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np

import clprim as cp
import clprim.onnx

PACKAGE, MODEL = "basic_pitch", "saved_models/icassp_2022/nmp.onnx"
RATE, SAMPLES, FRAMES = 22050, 43844, 172
LOWEST = 21  # MIDI's number of a piano's first key
NAMES = "C C# D D# E F F# G G# A A# B".split()
#: MIDI numbers, begin and end in seconds.
TUNE = ((48, 0.0, 1.9), (52, 0.0, 1.9), (67, 0.1, 0.6), (69, 0.7, 1.2), (72, 1.3, 1.9))


def model() -> Path | None:
    """Return the package's model, or None where it is not installed."""
    package = importlib.util.find_spec(PACKAGE)
    if package is None or not package.submodule_search_locations:
        return None
    found = Path(package.submodule_search_locations[0]) / MODEL
    return found if found.is_file() else None


def sound(tune: tuple = TUNE) -> np.ndarray:
    """Return the sound of notes: (1, SAMPLES, 1)."""
    t = np.arange(SAMPLES) / RATE
    found = np.zeros(SAMPLES)
    for note, begin, end in tune:
        hertz = 440 * 2 ** ((note - 69) / 12)
        loud = np.clip((t - begin) * 40, 0, 1) * np.clip((end - t) * 40, 0, 1) * np.exp(begin - t)
        found += loud * sum(np.sin(2 * np.pi * k * hertz * t) / k**2 for k in range(1, 6))
    return (0.5 * found / np.abs(found).max()).astype(np.float32).reshape(1, -1, 1)


def heard(waves: np.ndarray, least: float = 0.5) -> list[tuple[int, float, float]]:
    """Return the notes that the network hears, as `TUNE` has them."""
    net = clprim.onnx.load(model())
    outputs = net(waves)
    # Three maps of time and pitch; of those by semitone, notes are on longer than they begin.
    rolls = [roll[0] for roll in outputs.values() if roll.shape[-1] == 88]
    roll = max(rolls, key=lambda r: (r > least).sum()) > least
    found, seconds = [], SAMPLES / RATE / FRAMES
    for key in np.flatnonzero(roll.any(0)):
        edges = np.flatnonzero(np.diff(np.pad(roll[:, key].astype(int), 1)))
        pairs = edges.reshape(-1, 2)
        found += [(int(key) + LOWEST, b * seconds, e * seconds) for b, e in pairs if e - b > 8]
    return sorted(found, key=lambda note: (round(note[1], 1), note[0]))


def main() -> None:
    """Print the notes, a line each."""
    print(f"on {cp.current_device()}")
    if model() is None:
        print("This example needs a network: pip install --no-deps basic-pitch")
        sys.exit(0)
    for note, begin, end in heard(sound()):
        bar = " " * round(begin * 24) + "█" * max(round((end - begin) * 24), 1)
        print(f"{NAMES[note % 12]:>2}{note // 12 - 1} {begin:5.2f}–{end:4.2f} s |{bar:48}|")


if __name__ == "__main__":
    main()
