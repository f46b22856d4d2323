// The console: shows /console/state every two seconds while somebody looks, and lets tools be tried.

import { ask, explain, keep, key } from "./gateway.js";
import { at } from "./page.js";
import { clearTools, listTools } from "./tools.js";
import { clearState, show } from "./workers.js";

const POLL_MS = 2000;
const RETRY_MS = 5000;
let timer = 0;

async function poll() {
  clearTimeout(timer);
  if (document.hidden) return;
  let pause = POLL_MS;
  const asked = key();
  try {
    const state = await (await ask("/console/state")).json();
    if (asked !== key()) return;
    show(state);
    say("Connected.");
    await listTools();
  } catch (error) {
    if (asked !== key()) return;
    say(explain(error), true);
    if (error.status === 401 || error.status === 403) {
      clear();
      return;
    }
    pause = RETRY_MS;
  }
  clearTimeout(timer);
  timer = setTimeout(poll, pause);
}

function clear() {
  clearState();
  clearTools();
}

function say(text, isBad = false) {
  const status = at("status");
  if (status.textContent !== text) status.textContent = text;
  status.className = isBad ? "bad" : "";
}

at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const given = at("key").value.trim();
  at("key").value = "";
  clear();
  keep(given);
  say("Asking the gateway …");
  poll();
});
at("forget").addEventListener("click", () => {
  keep("");
  at("key").value = "";
  clear();
  say("The key is forgotten.");
  poll();
});
document.addEventListener("visibilitychange", poll);
poll();
