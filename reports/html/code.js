// Source, graph, kernel and compiled code side by side, with one selection that is linked through all of them.

const MOST_OFFERED = 500; // kernels in the menu; search finds all
const IR_ORDER = ["ptx", "sass", "ttgir", "ttir", "llir"];

PAGES.push({
  name: "code",
  title: "Code",
  wide: true,
  count: (data) => data.graphs.length,
  async render(root, query) {
    const view = new CodePage();
    await view.open(root, query);
    return view;
  },
});

class CodePage {
  async open(root, query) {
    const [graphs, kernels, sources] = await Promise.all([read("graphs"), read("kernels"), read("sources")]);
    this.graphs = graphs?.graphs || [];
    this.kernels = (kernels?.parts || []).flatMap((part) => part.kernels);
    this.built = kernels?.built || [];
    this.target = kernels?.target_gpu;
    this.files = sources?.files || {};
    this.known = new Map();
    this.panes = { source: this.sourcePane(), graph: this.graphPane(), kernel: this.kernelPane(), ir: this.irPane() };
    this.status = h("p", { class: "status", role: "status", "aria-live": "polite" });
    const names = { source: "Source", graph: "Graph", kernel: "Kernel", ir: "Compiled" };
    this.tabs = h("div", { class: "tabs", role: "group", "aria-label": "Pane" }, Object.entries(names).map(([name, title]) =>
      h("button", { type: "button", "data-pane": name, "aria-pressed": name === "source" ? "true" : "false", onclick: () => this.pane(name) }, title)));
    this.grid = h("div", { class: "panes", "data-pane": "source" }, Object.values(this.panes).map((each) => each.element));
    if (!named("ir ").length) for (const each of [this.grid, this.tabs]) each.classList.add("three");
    put(root, h("h1", { class: "hidden" }, "From a line to its kernels"), this.status, this.tabs, this.grid);
    await this.update(query);
  }

  pane(name) {
    this.grid.dataset.pane = name;
    for (const button of this.tabs.children) button.setAttribute("aria-pressed", button.dataset.pane === name ? "true" : "false");
    for (const each of Object.values(this.panes)) each.list.paint();
  }

  frame(name, title, controls, options) {
    const rows = list({ label: title, ...options });
    const note = h("p", { class: "note" });
    const element = h("section", { class: `pane ${name}`, "aria-label": title }, h("header", {}, h("h2", {}, title), controls), note, rows.element);
    return { element, list: rows, note };
  }

  // A choice in a pane header changes the URL, and the page follows the URL.
  choose(values) {
    const query = Object.fromEntries(address().query);
    go("code", { ...query, ...values });
  }

  select(label, key) {
    return h("select", { "aria-label": label, onchange: (event) => this.choose({ [key]: event.target.value, ...(key === "g" ? { sel: "", k: "", st: "" } : {}) }) });
  }

  // Fills a menu, unless it offers the same already.
  offer(box, choices, chosen) {
    const key = JSON.stringify(choices);
    if (box.offered !== key) fill(box, choices.map(([value, text]) => h("option", { value }, text)));
    box.offered = key;
    box.value = chosen === undefined || chosen === null ? "" : visible(chosen);
  }

  sourcePane() {
    this.fileBox = this.select("File", "f");
    return this.frame("source", "Source", this.fileBox, {
      draw: (at) => [h("span", { class: "ln" }, at + 1), h("span", { class: "dots", "aria-hidden": "true" }, this.lineMarks.get(at) || ""), oneLine(this.lines[at])],
      chosen: (at) => this.choose({ sel: `line~${this.file}:${at + 1}`, f: this.file }),
    });
  }

  graphPane() {
    this.graphBox = this.select("Graph", "g");
    this.stageName = h("output", {});
    this.slider = h("input", { type: "range", min: 0, max: 0, step: 1, "aria-label": "Stage", oninput: () => this.choose({ st: this.labels[Number(this.slider.value)], sel: this.sameSelection() }) });
    this.diffBox = h("input", { type: "checkbox", id: "diff", onchange: () => this.choose({ diff: this.diffBox.checked ? "1" : "" }) });
    const controls = [this.graphBox, h("label", { class: "slide" }, this.slider, this.stageName), h("label", { class: "check", for: "diff" }, this.diffBox, "Changes")];
    return this.frame("graph", "Graph", controls, {
      draw: (at) => this.drawNode(at),
      chosen: (at) => {
        const row = this.rows[at];
        if (row.node !== undefined) this.choose({ sel: `node~${this.stage}~${this.nodes[row.node].name}` });
        else if (row.place) this.choose({ sel: `line~${row.place}` });
      },
    });
  }

