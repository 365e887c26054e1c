// The preview: a dialog with the text of a document. The words of the query are marked, and keys jump between them.

import { $, $$, button, closeButton, dateElement, element, KINDS, lettersOn, marked, number, say, shortPath, svg } from "./base.js";
import { Failure } from "./api.js";
import { failed, openDocument } from "./searching.js";
import { focusResult, shownOf } from "./results.js";

let shown = null; // the id of the document
let at = -1; // the mark that was jumped to

export function startPreview() {
  const dialog = $("#preview");
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); }); // beside it
  dialog.addEventListener("close", () => {
    shown = null;
    if (document.activeElement === document.body) focusResult(); // the browser gives the focus back, if its place is still there
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      if (event.key === "Enter" && !event.altKey) openProgram(shown, event);
      return;
    }
    if (!lettersOn()) return;
    if (event.key === "n") jump(1, event);
    if (event.key === "p") jump(-1, event);
    if (event.key === "o") openProgram(shown, event);
  });
}

/** Open a document of the list. */
export function openResult(id, how) {
  return how === "program" ? openProgram(id) : openPreview(id);
}

async function openProgram(id, event) {
  event?.preventDefault();
  const place = shown === null ? null : $("#preview-said");
  try {
    await openDocument(id, "program");
    say(`Opened with its own program: ${shownOf(id).title}`);
    if (place) place.textContent = "Opened with its own program.";
  } catch (error) {
    if (place && error instanceof Failure) place.textContent = error.message;
    failed(error);
  }
}

/** The dialog opens at once with what is known; the text follows. */
async function openPreview(id) {
  const dialog = $("#preview");
  shown = id;
  draw(shownOf(id), element("p", { class: "quiet" }, "Reading…"));
  if (!dialog.open) dialog.showModal();
  try {
    const found = await openDocument(id, "preview");
    if (shown === id) showText(found);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (shown === id) $(".d-body", dialog).replaceChildren(element("p", { class: "trouble" }, error.message));
    say(error.message);
  }
}

function showText(found) {
  const text = element("div", { class: `text ${found.kind}`, dir: "auto" }, ...marked(found.pieces));
  const cut = found.cut ? element("p", { class: "quiet" }, "The document goes on. Open it with its own program to see the rest.") : "";
  const note = found.note ? element("p", { class: "warn", role: "status" }, found.note) : "";
  draw(found, note, text, cut);
  if ($$("mark", text).length) jump(1);
}

function draw(found, ...body) {
  const dialog = $("#preview"), count = (found.pieces ?? []).filter(([, isMarked]) => isMarked).length;
  const about = [KINDS[found.kind] ?? found.kind ?? "", dateElement(found.date)].filter(Boolean);
  at = -1;
  const arrow = (d) => svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d }));
  const room = element("div", { class: "d-body", tabindex: 0, role: "document", autofocus: true, "aria-label": "Text of the document" }, ...body);
  dialog.replaceChildren(
    element("div", { class: "d-head" },
      element("div", {},
        element("h2", { id: "preview-title" }, found.title || "Document"),
        element("p", {}, ...about.flatMap((part, i) => (i ? [" · ", part] : [part]))),
        found.path ? shortPath(found.path) : ""),
      closeButton(() => dialog.close())),
    room,
    element("div", { class: "d-foot" },
      element("div", { class: "jumps", hidden: !count },
        button({ class: "icon", "aria-label": "Previous marked word", title: "Previous marked word (key: p)" }, () => jump(-1), arrow("M6 15l6-6 6 6")),
        button({ class: "icon", "aria-label": "Next marked word", title: "Next marked word (key: n)" }, () => jump(1), arrow("M6 9l6 6 6-6")),
        element("span", { id: "mark-count" }, count ? `${number(count)} marked` : "")),
      element("span", { id: "preview-said", role: "status" }),
      button({ class: "button main", title: "Key: o" }, () => openProgram(shown), "Open with its own program")));
  room.focus({ preventScroll: true });
}

/** Jump to the next or the previous mark; after the last comes the first. */
function jump(step, event) {
  const marks = $$("#preview .text mark");
  if (!marks.length) return;
  event?.preventDefault();
  marks[at]?.removeAttribute("class");
  at = at < 0 ? (step > 0 ? 0 : marks.length - 1) : (at + step + marks.length) % marks.length;
  marks[at].className = "here";
  const room = $("#preview .d-body"), box = marks[at].getBoundingClientRect(), view = room.getBoundingClientRect();
  if (box.top < view.top + 8 || box.bottom > view.bottom - 8) room.scrollTop += box.top - view.top - view.height / 3;
  $("#mark-count").textContent = `${number(at + 1)} of ${number(marks.length)}`;
}
