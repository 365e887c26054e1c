"""What the page of a device, or another program of its user, can ask: search, open, look at what
was learned, forget.

A list is remembered when it is made, and logged when it is looked at: while its user types, most
lists are never looked at. Logging a list closes the one before, which is then learned from."""

from __future__ import annotations

import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from foltr.core.errors import Mistake, require
from foltr.core.scoring import layers_of
from foltr.core.system.state_file import Unusable
from foltr.device.click_log import ClickLog, LoggedSearch
from foltr.device.index import Document, Index
from foltr.device.learning import LocalRanker, Order
from foltr.device.query import Filter, Query, parsed
from foltr.device.searching import ABOUT, Search, search
from foltr.device.snippets import Piece, marked, similar_word, snippet, unknown_words

if TYPE_CHECKING:
    from foltr.device.membership import Membership

REMEMBERED = 200  # lists
BY_DATE = ""  # name of every list that is in the order of dates: it is neither logged nor kept
SUGGESTED = 4  # unknown words for which a similar one is looked for
LONGEST = 200_000  # characters of a preview
OPEN_SECONDS = 1800.0  # after which a search is closed even if there is no other
CLEAN_MILLISECONDS = 500  # in which others must finish reading
PAUSED = "paused"  # name of the stored setting
GONE = "the document is not there any more: search again"


@dataclass(eq=False)
class MadeList:
    """A list that was made for a query. The terms of its candidates take a megabyte, and are not
    kept."""

    name: str
    found: Search
    order: Order
    shown: list[Document]
    logged: int | None = None  # number of its search in the log


