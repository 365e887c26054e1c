"""What compiles the kernels: the compiler's versions and settings, and the CPU that it compiles
for. The same kernels have the same bits where all of it is equal."""

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite
import numba
from llvmlite import binding

# those that change the code
SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "USING_SVML", "DISABLE_JIT")


def versions() -> dict[str, str]:
    """Versions of numba and llvmlite, and the settings of numba that change compiled code."""
    settings = (f"{name.lower()} {int(getattr(numba.config, name, 0))}" for name in SETTINGS)
    return {
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "settings": ", ".join(settings),
    }


@cache
def target() -> dict[str, str]:
    """The kind of CPU that is compiled for, by LLVM's name, and its instruction sets. numba can be
    told to compile for another one (NUMBA_CPU_NAME, NUMBA_CPU_FEATURES)."""
    config: Any = numba.config
    if config.CPU_FEATURES is not None:
        features = str(config.CPU_FEATURES)
    else:
        from numba.core.codegen import get_host_cpu_features

        features = get_host_cpu_features()
    enabled = sorted(name[1:] for name in features.split(",") if name.startswith("+"))
    return {
        "cpu": str(config.CPU_NAME or binding.get_host_cpu_name()),
        "cpu_features": " ".join(enabled),
    }
