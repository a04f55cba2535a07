// The first page: the verdict, what to do, why, and what the run contains.

const VERDICTS = { compiled: ["✓", "good"], partial: ["◐", "warn"], not_compiled: ["✕", "bad"], failed: ["✕", "bad"], incomplete: ["?", "warn"] };

PAGES.push({
  name: "summary",
  title: "Summary",
  async render(root) {
    const data = await read("explain");
    const answer = HEAD.answer;
    const [sign, kind] = data.dangers?.length ? ["!", "bad"] : VERDICTS[answer.verdict] || ["·", ""];
    put(root,
      h("header", { class: `verdict ${kind}` },
        h("p", { class: "stamp" }, h("span", { "aria-hidden": "true" }, `${sign} `), answer.verdict.replaceAll("_", " ")),
        h("h1", {}, prose(answer.sentence)),
        h("p", { class: "dim" }, HEAD.title, answer.target ? ` · ${answer.target}` : "")),
      failure(data.error),
      dangers(data.dangers || []),
      damaged(data),
      h("div", { class: "columns" },
        h("div", {}, advice(answer.advice, answer.nothing), causes(data)),
        h("div", {}, facts(data), environment(data), scenarios(data))));
  },
});

function failure(error) {
  if (!error) return null;
  return h("section", { class: "card failure", role: "note" }, h("h2", {}, `Error: ${error.type}`),
    h("p", {}, error.file ? lineLink(error.file, error.line) : ""),
    h("pre", { tabindex: "0" }, error.message),
    error.because.map((each) => h("p", {}, prose(each))));
}

function dangers(found) {
  if (!found.length) return null;
  return h("section", { class: "card failure" }, h("h2", {}, "Compiled code and eager return different results"),
    found.map((each) => h("article", { class: "cause" },
      h("h3", {}, `${each.scenario}, ${each.calls === 1 ? `call ${each.call + 1}` : plural(each.calls, "call")}: ${each.difference}`),
      h("p", { class: "dim" }, each.file ? lineLink(each.file, each.line) : "place not known", each.subject ? ` · ${each.subject}: ${each.was ?? "?"} → ${each.now ?? "?"}` : "", each.proven ? "" : " · not proven"),
      h("p", {}, prose(each.why)),
      each.fix ? h("p", {}, h("strong", {}, "Fix: "), prose(each.fix)) : null)));
}

// What is missing or wrong in the run, and in this file.
function damaged(data) {
  const notes = HEAD.notes.map((each) => `${each.name}: ${each.why}. ${each.todo}.`);
  const known = HEAD.answer.unknown.map((text) => ({ text, line: null }));
  for (const { what, line } of data?.problems || []) {
    const same = known.find((one) => one.line === null && one.text.startsWith(what.slice(0, 1).toUpperCase() + what.slice(1)));
    if (same) same.line = line || 0;
    else known.push({ text: line ? `Log line ${number(line)}: ${what}` : what, line: 0 });
  }
  const unknown = Object.entries(data?.unknown || {}).map(([name, count]) => `${plural(count, "log record")} of the unknown kind ${name}`);
  const all = [...known.map((one) => (one.line ? `${one.text} Log line ${number(one.line)}.` : one.text)), ...unknown, ...notes];
  if (!all.length) return null;
  return h("section", { class: "card alert", role: "note" }, h("h2", {}, "Not known in this run"), h("ul", {}, all.slice(0, 50).map((each) => h("li", {}, prose(each)))),
    all.length > 50 ? h("p", {}, `And ${number(all.length - 50)} more, in the JSON report.`) : null);
}

function advice(steps, nothing) {
  const apart = nothing.map((each) => h("p", {}, prose(each)));
  if (!steps.length) return section("What to do", apart.length ? apart : empty("Nothing: ctrace found no change that helps."));
  return section("What to do", h("ol", { class: "steps" }, steps.map((each) => h("li", {}, prose(each.text), each.trial ? h("p", { class: "trial" }, badge(each.trial.startsWith("checked") ? "checked" : "not checked", each.trial.startsWith("checked") ? "good" : ""), " ", each.trial.replace(/^checked: /, "")) : null))), apart);
}

