"""Specs: parsed, never evaluated; checked and coerced by annotation; typos answered."""

import contextlib
import subprocess
import sys
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foltr.components.learners.pdgd import PDGD
from foltr.components.optimizers.adam import Adam
from foltr.components.rankers.mlp import MLP
from foltr.components.users.cascade import Cascade
from foltr.core import Aggregator, Cohort
from foltr.core.errors import Mistake
from foltr.core.kinds import Memoryless
from foltr.core.spec import (
    FAMILIES,
    aggregators,
    brief,
    click_models,
    find,
    hints_of,
    learners,
    optimizers,
    rankers,
)
from foltr.experiment import Experiment
from foltr.simulation.runs import config
from property_settings import examples


def test_equal_objects_have_equal_reprs():
    assert PDGD(lr=1) == PDGD(lr=1.0)
    assert repr(PDGD(lr=1)) == repr(PDGD(lr=1.0))
    custom = Cascade(kind="custom", click=[0, 1], stop=[0, 0])  # type: ignore[arg-type]
    assert custom.click == (0.0, 1.0)
    assert repr(custom) == repr(Cascade(kind="custom", click=(0.0, 1.0), stop=(0.0, 0.0)))


def test_a_bare_name_is_a_spec():
    assert learners.build("PDGD") == PDGD() == learners.build(" PDGD( ) ")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("PGD()", "did you mean 'PDGD'"),
        ("PDGD(lrr=1)", "PDGD has no field 'lrr': did you mean 'lr'"),
        ("PDGD(0.1)", "give fields by name"),
        ("PDGD(lr='fast')", "PDGD.lr: expected float, got 'fast'"),
        ("PDGD(lr=True)", "expected float, got True"),
        ("PDGD(lr=1e999)", "not a finite number"),
        ("PDGD(sessions=2.5)", "PDGD.sessions: expected int, got 2.5"),
        ("PDGD(pairs='some')", "'some' is none of 'examined', 'shown'"),
        ("PDGD(lr=0.1, lr=0.2)", "give each field once"),
        ("PDGD(**{})", "give each field once, by name"),
        ("PDGD(lr=__import__('os'))", "is not a plain value"),
        ("PDGD(lr=1+1)", "is not a plain value"),
        ("PDGD(lr=nan)", "PDGD.lr: nan is not a plain value"),
        ("PDGD(pairs=shown)", "text needs quotes: 'shown'"),
        ("FPDGD()", "it is PDGD with more than one client"),
        ("pdgd", "did you mean 'PDGD'"),
        ("PDGD(lr=-0.1)", "lr must be > 0, got -0.1"),
        ("PDGD(sessions=0)", "sessions must be in 1 .. 10^9, got 0"),
        ("__import__('os').system('x')", "not a learner"),
        ("PDGD(", "not a learner"),
        ("lambda: 1", "not a learner"),
        ("", "not a learner"),
        ("PDGD\0", "not a learner"),
        ("(" * 5000, "not a learner"),
        ("PDGD(lr=b'1')", "PDGD.lr: expected float, got b'1'"),
        ("PDGD(lr=b'x')", "PDGD.lr: expected float, got b'x'"),
        ("PDGD(sessions=b'1')", "PDGD.sessions: expected int, got b'1'"),
        ("PDGD(explore=b'1')", "PDGD.explore: expected bool, got b'1'"),
        ("PDGD(pairs=b'shown')", "b'shown' is none of 'examined', 'shown'"),
        ("PDGD(max_norm=b'')", "PDGD.max_norm: expected float, got b''"),
        ("FedPer(learner=b'PDGD()')", "FedPer.learner: expected a learner, got b'PDGD()'"),
        ("PDGD(lr={1, 2})", "expected float, got {1, 2}"),
        ("PDGD(lr={1: {}})", "expected float, got {1: {}}"),
        ("PDGD(lr={[]})", "is not a plain value"),
        ("PDGD(lr=1j)", "expected float, got 1j"),
        ("PDGD(lr=...)", "expected float, got Ellipsis"),
        (f"PDGD(lr={10**400})", "expected float, got 1000"),
        (f"PDGD(sessions={10**400})", "is too large"),
        (f"PDGD(sessions={16**5000:#x})", "an int that is too long to show is too large"),
        (f"PDGD(pairs={16**5000:#x})", "an int that is too long to show is none of"),
        (f"PDGD(pairs=f({16**5000:#x}))", "it holds a number that is too long"),
        (f"PDGD(lr={'9' * 5000})", "not a learner"),
        (f"PDGD(lr={'-' * 900}1)", "nested too deeply"),
        (f"PDGD(lr=x{'()' * 900})", "nested too deeply"),
        (f"{'FedPer(learner=' * 195}PDGD(){')' * 195}", "nested too deeply"),
    ],
    ids=lambda text: text[:40],
)
def test_what_is_wrong_is_named(spec, message):
    with pytest.raises(Mistake) as told:
        learners.build(spec)
    assert message in str(told.value)


