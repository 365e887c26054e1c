"""A component's repr is its config: "TrimmedMean(trim=2)" in a file, on the command line, in a
report.

A spec is one call with keyword arguments whose values are literals, tuples, or specs of the family
that the field's annotation names. It is parsed, never evaluated. Values are checked and coerced by
annotation however an object is made (1 becomes 1.0, a list a tuple, a string of a family's field
that component), so equal objects have equal reprs."""

from __future__ import annotations

import ast
import inspect
import math
import operator
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import MISSING, field, fields, is_dataclass
from functools import lru_cache, wraps
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from threading import RLock
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from foltr.core import advice
from foltr.core import types as core
from foltr.core.errors import Mistake, did_you_mean, shortened, shown, with_article
from foltr.core.system.files import MOST_BITS
from foltr.core.world import protocols
from foltr.core.world.measures import Measure

T = TypeVar("T", bound=type)
hints_of = lru_cache(None)(get_type_hints)  # of a class: finding them takes long


class Registry:
    """Name -> class, for one family: files of one folder, installed packages, a user's files."""

    def __init__(self, family: str, folder: str, protocol: type) -> None:
        self.family, self.folder, self.protocol = family, folder, protocol
        self._members: dict[str, type] = {}
        self._loaded = False

    def register(self, cls: T) -> T:
        if not is_dataclass(cls) or not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            frozen = "must be a frozen dataclass, because its repr is its config"
            below = f"write @dataclass(frozen=True) below @{self.decorator}"
            raise Mistake(f"{cls.__name__} {frozen}: {below}")
        if not cls.__module__.startswith("foltr."):
            self.members()  # ours first: a clash of names is an error of the other class
        known = self._members.get(cls.__name__)
        # a file may replace what a notebook's cell defined
        if known is not None and known.__module__ not in (cls.__module__, "__main__"):
            raise Mistake(
                f"two {self.family}s are called {cls.__name__}: {advice.origin(known)} and"
                f" {advice.origin(cls)}: rename yours, or do not load it (--use, use=)"
            )
        wrong, write = advice.problems(self.family, self.protocol, cls)
        if write:
            raise Mistake(f"{cls.__name__} {wrong}: {'; '.join(write)}")
        if field := advice.unwritable_field(cls, [each.protocol for each in FAMILIES]):
            raise Mistake(field)
        self._members[cls.__name__] = checked(cls)
        return cls

    @property
    def decorator(self) -> str:
        return self.family.removeprefix("data ").replace(" ", "_")

    def forget(self, module: str) -> None:
        self._members = {
            name: cls for name, cls in self._members.items() if cls.__module__ != module
        }

    def members(self) -> dict[str, type]:
        if not self._loaded:
            with _loading:
                folder = import_module(f"foltr.components.{self.folder}")
                for module in iter_modules(folder.__path__):
                    import_module(f"{folder.__name__}.{module.name}")
                _load_installed()
                self._loaded = True
        return dict(sorted(self._members.items()))

    def holds(self, value: Any) -> bool:
        return type(value) in self._members.values()

    def build(self, spec: str) -> Any:
        """The object that a spec describes."""
        try:
            return self._built(spec)
        except RecursionError:
            raise Mistake(f"{shortened(spec)}: components are nested too deeply") from None

    def _built(self, spec: str) -> Any:
        call = _parse(spec, self.family)
        name, members = call.func.id, self.members()  # type: ignore[attr-defined]
        if name not in members:
            others = [with_article(other.family) for other in FAMILIES if name in other.members()]
            hint = (
                advice.OTHER_NAMES.get(name)
                or (f"it is {others[0]}" if others else "")
                or self._undecorated(name)
                or did_you_mean(name, members)
            )
            raise Mistake(f"no {self.family} is called {name!r}: {hint}")
        values: dict[str, Any] = {}
        for keyword in call.keywords:
            if keyword.arg is None or keyword.arg in values:
                raise Mistake(f"{spec}: give each field once, by name")
            values[keyword.arg] = _value(keyword.value, spec)
        return members[name](**values)

    def _undecorated(self, name: str) -> str:
        """What to say of a class that a user's file defines and does not register."""
        for module, content in list(sys.modules.items()):
            found = vars(content).get(name) if module.startswith(USERS) else None
            if isinstance(found, type):
                return f"{advice.origin(found)} defines it without @{self.decorator} above it"
        return ""


