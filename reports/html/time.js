// Compile time as a flame graph, by phase and by compilation, and what the caches returned.

const FLAME_ROW = 24;
const THINNEST = 1; // of 1000; a thinner step could not be clicked; enlarging its parent shows it
const PHASE_HUES = { dynamo: "a", guards: "a", aot: "b", passes: "b", lowering: "c", scheduling: "c", codegen: "c", build: "e", autotune: "e" };

PAGES.push({
  name: "time",
  title: "Time",
  async render(root, query) {
    const [data, steps, compile] = await Promise.all([read("explain"), read("steps"), read("compile")]);
    const { total, phases } = data.time;
    put(root, h("h1", {}, "Compile time"));
    if (!Object.keys(phases).length && total === null && !steps?.threads.length) { put(root, empty("No times were measured.")); return null; }
    put(root, section("Whole capture", capture(data.time)));
    const view = new Flames(steps?.threads || []);
    view.build(root);
    const found = compile?.compile;
    put(root, h("div", { class: "columns even" }, phaseCard(found), cacheTable(found?.caches || [])), compilations(data.compilations));
    view.update(query);
    return view;
  },
});

function capture({ total, phases, advice }) {
  const names = { dynamo: "Dynamo", aot: "AOTAutograd", inductor: "Inductor", backend: "Backend" };
  const hues = { dynamo: "a", aot: "b", inductor: "c", backend: "c" }; // those of the legend of the flame graph
  const parts = Object.entries(phases).filter(([name]) => name !== "codegen").map(([name, value]) => [names[name] || name, value, hues[name] || "c"]);
  if (advice) parts.push(["Checking advice", advice, "d"]);
  const known = parts.reduce((sum, [, value]) => sum + value, 0);
  if (total > known) parts.push(["Everything else: starting, importing torch, calling the model", total - known, "d"]);
  const whole = total ?? known;
  return [h("div", { class: "bars broad" }, parts.map(([name, value, hue]) => {
    const bar = h("span", { class: `bar hue-${hue}` });
    bar.style.width = `${(100 * value) / (whole || 1)}%`;
    return h("div", { class: "barrow" }, h("span", { class: "label" }, name), h("span", { class: "track" }, bar), h("span", { class: "value" }, seconds(value)));
  })), phases.codegen ? h("p", { class: "dim" }, `Code generation took another ${seconds(phases.codegen)}, in parallel on other cores.`) : null,
    h("p", { class: "dim" }, `${seconds(whole)} in all. Torch measures the phases; the total is the time of the whole capture, with ctrace's hooks.`)];
}

function phaseCard(found) {
  const rows = Object.entries(found?.phases || {}).map(([name, value]) => [name, seconds(value), found.seconds ? `${((100 * value) / found.seconds).toFixed(1)}%` : ""]);
  return section("By phase", rows.length ? table([{ title: "Phase" }, { title: "Time", kind: "n" }, { title: "Share", kind: "n" }], rows, { label: "Compile time by phase" }) : empty("The log times no step."));
}

function cacheTable(caches) {
  const rows = caches.map((each) => [each.cache.replaceAll("_", " "), `${each.graph || ""} ${each.stage || ""}`.trim(), badge(each.outcome, each.outcome === "hit" ? "good" : each.outcome === "miss" ? "warn" : ""), prose(each.why || "")]);
  return section("Caches", rows.length ? table([{ title: "Cache" }, { title: "Graph" }, { title: "Result" }, { title: "Why" }], rows, { label: "Cache look-ups" }) : empty("No look-up was recorded."));
}

function compilations(all) {
  const compiled = all.filter((each) => each.seconds !== null).sort((a, b) => b.seconds - a.seconds);
  const most = Math.max(1e-9, ...compiled.map((each) => each.seconds));
  const columns = [{ title: "Compilation" }, { title: "Function" }, { title: "Time", kind: "n" }, { title: "" }, { title: "Guards", kind: "n" }, { title: "Attempts", kind: "n" }];
  return section("By compilation", compiled.length ? table(columns, compiled.map((each) => () => {
    const bar = h("span", { class: "bar hue-d" }); // all phases together
    bar.style.width = `${(160 * each.seconds) / most}px`;
    return [h("code", {}, each.id), [each.function, " ", lineLink(each.file, each.line)], seconds(each.seconds), bar, each.guards === null ? "not known" : number(each.guards), number(each.attempts)];
  }), { label: "Compile time by compilation" }) : empty("Not measured."));
}

// One flame graph for each thread: a step lies below the step that contains it, and is as wide as its share of the time.
class Flames {
  constructor(threads) {
    const compiling = threads.filter((each) => !each.parallel);
    const top = (name, some) => ({ name, steps: some.flatMap((each) => each.steps), seconds: some.reduce((sum, each) => sum + each.steps.reduce((all, one) => all + one.seconds, 0), 0) });
    this.tops = [top("compiling", compiling), ...threads.filter((each) => each.parallel).map((each) => top(`in parallel: ${each.thread}`, [each]))].filter((each) => each.steps.length);
    this.tops.forEach((each, at) => parented(each, null, String(at)));
  }

