"""What the commands share: error messages, the values that users type, and common options."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foltr.core.errors import Mistake, explained, require

if TYPE_CHECKING:
    from foltr.experiment.user_files import Code

TRUTH_VALUES = {"true": True, "false": False}

Use = Annotated[
    list[Path] | None,
    typer.Option(help="A Python file with your own components. Can be given more than once."),
]
UseOnly = Annotated[
    list[Path] | None,
    typer.Option(
        help="A Python file with your own components. Can be given more than once. No other code"
        " is loaded, even if the TOML file names it."
    ),
]
Out = Annotated[Path, typer.Option(help="Folder in which run folders are kept.")]
Engine = Annotated[
    str, typer.Option(help="local (compiled kernels) or debug (plain Python definitions).")
]
Threads = Annotated[int, typer.Option(help="Number of threads. Results do not depend on it.")]
Seed = Annotated[int, typer.Option(help="Seed of all random draws.")]
Delta = Annotated[float, typer.Option(help="The delta of (epsilon, delta)-differential privacy.")]
PerQuery = Annotated[
    bool, typer.Option("--per-query", help="Keep the final measures of each held-out query.")
]
Jobs = Annotated[
    int | None,
    typer.Option(help="Number of runs at a time. Default: one per core.", show_default=False),
]
Dask = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="A dask scheduler whose workers can see the folder of --out."
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Override a field that the sweep does not vary."
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITIONS",
        help="Only the experiments with these values, as in 'seed=1|2, data.fold=1'. They form"
        " a sweep with a record of its own.",
    ),
]
RunThreads = Annotated[
    int, typer.Option(help="Number of threads of each run. Results do not depend on it.")
]
Measures = Annotated[
    str,
    typer.Option(
        metavar="SPECS",
        help="More measures to record, such as 'nDCG(k=5), ERR(k=20), MAP()'."
        " `foltr list measures` lists all.",
    ),
]
Logs = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="TOOL",
        help="Log the run with tensorboard, mlflow or wandb. Can be given more than once.",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Use no TLS and no node authentication. For tests with all processes on one machine.",
    ),
]
LogForm = Annotated[
    str,
    typer.Option(
        "--log",
        metavar="FORMAT",
        envvar="FOLTR_LOG",
        help="Format of the log: text, or json (one JSON object per line, for programs).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the results as one line of JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print no progress.")]


@contextmanager
def logged(form: str, process: str) -> Iterator[Callable[[str], None]]:
    """The log of a process: yields a function that writes a line. With `json`, an error that ends
    the process is also written as a line of JSON, to standard error."""
    from foltr.core.system.log import FORMS, Event, writer

    require(form in FORMS, f"--log {form!r}: choose text or json")
    try:
        yield writer(form, process)
    except (Mistake, FloatingPointError, MemoryError, OSError) as error:
        if form == "text" or isinstance(error, BrokenPipeError):
            raise
        writer(form, process, sys.stderr)(Event(explained(error), "ended", "error"))
        raise typer.Exit(2) from None


def with_error_messages(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function. An error that the user can correct is one message and exit
    code 2. An interruption prints how to continue. The help text is the function's docstring."""

    @wraps(command)
    def call(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **{name: expanded(value) for name, value in kwargs.items()})
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of our output has ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except Mistake as mistake:
            print(f"foltr: {mistake}", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyboardInterrupt as stop:
            message = str(stop) or "stopped before any run began; nothing is lost"
            print(f"\nfoltr: {message}", file=sys.stderr)
            raise typer.Exit(128 + getattr(stop, "signum", 2)) from None
        except Exception as error:
            from foltr.experiment.user_files import in_users_code

            known = isinstance(error, FloatingPointError | MemoryError | OSError)
            message = in_users_code(error)
            if not message and not known:
                raise
            print(f"foltr: {message or explained(error)}", file=sys.stderr)
            raise typer.Exit(1 if message else 2) from None

    call.__doc__ = paragraphs(command)
    return call


def expanded(value: Any) -> Any:
    """The value of an option; in a path, `~` is the home folder, where the shell left it, as in
    --out=~/runs."""
    from foltr.core.system.files import given_path

    if isinstance(value, list):
        return [expanded(each) for each in value]
    return given_path(value) if isinstance(value, Path) else value


def paragraphs(command: Callable[..., None]) -> str:
    """The command's docstring without its line breaks, so that help fits any terminal."""
    parts = (command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts)


def typed_value(text: str) -> Any:
    """A value typed on a command line: a number, true or false, a list, a tuple or another Python
    literal; else text, such as a spec.

    Words that only a command line reads as a number or a truth value (true, 010) stay text that
    carries that value: the field that takes it decides, because text fields exist too."""
    with suppress(ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return ast.literal_eval(text)
    from foltr.core.spec import Ambiguous

    if text in TRUTH_VALUES:
        return Ambiguous.of(text, TRUTH_VALUES[text])
    for kind in (int, float):
        with suppress(ValueError):
            return Ambiguous.of(text, kind(text))
    return text


def typed_fields(words: list[str] | None, option: str) -> dict[str, Any]:
    """The values of an option that is given as FIELD=VALUE: --set rounds=10 --set
    learner.sessions=2."""
    found: dict[str, Any] = {}
    for word in words or []:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise Mistake(f"{option} needs FIELD=VALUE, got {word!r}")
        found[name.strip()] = typed_value(value.strip())
    return found


def typed_choices(words: list[str] | None, option: str) -> dict[str, list[Any]]:
    """The values of an option that is given as FIELD=VALUE, or with several fields and values:
    --only 'seed=1|2, data.fold=1'."""
    found: dict[str, list[Any]] = {}
    for word in words or []:
        for part in _split(word, ",", option):
            name, equals, values = part.partition("=")
            name = name.strip()
            if not equals or not name or not values.strip():
                raise Mistake(
                    f"{option} needs FIELD=VALUE, got {part.strip()!r} (text with a comma needs"
                    " quotes: method='A, B')"
                )
            if name in found:
                raise Mistake(f"{option} names {name} twice: for several values, give {name}=1|2")
            found[name] = [typed_value(value.strip()) for value in _split(values, "|", option)]
    return found


def _split(text: str, by: str, option: str) -> list[str]:
    """Parts of a text, divided outside of quotes and brackets."""
    parts, quote, depth = [""], "", 0
    for letter in text:
        before = parts[-1].rstrip()[-1:]
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and before in ("", *"=|([,{"):
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == by and not depth:
            parts.append("")
            continue
        parts[-1] += letter
    if quote or depth:
        raise Mistake(f"{option}: quotes or brackets of {text!r} are not closed")
    return parts


def trusted_code(files: list[Path] | None) -> Code:
    """The files of --use, and those that the experiment's file names."""
    from foltr.experiment.user_files import Code

    return Code(tuple(files or ()))


def given_code(files: list[Path] | None, quiet: bool = False) -> Code:
    """Only the files of --use: the experiment may be somebody else's."""
    from foltr.experiment.user_files import Code

    return Code(tuple(files or ()), trusted=False, announce=not quiet)
