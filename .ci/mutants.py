"""Changes single places of a central module and counts the changes that its tests notice.

    python .ci/mutants.py [--module NAME ...] [--number 20] [--seed 1] [--seconds S]
                          [--keep FILE.json] [--again] [--tests FILE ...]

A mutant is a copy of the sources with one change: another comparison, sign, constant or condition
(of Python, or of a query in SQL), or one statement less. Of all mutants of a module `--number` are
drawn, one of each equal part of the module. A mutant is tried on the tests that reach its line, of
the module's list below: on all of them, or on the fastest that take --seconds together. It is
killed if one fails or does not end in time. Each that survives is a question: does it compute the
same, or is a test missing?

The checkout is not changed: mutants are written below the temporary folder. With --keep, outcomes
are stored as they come, and a run that was interrupted goes on where it stopped; --again tries
stored survivors once more, on --tests if given, for instance those that were added."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
# A fixed place, because numba finds compiled kernels again by the path of their sources.
COPY_FOLDER = Path(tempfile.gettempdir()) / "foltr-mutants"
MAX_SLOWDOWN = 4.0  # a mutant may take this many times as long as the unchanged module,
SPARE_SECONDS = 60.0  # and this much longer, before it counts as killed
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "0")

# Tests by module, those most likely to notice a change first. Not those that read sources
# (test_house, test_typing) or run nearly everything (test_docs, test_examples).
TESTS = {
    "core/federation": """
        unit/core/test_federation.py golden/test_rounds_by_hand.py unit/core/test_guards.py
        unit/components/channels unit/components/aggregators/test_gated_rule.py
        unit/test_culprits.py unit/test_walks.py unit/simulation/test_departures.py
        unit/components/learners/test_personal_learners.py
        unit/simulation/runs/test_private_unlearning.py unit/device/test_log_engine.py
        unit/deployment/protocol/test_device.py unit/deployment/protocol/test_exchange.py
        unit/deployment/server/test_server_state.py
        unit/deployment/server/test_guarded_server.py unit/simulation/audits/test_searches.py
        golden/test_unlearning_by_hand.py parity/test_stretches.py
        unit/simulation/runs/test_unlearn.py""",
    "privacy/accounting": """
        unit/privacy/test_accounting.py unit/privacy/test_ledger.py
        unit/privacy/test_unlearning_budget.py unit/simulation/audits/test_games.py
        unit/simulation/audits/test_audit.py unit/simulation/runs/test_account.py
        unit/cli/test_privacy_command.py unit/deployment/protocol/test_agreement.py
        unit/deployment/test_guarantee.py unit/report/chapters/test_privacy_chapter.py
        unit/experiment/test_compatibility.py""",
    "components/learners/pdgd": """
        golden/test_document_weights_by_hand.py golden/test_document_weights_by_definition.py
        golden/test_rounds_by_hand.py golden/test_gradients.py unit/core/test_stepwise.py
        contracts/test_learners.py contracts/test_components.py
        golden/test_personal_learners_by_hand.py unit/components/learners
        unit/core/test_guards.py unit/core/test_spec.py unit/experiment/test_compatibility.py
        unit/device/test_learning.py parity/test_one_search.py parity/test_engines_agree.py""",
    "deployment/gateway/gateway": """
        unit/deployment/gateway/test_gateway.py unit/deployment/gateway/test_gateway_devices.py
        unit/deployment/gateway/test_gateway_restarts.py
        unit/deployment/gateway/test_versions_of_devices.py unit/deployment/gateway/test_app.py
        unit/deployment/gateway/test_app_answers.py unit/deployment/gateway/test_steps.py
        unit/deployment/gateway/test_async_client.py unit/deployment/gateway/test_client.py
        unit/deployment/gateway/test_https_server.py
        unit/deployment/server/test_forgotten_devices.py""",
    "device/click_log": """
        unit/device/test_click_log.py unit/device/test_learning.py unit/device/test_budget.py
        unit/device/test_log_engine.py unit/device/test_service.py
        unit/device/test_device_forgetting.py unit/device/test_device_membership.py
        unit/device/test_guard.py unit/device/test_device_histories.py
        unit/device/test_device_attacks.py unit/device/test_page_app.py
        unit/cli/test_device_command.py""",
}

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
QUERY = re.compile(r"(select|update|delete|where)\b")  # the beginning of one in SQL
CONDITIONS = {
    " = ": " <> ",
    ">=": ">",
    " < ": " <= ",
    " and ": " or ",
    " is null": " is not null",
    " desc": "",
}


@dataclass
class Mutant:
    """A change, and what its tests say."""

    module: str
    line: int
    last_line: int
    kind: str
    at_import: bool  # whether the change is outside of functions
    before: str  # the changed lines
    after: str
    killed_by: str = ""  # the first test that failed
    is_tried: bool = False
    tests: int = 0  # that reach it
    survived_at_first: bool = False  # before tests were added

    @property
    def name(self) -> str:
        return f"{self.module}:{self.line}: {self.before} -> {self.after}"

    @property
    def verdict(self) -> str:
        if self.killed_by:
            return f"killed by {self.killed_by}"
        return f"survives {self.tests} tests" if self.tests else "no test reaches it"


def mutants(module: str, source: str) -> list[tuple[Mutant, str]]:
    """All mutants of a module with their sources, in the order of its lines."""
    text = source.encode()  # the parser counts bytes
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:i])) for i in range(len(lines))]
    tree = ast.parse(source)
    within_functions = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for line in range(node.body[0].lineno, node.end_lineno + 1)
    }
    made = []
    for node, kind, replacement in changes(tree):
        first, last = node.lineno - 1, node.end_lineno - 1
        head = text[: starts[first] + node.col_offset]
        tail = text[starts[last] + node.end_col_offset :]
        before = b"".join(lines[first : last + 1]).decode().strip()
        rest_of_line = tail.split(b"\n", 1)[0]
        after = (head[starts[first] :] + replacement.encode() + rest_of_line).decode().strip()
        at_import = node.lineno not in within_functions
        mutant = Mutant(module, node.lineno, node.end_lineno, kind, at_import, before, after)
        made.append((mutant, (head + replacement.encode() + tail).decode()))
    return sorted(made, key=lambda each: each[0].line)


def changes(node: ast.AST) -> Iterator[tuple[ast.AST, str, str]]:
    """Nodes below this one, with a kind of change and the source that takes the node's place."""
    yield from changes_of(node)
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "exc", "cause", "msg"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not is_left_out(child):
                yield from changes(child)


