// The status page of `foltr serve`: fetches what the server shows, every two seconds, and draws its charts.

const EVERY = 2000; // milliseconds between two fetches
const GONE = "The server does not answer. This page keeps its content and tries again.";
const charts = new Map(); // name -> chart

/** The charts, from the rounds. A line or points per series; null where a round has no value. */
const PLOTS = [
  {
    name: "answered", title: "Clients", digits: 0, zero: true, shown: () => true,
    series: [
      { label: "asked", colour: "--c7", dash: [6, 4], of: (round) => round.asked },
      { label: "answered", colour: "--c0", of: (round) => round.answered },
    ],
  },
  {
    name: "seconds", title: "Seconds of a round", digits: 2, zero: true, shown: () => true,
    series: [{ label: "seconds", colour: "--c2", of: (round) => round.seconds }],
  },
  {
    name: "ndcg", title: "Held-out nDCG@10", digits: 4, zero: false,
    shown: (rounds) => rounds.some((round) => typeof round.ndcg === "number"),
    series: [
      { label: "of the new model", colour: "--c0", of: (round) => round.ndcg ?? null },
      { label: "not adopted", colour: "--c1", points: true, of: (round) => (round.refused ? round.ndcg ?? null : null) },
    ],
  },
];

const resized = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const chart = [...charts.values()].find((each) => each.room === target);
    if (chart?.plot && Math.abs(contentRect.width - chart.plot.width) > 1) chart.plot.setSize({ width: contentRect.width, height: heightOf(contentRect.width) });
  }
});

function heightOf(width) {
  return Math.round(Math.min(300, Math.max(200, 0.55 * width)));
}

function drawAll(rounds) {
  const wanted = rounds.length ? PLOTS.filter((plot) => plot.shown(rounds)) : [];
  $("#charts").hidden = !wanted.length;
  for (const about of wanted) {
    if (!charts.has(about.name)) charts.set(about.name, frame(about));
    fill(charts.get(about.name), rounds);
  }
}

/** An empty chart, with the legend in its caption. */
function frame(about) {
  const chart = { about, plot: null, rounds: [] };
  const keys = about.series.length > 1 ? about.series.map((each) => element("span", {}, key(each), each.label)) : [];
  chart.room = element("div", { class: "plot" });
  chart.tip = element("div", { class: "tip", hidden: true });
  const caption = element("figcaption", {}, about.title, element("small", {}, ...keys));
  chart.figure = element("figure", { class: "chart", tabindex: 0 }, caption, chart.room, chart.tip);
  chart.figure.addEventListener("keydown", (event) => step(chart, event));
  chart.figure.addEventListener("blur", () => chart.plot?.setCursor({ left: -10, top: -10 }));
  $("#charts").append(chart.figure);
  resized.observe(chart.room);
  return chart;
}

function key(series) {
  return element("i", { class: `${series.points ? "mark" : "s"} ${series.colour.slice(2)}${series.dash ? " d1" : ""}` });
}

/** New rounds go into the chart that is there: the pointer and the tip stay. */
function fill(chart, rounds) {
  chart.rounds = rounds;
  const columns = [rounds.map((round) => round.round + 1), ...chart.about.series.map((each) => rounds.map(each.of))];
  chart.figure.setAttribute("aria-label", described(chart));
  if (chart.plot) {
    chart.plot.setData(columns);
    return;
  }
  const width = chart.room.clientWidth || 320;
  chart.plot = new uPlot(options(chart, width), columns, chart.room);
}

/** The chart in words. */
function described({ about, rounds }) {
  const last = rounds.at(-1), values = about.series.filter((each) => !each.points).map((each) => `${each.label} ${fixed(each.of(last), about.digits)}`);
  return `${about.title}. Round ${last.round + 1}: ${values.join(", ")}. Arrow keys move along the rounds.`;
}

