// The graph drawn: a box for each line or module of the user, which opens to its nodes.

const MOST_DRAWN = 400; // boxes; more are not readable, and the panes of the page Code have all nodes
const MOST_FOLDABLE = 12; // buttons that fold one open box again
const UNKNOWN = { line: "line not known", module: "module not known" };
const ROOT_MODULE = "the compiled module";
let unfolded = null; // the box that the user opened last: its first node gets the focus

PAGES.push({
  name: "graph",
  title: "Graph",
  async render(root, query) {
    const data = await read("graphs");
    put(root, h("h1", {}, "Graph"));
    if (!data?.graphs.length) { put(root, empty("The run has no graph.")); return; }
    const graph = data.graphs.find((each) => each.id === query.get("g")) || mostWork(data.graphs);
    const labels = graph.stages.map((each) => each.stage);
    const stage = labels.includes(query.get("st")) ? query.get("st") : labels.find((label) => ["forward", "inference"].includes(label)) || labels[0];
    const nodes = flat((await read(`stage ${graph.id} ${stage}`))?.graph);
    const opened = new Set((query.get("open") || "").split(" ").filter(Boolean));
    const hasModules = nodes.some((node) => typeof node.module === "string");
    const byLine = folded(nodes, "line", opened);
    const by = hasModules && (query.get("by") === "module" || (query.get("by") !== "line" && byLine.length > MOST_DRAWN)) ? "module" : "line";
    const option = (value, chosen, text = value) => h("option", { value, selected: value === chosen }, text);
    const show = (values) => go("graph", { g: graph.id, st: stage, by, open: [...opened].join(" "), ...values });
    const fold = (group) => { opened.delete(group); show({}); };
    put(root, h("p", { class: "controls" },
      h("label", {}, "Graph ", h("select", { onchange: (event) => show({ g: event.target.value, st: "", open: "" }) }, data.graphs.map((each) => option(each.id, graph.id)))),
      h("label", {}, "Stage ", h("select", { onchange: (event) => show({ st: event.target.value }) }, labels.map((label) => option(label, stage)))),
      hasModules ? h("label", {}, "Boxes ", h("select", { onchange: (event) => show({ by: event.target.value, open: "" }) }, option("line", by, "lines"), option("module", by, "modules"))) : null,
      h("button", { type: "button", onclick: () => show({ open: opened.has("*") ? "" : "*" }) }, opened.has("*") ? "Fold all" : "Unfold all"),
      [...opened].filter((each) => each !== "*").slice(0, MOST_FOLDABLE).map((each) => h("button", { type: "button", "aria-label": `Fold ${each}`, onclick: () => fold(each) }, "▾ ", cut(shortFile(each), 28))),
      h("span", { class: "dim" }, by === "line" ? "A box is a line of your code; open it to see its nodes." : "A box is a module; open it to see the modules and nodes in it.")));
    if (!nodes.length) { put(root, empty(absence(`stage ${graph.id} ${stage}`, "This stage could not be read."))); return; }
    const boxes = by === "line" ? byLine : folded(nodes, by, opened);
    if (boxes.length > MOST_DRAWN) put(root, h("p", { class: "dim" }, `The first ${MOST_DRAWN} of ${number(boxes.length)} boxes; the page Code lists all nodes.`));
    put(root, h("div", { class: "scroll card drawing", tabindex: "0", role: "region", "aria-label": "Graph" }, drawing(boxes.slice(0, MOST_DRAWN), stage, graph, opened, show)));
    const first = unfolded === null ? null : [...root.querySelectorAll("g[data-in]")].find((each) => each.dataset.in === unfolded || each.dataset.in.startsWith(`${unfolded}.`));
    unfolded = null;
    first?.focus();
  },
});

// The box of a node: its line, or the outermost of its modules that is not open; null if all around it is open.
function boxOf(node, by, opened) {
  if (node.kind === "placeholder") return "inputs";
  if (node.kind === "output") return "output";
  const isOpen = (group) => opened.has("*") || opened.has(group.replaceAll(" ", "_"));
  if (by === "line" || !node.module) {
    const group = by === "line" ? placeOf(node) || UNKNOWN.line : node.module === "" ? ROOT_MODULE : UNKNOWN.module;
    return isOpen(group) ? null : group;
  }
  const parts = node.module.split(".");
  for (let at = 1; at <= parts.length; at += 1) {
    const group = parts.slice(0, at).join(".");
    if (!isOpen(group)) return group;
  }
  return null;
}

