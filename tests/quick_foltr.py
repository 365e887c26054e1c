"""foltr as a user runs it, in a process of its own, without the second that Python needs to import
it: a server process that has imported everything forks for each command.

    subprocess.run([*quick_foltr(), "run", "--rounds", "2"], ...)

The client passes its words, folder, variables and streams to the server, and ends as the command
did. If a variable that modules read on import differs, the command runs in a new process that
imports everything itself. Signals reach the client only: tests of Ctrl-C and `kill` start
`python -m foltr`."""

from __future__ import annotations

import os
import socket
import sys

if __name__ != "__main__" or sys.argv[1] == "serve":  # the client is as small as can be
    import atexit
    import gc
    import runpy
    import select
    import shlex
    import shutil
    import signal
    import subprocess
    import tempfile
    import threading
    import traceback

STREAMS = (0, 1, 2)
MAX_FOLDER_BYTES = 90  # the system refuses sockets with longer paths than some hundred bytes
# variables that are read on import begin so: where they differ, a fork is not the same
READ_ON_IMPORT = (
    "FOLTR_CACHE",
    "FLWR_",
    "NUMBA_",
    "OPENBLAS_",
    "PYTHON",
    "LANG",
    "LC_",
    "HOME",
    "TZ",
)
UNBUFFERED_VARIABLE = "PYTHONUNBUFFERED"  # this one is read here
FILE_OPTION = "--file"  # instead of a command: the path of a Python file that is run
_started: dict[int, list[str]] = {}  # the command, by the process that started the server


def quick_foltr() -> list[str]:
    """The first words of a command line that stand for `foltr`."""
    return _started.get(os.getpid()) or _start()


def _start() -> list[str]:
    import surroundings

    folder = tempfile.mkdtemp(prefix="foltr-quick-")
    if len(os.fsencode(folder)) > MAX_FOLDER_BYTES:
        folder = tempfile.mkdtemp(prefix="foltr-quick-", dir="/tmp")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    address = os.path.join(folder, "socket")
    server = subprocess.Popen(
        [sys.executable, __file__, "serve", address],
        stdin=subprocess.PIPE,  # the server ends when this process does
        stdout=subprocess.PIPE,
        cwd=os.environ["FOLTR_TESTS_FOLDER"],
        env=surroundings.session_environment,  # whatever test asks first
        umask=surroundings.UMASK,
    )
    assert server.stdout is not None and server.stdout.readline() == b"ready\n"
    atexit.register(server.terminate)
    _started[os.getpid()] = [sys.executable, "-IS", __file__, address]
    return _started[os.getpid()]


def python_file() -> list[str]:
    """The first words of a command line that stand for `python` before the path of a file."""
    return [*quick_foltr(), FILE_OPTION]


def write_program(folder: os.PathLike[str]) -> None:
    """Write a program `foltr` to a folder, for the PATH of a shell."""
    program = os.path.join(folder, "foltr")
    with open(program, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {shlex.join(quick_foltr())} "$@"\n')
    os.chmod(program, 0o755)


def request_command(address: str, words: list[str]) -> int:
    """The client: have the server run a command, and return its exit code."""
    variables = [f"{name}={value}" for name, value in os.environ.items()]
    parts = [os.getcwd(), str(len(words)), *words, *variables]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        content = "\0".join(parts).encode(errors="surrogateescape")
        socket.send_fds(connection, [len(content).to_bytes(8, "big")], STREAMS)
        connection.sendall(content)
        code = connection.recv(4)
    return int.from_bytes(code, "big", signed=True) if code else 1


def serve(address: str) -> None:
    """Fork for each command until the process that started the server is gone."""
    variables = _read_on_import()
    _import_everything()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait for commands
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:
            return
        connection, _ = listener.accept()
        if os.fork():
            connection.close()
            continue
        listener.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        command = os.fork()
        if command == 0:
            _run_command(connection, variables)
        _, status = os.waitpid(command, 0)
        connection.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
        os._exit(0)


def _import_everything() -> None:
    import foltr.cli.app
    import foltr.core.spec
    import foltr.core.system.process
    import foltr.report.page.document
    import foltr.simulation.sweeps.run

    for family in foltr.core.spec.FAMILIES:
        family.members()
    foltr.Experiment(data="Synthetic(queries=20)", clients=2, rounds=2).run()  # loads the kernels
    foltr.core.system.process.environment.cache_clear()  # it knows the words of the command
    del sys.path[0]  # the folder of this file
    gc.collect()
    gc.freeze()  # no fork looks through what all of them share


def _run_command(connection: socket.socket, imported_with: dict[str, str]) -> None:
    """Take over the streams, folder, variables and words of a command, and run it."""
    size, streams, _, _ = socket.recv_fds(connection, 8, len(STREAMS))
    content = b""
    while len(content) < int.from_bytes(size, "big"):
        part = connection.recv(1 << 16)
        if not part:  # the client has died
            os._exit(1)
        content += part
    connection.close()
    folder, number, *parts = content.decode(errors="surrogateescape").split("\0")
    words, variables = parts[: int(number)], parts[int(number) :]
    for target, stream in zip(STREAMS, streams, strict=True):
        os.dup2(stream, target)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(each.split("=", 1) for each in variables)
    if _read_on_import() != imported_with:
        plain = words[1:] if words[:1] == [FILE_OPTION] else ["-m", "foltr", *words]
        os.execv(sys.executable, [sys.executable, *plain])
    file = words[1] if words[:1] == [FILE_OPTION] else None
    sys.argv = words[1:] if file else ["foltr", *words]
    sys.stdin = open(0, closefd=False)
    sys.stdout = open(
        1, "w", closefd=False, buffering=1 if UNBUFFERED_VARIABLE in os.environ else -1
    )
    sys.stderr = open(2, "w", errors="backslashreplace", closefd=False, buffering=1)
    code = 0
    try:
        if file:
            sys.path.insert(0, os.path.dirname(file))
            runpy.run_path(file, run_name="__main__")
        else:
            from foltr.__main__ import main

            main()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if code and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001  (as the interpreter does)
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # to take down what was imported would take longer than many a command


def _read_on_import() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(READ_ON_IMPORT) and name != UNBUFFERED_VARIABLE
    }


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(request_command(sys.argv[1], sys.argv[2:]))
