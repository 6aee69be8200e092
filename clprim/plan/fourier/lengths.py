"""Which lengths a transform is made of, and the tables of roots that they take."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from clprim.plan.machine import ITEMS
from clprim.traits import DeviceTraits

# Bound: the largest prime that templates print sums and differences for.
LARGEST = 13
RADICES = [p for p in range(LARGEST, 1, -1) if all(p % d for d in range(2, p))]


@dataclass(frozen=True)
class Recipe:
    """The lengths whose product a transform's length is, and the tables that it takes."""

    n: int
    lengths: tuple[int, ...]
    # The length of the convolution by which it is computed, whether all in one kernel, and whether
    # of numbers in the order of a generator's powers (C. Rader, 1968), or of chirps
    convolved: int = 0
    fused: bool = False
    ordered: bool = False
    halved: bool = False
    # Name, and where it begins
    tables: dict[str, int] = field(default_factory=dict, compare=False)
    size: int = field(default=0, compare=False)
    fine: dict[str, int] = field(default_factory=dict, compare=False)  # See `fine_bits`


def in_pairs(n: int, have: int, kept: int, half: bool) -> bool:
    """Whether real numbers are transformed in pairs: an even number, to one side or from it."""
    if half:
        return n % 2 == 0
    return n % 2 == 0 and (have >= n or have % 2 == 0) and kept == n // 2 + 1


def is_smooth(n: int) -> bool:
    """Whether a length is a product of radices."""
    for prime in RADICES:
        while n % prime == 0:
            n //= prime
    return n == 1


