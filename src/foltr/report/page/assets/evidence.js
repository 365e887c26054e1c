// The dialog of a cell: its numbers, its test, each of its runs, their commands, and how its method differs from the baseline.

let opened = null; // {measure, method, condition}, by label

function startEvidence() {
  const dialog = $("#evidence");
  $("#matrix").addEventListener("click", (event) => {
    const cell = event.target.closest("button.cell");
    if (!cell || !data) return;
    const [method, condition] = cell.dataset.at.split(".").map(Number);
    opened = { measure: cell.closest(".panel").dataset.measure, method: labelOf(method), condition: data.conditions[condition] };
    fillEvidence();
    dialog.showModal();
    $(".d-body", dialog).scrollTop = 0;
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); }); // beside it
  dialog.addEventListener("close", () => { opened = null; });
}

/** Fill the dialog, also when a live page has changed. It stays open and keeps its position. */
function fillEvidence() {
  const dialog = $("#evidence"), found = data.matrices.find((each) => each.measure === opened.measure);
  const method = data.methods.findIndex((each) => each.label === opened.method), condition = data.conditions.indexOf(opened.condition);
  const entry = found?.entries[`${method}.${condition}`];
  if (!entry) return;
  const scrolled = $(".d-body", dialog)?.scrollTop ?? 0, hadFocus = dialog.contains(document.activeElement);
  const shut = button({ class: "icon", "aria-label": "Close" }, () => dialog.close(), svg("svg", { viewBox: "0 0 24 24" }, svg("path", { d: "M6 6 18 18M18 6 6 18" })));
  const title = element("h2", { id: "evidence-title" }, swatch(method), labelOf(method));
  const body = element("div", { class: "d-body", tabindex: 0 }, ...evidence(found, entry, method, condition));
  dialog.replaceChildren(
    element("div", { class: "d-head" }, element("div", {}, title, element("p", {}, `${data.conditions[condition]}, ${found.name}`)), shut), body);
  body.scrollTop = scrolled;
  if (hadFocus) shut.focus();
}

function evidence(found, entry, method, condition) {
  const runs = data.cells[`${method}.${condition}`] ?? [];
  return [
    element("div", { class: "numbers" }, ownNumbers(found, entry, runs), againstBaseline(found, entry, method, condition)),
    strip(found, method, condition),
    ...difference(method),
    ...commands(found, runs),
  ];
}

