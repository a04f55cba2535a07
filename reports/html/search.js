// Search over everything, and the list of keys.

const MOST_FOUND = 120;

// Yields every searchable item: kind, text, and its place in this page.
async function* findable() {
  const explain = await read("explain");
  for (const each of explain.causes) yield ["cause", `${each.title} ${each.why}`, hashOf("summary")];
  const breaks = await read("breaks");
  for (const each of breaks.breaks) yield ["graph break", `${shortPlace(each.file, each.line)} ${each.gb.join(" ")} ${each.source} ${each.reason}`, hashOf("source")];
  for (const each of breaks.skipped) yield ["runs eagerly", `${each.function} ${shortPlace(each.file, each.line)} ${each.reason}`, hashOf("source")];
  for (const each of explain.recompiles) for (const cause of each.causes) yield ["recompilation", `${each.compilation} ${cause.subject} ${cause.kind} ${cause.was} → ${cause.now}`, hashOf("recompiles")];
  const kernels = ((await read("kernels"))?.parts || []).flatMap((part) => part.kernels);
  for (const each of kernels) yield ["kernel", `${each.name} ${each.ops.join(" ")}`, hashOf("code", { g: each.graph, k: keyOf(each), sel: `kernel~${keyOf(each)}` })];
  const { files } = (await read("sources")) || { files: {} };
  for (const [file, text] of Object.entries(files)) {
    let line = 0;
    for (const code of text.split("\n")) { line += 1; yield ["source", `${shortFile(file)}:${line} ${code.trim()}`, hashOf("code", { f: file, sel: `line~${file}:${line}` })]; }
  }
  for (const name of named("stage ")) {
    const [, graph, stage] = name.split(" ");
    for (const node of flat((await read(name)).graph)) yield ["node", `${node.name} = ${node.op}(${node.args})  ${graph} ${stage}`, hashOf("code", { g: graph, st: stage, sel: `node~${stage}~${node.name}` })];
  }
  for (const each of kernels) {
    let line = 0;
    for (const code of (each.source || "").split("\n")) { line += 1; if (code) yield ["kernel source", `${code.trim()}  ${each.name}:${line}`, hashOf("code", { g: each.graph, k: keyOf(each), sel: `source~${keyOf(each)}~${line}` })]; }
  }
  for (const name of named("guards ")) for (const guard of (await read(name)).compilations[0].guards) yield ["guard", `${guard.kind} ${guard.name} ${guard.code}`, hashOf("guards", { c: name.slice(7) })];
  for (const name of named("ir ")) {
    for (const code of (await read(name)).code) {
      const lines = new Map(code.source_lines);
      let at = 0;
      for (const text of (code.text || "").split("\n")) { at += 1; if (lines.has(at)) yield [code.ir, `${text.trim()}  ${code.kernel}`, hashOf("code", { g: code.graph, k: keyOf({ graph: code.graph, stage: code.stage, name: code.kernel }), ir: code.ir, h: code.hash, at, sel: `source~${code.graph} ${code.stage} ${code.kernel}~${lines.get(at)}` })]; }
    }
  }
}

const rest = () => new Promise((done) => setTimeout(done));

class Search {
  constructor() {
    this.field = h("input", { type: "search", placeholder: "Search lines, nodes, kernels, guards, instructions", "aria-label": "Search", autocomplete: "off", spellcheck: "false", oninput: () => this.later(), onkeydown: (event) => this.key(event) });
    this.found = h("div", { class: "found", role: "list", "aria-label": "Results", onkeydown: (event) => this.key(event) });
    this.state = h("p", { class: "dim", role: "status" });
    this.dialog = h("dialog", { class: "search", "aria-label": "Search", onclick: (event) => { if (event.target === this.dialog) this.dialog.close(); } }, h("form", { method: "dialog", onsubmit: (event) => event.preventDefault() }, this.field), this.state, this.found);
  }

  open() {
    if (!this.dialog.open) this.dialog.showModal();
    this.field.select();
    this.run();
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(), 120);
  }

  async run() {
    const turn = (this.turn = (this.turn || 0) + 1);
    const words = this.field.value.trim().toLowerCase();
    fill(this.found);
    if (!words) { fill(this.state, "Everything in this run: causes, lines, nodes at every stage, kernels, guards, compiled code."); return; }
    let count = 0;
    let began = performance.now();
    try {
      for await (const [kind, text, hash] of findable()) {
        if (turn !== this.turn) return;
        if (text.toLowerCase().includes(words)) {
          count += 1;
          if (count <= MOST_FOUND) put(this.found, this.result(kind, text, hash, words));
          else break;
        }
        if (performance.now() - began > 30) {
          fill(this.state, `${number(count)} found, searching…`);
          await rest();
          began = performance.now();
        }
      }
      if (turn === this.turn) fill(this.state, count > MOST_FOUND ? `The first ${MOST_FOUND} results; add words to narrow them.` : count ? plural(count, "result") : "Nothing found.");
    } catch (error) {
      fill(this.state, String(error.message || error));
    }
  }

  result(kind, text, hash, words) {
    const line = visible(text, 400).replaceAll("\n", " ");
    const at = line.toLowerCase().indexOf(words);
    const from = at > 90 ? at - 60 : 0;
    const shown = from ? `…${line.slice(from)}` : line;
    const mark = shown.toLowerCase().indexOf(words);
    return h("div", { role: "listitem" }, h("a", { href: hash, onclick: () => this.dialog.close() }, h("span", { class: "kind" }, kind), h("span", { class: "hit" }, mark < 0 ? shown : [shown.slice(0, mark), h("mark", {}, shown.slice(mark, mark + words.length)), shown.slice(mark + words.length)])));
  }

  key(event) {
    const links = [...this.found.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown" && links.length) { event.preventDefault(); links[Math.min(at + 1, links.length - 1)].focus(); }
    if (event.key === "ArrowUp" && links.length) { event.preventDefault(); if (at <= 0) this.field.focus(); else links[at - 1].focus(); }
    if (event.key === "Enter" && at < 0 && links.length) { event.preventDefault(); links[0].click(); }
  }
}

const KEYS = [
  ["/", "Search over everything"], ["?", "This list"], ["1 … 9", "Go to a page"], ["↑ ↓", "Move the selection in a pane"], ["Tab", "Go to the next pane"],
  ["[ ]", "Previous and next stage of the graph"], ["d", "Show what the stage changed"], ["Enter", "Open a link, a box or a guard"], ["t", "Light, dark, or as the system"], ["Esc", "Close"],
];

function helpDialog() {
  const dialog = h("dialog", { class: "help", "aria-label": "Keys", onclick: (event) => { if (event.target === dialog) dialog.close(); } },
    h("h2", {}, "Keys"), h("dl", {}, KEYS.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
    h("p", { class: "dim" }, "The URL contains the selection: copy it to share this view."),
    h("form", { method: "dialog" }, h("button", {}, "Close")));
  return dialog;
}
