"""Open a document with the program that its kind of file belongs to."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from foltr.errors import Mistake

# files that run when they are opened
RUN = frozenset(
    ".app .appimage .bat .cmd .com .command .cpl .desktop .exe .hta .inf .jar .js .jse .lnk .msc"
    " .msi .pif .ps1 .reg .scf .scpt .scr .sh .url .vb .vbe .vbs .workflow .ws .wsf".split()
)
# scripts: other systems open them in an editor, unless they may be executed
RUN_ON_WINDOWS = frozenset(".ahk .au3 .lua .php .pl .py .pyw .pyz .rb .tcl".split())


def open_with_program(path: Path) -> None:
    """Open a file as a double click would. Refused for files that would be run instead."""
    check_may_open(path)
    if sys.platform == "win32":
        os.startfile(path)
        return
    command = "open" if sys.platform == "darwin" else "xdg-open"
    if shutil.which(command) is None:
        raise Mistake(f"there is no program {command} on this machine: the file is {path}")
    nothing = subprocess.DEVNULL
    try:
        subprocess.Popen(
            [command, str(path)],
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            start_new_session=True,
        )
    except OSError as error:
        raise Mistake(f"cannot start {command} ({error.strerror}): the file is {path}") from None


def check_may_open(path: Path) -> None:
    try:
        found = os.lstat(path)
    except OSError as error:
        raise Mistake(f"cannot open {path}: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode):
        raise Mistake(f"{path} is not a file any more: it was replaced")
    windows = os.name == "nt"
    by_name = RUN | RUN_ON_WINDOWS if windows else RUN
    if path.suffix.lower() in by_name or (not windows and found.st_mode & 0o111):
        raise Mistake(f"{path} is a program, which opening could run: look at the preview instead")
