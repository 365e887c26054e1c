// The panel beside the results. It is closed at first; the browser remembers whether it was open, and at which section.

import { $, remembered, say, tabs } from "./base.js";
import { leavingParts, learnedParts } from "./facts.js";
import { orderLeft, showOrder } from "./order.js";
import { refreshStatus, statusNow } from "./status.js";
import { reloadHistory } from "./history.js";
import { showYours, startYours } from "./yours.js";

const narrow = matchMedia("(max-width: 62rem)"); // as in panel.css: the panel then covers the results

let select = null, section = "order", by = "";
const drawn = new Map(); // section -> the status that it shows, as JSON

export function startPanel(searchAgain) {
  startYours((query) => {
    if (narrow.matches) closePanel();
    searchAgain(query);
  });
  select = tabs($("#panel .tabs"), (tab) => {
    section = remembered("section", tab.id.slice(4)) ?? tab.id.slice(4);
    show();
  });
  $("#panel-button").addEventListener("click", () => togglePanel());
  $("#panel-close").addEventListener("click", () => closePanel());
  $("#learning").addEventListener("click", () => openPanel("yours"));
  narrow.addEventListener("change", cover);
  const stored = $(`#tab-${remembered("section") ?? "order"}`) ?? $("#tab-order");
  select(stored, false);
  if (remembered("panel") === "open" && !narrow.matches) openPanel();
}

export function isPanelOpen() {
  return !$("#panel").hidden;
}

export function togglePanel() {
  if (isPanelOpen()) closePanel();
  else openPanel();
}

/** The focus stays where it is, so that keys still move in the results, unless a section was asked for or covers them. */
function openPanel(tab = null) {
  $("#panel").hidden = false;
  $("#panel-button").setAttribute("aria-expanded", "true");
  remembered("panel", "open");
  cover();
  if (tab) select($(`#tab-${tab}`), false);
  else show();
  if (tab || narrow.matches) $("#panel [aria-selected=true]").focus();
  else say("Details are shown beside the results");
  refreshStatus();
}

export function closePanel() {
  const inside = $("#panel").contains(document.activeElement);
  $("#panel").hidden = true;
  $("#panel-button").setAttribute("aria-expanded", "false");
  remembered("panel", "closed");
  cover();
  orderLeft();
  if (inside) $("#panel-button").focus();
}

/** On a narrow page the panel takes the place of the results. */
function cover() {
  document.body.classList.toggle("with-panel", isPanelOpen());
  $("#column").inert = isPanelOpen() && narrow.matches;
}

/** The list or the current result has changed. `shownBy`: who made the order of the list. */
export function listChanged(shownBy = by) {
  by = shownBy;
  if (isPanelOpen() && section === "order") showOrder(by);
}

export function statusChanged(status) {
  showYours(status);
  if (section !== "yours") show();
}

/** A search or an opened result was recorded: what the panel shows is out of date. */
export function searchRecorded() {
  if (!isPanelOpen()) return;
  refreshStatus();
  if (section === "yours") reloadHistory();
}

function show() {
  if (!isPanelOpen()) return;
  const status = statusNow();
  if (section === "order") return listChanged();
  orderLeft();
  if (section === "yours") reloadHistory();
  else if (status) redraw(section, section === "learned" ? learnedParts(status) : leavingParts(status), status);
}

/** Only if something has changed: the place to which the user has scrolled stays. */
function redraw(name, parts, status) {
  const json = JSON.stringify(status);
  if (drawn.get(name) === json) return;
  drawn.set(name, json);
  const at = $(`#panel-${name} .scroll`)?.scrollTop ?? 0;
  $(`#panel-${name}`).replaceChildren(...parts.filter(Boolean));
  const scroll = $(`#panel-${name} .scroll`);
  if (scroll) scroll.scrollTop = at;
}