function causes(data) {
  if (!data.causes.length) return section("Causes", empty("No cause to fix was found."));
  return section("Causes", data.causes.map((each) => h("article", { class: "cause" },
    h("h3", {}, prose(each.title)),
    h("p", { class: "dim" }, each.file ? lineLink(each.file, each.line) : "place not known", each.function ? ` in ${each.function}` : "", costOf(each)),
    h("p", {}, prose(each.why)),
    each.expected ? h("p", { class: "dim" }, each.expected) : null)));
}

function costOf(cause) {
  const parts = [];
  const kinds = { break: "graph break", skip: "function in eager", recompile: "recompilation", danger: "wrong result", attention: "handwritten attention", failure: "failure" };
  const counts = new Map();
  for (const each of cause.symptoms) counts.set(each.what, (counts.get(each.what) || 0) + 1);
  for (const [what, count] of counts) parts.push(plural(count, kinds[what] || what, what === "skip" ? "functions in eager" : undefined));
  if (cause.cost.ops) parts.push(`${plural(cause.cost.ops, "op")} in eager`);
  if (cause.cost.graphs) parts.push(plural(cause.cost.graphs, "extra graph"));
  if (cause.cost.seconds) parts.push(`${seconds(cause.cost.seconds)} of compile time`);
  return parts.length ? ` · ${parts.join(" · ")}` : "";
}

function facts(data) {
  const { ops, compiled } = data.coverage;
  const share = ops ? compiled / ops : null;
  const guards = data.compilations.reduce((sum, each) => sum + (each.guards || 0), 0);
  const tiles = [
    ["Graphs", data.graphs.length, "code"],
    ["Graph breaks", data.breaks.length, "source"],
    ["Functions in eager", data.skipped.length, "source"],
    ["Recompilations", data.recompiles.length, "recompiles"],
    ["Guards", guards, "guards"],
    ["Kernels", data.kernels.length, "kernels"],
  ];
  return section("In this run",
    ops === null || ops === undefined ? h("p", { class: "dim" }, "Ops in graphs: not measured.") : h("div", { class: "coverage" },
      h("p", {}, h("strong", {}, `${number(compiled)} of ${number(ops)} ops`), ` in graphs${share === null ? "" : ` (${Math.floor(share * 100)}%)`}`),
      meter(share || 0, "Share of ops in graphs")),
    h("div", { class: "tiles" }, tiles.map(([name, count, page]) => h("a", { class: "tile", href: `#${page}` }, h("strong", {}, number(count)), h("span", {}, name)))),
    data.limit.hit ? h("p", { class: "bad-text" }, "Recompile limit hit: calls that match no graph run eagerly.") : null);
}

function meter(share, label) {
  const bar = h("span", { class: "fill" });
  bar.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return h("div", { class: "meter", role: "img", "aria-label": `${label}: ${Math.floor(share * 100)}%` }, bar);
}

function environment(data) {
  const of = data.environment;
  const gpu = of.target_gpu;
  const rows = [["torch", of.torch], ["Triton", of.triton], ["Python", of.python], ["Device", of.device], ["Backend", of.backend],
    ["Kernels", of.fast ? "not generated (--fast)" : of.built ? "built and run" : gpu ? `generated for ${gpu.title}; nothing ran there` : "generated, not built"],
    ["Capture", seconds(data.time.total)], ["ctrace", of.ctrace]];
  return section("Environment", h("dl", {}, rows.filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

function scenarios(data) {
  if (!data.scenarios.length) return null;
  const columns = [{ title: "Scenario" }, { title: "Calls", kind: "n" }, { title: "Recompiles", kind: "n" }, { title: "Result" }];
  const rows = data.scenarios.map((each) => [each.name, number(each.calls), number(each.recompiles),
    each.message ? `${each.outcome.replaceAll("_", " ")}: ${each.message}` : each.compared ? `same as eager in ${plural(each.compared, "call")}` : each.not_compared || "not compared with eager"]);
  for (const danger of data.dangers || []) {
    const row = rows.find((each) => each[0] === danger.scenario);
    if (row) row[3] = "differs from eager";
  }
  return section("Scenarios", table(columns, rows, { label: "Scenarios" }));
}
