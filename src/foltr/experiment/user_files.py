"""Components in a user's own Python file: `--use my_rule.py`, `use = ["my_rule.py"]` in a TOML
file, `foltr.use("my_rule.py")`. The files are loaded, whoever names them must be trusted, runs are
told apart by their content, and an error in them is one message."""

from __future__ import annotations

import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from hashlib import blake2b
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Condition
from types import FrameType, ModuleType
from typing import Any

from foltr.core.advice import origin, ours
from foltr.core.errors import Mistake, near
from foltr.core.federation import federate
from foltr.core.spec import FAMILIES, replaced
from foltr.core.system.files import given_path

FOLTR = Path(__file__).parents[1]  # the folder of the package

_contents: dict[str, str] = {}  # module name -> hash of the file
_turn = Condition()
_wanted: dict[Path, str] = {}  # the files of the threads within `using_only`, and their hashes
_threads = 0  # number of these threads


def use(path: str | Path) -> None:
    """Load a Python file that registers components. A file is loaded once, and again if it has
    changed."""
    path = given_path(path)
    file = Path(os.path.realpath(path))
    source = _source(path)
    content, name = _sum(source), _module(file)
    if _contents.get(name) == content:
        return
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise Mistake(f"{path} is not a Python file")
    module = module_from_spec(spec)
    try:
        with replaced(name), _in_place_of(name, module):
            # never from a __pycache__ beside it
            exec(compile(source, file, "exec", dont_inherit=True), vars(module))
    except Mistake as mistake:
        raise Mistake(f"{mistake}{_place(file, mistake)}") from mistake
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}{_place(file, error)}"
        if isinstance(error, ImportError | AttributeError):
            what += _new_import(source, error)
        raise Mistake(f"{path} could not be loaded: {what}") from error
    _contents[name] = content


@contextmanager
def _in_place_of(name: str, module: ModuleType) -> Iterator[None]:
    """Import `module` under this name. If its code raises, the module of before is back."""
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        yield
    except BaseException:
        if before is None:
            del sys.modules[name]
        else:
            sys.modules[name] = before
        raise


def _place(file: Path, error: BaseException) -> str:
    """The line of a user's file, or of a module beside it, that raised an error while the file was
    loaded. A syntax error has its own."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).parent == file.parent]
    if not own:
        return ""
    where = "" if own[-1].name == "<module>" else f", in {own[-1].name}"
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno}{where})"


def _new_import(source: bytes, error: Exception) -> str:
    """What to write instead of what a user's file wants of foltr."""
    if isinstance(error, ImportError) and not (error.name or "").startswith("foltr"):
        return ""
    wanted = re.search(r"cannot import name '(\w+)' from 'foltr' ", str(error))
    known = [name for family in FAMILIES for name in family.members()]
    misspelt = near(wanted[1], known) if wanted else None
    return f". Did you mean {misspelt!r}?" if misspelt else ""


@contextmanager
def using_only(paths: Iterable[str | Path]) -> Iterator[None]:
    """Within it these files are loaded, and no others: a worker that serves several sweeps may
    meet one name in two files. Threads with the same files share them; a thread with others waits
    until they are through."""
    global _wanted, _threads
    files = {Path(path).resolve(): _sum(_source(path)) for path in paths}
    with _turn:
        while _threads and _wanted != files:
            _turn.wait()
        if not _threads:
            use_only(files)
        _wanted, _threads = files, _threads + 1
    try:
        yield
    finally:
        with _turn:
            _threads -= 1
            _turn.notify_all()


def use_only(paths: Iterable[str | Path]) -> None:
    """`use` these files and forget all others."""
    files = [Path(path).resolve() for path in paths]
    for name in set(_contents) - {_module(file) for file in files}:
        for family in FAMILIES:
            family.forget(name)
        del _contents[name]
    for file in files:
        use(file)


