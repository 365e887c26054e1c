"use strict";
// The page of foltr. Plain scripts, joined in the order of page/document.py. All text becomes text nodes, never markup.

const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

/** What the page shows (see page/content.py); null until there is something to show. */
let data = null;

/** What the reader has chosen. Methods and conditions are kept by label: a live page may change their numbers. */
const chosen = {
  measure: null, matrix: null, window: null, band: null, values: "close", scale: "linear", by: "rounds",
  methods: new Map(), conditions: new Map(), sort: null,
};

const HUES = 8, DASHES = [[], [9, 5], [2, 4], [9, 4, 2, 4]];
const looks = new Map(); // method label -> [hue, dash], kept while the page is open

/** Give each method a look. A method keeps its first look. If there are too few looks, methods that are shown at first choose first. */
function giveLooks() {
  const labels = data.methods.map((method) => method.label), enough = labels.length <= HUES * DASHES.length;
  const wanted = new Map(data.methods.map((method) => [method.label, enough ? method.style : null]));
  if (!enough) labels.sort((a, b) => chosen.methods.get(b) - chosen.methods.get(a));
  const taken = new Set([...looks.values()].map(String));
  for (const label of labels.filter((each) => !looks.has(each))) {
    const own = wanted.get(label), look = own && !taken.has(String(own)) ? own : freeLook(taken);
    looks.set(label, look);
    taken.add(String(look));
  }
}

/** The first look that no method has; once all are taken, they repeat. */
function freeLook(taken) {
  const all = DASHES.flatMap((_, dash) => Array.from({ length: HUES }, (_, hue) => [hue, dash]));
  return all.find((look) => !taken.has(String(look))) ?? all[looks.size % all.length];
}

function labelOf(method) {
  return data.methods[method].label;
}

function hueOf(method) {
  return looks.get(labelOf(method))[0];
}

function lineClass(method) {
  const [hue, dash] = looks.get(labelOf(method));
  return `c${hue} d${dash}`;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function lineColour(method) {
  return colour(`--c${hueOf(method)}`);
}

function lineDash(method) {
  return DASHES[looks.get(labelOf(method))[1]];
}

/** element("p", {class: "caption"}, "text", child) */
function element(tag, attributes = {}, ...children) {
  return furnished(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return furnished(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function furnished(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== ""));
  return made;
}

function button(attributes, act, ...children) {
  const made = element("button", { type: "button", ...attributes }, ...children);
  made.addEventListener("click", act);
  return made;
}

function swatch(method) {
  return element("i", { class: `s ${lineClass(method)}`, "data-m": method });
}

/** Sections come with colours by the number of the method. Replace them by the colour that the method had first. */
function recolour(root = document) {
  for (const each of $$("i.s[data-m]", root)) each.className = `s ${lineClass(Number(each.dataset.m))}`;
}

function say(text) {
  $("#said").textContent = "";
  requestAnimationFrame(() => { $("#said").textContent = text; });
}

/** JSON that was gzipped and written in base64. */
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// ---- numbers

function fixed(value, decimals) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" ? value.toFixed(decimals).replace("-", "−") : value;
}

function signed(value, decimals) {
  return typeof value === "number" && value >= 0 ? `+${fixed(value, decimals)}` : fixed(value, decimals);
}

/** p-values: 0.0123, 3.2e-7 */
function probability(p) {
  if (p === null || p === undefined) return "–";
  if (p === 0) return "0";
  return p < 0.001 ? p.toExponential(1).replace("-", "−") : p.toFixed(p < 0.1 ? 4 : 3);
}

function large(n) {
  const [size, unit] = [[1e9, "bn"], [1e6, "M"], [1e3, "k"]].find(([bound]) => Math.abs(n) >= bound) ?? [1, ""];
  return `${Number((n / size).toPrecision(3))}${unit && " " + unit}`;
}

function plural(n, word) {
  return `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
}

// ---- tabs, by the pattern of WAI-ARIA: arrow keys move; the Tab key reaches the chosen tab

function tabs(list, choose) {
  const all = $$("[role=tab]", list);
  const select = (tab, focus) => {
    for (const each of all) {
      each.setAttribute("aria-selected", String(each === tab));
      each.tabIndex = each === tab ? 0 : -1;
    }
    if (focus) tab.focus();
    choose(tab);
  };
  for (const tab of all) tab.addEventListener("click", () => select(tab, false));
  list.addEventListener("keydown", (event) => {
    const at = all.indexOf(document.activeElement), last = all.length - 1;
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    select(all[to], true);
  });
  return select;
}

// ---- light and dark

function isDark() {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function remembered(name, value) {
  try { // some browsers forbid storage to files
    if (value !== undefined) localStorage.setItem(name, value);
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

function startTheme(redraw) {
  const stored = remembered("foltr-theme"), toggle = $("#theme");
  if (stored === "dark" || stored === "light") document.documentElement.dataset.theme = stored;
  const show = () => toggle.setAttribute("aria-pressed", String(isDark()));
  toggle.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    remembered("foltr-theme", document.documentElement.dataset.theme);
    show();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { show(); redraw(); });
  show();
  let before;
  addEventListener("beforeprint", () => {
    $$("#matrix .panel").forEach((panel) => spell(panel));
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light"; // paper is white
    redraw();
  });
  addEventListener("afterprint", () => {
    if (before) document.documentElement.dataset.theme = before;
    else delete document.documentElement.dataset.theme;
    redraw();
  });
}
