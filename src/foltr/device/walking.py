"""The files below the folders of a user that are to be indexed.

What is left out, and counted with a reason:

    key             the name says that it holds keys or passwords; always left out
    hidden          the name begins with a dot
    ignored         a .gitignore or .ignore file names it
    generated       made by a program: node_modules, caches, Python environments, lock files
    trash, backup   thrown away; copies that editors make
    binary          no text, by its suffix
    no reader       a document in a format that cannot be read
    link            a symbolic link; links are not followed, so there are no loops
    not a file      a pipe, a socket or a device
    empty           a file of no bytes
    no permission   a file or folder that may not be read
    gone            removed while the folders were read
    system          /proc, /sys, /dev and /run
    name not UTF-8  cannot be stored as text

A folder that is left out counts once, whatever is in it. `everything` switches off `hidden` and
`ignored` only."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foltr.core.errors import Mistake, require, shown
from foltr.core.system.files import regular

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

# What the name of a file or folder says: that it holds keys, is no text, or is of no use.

# Nothing below these folders is indexed, not even on demand.
KEY_FOLDERS = frozenset(
    ".ssh .gnupg .password-store .aws .azure .gcloud gcloud .kube .docker keyrings .pki .vault"
    " .electrum .bitcoin .ethereum .monero .certbot .1password".split()
)
KEY_NAMES = frozenset(
    ".netrc _netrc .pgpass .my.cnf .mylogin.cnf .npmrc .pypirc .git-credentials .htpasswd"
    " .dockercfg .vault-token .authinfo .boto .s3cfg .env .envrc .bash_history .zsh_history"
    " .python_history .psql_history .mysql_history .sqlite_history shadow gshadow kubeconfig"
    " wallet.dat logins.json signons.sqlite key3.db key4.db terraform.tfstate".split()
)
KEY_SUFFIXES = frozenset(
    ".pem .key .p8 .p12 .pfx .pkcs12 .jks .jceks .bks .keystore .kdb .kdbx .psafe3 .ppk .gpg .pgp"
    " .age .agekey .ovpn .env .keychain .keychain-db .opvault .1pif .1pux .agilekeychain .wallet"
    " .mobileprovision .tfvars .kubeconfig .htpasswd .pgpass .credentials".split()
)
KEY_BEGINNINGS = (
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "ssh_host_", "secring.", ".env."),
    "terraform.tfstate.",
)
# secrets if they are data: a page or a program about passwords is a page or a program
SECRET_BEGINNINGS = (
    *("credential", "secret", "password", "passwd", "client_secret", "service_account"),
    *("service-account", "apikey", "api_key", "api-key", "auth_token", "access_token"),
)
DATA_SUFFIXES = frozenset(
    ("", *".json .yml .yaml .toml .ini .cfg .conf .csv .txt .xml .properties .enc .db".split())
)

BINARY_SUFFIXES = frozenset(
    # images
    ".png .jpg .jpeg .jpe .jfif .gif .bmp .tif .tiff .webp .ico .icns .heic .heif .avif .svg .svgz"
    " .psd .xcf .cr2 .nef .arw .dng .eps .pbm .pgm .ppm .xpm .tga .exr .hdr .djvu .jp2"
    # audio and video
    " .mp3 .ogg .oga .opus .flac .wav .aif .aiff .m4a .aac .wma .mid .midi .amr .mp4 .m4v .mkv"
    " .webm .avi .mov .wmv .flv .mpg .mpeg .3gp .ogv .vob .m2ts"
    # archives, packages, images of disks
    " .zip .gz .tgz .bz2 .tbz .xz .txz .zst .lz .lz4 .lzma .7z .rar .tar .cab .arj .cpio .ar .deb"
    " .rpm .apk .dmg .iso .img .vdi .vmdk .qcow2 .vhd .vhdx .ova .snap .flatpak .appimage .msi"
    " .xpi .crx .jar .war .ear .whl .egg .gem .nupkg .pak .br .squashfs"
    # programs
    " .exe .dll .so .dylib .a .o .obj .ko .elf .bin .class .pyc .pyo .pyd .wasm .dex .nbi .nbc"
    " .beam .rlib .rmeta .pdb .sys .efi .mo .gmo .qm"
    # databases, data
    " .db .sqlite .sqlite3 .db3 .mdb .accdb .dbf .frm .ibd .ldb .sst .rdb .realm .parquet .arrow"
    " .feather .orc .avro .h5 .hdf5 .nc .npy .npz .mat .rds .rdata .pkl .pickle .joblib .onnx .pt"
    " .pth .ckpt .safetensors .gguf .tflite .pack .sav .dta .shp .pcap .pcapng"
    # fonts, models, others
    " .ttf .otf .ttc .woff .woff2 .pfb .pfa .afm .fon .stl .blend .fbx .glb .3ds .dwg .dxf .swf"
    " .torrent .lnk .part .crdownload .msg .pst .ost .suo .xlsb .one .dvi .ps".split()
)
# documents for which there is no reader
UNREADABLE_SUFFIXES = frozenset(
    ".doc .docx .docm .dot .dotx .odt .ott .fodt .rtf .xls .xlsx .xlsm .ods .ppt .pptx .pps .ppsx"
    " .odp .odg .pages .numbers .epub .mobi .azw .azw3 .fb2 .chm .hlp .xps .pub .wpd .wps .vsd"
    " .vsdx .sxw".split()
)
BACKUP_SUFFIXES = frozenset(".swp .swo .swn .bak .orig .rej .tmp .temp .old".split())
BACKUP_BEGINNINGS = ("~$", ".~lock.", ".#")  # of office programs and editors
GENERATED_NAMES = frozenset(
    "package-lock.json npm-shrinkwrap.json pnpm-lock.yaml go.sum .ds_store thumbs.db desktop.ini"
    " cscope.out compile_commands.json cachedir.tag".split()
)
GENERATED_SUFFIXES = frozenset((".lock", ".map"))
GENERATED_ENDS = (".min.js", ".min.css", ".bundle.js", ".min.mjs")
FOLDERS = {
    **dict.fromkeys(
        "node_modules bower_components __pycache__ __pypackages__ site-packages .git .hg .svn .bzr"
        " CVS .tox .nox .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .cache .gradle"
        " .idea .vscode .eggs .terraform DerivedData .next .nuxt .parcel-cache".split(),
        "generated",
    ),
    **dict.fromkeys(
        ("Trash", ".Trash", "$RECYCLE.BIN", "System Volume Information", "lost+found"), "trash"
    ),
}
# a folder with one of these files was made by a program: a Python environment, a cache
FOLDER_MARKS = frozenset(("pyvenv.cfg", "CACHEDIR.TAG"))


def is_utf8(name: str) -> bool:
    """Whether a name can be stored; Linux allows any bytes, which Python gives as surrogates."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_key(name: str, is_folder: bool) -> bool:
    """Whether a name says that a file, or a folder, holds keys or passwords."""
    if is_folder:
        return name in KEY_FOLDERS
    low = name.lower()
    suffix = _suffix(low)
    return (
        suffix in KEY_SUFFIXES
        or low in KEY_NAMES
        or low.startswith(KEY_BEGINNINGS)
        or (low.startswith(SECRET_BEGINNINGS) and suffix in DATA_SUFFIXES)
    )


