"""Fixed-point numbers modulo 2^64, which add up exactly in any order, with or without masks.

x becomes the integer nearest to x 2^bits, as a signed word, with an error of at most 2^-bits / 2.
The sum of n clients cannot overflow if each |x| 2^bits < 2^63 / n, which is checked before
anything is sent."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from foltr.core import Array
from foltr.core.errors import Mistake, require

PIECE = 1 << 16  # numbers encoded at a time: half a megabyte, which fits in the CPU cache


def encode(values: Array, bits: int, clients: int) -> Array:
    """The words (uint64) of `values`; raises unless each is finite and small enough for a sum of
    that many clients."""
    with np.errstate(over="ignore"):  # infinity is refused below
        scaled = np.multiply(values, 2.0**bits, dtype=np.float64)
    np.rint(scaled, out=scaled)
    room = 2**63 / clients  # the nearest double; every smaller double is below the exact quotient
    if scaled.size and not (scaled.max() < room and scaled.min() > -room):  # also False for NaN
        _refuse(np.asarray(values), scaled, room, bits, clients)
    return scaled.astype(np.int64).view(np.uint64)


def _refuse(values: Array, scaled: Array, room: float, bits: int, clients: int) -> None:
    value = values[~(np.abs(scaled) < room)][0]
    if not np.isfinite(value):
        raise Mistake(
            f"{value} cannot be part of a secure sum: the steps of the learner are too large"
        )
    raise Mistake(
        f"{value:.6g} (a weight, or weight x update) is outside the range of a secure sum: with"
        f" {clients} clients and fraction_bits={bits} each number must be within"
        f" {room * 2.0**-bits:.6g}; take fewer fraction_bits, smaller updates (clip, lr), or less"
        " noise"
    )


def decode(words: Array, bits: int) -> Array:
    """The numbers that the words of a sum represent, as float64."""
    return words.view(np.int64) * 2.0**-bits


def weighted(update: Array, weight: float, bits: int, clients: int) -> Array:
    """The words of one client: its weight w, then w u."""  # (p,) -> (1 + p,) uint64
    values = np.empty(1 + len(update))
    values[0] = weight
    np.multiply(update, weight, out=values[1:], dtype=np.float64)
    return encode(values, bits, clients)


def weighted_sum(updates: Array, weights: Array, bits: int, clients: int) -> Array:
    """The sum of `weighted` over all rows: the same words, computed on many rows at a time."""
    # (n, p) -> (1 + p,) uint64
    n, p = updates.shape
    total = np.zeros(1 + p, np.uint64)
    total[0] = encode(weights, bits, clients).sum()
    rows = max(1, PIECE // max(1, p))
    for start in range(0, n, rows):
        piece = slice(start, start + rows)
        products = np.multiply(updates[piece], weights[piece, None], dtype=np.float64)
        total[1:] += encode(products, bits, clients).sum(axis=0)
    return total


def mean(total: Array, bits: int) -> tuple[Array, float]:
    """The weighted mean and the total weight of a sum: (1 + p,) uint64 -> (p,) float64, float."""
    signed = total.view(np.int64)
    require(bool(signed[0] > 0), "the weights of a secure sum add up to nothing: it has no mean")
    return signed[1:] / float(signed[0]), float(signed[0]) * 2.0**-bits


# Secret sharing by polynomials (Shamir, CACM 1979; doi:10.1145/359168.359176).

PRIME = 2**256 + 297
SHARE = 33  # bytes


def split(secret: int, quorum: int, points: Sequence[int], prime: int = PRIME) -> list[int]:
    """Shares of the secret, one for each point."""
    higher = [secrets.randbelow(prime) for _ in range(quorum - 1)]
    shares = []
    for x in points:
        value = 0
        for coefficient in higher:
            # exact integers: points are small, so reducing once at the end is cheaper
            value = value * x + coefficient
        shares.append((value * x + secret) % prime)
    return shares


def combine(points: tuple[int, ...], shares: Sequence[int], prime: int = PRIME) -> int:
    """The secret of a quorum of shares. Fewer or wrong shares give another number."""
    return sum(map(int.__mul__, coefficients(points, prime), shares)) % prime


@lru_cache(maxsize=4096)
def coefficients(points: tuple[int, ...], prime: int = PRIME) -> tuple[int, ...]:
    """The lambdas of a set of points; cached, because one set of survivors serves many secrets."""
    whole = prod(points)
    below = [x * prod(other - x for other in points if other != x) % prime for x in points]
    return tuple(whole * inverse % prime for inverse in _inverses(below, prime))


def _inverses(numbers: list[int], prime: int) -> list[int]:
    """The inverses of all numbers with a single inversion, by running products (Montgomery)."""
    running = [1]
    for number in numbers:
        running.append(running[-1] * number % prime)
    inverse, found = pow(running[-1], -1, prime), []
    for number, before in zip(reversed(numbers), reversed(running[:-1]), strict=True):
        found.append(inverse * before % prime)
        inverse = inverse * number % prime
    return found[::-1]
