// Memory of a step over time, as `ctrace memory` follows it: its peak compiled and in eager, and what is alive then.

const LAYERS = [["d", "Parameters", ["parameter"]], ["e", "Optimizer", ["optimizer"]], ["b", "Gradients", ["gradient"]], ["c", "Saved for the backward", ["saved"]], ["f", "Inputs, outputs and other", ["input", "output", "graph_pool", "other"]], ["a", "Temporary", ["temporary"]]];
const HELD_BY_KIND = (kinds) => LAYERS.map(([, , names]) => names.reduce((sum, name) => sum + (kinds[name] || 0), 0));
const NO_LINE = "no line of yours";


PAGES.push({
  name: "memory",
  title: "Memory",
  async render(root, query) {
    const [data, graphs] = await Promise.all([read("memory"), read("graphs")]);
    put(root, h("h1", {}, "Memory"));
    if (!data) {
      put(root, section("Peak", h("p", { class: "empty" }, prose(absence("memory", "Not followed in this run: `ctrace report model.py --train --memory` adds the peak, compiled and in eager, and what is alive then. `ctrace memory model.py --train` shows it on a terminal.")))), savedInLog(graphs?.graphs || []));
      return null;
    }
    const view = new MemoryPage(data);
    view.build(root);
    view.update(query);
    return view;
  },
});

const memoryPlace = (file, line) => (file ? lineLink(file, line) : NO_LINE);
const placeText = (at) => (/:\d+$/.test(at) ? lineLink(fileOf(at), lineOf(at)) : at ? h("code", {}, cut(at, 60)) : NO_LINE);
const signed = (bytes) => `${bytes >= 0 ? "+" : "−"}${memory(Math.abs(bytes))}`;

class MemoryPage {
  constructor(data) {
    this.data = data;
    this.moments = data.timeline.map((each) => ({ ...each, layers: HELD_BY_KIND(Object.fromEntries(each.kinds.map((one) => [one.kind, one.bytes]))) }));
    this.peak = this.moments.reduce((best, each, at) => (each.bytes > this.moments[best].bytes ? at : best), 0);
  }

  build(root) {
    const { data } = this;
    put(root, section("Peak", peaks(data), data.problems.map((each) => h("p", { class: "dim" }, `! ${each}`)), h("p", { class: "dim" }, howKnown(data))));
    if (this.moments.length) {
      this.slider = h("input", { type: "range", min: 0, max: this.moments.length - 1, step: 1, class: "time", "aria-label": "Moment", oninput: () => go("memory", { at: this.slider.value }, { replace: true }) });
      this.chart = h("div", {});
      this.detail = h("p", { class: "caption", role: "status", "aria-live": "polite" });
      const shown = LAYERS.filter((_, at) => this.moments.some((each) => each.layers[at]));
      put(root, section("During the step", h("p", { class: "legend" }, shown.map(([hue, title]) => h("span", { class: `key hue-${hue}` }, title))), this.chart, this.slider, this.detail,
        h("p", { class: "dim" }, "In the order of the step, which has no times: an allocation, a kernel or a free is one step to the right. Computed.")));
      this.draw();
    }
    put(root, alive(data), options(data), stillAlive(data), differences(data), savedNow(data));
  }

  update(query) {
    if (!this.moments.length) return;
    const asked = query.get("at");
    this.at = asked === null ? this.peak : Math.max(0, Math.min(this.moments.length - 1, Number(asked) || 0));
    this.slider.value = this.at;
    this.show();
  }

