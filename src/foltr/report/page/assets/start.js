// The start: show the content of the page; a live page then waits for events.

function show(found) {
  data = found;
  decoded = new Map();
  chooseAtFirst();
  giveLooks();
  recolour();
  buildMatrix();
  buildPickers();
  $("#curves-body").hidden = !data.curves.length;
  if (data.curves.length) buildControls();
}

async function start() {
  document.documentElement.classList.add("js");
  startTheme(() => draw());
  startControls();
  startEvidence();
  startDownloads();
  const found = await unpacked($("#data").textContent);
  $("#curves-body").hidden = true; // until there are curves
  if (found) show(found);
  if (document.documentElement.dataset.source === "live") startLive();
}

if ("DecompressionStream" in window) start();
else $("#curves .needs-no-js").textContent = "The curves need a browser of 2023 or later. The tables below are complete.";
