// Fusion as an animation: the scheduler's nodes merge into kernels, round by round; missed fusions are edges.

const MOST_NODES = 600; // boxes that move; more are too small to see
const MOST_EDGES = 24;
const [NODE_WIDE, NODE_HIGH, NODE_GAP, KERNEL_PAD] = [104, 24, 3, 5];
const NODE_HUES = { pointwise: "a", reduction: "b", scan: "b", sort: "b", template: "c", external: "c", user: "c" };

PAGES.push({
  name: "fusion",
  title: "Fusion",
  async render(root, query) {
    const data = await read("fusion");
    const parts = (data?.fusion || []).filter((each) => each.nodes?.length);
    put(root, h("h1", {}, "Fusion"));
    if (!parts.length) {
      put(root, empty(data?.fusion.length ? "The log does not record the nodes that were fused." : "The run has no fusion: Inductor did not generate code."));
      return null;
    }
    const view = new FusionPage(parts);
    view.build(root);
    view.update(query);
    return view;
  },
});

class FusionPage {
  constructor(parts) {
    this.parts = parts;
    this.label = (part) => `${part.graph} ${part.stage}`;
  }

  build(root) {
    this.partBox = h("select", { "aria-label": "Graph part", onchange: (event) => go("fusion", { p: event.target.value }) });
    this.slider = h("input", { type: "range", min: 0, max: 1, step: 1, "aria-label": "Round of fusion", oninput: () => this.choose({ step: this.slider.value }) });
    this.play = h("button", { type: "button", onclick: () => this.toggle() }, "▶ Play");
    this.missBox = h("input", { type: "checkbox", id: "missed", onchange: () => this.choose({ missed: this.missBox.checked ? "" : "0" }) });
    this.caption = h("p", { class: "caption", role: "status", "aria-live": "polite" });
    this.stage = h("div", { class: "merging" });
    this.field = h("div", { class: "scroll mergebox", tabindex: "0", role: "region", "aria-label": "Nodes and kernels" }, this.stage);
    this.below = h("div", {});
    this.width = root.clientWidth - 80;
    put(root, h("p", { class: "controls" }, h("label", {}, "Graph part ", this.partBox), this.play, h("label", {}, "Round ", this.slider), h("label", { class: "check", for: "missed" }, this.missBox, "Missed fusions")),
      h("p", { class: "legend" }, [["a", "pointwise"], ["b", "reduction"], ["c", "library call or template"], ["d", "other"]].map(([hue, name]) => h("span", { class: `key hue-${hue}` }, name))),
      section("From nodes to kernels", this.caption, this.field), this.below);
    new ResizeObserver(() => { if (this.part && this.field.clientWidth !== this.width) { this.width = this.field.clientWidth; this.place(); } }).observe(this.field);
  }

  choose(values) {
    go("fusion", { p: this.label(this.part), step: this.step, missed: this.missBox.checked ? "" : "0", ...values }, { replace: true });
  }

  update(query) {
    const part = this.parts.find((each) => this.label(each) === query.get("p")) || this.parts.reduce((most, each) => (each.nodes.length > most.nodes.length ? each : most));
    const last = part.rounds.length;
    const asked = query.get("step");
    this.step = asked === null ? last : Math.max(0, Math.min(last, Number(asked) || 0));
    this.missBox.checked = query.get("missed") !== "0";
    const isSame = part === this.part;
    if (!isSame) this.change(part);
    this.stage.classList.toggle("moves", isSame); // only a step moves boxes: hundreds of moving boxes are slow to draw
    this.slider.max = last;
    this.slider.value = this.step;
    this.place();
  }

