"""What error messages advise whoever writes a component or its spec: what a class lacks to be a
component of its family, which fields it has, what it gave instead of what is expected, and under
which name a method of the literature is found."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from foltr.core.errors import Mistake, did_you_mean, shown, with_article

# A component that makes numbers that are not finite, of numbers up to this size, is wrong. Larger
# ones have grown from round to round: the steps are too large.
MODERATE = 1e9
# by family: the class of `foltr.core.kinds` that gives the members that most have in common, those
# members, and for some of them a line to add instead
BASES: dict[str, tuple[str, dict[str, str]]] = {
    "learner": (
        "LearnerDefaults",
        {
            "separate_searches": "separate_searches = False",
            "remembered": "",
            "personal": "",
            "check_message": "",
            "restricted": "",
            "user_draws": "",
            "fits": "def fits(self, optimizer): return ()",
        },
    ),
    "aggregator": (
        "Memoryless",
        {
            "looks_at": "looks_at = 'rows'",
            "is_mean": "is_mean = False",
            "keeps_agreement": "keeps_agreement = True",
            "trusted_queries": "trusted_queries = 0",
            "knows_clients": "knows_clients = False",
            "fits": "def fits(self, n): return ()",
            "init": "",
            "__call__": "",
        },
    ),
    "optimizer": ("OptimizerDefaults", {"step_size": "step_size = None"}),
    "partition": (
        "PartitionDefaults",
        {
            "identical_clients": "identical_clients = False",
            "most_sessions": "def most_sessions(self, sessions): return sessions",
        },
    ),
    "attack": (
        "ChangesMessages",
        {
            "rewrites": "rewrites = True",
            "overhears": "overhears = True",
            "users": "users = None",
            "fits": "def fits(self, n, m): return ()",
        },
    ),
    "privatizer": (
        "PrivatizerDefaults",
        {
            "acts_on": "acts_on = 'updates'",
            "needs_equal_weights": "needs_equal_weights = False",
            "ball": "ball = None",
            "adds_noise_on_server": "",
            "clips_on_arrival": "clips_on_arrival = False",
            "on_reward": "",
            "on_client": "",
            "on_arrival": "",
            "on_server": "",
        },
    ),
    "unlearner": (
        "UnlearnerDefaults",
        {
            "repetition": "repetition = 0",
            "subtracts": "subtracts = False",
            "restarts": "restarts = False",
            "handed": "handed = 0",
            "stores": "stores = 'nothing'",
            "fits": "def fits(self, sessions): return ()",
            "planned": "def planned(self, rounds, sessions, stored): return None",
            "start": "",
        },
    ),
}
SENDS_UPDATES = "inherit SendsUpdates of foltr.core.kinds, if it sends updates"
TABLED = "inherit TableClickModel of foltr.core.kinds, if `tables` gives two tables"
# members that no such class can give -> what to write, and what else would do
OWN = {
    ("learner", "sessions"): ("add the field `sessions: int`", ""),
    ("learner", "reward_levels"): ("add `reward_levels = 0`", SENDS_UPDATES),
    ("learner", "decode"): ("write decode(self, payloads, params)", SENDS_UPDATES),
    ("click model", "tables"): (
        "write tables(self, grades, depth), which returns None if there are no tables",
        "",
    ),
    ("click model", "clicks"): ("write clicks(self, shown, grades, rng)", TABLED),
}
# Other names of components in the literature.
OTHER_NAMES = {
    "FPDGD": "it is PDGD with more than one client",
    "FedAvg": "it is Mean",
    "FedProx": "it is PDGD with mu > 0",
    "FedSGD": "it is PDGD with update='round'",
    "FOLtR-ES": "it is ES",
    "FOLtRES": "it is ES",
    "MSE": "it is LeastSquares",
    "SVMRank": "it is RankingSVM",
    "SecAgg": "it is SecureSum",
    "NonIID": "it is ByIntent, ByLabel, ByClicks or ByVolume",
    "LIE": "it is LittleIsEnough",
    "ALIE": "it is LittleIsEnough",
    "IPM": "it is InnerProduct",
    "DataSharing": "it is Sharing, a partition around another",
    "Ditto": "it is Personal",
    "PGA": "it is GradientAscent",
    "RFA": "it is GeometricMedian",
    "CClip": "it is CenteredClipping",
    "TrMean": "it is TrimmedMean",
    "CWMed": "it is Median",
    "Resampling": "it is Bucketing",
    "DivideAndConquer": "it is DnC",
}


def problems(family: str, protocol: type, cls: type) -> tuple[str, list[str]]:
    """What is wrong with a class, in a few words, and what to write; ("", []) if nothing is. It
    asks only what can be known without making an object."""
    if told := list(_missing(family, protocol, cls)):
        names = ", ".join(_lacking(protocol, cls))
        return f"is no {family}: it has no {names}", told
    return "cannot be used", list(_misshapen(protocol, cls))


def _lacking(protocol: type, cls: type) -> list[str]:
    """Members of the protocol that the class has not, and those that its base leaves open."""
    there = {*dir(cls), *(field.name for field in fields(cls))} if is_dataclass(cls) else dir(cls)
    left_open = sorted(getattr(cls, "__abstractmethods__", ()))
    missing = [name for name in verbs(protocol) if name not in there]
    return [*missing, *(name for name in left_open if name not in missing)]


def _missing(family: str, protocol: type, cls: type) -> Iterator[str]:
    base, given = BASES.get(family, ("", {}))
    names = _lacking(protocol, cls)
    if inherited := [name for name in names if name in given]:
        lines = [f"`{given[name]}`" for name in inherited if given[name]]
        inherit = f"inherit {base} of foltr.core.kinds"
        all_known = len(lines) == len(inherited)
        yield f"add {', '.join(lines)}, or {inherit}" if all_known else inherit
    options: dict[str, list[str]] = {}
    for name in (name for name in names if name not in given):
        line, otherwise = OWN.get((family, name), (_to_write(protocol, cls, name), ""))
        options.setdefault(otherwise, []).append(line)
    for otherwise, lines in options.items():
        yield f"{' and '.join(lines)}{', or ' if otherwise else ''}{otherwise}"


def _to_write(protocol: type, cls: type, name: str) -> str:
    """The head of a method as its protocol or base class has it; for a property, its line."""
    member = inspect.getattr_static(cls, name, None) or vars(protocol).get(name)
    if inspect.isfunction(member):
        return f"write {name}{_parameters(member)}"
    return f"write it as a property: @property, def {name}(self)"


def _parameters(function: Any) -> str:
    """The parameters as one writes them, without annotations."""
    signature = inspect.signature(function)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(plain))


def _misshapen(protocol: type, cls: type) -> Iterator[str]:
    """Methods that cannot be called as foltr calls them, and methods that should be values."""
    for name, member in _own(cls).items():
        expected = vars(protocol).get(name) or _of_ours(cls, name)
        if isinstance(expected, property) and inspect.isfunction(member):
            yield f"{name} is asked for without brackets: write @property above `def {name}(self)`"
        elif inspect.isfunction(expected) and isinstance(member, property):
            yield f"{name} is called: take @property away, write {name}{_parameters(expected)}"
        elif inspect.isfunction(expected) and inspect.isfunction(member):
            if not _takes(member, expected):
                given, wanted = _parameters(member), _parameters(expected)
                yield f"{name} takes {given}: write {name}{wanted}"


def _takes(member: Any, expected: Any) -> bool:
    """Whether a method can be called as another one is: by position, and parameters that have a
    default by name."""
    wanted = list(inspect.signature(expected).parameters.values())
    named = {p.name: None for p in wanted if p.default is not inspect.Parameter.empty}
    required = [None for p in wanted if p.name not in named and p.kind is not p.VAR_POSITIONAL]
    signature = inspect.signature(member)
    try:
        signature.bind(*required)
        signature.bind(*required, **named)
    except TypeError:
        return False
    return True


def verbs(protocol: type) -> list[str]:
    return list(filter(_public, vars(protocol)))


def _own(cls: type) -> dict[str, Any]:
    """What a user's class, or a user's base of it, defines."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if not ours(base):
            found |= {name: each for name, each in vars(base).items() if _public(name)}
    return found


