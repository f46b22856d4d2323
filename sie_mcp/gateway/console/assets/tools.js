// Trying tools: the list, a form for one, a call and what came of it.

import { argumentsOf, fieldView, headersFor } from "./fields.js";
import { explain, key, rpc } from "./gateway.js";
import { at, element } from "./page.js";

const MAX_SHOWN_CHARS = 200000;
let tools = [];
let running = null;
let last = null;

export function clearTools() {
  tools = [];
  last = null;
  running?.abort();
  for (const id of ["tool", "about", "fields", "outcome", "result"]) at(id).replaceChildren();
}

export async function listTools() {
  if (tools.length) return;
  const found = [];
  const asked = key();
  let cursor;
  do {
    const page = await rpc("tools/list", cursor ? { cursor } : {});
    found.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor && found.length < 1000);
  if (asked !== key()) return;
  tools = found;
  at("tool").replaceChildren(...tools.map((tool) => element("option", { textContent: tool.name })));
  showTool();
}

function chosen() {
  return tools.find((tool) => tool.name === at("tool").value);
}

function showTool() {
  const tool = chosen();
  if (!tool) return;
  // Its lines are as long as an agent's source has them.
  at("about").textContent = (tool.description ?? "").replace(/([^\n])\n(?!\n)/g, "$1 ");
  const required = tool.inputSchema.required ?? [];
  const fields = Object.entries(tool.inputSchema.properties ?? {});
  const isFirst = ([name]) => required.includes(name) || /^(documents|texts|items|labels)$/.test(name);
  const more = fields.filter((one) => !isFirst(one));
  at("fields").replaceChildren(
    ...fields.filter(isFirst).map(([name, schema]) => fieldView(name, schema, required.includes(name))),
    ...(more.length ? [element("details", { open: more.length === fields.length },
      element("summary", { textContent: "More arguments" }),
      ...more.map(([name, schema]) => fieldView(name, schema, false)))] : []));
}

async function call(event) {
  event.preventDefault();
  const tool = chosen();
  if (!tool || running) return;
  const started = performance.now();
  const control = (running = new AbortController());
  at("cancel").disabled = false;
  at("run").disabled = true;
  try {
    const given = argumentsOf(tool);
    report("Running …");
    const heard = ({ message, progress }) => report(message ?? `Running: ${progress}`);
    const result = await rpc("tools/call", { name: tool.name, arguments: given },
      { signal: control.signal, heard, headers: headersFor(tool, given) });
    if (running !== control || control.signal.aborted) return;
    last = result;
    showResult();
    const seconds = ((performance.now() - started) / 1000).toFixed(2);
    report(result.isError ? `Failed after ${seconds} s.` : `Done in ${seconds} s.`, result.isError);
  } catch (error) {
    report(control.signal.aborted ? "Cancelled." : explainCall(error), !control.signal.aborted);
  } finally {
    running = null;
    at("cancel").disabled = true;
    at("run").disabled = false;
  }
}

function explainCall(error) {
  return error.status ? explain(error) : error.message;
}

function report(text, isBad = false) {
  at("outcome").textContent = text;
  at("outcome").className = isBad ? "bad" : "";
}

function showResult() {
  if (last === null) return;
  const isJson = document.querySelector("input[name=view]:checked").value === "json";
  const texts = last.content.filter((one) => one.type === "text").map((one) => one.text);
  const whole = isJson ? JSON.stringify(last.structuredContent ?? last.content, null, 2) : texts.join("\n");
  const left = whole.length - MAX_SHOWN_CHARS;
  at("result").textContent = left > 0 ? `${whole.slice(0, MAX_SHOWN_CHARS)}\n… ${left} characters more` : whole;
}

at("tool").addEventListener("change", showTool);
at("call").addEventListener("submit", call);
at("cancel").addEventListener("click", () => running?.abort());
for (const radio of document.querySelectorAll("input[name=view]")) radio.addEventListener("change", showResult);