  draw() {
    const [width, height, start, bottom, top] = [1000, 300, 74, 24, 14];
    const count = this.moments.length;
    const most = Math.max(1, ...this.moments.map((each) => each.bytes));
    const x = (at) => start + (at / count) * (width - start - 8);
    const y = (bytes) => height - bottom - (bytes / most) * (height - bottom - top);
    const drawn = [0, 0.25, 0.5, 0.75, 1].flatMap((share) => [h("line", { x1: start, x2: width - 8, y1: y(most * share), y2: y(most * share), class: "grid" }), h("text", { x: start - 6, y: y(most * share) + 4, class: "axis end" }, memory(most * share))]);
    const base = this.moments.map(() => 0);
    LAYERS.forEach(([hue], layer) => {
      const below = [...base];
      this.moments.forEach((each, at) => { base[at] += each.layers[layer]; });
      if (base.every((value, at) => value === below[at])) return;
      const over = base.map((value, at) => `L${x(at)} ${y(value)}L${x(at + 1)} ${y(value)}`).join("");
      const under = [...below.keys()].reverse().map((at) => `L${x(at + 1)} ${y(below[at])}L${x(at)} ${y(below[at])}`).join("");
      drawn.push(h("path", { d: `M${x(0)} ${y(below[0])}${over}${under}Z`, class: `layer hue-${hue}` }));
    });
    this.moments.forEach((each, at) => {
      if (at && each.part === this.moments[at - 1].part) return;
      drawn.push(h("line", { x1: x(at), x2: x(at), y1: top, y2: height - bottom, class: "divider" }), h("text", { x: x(at) + 4, y: height - 7, class: "axis" }, each.part));
    });
    this.cursor = h("line", { y1: top, y2: height - bottom, class: "cursor" });
    this.x = x;
    const pick = (event) => {
      const box = event.currentTarget.getBoundingClientRect();
      const place = ((event.clientX - box.left) / box.width) * width;
      go("memory", { at: Math.max(0, Math.min(count - 1, Math.floor(((place - start) / (width - start - 8)) * count))) }, { replace: true });
    };
    fill(this.chart, h("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": `Memory over ${plural(count, "moment")} of the step, at most ${memory(most)}; the slider below reads it`, onclick: pick }, drawn, this.cursor));
  }

  show() {
    const each = this.moments[this.at];
    const middle = (this.x(this.at) + this.x(this.at + 1)) / 2;
    this.cursor.setAttribute("x1", middle);
    this.cursor.setAttribute("x2", middle);
    this.slider.setAttribute("aria-valuetext", `moment ${this.at + 1}, ${memory(each.bytes)}`);
    fill(this.detail, `Moment ${this.at + 1} of ${this.moments.length}${this.at === this.peak ? ", the peak" : ""}: `, placeText(each.at), ` (${each.part}), ${memory(each.bytes)}: `,
      LAYERS.map(([, title], at) => [title, each.layers[at]]).filter(([, bytes]) => bytes).map(([title, bytes]) => `${title.toLowerCase()} ${memory(bytes)}`).join(", "), ".");
  }
}

// The peaks of one question in one table: a computed one stands beside the measured one, and is named so.
function peaks(data) {
  const how = (peak) => (peak.measured ? "measured" : "computed");
  const rows = [["Compiled", data.peak, data.alive], ["Compiled", data.computed_peak, null], ["Eager", data.eager_peak, data.eager_alive], ["Eager", data.computed_eager_peak, null]].filter(([, peak]) => peak)
    .map(([name, peak, some]) => [`${name}, ${how(peak)}`, h("strong", {}, memory(peak.bytes)), peak.part === "optimizer" ? "step of the optimizer" : peak.part, placeText(peak.at), some ? mostHeld(some) : ""]);
  return table([{ title: "" }, { title: "Peak", kind: "n" }, { title: "In" }, { title: "At" }, { title: "Holds most" }], rows, { label: "Peaks" });
}

function mostHeld(some) {
  const lines = new Map();
  for (const each of some) {
    const key = `${each.file}:${each.line}`;
    const found = lines.get(key) || { file: each.file, line: each.line, bytes: 0 };
    found.bytes += each.bytes;
    lines.set(key, found);
  }
  const most = [...lines.values()].reduce((best, each) => (best && best.bytes >= each.bytes ? best : each), null);
  return most ? [memoryPlace(most.file, most.line), `, ${memory(most.bytes)}`] : "";
}

function howKnown(data) {
  const graphs = plural(data.graphs, "compiled graph");
  if (data.peak.measured) return `${graphs}. The peaks are measured on ${data.device}; lines and kinds are computed.`;
  return `${graphs}. Computed for ${data.device} from the sizes of tensors, without ${data.left_out.join(" and ")}; --build measures the peaks.`;
}

function alive(data) {
  const totals = {};
  for (const each of data.alive) totals[each.kind] = (totals[each.kind] || 0) + each.bytes;
  const kinds = Object.entries(totals).sort((one, other) => other[1] - one[1]).map(([kind, bytes]) => `${kind.replaceAll("_", " ")} ${memory(bytes)}`);
  const rows = data.alive.map((each) => () => [memoryPlace(each.file, each.line), h("code", {}, cut(each.source || (each.file ? "" : each.function || ""), 80)), each.kind.replaceAll("_", " "), each.shape === null ? plural(each.count, "tensor") : `${each.count > 1 ? `${each.count} × ` : ""}${each.dtype}[${each.shape.join(", ")}]`, memory(each.bytes)]);
  return section("Alive at the peak", h("p", {}, `By kind: ${kinds.join(", ")}.`), table([{ title: "Line" }, { title: "" }, { title: "Kind" }, { title: "Tensors" }, { title: "Bytes", kind: "n" }], rows, { label: "Alive at the peak", most: 20 }),
    data.unattributed_bytes ? h("p", { class: "dim" }, `${signed(data.unattributed_bytes)} belong to none of these.`) : null);
}

