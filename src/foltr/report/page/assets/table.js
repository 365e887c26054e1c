// The comparison: a tab per measure, and sorting by a column.

function buildMatrix() {
  const root = $("#matrix"), list = $("[role=tablist]", root);
  if (!list) return;
  const select = tabs(list, (tab) => {
    chosen.matrix = tab.dataset.measure;
    for (const panel of $$(".panel", root)) {
      panel.hidden = panel.getAttribute("aria-labelledby") !== tab.id;
      if (!panel.hidden) spell(panel);
    }
  });
  const all = $$("[role=tab]", list);
  select(all.find((tab) => tab.dataset.measure === chosen.matrix) ?? all[0], false);
  for (const panel of $$(".panel", root)) panel.dataset.measure = $(`#${panel.getAttribute("aria-labelledby")}`).dataset.measure;
  makeSortable(root);
}

/** Show a table that the page holds only as data, because there are many methods. */
function spell(panel) {
  const inner = $(".inner[data-packed]", panel);
  if (!inner) return;
  inner.innerHTML = data.panels[Number(panel.id.split("-")[1])]; // made like the page: all text is escaped
  delete inner.dataset.packed;
  recolour(inner);
  makeSortable(panel);
}

function makeSortable(root) {
  for (const head of $$("thead th[data-c]", root)) {
    const name = $("span", head);
    name?.replaceWith(button({ class: "sort" }, () => sortBy(head), name.textContent));
  }
  sortAll();
}

/** The first click sorts the highest first, the second the lowest first, the third restores the order. */
function sortBy(head) {
  const column = data.conditions[Number(head.dataset.c)], before = chosen.sort;
  const next = { descending: "ascending", ascending: null }[before?.column === column ? before.order : ""];
  chosen.sort = next === null ? null : { column, order: next ?? "descending" };
  sortAll();
  say(chosen.sort ? `sorted by ${column}, ${chosen.sort.order}` : "in the order of the study");
}

function sortAll() {
  for (const body of $$("#matrix tbody")) {
    const at = chosen.sort ? data.conditions.indexOf(chosen.sort.column) : -1;
    const sign = chosen.sort?.order === "ascending" ? 1 : -1;
    const value = (row) => Number(row.children[at + 1].dataset.v ?? NaN);
    const rows = [...body.children].sort((a, b) => a.dataset.m - b.dataset.m);
    if (at >= 0) rows.sort((a, b) => (Number.isNaN(value(a)) - Number.isNaN(value(b))) || sign * (value(a) - value(b)) || 0);
    body.append(...rows);
    for (const head of $$("thead th[data-c]", body.parentNode)) {
      const here = chosen.sort && Number(head.dataset.c) === at;
      if (here) head.setAttribute("aria-sort", chosen.sort.order); else head.removeAttribute("aria-sort");
    }
  }
}
