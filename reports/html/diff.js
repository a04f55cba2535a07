// What changed between two runs: the numbers side by side, then every change.

const HOW = { added: ["+", "added", "good"], removed: ["−", "removed", "bad"], changed: ["~", "changed", "warn"] };
const MOST_CHANGES = 300;

SEARCHED.push(async function* () {
  for (const each of (await read("diff")).changes) yield [each.what, `${each.where} ${each.was ?? ""} ${each.now ?? ""}`, hashOf("changes", { kind: each.what })];
});

PAGES.push({
  name: "changes",
  title: "Changes",
  async render(root, query) {
    const data = await read("diff");
    const kinds = Object.keys(HEAD.kinds);
    const kind = kinds.includes(query.get("kind")) ? query.get("kind") : "";
    put(root, header(), notes(data));
    if (!data.changes.length) return;
    const button = (value, text, count) => h("button", { type: "button", "aria-pressed": value === kind ? "true" : "false", onclick: () => { go("changes", { kind: value }); } }, text, h("span", { class: "count" }, number(count)));
    put(root, h("div", { class: "filter", role: "group", "aria-label": "Kinds of changes" }, button("", "all", data.changes.length), kinds.map((each) => button(each, HEAD.kinds[each], data.changes.filter((one) => one.what === each).length))));
    for (const each of kinds) {
      if (kind && each !== kind) continue;
      const changes = data.changes.filter((one) => one.what === each);
      const shown = changes.slice(0, MOST_CHANGES);
      const places = new Map();
      for (const one of shown) places.set(one.where, [...(places.get(one.where) || []), one]);
      put(root, section(HEAD.kinds[each].replace(/^./, (letter) => letter.toUpperCase()), [...places].map(([where, some]) => h("article", { class: "cause" }, h("h3", {}, where), some.map(changed))),
        changes.length > shown.length ? h("p", { class: "dim" }, `And ${number(changes.length - shown.length)} more: ctrace diff --json.`) : null));
    }
  },
});

function header() {
  const kind = { equal: "good", better: "good", worse: "bad" }[HEAD.verdict] || "warn";
  return h("header", { class: `verdict ${kind}` }, h("p", { class: "stamp" }, h("span", { "aria-hidden": "true" }, HEAD.verdict === "equal" ? "✓ " : "≠ "), HEAD.verdict), h("h1", {}, prose(HEAD.sentence)), h("p", { class: "dim" }, HEAD.title));
}

function notes(data) {
  const all = [...data.notes, ...HEAD.not_compared];
  return all.length ? h("section", { class: "card alert", role: "note" }, h("h2", {}, "Keep in mind"), h("ul", {}, all.map((each) => h("li", {}, prose(each))))) : null;
}

function changed(each) {
  const [sign, word, kind] = HOW[each.change];
  const side = (label, text) => (text === null ? null : h("div", {}, h("span", { class: "label" }, label), text));
  const lines = each.detail.slice(2);
  return h("div", {}, h("p", {}, badge(`${sign} ${word}`, kind)), h("div", { class: "wasnow" }, side("before", each.was), side("after", each.now)),
    lines.length ? h("details", {}, h("summary", {}, `Source: ${plural(lines.filter((line) => /^[+-]/.test(line)).length, "changed line")}`),
      h("pre", { class: "udiff", tabindex: "0" }, lines.slice(0, 2000).map((line) => h("span", { class: line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : "" }, line || " ")))) : null,
    each.follows.length > 1 ? h("details", {}, h("summary", {}, each.follows[0]), h("ul", {}, each.follows.slice(1).map((line) => h("li", {}, line)))) : null);
}

PAGES.push({
  name: "sides",
  title: "Side by side",
  async render(root) {
    const runs = await Promise.all([read("before"), read("after")]);
    const of = (run) => ({ graphs: run.graphs.length, breaks: run.breaks.length, skips: run.skipped.length, recompiles: run.recompiles.length, guards: run.compilations.reduce((sum, each) => sum + (each.guards || 0), 0), kernels: run.kernels.length });
    const [was, now] = runs.map(of);
    const rows = [["Verdict", ...runs.map((run) => run.verdict.replaceAll("_", " "))],
      ...[["graphs", "Graphs"], ["breaks", "Graph breaks"], ["skips", "Functions that run eagerly"], ["recompiles", "Recompilations"], ["guards", "Guards"], ["kernels", "Kernels"]].map(([name, title]) => [title, number(was[name]), number(now[name]), delta(was[name], now[name])]),
      ["Ops in graphs", ...runs.map((run) => (run.coverage.ops === null ? "not measured" : `${number(run.coverage.compiled)} of ${number(run.coverage.ops)}`))],
      ["Bytes with fusion", ...runs.map((run) => memory(run.fusion?.bytes_fused ?? null)), run2(runs, (run) => run.fusion?.bytes_fused, memory)],
      ["Capture", ...runs.map((run) => seconds(run.time.total))],
      ["torch", ...runs.map((run) => run.environment.torch)], ["Device", ...runs.map((run) => run.environment.device)]].map((row) => [...row, ...Array(4 - row.length).fill("")]);
    put(root, h("h1", {}, "Side by side"), section("Numbers", table([{ title: "" }, { title: HEAD.names[0] }, { title: HEAD.names[1] }, { title: "Change" }], rows, { label: "Numbers of both runs" })),
      h("div", { class: "columns even" }, runs.map((run, at) => section(HEAD.names[at], h("p", {}, prose(HEAD.sentences[at])), run.causes.map((each) => h("p", { class: "dim" }, prose(each.title), each.file ? ` · ${shortPlace(each.file, each.line)}` : ""))))));
  },
});

const delta = (was, now) => (was === now ? "" : `${now > was ? "+" : "−"}${number(Math.abs(now - was))}`);
const run2 = (runs, value, shown) => { const [was, now] = runs.map(value); return typeof was === "number" && typeof now === "number" && was !== now ? `${now > was ? "+" : "−"}${shown(Math.abs(now - was))}` : ""; };
