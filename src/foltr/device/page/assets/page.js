// The page of `foltr device search`: joins its parts.

import { $, element, startTheme } from "./base.js";
import { hasToken } from "./api.js";
import { listChanged, searchRecorded, startPanel, statusChanged } from "./panel.js";
import { openResult, startPreview } from "./preview.js";
import { setText, startSearching } from "./searching.js";
import { offerCounted, startFilters } from "./filters.js";
import { startKeys } from "./keys.js";
import { startResults } from "./results.js";
import { startStatus } from "./status.js";

function start() {
  startFilters((text) => setText(text, { focus: false }));
  startResults({ open: openResult, select: () => listChanged(), search: (text) => setText(text, { enter: true }) });
  startPreview();
  startPanel((query) => setText(query, { enter: true }));
  startKeys();
  startSearching({ changed: (answer) => listChanged(answer?.shown_by), reported: searchRecorded });
  startStatus((status) => {
    offerCounted(status.folders);
    statusChanged(status);
  });
}

/** Without the token the program does not answer. */
function showNotice() {
  for (const each of ["#search", "#start", "#panel-button", "#keys-button", "footer"]) $(each).hidden = true;
  $("#notice").hidden = false;
  $("#notice").replaceChildren(
    element("h2", {}, "This page needs its whole address"),
    element("p", {}, "Open the address that ", element("code", {}, "foltr device search"), " printed. It ends with a secret word that only you can see: without it nobody can search your documents."));
}

startTheme();
if (hasToken()) start();
else showNotice();