function options(chart, width) {
  const { about } = chart, grid = { stroke: () => colour("--line"), width: 1 };
  const font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
  const axis = { stroke: () => colour("--muted"), font, grid, ticks: { show: false } };
  return {
    width, height: heightOf(width), padding: [8, 12, 0, 0], legend: { show: false },
    cursor: {
      y: false, drag: { x: false, y: false, setScale: false },
      points: { size: 8, width: 2, fill: (plot, i) => plot.series[i].stroke(plot, i), stroke: () => colour("--card") },
    },
    scales: {
      x: { time: false, range: (plot, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
      y: { range: (plot, low, high) => rangeOf(about, low, high) },
    },
    axes: [
      { ...axis, size: 30, gap: 6, space: 56, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6], values: (plot, values) => values.map((value) => value.toLocaleString("en")) },
      { ...axis, size: 52, gap: 6, space: 34, values: (plot, values, i, space, gap) => values.map((value) => value.toFixed(places(gap))) },
    ],
    series: [{}, ...about.series.map((each) => ({
      label: each.label, stroke: () => colour(each.colour), width: each.points ? 0 : 2, dash: each.dash,
      points: each.points ? { show: true, size: 8, fill: () => colour(each.colour), stroke: () => colour(each.colour) } : { show: (plot) => plot.data[0].length === 1, size: 7, fill: () => colour(each.colour) },
    }))],
    hooks: { setCursor: [(plot) => follow(plot, chart)] },
  };
}

/** As many decimals as steps of this size need. */
function places(step) {
  return [0, 1, 2, 3, 4].find((n) => Math.abs(step * 10 ** n - Math.round(step * 10 ** n)) < 1e-6) ?? 5;
}

function rangeOf(about, low, high) {
  if (low === null || high === null) return [0, 1];
  if (about.zero) return [0, high > 0 ? 1.08 * high : 1];
  const room = Math.max(0.08 * (high - low), 0.002);
  return [low - room, high + room];
}

/** The values of the round under the pointer. */
function follow(plot, chart) {
  const { left, idx } = plot.cursor, round = idx === null || idx === undefined ? null : chart.rounds[idx];
  chart.tip.hidden = left === null || left === undefined || left < 0 || !round;
  if (chart.tip.hidden) return;
  const rows = chart.about.series.filter((each) => each.of(round) !== null).map((each) => element("tr", {},
    element("td", {}, key(each), each.label), element("td", {}, fixed(each.of(round), chart.about.digits))));
  chart.tip.replaceChildren(element("p", {}, `round ${(round.round + 1).toLocaleString("en")}`), element("table", {}, element("tbody", {}, ...rows)));
  const x = chart.room.offsetLeft + plot.over.offsetLeft + left, width = chart.tip.offsetWidth;
  const right = x + 16 + width <= chart.figure.clientWidth;
  chart.tip.style.left = `${right ? x + 16 : Math.max(4, x - 16 - width)}px`;
  chart.tip.style.top = `${chart.room.offsetTop + 6}px`;
}

/** Arrow keys move the cursor from round to round. */
function step(chart, event) {
  const last = chart.rounds.length - 1, { left, idx } = chart.plot.cursor, now = left >= 0 ? idx : -1;
  const to = { ArrowRight: Math.min(last, now + 1), ArrowLeft: now < 0 ? last : Math.max(0, now - 1), Home: 0, End: last }[event.key];
  if (event.key === "Escape") chart.plot.setCursor({ left: -10, top: -10 });
  if (to === undefined) return;
  event.preventDefault();
  chart.plot.setCursor({ left: chart.plot.valToPos(chart.rounds[to].round + 1, "x"), top: 0 });
}

// ---- what the server shows now

let asking = false;

async function refresh() {
  if (asking || document.hidden) return;
  asking = true;
  try {
    const answer = await fetch("data.json?sections", { cache: "no-store" });
    if (!answer.ok) throw new TypeError(`${answer.status}`);
    show(await answer.json());
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    showLine("gone", GONE);
  } finally {
    asking = false;
  }
}

/** Replace what has changed. Scroll positions and the focus stay. */
function show({ seen, sections, state, line }) {
  for (const [name, html] of Object.entries(sections)) {
    const place = $(`[data-section="${name}"]`);
    if (place.dataset.html === html) continue;
    const before = $(".scroll", place), at = before && [before.scrollTop, before.scrollLeft], focused = before && before === document.activeElement;
    place.innerHTML = place.dataset.html = html; // made by the server: all text is escaped
    const after = $(".scroll", place);
    if (before && after) [after.scrollTop, after.scrollLeft] = at;
    if (focused) after?.focus({ preventScroll: true });
  }
  $("#live-bar").max = seen.rounds;
  $("#live-bar").value = seen.round;
  showLine(state, line);
  drawAll(seen.history);
}

function showLine(state, text) {
  if ($("#live").dataset.state !== state) say(text); // not for every round
  $("#live").dataset.state = state;
  if ($("#live-text").textContent !== text) $("#live-text").textContent = text;
}

document.documentElement.classList.add("js");
startTheme(() => { for (const { plot } of charts.values()) plot?.redraw(); });
refresh();
setInterval(refresh, EVERY);
document.addEventListener("visibilitychange", refresh);