def of_no_use(name: str, is_folder: bool) -> str | None:
    """Why a file, or a folder, is left out by its name, if it is."""
    if is_folder:
        trash = "trash" if name.startswith(".Trash-") else None
        return FOLDERS.get(name, trash)
    low = name.lower()
    suffix = _suffix(low)
    if suffix in BINARY_SUFFIXES:
        return "binary"
    if suffix in UNREADABLE_SUFFIXES:
        return "no reader"
    if suffix in BACKUP_SUFFIXES or low.endswith("~") or low.startswith(BACKUP_BEGINNINGS):
        return "backup"
    made = suffix in GENERATED_SUFFIXES or low in GENERATED_NAMES or low.endswith(GENERATED_ENDS)
    return "generated" if made else None


def _suffix(name: str) -> str:
    """With its dot; a name that begins with its only dot has none."""
    dot = name.rfind(".")
    return name[dot:] if dot > 0 else ""


SYSTEM = frozenset(("/proc", "/sys", "/dev", "/run"))
IGNORE_FILES = (".gitignore", ".ignore")  # the later one decides
MARKS = FOLDER_MARKS.union(IGNORE_FILES)
MOST_IGNORE = 2**18  # bytes of a file of patterns
MOST_PATTERNS = 2000  # in it
MOST_STARS = 3  # in a name of a pattern, and folders `**`: the time to match grows with its power