@dataclass(frozen=True)
class Code:
    """Which Python files a command loads before it builds an experiment: those `given` by --use
    and, if `trusted`, those that the experiment's own file names. A file that is not trusted may
    name only files that are `given`: no code is loaded because somebody else's file says so."""

    given: tuple[Path, ...] = ()
    trusted: bool = True
    announce: bool = False  # print each given file before it is loaded, if not `trusted`
    hashes: Mapping[str, Any] = field(default_factory=dict)  # of the files of a run, by name

    def load(self, by: Path | None, named: Sequence[Path]) -> None:
        """Load the files for `by`, the experiment's file, which names the files `named`."""
        if self.trusted or by is None:
            for file in (*named, *self.given):
                use(file)
            return
        self._check_named(by, named)
        self._check_hashes(by)
        for file in self.given:
            if self.announce:
                print(f"foltr: loading {file}", file=sys.stderr, flush=True)
            use(file)

    def _check_named(self, by: Path, named: Sequence[Path]) -> None:
        """Every named file is given: the same path, or another file of that name, because folders
        move and a copy may be trusted."""
        wanted = {os.path.realpath(file): file for file in named}
        found = {os.path.realpath(file): file for file in self.given}
        others = [file.name for path, file in found.items() if path not in wanted]
        for file in (file for path, file in wanted.items() if path not in found):
            if file.name not in others:
                option = _word(file if file.is_file() else file.name)
                raise Mistake(
                    f"{by} needs the code of {_word(file)}: if you trust it, add --use {option}"
                )
            others.remove(file.name)

    def _check_hashes(self, by: Path) -> None:
        """Given files that have the name of a file that a run was made with are that file."""
        for name, content in self.hashes.items():
            same = [file for file in self.given if file.name == name]
            if same and content not in [_sum(_source(file)) for file in same]:
                raise Mistake(
                    f"{same[0]} is not the {name} that {by.parent} was made with: give that file,"
                    " or make the run again with this one"
                )


def _word(path: str | Path) -> str:
    """Quoted for a shell, and without control characters for a terminal."""
    return shlex.quote(str(path)) if str(path).isprintable() else repr(str(path))


def _module(file: Path) -> str:
    return f"foltr_user_{file.stem}_{blake2b(str(file).encode(), digest_size=4).hexdigest()}"


def files_behind(thing: Any) -> dict[str, str]:
    """The files given to `use` that define components of `thing`: path -> hash of the content."""
    modules = [cls.__module__ for cls in classes_behind(thing) if cls.__module__ in _contents]
    return {str(sys.modules[name].__file__): _contents[name] for name in modules}


def sources_behind(thing: Any) -> dict[str, str | None]:
    """Every source file outside foltr that defines components of `thing`, also a script or an
    installed package: name -> hash of the content, None where there is no file (a notebook, a
    prompt)."""
    found: dict[str, str | None] = {}
    for cls in classes_behind(thing):
        name, file = cls.__module__, getattr(sys.modules.get(cls.__module__), "__file__", None)
        if name in _contents:
            found[Path(str(file)).name] = _contents[name]
        elif name.partition(".")[0] not in ("foltr", "builtins"):
            source = Path(file or "")
            found[source.name or cls.__name__] = (
                _sum(source.read_bytes()) if source.is_file() else None
            )
    return found


def code_of(thing: Any) -> str:
    """The hash of the files outside foltr that define `thing`; nothing if foltr does."""
    return "-".join(sorted(filter(None, sources_behind(thing).values())))


def check_in_files(thing: Any, apart: bool = False) -> None:
    """Raise a Mistake if runs of `thing` cannot be kept, because no file says what its code is;
    or, if they are made by other processes (`apart`), because these cannot load it. Warn if a file
    has changed since it was loaded."""
    for cls in classes_behind(thing):
        name, module = cls.__module__, sys.modules.get(cls.__module__)
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] in ("foltr", "builtins"):
            continue
        if name in _contents:
            _check_is_loaded(cls, Path(str(file)), apart)
        elif not Path(file or "").is_file():
            raise Mistake(
                f"{cls.__name__} is in no file (a notebook's cell, a prompt): no other process can"
                " load it, and its runs could not be distinguished from those of another version"
                f" of it. {_way_out(cls)}, or run it alone, by Experiment.run() without out"
            )
        elif apart:
            raise Mistake(
                f"{cls.__name__} is in {Path(str(file)).name}, which other processes do not load."
                f" {_way_out(cls)}, or make one run at a time (jobs=1)"
            )


def _way_out(cls: type) -> str:
    file = f"{cls.__name__.lower()}.py"
    return (
        f"Write it to a file of its own with its imports (in a notebook, begin the cell with"
        f" %%writefile {file}) and load it by foltr.use({file!r})"
    )