def _public(name: str) -> bool:
    return name == "__call__" or not name.startswith("_")


def _of_ours(cls: type, name: str) -> Any:
    """A member as the nearest base class of foltr's has it."""
    return next(
        (vars(base)[name] for base in cls.__mro__ if ours(base) and name in vars(base)), None
    )


def ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in ("foltr", "builtins", "abc", "typing")


def origin(cls: type) -> str:
    """Where a class comes from: its module of foltr's, or the user's file."""
    try:
        return cls.__module__ if ours(cls) else inspect.getfile(cls)
    except (TypeError, OSError):  # a prompt
        return cls.__module__


def no_field(cls: type, name: str) -> str:
    """What to say to whoever gives a field that a component has not."""
    value = vars(cls).get(name)
    if value is not None and not callable(value) and not isinstance(value, property):
        return f"annotate it in the class: {name}: {type(value).__name__} = {value!r}"
    known = [field.name for field in fields(cls)]
    return did_you_mean(name, known) if known else "it has no fields"


def example(cls: type) -> str:
    """How to write a component with the fields that it needs."""
    needed = [
        f"{field.name}=..."
        for field in fields(cls)
        if field.init and field.default is MISSING and field.default_factory is MISSING
    ]
    return f"write {cls.__name__}({', '.join(needed)})"


