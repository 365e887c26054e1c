"""`foltr export`: the ranker of a run as a model for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foltr.cli.tools import UseOnly, given_code
from foltr.core.errors import Mistake

TO = (
    "The format: json (any language), onnx, opensearch or elasticsearch (their learning-to-rank"
    " plugins), python (a file without dependencies), or sklearn (a scikit-learn estimator)."
)


def export(
    run: Annotated[
        Path,
        typer.Argument(
            help="The folder of a finished run, the state folder of a server, or a ranker.json."
        ),
    ],
    to: Annotated[str, typer.Option(metavar="FORMAT", help=TO)],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The file to write, or a folder for it. Default: ranker.json, ranker.onnx,"
            " ranker.py, ... in this folder.",
            show_default=False,
        ),
    ] = None,
    features: Annotated[
        Path | None,
        typer.Option(
            help="A file with the names of the features, one per line, in order. Default: the"
            " ranker's names, or 1, 2, 3, ...",
            show_default=False,
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            help="The name of the model. Default: the name of the run's folder.",
            show_default=False,
        ),
    ] = None,
    normalize: Annotated[
        bool,
        typer.Option(
            "--normalize",
            help="The exported model normalises features per query. For rankers that were trained"
            " with normalize=True and do not store it: those of a deployed federation and of foltr"
            " 0.2.",
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing file whose content differs.")
    ] = False,
    use: UseOnly = None,
) -> None:
    """Write the ranker of a run as a model for other programs.

    If the ranker stores how its features were normalised, the model takes raw features and
    normalises them in the same way. Otherwise it takes features that are normalised already. It
    gives the scores that foltr gives. If the features are normalised per query, the model needs
    all documents of a query at once. opensearch and elasticsearch score each document by itself:
    such rankers, and neural ones, cannot be exported to them.

    If the run has component files of your own (`use` in its config), give them by --use, too."""
    from foltr.simulation.exports.export import exported

    names = None if features is None else read_names(features)
    made = exported(run, to, out, names, name, normalize, overwrite, given_code(use))
    model, unchanged = (made.model, "" if made.new else " (the file is unchanged)")
    print(f"{made.out}: {model.trained.ranker!r} over {model.features} features{unchanged}")
    print(f"it takes {model.takes}")
    if model.trained.names is None:
        print("its features are called 1, 2, 3, ...: --features FILE gives them names")
    print(made.format.usage(model, made.out))


def read_names(file: Path) -> tuple[str, ...]:
    """The names of features in a file, one per line."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise Mistake(f"cannot read {file}: {error.strerror}") from None
    except ValueError:
        raise Mistake(f"{file} is not text in UTF-8") from None
    names = [line.strip() for line in lines]
    while names and not names[-1]:
        names.pop()
    if "" in names:
        raise Mistake(f"{file}, line {names.index('') + 1} is empty: give one name per line")
    return tuple(names)