@dataclass(frozen=True, slots=True)
class Found:
    """A file to be indexed.

    Fields
        path: absolute
        size: bytes
        modified: when it was changed, in nanoseconds since 1970"""

    path: Path
    size: int
    modified: int


def walk(
    roots: Sequence[Path],
    everything: bool = False,
    left_out: Counter[str] | None = None,
    closed: list[str] | None = None,
) -> Iterator[Found]:
    """The files below `roots`, each once, in a stable order. The reasons of what is left out are
    counted in `left_out`; folders that may not be read are added to `closed`. A root may be a
    link, and it may be a file."""
    return _Rules(roots, everything, left_out, closed).files()


def find(
    path: Path,
    roots: Sequence[Path],
    everything: bool = False,
    left_out: Counter[str] | None = None,
) -> Found | None:
    """The file at an absolute path, if `walk` would give it: for a watcher, which is told of one
    path at a time. The path must not lead through links above its root: resolve roots first."""
    return _Rules(roots, everything, left_out).file(os.path.abspath(path))


def _resolved(root: Path) -> str:
    require(is_utf8(str(root)), f"the name of {shown(str(root))} is not UTF-8: rename it")
    try:
        return str(root.resolve(strict=True))
    except FileNotFoundError:
        raise Mistake(f"there is no file or folder {root}") from None
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a null character
        raise Mistake(f"{shown(str(root))} cannot be opened: {error}") from None


@dataclass(frozen=True)
class _Ignore:
    """The patterns of one file; they hold below its folder."""

    folder: str  # with a separator at the end
    lines: tuple[str, ...]
    spec: GitIgnoreSpec

    def says(self, path: str, is_folder: bool) -> bool | None:
        """Whether a path is ignored; None if no pattern matches."""
        checked = self.spec.check_file(path[len(self.folder) :] + "/" * is_folder)
        line = "" if checked.index is None else self.lines[checked.index].rstrip()
        # `build/**` means what is in the folder, and a later pattern can except a part of that
        return None if is_folder and line.endswith("/**") else checked.include


@dataclass(frozen=True)
class _Folder:
    """A folder, with the patterns of it and of the folders above it."""

    path: str
    ignores: tuple[_Ignore, ...] = ()

    @property
    def prefix(self) -> str:
        return _prefix(self.path)