USERS = ("foltr_user_", "__main__")  # modules of users' files begin like this
_installed: list[bool] = []
_loading = RLock()


def _load_installed() -> None:
    """Components of installed packages, found by their entry point. A package that cannot be
    loaded is named, and the others are still there."""
    if not _installed:
        _installed.append(True)
        for point in entry_points(group="foltr.components"):
            try:
                point.load()
            except (Exception, SystemExit) as error:  # noqa: BLE001  (somebody else's code)
                _forget_failed_modules()
                package = point.dist.name if point.dist else point.value
                print(
                    f"foltr: the components of the installed package {package} could not be"
                    f" loaded: {error}",
                    file=sys.stderr,
                )
            except BaseException:  # Ctrl-C: the next call loads them again
                _forget_failed_modules()
                _installed.clear()
                raise


def _forget_failed_modules() -> None:
    """Forget what modules registered before they raised an error: Python has dropped them."""
    for family in FAMILIES:
        for module in {cls.__module__ for cls in family._members.values()} - set(sys.modules):
            family.forget(module)


@contextmanager
def replaced(module: str) -> Iterator[None]:
    """Within it a module registers its components again. If it raises, the old ones are back."""
    before = [dict(family.members()) for family in FAMILIES]  # ours first: clashes are its errors
    for family in FAMILIES:
        family.forget(module)
    try:
        yield
    except BaseException:
        for family, members in zip(FAMILIES, before, strict=True):
            family.forget(module)
            family._members |= members
        raise


sources = Registry("data source", "sources", protocols.Source)
partitions = Registry("partition", "partitions", protocols.Partition)
click_models = Registry("click model", "users", core.ClickModel)
rankers = Registry("ranker", "rankers", core.Ranker)
learners = Registry("learner", "learners", core.Learner)
attacks = Registry("attack", "attacks", protocols.Attack)
aggregators = Registry("aggregator", "aggregators", core.Aggregator)
optimizers = Registry("optimizer", "optimizers", core.Optimizer)
privatizers = Registry("privatizer", "privatizers", core.Privatizer)
channels = Registry("channel", "channels", core.Channel)
unlearners = Registry("unlearner", "unlearners", protocols.Unlearner)
baselines = Registry("baseline", "baselines", protocols.Baseline)
measures = Registry("measure", "measures", Measure)
FAMILIES = (
    sources, partitions, click_models, rankers, learners, attacks, aggregators, optimizers,
    privatizers, channels, unlearners, baselines, measures,
)  # fmt: skip

source, partition, click_model = sources.register, partitions.register, click_models.register
ranker, attack, unlearner = rankers.register, attacks.register, unlearners.register
learner, aggregator, optimizer = learners.register, aggregators.register, optimizers.register
privatizer, channel = privatizers.register, channels.register
baseline, measure = baselines.register, measures.register


def added(**metadata: str) -> Any:
    """The default of a field that is younger than finished runs: None, and then not in the repr.
    So these runs keep their identity."""
    return field(default=None, metadata={"added": True, **metadata})


