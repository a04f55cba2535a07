// Memory of a call or of a training step over time, and what is saved for the backward.

const LAYERS = [["inputs", "d", "Parameters and inputs"], ["held", "c", "Saved for the backward, and results"], ["results", "b", "Gradients"], ["temporary", "a", "Temporary"]];


PAGES.push({
  name: "memory",
  title: "Memory",
  async render(root, query) {
    const [data, graphs] = await Promise.all([read("memory"), read("graphs")]);
    const known = (data?.graphs || []).filter((each) => each.peak !== null);
    put(root, h("h1", {}, "Memory"));
    if (!known.length) { put(root, empty("Not known: the run has no schedule of kernels.")); return null; }
    const view = new MemoryPage(known, graphs?.graphs || []);
    view.build(root);
    view.update(query);
    return view;
  },
});

class MemoryPage {
  constructor(known, graphs) {
    this.known = known;
    this.graphs = graphs;
  }

  build(root) {
    this.graphBox = h("select", { "aria-label": "Graph", onchange: (event) => go("memory", { g: event.target.value }) });
    this.slider = h("input", { type: "range", min: 0, step: 1, class: "time", "aria-label": "Kernel", oninput: () => go("memory", { g: this.graph.graph, at: this.slider.value }, { replace: true }) });
    this.head = h("p", {});
    this.chart = h("div", {});
    this.detail = h("p", { class: "caption", role: "status", "aria-live": "polite" });
    this.below = h("div", {});
    put(root, h("p", { class: "controls" }, h("label", {}, "Graph ", this.graphBox)),
      section("While each kernel runs", this.head, h("p", { class: "legend" }, LAYERS.map(([, hue, title]) => h("span", { class: `key hue-${hue}` }, title))), this.chart, this.slider, this.detail,
        h("p", { class: "dim" }, "Computed from the shapes and the order of the kernels, not measured. The allocator's rounding, buffers that are reused in place, and workspaces of libraries are not counted.")),
      this.below);
  }

  update(query) {
    const graph = this.known.find((each) => each.graph === query.get("g")) || this.known[0];
    if (graph !== this.graph) this.change(graph);
    const asked = query.get("at");
    this.at = asked === null ? this.peak : Math.max(0, Math.min(this.moments.length - 1, Number(asked) || 0));
    this.slider.value = this.at;
    this.show();
  }

  change(graph) {
    this.graph = graph;
    fill(this.graphBox, this.known.map((each) => h("option", { value: each.graph, selected: each === graph }, each.graph)));
    this.moments = graph.parts.flatMap((part) => part.moments.map((each) => ({ ...each, stage: part.stage, total: LAYERS.reduce((sum, [name]) => sum + each[name], 0) })));
    this.peak = this.moments.reduce((best, each, at) => (each.total > this.moments[best].total ? at : best), 0);
    this.slider.max = this.moments.length - 1;
    const unknown = graph.parts.reduce((sum, part) => sum + part.unknown, 0);
    fill(this.head, h("strong", {}, `Peak ${memory(graph.peak)}`), ` in the ${this.moments[this.peak].stage}`, graph.saved === null ? "" : ` · ${memory(graph.saved)} saved for the backward`, unknown ? ` · ${plural(unknown, "buffer")} of unknown size not counted` : "");
    this.draw();
    this.saved();
  }

