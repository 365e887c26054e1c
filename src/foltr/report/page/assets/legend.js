// The controls of the curves: measure, band, axis, smoothing; methods and conditions as chips.

const MANY = 14; // if there are more methods, only some are shown at first
const CONDITIONS = 6; // shown at first

/** Keep what was chosen before. Show new methods and conditions if there is room. */
function chooseAtFirst() {
  const ranked = rankedMethods();
  ranked.forEach((method, i) => {
    const label = labelOf(method), fits = data.methods.length <= MANY || i < MANY - 2 || method === data.baseline;
    if (!chosen.methods.has(label)) chosen.methods.set(label, fits);
  });
  data.conditions.forEach((label, i) => {
    if (!chosen.conditions.has(label)) chosen.conditions.set(label, i < CONDITIONS);
  });
  chosen.band ??= data.methods.length <= 6 ? "sd" : "none";
  chosen.measure ??= data.curves[0]?.id ?? null;
  if (chosen.window === null) {
    const smooth = data.curves.find((each) => each.windows.length > 1);
    chosen.window = smooth ? smooth.windows[Math.floor(smooth.windows.length / 3)] : 1;
  }
}

/** Methods by their mean of the first measure over conditions, the highest first. */
function rankedMethods() {
  const entries = data.matrices[0]?.entries ?? {};
  const mean = data.methods.map((_, m) => {
    const found = data.conditions.map((_, c) => entries[`${m}.${c}`]?.mean).filter((value) => typeof value === "number");
    return found.length ? found.reduce((a, b) => a + b, 0) / found.length : -Infinity;
  });
  return data.methods.map((_, m) => m).sort((a, b) => mean[b] - mean[a]);
}

function buildControls() {
  const list = $("#curve-tabs");
  list.replaceChildren(...data.curves.map((each) =>
    element("button", { type: "button", role: "tab", id: `curve-${each.id}`, "data-id": each.id, "aria-controls": "charts" }, each.name)));
  const fresh = list.cloneNode(true); // without the old listeners
  list.replaceWith(fresh);
  const select = tabs(fresh, (tab) => {
    chosen.measure = tab.dataset.id;
    $("#charts").setAttribute("aria-labelledby", tab.id);
    showSmoothing();
    draw();
  });
  const now = $$("[role=tab]", fresh).find((tab) => tab.dataset.id === measureNow()?.id);
  if (now) select(now, false);
  for (const field of $$("[data-choice]")) {
    for (const input of $$("input", field)) input.checked = input.value === chosen[field.dataset.choice];
  }
}

/** Called once: listeners of the controls that stay on the page. */
function startControls() {
  for (const field of $$("[data-choice]")) {
    field.addEventListener("change", (event) => {
      chosen[field.dataset.choice] = event.target.value;
      draw();
    });
  }
  $("#smoothing input").addEventListener("input", (event) => {
    chosen.window = measureNow().windows[Number(event.target.value)];
    showSmoothing();
    draw();
  });
}

function showSmoothing() {
  const measure = measureNow(), field = $("#smoothing"), input = $("input", field), only = measure.windows.length === 1;
  field.hidden = only; // offline curves are not smoothed
  input.max = measure.windows.length - 1;
  input.value = levelOf(measure);
  const size = measure.windows[levelOf(measure)];
  const text = size === 1 ? "none" : `${size.toLocaleString("en")} rounds`;
  $("output", field).textContent = text;
  input.setAttribute("aria-valuetext", text);
}

