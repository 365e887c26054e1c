// "Your data": pause, what was recorded, a copy of it, delete it, leave the federation.

import { $, button, element, plural, say } from "./base.js";
import { Failure, get, post } from "./api.js";
import { asked } from "./question.js";
import { clearHistory, historyPart } from "./history.js";
import { refreshStatus, statusNow } from "./status.js";
import { searchesForgotten } from "./searching.js";

/** Lines about messages that were sent. */
function sentLines(federation) {
  const sent = federation?.messages_sent;
  return sent ? [`${plural(sent, "message")} ${sent === 1 ? "was" : "were"} sent before. What was sent cannot be taken back.`] : [];
}

/** Build the section once. `showYours` then keeps it up to date. */
export function startYours(searchAgain) {
  const learns = button({ id: "learns", class: "switch", role: "switch", "aria-checked": "true", "aria-describedby": "learns-about" }, () => act(togglePause), "Learn from my searches");
  $("#panel-yours").replaceChildren(
    element("h3", {}, "Your data"),
    learns,
    element("p", { id: "learns-about", class: "quiet" }),
    element("p", { id: "yours-said", class: "said", role: "status" }),
    historyPart(searchAgain, showSaid),
    element("h4", {}, "Keep or delete"),
    element("div", { class: "acts" },
      action("Save a copy", "All recorded searches and clicks, as a JSON file.", () => act(saveCopy)),
      action("Delete everything…", "All recorded searches and clicks, and what was learned from them.", () => act(deleteAll), "danger"),
      element("div", { id: "leave-row", hidden: true },
        element("p", {}, element("b", {}, "Leave the federation"), "This device sends nothing any more."), button({ class: "button danger" }, () => act(leave), "Leave…"))));
}

function action(name, about, run, danger = "") {
  return element("div", {}, element("p", {}, element("b", {}, name.replace("…", "")), about), button({ class: `button ${danger}` }, run, name.split(" ")[0] + (name.endsWith("…") ? "…" : "")));
}

export function showYours({ paused, federation }) {
  $("#learns").setAttribute("aria-checked", String(!paused));
  $("#learns-about").textContent = paused
    ? "Off: nothing is learned or recorded. Searching works as before."
    : "On: searches and opened results are recorded on this device, and the ranker learns from them.";
  $("#leave-row").hidden = !federation;
}

/** Run an action. What went wrong is said beside it. */
async function act(run) {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    showSaid(error.message);
  }
}

function showSaid(text) {
  $("#yours-said").textContent = text;
}

async function togglePause() {
  const paused = $("#learns").getAttribute("aria-checked") === "true";
  await post("pause", { paused });
  showSaid("");
  await refreshStatus();
}

async function saveCopy() {
  const blob = await get("export", {}, { read: (answer) => answer.blob() });
  const link = element("a", { href: URL.createObjectURL(blob), download: "foltr-searches.json" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // the browser reads it after the click
  showSaid("The copy is in your downloads: foltr-searches.json");
}

async function deleteAll() {
  const { model, federation } = statusNow() ?? {};
  const lines = [
    `This deletes ${model ? `all ${plural(model.searches, "recorded search", "recorded searches")}` : "all recorded searches"} with their clicks, and what was learned from them on this device.`,
    "Your documents stay as they are.",
    ...sentLines(federation),
  ];
  const yes = await asked({ title: "Delete everything that was recorded?", lines, yes: "Delete everything" });
  if (!yes) return;
  await post("clear", {});
  clearHistory();
  searchesForgotten();
  showSaid("Everything that was recorded is deleted.");
  await refreshStatus();
}

async function leave() {
  const chosen = await asked({
    title: "Leave the federation?",
    lines: ["This device then learns alone and sends nothing any more. Searching works as before.", ...sentLines(statusNow()?.federation)],
    choices: [
      ["stay", "Only leave", "What this device contributed stays in the ranker of the federation."],
      ["forget", "Leave and be forgotten", "The server also unlearns what this device contributed. This takes a while."],
    ],
    yes: "Leave",
  });
  if (!chosen) return;
  const { text } = await post("leave", { forget: chosen === "forget" });
  showSaid(text);
  say(text);
  await refreshStatus();
}