class _Rules:
    """What is given and what is left out. `walk` and `find` only differ in the way to a file."""

    def __init__(
        self,
        roots: Sequence[Path],
        everything: bool,
        left_out: Counter[str] | None,
        closed: list[str] | None = None,
    ) -> None:
        self.roots = dict.fromkeys(map(_resolved, roots))
        self.everything = everything
        self.left_out = Counter[str]() if left_out is None else left_out
        self.closed = [] if closed is None else closed

    def files(self) -> Iterator[Found]:
        for root in self.roots:
            if self._opens(root):
                if os.path.isdir(root):
                    yield from self._below(root)
                elif found := self._found(root):
                    yield found

    def file(self, path: str) -> Found | None:
        inside = [root for root in self.roots if _prefix(path).startswith(_prefix(root))]
        root = max(inside, key=len, default=None)
        if root is None or not self._opens(root):
            return None
        if path == root:
            return self._found(path)
        folder = self._entered(_Folder(root), _marks(root))
        *above, name = path[len(_prefix(root)) :].split(os.sep)
        for part in above:
            if folder is None or not self._passes(folder, part, True):
                return None
            inner = _Folder(folder.prefix + part, folder.ignores)
            if os.path.islink(inner.path):
                self.left_out["link"] += 1
                return None
            folder = self._entered(inner, _marks(inner.path))
        if folder is None or not self._passes(folder, name, False):
            return None
        return self._found(path)

    def _below(self, root: str) -> Iterator[Found]:
        """Of a folder first the files, then the folders, both by name. A root inside of another
        one is passed by, because it may be in a place that is left out there."""
        waiting = [_Folder(root)]
        while waiting:
            folder, entries = self._listed(waiting.pop())
            prefix, deeper = folder.prefix, []
            for entry in entries:
                path, is_folder = prefix + entry.name, _is_folder(entry)
                if path in self.roots or not self._passes(folder, entry.name, is_folder):
                    continue
                if is_folder:
                    deeper.append(_Folder(path, folder.ignores))
                elif found := self._found(path):
                    yield found
            waiting.extend(reversed(deeper))

    def _listed(self, folder: _Folder) -> tuple[_Folder, list[os.DirEntry[str]]]:
        """A folder with its own patterns, and what is in it; nothing if it is left out."""
        try:
            with os.scandir(folder.path) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError as error:
            self.left_out[_reason(error)] += 1
            if isinstance(error, PermissionError):
                self.closed.append(folder.path)
            return folder, []
        entered = self._entered(folder, MARKS.intersection(entry.name for entry in entries))
        return (entered, entries) if entered else (folder, [])

    def _entered(self, folder: _Folder, marks: frozenset[str]) -> _Folder | None:
        """A folder with its own patterns; None if a file in it says that a program made it."""
        if folder.path not in self.roots and marks & FOLDER_MARKS:
            self.left_out["generated"] += 1
            return None
        own = [
            _ignore(folder.prefix, name)
            for name in IGNORE_FILES
            if name in marks and not self.everything
        ]
        return _Folder(folder.path, (*folder.ignores, *filter(None, own)))

    def _opens(self, root: str) -> bool:
        """Whether a root may be read. That its user named it overrules all but keys."""
        *above, name = Path(root).parts
        is_folder = os.path.isdir(root)
        if any(is_key(part, True) for part in above) or is_key(name, is_folder):
            self.left_out["key"] += 1
            return False
        return True

    def _passes(self, folder: _Folder, name: str, is_folder: bool) -> bool:
        reason = self._left_out_as(folder, name, is_folder)
        if reason:
            self.left_out[reason] += 1
        return reason is None

    def _left_out_as(self, folder: _Folder, name: str, is_folder: bool) -> str | None:
        if is_key(name, is_folder):
            return "key"
        if not is_utf8(name):
            return "name not UTF-8"
        if name.startswith(".") and not self.everything:
            return "hidden"
        if reason := of_no_use(name, is_folder):
            return reason
        path = folder.prefix + name
        if is_folder and path in SYSTEM:
            return "system"
        says = (ignore.says(path, is_folder) for ignore in reversed(folder.ignores))
        return "ignored" if next((told for told in says if told is not None), False) else None

    def _found(self, path: str) -> Found | None:
        try:
            status = os.lstat(path)
        except (OSError, ValueError) as error:
            self.left_out[_reason(error)] += 1
            return None
        if stat.S_ISREG(status.st_mode) and status.st_size:
            return Found(Path(path), status.st_size, status.st_mtime_ns)
        kind = "empty" if stat.S_ISREG(status.st_mode) else "not a file"
        self.left_out["link" if stat.S_ISLNK(status.st_mode) else kind] += 1
        return None


def _prefix(path: str) -> str:
    return path if path.endswith(os.sep) else f"{path}{os.sep}"


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _marks(path: str) -> frozenset[str]:
    return frozenset(name for name in MARKS if os.path.lexists(f"{_prefix(path)}{name}"))


def _reason(error: Exception) -> str:
    return "no permission" if isinstance(error, PermissionError) else "gone"


def _ignore(folder: str, name: str) -> _Ignore | None:
    """The patterns of a file; None if it cannot be read. A pattern that is none is left out, as
    git does."""
    try:
        from pathspec import GitIgnoreSpec
    except ImportError:
        raise Mistake(f"{name} files need pathspec: pip install 'foltr[device]'") from None
    try:
        with regular(Path(folder, name)) as file:
            text = file.read(MOST_IGNORE).decode("utf-8-sig", "replace")
    except OSError:
        return None
    lines: list[str] = []
    patterns: list[Any] = []
    for line in filter(_is_tame, text.splitlines()[:MOST_PATTERNS]):
        with suppress(ValueError, re.error):
            patterns.extend(GitIgnoreSpec.from_lines([line]).patterns)
            lines.append(line)
    return _Ignore(folder, tuple(lines), GitIgnoreSpec(patterns))


def _is_tame(line: str) -> bool:
    """Whether a pattern is one, and cannot take long: matching several stars tries all ways to
    divide a name among them."""
    names = line.split("/")
    stars = max((name.count("*") for name in names if name != "**"), default=0)
    is_pattern = bool(line.strip()) and not line.startswith("#")
    return is_pattern and max(stars, names.count("**")) <= MOST_STARS
