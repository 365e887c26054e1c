"""HTML manuals from Debian's documentation packages, as documents to search.

Packages are downloaded with `apt-get download` and unpacked with `dpkg-deb -x`: nothing is
installed, and no rights are needed. Only HTML pages are kept. Each package is unpacked aside and
renamed when it is complete, so that a folder with its name is always whole. A package that cannot
be had is replaced by the manual that is installed on the machine, or reported with the reason."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from foltr.core.errors import require, shortened, shown
from foltr.core.system.files import writing

Tell = Callable[[str], None]

# People and the documentation that they search. A star stands for a version.
NEWCOMER = "newcomer"  # joins when the others have searched already
PEOPLE: Mapping[str, tuple[str, ...]] = {
    "kernel": ("linux-doc", "libvirt-doc", "systemtap-doc", "user-mode-linux-doc"),
    "database": (
        "postgresql-doc",
        "sqlite3-doc",
        "python-sqlalchemy-doc",
        "slony1-*-doc",
        "groonga-doc",
        "freetds-doc",
    ),
    "web": (
        "python-django-doc",
        "python3-doc",
        "nodejs-doc",
        "python-flask-doc",
        "python-werkzeug-doc",
        "python-scrapy-doc",
        "python-celery-doc",
        "varnish-doc",
        "tomcat*-docs",
        "lemonldap-ng-doc",
    ),
    "science": ("python-scipy-doc", "octave-doc", "python-sklearn-doc", "python-sympy-doc"),
    "office": ("libreoffice-help-en-us", "gimp-help-en", "gnucash-docs"),
    NEWCOMER: (
        "debian-handbook",
        "debian-reference-en",
        "installation-guide-amd64",
        "aptitude-doc-en",
        "abs-guide",
        "rsyslog-doc",
        "postfix-doc",
        "ntpsec-doc",
        "wireshark-doc",
        "shorewall-doc",
        "krb5-doc",
        "proftpd-doc",
    ),
}
# Devices with one manual each, on which settings are fixed; nothing else uses these manuals.
TUNING: Mapping[str, tuple[str, ...]] = {
    "apache": ("apache2-doc",),
    "maxima": ("maxima-doc",),
    "lilypond": ("lilypond-doc-html",),
    "gnuplot": ("gnuplot-doc",),
    "haskell": ("ghc-doc",),
    "llvm": ("llvm-*-doc",),
    "fontforge": ("fontforge-doc",),
    "openafs": ("openafs-doc",),
    "eigen": ("libeigen3-doc",),
    "sphinx": ("sphinx-doc",),
    "nova": ("nova-doc",),
    "csound": ("csound-doc",),
}
# Devices with one manual each, on which results are reported.
DOCS: Mapping[str, tuple[str, ...]] = {
    "linux": ("linux-doc",),
    "python": ("python3-doc",),
    "postgresql": ("postgresql-doc",),
    "sqlite": ("sqlite3-doc",),
    "django": ("python-django-doc",),
    "octave": ("octave-doc",),
    "gimp": ("gimp-help-en",),
    "libreoffice": ("libreoffice-help-en-us",),
    "gnucash": ("gnucash-docs",),
    "sklearn": ("python-sklearn-doc",),
    "sqlalchemy": ("python-sqlalchemy-doc",),
    "astropy": ("python-astropy-doc",),
    "racket": ("racket-doc",),
    "erlang": ("erlang-doc",),
    "boost": ("libboost-doc",),
    "cpp": ("cppreference-doc-en-html",),
    "wireshark": ("wireshark-doc",),
    "libvirt": ("libvirt-doc",),
    "lemonldap": ("lemonldap-ng-doc",),
    "bash": ("abs-guide",),
}

NAME = re.compile(r"[a-z0-9][a-z0-9+.*-]+")
INSTALLED = Path("/usr/share/doc")
DOWNLOAD = ("apt-get", "-o", "Acquire::Retries=1", "-o", "Acquire::http::Timeout=20", "download")
OFFLINE = re.compile(r"could not (resolve|connect)|unable to connect|temporary failure|timed out")
DEEPEST = 3  # a metapackage may depend on another one
PACKAGES = "packages.txt"  # in the folder of a manual: the packages that it comes from
SUFFIXES = (".html", ".htm", ".xhtml")

MOST_PAGES = 4000  # of one manual
LEAST_TEXT = 200  # characters outside links
SHORT = 40_000  # bytes; a longer page has text
LANGUAGES = frozenset(
    """
    ar bg bn ca cs da de el eo es et eu fa fi fr gl he hi hr hu it ja ka ko lt lv ml nb nl nn pl pt
    ro ru sk sl sq sr sv ta th tr uk ur vi zh
    """.split()
)
REGION = re.compile(r"(?!en)[a-z]{2,3}[-_][A-Z]{2}")
# Pages that a program made: indexes, searches, listings of sources, whole manuals on one page.
GENERATED_FOLDERS = frozenset("_modules _sources _static search class-use src-html".split())
GENERATED = re.compile(
    r"genindex.*|.*modindex|search(results?)?|navtree|(index|contents)?[-_]?toc|sitemap|doclist"
    r"|(book|the|doc|keyword|concept|function|command|variable|operator|opcode|properties|lilypond)"
    r"[-_]?index([-_]\w+)?|[\w-]+-(properties|command)-index|ix\d+|index-(all|\d+)|404|noscript"
    r"|all(classes|packages)(-(frame|noframe|index))?|overview-(frame|tree|summary)|help-doc"
    r"|package-(frame|tree|use|list)|constant-values|deprecated-list|serialized-form|.*-big-page",
    re.IGNORECASE,
)
DOXYGEN = re.compile(rb"generated by doxygen|content=[\"']doxygen", re.IGNORECASE)
DOXYGEN_LISTS = re.compile(
    r"annotated|classes|files|hierarchy|inherits|namespaces|(functions|globals|namespacemembers)"
    r"(_.*)?|.*-members|.*_source"
)
FRAMES = re.compile(rb"<frameset\b", re.IGNORECASE)
REFRESH = re.compile(rb"<meta[^>]+http-equiv=[\"']?refresh[^>]+url=", re.IGNORECASE)
NO_SCRIPT = re.compile(rb"<noscript\b.*?</noscript\s*>", re.IGNORECASE | re.DOTALL)
LANGUAGE = re.compile(rb"<html\b[^>]*?\blang=[\"']?([a-z]{2,3})\b", re.IGNORECASE)
OUTSIDE_TEXT = re.compile(
    rb"<(script|style|head|nav|header|footer|a)\b.*?</\1\s*>|<!--.*?-->|<[^>]*>|&\w+;",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Fetched:
    """What `fetch` found.

    Fields
        found: the folder of each manual
        missing: the packages that could not be had, each with the reason"""

    found: Mapping[str, Path]
    missing: Mapping[str, str]


def fetch(
    packages: Iterable[str], folder: Path, tell: Tell, installed: Path = INSTALLED
) -> Fetched:
    """Download the manuals of `packages` into `folder`. What is there already is not downloaded
    again. A star in the name of a package stands for a version: of the packages that fit, the
    newest is taken. A metapackage stands for the documentation that it depends on."""
    found, missing = {}, {}
    offline = ""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for package in dict.fromkeys(packages):
        require(bool(NAME.fullmatch(package)), f"{shown(package)} is not the name of a package")
        place = folder / re.sub(r"[-.]?\*", "", package)
        reason = "" if place.is_dir() else offline or _fetched(package, place, tell)
        if not reason:
            found[package] = place
        elif (manual := _installed(package, installed)) is not None:
            tell(f"{package}: the manual in {manual}, because {reason}")
            found[package] = manual
        else:
            tell(f"{package}: missing, because {reason}")
            missing[package] = reason
        if OFFLINE.search(reason.lower()):
            offline = reason  # every package would wait as long, and fail
    return Fetched(found, missing)


class _Failed(Exception):
    """A package cannot be had; the text says why."""


def _fetched(package: str, place: Path, tell: Tell) -> str:
    """Make the folder of a manual, or return the reason why it cannot be had."""
    with writing(place), TemporaryDirectory(prefix=f".{place.name}-", dir=place.parent) as aside:
        made, tree = Path(aside) / "made", Path(aside) / "tree"
        tell(f"{package}: downloading")
        try:
            archives = _unpacked(_names(package), tree)
        except _Failed as failed:
            return str(failed)
        pages = sum(_kept(file, made / file.relative_to(tree)) for file in _files(tree))
        if pages == 0:
            return f"{', '.join(archives)} has no HTML pages"
        (made / PACKAGES).write_text("".join(f"{name}\n" for name in archives))
        try:
            made.rename(place)
        except OSError:
            if not place.is_dir():  # else another process has just made it
                raise
    tell(f"{package}: {pages:,} HTML files")
    return ""


def _names(package: str) -> list[str]:
    """The names of the packages that fit, the newest version first."""
    if "*" not in package:
        return [package]
    pattern = re.compile(re.escape(package).replace(r"\*", r"[\d.]+"))
    known = _output("apt-cache", "pkgnames", package.partition("*")[0]).split()
    names = sorted(filter(pattern.fullmatch, known), key=_version, reverse=True)
    if not names:
        raise _Failed(f"apt-cache knows no package {package}")
    return names


def _version(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def _unpacked(names: Sequence[str], tree: Path, depth: int = 0) -> list[str]:
    """Unpack the first package that can be downloaded. If it has no HTML pages, unpack the
    documentation that it depends on as well. Returns the names of the archives."""
    archive = _downloaded(names, tree.parent)
    _output("dpkg-deb", "-x", str(archive), str(tree))
    depends = _output("dpkg-deb", "-f", str(archive), "Depends")
    archive.unlink()
    archives = [archive.name]
    if depth < DEEPEST and not any(map(_is_html, _files(tree))):
        for name in re.findall(r"(?:^|,)\s*([a-z0-9+.-]+-docs?(?:-[a-z0-9+.]+)?)", depends):
            archives += _unpacked([name], tree, depth + 1)
    return archives


def _downloaded(names: Sequence[str], work: Path) -> Path:
    """The archive of the first package that can be downloaded; apt may know names that no source
    offers."""
    for name in names:
        try:
            _output(*DOWNLOAD, name, work=work)
        except _Failed as failed:
            if name == names[-1] or OFFLINE.search(str(failed).lower()):
                raise
            continue
        if found := sorted(work.glob("*.deb")):
            return found[0]
    raise _Failed(f"apt-get wrote no archive for {names[-1]}")


def _output(*command: str, work: Path | None = None) -> str:
    """What a command prints. If it fails: its error message."""
    try:
        done = subprocess.run(
            command,
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise _Failed(f"{command[0]} cannot be run: {error.strerror}") from None
    if done.returncode != 0:
        lines = done.stderr.splitlines() or [f"exit code {done.returncode}"]
        errors = [line for line in lines if line.startswith("E:")] or lines[-1:]
        raise _Failed(shortened(f"{command[0]} says: {' '.join(errors)}"))
    return done.stdout


def _files(folder: Path) -> list[Path]:
    return [Path(place, name) for place, _, names in os.walk(folder) for name in names]


def _is_html(path: Path) -> bool:
    return path.name.lower().removesuffix(".gz").endswith(SUFFIXES)


def _kept(file: Path, place: Path) -> bool:
    """Move an HTML file to its place, without compression. A link of the file system is kept if it
    is relative, since pages may be linked to by its name."""
    if not _is_html(file) or (file.is_symlink() and os.path.isabs(os.readlink(file))):
        return False
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.suffix.lower() == ".gz" and not file.is_symlink():
        with gzip.open(file) as packed, open(place.with_suffix(""), "wb") as plain:
            with suppress(gzip.BadGzipFile, EOFError, zlib.error):  # the text before the damage
                shutil.copyfileobj(packed, plain)
    else:
        file.rename(place)
    return True


def _installed(package: str, root: Path) -> Path | None:
    """The manual of a package that is installed: python3-doc has it in python3.11/html."""
    names = {package, package.removesuffix("-doc")}
    patterns = [re.escape(name).replace(r"\*", r"[\d.]+") + r"[-.\d]*" for name in names]
    folders = [
        manual
        for manual in sorted(root.glob("*/html"))
        if any(re.fullmatch(pattern, manual.parent.name) for pattern in patterns)
    ]
    return max(folders, key=lambda manual: _version(manual.parent.name), default=None)


def pages_of(folder: Path, most: int = MOST_PAGES) -> list[Path]:
    """The pages of a manual, in the order of their paths: HTML files in English with text of their
    own. Left out are indexes, search pages, frames, redirections, and all but the first of equal
    files. Of more than `most` pages, those whose paths have the smallest hashes are taken."""
    require(most >= 1, f"most must be 1 or more, got {most}")
    found, seen = [], set()
    for file in sorted(_files(folder)):
        name = file.relative_to(folder)
        if not name.name.lower().endswith(SUFFIXES) or file.is_symlink() or _is_left_out(name):
            continue
        try:
            content = file.read_bytes()
        except OSError:  # a page that cannot be read cannot be searched
            continue
        key = blake2b(content, digest_size=16).digest()
        if key not in seen and _is_page(content, file.stem):
            seen.add(key)
            found.append(file)
    return sorted(sorted(found, key=lambda file: _hash(file.relative_to(folder)))[:most])


def _hash(path: Path) -> bytes:
    return blake2b(path.as_posix().encode(errors="replace"), digest_size=8).digest()


def _is_left_out(path: Path) -> bool:
    """Whether the path of a page says that a program made it, or that it is a translation."""
    *folders, name = path.parts
    stem = name.rpartition(".")[0]
    if GENERATED.fullmatch(stem) or not GENERATED_FOLDERS.isdisjoint(folders):
        return True
    # de/page.html, de_DE/page.html, guide-de/page.html, page.de.html
    ends = [folder.rpartition("-")[2] for folder in folders] + stem.split(".")[1:][-1:]
    return any(part in LANGUAGES or REGION.fullmatch(part) for part in folders + ends)


def _is_page(content: bytes, stem: str) -> bool:
    """Whether a file has text of its own, in English."""
    head = NO_SCRIPT.sub(b"", content[:SHORT])
    if DOXYGEN_LISTS.fullmatch(stem) and DOXYGEN.search(head):
        return False
    language = LANGUAGE.search(head)
    if language and language[1].lower() not in (b"en", b"eng"):
        return False
    if FRAMES.search(head) or REFRESH.search(head):
        return False
    if len(content) > SHORT:
        return True
    return len(b" ".join(OUTSIDE_TEXT.sub(b" ", head).split())) >= LEAST_TEXT