def checked(cls: T) -> T:
    """Make a frozen dataclass check and coerce what it is given, and answer a misspelt field with
    the right one."""
    given: Any = cls.__init__  # type: ignore[misc]
    if any("added" in each.metadata for each in fields(cls)):
        cls.__repr__ = _repr  # type: ignore[assignment]
    signature = inspect.signature(cls)

    @wraps(given)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if wrong := [name for name in kwargs if name not in signature.parameters]:
            raise Mistake(
                f"{cls.__name__} has no field {wrong[0]!r}: {advice.no_field(cls, wrong[0])}"
            )
        try:
            values = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise Mistake(f"{cls.__name__}: {error}: {advice.example(cls)}") from None
        values = {
            name: coerce(value, hints_of(cls)[name], f"{cls.__name__}.{name}")
            for name, value in values.items()
        }
        try:
            given(self, **values)
        except Mistake as mistake:
            message = str(mistake)
            raise Mistake(
                message if message.startswith(cls.__name__) else f"{cls.__name__}: {message}"
            ) from None
        except (ValueError, AssertionError) as error:  # `raise ValueError` in __post_init__
            raise Mistake(f"{cls.__name__}: {error or 'it refuses these values'}") from error

    cls.__init__ = init  # type: ignore[misc]
    return cls


def _repr(component: Any) -> str:
    """As that of a dataclass, without added fields that are None."""
    values = ((each, getattr(component, each.name)) for each in fields(component))
    there = [f"{e.name}={v!r}" for e, v in values if v is not None or "added" not in e.metadata]
    return f"{type(component).__name__}({', '.join(there)})"


class Ambiguous(str):
    """Text from a command line that is a number or a truth value elsewhere than in Python (true,
    010, nan). The annotation of its field says whether the text or that `value` is meant."""

    value: Any

    @classmethod
    def of(cls, text: str, value: Any) -> Ambiguous:
        made = cls(text)
        made.value = value
        return made

    def meant_by(self, hint: Any) -> Any:
        return self.value if hint in (bool, int, float) else str(self)


class _Call(str):
    """The text of a call inside a spec: a component once the field's annotation says of which
    family."""

    def __repr__(self) -> str:
        return str(self)  # unlike text, it has no quotes


def _parse(spec: str, family: str) -> ast.Call:
    why = "write Name(field=value, ...)"
    try:
        call: ast.AST = ast.parse(spec.strip(), mode="eval").body
    except SyntaxError as error:
        call, why = ast.Constant(None), f"{error.msg}; {why}"
    except (ValueError, RecursionError, MemoryError):
        call = ast.Constant(None)
    if isinstance(call, ast.Name):
        call = ast.Call(call, [], [])
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
        raise Mistake(f"not {with_article(family)}: {shortened(spec)!r} ({why})")
    if call.args:
        raise Mistake(f"{spec}: give fields by name, as in {call.func.id}(field=value)")
    return call


def _value(node: ast.AST, spec: str) -> Any:
    if isinstance(node, ast.Call | ast.Name):
        return _Call(_text(node, spec))
    if isinstance(node, ast.Tuple | ast.List):
        return tuple(_value(part, spec) for part in node.elts)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise Mistake(
            f"{shortened(spec)}: {_text(node, spec)} is not a plain value (text needs quotes)"
        ) from None


def _text(node: ast.AST, spec: str) -> str:
    try:
        return ast.unparse(node)
    except ValueError:  # Python writes no integer of thousands of digits
        raise Mistake(f"{shortened(spec)}: it holds a number that is too long") from None


def coerce(value: Any, hint: Any, where: str) -> Any:
    """`value` as the annotation `hint` wants it, or a Mistake that names both."""
    if hint is Any:
        return str(value) if isinstance(value, Ambiguous) else value
    if get_origin(hint) in (Union, types.UnionType):
        return _first_fit(value, get_args(hint), where)
    if isinstance(value, Ambiguous):
        value = value.meant_by(hint)
    if isinstance(value, _Call) and not any(hint is family.protocol for family in FAMILIES):
        raise Mistake(f"{where}: {value} is not a plain value (text needs quotes: {str(value)!r})")
    if get_origin(hint) is Literal:
        if any(value == option and type(value) is type(option) for option in get_args(hint)):
            return value
        raise Mistake(f"{where}: {shown(value)} is none of {', '.join(map(repr, get_args(hint)))}")
    if get_origin(hint) is tuple:
        return _tuple(value, get_args(hint), where)
    for family in FAMILIES:
        if hint is family.protocol:
            built = family.build(value) if isinstance(value, str) else value
            if family.holds(built):
                return built
            raise Mistake(f"{where}: expected {with_article(family.family)}, got {shown(value)}")
    return scalar(value, hint, where)


