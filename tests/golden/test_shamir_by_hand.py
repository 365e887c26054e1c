"""Secret sharing on fields so small that all of it can be written down or counted."""

from collections import Counter
from fractions import Fraction
from itertools import combinations, product
from math import prod

import pytest

from foltr.secure_sum import arithmetic as shamir
from foltr.secure_sum.arithmetic import PRIME, SHARE, coefficients, combine, split


@pytest.fixture
def drawing(monkeypatch):
    """Sets the random coefficients of the next polynomials, highest power first."""

    def draw(prime, *higher):
        given = iter(higher)

        def below(bound):
            assert bound == prime  # uniform over the whole field
            return next(given)

        monkeypatch.setattr(shamir.secrets, "randbelow", below)

    return draw


def test_a_line_modulo_17(drawing):
    """f(x) = 5 + 3x: f(1) = 8, f(2) = 11, f(3) = 14. From 1 and 3: 3/2 f(1) - 1/2 f(3), and 1/2 =
    9 modulo 17."""
    drawing(17, 3)
    assert split(5, 2, [1, 2, 3], 17) == [8, 11, 14]
    assert coefficients((1, 3), 17) == (3 * 9 % 17, -9 % 17) == (10, 8)
    assert combine((1, 3), [8, 14], 17) == (80 + 112) % 17 == 5


def test_a_parabola_modulo_17(drawing):
    """f(x) = 5 + 3x + 2x^2: 10, 19 = 2, 32 = 15, 49 = 15. At 1, 2, 4: 8/3, -2, 1/3, and 1/3 = 6
    modulo 17."""
    drawing(17, 2, 3)
    assert split(5, 3, [1, 2, 3, 4], 17) == [10, 2, 15, 15]
    assert coefficients((1, 2, 4), 17) == (48 % 17, 15, 6)
    assert combine((1, 2, 4), [10, 2, 15], 17) == 5


@pytest.mark.parametrize("quorum", [2, 3, 4])
def test_one_share_too_few_is_equally_likely_under_every_secret(drawing, quorum):
    """All polynomials modulo 5, counted: whatever quorum - 1 holders see, every secret explains it
    in one way."""
    prime, points = 5, (1, 2, 3, 4)
    ways = Counter()
    for secret in range(prime):
        for higher in product(range(prime), repeat=quorum - 1):
            drawing(prime, *higher)
            shares = dict(zip(points, split(secret, quorum, points, prime), strict=True))
            for holders in combinations(points, quorum - 1):
                ways[holders, tuple(shares[x] for x in holders), secret] += 1
            for holders in combinations(points, quorum):
                assert combine(holders, [shares[x] for x in holders], prime) == secret
    views = {(holders, seen) for holders, seen, _ in ways}
    assert len(views) == len(list(combinations(points, quorum - 1))) * prime ** (quorum - 1)
    assert set(ways.values()) == {1} and len(ways) == prime * len(views)


def test_coefficients_are_those_of_lagrange():
    """Against exact fractions, for the points of a survivor set with gaps."""
    points = (2, 3, 7, 11, 64, 99, 100, 125)
    for x, got in zip(points, coefficients(points), strict=True):
        exact = prod(Fraction(other, other - x) for other in points if other != x)
        assert got == exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME


def test_the_prime_is_the_first_above_every_secret_of_32_bytes():
    """Fermat's test rejects every number between (to base 3: 2^256 + 1 is a Fermat number and
    passes to base 2); that of Miller and Rabin, with twenty bases, does not reject the prime."""
    assert PRIME == 2**256 + 297 and PRIME.bit_length() == 257 <= 8 * SHARE
    assert all(pow(3, candidate - 1, candidate) != 1 for candidate in range(2**256 + 1, PRIME, 2))
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71):
        powers = [pow(base, odd * 2**i, PRIME) for i in range(twos)]
        assert powers[0] == 1 or PRIME - 1 in powers


@pytest.mark.parametrize("secret", [0, 1, 2**256 - 1])
def test_every_secret_of_32_bytes_comes_back(secret):
    points = list(range(1, 101))
    shares = split(secret, 67, points)
    assert all(0 <= share < PRIME for share in shares)
    for chosen in (points[:67], points[33:], points[::2] + points[1:35:2]):
        assert combine(tuple(chosen), [shares[x - 1] for x in chosen]) == secret
    assert combine(tuple(points[:66]), shares[:66]) != secret
    assert combine(tuple(points[:67]), [shares[0] + 1, *shares[1:67]]) != secret