  change(part) {
    this.stop();
    this.part = part;
    fill(this.partBox, this.parts.map((each) => h("option", { value: this.label(each), selected: each === part }, this.label(each))));
    this.nodes = part.nodes.slice(0, MOST_NODES);
    this.boxes = this.nodes.map((node) => {
      const [line] = node.lines;
      const hue = NODE_HUES[node.kind] || "d";
      const title = `${node.name}: ${node.kind}\n${node.ops.join(", ")}\n${memory(node.read)} read, ${memory(node.written)} written\n${node.lines.join(", ")}`;
      return h("a", { class: `atom hue-${hue}`, title, tabindex: "-1", href: line ? hashOf("code", { g: part.graph, sel: `line~${line}` }) : null }, node.ops.map((op) => op.replace(/^(aten|prims)\./, "")).join(" ") || node.name);
    });
    this.edges = h("svg", { class: "missededges", "aria-hidden": "true" });
    this.outlines = h("div", {});
    fill(this.stage, this.outlines, this.boxes, this.edges);
    const missed = part.missed || [];
    fill(this.below, totalsOf(part), missed.length ? section("Missed fusions", missedTable(missed)) : section("Missed fusions", empty("None: no two kernels share data that fusion would keep from memory.")));
  }

  toggle() {
    if (this.timer) { this.stop(); return; }
    if (this.step >= this.part.rounds.length) this.choose({ step: 0 });
    fill(this.play, "❚❚ Pause");
    this.timer = setInterval(() => {
      if (!this.stage.isConnected || this.step >= this.part.rounds.length) { this.stop(); return; }
      this.choose({ step: this.step + 1 });
    }, 1400);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
    fill(this.play, "▶ Play");
  }

  // Puts each kernel's nodes side by side, and the kernels one after the other.
  place() {
    const width = (this.width ||= this.field.clientWidth || 900);
    const room = Math.max(1, Math.floor((width - 2 * KERNEL_PAD) / (NODE_WIDE + NODE_GAP)));
    const groups = groupsAt(this.part, this.nodes, this.step);
    const hasEdges = this.step === this.part.rounds.length && this.missBox.checked && hasMissed(this.part);
    let [x, y, high] = [0, hasEdges ? 34 : 0, 0];
    const centers = new Map();
    const outlines = [];
    for (const group of groups) {
      const columns = Math.min(group.length, room, group.length > 8 ? 6 : 4);
      const wide = columns * (NODE_WIDE + NODE_GAP) - NODE_GAP + 2 * KERNEL_PAD;
      const tall = Math.ceil(group.length / columns) * (NODE_HIGH + NODE_GAP) - NODE_GAP + 2 * KERNEL_PAD;
      if (x && x + wide > width) { x = 0; y += high + 8; high = 0; }
      group.forEach((at, index) => {
        const [left, top] = [x + KERNEL_PAD + (index % columns) * (NODE_WIDE + NODE_GAP), y + KERNEL_PAD + Math.floor(index / columns) * (NODE_HIGH + NODE_GAP)];
        this.boxes[at].style.transform = `translate(${left}px, ${top}px)`;
        centers.set(at, [x + wide / 2, y + tall / 2]);
      });
      const outline = h("div", { class: `kernelbox${group.length > 1 ? " fused" : ""}` });
      Object.assign(outline.style, { transform: `translate(${x}px, ${y}px)`, width: `${wide}px`, height: `${tall}px` });
      outlines.push(outline);
      x += wide + 8;
      high = Math.max(high, tall);
    }
    this.stage.style.height = `${y + high + 4}px`;
    fill(this.outlines, outlines);
    this.drawEdges(hasEdges ? centers : null, width, y + high + 4);
    this.say();
  }

  drawEdges(centers, width, height) {
    this.edges.setAttribute("viewBox", `0 0 ${width} ${height}`);
    Object.assign(this.edges.style, { width: `${width}px`, height: `${height}px` });
    fill(this.edges);
    if (!centers) return;
    const owner = new Map();
    this.nodes.forEach((node, at) => node.operations.forEach((one) => owner.set(one, at)));
    const shown = (this.part.missed || []).filter((each) => each.bytes).slice(0, MOST_EDGES);
    const most = Math.max(1, ...shown.map((each) => each.bytes));
    for (const each of shown) {
      const [from, to] = each.nodes.map((name) => centers.get(owner.get(operationsOf(this.part, name)?.[0])));
      if (!from || !to) continue;
      const bend = Math.max(30, Math.abs(to[0] - from[0]) / 5);
      put(this.edges, h("path", { d: `M${from[0]} ${from[1]}Q${(from[0] + to[0]) / 2} ${Math.min(from[1], to[1]) - bend} ${to[0]} ${to[1]}`, class: "missededge", "stroke-width": 1 + (5 * each.bytes) / most }));
    }
  }