def unwritable_field(cls: type, protocols: list[type]) -> str:
    """What to say of a user's field whose annotation has no values that a spec can hold; empty if
    there is none."""
    if ours(cls):
        return ""
    try:
        hints = get_type_hints(cls)
    except (NameError, TypeError, AttributeError):  # a name that the file defines further down
        return ""
    for field in fields(cls):
        if field.init and not _writable(hints.get(field.name, Any), protocols):
            kind = field.type.__name__ if isinstance(field.type, type) else field.type
            known = (
                "bool, int, float, str, Literal[...], a tuple of these, or a protocol (Learner)"
            )
            return f"{cls.__name__}.{field.name}: no spec can hold {kind}: annotate it as {known}"
    return ""


def _writable(hint: Any, protocols: list[type]) -> bool:
    if get_origin(hint) in (Union, types.UnionType, tuple):
        return all(_writable(each, protocols) for each in get_args(hint))
    if get_origin(hint) is Literal:
        return True
    plain = (Any, Ellipsis, type(None), bool, int, float, str)
    return any(hint is each for each in (*plain, *protocols))


def kind(value: object) -> str:
    """What a component returned, in a few words."""
    if value is None:
        return "nothing (is `return` missing?)"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)} values"
    if shape := np.shape(value):  # type: ignore[call-overload]
        return f"{with_article(type(value).__name__)} of shape {tuple(shape)}"
    return shown(value)


def unlike(given: object, shape: tuple[int, ...], dtype: str) -> str:
    """What was given, what is due instead, and how to make that of it."""
    due = f"{kind(given)}, not {dtype} of shape {shape}"
    if isinstance(given, tuple | list):
        return f"{due}: write np.array(..., np.{dtype})"
    if not isinstance(given, np.ndarray):
        return f"{due}: write .detach().numpy()" if "detach" in dir(given) else due  # torch
    if given.size != int(np.prod(shape)) or given.dtype.kind not in "fiub":
        return due
    sizes = ", ".join(map(str, shape)) if len(shape) > 1 else "-1"
    reshaped = "" if given.shape == shape else f".reshape({sizes})"
    retyped = f".astype(np.{dtype})" if given.dtype.char not in "df" else ""
    return f"{due}: write {reshaped}{retyped}"


def not_finite(made: str, given: np.ndarray, **of: np.ndarray) -> Exception:
    """The error for numbers that are not finite, with their count and the size of what they were
    made `of`: a mistake of the component that made them, unless those were large already."""
    bad = [
        f"{count:,} {word}"
        for word, count in (("NaN", np.isnan(given).sum()), ("infinite", np.isinf(given).sum()))
        if count
    ]
    sizes = {name: float(np.abs(part).max(initial=0.0)) for name, part in of.items()}
    sources = " and ".join(f"{name} of up to {size:.3g}" for name, size in sizes.items())
    text = f"{made} that are not finite: {' and '.join(bad)} of {given.size:,}"
    text += f", from {sources}" if sources else ""
    grown = not all(size <= MODERATE for size in sizes.values())
    return FloatingPointError(text) if grown else Mistake(text)
