// The keys of the page, and the dialog that lists them. Keys of one letter can be turned off, for people who speak to their
// computer.

import { $, button, closeButton, element, lettersOn, remembered } from "./base.js";
import { closePanel, isPanelOpen, togglePanel } from "./panel.js";
import { currentResult, moveBy, moveTo } from "./results.js";
import { enterPressed, isFresh, setText } from "./searching.js";
import { openResult } from "./preview.js";

const COMMAND = navigator.platform.startsWith("Mac") ? "⌘" : "Ctrl";
const KEYS = [
  ["In the search box", [
    ["Enter", "search for the words as they are"],
    ["↓", "go to the results"],
    ["Esc", "clear the box"],
  ]],
  ["In the results", [
    ["↓ ↑ or j k", "next, previous result"],
    ["Enter", "preview"],
    [`${COMMAND} Enter or o`, "open with its own program"],
    ["Esc", "back to the search box"],
  ]],
  ["In the preview", [
    ["n p", "next, previous marked word"],
    ["o", "open with its own program"],
    ["Esc", "close"],
  ]],
  ["Anywhere", [
    ["/", "go to the search box"],
    ["p", "open or close the details"],
    ["?", "this list"],
  ]],
];

export function startKeys() {
  $("#keys-button").addEventListener("click", showKeys);
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.target.closest?.("dialog")) return;
    if (pressed(event)) event.preventDefault();
  });
}

/** Act on a key. Returns whether it was one of the page. */
function pressed(event) {
  const box = event.target === $("#query"), row = $("#results").contains(event.target);
  const writing = event.target.matches?.("input, select, textarea"), command = event.ctrlKey || event.metaKey;
  if (event.altKey) return false;
  if (command) return event.key === "Enter" && (row || (box && isFresh())) && openCurrent();
  if (event.key === "Escape") return escaped(event, box);
  if (box) return inBox(event.key);
  if (writing) return false;
  if (row && inRow(event.key)) return true;
  return lettersOn() && letter(event.key);
}

function inBox(key) {
  if (key === "ArrowDown") return moveBy(0);
  if (key === "Enter") enterPressed();
  return key === "Enter";
}

function inRow(key) {
  const act = { ArrowDown: () => moveBy(1), ArrowUp: () => moveBy(-1), Home: () => moveTo("first"), End: () => moveTo("last") }[key];
  act?.();
  return Boolean(act);
}

function letter(key) {
  const act = {
    "/": () => $("#query").select(), "?": showKeys, p: togglePanel, j: () => moveBy(1), k: () => moveBy(-1), o: openCurrent,
  }[key];
  act?.();
  return Boolean(act);
}

function openCurrent() {
  if (currentResult() !== null) openResult(currentResult(), "program");
  return true;
}

function escaped(event, box) {
  if (isPanelOpen() && $("#panel").contains(event.target)) closePanel();
  else if (box) setText("");
  else $("#query").focus();
  return true;
}

function showKeys() {
  const dialog = $("#keys");
  const check = element("input", { type: "checkbox", checked: lettersOn() });
  check.addEventListener("change", () => remembered("letters", check.checked ? "on" : "off"));
  const groups = KEYS.map(([title, rows]) => element("div", {}, element("h3", {}, title),
    element("dl", {}, ...rows.map(([keys, what]) => element("div", {}, element("dt", {}, ...keyCaps(keys)), element("dd", {}, what))))));
  dialog.replaceChildren(
    element("div", { class: "d-head" }, element("h2", { id: "keys-title" }, "Keys"), closeButton(() => dialog.close())),
    element("div", { class: "d-body" }, element("div", { class: "key-groups" }, ...groups),
      element("label", { class: "check" }, check, "Keys of one letter or sign (j, k, o, p, n, /, ?) work")),
    element("div", { class: "d-foot" }, button({ class: "button", autofocus: true }, () => dialog.close(), "Close")));
  if (!dialog.open) dialog.showModal();
}

function keyCaps(keys) {
  return keys.split(" ").flatMap((each) => (each === "or" ? [" or "] : [element("kbd", {}, each)]));
}
