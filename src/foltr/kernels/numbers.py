"""A parser of tables of float64 numbers from raw, untrusted bytes: `12,0.25,,40.0`.

Every text ends in a newline. A number that the kernel cannot round with certainty is left to
Python's `float` (`hard`)."""

import numpy as np

from foltr.kernels import kernel
from foltr.kernels.letor import byte

COMMA, NEWLINE, POINT, MINUS, ZERO, NINE = 44, 10, 46, 45, 48, 57
POWERS = np.array([10.0**i for i in range(23)])  # exact
DIGITS, EXACT = 18, 2**53  # 18 digits always fit an int64; smaller integers are exact
SPLIT = 2.0**27 + 1.0  # of a float64 into two halves (Dekker, 1971)
DOUBT = 2.0**-49  # relative; more than the rounding errors of the correction of a quotient


@kernel()
def product_error(a, b, product):
    """a * b - product, exactly (Dekker, Numerische Mathematik 1971), for numbers of moderate
    size."""
    high, other = SPLIT * a - (SPLIT * a - a), SPLIT * b - (SPLIT * b - b)
    low, rest = a - high, b - other
    return ((high * other - product) + high * rest + low * other) + low * rest


@kernel()
def quotient(mantissa, power):
    """mantissa / 10^power, rounded once -> value, whether it is certain. mantissa < 10^18, power
    <= 22.

    A mantissa up to 2^53 needs one division (Clinger, PLDI 1990). A larger one is the sum of two
    float64, and the quotient of the first is corrected by the remainder. The sum of both is used
    if everything within DOUBT of the correction rounds to it."""
    if mantissa <= EXACT:
        return mantissa / POWERS[power], True
    divisor, first = POWERS[power], np.float64(mantissa)
    rest = np.float64(mantissa - np.int64(first))
    value = first / divisor
    product = value * divisor
    left = (first - product) - product_error(value, divisor, product)
    correction = (left + rest) / divisor
    low, high = value + correction * (1.0 - DOUBT), value + correction * (1.0 + DOUBT)
    return low, low == high


@kernel()
def parse_table(text, columns, values, there, hard):
    """Rows of `columns` numbers into values (rows, columns) float64. `there` (rows, columns) bool
    gets whether a field has any text. Fields that are left to Python go into hard (n, 3): row,
    column, first byte -> number of rows, number of hard fields; -1 rows if a line has more or
    fewer columns."""
    p, row, hards = 0, 0, 0
    while p < len(text):
        for column in range(columns):
            start = p
            minus = byte(text, p) == MINUS
            if minus:
                p += 1
            mantissa, digits, point = 0, 0, -1
            while True:
                c = byte(text, p)
                if ZERO <= c <= NINE:
                    # overflows if too long; the result is then not used
                    mantissa = mantissa * 10 + (c - ZERO)
                    digits += 1
                elif c == POINT and point < 0:
                    point = digits
                else:
                    break
                p += 1
            power = digits - point if point >= 0 else 0
            plain = c == COMMA or c == NEWLINE
            while byte(text, p) != COMMA and byte(text, p) != NEWLINE:
                p += 1
            there[row, column] = p > start
            certain = False
            if plain and 0 < digits <= DIGITS and power <= 22:
                value, certain = quotient(mantissa, power)
                values[row, column] = -value if minus else value
            if p > start and not certain:
                hard[hards, 0], hard[hards, 1], hard[hards, 2] = row, column, start
                hards += 1
            last = column == columns - 1
            if (byte(text, p) == NEWLINE) != last:
                return -1, 0
            p += 1
        row += 1
    return row, hards
