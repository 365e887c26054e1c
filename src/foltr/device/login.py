"""Start the search page at login: a file where the desktop looks for programs to start."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from xml.sax.saxutils import escape

from foltr.errors import require
from foltr.system.files import write_whole, writing

NAME = "foltr-device"


def login_file() -> Path:
    """Where the desktop of this user finds programs to start."""
    home = Path.home()
    if sys.platform == "darwin":
        return home / "Library" / "LaunchAgents" / f"{NAME}.plist"
    if sys.platform == "win32":
        menu = Path(os.environ.get("APPDATA", home)) / "Microsoft" / "Windows" / "Start Menu"
        return menu / "Programs" / "Startup" / f"{NAME}.cmd"
    config = os.environ.get("XDG_CONFIG_HOME") or home / ".config"
    return Path(config) / "autostart" / f"{NAME}.desktop"


def start_at_login(folder: Path) -> Path:
    """Start the page of the device in `folder` at login. Returns the file that says so."""
    file, words = login_file(), command(folder)
    odd = [
        word for word in words if any(c in word for c in '"\n%`$\\') and sys.platform != "win32"
    ]
    require(not odd, f"{odd[:1]} cannot be written into {file}: choose a folder with a plain name")
    if sys.platform == "darwin":
        text = _plist(words)
    elif sys.platform == "win32":
        text = f'@start "" /min {" ".join(f"{chr(34)}{word}{chr(34)}" for word in words)}\r\n'
    else:
        text = _desktop(words)
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, text)
    return file


def stop_at_login() -> bool:
    """Do not start the page at login. Returns whether it was started before."""
    file = login_file()
    there = file.exists()
    with writing(file):
        file.unlink(missing_ok=True)
    return there


def command(folder: Path) -> list[str]:
    words = ["-m", "foltr", "device", "search", "--no-open", "--home", str(folder.resolve())]
    return [sys.executable, *words]


def _desktop(words: list[str]) -> str:
    run = " ".join(f'"{word}"' for word in words)
    return f"[Desktop Entry]\nType=Application\nName=foltr device search\nExec={run}\n"


def _plist(words: list[str]) -> str:
    strings = "".join(f"<string>{escape(word)}</string>" for word in words)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<plist version="1.0"><dict><key>Label</key>'
        f"<string>{NAME}</string><key>ProgramArguments</key><array>{strings}</array>"
        "<key>RunAtLoad</key><true/></dict></plist>\n"
    )