// Nodes of one line or module become one box, unless it is open; inputs become one box, too.
function folded(nodes, by, opened) {
  const boxes = new Map();
  const keys = new Map();
  for (const node of nodes) {
    const group = boxOf(node, by, opened);
    const isOpen = group === null;
    const inside = isOpen ? (by === "line" ? placeOf(node) || UNKNOWN.line : node.module === "" ? ROOT_MODULE : node.module || UNKNOWN.module) : group;
    const key = isOpen ? `${inside}|${node.name}` : group;
    if (!boxes.has(key)) boxes.set(key, { key, by, group: inside, nodes: [], isOpen, into: new Map(), rank: 0 });
    boxes.get(key).nodes.push(node);
    keys.set(node.name, key);
  }
  const rank = new Map();
  for (const node of nodes) {
    let depth = 0;
    for (const used of node.uses) {
      if (rank.has(used)) depth = Math.max(depth, rank.get(used) + 1);
      const [from, to] = [keys.get(used), keys.get(node.name)];
      if (from !== undefined && from !== to) boxes.get(to).into.set(from, (boxes.get(to).into.get(from) || 0) + 1);
    }
    rank.set(node.name, depth);
  }
  // The rank of a box follows from the boxes before it; two lines may feed each other, so only earlier boxes count.
  const order = new Map([...boxes.keys()].map((key, at) => [key, at]));
  for (const box of boxes.values()) for (const from of box.into.keys()) if (order.get(from) < order.get(box.key)) box.rank = Math.max(box.rank, boxes.get(from).rank + 1);
  return [...boxes.values()];
}

function drawing(boxes, stage, graph, opened, show) {
  const [wide, high, across, down] = [230, 46, 26, 40];
  const levels = new Map();
  for (const box of boxes) grouped(levels, box.rank, box);
  const most = Math.max(...[...levels.values()].map((row) => row.length));
  const width = most * (wide + across) + across;
  const placed = new Map();
  [...levels.keys()].sort((a, b) => a - b).forEach((level, y) => {
    const row = levels.get(level);
    // A box goes below the boxes that it reads, so that fewer edges cross.
    const middle = (box) => {
      const above = [...box.into.keys()].map((from) => placed.get(from)).filter((at) => at !== undefined);
      return above.length ? above.reduce((sum, at) => sum + at, 0) / above.length : width / 2;
    };
    const wanted = new Map(row.map((box) => [box, middle(box)]));
    row.sort((a, b) => wanted.get(a) - wanted.get(b));
    const left = (width - row.length * (wide + across) + across) / 2;
    row.forEach((box, x) => { box.x = left + x * (wide + across); box.y = 10 + y * (high + down); placed.set(box.key, box.x + wide / 2); });
  });
  const height = levels.size * (high + down) + 10;
  const known = new Map(boxes.map((box) => [box.key, box]));
  const edges = boxes.flatMap((box) => [...box.into].filter(([from]) => known.has(from)).map(([from, count]) => {
    const source = known.get(from);
    const [x1, y1, x2, y2] = [source.x + wide / 2, source.y + high, box.x + wide / 2, box.y];
    const middle = Math.max(20, Math.abs(y2 - y1) / 2);
    return h("path", { d: `M${x1} ${y1}C${x1} ${y1 + middle} ${x2} ${y2 - middle} ${x2} ${y2}`, class: "edge", "stroke-width": Math.min(5, 1 + Math.log2(count)) }, h("title", {}, plural(count, "value")));
  }));
  const drawn = boxes.map((box) => {
    const [first] = box.nodes;
    const isEnd = box.group === "inputs" || box.group === "output";
    const canOpen = !box.isOpen && !isEnd;
    const isLine = canOpen && box.by === "line" && box.group !== UNKNOWN.line;
    const title = box.isOpen ? first.name : isLine ? shortPlace(fileOf(box.group), lineOf(box.group)) : box.group;
    const count = plural(box.nodes.length, "node");
    const of = box.nodes.find((node) => node.module === box.group);
    const kind = box.by === "module" && of ? `${of.module_class} · ` : "";
    const below = box.isOpen ? `${first.op}${first.sizes ? `  [${first.sizes.join(", ")}]` : ""}` : isLine ? first.source || count : `${kind}${count}`;
    const act = () => {
      if (box.isOpen) { go("code", { g: graph.id, st: stage, sel: `node~${stage}~${first.name}` }); return; }
      if (!canOpen) return;
      opened.add(box.group.replaceAll(" ", "_"));
      unfolded = box.group;
      show({});
    };
    return h("g", { class: "clickable", tabindex: "0", role: "button", "data-in": box.group, "aria-label": `${title}: ${below}. ${box.isOpen ? "Show in Code" : "Open"}`, onclick: act, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); act(); } } },
      h("rect", { x: box.x, y: box.y, width: wide, height: high, rx: 6, class: `box ${box.isOpen ? "node" : isEnd ? "io" : "folded"}` }, h("title", {}, `${box.group}\n${box.nodes.slice(0, 30).map((node) => `${node.name} = ${node.op}`).join("\n")}`)),
      h("text", { x: box.x + 10, y: box.y + 19, class: "box-title" }, cut(title, 28), box.nodes.length > 1 && isLine ? `  ×${box.nodes.length}` : ""),
      h("text", { x: box.x + 10, y: box.y + 36, class: "box-text" }, cut(below.trim(), 32)));
  });
  return h("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": `${plural(boxes.length, "box", "boxes")} of the stage ${stage}` }, edges, drawn);
}
