// Guards as a tree with their cost, and the sizes of each tensor.

PAGES.push({
  name: "guards",
  title: "Guards",
  count: (data) => data.compilations.reduce((sum, each) => sum + (each.guards || 0), 0),
  async render(root, query) {
    const names = named("guards ");
    put(root, h("h1", {}, "Guards"));
    if (!names.length) { put(root, empty("The run has no guards.")); return; }
    const chosen = names.find((name) => name === `guards ${query.get("c")}`) || names[0];
    const picker = h("select", { "aria-label": "Compilation", onchange: (event) => go("guards", { c: event.target.value }) },
      names.map((name) => h("option", { value: name.slice(7), selected: name === chosen }, name.slice(7))));
    const each = (await read(chosen)).compilations[0];
    put(root, h("p", { class: "controls" }, h("label", {}, "Compilation ", picker), h("span", { class: "dim" }, `${plural(each.number, "guard")} of `, lineLink(each.file, each.line, each.function),
      each.cost ? ` · ${each.cost.whole.warm.toFixed(2)} µs per call (measured)` : " · cost not measured; run ctrace guards --cost")));
    for (const left of each.left_out) put(root, h("p", { class: "dim" }, `${plural(left.number, "guard")} of the kind ${left.kind} left out: ${left.why}`));
    if (each.tree) put(root, section("Tree", guardTree(each)));
    const kinds = new Map();
    for (const guard of each.guards) kinds.set(guard.kind, (kinds.get(guard.kind) || 0) + 1);
    put(root, section("By kind", table([{ title: "Kind" }, { title: "Guards", kind: "n" }], [...kinds].sort((a, b) => b[1] - a[1]).map(([kind, count]) => [h("code", {}, kind), number(count)]), { label: "Guards by kind" })));
  },
});

// The tree is a list of rows, so that thousands of guards stay fast; a row opens and closes its children.
function guardTree(each) {
  const costs = new Map((each.cost?.parts || []).map((part) => [part.source, part]));
  const most = Math.max(1e-9, ...[...costs.values()].map((part) => part.warm));
  const open = new Set();
  const total = (node) => (node.total ??= node.guards.length + node.nodes.reduce((sum, child) => sum + total(child), 0));
  total(each.tree);
  const openTo = (node, depth) => { open.add(node); if (depth > 0) node.nodes.forEach((child) => openTo(child, depth - 1)); };
  openTo(each.tree, each.number > 200 ? 1 : 3);
  let rows = [];
  const build = () => {
    rows = [];
    const walk = (node, depth) => {
      rows.push({ node, depth });
      if (!open.has(node)) return;
      node.guards.forEach((guard) => rows.push({ guard, depth: depth + 1 }));
      node.nodes.forEach((child) => walk(child, depth + 1));
    };
    walk(each.tree, 0);
  };
  const toggle = (at) => {
    const { node } = rows[at];
    if (!node) return;
    if (open.has(node)) open.delete(node); else open.add(node);
    build();
    tree.set(rows.length);
  };
  const tree = list({
    label: "Guard tree; Enter opens or closes a row",
    draw: (at) => {
      const { node, guard, depth } = rows[at];
      const indent = "\u00a0\u00a0".repeat(Math.min(depth, 40));
      if (guard) return [indent, "· ", h("span", { class: "name" }, guard.kind), " ", h("span", { class: "type" }, oneLine(guard.code))];
      const cost = costs.get(node.source);
      const bar = cost ? h("span", { class: "bar" }) : null;
      if (bar) bar.style.width = `${Math.max(2, (60 * cost.warm) / most)}px`;
      return [indent, h("span", { class: "toggle", "aria-hidden": "true" }, node.guards.length || node.nodes.length ? (open.has(node) ? "▾ " : "▸ ") : "  "), oneLine(node.source || "(root)"), h("span", { class: "type" }, `  ${plural(total(node), "guard")}${node.type ? ` · ${node.type}` : ""}`), bar, cost ? ` ${cost.warm.toFixed(3)} µs` : ""];
    },
    chosen: () => {},
  });
  tree.element.classList.add("tree");
  tree.element.addEventListener("click", (event) => { const row = event.target.closest(".row"); if (row) toggle(Number(row.dataset.at)); });
  tree.element.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " " || event.key === "ArrowRight" || event.key === "ArrowLeft") && tree.active >= 0) {
      const is = open.has(rows[tree.active]?.node);
      if ((event.key === "ArrowRight" && is) || (event.key === "ArrowLeft" && !is)) return;
      event.preventDefault();
      toggle(tree.active);
    }
  });
  build();
  tree.set(rows.length);
  tree.element.style.height = `${Math.min(640, Math.max(120, rows.length * ROW + 8))}px`;
  return tree.element;
}

const sizeOf = (dim) => (dim.low === null && dim.high === null ? dim.size : `${dim.low ?? 0} to ${dim.high ?? "∞"}`);

PAGES.push({
  name: "shapes",
  title: "Shapes",
  async render(root) {
    const data = await read("shapes");
    put(root, h("h1", {}, "Shapes"));
    if (!data.functions.length) { put(root, empty("The run has no sizes.")); return; }
    put(root, data.violations.map((each) => h("p", { class: "bad-text" }, each)));
    const kinds = { static: "", dynamic: "good", unbacked: "warn" };
    const functions = h("div", {});
    put(root, functions);
    putInTurns(functions, data.functions, (each) => {
      const rows = each.tensors.flatMap((tensor) => tensor.dims.map((dim) => () => [h("code", {}, dim.name), tensor.dtype, badge(dim.kind.replaceAll("_", " "), kinds[dim.kind] ?? "warn"), sizeOf(dim), dim.took.slice(0, 6).join(", "), prose(dim.why || "")]));
      return section(h("span", {}, each.function, " ", h("span", { class: "dim" }, lineLink(each.file, each.line), ` · ${plural(each.compilations, "compilation")}`)),
        table([{ title: "Dimension" }, { title: "Type" }, { title: "Kind" }, { title: "Size" }, { title: "Took" }, { title: "Why" }], rows, { label: `Sizes of ${each.function}` }),
        each.needed.length ? h("p", {}, "Conditions: ", each.needed.slice(0, 20).map((one, at) => [at ? ", " : "", h("code", {}, one.condition)])) : null);
    }, 10);
    if (data.marks.length) put(root, section("Lines to add", data.marks.map((mark) => [mark.line ? h("pre", { tabindex: "0" }, mark.line) : null, h("p", { class: "dim" }, prose(mark.note))])));
  },
});
