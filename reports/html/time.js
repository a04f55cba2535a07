// Compile time as a flame graph, and by compilation.

PAGES.push({
  name: "time",
  title: "Time",
  async render(root) {
    const data = await read("explain");
    const { total, phases, advice: trials } = data.time;
    put(root, h("h1", {}, "Compile time"));
    if (!Object.keys(phases).length && total === null) { put(root, empty("No times were measured.")); return; }
    const names = { dynamo: "Dynamo", aot: "AOTAutograd", inductor: "Inductor", backend: "Backend" };
    const parts = Object.entries(phases).filter(([name]) => name !== "codegen").map(([name, value]) => ({ name: names[name] || name, seconds: value, children: [] }));
    if (trials) parts.push({ name: "Checking advice", seconds: trials, children: [] });
    const known = parts.reduce((sum, each) => sum + each.seconds, 0);
    if (total > known) parts.push({ name: "Everything else: starting, importing torch, calling the model", seconds: total - known, children: [], soft: true });
    put(root, section("Whole capture", flame({ name: "Capture", seconds: total ?? known, children: parts }),
      phases.codegen ? h("p", { class: "dim" }, `Code generation took another ${seconds(phases.codegen)}, in parallel on other cores.`) : null,
      h("p", { class: "dim" }, "Torch measures the phases; the total is the time of the whole capture, with ctrace's hooks.")));
    const compiled = data.compilations.filter((each) => each.seconds !== null).sort((a, b) => b.seconds - a.seconds);
    const most = Math.max(1e-9, ...compiled.map((each) => each.seconds));
    const columns = [{ title: "Compilation" }, { title: "Function" }, { title: "Time", kind: "n" }, { title: "" }, { title: "Guards", kind: "n" }, { title: "Attempts", kind: "n" }];
    put(root, section("By compilation", compiled.length ? table(columns, compiled.map((each) => {
      const bar = h("span", { class: "bar hue-a" });
      bar.style.width = `${(160 * each.seconds) / most}px`;
      return [h("code", {}, each.id), [each.function, " ", lineLink(each.file, each.line)], seconds(each.seconds), bar, each.guards === null ? "not known" : number(each.guards), number(each.attempts)];
    }), { label: "Compile time by compilation" }) : empty("Not measured.")));
  },
});

// Rows of boxes, each below its parent and as wide as its share of the time.
function flame(top) {
  const [width, high] = [1000, 34];
  const drawn = [];
  let depth = 0;
  const draw = (node, x, wide, level) => {
    depth = Math.max(depth, level + 1);
    const share = top.seconds ? node.seconds / top.seconds : 0;
    const label = `${node.name}  ${seconds(node.seconds)}`;
    const fits = Math.floor((wide - 12) / 7.2);
    drawn.push(h("g", {}, h("rect", { x: x + 0.5, y: level * high + 0.5, width: Math.max(0.5, wide - 1), height: high - 2, rx: 3, class: `flame ${node.soft ? "soft" : `depth-${level % 3}`}` }, h("title", {}, `${node.name}: ${seconds(node.seconds)}, ${(share * 100).toFixed(1)}%`)),
      fits > 4 ? h("text", { x: x + 7, y: level * high + 21, class: "tile-text" }, cut(label, fits)) : null));
    let at = x;
    for (const child of node.children) {
      const part = node.seconds ? (wide * child.seconds) / node.seconds : 0;
      draw(child, at, part, level + 1);
      at += part;
    }
  };
  draw(top, 0, width, 0);
  const rows = [];
  const listed = (node, level) => { rows.push([["\u00a0\u00a0".repeat(level), node.name], seconds(node.seconds), `${top.seconds ? ((100 * node.seconds) / top.seconds).toFixed(1) : 0}%`]); node.children.forEach((child) => listed(child, level + 1)); };
  listed(top, 0);
  return [h("svg", { viewBox: `0 0 ${width} ${depth * high}`, class: "chart flat", role: "img", "aria-label": "Flame graph; the table below has the same data" }, drawn),
    table([{ title: "Phase" }, { title: "Time", kind: "n" }, { title: "Share", kind: "n" }], rows, { label: "Phases" })];
}
