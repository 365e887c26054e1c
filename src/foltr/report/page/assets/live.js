// The live page (`foltr watch`): receives events, fetches new content, and keeps what the reader has chosen.

let version = null;
let fetching = false;
let latest = null; // the last progress received

function startLive() {
  $("#live").hidden = false;
  const events = new EventSource("events");
  events.addEventListener("progress", (event) => {
    latest = JSON.parse(event.data);
    showProgress(latest);
    if (latest.version !== version) refetch();
  });
  events.addEventListener("error", () => showLive("gone", "The server does not answer. This page keeps its content and tries again."));
}

/** Fetch the content, and again if an event has told of a newer version meanwhile. */
async function refetch() {
  if (fetching) return;
  fetching = true;
  try {
    let expected;
    do {
      expected = latest.version;
      const answer = await fetch("content", { cache: "no-store" });
      if (!answer.ok) return;
      const content = await answer.json();
      version = content.version;
      renew(content);
    } while (latest.version !== expected && latest.version !== version);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // the server does not answer: the stream of events reports that
  } finally {
    fetching = false;
  }
}

/** Replace sections and data. Scroll position, focus, choices and an open dialog stay. */
function renew(content) {
  const at = scrollY, focus = keyOfFocus();
  const open = new Set($$("details.block[open]").map((fold) => fold.id));
  for (const [name, html] of Object.entries(content.sections)) {
    const place = $(`[data-section="${name}"]`);
    if (place.dataset.html !== html) place.innerHTML = place.dataset.html = html; // made by the server: all text is escaped
  }
  for (const fold of $$("details.block")) fold.open = open.has(fold.id);
  document.title = content.title;
  if (content.data) show(content.data);
  if (latest) showProgress(latest);
  if (opened) fillEvidence();
  if (focus) $(focus)?.focus({ preventScroll: true });
  if (scrollY !== at) scrollTo({ top: at, behavior: "instant" });
}

/** A selector of the element that has the focus, if that element is about to be replaced. */
function keyOfFocus() {
  const now = document.activeElement;
  if (!now?.closest("[data-section], .picker, #curve-tabs")) return null;
  if (now.id) return `#${CSS.escape(now.id)}`;
  if (now.matches(".chip")) return `#${now.closest(".picker").id} .chip[data-label="${CSS.escape(now.dataset.label)}"]`;
  if (now.matches(".cell")) return `#${now.closest(".panel").id} .cell[data-at="${now.dataset.at}"]`;
  if (now.matches(".sort")) return `#${now.closest(".panel").id} th[data-c="${now.closest("th").dataset.c}"] .sort`;
  return null;
}

function showLive(state, text) {
  if ($("#live").dataset.state !== state) say(text); // not for every round
  $("#live").dataset.state = state;
  if ($("#live-text").textContent !== text) $("#live-text").textContent = text;
}

function showProgress({ planned, done, failed, running, left, over, trouble }) {
  const planless = `No sweep is planned here; ${plural(data?.runs.names.length ?? 0, "run")} so far`;
  const parts = [planned ? `${done.toLocaleString("en")} of ${planned.toLocaleString("en")} runs done` : planless];
  if (running.length) parts.push(`${running.length} running`);
  if (failed.length) parts.push(`${failed.length} failed`);
  if (left !== null && !over) parts.push(`about ${duration(left)} left`);
  const text = parts.join(" · ");
  showLive(trouble ? "trouble" : over ? "over" : "live", trouble ? `${text}. ${trouble}` : over ? `The sweep is over: ${text}` : text);
  $("#live-bar").hidden = !planned;
  $("#live-bar").max = Math.max(planned, 1);
  $("#live-bar").value = done + failed.length;
  listRuns($("#live-running"), running, "running", (each) => `${each.run}: round ${each.round.toLocaleString("en")} of ${each.rounds.toLocaleString("en")}`);
  listRuns($("#live-failed"), failed, "failed", (each) => `${each.run}: ${each.error}`);
}

function listRuns(details, runs, word, text) {
  details.hidden = !runs.length;
  $("summary", details).textContent = `${plural(runs.length, "run")} ${word}`;
  $("ul", details).replaceChildren(...runs.slice(0, 100).map((each) => element("li", {}, text(each))));
}

function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
