// A question before something that cannot be undone. The harmless answer has the focus.

import { $, button, element } from "./base.js";

/** Ask. Resolves to false, or to true; if there are `choices` ([value, name, about]), to the chosen value. */
export function asked({ title, lines, choices = [], yes }) {
  const dialog = $("#question");
  let answer = false;
  const agree = () => {
    answer = choices.length ? $("input:checked", dialog).value : true;
    dialog.close();
  };
  const options = choices.map(([value, name, about], i) => element("label", { class: "choice" },
    element("input", { type: "radio", name: "choice", value, checked: i === 0 }), element("span", {}, element("b", {}, name), about)));
  dialog.replaceChildren(
    element("div", { class: "d-body" },
      element("h2", { id: "question-title" }, title),
      ...lines.map((line) => element("p", {}, line)),
      options.length ? element("fieldset", {}, element("legend", { class: "sr" }, title), ...options) : ""),
    element("div", { class: "d-foot" }, button({ class: "button", autofocus: true }, () => dialog.close(), "Cancel"), button({ class: "button danger" }, agree, yes)));
  dialog.showModal();
  return new Promise((resolve) => { dialog.addEventListener("close", () => resolve(answer), { once: true }); });
}