function options(data) {
  if (!data.options.length) return data.program === null ? section("What lowers the peak", empty("Not tried in this run: ctrace report model.py --train --memory --try makes each change and takes the step again.")) : null;
  const rows = data.options.map((each) => {
    const text = [each.text, each.line === null ? "" : [" ", memoryPlace(each.file, each.line)]];
    if (each.peak_bytes === null) return [text, `${each.tried ? "failed" : "not tried"}: ${each.why_not}`, "", ""];
    const before = each.measured ? data.peak : data.computed_peak || data.peak;
    return [text, `${memory(before.bytes)} → ${memory(each.peak_bytes)}`, each.measured ? "measured" : "computed", each.extra_flops === null || !data.flops ? "" : `+${((100 * each.extra_flops) / data.flops).toFixed(0)}%`];
  });
  return section("What lowers the peak, tried", table([{ title: "Change" }, { title: "Peak", kind: "n" }, { title: "" }, { title: "FLOPs", kind: "n" }], rows, { label: "Changes that were tried" }));
}

function stillAlive(data) {
  if (!data.growth.length && !data.held.length) return null;
  const rows = data.held.map((each) => [each.holder || "not found", each.holder_line === null ? "" : memoryPlace(each.holder_file, each.holder_line), memoryPlace(each.file, each.line), number(each.count), memory(each.bytes)]);
  const [first, last] = [data.growth[0], data.growth[data.growth.length - 1]];
  return section("What stays alive", last ? h("p", {}, `After ${plural(data.growth.length, "step")}: ${memory(Math.max(0, last.bytes - first.bytes))} more than after the first.`) : null,
    rows.length ? table([{ title: "Held by" }, { title: "At" }, { title: "Made at" }, { title: "Tensors", kind: "n" }, { title: "Bytes", kind: "n" }], rows, { label: "What stays alive" }) : null);
}

function differences(data) {
  const least = 0.01 * data.peak.bytes;
  const rows = data.lines.filter((each) => Math.abs(each.bytes - each.eager_bytes) > least).map((each) => () => [memoryPlace(each.file, each.line), h("code", {}, cut(each.source, 80)), memory(each.bytes), memory(each.eager_bytes), signed(each.bytes - each.eager_bytes)]);
  if (!rows.length) return null;
  return section("Where compiled and eager differ, each at its own peak", table([{ title: "Line" }, { title: "" }, { title: "Compiled", kind: "n" }, { title: "Eager", kind: "n" }, { title: "Difference", kind: "n" }], rows, { label: "Differences from eager", most: 20 }));
}

function savedNow(data) {
  if (!data.saved.length) return null;
  const rows = data.saved.map((each) => () => [memoryPlace(each.file, each.line), each.name, `${each.dtype}[${each.shape.join(", ")}]`, each.eager_saves ? "saved, too" : "not saved", each.recompute_flops === null ? "cannot be" : scaled(each.recompute_flops, "FLOP"), each.reason, memory(each.bytes)]);
  return section(`Saved for the backward: ${memory(data.saved_bytes)} compiled, ${memory(data.eager_saved_bytes)} in eager`, table([{ title: "Line" }, { title: "Tensor" }, { title: "Type" }, { title: "In eager" }, { title: "To recompute", kind: "n" }, { title: "Why" }, { title: "Bytes", kind: "n" }], rows, { label: "Saved for the backward", most: 20 }));
}

// What the log of any run says: the tensors that each forward returns for its backward, without a step that uses them.
function savedInLog(graphs) {
  const rows = graphs.flatMap((graph) => (graph.saved?.tensors || []).filter((each) => each.made).map((each) => () => [h("a", { href: hashOf("code", { g: graph.id, st: "forward", sel: `node~forward~${each.name}` }) }, `${graph.id} ${each.name}`), each.memory_of === each.name ? "" : h("code", {}, each.memory_of), `${each.dtype || ""}[${(each.sizes || []).join(", ")}]`,
    each.file ? lineLink(each.file, each.line) : "not known", each.output ? "also a result" : "", each.bytes === null ? "not known" : memory(each.bytes)]));
  if (!rows.length) return null;
  return section("Saved for the backward", table([{ title: "Tensor" }, { title: "View of" }, { title: "Type" }, { title: "Line" }, { title: "" }, { title: "Bytes", kind: "n" }], rows, { label: "Tensors saved for the backward", most: 40 }));
}
