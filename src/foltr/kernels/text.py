"""Bytes and words of raw text, for kernels that check its end themselves."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from foltr.kernels import kernel


def _byte(typing, text, p):
    """text[p] as an integer, without the check for negative p: the reader is a quarter faster
    without it."""

    def generate(context, builder, signature, args):
        array = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.zext(builder.load(builder.gep(array.data, [args[1]])), ir.IntType(64))

    return types.int64(text, types.int64), generate


byte: Any = intrinsic(_byte)


@kernel()
def is_blank(c):
    return c == 32 or c == 9 or c == 13


@kernel()
def ends_token(c):
    return c == 32 or c == 10 or c == 9 or c == 13 or c == 35


@kernel()
def skip_blanks(text, p):
    while is_blank(byte(text, p)):
        p += 1
    return p


@kernel()
def skip_token(text, p):
    while not ends_token(byte(text, p)):
        p += 1
    return p
