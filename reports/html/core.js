// Reads the data of the page, makes elements from text only, and keeps the view in the URL.
"use strict";

const HEAD = JSON.parse(document.getElementById("head").textContent);
const PAGES = [];
const MORE_ROWS = 300; // rows that one click adds to a table
const LONGEST = 2000; // characters of one line on the screen; a line of a log may have millions
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0]/gu;

// Letters that are invisible or change the direction of text become escapes, as on a terminal.
function visible(text, most = LONGEST * 10) {
  let shown = String(text);
  if (shown.length > most) shown = `${shown.slice(0, most)}… (${number(shown.length - most)} more characters)`;
  return shown.replace(HIDDEN, (letter) =>
    letter === "\n" || letter === "\t" ? letter : `\\u${letter.codePointAt(0).toString(16).padStart(4, "0")}`,
  );
}

function oneLine(text) {
  return visible(text, LONGEST).replaceAll("\n", "\\n");
}

const SVG_TAGS = new Set(["svg", "g", "rect", "line", "path", "circle", "text", "title", "polyline"]);

// The list of runs, which `ctrace serve` shows, also links to the pages of the runs.
const isRun = (value) => HEAD.serves === true && /^(run|diff)(\/[\w.~%!'()*-]+){1,2}$/.test(value);

// Makes an element. Children are elements or text, never markup; a link leads to a place in this page.
function h(tag, attributes = {}, ...children) {
  const element = SVG_TAGS.has(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) {
      if (typeof value === "function") element.addEventListener(name.slice(2), value);
    } else if (name === "href" && !String(value).startsWith("#") && !isRun(value)) {
      continue;
    } else {
      element.setAttribute(name, value === true ? "" : visible(value));
    }
  }
  put(element, ...children);
  return element;
}

function put(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
  return element;
}

function fill(element, ...children) {
  element.replaceChildren();
  return put(element, ...children);
}

// Text with `code` in backquotes, as the reports write it.
// The rules are those of `prose` in reports/markup.py.
function prose(text) {
  const line = visible(text), parts = [];
  let at = 0;
  for (let begin = line.indexOf("`"); begin >= 0; begin = line.indexOf("`", at)) {
    const end = endOfCode(line, begin + 1);
    if (end < 0) break;
    parts.push(line.slice(at, begin), end > begin + 1 ? h("code", {}, line.slice(begin + 1, end)) : "``");
    at = end + 1;
  }
  return [...parts, line.slice(at)];
}

function endOfCode(line, begin) {
  const stop = line.indexOf("\n", begin) < 0 ? line.length : line.indexOf("\n", begin), ends = [];
  for (let at = line.indexOf("`", begin); at >= 0 && at < stop && ends.length < 8; at = line.indexOf("`", at + 1)) ends.push(at);
  const count = (found, letter) => found.split(letter).length;
  const closes = (found) => ["()", "[]", "{}"].every(([opened, closed]) => count(found, opened) === count(found, closed));
  const found = ends.find((at) => !(line[at + 1] || "").trim() || closes(line.slice(begin, at)));
  return found ?? ends[0] ?? -1;
}

// ---- data -----------------------------------------------------------------------------------------------------------

const NUMBERS = new Map(HEAD.documents.map((each, index) => [each.name, index]));
const READ = new Map();

async function inflated(index) {
  const encoded = document.getElementById(`data-${index}`).textContent;
  const letters = atob(encoded);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) bytes[at] = letters.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

const has = (name) => NUMBERS.has(name);
const named = (prefix) => HEAD.documents.map((each) => each.name).filter((name) => name.startsWith(prefix));

// The document with this name, read once; null if the page has none.
function read(name) {
  if (!has(name)) return Promise.resolve(null);
  if (!READ.has(name)) {
    READ.set(name, inflated(NUMBERS.get(name)).then(JSON.parse).catch((error) => {
      throw new Error(`The part "${name}" of this file is damaged: ${error.message || error}`);
    }));
  }
  return READ.get(name);
}

// ---- numbers --------------------------------------------------------------------------------------------------------

const number = (value) => Number(value).toLocaleString("en-US");
// The name of a kernel on all pages: without the prefix of the wrapper's calls of library functions, as on the terminal.
const kernelName = (name) => name.replace(/^extern_kernels\./, "");
// The graph that has the most ops: a page about one graph opens on it.
const mostWork = (graphs) => {
  const ops = (graph) => graph.stages.reduce((sum, stage) => sum + (stage.nodes || stage.ops || 0), 0);
  return graphs.reduce((most, each) => (most && ops(most) >= ops(each) ? most : each), null);
};
const plural = (value, noun, several) => `${number(value)} ${value === 1 ? noun : several || `${noun}s`}`;

function memory(bytes) {
  if (bytes === null || bytes === undefined) return "not known";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${at && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

function scaled(value, unit = "") {
  if (value === null || value === undefined) return "not known";
  const units = ["", "k", "M", "G", "T", "P"];
  let rest = value;
  let at = 0;
  while (rest >= 1000 && at < units.length - 1) { rest /= 1000; at += 1; }
  const digits = rest < 10 && !(at === 0 && Number.isInteger(rest)) ? 2 : rest < 100 && at ? 1 : 0;
  return `${rest.toFixed(digits)} ${units[at]}${unit}`.trim();
}

function seconds(value) {
  if (value === null || value === undefined) return "not measured";
  if (value >= 1) return `${value.toFixed(1)} s`;
  if (value >= 1e-3) return `${(value * 1e3).toFixed(value >= 0.1 ? 0 : 1)} ms`;
  if (value >= 1e-6) return `${(value * 1e6).toFixed(1)} µs`;
  return `${(value * 1e9).toFixed(1)} ns`;
}

const fileOf = (place) => place.slice(0, place.lastIndexOf(":"));
const lineOf = (place) => Number(place.slice(place.lastIndexOf(":") + 1));
const shortFile = (file) => file.slice(file.lastIndexOf("/") + 1);
const shortPlace = (file, line) => (file ? `${shortFile(file)}${line ? `:${line}` : ""}` : "place not known");

// ---- the URL --------------------------------------------------------------------------------------------------------

function address() {
  const [page, query] = location.hash.slice(1).split("?");
  return { page: page || PAGES[0].name, query: new URLSearchParams(query || "") };
}

const hashOf = (page, values = {}) => {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const text = query.toString();
  return `#${page}${text ? `?${text}` : ""}`;
};

function go(page, values = {}, { replace = false } = {}) {
  const hash = hashOf(page, values);
  if (hash === location.hash) return;
  if (replace && !FRAMED) {
    history.replaceState(null, "", hash);
    window.dispatchEvent(new Event("hashchange"));
  } else {
    location.hash = hash;
  }
}

// In a notebook the page is a frame without a URL: links would lead to the page around it.
const FRAMED = location.protocol === "about:";
if (FRAMED) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (!link || event.defaultPrevented) return;
    event.preventDefault();
    location.hash = link.getAttribute("href");
  });
}