  say() {
    const isLast = this.step === this.part.rounds.length;
    const { rounds } = this.part;
    const hidden = this.part.nodes.length - this.nodes.length;
    const round = rounds[this.step - 1];
    const text = this.step === 0 ? `Before fusion: ${plural(this.part.nodes_before, "node")}, each of which would be a kernel.`
      : `Round ${this.step} of ${rounds.length}: ${plural(round.fused.length, "pair")} fused, ${plural(round.nodes_after, "node")} left.`;
    fill(this.caption, text, isLast && hasMissed(this.part) && this.missBox.checked ? " Dashed: the most expensive missed fusions; a wider line is more memory traffic." : "", isLast && this.part.end ? ` Inductor stopped: ${this.part.end}.` : "", hidden ? ` The first ${MOST_NODES} nodes are drawn.` : "");
  }
}

const hasMissed = (part) => (part.missed || []).some((each) => each.bytes);
const operationsOf = (part, name) => (part.result.find((each) => each.name === name) || part.nodes.find((each) => each.name === name))?.operations;

// Which nodes are one kernel after some rounds: lists of indices, in the order of the first node.
function groupsAt(part, nodes, step) {
  const group = nodes.map((_, at) => [at]);
  const owner = new Map();
  nodes.forEach((node, at) => node.operations.forEach((one) => owner.set(one, at)));
  const merge = (first, second) => {
    if (first === undefined || second === undefined || group[first] === group[second]) return;
    const joined = [...group[first], ...group[second]].sort((a, b) => a - b);
    for (const at of joined) group[at] = joined;
  };
  if (step === part.rounds.length) {
    for (const each of part.result) each.operations.forEach((one) => merge(owner.get(each.operations[0]), owner.get(one)));
  } else {
    // A fused node is named after its operations: its first one says which kernel it is.
    const names = new Map(nodes.map((node, at) => [node.name, at]));
    for (const round of part.rounds.slice(0, step)) {
      for (const [first, second] of round.fused) {
        merge(names.get(first), names.get(second));
        const at = names.get(first) ?? names.get(second);
        if (at !== undefined) { names.set(`${first}_${second}`, at); names.set(`${second}_${first}`, at); }
      }
    }
  }
  return [...new Set(group)];
}

function totalsOf(part) {
  if (!part.bytes) return null;
  const { unfused, fused, least } = part.bytes;
  const most = Math.max(1, unfused, fused, least);
  const rows = [["Without fusion", unfused], ["With fusion", fused], ["Lower bound", least]].map(([name, value]) => {
    const bar = h("span", { class: "bar hue-a" });
    bar.style.width = `${(100 * value) / most}%`;
    return h("div", { class: "barrow" }, h("span", { class: "label" }, name), h("span", { class: "track" }, bar), h("span", { class: "value" }, memory(value)));
  });
  return section("Bytes read and written", h("div", { class: "bars broad" }, rows), h("p", { class: "dim" }, "Computed from the shapes. The lower bound reads each input once and writes each output once."));
}

function missedTable(missed) {
  const rows = missed.map((each) => () => [each.ops.map((ops, at) => [at ? " → " : "", h("code", { title: each.nodes[at] }, cut(ops.join(", ") || each.nodes[at], 40))]),
    each.bytes ? memory(each.bytes) : each.bytes_perhaps ? `up to ${memory(each.bytes_perhaps)}` : "0 B",
    [...new Set(each.lines.flat())].slice(0, 2).map((line, at) => [at ? ", " : "", lineLink(fileOf(line), lineOf(line))]), [prose(each.sentence), each.fix ? [" ", h("strong", {}, "Fix: "), prose(each.fix)] : ""]]);
  return table([{ title: "Kernels" }, { title: "Extra traffic", kind: "n" }, { title: "Lines" }, { title: "Why" }], rows, { label: "Missed fusions", most: 40 });
}