def scalar(value: Any, hint: Any, where: str) -> Any:
    """`value` as a bool, str, int or float, or a Mistake that names both."""
    wrong = Mistake(f"{where}: expected {getattr(hint, '__name__', hint)}, got {shown(value)}")
    if hint is bool or hint is str:
        if type(value) is hint:
            return value
        raise wrong
    if isinstance(value, bool | str | bytes | bytearray):
        raise wrong
    try:
        number = operator.index(value) if hint is int else float(value)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    if isinstance(number, int) and number.bit_length() > MOST_BITS:
        raise Mistake(f"{where}: {shown(value)} is too large")
    if isinstance(number, float) and not math.isfinite(number):
        raise Mistake(f"{where}: {shown(value)} is not a finite number")
    return number if hint is int else number + 0.0  # -0.0 equals 0.0 and must print like it


def _first_fit(value: Any, options: tuple[Any, ...], where: str) -> Any:
    if type(None) in options and (
        value is None or (value in ("none", "None") and str not in options)
    ):
        return None  # files have no word of their own for it
    kind = str if isinstance(value, Ambiguous) else type(value)
    exact = [option for option in options if option is kind]
    messages = []
    for option in exact or [option for option in options if option is not type(None)]:
        try:
            return coerce(value, option, where)
        except Mistake as mistake:
            messages.append(str(mistake))
    raise Mistake(messages[-1])


def _tuple(value: Any, inner: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if not isinstance(value, tuple | list):
        raise Mistake(f"{where}: expected a tuple, got {shown(value)}")
    if len(inner) == 2 and inner[1] is Ellipsis:
        return tuple(coerce(item, inner[0], where) for item in value)
    if len(value) != len(inner):
        raise Mistake(f"{where}: expected {len(inner)} values, got {shown(value)}")
    return tuple(coerce(item, hint, where) for item, hint in zip(value, inner, strict=True))


class Opened(NamedTuple):
    """What a spec says, whether or not its component is known here."""

    name: str
    fields: dict[str, Any]  # literals; a component inside as its spec


def opened(spec: Any) -> Opened:
    """A spec taken apart as text. A value that is no spec has no fields."""
    return _opened(spec) if isinstance(spec, str) else Opened(str(spec), {})


@lru_cache(10_000)
def _opened(spec: str) -> Opened:
    try:
        call = _parse(spec, "component") if spec.endswith(")") else None
        words = [] if call is None else call.keywords
        fields = {str(word.arg): _value(word.value, spec) for word in words}
    except (Mistake, RecursionError):
        call, fields = None, {}
    name = str(spec) if call is None else call.func.id  # type: ignore[attr-defined]
    return Opened(name, fields)


def find(name: str) -> tuple[Registry, type]:
    """The component of that name, in whatever family."""
    everything = {
        member: (family, cls) for family in FAMILIES for member, cls in family.members().items()
    }
    if name not in everything:
        raise Mistake(f"no component is called {name!r}: {did_you_mean(name, everything)}")
    return everything[name]


def brief(component: Any) -> str:
    """The repr without the fields that have their default value: a label for tables and
    folders."""
    given = []
    for each in fields(component):
        made, value = each.default_factory, getattr(component, each.name)
        if value != (each.default if made is MISSING else made()):
            given.append(f"{each.name}={brief(value) if is_dataclass(value) else repr(value)}")
    return f"{type(component).__name__}({', '.join(given)})"