  kernelPane() {
    this.kernelBox = h("select", { "aria-label": "Kernel", onchange: (event) => this.choose({ k: event.target.value, sel: `kernel~${event.target.value}` }) });
    return this.frame("kernel", "Kernel", this.kernelBox, {
      draw: (at) => this.drawKernel(at),
      chosen: (at) => {
        const key = keyOf(this.kernel);
        if (this.kernel.source) this.choose({ k: key, sel: `source~${key}~${at + 1}` });
        else if (this.calls[at]?.lines.length) this.choose({ k: key, sel: `line~${this.calls[at].lines[0]}` });
      },
    });
  }

  irPane() {
    this.irBox = this.select("Form of the code", "ir");
    this.hashBox = this.select("Configuration", "h");
    return this.frame("ir", "Compiled", [this.irBox, this.hashBox], {
      draw: (at) => [h("span", { class: "ln" }, at + 1), oneLine(this.code[at])],
      chosen: (at) => {
        const line = this.codeLines.get(at + 1);
        const key = this.kernel && keyOf(this.kernel);
        if (line) this.choose({ k: key, sel: `source~${key}~${line}`, at: at + 1 });
        else this.say("Triton records no line for this instruction.");
      },
    });
  }

  sameSelection() {
    return address().query.get("sel") || "";
  }

  say(text) {
    fill(this.status, prose(text));
  }

  // Shows the selection in the URL.
  async update(query) {
    const turn = (this.turn = (this.turn || 0) + 1);
    this.selection = query.get("sel") || "";
    await this.readGraph(query);
    if (turn !== this.turn) return;
    this.linked = this.links ? this.links.of(this.selection) : { places: new Set(), nodes: new Map(), kernels: new Set(), lines: new Map() };
    if (!this.selection.startsWith("line~") || this.links) this.showSource(query);
    this.showGraph(query);
    this.showKernel(query);
    await this.showCode(query);
    if (turn === this.turn) this.describe();
  }

  // Reads the stages of the graph that the URL names, or that has the selected line or kernel.
  async readGraph(query) {
    const wanted = query.get("g") || this.graphOfSelection();
    this.graph = this.graphs.find((each) => each.id === wanted) || mostWork(this.graphs);
    this.offer(this.graphBox, this.graphs.map((each) => [each.id, `${each.id} ${each.function}`]), this.graph?.id);
    if (!this.graph) { this.links = new Links("", []); return; }
    this.labels = this.graph.stages.map((each) => each.stage);
    const asked = query.get("st");
    const node = this.selection.startsWith("node~") ? this.selection.split("~")[1] : "";
    const usual = this.labels.find((label) => label === "post_grad") || this.labels.find((label) => ["forward", "inference"].includes(label)) || this.labels[0];
    this.stage = this.labels.includes(asked) ? asked : this.labels.includes(node) ? node : usual;
    if (!this.known.has(this.graph.id)) this.known.set(this.graph.id, new Links(this.graph.id, this.kernels, this.files));
    this.links = this.known.get(this.graph.id);
    await this.readStages([this.stage, node, ...[...this.links.kernels.values()].map((each) => each.graph_nodes?.stage)]);
    this.nodes = this.links.stages.get(this.stage) || [];
  }

  // A stage of a large graph takes a second to read, so only those that the selection needs are read.
  async readStages(wanted) {
    const links = this.links;
    for (const label of new Set(wanted)) {
      if (!this.labels.includes(label) || links.stages.has(label)) continue;
      const found = await read(`stage ${links.graph} ${label}`);
      if (!links.stages.has(label)) links.add(label, flat(found?.graph));
    }
  }

  // A line may be in several graphs: the current one if it has the line, else the first one that has it.
  graphOfSelection() {
    const [kind, value] = this.selection.split("~");
    if (kind === "kernel" || kind === "source") return value.split(" ")[0];
    if (kind !== "line" || (this.graph && this.links?.of(this.selection).kernels.size)) return this.graph?.id;
    return this.kernels.find((each) => each.lines.includes(value))?.graph || this.graph?.id;
  }

