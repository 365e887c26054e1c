// "Why this order": the list beside the one of plain word matching (BM25), and the parts of one result's score.

import { $, button, element, number, signed, svg } from "./base.js";
import { Failure, get } from "./api.js";
import { currentList } from "./searching.js";
import { currentResult, selectResult, shownOf } from "./results.js";

const WAIT = 200; // milliseconds: the list must stay as long, so that typing stays fast
const FIRST = 8, LEAST = 0.005; // parts of a score that are shown at first: at most so many, and none that is shown as 0.00

const SHOWN_BY = {
  learned: "This list is in the order that was learned.",
  bm25: "This list is in the order of plain word matching (BM25).",
  mixed: "This list mixes the learned order with plain word matching (BM25), to find out which one you prefer.",
};
const TEAMS = { 1: "the learned order", 2: "BM25" }; // who chose the result at a place of a mixed list

let timer = 0, orderAsked = 0, whyAsked = 0, drawnList = null, drawnWhy = "";
let all = false; // whether all parts of the score are shown

/** Show the section for the list and the result that are current now. `by`: who made the order. */
export function showOrder(by) {
  clearTimeout(timer);
  timer = setTimeout(() => draw(by), WAIT);
}

export function orderLeft() {
  clearTimeout(timer);
  drawnList = null;
  drawnWhy = "";
}

function draw(by) {
  const list = currentList();
  if (list === null || currentResult() === null) {
    drawnList = null;
    drawnWhy = "";
    const text = by === "date" ? "There is no word to look for: the newest documents come first." : "Search for something to see how the results were ordered.";
    $("#panel-order").replaceChildren(element("h3", {}, "Why this order"), element("p", { class: "quiet" }, text));
    return;
  }
  if (list !== drawnList) drawOrder(list, by);
  else drawWhy(list);
}

async function drawOrder(list, by) {
  const own = ++orderAsked;
  let parts;
  try {
    parts = compared(await get("compare", { list }), by);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    parts = [element("p", { class: "trouble" }, error.message)];
  }
  if (own !== orderAsked || list !== currentList()) return;
  drawnList = list;
  drawnWhy = "";
  const old = $("#why"); // stays until the new one is there
  $("#panel-order").replaceChildren(element("h3", {}, "Why this order"), ...parts, old ?? element("div", { id: "why" }));
  drawWhy(list);
}

// ---- two lists, joined by lines

