// Two sections of the panel that only show the status: what was learned, and what leaves this device.

import { dateElement, element, inWords, number, plural } from "./base.js";

const SHOWING = {
  learned: "the learned order",
  bm25: "plain word matching (BM25)",
  mixed: "a mixture of the learned order and plain word matching (BM25)",
};

function facts(rows) {
  const shown = rows.filter(([, value]) => value !== null && value !== "");
  return element("dl", { class: "facts" }, ...shown.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}

function bar(label, value, max) {
  return element("progress", { "aria-label": label, value: Math.min(value, max), max: Math.max(max, 1e-9) });
}

export function learnedParts({ model, guard, explore, documents, files, megabytes, unread, paused }) {
  const left = Object.entries(unread ?? {}).filter(([, n]) => n).map(([why, n]) => `${number(n)} ${why}`);
  return [
    element("h3", {}, "What it has learned"),
    paused ? element("p", { class: "warn" }, "Paused: nothing is learned or recorded now, and lists are not mixed.") : "",
    paused ? "" : element("p", {}, guard.text),
    facts([
      ["Results now use", paused ? null : SHOWING[guard.showing] ?? guard.showing],
      ["Recorded searches", number(model.searches)],
      ["With an opened result", number(model.clicks)],
      ["Model of the federation", model.round === null ? "none yet" : `of round ${number(model.round)}`],
      ["Parameters of the ranker", number(model.parameters)],
      ["Exploring", explore ? "on: lists are drawn at random. With simulated users, the first ten lists were worse than plain word matching (BM25) by .07 nDCG@10" : "off: the best known order is shown"],
    ]),
    element("h3", {}, "What it searches"),
    facts([
      ["Documents", number(documents)],
      ["Files", number(files)],
      ["Size of the index", `${number(megabytes, megabytes < 10 ? 1 : 0)} MB`],
      ["Files that could not be read", left.length ? left.join(", ") : "none"],
    ]),
  ];
}

export function leavingParts({ federation, never_leaves: never }) {
  const kept = [element("h4", {}, "Never leaves this device"), element("ul", { class: "kept" }, ...never.map((each) => element("li", {}, each)))];
  const title = element("h3", {}, "What leaves this device");
  if (!federation) return [title, element("p", { class: "good" }, "Nothing. This device learns alone."), ...kept];
  const { pending, next, last_message: last, messages_sent: sent, budget } = federation;
  return [
    title,
    element("p", {}, "This device learns in a federation: a group of devices that share one ranker. Now and then it sends one message of numbers, computed from your searches and clicks.", last ? " The table below has all numbers of the last one." : ""),
    pending ? element("p", { class: "warn" }, pending) : "",
    ...kept,
    ...nextParts(next),
    ...budgetParts(budget),
    ...messageParts(last, sent),
    ...agreementParts(federation, budget),
  ];
}

function nextParts(next) {
  if (!next) return [];
  const by = next.by ? `, at the latest ${inWords(next.by)}` : "";
  return [
    element("h4", {}, "Next message"),
    element("p", {}, `After ${plural(next.of, "search", "searches")}${by}. Now there ${next.searches === 1 ? "is" : "are"} ${number(next.searches)}.`),
    bar("Searches for the next message", next.searches, next.of),
  ];
}

function budgetParts(budget) {
  if (!budget) return [];
  const { spent, epsilon, text } = budget, known = typeof spent === "number" && typeof epsilon === "number";
  return [
    element("h4", {}, "Privacy budget (epsilon)"),
    known ? element("p", {}, `${number(spent, 2)} of ${number(epsilon, 2)} spent.`) : "",
    known ? bar("Privacy budget spent", spent, epsilon) : "",
    element("p", { class: known ? "quiet" : null }, text),
  ];
}

/** A number with all of its digits. */
function exact(value) {
  return String(value).replace("-", "−");
}

function messageParts(last, sent) {
  const title = element("h4", {}, "Last message");
  if (!last) return [title, element("p", {}, sent ? "Its numbers are not stored any more." : "Nothing was sent yet.")];
  const rows = last.numbers.map((value, i) => element("tr", {}, element("th", { scope: "row" }, last.names[i] ?? String(i + 1)), element("td", {}, exact(value))));
  const head = element("tr", {}, element("th", { scope: "col" }, "Name"), element("th", { scope: "col" }, "Number"));
  return [
    title,
    element("p", {}, "Sent: ", dateElement(last.when), `, round ${number(last.round)}. These numbers were sent, with their weight ${exact(last.weight)} (the searches behind them) and the number of this device. ${last.masked ? "They were masked: the server learns only the sum of all devices, if the gateway and the server follow the protocol." : ""}`),
    element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Numbers of the last message" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))),
  ];
}

function agreementParts({ gateway, client, learner, privacy, messages_sent: sent }, budget) {
  const { delta, rounds, of_rounds: ofRounds } = budget ?? {};
  return [
    element("h4", {}, "Agreement"),
    facts([
      ["Sent to", gateway],
      ["This device is", `number ${number(client)}`],
      ["Messages sent", number(sent)],
      ["In this period", `${number(rounds)} of at most ${number(ofRounds)}`],
      ["Learns by", element("code", {}, learner)],
      ["Noise", privacy === "none" ? "none" : element("code", {}, privacy)],
      ["Delta of the budget", typeof delta === "number" ? String(delta) : ""],
    ]),
  ];
}