  build(root) {
    this.box = h("div", {});
    this.detail = h("p", { class: "caption", role: "status", "aria-live": "polite" });
    const colors = [["a", "Dynamo, guards"], ["b", "AOTAutograd, passes"], ["c", "Inductor"], ["e", "build, autotuning"], ["d", "other"]];
    put(root, section("Flame graph", this.tops.length ? [h("p", { class: "legend" }, colors.map(([hue, name]) => h("span", { class: `key hue-${hue}` }, name))), this.box, this.detail] : empty("The log times no step: ctrace time --compile model.py records them.")));
  }

  update(query) {
    if (!this.tops.length) return;
    const path = (query.get("at") || "0").split(".").map(Number);
    let node = this.tops[path[0]] || this.tops[0];
    for (const at of path.slice(1)) node = node.steps[at] || node;
    this.chosen = node;
    this.draw();
  }

  draw() {
    fill(this.box, this.tops.map((top) => this.flame(top, this.chosen.top === top ? this.chosen : top)));
    const { chosen } = this;
    const own = chosen.seconds - chosen.steps.reduce((sum, each) => sum + each.seconds, 0);
    fill(this.detail, h("strong", {}, chosen.name), ` ${seconds(chosen.seconds)}`, chosen.parent ? `, ${((100 * chosen.seconds) / (chosen.top.seconds || 1)).toFixed(1)}% of all; ${seconds(Math.max(0, own))} in no step below` : " in all",
      chosen.phase ? ` · ${chosen.phase}` : "", chosen.graph ? ` · compilation ${chosen.graph}` : "", chosen.cut ? " · the log ends before this step" : "", ". A click or Enter enlarges a step; arrow keys move.");
    if (this.focus) { this.focus = false; this.box.querySelector("[data-chosen]")?.focus(); }
  }

  open(node) {
    this.focus = true;
    go("time", { at: node.path }, { replace: true });
  }

  key(event, node) {
    const { parent } = node;
    const beside = parent ? parent.steps.indexOf(node) : -1;
    const next = { ArrowUp: parent, ArrowDown: [...node.steps].sort((a, b) => b.seconds - a.seconds)[0], ArrowLeft: parent?.steps[beside - 1], ArrowRight: parent?.steps[beside + 1], Enter: node, " ": node }[event.key];
    if (!next) return;
    event.preventDefault();
    this.open(next);
  }

  // The steps around the chosen one fill the width; below it, each step has its share.
  flame(top, chosen) {
    const drawn = [];
    let depth = 0;
    const box = (node, x, wide, level) => {
      depth = Math.max(depth, level + 1);
      const fits = Math.floor((wide - 8) / 6.4);
      const text = `${node.name} ${seconds(node.seconds)}`;
      drawn.push(h("g", { class: "clickable", role: "button", tabindex: node === chosen ? "0" : "-1", "data-chosen": node === this.chosen, "aria-label": text, onclick: () => this.open(node), onkeydown: (event) => this.key(event, node) },
        h("rect", { x: x + 0.3, y: level * FLAME_ROW, width: Math.max(THINNEST, wide - 0.6), height: FLAME_ROW - 2, rx: 2, class: `flame hue-${PHASE_HUES[node.phase] || "d"}${node === this.chosen && node.parent ? " chosen" : ""}` }, h("title", {}, `${text}\n${node.phase || ""} ${node.graph || ""}`)),
        fits > 3 ? h("text", { x: x + 5, y: level * FLAME_ROW + 15, class: "flame-text" }, cut(text, fits)) : null));
    };
    const around = [];
    for (let node = chosen; node; node = node.parent) around.unshift(node);
    around.forEach((node, level) => box(node, 0, 1000, level));
    const below = (node, x, wide, level) => {
      let at = x;
      for (const each of node.steps) {
        const part = node.seconds ? (wide * each.seconds) / node.seconds : 0;
        if (part >= THINNEST) { box(each, at, part, level); below(each, at, part, level + 1); }
        at += part;
      }
    };
    below(chosen, 0, 1000, around.length);
    return h("svg", { viewBox: `0 0 1000 ${depth * FLAME_ROW}`, class: "chart flat", role: "group", "aria-label": `Flame graph, ${top.name}; the tables below have the phases` }, drawn);
  }
}

function parented(node, parent, path = "") {
  node.parent = parent;
  node.top = parent ? parent.top : node;
  node.path = path;
  node.steps.forEach((each, at) => parented(each, node, `${path}.${at}`));
}