  showSource(query) {
    const names = Object.keys(this.files);
    const [first] = this.linked.places;
    const current = first && names.includes(fileOf(first)) ? fileOf(first) : null;
    const file = this.selection && current ? current : query.get("f") || this.file || (this.graph && names.includes(this.graph.file) ? this.graph.file : names[0]);
    this.offer(this.fileBox, names.map((name) => [name, name]), file);
    if (file !== this.file || !this.lines) {
      this.file = file;
      this.lines = (this.files[file] || "").split("\n");
    }
    this.lineMarks = new Map();
    for (const node of this.nodes || []) if (node.file === file && node.line) this.lineMarks.set(node.line - 1, "•");
    for (const kernel of this.links.kernels.values()) for (const line of kernel.lines) if (fileOf(line) === file) this.lineMarks.set(lineOf(line) - 1, "●");
    const marks = new Map();
    for (const place of this.linked.places) if (fileOf(place) === file) marks.set(lineOf(place) - 1, this.selection.startsWith("line~") ? "picked" : "linked");
    fill(this.panes.source.note, names.length ? "● in a kernel · • in this graph" : "The run has no copy of the source.");
    this.paint("source", this.lines.length, marks);
  }

  // Rows are the nodes, or, with "Changes", what the stage changed, line by line.
  showGraph(query) {
    const pane = this.panes.graph;
    if (!this.graph) { fill(pane.note, "The run has no graph."); pane.list.set(0); return; }
    this.slider.max = this.labels.length - 1;
    this.slider.value = this.labels.indexOf(this.stage);
    this.slider.setAttribute("aria-valuetext", this.stage);
    fill(this.stageName, this.stage);
    this.diffBox.checked = query.get("diff") === "1";
    if (this.diffBox.checked) { this.showChanges(); return; }
    this.rows = this.nodes.map((_, at) => ({ node: at }));
    const marks = new Map([...(this.linked.nodes.get(this.stage) || [])].map((at) => [at, this.isPicked("node", this.stage, this.nodes[at].name) ? "picked" : "linked"]));
    fill(pane.note, this.nodes.length ? `${plural(this.nodes.length, "node")} at this stage` : absence(`stage ${this.graph.id} ${this.stage}`, "The graph of this stage could not be read."));
    this.paint("graph", this.rows.length, marks);
  }

  isPicked(...parts) {
    return this.selection === parts.join("~");
  }

  async showChanges() {
    const pane = this.panes.graph;
    const name = named(`diff ${this.graph.id} `).find((each) => each.endsWith(`..${this.stage}`));
    if (!name) { fill(pane.note, "This is the first stage: nothing came before it."); this.rows = []; pane.list.set(0); return; }
    const turn = this.turn;
    const diff = await read(name);
    if (turn !== this.turn) return;
    this.rows = changedRows(diff, this.links.byName.get(this.stage));
    fill(pane.note, this.rows.length ? `${diff.before} → ${diff.after}: + new, − removed, ~ changed` : `${diff.before} → ${diff.after}: no change`);
    const mine = this.linked.nodes.get(this.stage) || new Set();
    const marks = new Map(this.rows.map((row, at) => [at, `${row.kind} ${mine.has(row.node) || this.linked.places.has(row.place) ? "linked" : ""}`]));
    this.paint("graph", this.rows.length, marks);
  }

  drawNode(at) {
    const row = this.rows[at];
    if (row.text !== undefined) return oneLine(row.text);
    const node = this.nodes[row.node];
    const type = node.sizes ? `${node.dtype || ""}[${node.sizes.join(", ")}]` : node.symbol || "";
    return [h("span", { class: "name" }, node.name), " = ", h("span", { class: "op" }, node.op), node.args ? `(${oneLine(node.args)})` : node.kind === "placeholder" ? " input" : "", type ? h("span", { class: "type" }, `  ${type}`) : "", node.line ? h("span", { class: "at" }, `  ${shortPlace(node.file, node.line)}`) : ""];
  }