function listed(title, rows, ...more) {
  const list = element("dl", {}, ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  return element("div", {}, element("h3", {}, title), list, ...more);
}

function span(interval, decimals) {
  return interval ? `${fixed(interval[0], decimals)} … ${fixed(interval[1], decimals)}` : "–";
}

function ownNumbers(found, entry, runs) {
  const d = found.decimals + 1;
  const lacking = runs.length - entry.n;
  return listed("This cell", [
    ["runs", `${entry.n}${lacking ? ` of ${runs.length}: ${lacking} without a value` : ""}`],
    ["mean", fixed(entry.mean, d)],
    ["standard deviation", fixed(entry.sd, d)],
    ["95 % interval over runs", entry.interval ? span(entry.interval, d) : "none: fewer than 5 runs"],
  ]);
}

function againstBaseline(found, entry, method, condition) {
  const base = labelOf(data.baseline), d = found.decimals + 1, title = `Against ${base}`;
  if (method === data.baseline) return listed("The baseline", [], element("p", {}, "All other methods are compared with this one."));
  if (entry.refused !== undefined) return listed(title, [], element("p", { class: "refused" }, `Not tested: ${found.refusals[entry.refused]}.`));
  const { test } = entry;
  if (!test) return listed(title, [], element("p", {}, "Not tested."));
  const parts = [listed(title, tested(test, entry.corrected, found.family, d))];
  if (entry.over_data) {
    const shares = "Runs on one data split share its queries. This test is over the mean of each split. It is about other queries too.";
    parts.push(listed("Over data splits", tested(entry.over_data, entry.corrected_data, found.family, d)));
    parts[1].firstChild.after(element("p", { class: "quiet" }, shares));
  }
  const mark = data.marks[entry.mark], verdict = mark?.text ?? "no significant difference";
  const sign = mark ? element("span", { class: mark.class }, entry.mark) : "";
  parts.push(element("p", { class: "verdict" }, verdict[0].toUpperCase() + verdict.slice(1), sign));
  return element("div", { class: "tests" }, ...parts);
}

function tested(test, corrected, family, d) {
  return [
    ["mean difference", signed(test.difference, d)],
    ["95 % interval (t)", span(test.interval, d)],
    [`t (${test.n} pairs)`, fixed(test.t, 3)],
    ["p, two-tailed", probability(test.p)],
    [`p × ${family} (Bonferroni)`, probability(corrected)],
    ["effect size, Cohen’s d_z", fixed(test.effect, 2)],
  ];
}

// ---- each run as a point, joined to its pair by a line

function strip(found, method, condition) {
  const rows = [...new Set([method, data.baseline])].map((m) => ({
    m, entry: found.entries[`${m}.${condition}`],
    points: (data.cells[`${m}.${condition}`] ?? []).map((run) => ({ pair: String(data.runs.pairs[run]), value: data.runs.values[found.measure][run] })).filter((point) => typeof point.value === "number"),
  })).filter((row) => row.points.length);
  const all = rows.flatMap((row) => row.points.map((point) => point.value));
  if (all.length < 2) return "";
  const low = Math.min(...all), high = Math.max(...all), wide = Math.min(760, innerWidth - 60);
  const x = (value) => 12 + (wide - 24) * (high > low ? (value - low) / (high - low) : 0.5);
  const y = (i) => 26 + i * 52, height = 52 * rows.length + 22, parts = [];
  if (rows.length === 2) parts.push(...pairLines(rows, x, y));
  rows.forEach((row, i) => parts.push(...stripRow(row, i, x, y, wide)));
  const ends = [[low, "start"], [high, "end"]].map(([value, anchor]) => svg("text", { x: x(value) + (anchor === "start" ? -8 : 8), y: height - 4, "text-anchor": anchor }, fixed(value, found.decimals + 1)));
  const label = `Each run as a point: ${rows.map((row) => `${labelOf(row.m)}, ${row.points.length} runs`).join("; ")}`;
  return svg("svg", { class: "strip", viewBox: `0 0 ${wide} ${height}`, role: "img", "aria-label": label }, ...parts, ...(high > low ? ends : []));
}

function pairLines([own, base], x, y) {
  const at = new Map(base.points.map((point) => [point.pair, point.value]));
  return own.points.filter((point) => at.has(point.pair)).slice(0, 200)
    .map((point) => svg("line", { class: "pair", x1: x(point.value), y1: y(0), x2: x(at.get(point.pair)), y2: y(1) }));
}

function stripRow({ m, entry, points }, i, x, y, wide) {
  const interval = entry?.interval, hue = `c${hueOf(m)}`;
  const ends = interval ? interval.map(x) : null;
  return [
    svg("text", { x: 4, y: y(i) - 14 }, labelOf(m)),
    svg("line", { class: "axis", x1: 4, x2: wide - 4, y1: y(i), y2: y(i) }),
    svg("g", { class: hue }, ...points.map((point) => svg("circle", { cx: x(point.value), cy: y(i), r: 4.5 })),
      ends ? svg("line", { class: "mean", x1: ends[0], x2: ends[1], y1: y(i) + 11, y2: y(i) + 11 }) : "",
      entry ? svg("line", { class: "mean", x1: x(entry.mean), x2: x(entry.mean), y1: y(i) + 7, y2: y(i) + 15 }) : ""),
  ];
}

// ---- what differs from the baseline, and the commands of the runs

function difference(method) {
  const rows = data.methods[method].differs;
  if (method === data.baseline || !rows.length) return [];
  const body = rows.map((row) => element("tr", {}, ...row.map((value) => element("td", {}, value))));
  const head = ["field", "baseline", "this method"].map((name) => element("th", { scope: "col" }, name));
  return [
    element("h3", {}, "What differs from the baseline"),
    element("div", { class: "scroll" }, element("table", { class: "plain" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body))),
  ];
}

function commandOf(run) {
  const { command, options } = data.runs;
  const given = Object.entries(options).map(([name, { values, of }]) => [name, values[Array.isArray(of) ? of[run] : of]]);
  return [command, ...given.filter(([, value]) => value !== null).map(([name, value]) => `${name} ${value}`)].join(" ");
}

function commands(found, runs) {
  const all = runs.map(commandOf).join("\n");
  const items = runs.map((run) => {
    const text = commandOf(run), pair = data.runs.paired_by.map((name, i) => `${name} ${data.runs.pairs[run][i]}`).join(", ");
    return element("li", {},
      element("span", { title: data.runs.names[run] }, pair || data.runs.names[run]),
      element("span", {}, fixed(data.runs.values[found.measure][run], found.decimals + 1)),
      button({ class: "button", "aria-label": `Copy the command of ${pair || "this run"}` }, (event) => copy(text, event.currentTarget), "Copy"),
      element("code", { tabindex: 0 }, text));
  });
  const copyAll = button({ class: "text" }, (event) => copy(all, event.currentTarget), `copy all ${runs.length}`);
  return [element("div", { class: "d-row" }, element("h3", {}, "Commands of the runs"), runs.length > 1 ? copyAll : ""), element("ul", { class: "commands" }, ...items)];
}
