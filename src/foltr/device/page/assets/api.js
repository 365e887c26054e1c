// Requests to the search program. Each carries the token that was in the address of the page: another page in the same
// browser does not know it.

const GONE = "The search program is not running: start it again with: foltr device search";
const OLD = "The search program was started again: open the address that it printed then.";
const KEY = "foltr-token";

/** What went wrong, in words for the user. */
export class Failure extends Error {}

const token = takeToken();

/** Take the token out of the address bar. The tab keeps it, so that the page can be loaded again. */
function takeToken() {
  const given = location.hash.slice(1);
  if (given) history.replaceState(null, "", location.pathname);
  try { // some browsers forbid storage
    if (given) sessionStorage.setItem(KEY, given);
    return given || sessionStorage.getItem(KEY) || "";
  } catch {
    return given;
  }
}

addEventListener("hashchange", () => location.reload()); // a new address was pasted into this tab

export function hasToken() {
  return token !== "";
}

/** The answer to a GET: JSON, or what `read` makes of the response. */
export function get(name, parameters = {}, { signal, read } = {}) {
  const query = new URLSearchParams(parameters).toString();
  return call(`/api/${name}${query && `?${query}`}`, { signal }, read);
}

export function post(name, body) {
  return call(`/api/${name}`, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
}

async function call(address, { headers, ...how }, read = (answer) => answer.json()) {
  const sent = { ...how, headers: { ...headers, "X-Foltr-Token": token }, cache: "no-store", credentials: "omit" };
  let answer;
  try {
    answer = await fetch(address, sent);
    if (answer.ok) return await read(answer);
  } catch (error) {
    throw error.name === "AbortError" ? error : new Failure(error instanceof SyntaxError ? "The search program gave an answer that is not JSON." : GONE);
  }
  if (answer.status === 401) throw new Failure(OLD); // the token is of an earlier start
  const said = await answer.json().catch(() => ({}));
  throw new Failure(said.error || `The search program answered with status ${answer.status}.`);
}