  draw() {
    const [width, height, left, bottom, top] = [1000, 300, 74, 24, 14];
    const count = this.moments.length;
    const most = Math.max(1, this.graph.peak);
    const x = (at) => left + (at / count) * (width - left - 8);
    const y = (bytes) => height - bottom - (bytes / most) * (height - bottom - top);
    const drawn = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [h("line", { x1: left, x2: width - 8, y1: y(most * share), y2: y(most * share), class: "grid" }), h("text", { x: left - 6, y: y(most * share) + 4, class: "axis end" }, memory(most * share))]);
    const base = this.moments.map(() => 0);
    for (const [name, hue] of LAYERS) {
      const below = [...base];
      this.moments.forEach((each, at) => { base[at] += each[name]; });
      if (base.every((value, at) => value === below[at])) continue;
      const over = base.map((value, at) => `L${x(at)} ${y(value)}L${x(at + 1)} ${y(value)}`).join("");
      const under = [...below.keys()].reverse().map((at) => `L${x(at + 1)} ${y(below[at])}L${x(at)} ${y(below[at])}`).join("");
      drawn.push(h("path", { d: `M${x(0)} ${y(below[0])}${over}${under}Z`, class: `layer hue-${hue}` }));
    }
    let at = 0;
    for (const part of this.graph.parts) {
      drawn.push(h("line", { x1: x(at), x2: x(at), y1: top, y2: height - bottom, class: "divider" }), h("text", { x: x(at) + 4, y: height - 7, class: "axis" }, `${part.stage}, ${plural(part.moments.length, "kernel")}`));
      at += part.moments.length;
    }
    this.cursor = h("line", { y1: top, y2: height - bottom, class: "cursor" });
    this.x = x;
    const pick = (event) => {
      const box = event.currentTarget.getBoundingClientRect();
      const place = ((event.clientX - box.left) / box.width) * width;
      go("memory", { g: this.graph.graph, at: Math.max(0, Math.min(count - 1, Math.floor(((place - left) / (width - left - 8)) * count))) }, { replace: true });
    };
    fill(this.chart, h("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": `Memory over ${plural(count, "kernel")}, at most ${memory(this.graph.peak)}; the slider below reads it`, onclick: pick }, drawn, this.cursor));
  }

  show() {
    const each = this.moments[this.at];
    const middle = (this.x(this.at) + this.x(this.at + 1)) / 2;
    this.cursor.setAttribute("x1", middle);
    this.cursor.setAttribute("x2", middle);
    this.slider.setAttribute("aria-valuetext", `kernel ${this.at + 1}, ${memory(each.total)}`);
    fill(this.detail, `Kernel ${this.at + 1} of ${this.moments.length}${this.at === this.peak ? ", the peak" : ""}: `, h("code", {}, cut(each.ops.join(", ") || each.kernel, 60)), ` (${each.stage}), ${memory(each.total)}: `,
      LAYERS.filter(([name]) => each[name]).map(([name, , title]) => `${title.toLowerCase()} ${memory(each[name])}`).join(", "), ". ", each.lines.slice(0, 3).map((line, at) => [at ? ", " : "", lineLink(fileOf(line), lineOf(line))]));
  }

  saved() {
    const graph = this.graphs.find((each) => each.id === this.graph.graph);
    const tensors = graph?.saved?.tensors || [];
    if (!tensors.length) { fill(this.below, graph && this.moments.some((each) => each.stage === "backward") ? section("Saved for the backward", empty("The log does not say.")) : ""); return; }
    const made = tensors.filter((each) => each.made);
    const rows = made.map((each) => () => [h("a", { href: hashOf("code", { g: graph.id, st: "forward", sel: `node~forward~${each.name}` }) }, each.name), each.bytes === null ? "not known" : memory(each.bytes), each.memory_of === each.name ? "" : h("code", {}, each.memory_of), `${each.dtype || ""}[${(each.sizes || []).join(", ")}]`,
      each.file ? lineLink(each.file, each.line) : "not known", each.output ? "also a result" : ""]);
    fill(this.below, section("Saved for the backward", h("p", { class: "dim" }, `${plural(made.length, "tensor")} that the forward allocates and keeps, ${memory(graph.saved.bytes)} in all; ${plural(tensors.length - made.length, "parameter or input", "parameters and inputs")} need no memory of their own.`, graph.recomputed?.length ? ` The backward recomputes ${plural(graph.recomputed.length, "op")} instead of saving them.` : ""),
      table([{ title: "Tensor" }, { title: "Bytes", kind: "n" }, { title: "View of" }, { title: "Type" }, { title: "Line" }, { title: "" }], rows, { label: "Tensors saved for the backward", most: 40 })));
  }
}
