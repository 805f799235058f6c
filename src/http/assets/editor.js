// The editor of the configuration: numbers of lines, marks on those with problems, a check while somebody types, and what the
// schema says of the place where the cursor is. Everything works without it, by the button "Check".

const form = document.getElementById("editor");
const area = form?.elements.text;
const TYPING_MS = 600;

// Numbers of lines

const numbers = form?.querySelector(".numbers");
const column = numbers?.firstElementChild;
let marks = new Map();

function number() {
  const count = area.value.split("\n").length;
  const rows = [];
  for (let line = 1; line <= count; line++) {
    const mark = marks.get(line);
    rows.push(mark ? `<b class="${mark}">${line}</b>` : line);
  }
  column.innerHTML = rows.join("\n");
}

function follow() {
  column.style.transform = `translateY(${-area.scrollTop}px)`;
}

// A page may hold several thousand lines: only those that the report names are looked at.
function mark() {
  marks = new Map();
  for (const problem of document.querySelectorAll("#findings [data-line]")) {
    const line = Number(problem.dataset.line);
    const kind = problem.classList.contains("warning") ? "warning" : "bad";
    if (line > 0 && marks.get(line) !== "bad") marks.set(line, kind);
  }
  number();
}

function goTo(line) {
  const lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  area.scrollTop = Math.max(0, (line - 4) * parseFloat(getComputedStyle(area).lineHeight));
  area.scrollIntoView({ block: "nearest" });
}

// A check while somebody types

let asked = new AbortController();
let waiting;

function say(text, bad) {
  const verdict = document.getElementById("verdict");
  if (verdict.textContent !== text) verdict.textContent = text;
  verdict.classList.toggle("bad", bad);
  verdict.classList.toggle("good", !bad);
}

async function check() {
  asked.abort();
  asked = new AbortController();
  const body = new URLSearchParams(new FormData(form));
  body.set("action", "look");
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body, signal: asked.signal });
    if (answer.redirected || answer.status === 401) return say(form.dataset.over, true);
    if (!answer.ok) return say(form.dataset.lost, true);
    const report = document.createElement("template");
    report.innerHTML = await answer.text();
    const verdict = report.content.getElementById("verdict");
    document.getElementById("findings").innerHTML = report.content.getElementById("findings").innerHTML;
    say(verdict.textContent, verdict.classList.contains("bad"));
    mark();
  } catch (error) {
    if (error.name !== "AbortError") say(form.dataset.lost, true);
  }
}

// What the schema says of a place

const help = document.getElementById("help");
const KEY = /^(\s*)(?:- +)?("[^"]*"|'[^']*'|[^\s:#'"{[-][^:#]*?)\s*:(?:\s|$)/;
let schema;

// The keys above the cursor, each less indented than the one below it.
function place() {
  const lines = area.value.slice(0, area.selectionStart).split("\n");
  const rest = area.value.slice(area.selectionStart).split("\n", 1)[0];
  lines[lines.length - 1] += rest;
  const keys = [];
  let depth = lines.at(-1).trim() === "" ? lines.at(-1).length : Infinity;
  for (const line of lines.reverse()) {
    const found = KEY.exec(line);
    if (!found || found[1].length >= depth) continue;
    keys.unshift(found[2].replace(/^["']|["']$/g, ""));
    depth = found[1].length;
    if (depth === 0) break;
  }
  return keys;
}

const branches = (schema) => [schema, ...[...(schema.anyOf ?? []), ...(schema.oneOf ?? [])].flatMap(branches)];

function below(schema, key) {
  for (const branch of branches(schema).flatMap((branch) => [branch, ...(branch.items ? branches(branch.items) : [])])) {
    if (branch.properties?.[key]) return branch.properties[key];
    if (typeof branch.additionalProperties === "object") return branch.additionalProperties;
  }
}

function element(name, text, kind) {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

// Variables may stand everywhere: that is no choice of its own.
const isVariable = (branch) => branch.pattern?.startsWith("\\$\\{");

function kindOf(schema) {
  const kinds = branches(schema).filter((branch) => !isVariable(branch));
  const named = kinds.flatMap((branch) => branch.enum ?? (branch.const !== undefined ? [branch.const] : (branch.type ?? [])));
  // That it has keys is seen below.
  const told = [...new Set(named.filter((kind) => kind !== "null" && kind !== "object"))].join(" | ");
  return schema.default !== undefined && typeof schema.default !== "object" ? `${told}, ${help.dataset.default} ${schema.default}` : told;
}

// What stands in backticks is code.
function prose(name, text) {
  const made = document.createElement(name);
  const parts = (text ?? "").replace(/\s+/g, " ").split("`");
  made.append(...parts.map((part, index) => (index % 2 === 1 ? element("code", part) : part)));
  return made;
}

function keysOf(schema) {
  const list = document.createElement("dl");
  const inside = branches(schema).flatMap((branch) => [branch, ...(branch.items ? branches(branch.items) : [])]);
  const seen = new Set();
  for (const branch of inside) {
    for (const [key, value] of Object.entries(branch.properties ?? {})) {
      if (seen.has(key)) continue;
      seen.add(key);
      const term = element("dt", "");
      term.append(element("code", key), " ", element("span", kindOf(value), "soft"));
      if (branch.required?.includes(key)) term.append(" ", element("strong", help.dataset.required));
      list.append(term, prose("dd", value.description?.split(/(?<=\.)\s/, 1)[0]));
    }
    if (typeof branch.additionalProperties === "object") {
      const term = element("dt", help.dataset.any, "soft");
      list.append(term);
      const more = keysOf(branch.additionalProperties);
      if (more) list.append(...more.children);
    }
  }
  return list.children.length > 0 ? list : undefined;
}

function explain() {
  if (!schema) return;
  const known = [];
  let here = schema;
  for (const key of place()) {
    const next = below(here, key);
    if (!next) break;
    known.push(key);
    here = next;
  }
  const path = known.join(".") || help.dataset.root;
  if (help.dataset.shown === path) return;
  help.dataset.shown = path;
  const keys = keysOf(here);
  const parts = [element("code", path), prose("p", here.description), element("p", kindOf(here), "soft")];
  help.lastElementChild.replaceChildren(...parts.filter((part) => part.textContent), ...(keys ? [keys] : []));
}

if (area) {
  numbers.hidden = false;
  mark();
  area.addEventListener("scroll", follow);
  area.addEventListener("input", () => {
    number();
    explain();
    clearTimeout(waiting);
    if (!area.readOnly) waiting = setTimeout(check, TYPING_MS);
  });
  document.addEventListener("selectionchange", () => document.activeElement === area && explain());
  document.getElementById("report").addEventListener("click", (event) => {
    const line = event.target.closest("#findings a")?.closest("[data-line]")?.dataset.line;
    if (!line) return;
    event.preventDefault();
    goTo(Number(line));
  });
  fetch(help.dataset.schema).then((answer) => answer.json()).then((found) => {
    schema = found;
    help.hidden = false;
    explain();
  }, () => {});
}
