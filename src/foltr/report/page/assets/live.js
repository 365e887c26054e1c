// The page that lives (`foltr watch`): hears what has changed, fetches it, keeps all that the reader has chosen.

let version = null;
let fetching = false;
let latest = null; // what was last told of the progress

function startLive() {
  $("#live").hidden = false;
  const events = new EventSource("events");
  events.addEventListener("progress", (event) => {
    const told = JSON.parse(event.data);
    latest = told;
    showProgress(told);
    if (told.version !== version) refetch();
  });
  events.addEventListener("error", () => tellLive("gone", "The server has gone. This page keeps what it has, and looks for it again."));
}

async function refetch() {
  if (fetching) return;
  fetching = true;
  try {
    const answer = await fetch("model", { cache: "no-store" });
    if (!answer.ok) return;
    const told = await answer.json();
    version = told.version;
    renew(told);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // the server went away: the stream of events tells
  } finally {
    fetching = false;
  }
}

/** New sections and data in place of the old; scroll, focus, choices and an open cell stay. */
function renew(told) {
  const at = scrollY, focus = keyOfFocus();
  const open = new Set($$("details.block[open]").map((fold) => fold.id));
  for (const [name, html] of Object.entries(told.sections)) {
    const place = $(`[data-section="${name}"]`);
    if (place.dataset.html !== html) place.innerHTML = place.dataset.html = html; // made by the server, all text escaped
  }
  for (const fold of $$("details.block")) fold.open = open.has(fold.id);
  document.title = told.title;
  if (told.data) show(told.data);
  if (latest) showProgress(latest);
  if (opened) fillEvidence();
  if (focus) $(focus)?.focus({ preventScroll: true });
  if (scrollY !== at) scrollTo({ top: at, behavior: "instant" });
}

/** How to find again what has the focus, if it is about to be replaced. */
function keyOfFocus() {
  const now = document.activeElement;
  if (!now?.closest("[data-section], .picker, #curve-tabs")) return null;
  if (now.id) return `#${CSS.escape(now.id)}`;
  if (now.matches(".chip")) return `#${now.closest(".picker").id} .chip[data-label="${CSS.escape(now.dataset.label)}"]`;
  if (now.matches(".cell")) return `#${now.closest(".panel").id} .cell[data-at="${now.dataset.at}"]`;
  if (now.matches(".sort")) return `#${now.closest(".panel").id} th[data-c="${now.closest("th").dataset.c}"] .sort`;
  return null;
}

function tellLive(state, text) {
  if ($("#live").dataset.state !== state) say(text); // not every round
  $("#live").dataset.state = state;
  if ($("#live-text").textContent !== text) $("#live-text").textContent = text;
}

function showProgress({ planned, done, failed, running, left, over, trouble }) {
  const planless = `Watching for runs: no sweep is planned here, ${plural(data?.runs.names.length ?? 0, "run")} so far`;
  const parts = [planned ? `${done.toLocaleString("en")} of ${planned.toLocaleString("en")} runs done` : planless];
  if (running.length) parts.push(`${running.length} running`);
  if (failed.length) parts.push(`${failed.length} failed`);
  if (left !== null && !over) parts.push(`about ${duration(left)} left`);
  const text = parts.join(" · ");
  tellLive(trouble ? "trouble" : over ? "over" : "live", trouble ? `${text}. ${trouble}` : over ? `The sweep is over: ${text}` : text);
  $("#live-bar").hidden = !planned;
  $("#live-bar").max = Math.max(planned, 1);
  $("#live-bar").value = done + failed.length;
  listRuns($("#live-running"), running, "running", (each) => `${each.run}: round ${each.round.toLocaleString("en")} of ${each.rounds.toLocaleString("en")}`);
  listRuns($("#live-failed"), failed, "failed", (each) => `${each.run}: ${each.error}`);
}

function listRuns(details, runs, word, told) {
  details.hidden = !runs.length;
  $("summary", details).textContent = `${plural(runs.length, "run")} ${word}`;
  $("ul", details).replaceChildren(...runs.slice(0, 100).map((each) => element("li", {}, told(each))));
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
