// A field for each argument of a tool, made of its schema, and the values that are in them.

import { at, element } from "./page.js";

function kindOf(schema) {
  if (schema.enum) return "choice";
  const types = (schema.anyOf ?? [schema]).map((one) => one.type);
  if (types.includes("array")) return types.includes("string") ? "line or lines" : "lines";
  return { boolean: "yes or no", integer: "number", number: "number", object: "json" }[types[0]] ?? "text";
}

export function fieldView(name, schema, isRequired) {
  const id = `field-${name}`;
  const input = inputFor(kindOf(schema), schema, isRequired);
  Object.assign(input, { id, name });
  input.dataset.kind = kindOf(schema);
  input.setAttribute("aria-describedby", `${id}-note`);
  if (isRequired) input.setAttribute("aria-required", "true");
  const note = element("div", { className: "note", id: `${id}-note`, textContent: noteOn(schema) });
  return element("div", { className: "field" },
    element("label", { htmlFor: id, textContent: isRequired ? `${name} (needed)` : name }), input, note);
}

function inputFor(kind, schema, isRequired) {
  const placeholder = schema.default === undefined ? "" : String(schema.default ?? "");
  if (kind === "choice") {
    const choices = ["", ...schema.enum].map((value) => element("option", { value, textContent: value || "(default)" }));
    return element("select", {}, ...choices);
  }
  if (kind === "yes or no") return element("input", { type: "checkbox", checked: schema.default === true });
  if (kind === "number") {
    const range = { min: schema.minimum ?? "", max: schema.maximum ?? "" };
    return element("input", { type: "number", step: schema.type === "integer" ? "1" : "any", placeholder, ...range });
  }
  if (kind === "text" && !isRequired) return element("input", { placeholder, autocomplete: "off" });
  return element("textarea", { rows: kind === "text" ? 2 : 4, placeholder });
}

function noteOn(schema) {
  const kind = kindOf(schema);
  const form = { lines: "One a line, or JSON.", "line or lines": "One, or several lines.", json: "JSON." }[kind] ?? "";
  return [schema.description, form].filter(Boolean).join(" ");
}

function valueOf(input, schema) {
  const text = input.value.trim();
  const kind = input.dataset.kind;
  if (kind === "yes or no") return input.checked === (schema.default ?? false) ? undefined : input.checked;
  if (!text) return undefined;
  if (kind === "number") return numberOf(text);
  if (kind === "json" || (kind.includes("line") && /^[[{]/.test(text))) return JSON.parse(text);
  if (!kind.includes("line")) return input.value;
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return kind === "line or lines" && lines.length === 1 ? lines[0] : lines;
}

function numberOf(text) {
  if (Number.isFinite(Number(text))) return Number(text);
  throw new Error(`${text} is no number`);
}

export function argumentsOf(tool) {
  const found = {};
  for (const [name, schema] of Object.entries(tool.inputSchema.properties ?? {})) {
    const input = at(`field-${name}`);
    input.removeAttribute("aria-invalid");
    try {
      const value = valueOf(input, schema);
      if (value !== undefined) found[name] = value;
      else if (tool.inputSchema.required?.includes(name)) throw new Error("is needed");
    } catch (error) {
      input.setAttribute("aria-invalid", "true");
      input.closest("details")?.setAttribute("open", "");
      input.focus();
      throw new Error(`${name}: ${error.message}`);
    }
  }
  return found;
}

// Some gateways have arguments repeated in a header, for what routes requests.
export function headersFor(tool, given) {
  const made = {};
  for (const [name, schema] of Object.entries(tool.inputSchema.properties ?? {})) {
    const value = given[name];
    if (schema["x-mcp-header"] && value !== undefined) made[`Mcp-Param-${schema["x-mcp-header"]}`] = headerText(String(value));
  }
  return made;
}

function headerText(value) {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(value)) return value;
  const encoded = String.fromCharCode(...new TextEncoder().encode(value));
  return `=?base64?${btoa(encoded)}?=`;
}
