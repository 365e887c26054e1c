"""Components are asked and never recognised: what must be known of one is a member of its
protocol, because users write their own."""

import ast
import builtins
import re
from functools import cache
from pathlib import Path

import pytest

from foltr.core import events, kinds, spec

SOURCE = Path(__file__).resolve().parents[2] / "src" / "foltr"
TEXTS = {file.relative_to(SOURCE).as_posix(): file.read_text() for file in SOURCE.rglob("*.py")}

# Files that must know classes: the tables of exact twins, the twin of `federate`, and what finds
# components by name.
TWINS = {"simulation/engines/twins.py", "simulation/engines/stretch.py"}
KNOWS_CLASSES = {*TWINS, "core/spec.py", "__init__.py"}
# What still recognises a component, or asks for a field that no protocol has. Nothing may be
# added; whoever mends one takes its line out.
LEFT = {
    # A base asks whether its own method was overridden: noise that was written is never left out.
    "core/kinds.py": {"type(self).on_server is not PrivatizerDefaults.on_server"},
    # Optional members, outside of any protocol.
    "data/catalogue.py": {"getattr(cls, 'collection', None)"},
    "simulation/runs/identity.py": {"getattr(cls, 'revision', 1)"},
    "deployment/protocol/agreement.py": {"getattr(self.channel, 'protocol', None)"},
    # Whether `users` was left at its default, which this partition replaces.
    "components/partitions/by_clicks.py": {"users == click_models.build('Cascade()')"},
    # No components: a state of Flower's, an error of httpx.
    "deployment/flower/internals.py": {"getattr(state, 'message_ins_store', None)"},
    "deployment/flower/node.py": {"getattr(error, 'response', None)"},
    "deployment/gateway/client.py": {"type(value) is not kind"},  # a value of a response
    "cli/tools.py": {"getattr(stop, 'signum', 2)"},  # no component: an exception
}
PARTS = "data|partition|users|ranker|learner|attack|aggregator|rule|optimizer|privacy|channel"
PARTS += "|privatizer|unlearning|unlearner|baseline|source|click_model|model"
COMPARED = {"startswith", "endswith", "removeprefix", "fullmatch", "match", "search", "count"}


@cache
def members() -> set[str]:
    """The components of foltr, without what other tests may have added."""
    found = [each for family in spec.FAMILIES for each in family.members().values()]
    return {each.__name__ for each in found if each.__module__.startswith("foltr.")}


@cache
def classes() -> set[str]:
    """The components, and the bases that a component need not inherit."""
    bases = [each for each in vars(kinds).values() if isinstance(each, type)]
    return members() | {each.__name__ for each in bases if each.__module__ == kinds.__name__}


def names_in(node: ast.AST) -> set[str]:
    """The names in an expression, with or without their module; text that is a spec included."""
    found = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    found |= {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    texts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return found | {text.partition("(")[0] for text in texts if isinstance(text, str)}


def of_a_class(node: ast.AST) -> bool:
    """Whether an expression looks at the class of an object, or at its name."""
    calls = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    looks = {"__class__", "__name__", "__qualname__"} & names_in(node)
    return bool(looks) or any(ast.unparse(call.func) == "type" for call in calls)


def constants(tree: ast.Module) -> set[str]:
    """The constants of a file that name a component."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign):
            value = node.value
            parts = value.keys if isinstance(value, ast.Dict) else [value]
            if any(names_in(part) & members() for part in parts if part is not None):
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def recognised(text: str) -> set[str]:
    """Where a file goes by the class or the name of a component, or by a field that not all
    have."""
    tree = ast.parse(text)
    known, found = classes() | constants(tree), set()
    plain = {*vars(builtins), *vars(events), "type", "NoneType"} - known
    for node in ast.walk(tree):
        wrong = False
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            bare = [s for s in sides if re.fullmatch(r"type\([\w.]+\)", ast.unparse(s))]
            rest = [side for side in sides if side not in bare]
            wrong = bool(names_in(node) & known) or any(map(of_a_class, rest))
            wrong |= bool(bare) and any(not names_in(side) <= plain for side in rest)
            wrong &= ast.unparse(node) != "__name__ == '__main__'"
        elif isinstance(node, ast.Call):
            function, given = ast.unparse(node.func).split(".")[-1], ast.unparse(node)
            inside = set().union(*map(names_in, node.args))
            if function in {"isinstance", "issubclass", "cast", *COMPARED}:
                wrong = bool(inside & known)
            elif function == "getattr":
                field = node.args[1]
                wrong = isinstance(field, ast.Constant) and not field.value.startswith("__")
                wrong |= bool(re.match(rf"getattr\(([\w.]+[._])?({PARTS}),", given))
            elif function == "get":
                wrong = any(map(of_a_class, node.args))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            wrong = of_a_class(node.slice)
        elif isinstance(node, ast.MatchClass | ast.MatchValue):
            wrong = bool(names_in(node) & known)
        if wrong:
            found.add(ast.unparse(node))
    return found


def test_components_are_asked_and_never_recognised():
    found = {place: recognised(TEXTS[place]) for place in set(TEXTS) - KNOWS_CLASSES}
    assert {place: names for place, names in found.items() if names} == LEFT


def test_what_is_left_is_in_files_that_exist():
    assert {*LEFT, *KNOWS_CLASSES} <= set(TEXTS)


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(x, PDGD)",
        "isinstance(x, pdgd.PDGD)",
        "isinstance(x, (int, foltr.PDGD))",
        "issubclass(cls, kinds.PrivatizerDefaults)",
        "cast(PDGD, learner).lr",
        "cast('PDGD', learner).lr",
        "type(x) is Mean",
        "type(x) == mean.Mean",
        "type(x) in (Mean, Median)",
        "type(x) in TABLE",
        "TABLE[type(x)]",
        "TABLE.get(type(x).__name__)",
        "type(x).__name__ == 'PDGD'",
        "x.__class__ is PDGD",
        "x.__class__.__name__ in NAMES",
        "type(x).on_arrival is not PrivatizerDefaults.on_arrival",
        "type(x).learn is Base.learn",
        "match x:\n    case PDGD():\n        pass",
        "match x:\n    case pdgd.PDGD(lr=1.0):\n        pass",
        "match spec.opened(x).name:\n    case 'PDGD':\n        pass",
        "'PDGD' in repr(x)",
        "repr(x) == 'PDGD()'",
        "repr(x).startswith('PDGD(')",
        "opened(spec).name == 'Retrain'",
        "opened(spec).name in ('Retrain', 'FineTune')",
        "AGAIN = 'Retrain'\nopened(spec).name == AGAIN",
        "x == IID()",
        "getattr(x, 'lr', None)",
        "getattr(e.ranker, name)",
        "getattr(self.unlearning, name)",
    ],
)
def test_a_planted_recognition_is_found(line):
    assert recognised(line)


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(x, str | int)",
        "type(x) is tuple",
        "type(event) is LaplaceNoise",  # events are data, and are what the ledger knows
        "learner.separate_searches == False",
        "'unlearning' in config",
        "getattr(experiment, field)",
    ],
)
def test_what_is_allowed_is_not_found(line):
    assert not recognised(line)
