// The runs of a folder: opens one, compares two, and shows new ones as they appear.

const EVERY = 2000; // milliseconds between two looks at the folder
const SIGNS = { compiled: "good", partial: "warn", not_compiled: "bad", failed: "bad", incomplete: "warn" };
const COUNTS = [["graphs", "graph"], ["breaks", "break"], ["skipped", "function in eager", "functions in eager"], ["recompiles", "recompile"]];
let runs = [];

SEARCHED.push(async function* () {
  for (const each of runs) yield [each.verdict.replaceAll("_", " ") || each.status, `${each.name} ${each.target}`, hashOf("runs", { a: each.name })];
});

PAGES.push({
  name: "runs",
  title: "Runs",
  async render(root, query) {
    const view = new RunList();
    view.build(root);
    await view.look();
    view.update(query);
    return view;
  },
});

class RunList {
  build(root) {
    this.state = h("p", { class: "dim", role: "status" });
    this.body = h("div", {});
    this.compare = h("p", { class: "controls" });
    put(root, h("h1", {}, "Runs"), this.state, this.compare, this.body);
    this.chosen = [];
    this.timer = setInterval(() => { if (root.isConnected) this.look(); else clearInterval(this.timer); }, EVERY);
  }

  async look() {
    try {
      const answer = await fetch("runs.json", { cache: "no-store" });
      if (!answer.ok) throw new Error(`the server answers ${answer.status}`);
      const text = await answer.text();
      if (text !== this.text) { this.text = text; this.data = JSON.parse(text); runs = this.data.runs; this.show(); }
      fill(this.state, `${plural(runs.length, "run")} in ${HEAD.title}; new ones appear here.`);
    } catch (error) {
      fill(this.state, `The list is not up to date: ${error.message}. Is ctrace serve still running?`);
    }
  }

  update(query) {
    this.chosen = [query.get("a"), query.get("b")].filter((name) => name && runs.some((each) => each.name === name));
    this.show();
  }

  choose(name, isChosen) {
    const [a, b] = isChosen ? [...this.chosen, name].slice(-2) : this.chosen.filter((each) => each !== name);
    go("runs", { a, b });
  }

  show() {
    if (!this.data) return;
    const columns = [{ title: "Compare" }, { title: "Run" }, { title: "When" }, { title: "Verdict" }, { title: "Contents" }, { title: "Time", kind: "n" }];
    const rows = runs.map((each) => [
      h("input", { type: "checkbox", "aria-label": `Compare ${each.name}`, checked: this.chosen.includes(each.name), onchange: (event) => this.choose(each.name, event.target.checked) }),
      [h("a", { href: `run/${encodeURIComponent(each.name)}` }, each.name), h("span", { class: "dim" }, ` ${each.target}`)],
      new Date(each.created * 1000).toLocaleString(),
      badge((each.verdict || each.status).replaceAll("_", " "), SIGNS[each.verdict] || ""),
      [...COUNTS.filter(([name]) => name in each.counts).map(([name, noun, several]) => plural(each.counts[name], noun, several)), each.gpu ? `for ${each.gpu}` : "", each.kept ? "kept" : ""].filter(Boolean).join(", "),
      each.seconds === null ? "" : seconds(each.seconds)]);
    fill(this.body, section("In this folder", rows.length ? table(columns, rows, { label: "Runs", most: 1000 }) : empty("No run yet: ctrace explain model.py makes one.")),
      this.data.damaged.length ? h("section", { class: "card alert", role: "note" }, h("h2", {}, "Cannot be read"), h("ul", {}, this.data.damaged.map((each) => h("li", {}, each)))) : null);
    const [a, b] = [...this.chosen].sort((one, other) => created(one) - created(other));
    fill(this.compare, b ? h("a", { href: `diff/${encodeURIComponent(a)}/${encodeURIComponent(b)}` }, `Show what changed from ${a} to ${b}`) : h("span", { class: "dim" }, "Check two runs to compare them."));
  }
}

const created = (name) => runs.find((each) => each.name === name)?.created || 0;
