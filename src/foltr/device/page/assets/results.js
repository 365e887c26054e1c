// The list of results, and what is shown instead if there is none. One result is the current one: the Tab key reaches it, and
// arrow keys move it.

import { $, button, dateElement, element, KINDS, marked, number, plainText, plural, shortPath, svg } from "./base.js";
import { filtersOf, withoutFilters } from "./filters.js";

const SHORT = { markdown: "MD", text: "TXT", html: "WEB", code: "CODE", pdf: "PDF", mail: "MAIL" };
const MOST = 10; // results of a list
const CAPPED = 60; // candidates from which there may be more
const ORDERS = { learned: "learned order", bm25: "plain word matching", mixed: "mixed order", date: "newest first" };

let rows = new Map(); // id -> {result, json, row}: a row that has not changed stays, with its focus
let current = 0; // place of the current result
let acts = null; // {open, select, search}

export function startResults(given) {
  acts = given;
  $("#results").addEventListener("focusin", (event) => makeCurrent(placeOf(event.target)));
}

function placeOf(inside) {
  return [...$("#results").children].indexOf(inside.closest("li"));
}

/** The id of the current result; null if there is none. */
export function currentResult() {
  const row = $("#results").children[current];
  return row && !$("#results").hidden ? Number(row.dataset.id) : null;
}

/** Show an answer to a query; null for none. */
export function showResults(answer, text) {
  const found = answer?.results ?? [], list = $("#results"), focused = list.contains(document.activeElement) ? document.activeElement : null;
  const before = focused ? focused.closest("li").dataset.id : null;
  const old = rows;
  rows = new Map(found.map((result) => [result.id, kept(old.get(result.id), result)]));
  list.replaceChildren(...[...rows.values()].map(({ row }) => row));
  list.hidden = $("#results-title").hidden = !found.length;
  $("#start").hidden = answer !== null;
  showEmpty(answer, text);
  showState(answer);
  const again = found.findIndex((result) => String(result.id) === before);
  makeCurrent(Math.max(again, 0));
  if (focused && found.length) focusResult(current);
  else if (focused) $("#query").focus();
}

function kept(old, result) {
  const json = JSON.stringify(result);
  return old?.json === json ? old : { result, json, row: drawn(result) };
}

function drawn(result) {
  const title = button({ class: "title" }, (event) => acts.open(result.id, event.ctrlKey || event.metaKey ? "program" : "preview"), ...marked(result.title));
  const open = button({ class: "own", title: "Open with its own program (key: o)", "aria-label": `Open ${plainText(result.title)} with its own program` },
    () => acts.open(result.id, "program"), "Open", svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, svg("path", { d: "M5 11 11.5 4.5M6.5 4.5h5v5" })));
  const kind = element("span", { class: "kind", "data-kind": result.kind, title: KINDS[result.kind] ?? result.kind },
    element("span", { "aria-hidden": "true" }, SHORT[result.kind] ?? result.kind), element("span", { class: "sr" }, KINDS[result.kind] ?? result.kind));
  const row = element("li", { "data-id": result.id },
    element("h3", { dir: "auto" }, title), kind, element("p", { class: "snippet", dir: "auto" }, ...marked(result.snippet)),
    element("p", { class: "about" }, shortPath(result.path, result.part), element("span", { class: "date" }, dateElement(result.date))), open);
  row.addEventListener("click", (event) => {
    if (event.target.closest("button") || String(getSelection())) return; // text is being selected
    title.focus({ preventScroll: true });
    acts.open(result.id, event.ctrlKey || event.metaKey ? "program" : "preview");
  });
  return row;
}

function makeCurrent(place) {
  const all = [...$("#results").children];
  current = place;
  all.forEach((row, i) => {
    row.toggleAttribute("data-current", i === place);
    for (const each of row.querySelectorAll("button")) each.tabIndex = i === place ? 0 : -1;
  });
  acts.select(currentResult());
}

/** Move to another result; from the first one up to the search box. Returns whether there are results. */
export function moveBy(step) {
  const count = $("#results").children.length, inside = $("#results").contains(document.activeElement);
  if (!count || $("#results").hidden) return false;
  if (inside && current + step < 0) $("#query").focus();
  else focusResult(inside ? Math.min(current + step, count - 1) : current);
  return true;
}

export function moveTo(end) {
  focusResult(end === "first" ? 0 : $("#results").children.length - 1);
}

export function focusResult(place = current) {
  const row = $("#results").children[place];
  if (!row) return;
  $(".title", row).focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

export function selectResult(id) {
  const place = [...rows.keys()].indexOf(id);
  if (place >= 0) makeCurrent(place);
}

/** What is shown of a result: title, path, kind, date. */
export function shownOf(id) {
  const { title = [], ...about } = rows.get(id)?.result ?? {};
  return { ...about, title: plainText(title) };
}

// ---- the line above the results

/** How many were found, in words; also for a screen reader. */
export function countOf(answer) {
  const shown = answer.results.length;
  if (!shown) return "Nothing found";
  if (answer.shown_by === "date") return shown < MOST ? plural(shown, "document") : `The newest ${shown} documents`;
  return answer.found > shown ? `The best ${shown} of ${number(answer.found)}${answer.found < CAPPED ? "" : " or more"} found` : plural(answer.found, "document");
}

/** Show how many were found; null for no answer. */
export function showState(answer) {
  const text = !answer ? "" : answer.note || (answer.results.length ? countOf(answer) : "");
  const order = answer?.results.length && !answer.note ? `${ORDERS[answer.shown_by] ?? answer.shown_by} · ${number(answer.milliseconds)} ms` : "";
  setState(text, order, Boolean(answer?.note));
}

export function showTrouble(text) {
  setState(text, "", true);
}

function setState(text, small, trouble) {
  $("#state span").textContent = text;
  $("#state small").textContent = small;
  $("#state").classList.toggle("trouble", trouble);
}

// ---- nothing found

function showEmpty(answer, text) {
  const place = $("#empty"), none = answer !== null && !answer.results.length;
  place.hidden = !none;
  if (!none) return place.replaceChildren();
  const { unknown = [], similar = {}, without_filters: without = 0 } = answer.empty ?? {};
  const parts = [element("h2", {}, "Nothing found")];
  for (const word of unknown) parts.push(element("p", {}, "No document has the word ", element("b", {}, word), ". ", ...instead(text, word, similar[word])));
  if (without) {
    const show = button({ class: "button" }, () => acts.search(withoutFilters(text)), `Show ${without === 1 ? "it" : "them"}`);
    parts.push(element("p", {}, `Without ${filterWords(text)}: ${plural(without, "document")}. `, show));
  }
  if (parts.length === 1) parts.push(element("p", {}, withoutFilters(text) ? "Try fewer or other words." : "Write a word to look for."));
  place.replaceChildren(...parts);
}

function instead(text, word, other) {
  if (!other) return ["Look at its spelling, or leave it out."];
  const act = () => acts.search(text.replace(whole(word), () => other));
  return ["Did you mean ", button({ class: "button" }, act, other), "?"];
}

function whole(word) {
  return new RegExp(`(?<![\\p{L}\\p{N}])${word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\p{L}\\p{N}])`, "giu");
}

function filterWords(text) {
  const named = Object.entries(filtersOf(text)).filter(([, value]) => value).map(([name, value]) => `${name}:${value}`);
  return named.length ? named.join(" ") : "filters";
}