def _check_is_loaded(cls: type, file: Path, apart: bool) -> None:
    """Raise a Mistake if a class is of a file as it was before it was loaded again; or if it has
    changed on disk, and others would load it."""
    now = getattr(sys.modules[cls.__module__], cls.__name__, cls)
    if now is not cls:
        raise Mistake(
            f"this {cls.__name__} is of {file.name} as it was before it was loaded again: make the"
            " experiment again"
        )
    try:
        changed = _sum(file.read_bytes()) != _contents[cls.__module__]
    except OSError:
        changed = apart  # a file that is gone: what is loaded stays, but nobody else can load it
    told = f"{file.name} has changed since it was loaded"
    again = f"foltr.use({file.name!r}) loads it again"
    # IPython's autoreload puts new code into the classes that are loaded
    if changed and (apart or "IPython.extensions.autoreload" in sys.modules):
        raise Mistake(f"{told}: {again}; then make the experiment again")
    if changed:
        warnings.warn(f"{told}: this run is of the code before. {again}", stacklevel=5)


def classes_behind(thing: Any) -> Iterator[type]:
    """The classes of a component and of all components inside it."""
    yield type(thing)
    parts = [getattr(thing, field.name) for field in fields(thing)] if is_dataclass(thing) else []
    for part in thing if isinstance(thing, tuple) else parts:
        yield from classes_behind(part)


def _source(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise Mistake(f"cannot read {path}: {error.strerror}") from None


def _sum(source: bytes) -> str:
    return blake2b(source, digest_size=16).hexdigest()


def in_users_code(error: BaseException) -> str:
    """The message for an error that was raised in a user's component: one line that says where and
    what (in whose method, in which round), and the user's own lines without foltr's; empty if no
    user's code took part, and for errors that explain themselves."""
    if isinstance(error, Mistake):
        return ""
    frames, users = list(_frames(error)), _users_files()
    own = [(frame, line) for frame, line in frames if frame.f_code.co_filename in users]
    if not own:
        return ""
    after = [frame for frame, _ in frames[frames.index(own[-1]) + 1 :]]
    if isinstance(error, FloatingPointError | MemoryError | OSError) and any(map(_ours, after)):
        return ""  # foltr raised it, and says what to do
    first, (last, line) = own[0][0], own[-1]
    where = [*_round(frames), *getattr(error, "__notes__", [])]
    place = f"{Path(last.f_code.co_filename).name}, line {line}"
    what = f"{type(error).__name__}: {error}{_hint(error, last)}"
    method = first.f_code.co_qualname.replace("<locals>.", "")
    head = f"{method} failed ({', '.join([*where[-1:], place])}): {what}"
    listed = traceback.format_list(traceback.StackSummary.extract(iter(own)))
    return "\n".join([head, *"".join(listed).rstrip().splitlines()])


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    """Where an error passed through; of one that was raised anew, to say of which client it is,
    where the first one did too."""
    yield from traceback.walk_tb(error.__traceback__)
    if isinstance(error, FloatingPointError) and error.__cause__ is not None:
        yield from _frames(error.__cause__)


def _ours(frame: FrameType) -> bool:
    return FOLTR in Path(frame.f_code.co_filename).parents


def _users_files() -> set[str]:
    """The files outside foltr that registered components are defined in."""
    found = [cls for family in FAMILIES for cls in family.members().values()]
    return {origin(cls) for cls in found if not ours(cls)}


def _round(frames: list[tuple[FrameType, int]]) -> list[str]:
    """The round that was being computed, if any was."""
    rounds = [frame.f_locals["t"] for frame, _ in frames if frame.f_code is federate.__code__]
    return [f"round {t}" for t in rounds[-1:]]


def _hint(error: BaseException, frame: FrameType) -> str:
    """How to correct a misspelt name, and what is never allowed."""
    if isinstance(error, AttributeError) and isinstance(error.name, str):
        close = near(error.name, (name for name in dir(error.obj) if not name.startswith("_")))
        return f". Did you mean {close!r}?" if close else ""
    if isinstance(error, ValueError) and "read-only" in str(error):
        return ". What foltr gives to a component may not be changed: copy it first"
    return ""