def test_impossible_settings_are_refused():
    for make in (
        lambda: MLP(hidden=0),
        lambda: Adam(b1=1.0),
        lambda: Cascade(kind="custom"),
        lambda: Cascade(kind="custom", click=(0.0, 1.5), stop=(0.0, 0.0)),
        lambda: Cascade(kind="perfect", click=(0.0, 1.0), stop=(0.0, 0.0)),
        lambda: Experiment(clients=0),
        lambda: Experiment(participation=0.0),
        lambda: Experiment(rounds=0),
        lambda: Experiment(seed=-1),
        lambda: Experiment(users=PDGD()),
    ):
        with pytest.raises(Mistake):
            make()


def test_a_click_model_must_fit_the_grades():
    with pytest.raises(Mistake, match="grades"):
        Cascade().tables(4, 10)


@dataclass(frozen=True)
class Twice(Memoryless):
    """Runs another rule."""

    rule: Aggregator
    times: int = 2

    def combine(self, cohort: Cohort):
        return self.times * self.rule(cohort, (), None)[0]


def test_families_nest_and_copies_are_checked():
    aggregators.register(Twice)
    try:
        built = aggregators.build("Twice(rule=Twice(rule=Mean()))")
        assert repr(built) == "Twice(rule=Twice(rule=Mean(), times=2), times=2)"
        assert aggregators.build(repr(built)) == built
        assert brief(built) == "Twice(rule=Twice(rule=Mean()))"
        with pytest.raises(Mistake, match="did you mean 'Mean'"):
            aggregators.build("Twice(rule=Maen())")
        with pytest.raises(Mistake):
            aggregators.build("Twice(rule=3)")
        with pytest.raises(Mistake, match="times"):
            replace(built, times="x")
    finally:
        aggregators.forget(__name__)


def test_experiments_take_specs_as_text():
    e = Experiment(learner="PDGD(lr=1)", clients=3)  # type: ignore[arg-type]
    assert e.learner == PDGD(lr=1.0)
    assert Experiment(**e.config()) == e


finite = st.floats(1e-6, 1e6)


@given(
    lr=finite,
    sessions=st.integers(1, 100),
    norm=st.none() | finite,
    mu=finite,
    explore=st.booleans(),
)
def test_any_learner_round_trips(lr, sessions, norm, mu, explore):
    thing = PDGD(lr=lr, sessions=sessions, max_norm=norm, mu=mu, explore=explore)
    assert learners.build(repr(thing)) == thing


ours = [
    (cls, field.name)
    for family in FAMILIES
    for cls in family.members().values()
    for field in fields(cls)
]
needed = {str: "somewhere", float: 0.9, Aggregator: "Mean()"}  # for fields without a default
specs = st.sampled_from(
    ["Mean()", "PDGD(lr=b'1')", "IID()", "Cascade", "poison", "malicious", "none", "f("]
)
plain = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.just(...)
)
# its repr is hundreds of digits, or an error
huge = st.sampled_from([1_100, 20_000]).map(lambda bits: 1 << bits)
leaves = plain | huge | st.text(max_size=5) | st.binary(max_size=5) | specs
literals = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(leaves, inner, max_size=2)
        | st.sets(leaves, max_size=2)
    ),
    max_leaves=5,
)


@examples(500)
@given(st.sampled_from(ours), literals)
def test_any_literal_in_any_field_is_a_component_or_a_mistake(place, value):
    cls, name = place
    wanted = [field.name for field in fields(cls) if field.default is MISSING]
    with contextlib.suppress(Mistake):
        made = cls(**{**{field: needed[hints_of(cls)[field]] for field in wanted}, name: value})
        assert brief(made) and hash(made) == hash(replace(made))
    try:
        text = repr(value)
    except ValueError:  # Python does not write such an integer
        text = f"{1 << 20_000:#x}"
    with contextlib.suppress(Mistake):
        find(cls.__name__)[0].build(f"{cls.__name__}({name}={text})")


inner = [f"{field.name}.{part.name}" for field in fields(Experiment) if is_dataclass(field.default)
         for part in fields(field.default)]  # fmt: skip


@examples(200)
@given(
    st.dictionaries(
        st.sampled_from([*(field.name for field in fields(Experiment)), *inner]),
        literals,
        max_size=3,
    )
)
def test_any_values_are_an_experiment_or_a_mistake(values):
    with contextlib.suppress(Mistake):
        made = config.experiment(values)
        assert Experiment(**made.config()) == made


@given(st.text())
def test_any_text_is_a_component_or_a_mistake(text):
    for family in (learners, rankers, click_models, optimizers):
        with contextlib.suppress(Mistake):
            made = family.build(text)
            assert family.build(repr(made)) == made


def test_minus_zero_is_zero():
    assert repr(PDGD(mu=-0.0)) == repr(PDGD(mu=0.0))


OWN_MEAN = """
import foltr
from dataclasses import dataclass
from foltr.core.kinds import Memoryless
from foltr.core.spec import aggregator
{before}
@aggregator
@dataclass(frozen=True)
class Mean(Memoryless):
    def combine(self, cohort):
        return cohort.updates[0].astype(float)
"""


@pytest.mark.parametrize("before", ["", "foltr.Mean()", "foltr.Experiment()"])
def test_a_component_of_a_script_with_one_of_our_names_is_refused_whatever_came_before(before):
    """Where nothing had asked for ours yet, they replaced it later without a word."""
    code = OWN_MEAN.format(before=before)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "two aggregators are called Mean: foltr.components.aggregators.mean and" in done.stderr
