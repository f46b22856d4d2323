// What there is: figures, pools, workers, devices and models, as /console/state says it.

import { at, element } from "./page.js";

const RATE_OVER_MS = 10000;
let samples = [];

export function clearState() {
  samples = [];
  for (const id of ["version", "figures", "pools", "models", "cold"]) at(id).replaceChildren();
}

export function show(state) {
  at("version").textContent = state.version;
  showFigures(state);
  at("pools").replaceChildren(...state.pools.map(poolView));
  at("models").replaceChildren(...modelRows(state.pools));
  const more = state.others ? `, and ${state.others} more` : "";
  at("cold-title").textContent = `Cold: ${state.cold.length + state.others} in the catalogue only`;
  at("cold").textContent = state.cold.join(", ") + more;
}

function showFigures(state) {
  const shown = [];
  const known = state.pools.filter((pool) => pool.waiting !== null);
  const sum = (name) => known.reduce((total, pool) => total + pool[name], 0);
  if (known.length) shown.push(["running", sum("running")], ["waiting", sum("waiting")]);
  shown.push(["queued tokens", queued(state.pools).toLocaleString("en")]);
  if (state.figures) shown.push(...rates(state.figures));
  at("figures").replaceChildren(...shown.map(([name, value]) =>
    element("div", {}, element("dt", { textContent: name }), element("dd", { textContent: value }))));
}

function queued(pools) {
  const devices = pools.flatMap((pool) => pool.workers.flatMap((worker) => worker.devices));
  return devices.reduce((total, device) => total + device.queue_tokens, 0);
}

function rates(figures) {
  const now = performance.now();
  if (samples.length && samples.at(-1).calls > figures.calls) samples = [];
  samples = [...samples.filter((one) => now - one.now < RATE_OVER_MS), { ...figures, now }];
  const first = samples[0];
  const seconds = Math.max((now - first.now) / 1000, 1);
  const rate = (name) => ((figures[name] - first[name]) / seconds).toFixed(1);
  return [
    ["tool calls/s", rate("calls")], ["items/s", rate("items")], ["tokens/s", rate("tokens")],
    ["tool calls", figures.calls.toLocaleString("en")],
    ["of them failed", figures.failed.toLocaleString("en")],
  ];
}

function poolView(pool) {
  const ready = pool.workers.filter((worker) => worker.is_ready).length;
  const queue = pool.waiting === null ? "" : `, ${pool.running} running, ${pool.waiting} waiting`;
  const note = `${ready} of ${pool.workers.length + pool.others} ready${queue}`;
  const view = element("section", {},
    element("h3", {}, `Pool ${pool.name} `, element("small", { textContent: note })),
    element("div", { className: "workers" }, ...pool.workers.map(workerView)));
  if (pool.others) view.append(element("p", { className: "note", textContent: `${pool.others} more are not shown.` }));
  if (!pool.workers.length) view.append(element("p", { textContent: "No worker runs; a call starts one where that is possible." }));
  return view;
}

function workerView(worker) {
  const state = worker.is_ready ? "ready" : "not ready";
  const title = element("h4", {}, `${worker.name} `,
    element("small", { className: worker.is_ready ? "" : "bad", textContent: state }));
  const view = element("div", { className: "worker" }, title);
  if (worker.address) view.append(element("p", { className: "note", textContent: worker.address }));
  for (const device of worker.devices) view.append(...deviceView(device));
  return view;
}

function deviceView(device) {
  const resident = device.models.filter((model) => model.state !== "host").length;
  const used = device.resident_bytes + device.reserved_bytes;
  const parts = [
    ...bar(`${device.device}: models ${bytes(device.resident_bytes)}, workspace `
      + `${bytes(device.reserved_bytes)}, of ${bytes(device.budget_bytes)}`, used, device.budget_bytes),
  ];
  if (device.host_budget_bytes) {
    parts.push(...bar(`host: ${bytes(device.host_bytes)} of ${bytes(device.host_budget_bytes)}`,
      device.host_bytes, device.host_budget_bytes));
  }
  const others = device.others ? `, ${device.others} not shown` : "";
  const text = `${resident} on the device${others}; ${device.queue_tokens.toLocaleString("en")} tokens queued`;
  return [...parts, element("p", { className: "note", textContent: text })];
}

function bar(text, value, max) {
  const meter = element("meter", { min: 0, max: Math.max(max, 1), value, textContent: text });
  meter.setAttribute("aria-label", text);
  return [element("p", { textContent: text }), meter];
}

function modelRows(pools) {
  const rows = [];
  for (const pool of pools) for (const worker of pool.workers) for (const device of worker.devices) {
    for (const model of device.models) {
      const marks = [model.state, model.pinned ? "pinned" : "", model.users ? `${model.users} using it` : ""];
      const cells = [model.name, marks.filter(Boolean).join(", "), bytes(model.size_bytes),
        `${pool.name}, ${worker.name}, ${device.device}`];
      rows.push(element("tr", {}, ...cells.map((textContent) => element("td", { textContent }))));
    }
  }
  return rows.length ? rows : [element("tr", {}, element("td", { colSpan: 4, textContent: "None is up." }))];
}

function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(Math.floor(Math.log10(Math.max(count, 1)) / 3), units.length - 1);
  const value = count / 1000 ** power;
  return `${power && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}
