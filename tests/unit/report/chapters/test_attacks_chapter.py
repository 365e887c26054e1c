"""Attacks and defences on the page, with numbers a hand can check."""

from made_runs import made_run, made_runs

from foltr.report.chapters.attacks import attacks_and_defences
from foltr.report.chapters.registry import Cell

KRUM = "Krum(malicious={}, squared=False)"
POISON, LIE = "DataPoisoning(clicks='poison')", "LittleIsEnough(z=None, knowledge='own')"
NONE = "\u2013"


def run(value, rule, attack=None, m=0, seed=1, **config):
    attacked = {"attack": attack, "malicious": m} if attack else {}
    return made_run(value, aggregator=rule, seed=seed, clients=10, **attacked, **config)


def small():
    """Mean and Krum, honestly and under two attacks by 1 and 2 of 10; two seeds, the second higher
    by 0.02."""
    for seed, more in ((1, 0.0), (2, 0.02)):
        yield run(0.50 + more, "Mean()", seed=seed)
        yield run(0.49 + more, KRUM.format(1), seed=seed)
        yield run(0.46 + more, KRUM.format(2), seed=seed)
        for m, plain, robust in ((1, 0.44, 0.48), (2, 0.20, 0.45)):
            yield run(plain + more, "Mean()", POISON, m, seed)
            yield run(robust + more, KRUM.format(m), POISON, m, seed)
        for m, plain, robust in ((1, 0.49, 0.47), (2, 0.485, 0.30)):
            yield run(plain + more, "Mean()", LIE, m, seed)
            yield run(robust + more, KRUM.format(m), LIE, m, seed)


def found(runs):
    return {block.title: block for block in attacks_and_defences(made_runs(runs)) or ()}


def table(block):
    """Row label -> column -> text and aside."""
    (_, *heads), *rows = block.rows
    return {row[0]: dict(zip(heads, row[1:], strict=True)) for row in rows}


def shown(cell):
    return (
        cell
        if isinstance(cell, str)
        else " ".join(part for part in (cell.text, cell.aside, cell.below) if part)
    )


def test_a_table_for_each_number_of_malicious_clients():
    blocks = found(small())
    assert list(blocks) == [
        "Rules without an attack and under their worst attack",
        "The best rule against each attack",
        "1 of 10 clients malicious",
        "2 of 10 clients malicious",
    ]
    one, two = (
        table(blocks["1 of 10 clients malicious"]),
        table(blocks["2 of 10 clients malicious"]),
    )
    assert list(one) == list(two) == ["Mean", "Krum"]  # its assumed number follows the attackers
    assert {name: shown(cell) for name, cell in one["Mean"].items()} == {
        "no attack": "0.510 (0.000)",
        "DataPoisoning": "0.450 (\u22120.060)",
        "LittleIsEnough": "0.500 (\u22120.010)",
        "worst": "0.450 (\u22120.060) DataPoisoning",
    }
    assert shown(one["Krum"]["no attack"]) == "0.500 (\u22120.010)"  # of Krum(malicious=1)
    assert shown(two["Krum"]["no attack"]) == "0.470 (\u22120.040)"  # of Krum(malicious=2)
    assert shown(two["Krum"]["worst"]) == "0.310 (\u22120.200) LittleIsEnough"
    assert [cell.best for cell in two["Mean"].values()] == [True, False, True, False]
    assert [cell.best for cell in two["Krum"].values()] == [False, True, False, True]
    # losses of 0, 0.3, 0.015, 0.3
    assert [cell.shade for cell in two["Mean"].values()] == [0, 4, 1, 4]
    text = blocks["1 of 10 clients malicious"].text
    assert "mean over 2 runs" in text and "standard deviation of 0.0141" in text  # 0.02 / sqrt(2)