class Service:
    """The search engine of one device. Its methods may be called by several threads.

    index, log, ranker: what it searches, remembers and learns
    membership: its place in a federation, if it has joined one
    read_only: nothing is learned: another process may run the page"""

    def __init__(
        self,
        index: Index,
        log: ClickLog,
        ranker: LocalRanker,
        membership: Membership | None = None,
        read_only: bool = False,
    ) -> None:
        self.index, self.log, self.ranker = index, log, ranker
        self.membership, self.read_only = membership, read_only
        self.lock = ranker.lock
        self._lists: OrderedDict[str, MadeList] = OrderedDict()
        self.not_recorded = ""  # why the last click was not
        self._clean = False  # whether nothing of a forgotten search is left on the disk
        self.close_old()

    # --- searching ---

    def search(self, text: str, typing: bool = False) -> dict[str, Any]:
        """The results of a query."""
        begun = time.perf_counter()
        with self.lock:
            try:
                query, note = parsed(text, typing), ""
            except Mistake as mistake:
                query, note = parsed(text, typing=True), str(mistake)
            if not query.words:
                made, results = None, self._newest(query.filter)
            else:
                made, results = self._made(query)
            empty = self._empty(made) if made is not None and not results else None
        return {
            "list": BY_DATE if made is None else made.name,
            "results": results,
            "found": len(results) if made is None else len(made.found.documents),
            "milliseconds": round(1000.0 * (time.perf_counter() - begun), 1),
            "shown_by": "date" if made is None else made.order.shown_by,
            "empty": empty,
            "note": note,
        }

    def _made(self, query: Query) -> tuple[MadeList, list[dict[str, Any]]]:
        """A list, and its results as they are shown."""
        found = search(self.index, query)
        order = self.ranker.order(found.features, self.paused)
        results = [self._result(found, i) for i in order.ranking]
        shown = [found.documents[i] for i in order.ranking]
        made = MadeList(secrets.token_urlsafe(9), replace(found, forward=()), order, shown)
        self._lists[made.name] = made
        while len(self._lists) > REMEMBERED:
            self._lists.popitem(last=False)
        return made, results

    def _newest(self, among: Filter) -> list[dict[str, Any]]:
        """Documents of a query that has filters only, newest first."""
        if among == Filter():
            return []
        docs = self.index.forward(self.index.newest(among, 10))
        known = self.index.documents(doc.id for doc in docs)
        return [
            _described(each, [Piece(each.title, False)], snippet(self.index, doc, ()))
            for doc in docs
            if (each := known.get(doc.id)) is not None
        ]

    def _result(self, found: Search, i: int) -> dict[str, Any]:
        document, slots = found.documents[i], found.slots
        title = marked(document.title, slots)
        return _described(document, title, snippet(self.index, found.forward[i], slots))

    def _empty(self, made: MadeList) -> dict[str, Any]:
        """What may help if nothing is found."""
        query = made.found.query
        unknown = unknown_words(query.text, made.found.slots)
        similar = {word: similar_word(self.index, word) for word in unknown[:SUGGESTED]}
        others = 0
        if query.filter != Filter():
            anywhere = replace(query, filter=Filter())
            others = len(search(self.index, anywhere).documents)
        known = {word: other for word, other in similar.items() if other}
        return {"unknown": unknown, "similar": known, "without_filters": others}

    def _list(self, name: str) -> MadeList:
        made = self._lists.get(name)
        if made is None:
            raise Mistake("this list is too old: search again")
        return made

    # --- what the user does ---

    def look(self, name: str) -> None:
        """The user has looked at a list: log it. The search before it is learned from."""
        with self.lock:
            self._log(self._list(name))

    def _log(self, made: MadeList) -> None:
        found, order, text = made.found, made.order, made.found.query.text.strip()
        if made.logged is not None or self.paused or not len(order.ranking):
            return
        unfinished = self.log.unfinished()
        for last in unfinished[-1:]:
            shown = [document.id for document in made.shown]
            if last.query == text and last.documents[last.ranking].tolist() == shown:
                made.logged = last.id  # looking at a list again is no other search
                return
        self._learn_from(unfinished)
        made.logged = self.log.add(
            LoggedSearch(
                id=0,
                time=time.time(),
                query=text,
                epoch=self.ranker.epoch_now.epoch,
                shown_by=order.shown_by,
                documents=np.array([document.id for document in found.documents], np.int64),
                features=found.features,
                ranking=order.ranking,
                teams=order.teams,
                clicks=np.zeros(len(order.ranking), bool),
            )
        ).id

    def close_open(self) -> None:
        """Learn from the searches that are open."""
        self._learn_from(self.log.unfinished())

    def _learn_from(self, searches: Sequence[LoggedSearch]) -> None:
        if self.read_only:
            return
        for each in searches:
            self.ranker.learn(each)
        if self.membership is None:
            self.ranker.begin_epoch_if_full()
        else:  # its epochs end when it sends
            self.membership.wake.set()

    def close_old(self) -> None:
        """Learn from a search that has been open for long."""
        with self.lock:
            self._clean_up()
            unfinished = self.log.unfinished()
            if any(time.time() - each.time > OPEN_SECONDS for each in unfinished):
                self._learn_from(unfinished)

    def open(self, name: str, id: int, how: str) -> Document:
        """The user opens a result: a click, unless the list is in the order of dates."""
        with self.lock:
            if name == BY_DATE:
                return self._indexed(id)
            made = self._list(name)
            document = next((each for each in made.shown if each.id == id), None)
            if document is None:
                raise Mistake(f"document {id} is not in this list: search again")
            self.not_recorded = ""
            try:
                self._log(made)
                if made.logged is not None and not self.paused:
                    self.log.click(made.logged, id, time.time(), how)
            except Unusable as unusable:  # a full disk: the document can be shown all the same
                self.not_recorded = f"This was not recorded: {unusable}"
        return document

    def _indexed(self, id: int) -> Document:
        """A document of the index."""
        document = self.index.documents([id]).get(id)
        if document is None:
            raise Mistake(GONE)
        return document

    def preview(self, name: str, id: int) -> dict[str, Any]:
        """The text of a result, with the words of the query marked."""
        with self.lock:
            document = self.open(name, id, "preview")
            now = self._indexed(id)  # of a document that is gone, another may have the number
            require((now.path, now.part) == (document.path, document.part), GONE)
            _, body = self.index.texts(id)
            slots = () if name == BY_DATE else self._list(name).found.slots
            pieces = marked(body[:LONGEST], slots, single=False)
        return {
            "title": document.title, "path": document.path, "kind": document.kind,
            "date": document.date, "pieces": pieces, "cut": len(body) > LONGEST,
            "note": self.not_recorded,
        }  # fmt: skip

    # --- why ---

    def compare(self, name: str) -> dict[str, Any]:
        """A list beside the one that BM25 would have shown."""
        with self.lock:
            made = self._list(name)
        plain = [made.found.documents[i] for i in made.order.plain]
        shown = made.shown
        return {
            "shown": [each.id for each in shown],
            "bm25": [each.id for each in plain],
            "titles": {str(each.id): each.title for each in [*shown, *plain]},
            "teams": made.order.teams.tolist(),
        }

    def why(self, name: str, id: int) -> dict[str, Any]:
        """What each feature adds to the score of a result."""
        with self.lock:
            made = self._list(name)
            at = [i for i, each in enumerate(made.found.documents) if each.id == id]
            require(bool(at), f"document {id} is not in this list: search again")
            values, weights = made.found.features[at[0]], self.ranker.weights
            score = float(self.ranker.ranker.scores(weights, values[None])[0])
            layers = layers_of(self.ranker.ranker, weights, len(ABOUT))
        if len(layers) > 1:  # its features have no weights of their own
            return {"score": score, "features": []}
        parts = [
            {
                "name": feature, "about": about, "value": round(float(value), 4),
                "weight": round(float(weight), 4), "contribution": round(float(value * weight), 4),
            }
            for (feature, about), value, weight in zip(
                ABOUT.items(), values, layers[0].weights[0], strict=True
            )
        ]  # fmt: skip
        return {
            "score": score,
            "features": sorted(parts, key=lambda part: -abs(part["contribution"])),
        }

    # --- the user's data ---

    @property
    def paused(self) -> bool:
        return self.log.about(PAUSED) is not None

    def pause(self, paused: bool) -> None:
        """While paused, nothing is logged or learned. Search goes on."""
        with self.lock:
            if paused:
                self.close_open()
                self.log.set_about(PAUSED, b"yes")
            else:
                self.log.delete_about(PAUSED)

    def history(self, before: int | None, most: int = 30) -> dict[str, Any]:
        """The last searches, newest first."""
        with self.lock:
            found = self.log.last(most + 1, before)
            opened = {each.id: self.log.opened(each.id) for each in found}
            titles = self.index.documents({id for ids in opened.values() for id in ids})
        names = {id: document.title for id, document in titles.items()}
        gone = "(a document that is not there any more)"
        return {
            "searches": [
                {
                    "id": each.id, "when": each.time, "query": each.query,
                    "clicked": [names.get(id, gone) for id in opened[each.id]],
                    "learned": each.learned, "sent": each.sent is not None,
                }
                for each in found[:most]
            ],
            "more": len(found) > most,
        }  # fmt: skip

    def forget(self, ids: Sequence[int] | None) -> None:
        """Delete searches, and what was learned from them on this device; None for all."""
        with self.lock:
            membership = self.membership
            if membership is not None and membership.waits_with(ids):
                membership.records.blank()  # first: it may be stopped after any of these
            self.ranker.forget(ids)
            if membership is not None:
                membership.records.set_memory(self.ranker.epoch.memory)
            for made in list(self._lists.values()):  # a list that was not logged can still be used
                if ids is None or made.logged in ids:
                    del self._lists[made.name]
            self._clean = False
            self._clean_up()

    def _clean_up(self) -> None:
        """Delete what SQLite's log of changes still has of forgotten searches. While another
        process reads the file, this must wait for the next time."""
        if not self._clean:
            self._clean = self.log.truncate_log(CLEAN_MILLISECONDS)

    def exported(self) -> str:
        """All that is stored of the user's searches, as JSON."""
        with self.lock:
            return exported(self.log, self.index)


def exported(log: ClickLog, index: Index) -> str:
    """All searches of a log as JSON, with the paths of documents; None for one that is gone."""
    searches = log.last(2**62)[::-1]
    ids = {id for each in searches for id in each.documents[each.ranking].tolist()}
    documents = index.documents(ids)
    content = []
    for each in searches:
        shown = [documents.get(id) for id in each.documents[each.ranking].tolist()]
        paths = [None if document is None else document.path for document in shown]
        clicked = [path for path, click in zip(paths, each.clicks, strict=True) if click]
        about = {"time": each.time, "query": each.query, "shown_by": each.shown_by}
        content.append({**about, "shown": paths, "clicked": clicked, "sent": each.sent})
    return json.dumps(content, ensure_ascii=False, indent=1)


def _described(
    document: Document, title: Sequence[Piece], text: Sequence[Piece]
) -> dict[str, Any]:
    return {
        "id": document.id, "title": title, "snippet": text, "path": document.path,
        "folder": Path(document.path).parent.name, "kind": document.kind, "date": document.date,
        "part": document.part,
    }  # fmt: skip
