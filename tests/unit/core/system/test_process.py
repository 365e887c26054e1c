"""What a process uses, beside what its own tools say."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from foltr.core.system.process import Usage, usage

linux = pytest.mark.skipif(sys.platform != "linux", reason="not on this system: /proc")


@linux
def test_this_process():
    used = usage()
    assert used.cpu_seconds == pytest.approx(time.process_time(), abs=0.5)
    pages = int(open("/proc/self/statm").read().split()[1])
    assert used.resident_bytes == pytest.approx(pages * os.sysconf("SC_PAGE_SIZE"), rel=0.2)
    assert used.open_files > 2 and 0 < time.time() - used.started < 86_400


@linux
def test_another_process_even_with_a_strange_name(tmp_path):
    strange = tmp_path / "a) R 1 (b"
    strange.symlink_to(sys.executable)
    code = "import sys; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [str(strange), "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        used = usage(process.pid)
        other = psutil.Process(process.pid)
        assert used.resident_bytes == pytest.approx(other.memory_info().rss, rel=0.2)
        assert used.started == pytest.approx(other.create_time(), abs=1.0)
        process.stdin.close()


def test_a_process_that_is_gone():
    assert usage(2**22 + 1) == Usage()
