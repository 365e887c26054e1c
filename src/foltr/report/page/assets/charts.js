// Charts: one per condition, with the same axes, and one cursor for all.

const NAMED = 16; // more lines than that are counted in a tip, not named
const FAINT = 0.3; // the opacity of lines that the reader does not point at
let charts = []; // the charts on the page: {figure, plot, panel, tip}
let pointed = null; // the chart under the pointer, or the one with the focus
let focused = null; // the label of the method that the reader points at
const resized = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const chart = charts.find((each) => each.room === target);
    if (chart && Math.abs(contentRect.width - chart.plot.width) > 1) chart.plot.setSize({ width: contentRect.width, height: heightOf(contentRect.width) });
  }
});

function heightOf(width) {
  return Math.round(Math.min(420, Math.max(290, 0.36 * width)));
}

function isShown(group, label) {
  return group.get(label) ?? false;
}

/** What to draw: a panel per shown condition, with a line per shown method. */
function panels() {
  const measure = measureNow(), level = levelOf(measure), curves = curvesOf(measure);
  return data.conditions.map((label, condition) => ({
    label, condition,
    lines: curves
      .filter((curve) => curve.condition === condition && isShown(chosen.methods, labelOf(curve.method)))
      .map((curve) => drawn(curve, level)),
  })).filter((panel) => isShown(chosen.conditions, panel.label));
}

function draw() {
  if (!data || !data.curves.length) return;
  const found = panels(), range = rangeOf(found);
  while (charts.length > found.length) discard(charts.pop());
  found.forEach((panel, i) => {
    charts[i] ??= frame();
    fill(charts[i], panel, range);
  });
  describeCurves();
}

function discard(chart) {
  resized.unobserve(chart.room);
  chart.plot?.destroy();
  chart.figure.remove();
}

/** An empty chart at the end of the others. */
function frame() {
  const chart = { plot: null, panel: null };
  chart.caption = element("figcaption");
  chart.room = element("div", { class: "plot" });
  chart.tip = element("div", { class: "tip", hidden: true });
  chart.figure = element("figure", { class: "chart", tabindex: 0 }, chart.caption, chart.room, chart.tip);
  chart.figure.addEventListener("pointerenter", () => { pointed = chart; });
  chart.figure.addEventListener("pointerleave", () => { leave(chart); });
  chart.figure.addEventListener("blur", () => { leave(chart); });
  chart.figure.addEventListener("keydown", (event) => step(chart, event));
  $("#charts").append(chart.figure);
  resized.observe(chart.room);
  return chart;
}

function leave(chart) {
  if (pointed === chart) pointed = null;
  chart.tip.hidden = true;
  if (chart.plot) chart.plot.setCursor({ left: -10, top: -10 });
}

function fill(chart, panel, range) {
  chart.plot?.destroy();
  chart.panel = panel;
  chart.caption.replaceChildren(panel.label, element("small", {}, chosen.by));
  chart.figure.setAttribute("aria-label", described(panel));
  const width = chart.room.clientWidth || 320;
  chart.plot = new uPlot(options(chart, width, range), aligned(panel.lines), chart.room);
}

/** The chart in words. */
function described(panel) {
  const last = panel.lines.filter((line) => line.y.length).map((line) => `${labelOf(line.curve.method)} ${line.y.at(-1).toFixed(3)}`);
  return `${measureNow().name}, ${panel.label}. At the end: ${last.join("; ") || "nothing is shown"}. Arrow keys move along the curves.`;
}