def is_left_out(node: ast.AST) -> bool:
    """Types, texts, and what only guides the type checker or guards against mistakes in code."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)  # a docstring
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.keyword):
        return node.arg == "strict"
    return isinstance(node, ast.JoinedStr | ast.Assert | ast.Import | ast.ImportFrom)


def changes_of(node: ast.AST) -> Iterator[tuple[ast.AST, str, str]]:
    """The changes of this node itself."""
    match node:
        case ast.Compare(left=left, ops=operators, comparators=right):
            for i, operator in enumerate(operators):
                for other in COMPARISONS[type(operator)]:
                    swapped = [*operators[:i], other(), *operators[i + 1 :]]
                    yield node, "comparison", parenthesized(ast.Compare(left, swapped, right))
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in OPERATORS:
            if not any(isinstance(n, ast.JoinedStr) or is_text(n) for n in (left, right)):
                swapped = ast.BinOp(left, OPERATORS[type(operator)](), right)
                yield node, "arithmetic", parenthesized(swapped)
        case ast.BoolOp(op=operator, values=values):
            swapped = ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
            yield node, "and / or", parenthesized(swapped)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield node, "sign", parenthesized(operand)
        case ast.Constant(value=bool(value)):
            yield node, "constant", repr(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield node, "constant", repr(value + 1)
        case ast.Constant(value=str(text)) if QUERY.match(text):
            for match in re.finditer("|".join(CONDITIONS), text):
                if "where" in text[: match.start()] or match[0] == " desc":
                    made = text[: match.start()] + CONDITIONS[match[0]] + text[match.end() :]
                    yield node, "query", repr(made)
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign() | ast.Raise():
            yield node, "statement", "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "statement", "pass"
        case ast.Return(value=value) if value is not None and not is_none(value):
            yield node, "return", "return None"
    if isinstance(node, ast.If | ast.IfExp):
        yield node.test, "condition", "True"
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        yield node.test, "condition", "False"


def parenthesized(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def drawn(candidates: list, number: int, seed: int) -> list:
    """One of each of `number` equal parts of the candidates."""
    draws = random.Random(seed)
    number = min(number, len(candidates))
    borders = [len(candidates) * i // number for i in range(number + 1)]
    return [candidates[draws.randrange(borders[i], borders[i + 1])] for i in range(number)]


class Copy:
    """The copy of the sources that tests run with."""

    def __enter__(self) -> Copy:
        try:
            COPY_FOLDER.mkdir()
        except FileExistsError:
            raise SystemExit(
                f"another run uses {COPY_FOLDER}: delete it if there is none"
            ) from None
        # with the times of the files, by which Python and numba find what they compiled
        try:
            shutil.copytree(CHECKOUT / "src", COPY_FOLDER / "src")
        except BaseException:  # Ctrl-C too
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(COPY_FOLDER)

    def file(self, module: str) -> Path:
        return COPY_FOLDER / "src" / "foltr" / f"{module}.py"

    def reached(self, module: str, tests: list[str]) -> dict[str, dict]:
        """The lines of a module that each test reaches, and its seconds. All tests must pass."""
        output = COPY_FOLDER / "reached.json"
        traced = os.pathsep.join(map(str, (self.file(module), output)))
        failure = first_failure(
            ["-p", "reached_lines", *tests], None, {"FOLTR_TESTS_REACHED": traced}
        )
        if failure:
            raise SystemExit(f"without any change, this fails: {failure}")
        return json.loads(output.read_text())

    def try_on(self, mutant: Mutant, source: str, reached: dict[str, dict], most: float) -> None:
        """Run the tests that reach the mutant; all tests if importing the module reaches it."""
        lines = range(mutant.line, mutant.last_line + 1)
        tests = [
            name for name, each in reached.items() if not set(lines).isdisjoint(each["lines"])
        ]
        if mutant.at_import:
            tests = list(reached)
        seconds = 0.0
        for name in sorted(tests, key=lambda name: reached[name]["seconds"]):
            seconds += reached[name]["seconds"]
            if seconds > most:
                tests.remove(name)
        mutant.tests = len(tests)
        if not tests:
            return
        limit = MAX_SLOWDOWN * min(seconds, most) + SPARE_SECONDS
        names = COPY_FOLDER / "tests.txt"
        names.write_text("\n".join(tests))
        file = self.file(mutant.module)
        compiled = Path(importlib.util.cache_from_source(str(file)))
        original = file.read_text()
        try:
            file.write_text(source)
            compiled.unlink(missing_ok=True)  # Python compares only its time and size
            failure = first_failure([f"@{names}"], limit, {})
            if "ERROR: not found" in failure:  # the names of tests contain what the mutant changes
                files = dict.fromkeys(name.partition("::")[0] for name in tests)
                failure = first_failure(list(files), limit, {})
            mutant.killed_by = failure
        finally:
            file.write_text(original)
            compiled.unlink(missing_ok=True)


def first_failure(words: list[str], seconds: float | None, environment: dict[str, str]) -> str:
    """Run pytest with the sources of the copy. Returns what failed first; empty if nothing did."""
    process = subprocess.Popen(
        [sys.executable, *PYTEST, *words],
        cwd=CHECKOUT,
        env=os.environ | {"PYTHONPATH": f"{COPY_FOLDER / 'src'}{os.pathsep}{HERE}"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that the processes of tests end with it
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"no end after {seconds:.0f} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode == 0:
        return ""
    failures = re.findall(r"^(?:FAILED|ERROR) (.*)$", output, re.MULTILINE)
    if failures:
        return failures[0]
    # tests that the mutant renamed, and errors while pytest reads conftest.py, which imports foltr
    errors = re.findall(r"^ERROR: not found.*$|^.*Error\b.*$", output, re.MULTILINE)
    if errors:
        return errors[-1]
    raise SystemExit(f"pytest ended with {process.returncode}:\n{output[-2000:]}")


def read_mutants(file: Path | None) -> dict[str, Mutant]:
    if file is None or not file.exists():
        return {}
    return {mutant.name: mutant for mutant in (Mutant(**m) for m in json.loads(file.read_text()))}


def write_mutants(file: Path | None, tried: Iterable[Mutant]) -> None:
    if file is None:
        return
    unfinished = file.with_suffix(".part")
    unfinished.write_text(json.dumps([asdict(mutant) for mutant in tried], indent=1))
    unfinished.replace(file)


def report(chosen: list[Mutant]) -> None:
    for mutant in chosen:
        if not mutant.killed_by:
            print(f"\n{mutant.module}.py, line {mutant.line} {mutant.verdict}")
            print(f"  - {mutant.before}\n  + {mutant.after}")
    print(f"\n{'module':26} {'tried':>7} {'killed at first':>16} {'killed now':>11}")
    for module in dict.fromkeys(mutant.module for mutant in chosen):
        of_module = [mutant for mutant in chosen if mutant.module == module]
        killed = [mutant for mutant in of_module if mutant.killed_by]
        at_first = [mutant for mutant in killed if not mutant.survived_at_first]
        print(f"{module:26} {len(of_module):7} {len(at_first):16} {len(killed):11}")


def is_waiting(mutant: Mutant, again: bool) -> bool:
    return not mutant.is_tried or (again and not mutant.killed_by)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--module", action="append", choices=TESTS, dest="modules")
    parser.add_argument("--number", type=int, default=20, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="outcomes, as JSON")
    parser.add_argument("--again", action="store_true", help="try stored survivors once more")
    parser.add_argument("--tests", nargs="+", help="instead of the module's list")
    parser.add_argument(
        "--seconds", type=float, default=1e9, help="try the fastest tests that take so long in sum"
    )
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background processes ignore Ctrl-C
        signal.signal(number, signal.default_int_handler)
    stored = read_mutants(options.keep)
    chosen: list[Mutant] = []
    try:
        with Copy() as copy:
            for module in options.modules or TESTS:
                source = copy.file(module).read_text()
                sources: dict[str, str] = {}
                for mutant, mutated in drawn(
                    mutants(module, source), options.number, options.seed
                ):
                    sources[mutant.name] = mutated
                    chosen.append(stored.setdefault(mutant.name, mutant))
                waiting = [
                    stored[name] for name in sources if is_waiting(stored[name], options.again)
                ]
                if not waiting:
                    continue
                tests = options.tests or [f"tests/{name}" for name in TESTS[module].split()]
                reached = copy.reached(module, tests)
                for number, mutant in enumerate(waiting, start=1):
                    mutant.survived_at_first = mutant.is_tried
                    copy.try_on(mutant, sources[mutant.name], reached, options.seconds)
                    mutant.is_tried = True
                    write_mutants(options.keep, stored.values())
                    print(f"{number}/{len(waiting)} {mutant.name}: {mutant.verdict}", flush=True)
    except KeyboardInterrupt:
        print("interrupted")
    report([mutant for mutant in chosen if mutant.is_tried])
    return 0


if __name__ == "__main__":
    sys.exit(main())
