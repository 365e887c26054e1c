// Copying to the clipboard, and files to download.

async function copy(text, by) {
  const done = (await toClipboard(text)) || copyBySelection(text, by.closest("dialog") ?? document.body);
  const before = by.textContent;
  by.textContent = done ? "Copied" : "Select and copy it";
  say(done ? "Copied" : "Copying is not allowed here: select the text and copy it");
  by.focus();
  setTimeout(() => { by.textContent = before; }, 1600);
}

async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { // absent on insecure origins, forbidden by policy, or not asked by a person
    return false;
  }
}

/** The old way to copy. It works inside the dialog: text outside cannot be selected while the dialog is open. */
function copyBySelection(text, inside) {
  const field = element("textarea", { class: "sr", readonly: true, "aria-hidden": "true" });
  field.value = text;
  inside.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  return done;
}

function save(name, blob) {
  const link = element("a", { download: name, href: URL.createObjectURL(blob) });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function startDownloads() {
  for (const each of $$("button[data-file]")) {
    each.addEventListener("click", () => {
      const content = data?.downloads[each.dataset.file];
      if (content === undefined) say("there is nothing to save yet");
      else save(each.dataset.file, new Blob([content], { type: "text/plain;charset=utf-8" }));
    });
  }
  $("#save-charts").addEventListener("click", () => {
    if (charts.length) picture().toBlob((blob) => save(`curves-${measureNow().id.replace("@", "-at-")}.png`, blob));
    else say("there is nothing to save yet");
  });
}

/** All charts as shown, with a title and a legend, on one canvas. */
function picture() {
  const ratio = devicePixelRatio || 1, gap = 24, across = Math.min(3, charts.length), width = Math.max(...charts.map((chart) => chart.plot.width));
  const height = Math.max(...charts.map((chart) => chart.plot.height));
  const methods = data.methods.map((_, m) => m).filter((m) => isShown(chosen.methods, labelOf(m)));
  const rows = Math.ceil(charts.length / across), whole = across * width + (across + 1) * gap, perChart = height + 34;
  const canvas = element("canvas"), ctx = canvas.getContext("2d");
  const lines = wrapped(ctx, methods, whole - 2 * gap);
  canvas.width = whole * ratio;
  canvas.height = (56 + rows * perChart + lines.length * 24 + gap) * ratio;
  ctx.scale(ratio, ratio);
  ctx.fillStyle = colour("--card");
  ctx.fillRect(0, 0, whole, canvas.height);
  write(ctx, `${measureNow().name} by ${chosen.by}`, gap, 34, "600 16px");
  charts.forEach((chart, i) => {
    const x = gap + (i % across) * (width + gap), y = 56 + Math.floor(i / across) * perChart;
    write(ctx, chart.panel.label, x + 8, y + 14, "600 13px");
    ctx.drawImage(chart.plot.ctx.canvas, x, y + 24, chart.plot.width, chart.plot.height);
  });
  lines.forEach((line, i) => line.forEach(({ method, x }) => key(ctx, method, gap + x, 56 + rows * perChart + i * 24 + 16)));
  return canvas;
}

function write(ctx, text, x, y, font) {
  ctx.font = `${font} system-ui, sans-serif`;
  ctx.fillStyle = colour("--ink");
  ctx.fillText(text, x, y);
}

function key(ctx, method, x, y) {
  ctx.strokeStyle = lineColour(method);
  ctx.lineWidth = 2.5;
  ctx.setLineDash(lineDash(method));
  ctx.beginPath();
  ctx.moveTo(x, y - 4);
  ctx.lineTo(x + 26, y - 4);
  ctx.stroke();
  ctx.setLineDash([]);
  write(ctx, labelOf(method), x + 34, y, "13px");
}

/** The legend in lines no longer than the picture is wide. */
function wrapped(ctx, methods, width) {
  const lines = [[]];
  let x = 0;
  ctx.font = "13px system-ui, sans-serif";
  for (const method of methods) {
    const need = 34 + ctx.measureText(labelOf(method)).width + 28;
    if (x && x + need > width) { lines.push([]); x = 0; }
    lines.at(-1).push({ method, x });
    x += need;
  }
  return lines;
}