const lineLink = (file, line, text) => h("a", { href: hashOf("code", { sel: `line~${file}:${line}` }), title: "Show the graph nodes, kernels and instructions of this line" }, text || shortPlace(file, line));

// ---- small pieces ---------------------------------------------------------------------------------------------------

const section = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), ...children);
// Why a part of the run is not on the page.
const absence = (name, otherwise) => {
  const note = HEAD.notes.find((each) => each.name === name);
  return note ? `Not on this page: ${note.why}; ${note.todo}.` : otherwise;
};
const empty = (text) => h("p", { class: "empty" }, text);
const badge = (text, kind = "") => h("span", { class: `badge ${kind}` }, text);

// Shows the first rows; a button adds more, so that thousands of rows do not delay the page. A row may be a function
// that returns its cells.
function table(columns, rows, { label, most = 80 } = {}) {
  const body = h("tbody", {});
  let shown = 0;
  const more = rows.length > most ? h("button", { type: "button", onclick: () => add(MORE_ROWS) }) : null;
  const add = (count) => {
    put(body, rows.slice(shown, shown + count).map((row) => h("tr", {}, (typeof row === "function" ? row() : row).map((cell, at) => h("td", { class: columns[at].kind || "" }, cell)))));
    shown = Math.min(rows.length, shown + count);
    if (!more) return;
    const left = rows.length - shown;
    if (left) fill(more, left > MORE_ROWS ? `Show ${number(MORE_ROWS)} of ${number(left)} more rows` : `Show ${plural(left, "more row")}`);
    else more.remove();
  };
  add(most);
  return h("div", { class: "rowsof" }, h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", {}, h("thead", {}, h("tr", {}, columns.map((column) => (column.title ? h("th", { scope: "col", class: column.kind || "" }, column.title) : h("td", {}))))), body)), more);
}

// Puts many parts on a page: the first ones at once, the others a few in each frame, so that input is never blocked.
function putInTurns(root, items, make, atOnce = 20) {
  let at = 0;
  const turn = () => {
    put(root, items.slice(at, at + atOnce).map(make));
    at += atOnce;
    if (at < items.length) requestAnimationFrame(() => { if (root.isConnected) turn(); });
  };
  if (items.length) turn();
}

function change(before, after) {
  if (!before && !after) return null;
  return h("div", { class: "change" },
    before ? h("figure", {}, h("figcaption", {}, "Before"), h("pre", { tabindex: "0" }, before)) : null,
    after ? h("figure", {}, h("figcaption", {}, "After"), h("pre", { tabindex: "0" }, after)) : null);
}
