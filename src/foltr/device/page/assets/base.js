// What all parts of the page use: elements, numbers and dates in words, and what the browser remembers.
// Text of documents becomes text nodes, never markup. Characters that turn the direction of text are left out: they could
// make the name of a file look like another one.

export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

/** element("p", {class: "quiet"}, "text", child) */
export function element(tag, attributes = {}, ...children) {
  return furnished(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return furnished(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function furnished(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : oneWay(value));
  }
  made.append(...children.filter((child) => child !== null && child !== "").map(oneWay));
  return made;
}

function oneWay(value) {
  return typeof value === "string" ? value.replace(/[\u202a-\u202e\u2066-\u2069]/g, "") : value;
}

export function button(attributes, act, ...children) {
  const made = element("button", { type: "button", ...attributes }, ...children);
  made.addEventListener("click", act);
  return made;
}

export function closeButton(act) {
  const cross = svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: "M6 6 18 18M18 6 6 18" }));
  return button({ class: "icon", "aria-label": "Close" }, act, cross);
}

/** Pieces of text, [text, marked], as nodes. */
export function marked(pieces) {
  return pieces.map(([text, isMarked]) => (isMarked ? element("mark", {}, text) : text));
}

export function plainText(pieces) {
  return pieces.map(([text]) => text).join("");
}

const END = 30; // characters of a path that are always shown

/** A path whose middle is left out where the room is narrow: the file's name stays, and its folder if it is short. */
export function shortPath(path, part = "") {
  const names = path.split(/(?<=[/\\])/), ends = [names.slice(-2).join(""), names.at(-1)];
  const kept = ends.find((end) => end.length <= END) ?? path.slice(-END);
  return element("span", { class: "path", title: part ? `${path} (${part})` : path },
    element("span", { class: "path-begin" }, path.slice(0, path.length - kept.length)), element("span", { class: "path-end" }, kept));
}

/** Tell a screen reader. */
export function say(text) {
  $("#said").textContent = "";
  requestAnimationFrame(() => { $("#said").textContent = text; });
}

// ---- numbers and dates

export function number(value, decimals = 0) {
  if (typeof value !== "number") return "–";
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }).replace("-", "−");
}

export function signed(value, decimals) {
  return value >= 0 ? `+${number(value, decimals)}` : number(value, decimals);
}

export function plural(n, word, many = `${word}s`) {
  return `${number(n)} ${n === 1 ? word : many}`;
}

export const KINDS = { markdown: "Markdown", text: "Text", html: "Web page", code: "Code", pdf: "PDF", mail: "Mail" };

/** today, 14:05; yesterday; Tuesday; 12 March; 12 March 2023 */
export function inWords(seconds, now = new Date()) {
  const date = new Date(1000 * seconds), days = Math.round((midnight(now) - midnight(date)) / 86_400_000);
  if (days === 0) return `today, ${date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`;
  if (days === 1) return "yesterday";
  if (days > 1 && days < 7) return date.toLocaleDateString("en-GB", { weekday: "long" });
  const year = date.getFullYear() === now.getFullYear() ? undefined : "numeric";
  return date.toLocaleDateString("en-GB", { day: "numeric", month: "long", year });
}

function midnight(date) {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate());
}

export function dateElement(seconds) {
  if (typeof seconds !== "number" || Number.isNaN(new Date(1000 * seconds).valueOf())) return "";
  const date = new Date(1000 * seconds);
  const whole = date.toLocaleString("en-GB", { dateStyle: "full", timeStyle: "short" });
  return element("time", { datetime: date.toISOString(), title: whole }, inWords(seconds));
}

// ---- what the browser remembers

/** A setting of the page. Searches are never stored here. */
export function remembered(name, value) {
  try { // some browsers forbid storage
    if (value !== undefined) localStorage.setItem(`foltr-${name}`, value);
    return localStorage.getItem(`foltr-${name}`);
  } catch {
    return null;
  }
}

/** Whether keys of one letter work; see keys.js. */
export function lettersOn() {
  return remembered("letters") !== "off";
}

export function startTheme() {
  const stored = remembered("theme"), toggle = $("#theme"), dark = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const show = () => toggle.setAttribute("aria-pressed", String(isDark()));
  toggle.addEventListener("click", () => {
    root.dataset.theme = remembered("theme", isDark() ? "light" : "dark") ?? (isDark() ? "light" : "dark");
    show();
  });
  dark.addEventListener("change", show);
  show();
}

// ---- tabs, by the pattern of WAI-ARIA: arrow keys move; the Tab key reaches the chosen tab

export function tabs(list, choose) {
  const all = $$("[role=tab]", list);
  const select = (tab, focus) => {
    for (const each of all) {
      each.setAttribute("aria-selected", String(each === tab));
      each.tabIndex = each === tab ? 0 : -1;
      $(`#${each.getAttribute("aria-controls")}`).hidden = each !== tab;
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