def radices_of(n: int, longest: int) -> tuple[int, ...]:
    """Returns the radices whose product a smooth length is, powers of two in long ones first."""
    twos = (n & -n).bit_length() - 1
    widest = longest.bit_length() - 1
    passes = -(-twos // widest)
    # As even as can be: 8 x 8 is faster than 16 x 4.
    found = [2 ** (twos // passes + (k < twos % passes)) for k in range(passes)]
    n >>= twos
    for prime in RADICES[:-1]:
        while n % prime == 0:
            found.append(prime)
            n //= prime
    return tuple(found)


def split(n: int, most: int) -> tuple[int, ...]:
    """Returns factors of a smooth length, none above ``most``, nearly equal ones."""
    if n <= most:
        return (n,)
    steps = 2
    while most**steps < n:
        steps += 1
    wanted = n ** (1 / steps)
    fitting = [d for d in _divisors(n) if d <= most]
    first = min(fitting, key=lambda d: abs(math.log(d / wanted)))
    return (first, *split(n // first, most))


def _divisors(n: int) -> list[int]:
    found = [1]
    for prime in RADICES:
        power = 1
        bases = list(found)
        while n % prime == 0:
            n //= prime
            power *= prime
            found += [b * power for b in bases]
    return found


def convolution_length(n: int, unit: int = 1) -> int:
    """Returns a cheap length that a cyclic convolution of 2 n - 1 numbers fits in."""
    odd = [c for c in range(1, LARGEST * LARGEST, 2) if is_smooth(c)]
    twos = [max(unit, 1 << (-(-(2 * n - 1) // c) - 1).bit_length()) for c in odd]
    return min((c * power for c, power in zip(odd, twos, strict=True)), key=_effort)


def _effort(n: int) -> float:
    """Sums, products and moves of a smooth transform's numbers."""
    return n * sum(8 + _sums(radix) for radix in radices_of(n, 8))


def _sums(radix: int) -> float:
    half = radix // 2
    return 2.5 * math.log2(radix) if radix % 2 == 0 else (8 * half + 4 * half**2) / radix


def generator(n: int) -> int:
    """Returns a number whose powers are all but 0 modulo a prime, or 0 where there is none.

    ``n - 1`` is to be smooth.
    """
    factors = [prime for prime in RADICES if (n - 1) % prime == 0]
    for g in range(2, n):
        if pow(g, n - 1, n) != 1:
            return 0
        if all(pow(g, (n - 1) // prime, n) != 1 for prime in factors):
            return g
    return 0


def fine_bits(n: int, itemsize: int, traits: DeviceTraits) -> int:
    """Returns the lower bits of a place among n roots of unity, where they have a table.

    The higher bits have another one behind it; 0 is returned where a cache holds one of all roots.
    """
    held = 2 * itemsize * n < traits.cache_bytes
    return 0 if traits.is_cpu or held else (n.bit_length() + 1) // 2


def longest(traits: DeviceTraits, itemsize: int) -> int:
    """Returns the longest line that a kernel transforms in local memory."""
    lanes = traits.lanes(itemsize) if traits.is_cpu else 1
    room = min(traits.local_memory, traits.l2_bytes // 2) if traits.is_cpu else traits.local_memory
    return max(16, room // (4 * itemsize * lanes))


@lru_cache(maxsize=1024)
def recipe(n: int, count: int, itemsize: int, traits: DeviceTraits, halved: bool = False) -> Recipe:
    """Returns how a transform, or a ``halved`` one, is composed on a device."""
    if halved:
        inner = recipe(n // 2, count, itemsize, traits)
        tables = {**inner.tables, "halves": inner.size}
        return replace(inner, halved=True, tables=tables, size=inner.size + n // 2 + 1)
    if not is_smooth(n):
        # A part of a vector of lines beside each other is worth what passes through memory else.
        most = 4 * longest(traits, itemsize)
        ordered = n <= most and is_smooth(n - 1) and generator(n) > 0
        m = n - 1 if ordered else convolution_length(n)
        fused = m <= most
        if fused:
            inner = Recipe(m, (m,), tables={f"roots{m}": 0}, size=m)
        else:
            m = convolution_length(n, traits.lanes(itemsize) ** 2)
            inner = recipe(m, count, itemsize, traits)
        tables, size = dict(inner.tables), inner.size
        # What follows a chirp is read behind its end, and multiplied by 0 or not written.
        for name, more in (("order" if ordered else "chirp", n), ("filter", m)):
            tables[name], size = size, size + more
        known = replace(inner, n=n, convolved=m, fused=fused, ordered=ordered)
        return replace(known, tables=tables, size=size)
    most = longest(traits, itemsize)
    lanes = traits.lanes(itemsize)
    if traits.is_cpu and count < lanes and n >= 256:
        most = min(most, math.isqrt(n) * 4)
    elif not traits.is_cpu and n > most:
        most = max(16, most // ITEMS)  # so many neighbouring columns are read together
    lengths = split(n, most)
    tables, size = {}, 0
    for length in lengths:
        if f"roots{length}" not in tables:
            tables[f"roots{length}"], size = size, size + length
    rest, fine = n, {}
    for length in lengths[:-1]:
        name, bits = f"turns{rest}", fine_bits(rest, itemsize, traits)
        tables[name], size = size, size + (rest >> bits) + ((1 << bits) + 1 if bits else 0)
        fine[name] = bits
        rest //= length
    return Recipe(n, lengths, tables=tables, size=size, fine=fine)


def table_of(made: Recipe, inverse: bool) -> np.ndarray[tuple[int, ...], np.dtype[np.complex128]]:
    """Returns the numbers of all tables of a recipe, computed in float64."""
    found = np.zeros(made.size, np.complex128)
    n, m = made.n, made.convolved
    for name, at in made.tables.items():
        if name.startswith("roots"):
            length = int(name[5:])
            found[at : at + length] = _roots(np.arange(length), length)
        elif name.startswith("turns"):
            rest, bits = int(name[5:]), made.fine[name]
            if bits:
                low, high = np.arange(1 << bits), np.arange((rest >> bits) + 1) << bits
                turns = np.concatenate([low, high])
            else:
                first = made.lengths[_level(made, rest)]
                turns = np.outer(np.arange(first), np.arange(rest // first)).ravel()
            found[at : at + len(turns)] = _roots(turns, rest)
        elif name == "halves":
            # -i exp(-pi i k / n)
            turns = -1j * _roots(np.arange(n + 1), 2 * n)
            found[at : at + n + 1] = np.conj(turns) if inverse else turns
    if made.ordered:
        powers = _powers(generator(n), n)
        found[made.tables["order"] :][:m] = powers
        backwards = np.concatenate([powers[:1], powers[:0:-1]])
        places = np.zeros(n)
        places[backwards] = np.arange(m)
        found[made.tables["order"] :][:n].imag = places
        found[made.tables["filter"] :][:m] = np.fft.fft(_roots(backwards, n)) / m
    elif m:
        # exp(-i pi k² / n), by whole numbers below 2 n
        chirp = _roots(np.arange(n, dtype=object) ** 2 % (2 * n), 2 * n)
        chirp = np.conj(chirp) if inverse else chirp
        spread = np.zeros(m, np.complex128)
        spread[:n] = np.conj(chirp)
        spread[m - n + 1 :] = np.conj(chirp[1:][::-1])
        for name, values in (("chirp", chirp), ("filter", np.fft.fft(spread) / m)):
            found[made.tables[name] : made.tables[name] + len(values)] = values
    return found


def _powers(g: int, n: int) -> Any:
    """The powers of a generator modulo a prime, from 1 on."""
    found = [1]
    while len(found) < n - 1:
        found.append(found[-1] * g % n)
    return np.array(found)


def _level(made: Recipe, rest: int) -> int:
    total = made.convolved or made.n
    for level, length in enumerate(made.lengths):
        if total == rest:
            return level
        total //= length
    raise AssertionError(rest)


def _roots(turns: Any, n: int) -> Any:
    """exp(-2 pi i t / n), exact at quarters."""
    turns = np.asarray(turns % n, np.int64)
    quarter, within = np.divmod(4 * turns, n)
    angle = np.pi / 2 * (within / n)
    value = np.cos(angle) - 1j * np.sin(angle)
    return value * np.array([1, -1j, -1, 1j])[quarter]
