"""Secret sharing by polynomials (Shamir, CACM 1979; doi:10.1145/359168.359176).

A secret s is the value at 0 of a random polynomial of degree q - 1 over the integers modulo a
prime; a share is its value at a point 1, 2, ... Any q shares give s = sum_i lambda_i share_i with
lambda_i = prod_{j != i} x_j / (x_j - x_i). Any q - 1 of them are equally likely for every secret.

The prime is 2^256 + 297, the smallest above 2^256. It holds every 32-byte secret, and a share
takes 33 bytes (66 with 2^521 - 1, the next Mersenne prime that is large enough)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import lru_cache
from math import prod

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