function describeCurves() {
  const measure = measureNow(), size = measure.windows[levelOf(measure)];
  const sizes = [...new Set(measure.cells.map((cell) => cell.n))].sort((a, b) => a - b);
  const runs = sizes.length > 1 ? `${sizes[0]} to ${sizes.at(-1)} runs` : plural(sizes[0] ?? 0, "run");
  const thinnest = measure.cells.filter((cell) => measure.grids[cell.grid].length < cell.of).reduce((a, b) => (a && a.of >= b.of ? a : b), null);
  const bands = { sd: "the band is ± one standard deviation over runs", ci: "the band is the 95 % t interval of the mean", none: "" };
  const parts = [
    `Mean over ${runs} of each method`,
    sizes.at(-1) > 1 ? bands[chosen.band] : "a single run has no band",
    size > 1 ? `each run is smoothed over ${size.toLocaleString("en")} rounds before averaging` : "",
    thinnest ? `drawn at ${measure.grids[thinnest.grid].length.toLocaleString("en")} of ${thinnest.of.toLocaleString("en")} rounds` : "",
    chosen.values === "close" ? "the close-up leaves out the steep start" : "",
    chosen.scale === "log" ? "a logarithmic axis cannot show round 0" : "",
  ];
  $("#curve-note").textContent = `${parts.filter(Boolean).join("; ")}.`;
}

// ---- chips

function buildPickers() {
  const methods = data.methods.map((_, m) => m), labels = data.methods.map((method) => method.label);
  if (methods.length > MANY) methods.sort((a, b) => chosen.methods.get(labels[b]) - chosen.methods.get(labels[a]) || a - b);
  picker($("#method-picker"), chosen.methods, methods.map(labelOf), "method", (label, i) => methodChip(label, methods[i]));
  const conditions = $("#condition-picker");
  conditions.hidden = data.conditions.length <= 3;
  picker(conditions, chosen.conditions, data.conditions, "condition", (label) => chip(chosen.conditions, label));
}

function picker(root, group, labels, what, make) {
  const words = $("input", root)?.value ?? "", scrolled = $(".list", root)?.scrollTop ?? 0;
  const list = element("div", { class: "list" }, ...labels.map(make));
  const set = (shown) => {
    for (const label of labels) group.set(label, shown(label));
    refresh(list, group);
    draw();
  };
  const search = element("input", { type: "search", placeholder: `find a ${what}`, "aria-label": `find a ${what}` });
  search.addEventListener("input", () => narrow(list, search.value));
  search.value = words;
  root.classList.toggle("many", labels.length > MANY);
  root.replaceChildren(
    list,
    labels.length > MANY ? search : "",
    labels.length > 4 ? button({ class: "text" }, () => set(() => true), "all") : "",
    labels.length > 4 ? button({ class: "text" }, () => set(() => false), "none") : "",
    labels.length > MANY ? element("span", { class: "count" }) : "",
  );
  refresh(list, group);
  narrow(list, words);
  list.scrollTop = scrolled;
}

function chip(group, label, ...before) {
  const toggle = (shown) => { group.set(label, shown); refresh($(".list", made.closest(".picker")), group); draw(); };
  const made = button({ class: "chip", "data-label": label }, () => toggle(!isShown(group, label)), ...before, label);
  made.addEventListener("dblclick", () => {
    for (const other of group.keys()) group.set(other, other === label);
    toggle(true);
  });
  made.title = "double-click: only this one";
  return made;
}

function methodChip(label, method) {
  const made = chip(chosen.methods, label, swatch(method));
  for (const [event, act] of [["pointerenter", () => pointAt(label)], ["pointerleave", () => pointAt(null)], ["focus", () => made.matches(":focus-visible") && pointAt(label)], ["blur", () => pointAt(null)]]) {
    made.addEventListener(event, act);
  }
  return made;
}

function refresh(list, group) {
  for (const each of list.children) each.setAttribute("aria-pressed", String(isShown(group, each.dataset.label)));
  const count = $(".count", list.parentNode), labels = [...list.children].map((each) => each.dataset.label);
  if (count) count.textContent = `${labels.filter((label) => isShown(group, label)).length} of ${labels.length} shown`;
}

function narrow(list, words) {
  const wanted = words.toLowerCase().split(/\s+/);
  for (const each of list.children) each.hidden = !wanted.every((word) => each.dataset.label.toLowerCase().includes(word));
}
