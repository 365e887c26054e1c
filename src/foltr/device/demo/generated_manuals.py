"""Generated manuals, for a demonstration on a machine without Debian's packages.

Each page tells how to do one thing with one object: "Remove a partition". Pages link to each other
in other words ("erase a volume"), from a table of synonyms, and half of their text uses synonyms
as well. Hence searches by the texts of links have known answers, and are neither trivial nor
hopeless. The sentences mean little. Results on generated manuals say nothing about real ones."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from foltr.core.errors import did_you_mean, require, shown, with_article
from foltr.core.seeds import Stream, stream
from foltr.core.system.files import writing

LINKS = 5  # of a page
SENTENCES = 4  # of a section


def _table(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(words.strip().split("/")) for words in text.split(","))


WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
ACTIONS = _table(WORDS["actions"])  # what pages are called, and its synonyms
OBJECTS = {person: _table(text) for person, text in WORDS["objects"].items()}
OPENINGS = (
    "This page tells how to {verb} {one}.",
    "Read this before you {verb} {one}.",
    "There are {n} ways to {verb} {one}.",
)
STEPS = (
    "To {verb} {one}, choose it in the list and wait for {n} seconds.",
    "Before you {verb} {one}, write down what the {other} has to do with it.",
    "Whoever wants to {verb} {one} needs {n} minutes.",
    "It is useful to {verb} the {noun} when the {other} is not in use.",
    "The {noun} and the {other} stay as they are for {n} days.",
    "If you cannot {verb} the {noun}, begin again with step {n}.",
    "Many people {verb} {one} only once in {n} years.",
    "A warning is shown if the {noun} depends on the {other}.",
    "The {other} does not notice that you {verb} the {noun}.",
)
ANCHORS = (
    "{verb} {one}",
    "how to {verb} {one}",
    "ways to {verb} {one}",
    "when to {verb} the {noun}",
    "advice for those who {verb} {one}",
)
PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title></head>
<body>
<h1>{title}</h1>
{sections}
<footer>This page was generated for a demonstration.</footer>
</body>
</html>
"""


def generated(folder: Path, person: str, seed: int) -> Path:
    """Write the manual of a person below `folder`, unless it is there already. The same seed gives
    the same pages."""
    unknown = f"no manual can be generated for {shown(person)}: "
    require(person in OBJECTS, unknown + did_you_mean(str(person), OBJECTS))
    place = folder / f"generated-{person}-{seed}"
    if place.is_dir():
        return place
    with writing(place):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{place.name}-", dir=folder) as aside:
            made = Path(aside) / "made"
            _write_pages(made, person, seed)
            try:
                made.rename(place)
            except OSError:
                if not place.is_dir():  # else another process has just made it
                    raise
    return place


def _write_pages(folder: Path, person: str, seed: int) -> None:
    folder.mkdir()
    objects = OBJECTS[person]
    for action in range(len(ACTIONS)):
        for thing in range(len(objects)):
            draws = stream(seed, "generated manual", person, action, thing)
            html = _Page(objects, action, thing, draws).html()
            (folder / _file_name(objects, action, thing)).write_text(html, encoding="utf-8")


@dataclass(frozen=True)
class _Page:
    objects: Sequence[tuple[str, ...]]
    action: int
    thing: int  # number of its object
    draws: Stream

    def html(self) -> str:
        verb, noun = ACTIONS[self.action][0], self.objects[self.thing][0]
        return PAGE.format(
            title=f"{verb} {with_article(noun)}".capitalize(),
            sections="\n".join(
                f"<h2>{heading}</h2>\n{self.section(first)}"
                for heading, first in (("Overview", OPENINGS), ("Steps", STEPS), ("Notes", STEPS))
            )
            + f"\n<p>See also: {self.links()}.</p>",
        )

    def section(self, first: Sequence[str]) -> str:
        sentences = [self.sentence(first)]
        sentences += [self.sentence(STEPS) for _ in range(SENTENCES - 1)]
        return f"<p>{' '.join(sentences)}</p>"

    def sentence(self, patterns: Sequence[str]) -> str:
        """Half of the words are synonyms."""
        return self.filled(patterns, self.action, self.thing, may_repeat=True)

    def links(self) -> str:
        return ", ".join(self.link() for _ in range(LINKS))

    def link(self) -> str:
        """A link to a page about the same object, or about another one."""
        same = self.draws.uniform() < 0.5
        thing = self.thing if same else self.draws.integer(len(self.objects))
        action = self.draws.integer(len(ACTIONS))
        text = self.filled(ANCHORS, action, thing, may_repeat=False)
        return f'<a href="{_file_name(self.objects, action, thing)}">{text}</a>'

    def filled(self, patterns: Sequence[str], action: int, thing: int, *, may_repeat: bool) -> str:
        """A sentence about an action and an object. A link never repeats both words of the title
        that it leads to."""
        verbs, nouns = ACTIONS[action], self.objects[thing]
        verb = verbs[self.synonym(len(verbs))]
        noun = nouns[self.synonym(len(nouns))]
        if not may_repeat and (verb, noun) == (verbs[0], nouns[0]):
            noun = nouns[1]
        return patterns[self.draws.integer(len(patterns))].format(
            verb=verb,
            noun=noun,
            one=with_article(noun),
            other=self.objects[self.draws.integer(len(self.objects))][0],
            n=2 + self.draws.integer(8),
        )

    def synonym(self, words: int) -> int:
        """0, the word of the title, half of the time."""
        return 0 if self.draws.uniform() < 0.5 else 1 + self.draws.integer(words - 1)


def _file_name(objects: Sequence[tuple[str, ...]], action: int, thing: int) -> str:
    return f"{ACTIONS[action][0]} {objects[thing][0]}.html".replace(" ", "-")
