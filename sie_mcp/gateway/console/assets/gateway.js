// Asking the gateway: with the key of this tab, and MCP over HTTP.

const VERSION = "2026-07-28";
const KEY = "sie-mcp-key";
let number = 0;

export const key = () => sessionStorage.getItem(KEY);

export function keep(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

export async function ask(path, options = {}) {
  const bearer = key() ? { Authorization: `Bearer ${key()}` } : {};
  const headers = { ...options.headers, ...bearer };
  const answer = await fetch(path, { ...options, headers, credentials: "omit" });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  const error = body.error;
  const message = typeof error === "string" ? error : error?.message;
  throw Object.assign(new Error(message || answer.statusText), { status: answer.status });
}

export function explain(error) {
  if (error.status === 401) return `401: this gateway wants an API key. ${error.message}`;
  return error.status ? `${error.status}: ${error.message}` : `no answer: ${error.message}`;
}

export async function rpc(method, params, { signal, heard, headers = {} } = {}) {
  const id = (number += 1);
  const meta = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    ...(heard ? { progressToken: id } : {}),
  };
  const answer = await ask("/mcp", {
    method: "POST",
    signal,
    headers: {
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": VERSION,
      "Mcp-Method": method,
      ...(params.name ? { "Mcp-Name": params.name } : {}),
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, _meta: meta } }),
  });
  const isStream = answer.headers.get("Content-Type")?.startsWith("text/event-stream");
  const message = isStream ? await lastMessage(answer, id, heard) : await answer.json();
  if (message.error) throw new Error(message.error.message);
  return message.result;
}

async function lastMessage(answer, id, heard) {
  let text = "";
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("the answer ended half-way");
    const events = (text + value).replaceAll("\r\n", "\n").split("\n\n");
    text = events.pop();
    for (const event of events) {
      const lines = event.split("\n").filter((line) => line.startsWith("data:"));
      const data = lines.map((line) => line.slice(5).trim()).join("\n");
      if (!data) continue;
      const message = JSON.parse(data);
      if (message.id === id) return message;
      if (message.method === "notifications/progress") heard?.(message.params);
    }
  }
}
