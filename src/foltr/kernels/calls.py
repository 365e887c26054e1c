"""Kernels that are called by their address: from another kernel, through a number.

A kernel that is called directly is inlined, and its sums may be vectorised in another way in each
caller. One that is called by its address is compiled once for each kind of arguments. Python and
all kernels that get its address run the same machine code, so they get the same bits. And the
caller is compiled once, whichever kernels it is given."""

from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.extending import intrinsic

from foltr.kernels import compiles


def written_out(function: Callable[..., Any]) -> Any:
    """`numba.extending.intrinsic`: the function writes LLVM code into the kernel that calls it.
    Where nothing is compiled, it does nothing: the engine that needs more than that is refused."""
    return intrinsic(function) if compiles() else lambda *arguments: None


@written_out
def never_inlined(typing):
    """Keeps the function in which it stands out of its callers. It is the first line of a kernel
    that is called by its address."""

    def lowered(context, builder, signature, arguments):
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), lowered


@written_out
def called(typing, address, arguments):
    """The integer that the kernel at this address returns for a tuple of arguments. They must have
    the layout in memory of those that `address_of` was given: types of numbers, dimensions,
    contiguity (read-only and writable arrays are alike). Nothing checks this: for others it would
    read wrong memory."""
    made = types.int64

    def lowered(context, builder, signature, values):
        kinds = signature.args[1].types
        convention = context.call_conv
        pointer = convention.get_function_type(made, kinds).as_pointer()
        target = builder.inttoptr(values[0], pointer)
        parts = [builder.extract_value(values[1], i) for i in range(len(kinds))]
        status, result = convention.call_function(builder, target, made, kinds, parts)
        with builder.if_then(status.is_error, likely=False):
            convention.return_status_propagate(builder, status)
        return result

    return made(address, arguments), lowered


def address_of(kernel: Callable[..., Any], *arguments: Any) -> int:
    """The address of a kernel compiled for arguments of these types. The kernel begins with
    `never_inlined()` and returns an integer."""
    dispatcher: Any = kernel
    kinds = tuple(numba.typeof(argument) for argument in arguments)
    if kinds not in dispatcher.overloads:
        dispatcher.compile(kinds)
    compiled = dispatcher.overloads[kinds]
    address: int = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return address