def test_summaries():
    blocks = found(small())
    withstand = table(blocks["Rules without an attack and under their worst attack"])
    assert {rule: [shown(cell) for cell in row.values()] for rule, row in withstand.items()} == {
        "Mean": ["0.510 (0.000)", "0.210 (\u22120.300) DataPoisoning, 2 malicious"],
        # of the number that costs most
        "Krum": ["0.470 (\u22120.040)", "0.310 (\u22120.200) LittleIsEnough, 2 malicious"],
    }
    _, *rows = blocks["The best rule against each attack"].rows
    assert [(attack, m, shown(cell)) for attack, m, cell in rows] == [
        ("DataPoisoning", "1", "Krum 0.490 (\u22120.020)"),
        ("DataPoisoning", "2", "Krum 0.460 (\u22120.050)"),
        ("LittleIsEnough", "1", "Mean 0.500 (\u22120.010)"),
        ("LittleIsEnough", "2", "Mean 0.495 (\u22120.015)"),
    ]


def test_another_assumed_number_than_that_of_attackers_distinguishes_rules():
    runs = [run(0.5, "Mean()"), run(0.4, "Mean()", POISON, 2)]
    runs += [run(0.45, KRUM.format(m), POISON, 2) for m in (1, 4)] + [run(0.48, KRUM.format(1))]
    rows = table(found(runs)["2 of 10 clients malicious"])
    assert list(rows) == ["Mean", "Krum(malicious=1)", "Krum(malicious=4)"]
    assert [shown(rows[rule]["no attack"]) for rule in rows] == [
        "0.500 (0.000)",
        "0.480 (\u22120.020)",
        NONE,
    ]


def test_an_honest_run_that_assumes_another_number_is_marked():
    runs = [run(0.5, "Mean()"), run(0.48, KRUM.format(1))]
    runs += [run(0.4, KRUM.format(m), POISON, m) for m in (1, 2)]
    blocks = found(runs)
    assert (
        shown(table(blocks["1 of 10 clients malicious"])["Krum"]["no attack"])
        == "0.480 (\u22120.020)"
    )
    assert (
        shown(table(blocks["2 of 10 clients malicious"])["Krum"]["no attack"])
        == "≈ 0.480 (\u22120.020)"
    )
    assert "assumed another number" in blocks["2 of 10 clients malicious"].text


def test_rules_inside_rules_and_attacks_on_the_rule_itself():
    inside = "NNM(rule=Krum(malicious=2, squared=False), malicious=2)"
    runs = [run(0.5, "Mean()"), run(0.5, inside)]
    for rule in ("Mean()", inside):
        runs.append(run(0.4, rule, f"Tailored(rule={rule}, reach=16.0)", 2))
    runs.append(run(0.45, "Mean()", f"Tailored(rule={inside}, reach=16.0)", 2))
    rows = table(found(runs)["2 of 10 clients malicious"])
    assert {
        rule: {name: shown(cell) for name, cell in row.items()} for rule, row in rows.items()
    } == {
        "Mean": {
            "no attack": "0.500 (0.000)",
            "Tailored, aimed at the rule": "0.400 (\u22120.100)",
            "Tailored(NNM(Krum))": "0.450 (\u22120.050)",
            "worst": "0.400 (\u22120.100) Tailored, aimed at the rule",
        },
        "NNM(Krum)": {
            "no attack": "0.500 (0.000)",
            "Tailored, aimed at the rule": "0.400 (\u22120.100)",
            "Tailored(NNM(Krum))": NONE,
            "worst": "0.400 (\u22120.100) Tailored, aimed at the rule",
        },
    }


def test_settings_are_users_data_and_whatever_else_differs():
    runs = []
    for kind in ("perfect", "informational"):
        users = f"Cascade(kind='{kind}')"
        runs += [run(0.5, "Mean()", users=users), run(0.4, "Mean()", POISON, 1, users=users)]
        runs.append(run(0.3, "Mean()", LIE, 1, users=users))
    runs += [made_run(0.6, aggregator="Mean()", clients=1000)]
    runs += [made_run(0.5, aggregator="Mean()", clients=1000, attack=POISON, malicious=10)]
    blocks = found(runs)
    # and one rule has no rival to be best against
    assert list(blocks)[1:] == [
        "perfect, clients=10, 1 of 10 clients malicious",
        "informational, clients=10, 1 of 10 clients malicious",
        "perfect, clients=1000, 10 of 1000 clients malicious",
    ]
    row = table(blocks["perfect, clients=1000, 10 of 1000 clients malicious"])["Mean"]
    assert shown(row["DataPoisoning"]) == "0.500 (\u22120.100)" and "LittleIsEnough" not in row