function options(chart, width, range) {
  const ink = colour("--muted"), grid = { stroke: colour("--line"), width: 1 };
  const font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";
  const axis = { stroke: ink, font, grid, ticks: { show: false } };
  return {
    width, height: heightOf(width), padding: [8, 12, 0, 0],
    legend: { show: false },
    focus: { alpha: FAINT },
    cursor: {
      y: false, drag: { x: false, y: false, setScale: false }, focus: { prox: 18 },
      sync: { key: "foltr", setSeries: false, scales: ["x", null] },
      points: { size: 8, width: 2, fill: (plot, i) => plot.series[i].stroke(plot, i), stroke: () => colour("--card") },
    },
    scales: {
      x: { time: false, distr: chosen.scale === "log" ? 3 : 1, range: (plot, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
      y: { range },
    },
    axes: [
      { ...axis, grid: { ...grid, filter: (plot, values) => values.map(decade) }, size: 30, gap: 6, space: 56, values: (plot, values) => values.map((value) => (value === null ? "" : large(value))) },
      { ...axis, size: 52, gap: 6, space: 38, values: (plot, values, i, space, step) => values.map((value) => value.toFixed(places(step))) },
    ],
    series: [{}, ...chart.panel.lines.map(series)],
    hooks: { drawClear: [(plot) => drawBands(plot, chart)], setCursor: [(plot) => follow(plot, chart)], setSeries: [(plot, i) => noteFocus(chart, i)] },
  };
}

/** A logarithmic axis has lines at powers of ten only. */
function decade(value) {
  return chosen.scale === "linear" || Number.isInteger(Number(Math.log10(value).toFixed(6))) ? value : null;
}

/** As many decimals as steps of this size need. */
function places(step) {
  return Math.min(6, Math.max(0, [0, 1, 2, 3, 4, 5].find((n) => Math.abs(step * 10 ** n - Math.round(step * 10 ** n)) < 1e-6) ?? 6));
}

function series(line) {
  const method = line.curve.method;
  return {
    label: labelOf(method), scale: "y", width: 2, dash: lineDash(method), stroke: () => lineColour(method),
    points: { show: line.x.length === 1, size: 7 }, alpha: focused && focused !== labelOf(method) ? FAINT : 1,
  };
}

function drawBands(plot, chart) {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const line of chart.panel.lines.filter((each) => each.banded)) {
    const label = labelOf(line.curve.method);
    ctx.globalAlpha = focused === null ? 0.15 : focused === label ? 0.28 : 0.03;
    ctx.fillStyle = lineColour(line.curve.method);
    const across = (i) => plot.valToPos(line.x[i], "x", true), up = (value) => plot.valToPos(value, "y", true);
    for (const part of stretches(line.half)) {
      ctx.beginPath();
      part.forEach((i) => ctx.lineTo(across(i), up(line.y[i] + line.half[i])));
      part.reverse().forEach((i) => ctx.lineTo(across(i), up(line.y[i] - line.half[i])));
      ctx.fill();
    }
  }
  ctx.restore();
}

/** The numbers of neighbouring points that have a band. */
function stretches(half) {
  const parts = [[]];
  half.forEach((each, i) => { if (each !== null) parts.at(-1).push(i); else if (parts.at(-1).length) parts.push([]); });
  return parts;
}

function noteFocus(chart, i) {
  if (chart !== pointed) return;
  const line = i ? chart.panel.lines[i - 1] : null;
  const label = line ? labelOf(line.curve.method) : null;
  if (label !== focused) {
    focused = label;
    chart.plot?.redraw(false);
  }
}

/** Highlight a method in all charts, or none. */
function pointAt(label) {
  focused = label;
  for (const { plot, panel } of charts) {
    panel.lines.forEach((line, i) => { plot.series[i + 1].alpha = label && label !== labelOf(line.curve.method) ? FAINT : 1; });
    plot.redraw(false);
  }
}

// ---- the tip: the values of all lines where the pointer is

function follow(plot, chart) {
  const { left, top } = plot.cursor;
  if (chart !== pointed || left === null || left < 0 || !chart.panel.lines.length) {
    chart.tip.hidden = true;
    return;
  }
  const x = plot.posToVal(left, "x"), y = plot.posToVal(top, "y");
  const rows = chart.panel.lines.filter((line) => line.x.length && x <= line.x.at(-1) * 1.001 + 1e-9).map((line) => {
    const i = nearest(line, x);
    return { line, i, value: line.y[i], away: Math.abs(line.y[i] - y) };
  });
  if (!rows.length) { chart.tip.hidden = true; return; }
  showTip(chart, rows);
  place(chart, plot, left);
}

function showTip(chart, rows) {
  const closest = rows.reduce((a, b) => (b.away < a.away ? b : a));
  const named = rows.length > NAMED ? [...rows].sort((a, b) => a.away - b.away).slice(0, NAMED) : [...rows];
  named.sort((a, b) => b.value - a.value);
  const rounds = new Set(rows.map((row) => row.line.round[row.i]));
  const body = element("tbody", {}, ...named.map((row) => tipRow(row, row === closest, rounds.size > 1)));
  const left = rows.length - named.length;
  chart.tip.replaceChildren(
    element("p", {}, tipTitle(rows, rounds)), element("table", {}, body),
    left ? element("p", {}, `and ${left} more`) : "",
  );
  chart.tip.hidden = false;
}

function tipTitle(rows, rounds) {
  const { line, i } = rows[0];
  const round = rounds.size === 1 ? `round ${[...rounds][0].toLocaleString("en")}` : "";
  const spent = chosen.by === "interactions" ? `${large(line.x[i])} interactions` : "";
  return [spent, round].filter(Boolean).join(", ") || "nearest rounds";
}

function tipRow({ line, i, value }, near, withRound) {
  const spread = line.half[i] !== null ? ` ± ${line.half[i].toFixed(3)}` : "";
  const round = withRound ? ` round ${line.round[i].toLocaleString("en")}` : "";
  return element("tr", { class: near ? "near" : null },
    element("td", {}, swatch(line.curve.method), labelOf(line.curve.method)),
    element("td", {}, value.toFixed(4), element("small", {}, spread + round)));
}

/** Place the tip beside the pointer, on the side that has room; below the chart if neither side has. */
function place(chart, plot, left) {
  const { figure, tip, room } = chart, x = room.offsetLeft + plot.over.offsetLeft + left;
  const width = tip.offsetWidth, edge = figure.getBoundingClientRect().left, whole = document.documentElement.clientWidth;
  const right = edge + x + 16 + width <= whole - 8, fits = right || edge + x - 16 - width >= 8;
  const below = Math.min(Math.max(8, (figure.clientWidth - width) / 2), whole - 8 - width - edge);
  tip.style.left = `${fits ? (right ? x + 16 : x - 16 - width) : below}px`;
  tip.style.top = `${fits ? room.offsetTop + 6 : room.offsetTop + plot.height + 6}px`;
}

/** Arrow keys move the cursor from point to point. */
function step(chart, event) {
  const line = chart.panel.lines.reduce((a, b) => (a && a.x.length >= b.x.length ? a : b), null);
  if (event.key === "Escape") { leave(chart); return; }
  const last = (line?.x.length ?? 0) - 1, now = chart.plot.cursor.left >= 0 ? nearest(line, chart.plot.posToVal(chart.plot.cursor.left, "x")) : -1;
  const to = { ArrowRight: Math.min(last, now + 1), ArrowLeft: now < 0 ? last : Math.max(0, now - 1), Home: 0, End: last }[event.key];
  if (to === undefined || last < 0) return;
  event.preventDefault();
  pointed = chart;
  chart.plot.setCursor({ left: chart.plot.valToPos(line.x[to], "x"), top: chart.plot.valToPos(line.y[to], "y") });
}
