// Graph breaks and functions that run eagerly, on the lines of the source.

const AROUND = 4; // lines shown around a finding

PAGES.push({
  name: "source",
  title: "Breaks",
  count: (data) => data.breaks.length + data.skipped.length,
  async render(root) {
    const [data, sources] = await Promise.all([read("breaks"), read("sources")]);
    const found = [
      ...data.breaks.map((each) => ({ ...each, is: each.kind === "disabled" ? "disabled" : "break", title: each.kind === "disabled" ? "Disabled by its author" : "Graph break", cost: each.cost_with_skips })),
      ...data.skipped.map((each) => ({ ...each, is: "skip", title: `${each.function} runs eagerly` })),
    ];
    put(root, h("h1", {}, "Graph breaks and functions that run eagerly"));
    if (!found.length) {
      put(root, empty("No graph breaks, and no function runs eagerly."));
      return;
    }
    put(root, h("p", { class: "legend" }, badge("Graph break", "bad"), badge("Runs eagerly", "warn"), h("span", { class: "dim" }, "The bar in the margin shows how many ops of one call a finding leaves in eager.")));
    const files = new Map();
    for (const each of found) grouped(files, each.file, each);
    const most = Math.max(1, ...found.map((each) => each.cost?.ops || 0));
    for (const [file, findings] of files) put(root, sourceFile(file, findings, sources.files[file], most));
  },
});

function sourceFile(file, findings, text, most) {
  const lines = text === undefined ? [] : text.split("\n");
  const code = h("div", { class: "annotated", role: "list", "aria-label": `Findings in ${file}` });
  const shown = new Set();
  const byLine = new Map();
  for (const each of findings) {
    grouped(byLine, each.line, each);
    for (let at = Math.max(1, each.line - AROUND); at <= Math.min(lines.length || each.line, each.line + AROUND); at += 1) shown.add(at);
  }
  const draw = () => {
    const rows = [];
    let last = 0;
    for (const at of [...shown].sort((a, b) => a - b)) {
      if (at > last + 1) rows.push(gap(last + 1, at - 1, shown, draw));
      rows.push(sourceLine(file, at, lines[at - 1] ?? byLine.get(at)?.[0].source ?? "", byLine.get(at), most));
      for (const each of byLine.get(at) || []) rows.push(finding(each));
      last = at;
    }
    if (last < lines.length) rows.push(gap(last + 1, lines.length, shown, draw));
    fill(code, rows);
  };
  draw();
  return h("section", { class: "card file" }, h("h2", {}, file), text === undefined ? h("p", { class: "dim" }, "The run has no copy of this file.") : null, code);
}

function gap(first, last, shown, draw) {
  const open = () => {
    for (let at = first; at <= Math.min(last, first + 39); at += 1) shown.add(at);
    draw();
  };
  return h("div", { class: "gap", role: "listitem" }, h("button", { type: "button", onclick: open }, `⋯ lines ${number(first)} to ${number(last)}`));
}

function sourceLine(file, line, text, findings, most) {
  const ops = Math.max(0, ...(findings || []).map((each) => each.cost?.ops || 0));
  const heat = h("span", { class: "heat", title: ops ? `${plural(ops, "op")} in eager` : "" });
  heat.style.setProperty("--heat", ops ? `${Math.max(8, (100 * ops) / most)}%` : "0%");
  const kind = findings ? (findings.some((each) => each.is === "break") ? "bad" : "warn") : "";
  const at = findings?.find((each) => each.columns)?.columns;
  const indent = text.length - text.trimStart().length;
  const marked = at && text.length < LONGEST ? [text.slice(0, indent + at[0]), h("mark", {}, text.slice(indent + at[0], indent + at[1])), text.slice(indent + at[1])] : oneLine(text);
  return h("div", { class: `line ${kind}`, role: "listitem" }, heat, h("a", { class: "number", href: hashOf("code", { sel: `line~${file}:${line}` }), "aria-label": `Line ${line}` }, line), h("code", {}, marked));
}

function finding(each) {
  const cost = each.cost;
  const facts = [each.times ? plural(each.times, "time") : "", cost?.ops === null || cost?.ops === undefined ? "cost not measured" : `${plural(cost.ops, "op")} in eager`,
    cost?.graphs ? plural(cost.graphs, "extra graph") : "", each.owner && each.owner !== "user" ? `raised in ${each.owner} code` : "", ...(each.gb || [])];
  const advice = each.advice;
  return h("div", { class: `finding ${each.is === "break" ? "bad" : "warn"}`, role: "listitem" },
    h("p", { class: "head" }, badge(each.title, each.is === "break" ? "bad" : "warn"), " ", h("span", { class: "dim" }, facts.filter(Boolean).join(" · "))),
    h("p", {}, prose(each.reason)),
    each.fix ? h("p", {}, h("strong", {}, "Fix: "), prose(each.fix)) : null,
    advice && (advice.before || advice.after) ? h("details", {}, h("summary", {}, "Example"), change(advice.before, advice.after)) : null,
    advice?.switch ? h("p", { class: "dim" }, "Setting: ", h("code", {}, advice.switch), advice.risk ? ` · ${advice.risk}` : "") : null,
    (each.paths || []).length ? h("details", {}, h("summary", {}, plural(each.paths.length, "call path")), h("ul", { class: "paths" }, each.paths.slice(0, 20).map((path) => h("li", {}, path.map((frame) => `${frame.function} (${shortPlace(frame.file, frame.line)})`).join(" → "))))) : null);
}