def test_many_tables_are_folded_and_many_settings_stand_in_parts():
    runs = []
    for rounds in (10, 20, 30, 40):
        runs += [run(0.5, "Mean()", rounds=rounds), run(0.4, "Mean()", POISON, 1, rounds=rounds)]
        runs.append(run(0.4, "Median()", POISON, 1, rounds=rounds))
    blocks = list(found(runs).values())
    assert [block.title for block in blocks[:2]] == [
        f"Rules without an attack and under their worst attack ({i} of 2)" for i in (1, 2)
    ]
    assert [len(block.rows[0]) for block in blocks[:2]] == [1 + 6, 1 + 2]
    assert [block.folded for block in blocks[4:]] == [True] * 4 and not any(
        block.folded for block in blocks[:4]
    )


def test_fewer_runs_or_attacks_are_noted():
    runs = [
        each
        for each in small()
        if not (each.config.get("attack") == LIE and each.config["malicious"] == 1)
    ]
    runs = [each for each in runs if (each.config.get("attack"), each.config["seed"]) != (LIE, 2)]
    runs = [
        each
        for each in runs
        if "Krum" in each.config["aggregator"] or each.config.get("malicious") != 1
    ]
    blocks = found(runs)
    # seed 1 of both
    assert (
        shown(table(blocks["2 of 10 clients malicious"])["Krum"]["LittleIsEnough"])
        == "0.300 (\u22120.200) n=1"
    )
    withstand = table(blocks["Rules without an attack and under their worst attack"])
    assert shown(withstand["Mean"]["worst attack"]).endswith(
        "DataPoisoning, 2 malicious, worst of 2 attacks"
    )
    assert "of" not in withstand["Krum"]["worst attack"].below


def test_a_mean_over_other_repetitions_is_not_the_best():
    runs = [run(0.5, "Mean()", POISON, 2, seed) for seed in (1, 2)] + [
        run(0.9, "Median()", POISON, 2, 1)
    ]
    runs.append(run(0.4, "Krum()", POISON, 2, 1))
    rows = table(found(runs)["2 of 10 clients malicious"])
    assert not any(
        isinstance(cell, Cell) and cell.best for row in rows.values() for cell in row.values()
    )


def test_without_an_honest_mean_there_is_no_loss():
    runs = [run(0.5, "Median()", POISON, m) for m in (1, 2)]
    block = found(runs)["1 of 10 clients malicious"]
    assert (
        shown(table(block)["Median"]["DataPoisoning"]) == "0.500"
        and "No change is shown" in block.text
    )
    assert shown(table(block)["Median"]["no attack"]) == NONE


def test_roaming_attackers_are_another_attack():
    runs = [
        run(0.5, "Mean()"),
        run(0.4, "Mean()", POISON, 1),
        run(0.45, "Mean()", POISON, 1, roaming=True),
    ]
    row = table(found(runs)["1 of 10 clients malicious"])["Mean"]
    assert list(row) == ["no attack", "DataPoisoning", "DataPoisoning, roaming", "worst"]


def test_runs_of_another_kind_are_none_of_it():
    assert attacks_and_defences(made_runs([run(0.5, "Mean()"), run(0.4, "Median()")])) is None
    one = [run(0.5, "Mean()"), run(0.4, "Mean()", POISON, 1)]
    # one attack on one rule: the comparison says it
    assert attacks_and_defences(made_runs(one)) is None
    forgot = [run(0.4, "Mean()", POISON, m, unlearning="Retrain(luck=0)") for m in (1, 2)]
    assert attacks_and_defences(made_runs([*one, *forgot])) is None
    no_values = [run(None, "Mean()", POISON, m) for m in (1, 2)]
    assert attacks_and_defences(made_runs(no_values)) is None


def test_names_that_a_sweep_gave_hide_nothing():
    from dataclasses import replace

    runs = [replace(each, method="all of it", sets=("aggregator", "clients")) for each in small()]
    assert [block.rows for block in found(runs).values()] == [
        block.rows for block in found(small()).values()
    ]