function compared({ shown, bm25, titles, teams }, by) {
  const rows = Math.max(shown.length, bm25.length), moved = shown.filter((id, i) => bm25.indexOf(id) !== i).length;
  const words = moved ? `${moved} of its ${shown.length} results are at another place than in plain word matching (BM25).` : "Plain word matching (BM25) gives the same order.";
  const lines = svg("svg", { viewBox: `0 0 100 ${rows * 20}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...shown.map((id, i) => line(id, i, bm25)));
  return [
    element("p", {}, `${SHOWN_BY[by] ?? ""} ${words}`),
    by === "mixed" && moved ? element("p", { class: "quiet" }, "Chosen by ", teamMark(1), ` ${TEAMS[1]}, `, teamMark(2), ` ${TEAMS[2]}`) : "",
    element("div", { class: "order" },
      element("h4", { id: "order-plain" }, "BM25"), element("span"), element("h4", { id: "order-shown" }, "This list"),
      element("ol", { "aria-labelledby": "order-plain" }, ...bm25.map((id, i) => plainRow(id, i, titles, shown))),
      lines,
      element("ol", { "aria-labelledby": "order-shown" }, ...shown.map((id, i) => shownRow(id, i, titles, bm25, teams[i])))),
  ];
}

function line(id, i, bm25) {
  const from = bm25.indexOf(id);
  if (from < 0) return svg("path", { class: "new", "data-id": id, d: `M 70 ${20 * i + 10} H 100` });
  const y = (place) => 20 * place + 10;
  return svg("path", { class: direction(from, i), "data-id": id, d: `M 0 ${y(from)} C 50 ${y(from)} 50 ${y(i)} 100 ${y(i)}` });
}

function direction(from, to) {
  return from === to ? "same" : from > to ? "up" : "down";
}

function plainRow(id, i, titles, shown) {
  const title = titles[id] ?? "";
  return element("li", { "data-id": id, class: shown.includes(id) ? null : "gone", title }, element("span", { class: "place" }, String(i + 1)), element("span", { class: "name" }, title));
}

function teamMark(team) {
  return element("i", { class: "team", "data-team": team, "aria-hidden": "true" });
}

function shownRow(id, i, titles, bm25, team) {
  const from = bm25.indexOf(id), by = from - i, title = titles[id] ?? shownOf(id).title;
  const move = from < 0 ? "new" : by === 0 ? "=" : `${by > 0 ? "▲" : "▼"}${Math.abs(by)}`;
  const said = from < 0 ? "not among the first of BM25" : by === 0 ? "same place" : `${by > 0 ? "up" : "down"} ${Math.abs(by)}`;
  const choose = button({ title, "aria-pressed": "false" }, () => selectResult(id),
    element("span", { class: "place" }, String(i + 1)), team ? teamMark(team) : "", element("span", { class: "name" }, title),
    element("span", { class: `move ${from < 0 ? "up" : direction(from, i)}`, "aria-hidden": "true" }, move), element("span", { class: "sr" }, `, ${said}${team ? `, chosen by ${TEAMS[team]}` : ""}`));
  return element("li", { "data-id": id }, choose);
}

// ---- the parts of a score

async function drawWhy(list) {
  const id = currentResult(), own = ++whyAsked;
  if (id === null || drawnWhy === `${list} ${id}`) return;
  for (const each of document.querySelectorAll(".order [data-id]")) each.classList.toggle("here", Number(each.dataset.id) === id);
  for (const each of document.querySelectorAll(".order button")) each.setAttribute("aria-pressed", String(each.closest("li").classList.contains("here")));
  let parts;
  try {
    parts = explained(id, await get("why", { list, id }));
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    parts = [element("p", { class: "trouble" }, error.message)];
  }
  if (own !== whyAsked || list !== currentList()) return;
  drawnWhy = `${list} ${id}`;
  $("#why")?.replaceChildren(...parts);
}

function explained(id, { score, features }) {
  if (!features.length) return [element("h3", {}, "Why this place"), element("p", {}, `Its score is ${number(score, 2)}. This ranker is a neural network: its scores have no parts.`)];
  const most = Math.max(...features.map((each) => Math.abs(each.contribution)), 1e-9);
  const first = Math.min(FIRST, Math.max(1, features.filter((each) => Math.abs(each.contribution) >= LEAST).length));
  const items = features.map((each, i) => part(each, most, !all && i >= first));
  const list = element("ul", { class: "parts" }, ...items), words = () => (all ? `Show only the first ${first}` : `Show all ${features.length}`);
  const more = button({ class: "link", "aria-expanded": String(all) }, () => {
    all = !all;
    items.forEach((item, i) => { item.hidden = !all && i >= first; });
    more.setAttribute("aria-expanded", String(all));
    more.textContent = words();
  }, words());
  return [
    element("h3", {}, "Why this place"),
    element("p", { class: "which" }, shownOf(id).title),
    element("p", { class: "quiet" }, `Its score is ${number(score, 2)}: the sum of ${features.length} parts. Each is how well the document fits in one respect, times how much this counts.`),
    list,
    features.length > first ? more : "",
  ];
}

/** A signed bar: to the right it moved the result up, to the left down. */
function part({ name, about, value, weight, contribution }, most, hidden) {
  const long = (50 * Math.abs(contribution)) / most, up = contribution >= 0;
  const bar = svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: up ? "up" : "down", x: up ? 50 : 50 - long, y: 1, width: long, height: 6 }), svg("path", { d: "M50 0V8" }));
  const product = typeof weight === "number" ? `${number(value, 2)} × ${number(weight, 2)}` : number(value, 2);
  return element("li", { title: name, hidden }, element("span", { class: "what" }, about || name), element("b", {}, signed(contribution, 2)), bar, element("small", {}, product));
}