  showKernel(query) {
    const pane = this.panes.kernel;
    const known = [...this.links.kernels.values()];
    const mine = known.filter((each) => this.linked.kernels.has(keyOf(each)));
    const asked = known.find((each) => keyOf(each) === query.get("k"));
    const current = known.find((each) => each === this.kernel);
    const generated = (some) => some.find((each) => each.source) || some[0];
    const ofStage = (each) => Number(each.graph_nodes?.stage === this.stage);
    const most = (some) => [...some].sort((a, b) => ofStage(b) - ofStage(a) || (this.linked.lines.get(keyOf(b))?.size || 0) - (this.linked.lines.get(keyOf(a))?.size || 0));
    this.kernel = mine.includes(asked) ? asked : mine.includes(current) ? current : generated(most(mine)) || asked || current || generated(known) || null;
    const offered = known.length > MOST_OFFERED ? known.filter((each, at) => at < MOST_OFFERED || each === this.kernel || mine.includes(each)) : known;
    this.offer(this.kernelBox, offered.map((each) => [keyOf(each), `${this.selection && this.linked.kernels.has(keyOf(each)) ? "● " : ""}${each.stage === "inference" ? "" : `${each.stage} · `}${each.name}`]), this.kernel && keyOf(this.kernel));
    if (!this.kernel) { fill(pane.note, "No kernels are known for this graph."); pane.list.set(0); return; }
    const of = this.kernel;
    this.source = of.source ? of.source.split("\n") : [];
    this.calls = of.launches;
    this.fromLine = new Map((of.statements || []).map((each) => [each.line, each.lines]));
    const facts = [of.language, of.calls > 1 ? plural(of.calls, "call") : "", of.read === null ? "bytes not known" : `${memory(of.read)} read, ${memory(of.written)} written`, of.flops ? `${scaled(of.flops)} FLOPs` : "", of.graph_nodes && !of.graph_nodes.exact ? "nodes matched by line and op" : ""];
    fill(pane.note, facts.filter(Boolean).join(" · "), of.source ? "" : " · no generated source; its calls:", this.grid.classList.contains("three") && of.language === "triton" ? " · not compiled in this run" : "");
    const marks = new Map();
    if (of.source) {
      const lines = this.linked.lines.get(keyOf(of)) || [];
      for (const line of lines) marks.set(line - 1, this.isPicked("source", keyOf(of), line) ? "picked" : "linked");
    } else {
      this.calls.forEach((call, at) => { if (call.lines.some((line) => this.linked.places.has(line))) marks.set(at, "linked"); });
    }
    this.paint("kernel", of.source ? this.source.length : this.calls.length, marks);
  }

  drawKernel(at) {
    if (!this.kernel.source) return [h("span", { class: "ln" }, at + 1), oneLine(this.calls[at].call || this.calls[at].ops.join(", ")), h("span", { class: "at" }, `  ${this.calls[at].lines.map((line) => shortPlace(fileOf(line), lineOf(line))).join(", ")}`)];
    const from = this.fromLine.get(at + 1);
    return [h("span", { class: "ln" }, at + 1), oneLine(this.source[at]), from ? h("span", { class: "at" }, `  # ${from.map((line) => shortPlace(fileOf(line), lineOf(line))).join(", ")}`) : ""];
  }

  async showCode(query) {
    const pane = this.panes.ir;
    const configurations = this.kernel ? this.built.filter((each) => each.graph === this.kernel.graph && each.stage === this.kernel.stage && each.kernel === this.kernel.name) : [];
    const forms = this.kernel ? IR_ORDER.filter((form) => configurations.some((each) => each.ir.includes(form)) && has(`ir ${this.kernel.graph} ${form}`)) : [];
    const form = forms.includes(query.get("ir")) ? query.get("ir") : forms[0];
    fill(this.irBox, forms.map((each) => h("option", { value: each, selected: each === form }, each.toUpperCase())));
    this.irBox.disabled = this.hashBox.disabled = !forms.length;
    this.code = [];
    this.codeLines = new Map();
    if (!form) {
      fill(this.hashBox);
      fill(pane.note, this.kernel && this.kernel.language === "external" ? "A library kernel: torch has no code for it." : this.kernel && this.kernel.language !== "triton" ? "C++ kernel: the run has only its source." : "Not compiled in this run: capture it with --target GPU, or with --build on a GPU.");
      pane.list.set(0);
      return;
    }
    const turn = this.turn;
    const found = (await read(`ir ${this.kernel.graph} ${form}`)).code.filter((each) => each.stage === this.kernel.stage && each.kernel === this.kernel.name);
    if (turn !== this.turn) return;
    const shown = found.find((each) => each.hash === query.get("h")) || found.find((each) => configurations.some((one) => one.hash === each.hash && one.chosen)) || found[0];
    fill(this.hashBox, found.map((each) => {
      const of = configurations.find((one) => one.hash === each.hash);
      return h("option", { value: each.hash, selected: each === shown }, of ? `${Object.entries(of.blocks).map(([name, size]) => `${name}=${size}`).join(" ")} ${plural(of.warps, "warp")}${of.chosen ? " (launched)" : ""}` : each.hash.slice(0, 8));
    }));
    const of = configurations.find((one) => one.hash === shown?.hash);
    this.code = (shown?.text ?? "").split("\n");
    this.codeLines = new Map(shown?.source_lines || []);
    const facts = of ? [of.registers === null ? "registers not known" : plural(of.registers, "register"), of.spills ? `${of.spills} spilled` : "no spills", of.shared === null ? "" : `${memory(of.shared)} shared`, of.open ? "one of several configurations; the device chooses" : ""] : [];
    fill(pane.note, facts.filter(Boolean).join(" · "), shown?.text === null ? " · the log is damaged here" : this.codeLines.size ? "" : " · no line numbers in this form", of?.ir.includes("sass") && !has(`ir ${this.kernel.graph} sass`) ? " · SASS: ctrace report --sass" : "");
    const lines = this.linked.lines.get(keyOf(this.kernel)) || new Set();
    const marks = new Map();
    if (this.selection) for (const [line, from] of this.codeLines) if (lines.has(from)) marks.set(line - 1, Number(query.get("at")) === line ? "picked" : "linked");
    this.paint("ir", this.code.length, marks);
  }

