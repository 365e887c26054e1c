// The recorded searches, newest first. Each can be forgotten.

import { $, button, dateElement, element } from "./base.js";
import { Failure, get, post } from "./api.js";
import { refreshStatus, statusNow } from "./status.js";
import { searchesForgotten } from "./searching.js";

let again = null, said = null; // called with a query to search for, and with what is to be said

/** The part of the panel. Its list is read when it is opened: others may look at the screen. */
export function historyPart(searchAgain, say) {
  again = searchAgain;
  said = say;
  const older = button({ class: "link", hidden: true }, showOlder, "Show older ones");
  const made = element("details", { id: "history" }, element("summary", {}, "Recorded searches"), element("ol", {}), older);
  made.addEventListener("toggle", () => {
    clearHistory();
    if (made.open) load();
  });
  return made;
}

export function clearHistory() {
  const place = $("#history");
  $("ol", place).replaceChildren();
  $(".link", place).hidden = true;
  showNone(false);
}

/** The newest searches anew, where the list is open and the user is not in it. */
export function reloadHistory() {
  const place = $("#history");
  if (place?.open && !place.contains(document.activeElement)) load();
}

/** Read searches: the newest ones, or those before the last one of the list. */
async function load(before = null) {
  const list = $("#history ol");
  try {
    const { searches, more } = await get("history", before === null ? {} : { before });
    const rows = searches.map(drawn);
    if (before === null) list.replaceChildren(...rows);
    else list.append(...rows);
    $("#history .link").hidden = !more;
    showNone(!list.children.length);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    said(error.message);
  }
}

async function showOlder() {
  const last = $("#history ol").lastElementChild;
  await load(last?.dataset.id);
  const next = last ? last.nextElementSibling : $("#history li");
  if (next) $(".query", next).focus();
}

function showNone(none) {
  $("#history .none")?.remove();
  if (none) $("#history ol").after(element("p", { class: "quiet none" }, "Nothing is recorded."));
}

function drawn({ id, when, query, clicked, learned, sent }) {
  const opened = clicked.length ? element("p", { class: "opened" }, "Opened: ", clicked.join(", ")) : element("p", {}, "Nothing was opened.");
  const state = !clicked.length ? "nothing to learn from" : !learned ? "not learned from yet" : "learned from";
  const where = sent ? ", part of a message that was sent" : statusNow()?.federation ? ", not sent" : "";
  const row = element("li", { "data-id": id },
    button({ class: "query", title: "Search for this again" }, () => again(query), query),
    button({ class: "button small", "aria-label": `Forget the search ${query}` }, () => forget(row, sent), "Forget"),
    opened,
    element("p", { class: "quiet" }, dateElement(when), ` · ${state}${where}`));
  return row;
}

async function forget(row, sent) {
  try {
    await post("forget", { search: Number(row.dataset.id) });
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return said(error.message);
  }
  const next = row.nextElementSibling ?? row.previousElementSibling;
  row.remove();
  if (next) $(".small", next).focus();
  else $("#history summary").focus();
  showNone(!$("#history ol").children.length);
  said(sent ? "Forgotten on this device. The message that it was part of was sent, and cannot be taken back." : "Forgotten.");
  searchesForgotten();
  refreshStatus();
}
