"""Which code computes a definition: its own, or the kernel that the engine has for it."""

import threading

import pytest

from foltr.core.compiled import NO_KERNELS, replaceable, uses_kernels, using
from foltr.core.system.process import Threads


@replaceable
def twice(number, times=2):
    """Defines it."""
    return "defined", number * times


KERNELS = {twice: lambda number, times=2: ("compiled", number * times)}


def test_a_definition_computes_itself_unless_an_engine_replaces_it():
    assert twice.__doc__ == "Defines it."
    assert twice(3) == ("defined", 6) and not uses_kernels()
    with using(KERNELS):
        assert twice(3) == ("compiled", 6) and uses_kernels()
        assert twice(3, times=3) == ("compiled", 9)
        with using(NO_KERNELS):
            assert twice(3, times=3) == ("defined", 9) and not uses_kernels()
        with using({len: max}):
            assert twice(3) == ("defined", 6) and uses_kernels()
        assert twice(3) == ("compiled", 6)
    assert twice(3) == ("defined", 6)


def test_after_an_error_the_definition_is_back():
    with pytest.raises(KeyError), using(KERNELS):
        raise KeyError
    assert twice(1) == ("defined", 2)


@pytest.mark.parametrize("kernels", [NO_KERNELS, KERNELS])
def test_threads_that_share_the_work_of_an_engine_compute_like_it(kernels):
    """So that a result does not depend on their number; other threads compute as they choose."""
    computed = [""] * 40

    def work(first, last):
        for i in range(first, last):
            computed[i] = twice(i)[0]

    with using(kernels), Threads(3).running() as threads:
        threads.share(len(computed), work)
        elsewhere = threading.Thread(target=lambda: computed.append(twice(1)[0]))
        elsewhere.start()
        elsewhere.join()
    assert computed == ["compiled" if kernels else "defined"] * 40 + ["defined"]
