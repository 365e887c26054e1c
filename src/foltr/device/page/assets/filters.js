// The menus under the search box. They write filters into the text of the query (type:, folder:, after:, before:) and show
// those that are in it: the text is all there is.

import { $, element, KINDS, number } from "./base.js";

const PART = /(\b(?:type|folder|after|before):(?:"[^"]*"|\S*))|"[^"]*"?/g; // as in query.py; the second kind are phrases
const DATES = "dates", OWN = "own", PERIODS = [["", "Any date"], ["7", "Last 7 days"], ["30", "Last 30 days"], ["365", "Last year"], [DATES, "Choose dates…"]];
const MOST_FOLDERS = 60; // in the menu

const folders = new Map(); // name -> documents in it; null for a folder that is known only from results
let choosingDates = false; // the fields for dates are open. Text alone does not open them: nothing may move while somebody types

/** The filters of a query's text; the last of a kind counts. */
export function filtersOf(text) {
  const found = {};
  for (const [, filter] of text.matchAll(PART)) {
    if (!filter) continue;
    const at = filter.indexOf(":");
    found[filter.slice(0, at)] = filter.slice(at + 1).replaceAll('"', "");
  }
  return found;
}

/** The text with other filters. An empty value removes one. */
function withFilters(text, wanted) {
  const bare = text.replace(PART, (part, filter) => (filter && filter.slice(0, filter.indexOf(":")) in wanted ? "" : part));
  const added = Object.entries(wanted).filter(([, value]) => value).map(([name, value]) => `${name}:${/\s/.test(value) ? `"${value}"` : value}`);
  return [bare.replace(/\s+/g, " ").trim(), ...added].filter(Boolean).join(" ");
}

export function withoutFilters(text) {
  return withFilters(text, { type: "", folder: "", after: "", before: "" });
}

/** `change(text)` is called with the new text of the query. */
export function startFilters(change) {
  const type = $("#only-type"), folder = $("#only-folder"), date = $("#only-date"), after = $("#only-after"), before = $("#only-before");
  const write = (wanted) => change(withFilters($("#query").value, wanted));
  type.replaceChildren(...options([["", "All types"], ...Object.entries(KINDS)]));
  type.addEventListener("change", () => write({ type: type.value }));
  folder.addEventListener("change", () => write({ folder: folder.value }));
  date.addEventListener("change", () => {
    choosingDates = date.value === DATES;
    if (!choosingDates) return write({ after: date.value && daysAgo(Number(date.value)), before: "" });
    showFilters($("#query").value);
    after.focus();
  });
  after.addEventListener("change", () => write({ after: after.value }));
  before.addEventListener("change", () => write({ before: before.value }));
  showFilters("");
}

/** Make the menus show the filters of a text. */
export function showFilters(text) {
  const { type = "", folder = "", after = "", before = "" } = filtersOf(text);
  const known = type.toLowerCase() in KINDS;
  choose($("#only-type"), known ? type.toLowerCase() : "");
  showFolders(folder);
  const period = PERIODS.find(([days]) => Number(days) && !before && after === daysAgo(Number(days)));
  const own = [after && `from ${after}`, before && `before ${before}`].filter(Boolean).join(" ");
  const written = own && !period && !choosingDates ? [[OWN, own]] : [];
  $("#only-date").replaceChildren(...options([...written, ...PERIODS]));
  choose($("#only-date"), choosingDates ? DATES : period ? period[0] : own ? OWN : "");
  $("#dates").hidden = !choosingDates;
  for (const [input, value] of [[$("#only-after"), wholeDate(after)], [$("#only-before"), wholeDate(before)]]) {
    if (input.value !== value) input.value = value; // not while it is being written
  }
}

function showFolders(folder) {
  const menu = $("#only-folder"), names = new Set(folder ? [folder, ...folders.keys()] : folders.keys());
  const all = [...names].sort((a, b) => a.localeCompare(b)).map((name) => [name, folders.get(name) ? `${name} (${number(folders.get(name))})` : name]);
  if (menu.length !== all.length + 1 || all.some(([name, text], i) => menu[i + 1].value !== name || menu[i + 1].text !== text)) {
    menu.replaceChildren(...options([["", "All folders"], ...all]));
  }
  choose(menu, folder);
}

/** Offer the folders of these results in the menu. */
export function offerFolders(results) {
  for (const { folder } of results) if (folder && !folders.has(folder) && folders.size < MOST_FOLDERS) folders.set(folder, null);
}

/** Offer the folders with most documents: [{name, documents}]. */
export function offerCounted(counted) {
  for (const { name, documents } of counted) folders.set(name, documents);
  showFolders(filtersOf($("#query").value).folder ?? "");
}

function choose(select, value) {
  select.value = value;
  select.classList.toggle("chosen", value !== "");
}

function options(pairs) {
  return pairs.map(([value, text]) => element("option", { value }, text));
}

function daysAgo(days) {
  const date = new Date();
  date.setDate(date.getDate() - days);
  return [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}

/** 2024 means its first day, as in the program. */
function wholeDate(text) {
  return /^\d{4}(-\d\d){0,2}$/.test(text) ? `${text}-01-01`.slice(0, 10) : "";
}