  paint(name, size, marks) {
    const rows = this.panes[name].list;
    const first = [...marks].filter(([, mark]) => /linked|picked/.test(mark)).map(([at]) => at).sort((a, b) => a - b);
    const active = document.activeElement === rows.element;
    if (!active && first.length) [rows.active] = first;
    const unasked = this.selection ? -1 : this.beginning(name);
    rows.set(size, marks, active ? -1 : first.length ? first[0] : unasked);
  }

  // Where a pane begins while nothing is selected: past the docstring and the imports.
  beginning(name) {
    if (name === "source") return Math.min(...this.lineMarks.keys(), Infinity) === Infinity ? -1 : Math.min(...this.lineMarks.keys());
    return name === "kernel" && this.kernel?.source ? this.source.findIndex((line) => line.startsWith("def ")) : -1;
  }

  // Whether torch leaves the nodes of some linked kernel unnamed.
  isMatched() {
    return this.selection.startsWith("node~") && [...this.linked.kernels].some((key) => this.links.kernels.get(key)?.graph_nodes?.exact === false);
  }

  describe() {
    if (!this.selection) { this.say("Pick a line, a node or an instruction: its origin and its results light up in every pane. Arrow keys move, Tab changes the pane."); return; }
    const nodes = this.linked.nodes.get(this.stage)?.size || 0;
    const key = this.kernel && keyOf(this.kernel);
    const lines = (key && this.linked.lines.get(key)) || new Set();
    const instructions = [...this.codeLines.values()].filter((from) => lines.has(from)).length;
    const places = [...this.linked.places].slice(0, 4).map((place) => shortPlace(fileOf(place), lineOf(place))).join(", ");
    const what = { line: "Line", node: "Node", kernel: "Kernel", source: "Kernel line" }[this.selection.split("~")[0]] || "Selection";
    const target = { line: places, node: this.selection.split("~")[2], kernel: this.kernel?.name, source: this.selection.split("~")[2] }[this.selection.split("~")[0]];
    const form = this.irBox.value ? ` → ${plural(instructions, `${this.irBox.value.toUpperCase()} line`)}` : "";
    this.say(`${what} \`${target || "?"}\`: ${places && what !== "Line" ? `${places} · ` : ""}${plural(nodes, "node")} at ${this.stage || "no stage"} → ${plural(this.linked.kernels.size, "kernel")}${this.isMatched() ? " (matched by line and op)" : ""}${form}`);
  }
}

function changedRows(diff, byName) {
  const rows = [];
  for (const line of [...diff.lowered, ...diff.changes]) {
    const part = [];
    const add = (kind, text, name) => part.push({ kind, text, node: name === undefined ? undefined : byName?.get(name), place: placeOf(line) });
    if (line.removed) {
      for (const each of line.removed) add("gone", `− ${each.name} = ${each.target}   ${each.same_as ? `duplicate of ${each.same_as}` : each.why === "other" ? "" : each.why}`);
      for (const each of line.added) add("new", `+ ${each.name} = ${each.target}(${each.args})`, each.name);
      for (const each of line.other_op) add("changed", `~ ${each.name}: ${each.was} → ${each.now}`, each.name);
      for (const each of line.other_args) add("changed", `~ ${each.name}(${each.was}) → (${each.now})`, each.name);
    } else {
      for (const [op, count] of Object.entries(line.before)) add("gone", `− ${op}${count > 1 ? ` ×${count}` : ""}`);
      for (const [op, count] of Object.entries(line.after)) add("new", `+ ${op}${count > 1 ? ` ×${count}` : ""}`);
      for (const [op, count] of Object.entries(line.same)) add("same", `  ${op}${count > 1 ? ` ×${count}` : ""}`);
    }
    if (part.length) rows.push({ kind: "heading", text: `${placeOf(line) ? shortPlace(line.file, line.line) : "line not known"}  ${line.source || ""}`, place: placeOf(line) }, ...part);
  }
  return rows;
}
