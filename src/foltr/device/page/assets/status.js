// What the program says about itself: how much is indexed, whether it learns, what it sends. Asked for again from time to
// time, and after each change.

import { $, element, number, plural } from "./base.js";
import { failed, recovered } from "./searching.js";
import { get } from "./api.js";

const SOON = 1500, LATER = 20_000; // milliseconds between two questions: while documents are read, and otherwise

let timer = 0, asked = 0, last = null, told = null, trouble = false;

/** `tell(status)` is called with each new status. */
export function startStatus(tell) {
  told = tell;
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refreshStatus(); });
  return refreshStatus();
}

export function statusNow() {
  return last;
}

export async function refreshStatus() {
  const own = ++asked;
  clearTimeout(timer);
  try {
    const status = await get("status");
    if (own !== asked) return;
    last = status;
    if (trouble) recovered();
    trouble = false;
    showFooter(status);
    showLearning(status);
    told(status);
  } catch (error) {
    if (own !== asked) return;
    trouble = true;
    failed(error);
  } finally {
    if (own === asked && !document.hidden) timer = setTimeout(refreshStatus, last?.indexing ? SOON : LATER);
  }
}

function showFooter({ documents, indexing }) {
  const bar = $("#indexing");
  bar.hidden = !indexing;
  if (indexing) {
    bar.max = Math.max(indexing.total, 1);
    bar.value = indexing.read;
  }
  $("#amount").replaceChildren(indexing
    ? element("span", {}, `Reading documents: ${number(indexing.read)} of ${number(indexing.total)}`)
    : element("span", {}, `${plural(documents, "document")} on this device`));
}

/** The button that says at any time whether something is learned. */
function showLearning({ paused }) {
  const button = $("#learning");
  button.hidden = false;
  button.dataset.state = paused ? "paused" : "on";
  button.title = paused ? "Nothing is learned or recorded now. Select to change it." : "Searches and opened results are recorded on this device, to learn from. Select to change it.";
  $("span", button).textContent = paused ? "Learning is paused" : "Learning";
}
