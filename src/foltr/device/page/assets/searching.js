// From the text in the box to results. Each change of the text asks anew; only the answer to the last question is shown.
// A list counts as looked at if the user presses Enter, opens one of its results, or it stays for a while. Only such lists
// are reported: the ones in between, while typing, say nothing about what the user wanted.

import { $, say } from "./base.js";
import { Failure, get, post } from "./api.js";
import { offerFolders, showFilters } from "./filters.js";
import { countOf, showResults, showState, showTrouble } from "./results.js";

const PAUSE = 60; // milliseconds after a key before the program is asked
const LOOKED = 1500; // milliseconds for which a list must stay to count as looked at
const SPEAK = 700; // milliseconds before a screen reader is told: not for every key

let answer = null; // what is shown
let answered = ""; // the text that it answers
let fresh = false; // whether it answers the text in the box
let entered = false; // whether it answers a whole query, after Enter
let reported = null; // the last list that was reported as looked at
let reporting = null; // the promise of that report
let asking = null; // AbortController of the question under way
let pause = 0, watch = 0, speak = 0; // timers
let told = null; // {changed, reported}: called with the answer that is shown, and after a list was reported

export function startSearching(given) {
  told = given;
  $("#query").addEventListener("input", () => textChanged());
  $("#clear").addEventListener("click", () => setText(""));
  document.addEventListener("visibilitychange", watchList);
  if ($("#query").value) textChanged(); // the browser may have kept it
}

/** Whether the list answers the text in the box. */
export function isFresh() {
  return fresh;
}

/** The name of the shown list; null if there is none, or if it is in the order of dates: that one has no name. */
export function currentList() {
  return answer?.list || null;
}

/** Recorded searches were deleted. Their lists are gone with them, so the shown one is made anew; it is not reported. */
export function searchesForgotten() {
  reported = null;
  if ($("#query").value.trim()) search(entered ? 0 : 1, true);
}

/** Replace the text in the box, and search. */
export function setText(text, { focus = true, enter = false } = {}) {
  $("#query").value = text;
  if (focus) $("#query").focus();
  textChanged();
  if (enter && text.trim()) search(0);
}

function textChanged() {
  const text = $("#query").value;
  fresh = false;
  clearTimeout(watch);
  clearTimeout(speak);
  clearTimeout(pause);
  showFilters(text);
  $("#clear").hidden = !text;
  if (text.trim()) pause = setTimeout(() => search(1), PAUSE);
  else forgetList();
}

function forgetList() {
  asking?.abort();
  asking = null;
  answer = null;
  answered = "";
  showResults(null, "");
  told.changed(null);
}

/** Enter was pressed: search for the words as they are, and report the list. */
export function enterPressed() {
  if (!$("#query").value.trim()) return;
  if (fresh && entered) report();
  else search(0);
}

async function search(typing, quietly = false) {
  const text = $("#query").value, own = new AbortController();
  clearTimeout(pause);
  asking?.abort();
  asking = own;
  try {
    const found = await get("search", { q: text, typing }, { signal: own.signal });
    if (asking === own) show(found, text, typing === 0, quietly);
  } catch (error) {
    if (asking === own) failed(error);
  } finally {
    if (asking === own) asking = null;
  }
}

function show(found, text, whole, quietly) {
  if (quietly) reported = found.list;
  // Enter on a list that is shown already must not make a second search of it
  else if (whole && answer && text === answered && sameResults(found, answer)) found.list = answer.list;
  answer = found;
  answered = text;
  entered = whole;
  fresh = true;
  offerFolders(found.results);
  showFilters(text);
  showResults(found, text);
  told.changed(found);
  watchList();
  speak = setTimeout(() => say(found.note ? `${found.note}. ${countOf(found)}` : countOf(found)), whole ? 0 : SPEAK);
  if (whole) report();
}

function sameResults(a, b) {
  return a.results.length === b.results.length && a.results.every((result, i) => result.id === b.results[i].id);
}

/** Show what went wrong. The results of before stay. */
export function failed(error) {
  if (error.name === "AbortError") return;
  if (!(error instanceof Failure)) throw error;
  if ($("#state").textContent !== error.message) say(error.message); // once, not with each attempt
  showTrouble(error.message);
}

/** The program answers again. */
export function recovered() {
  showState(answer);
}

// ---- lists that the user looked at

function watchList() {
  clearTimeout(watch);
  if (fresh && !document.hidden) watch = setTimeout(report, LOOKED);
}

/** Tell the program that the shown list was looked at, once. There is nothing to learn from an empty one, or from one in
the order of dates. */
function report() {
  clearTimeout(watch);
  if (!answer?.list || !answer.results.length) return null;
  if (reported !== answer.list) reporting = send(reported = answer.list);
  return reporting;
}

async function send(list) {
  try {
    await post("look", { list });
    told.reported();
  } catch (error) {
    if (reported === list) reported = null; // it may be tried again
    failed(error);
  }
}

/** Open a document of the shown list: as a preview, or with its own program. Returns what the program answers. */
export async function openDocument(id, how) {
  const { list } = answer;
  await report();
  const opened = await post("open", { list, id, how });
  told.reported();
  return opened;
}
