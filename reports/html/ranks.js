// The ranks of a job: whether they agree, where the first one differs, and what each group of ranks compiled.

const MOST_COMPILATIONS = 500;
const ANSWERS = { agree: ["✓", "good"], diverge: ["✕", "bad"], incomplete: ["?", "warn"] };

SEARCHED.push(async function* () {
  for (const each of (await read("ranks")).compilations) yield ["compilation", `${each.compilation} ${each.function} ${shortPlace(each.file, each.line)}`, hashOf("ranks")];
});

PAGES.push({
  name: "ranks",
  title: "Ranks",
  async render(root) {
    const [data, letters] = await Promise.all([read("ranks"), read("letters")]);
    const [sign, kind] = ANSWERS[HEAD.verdict];
    put(root, h("header", { class: `verdict ${kind}` }, h("p", { class: "stamp" }, h("span", { "aria-hidden": "true" }, `${sign} `), HEAD.verdict), h("h1", {}, HEAD.sentence), h("p", { class: "dim" }, HEAD.title)),
      HEAD.notes_of_job.length ? h("section", { class: "card alert", role: "note" }, h("h2", {}, "Not known"), h("ul", {}, HEAD.notes_of_job.map((each) => h("li", {}, prose(each))))) : null,
      divergence(data.first_divergence),
      data.reports.map((each) => section("Torch's own report of a mismatch", h("pre", { tabindex: "0" }, each))),
      matrix(data, letters), times(data));
  },
});

function divergence(found) {
  if (!found) return null;
  const values = new Map();
  for (const [rank, value] of Object.entries(found.values)) values.set(value, [...(values.get(value) || []), rank]);
  return h("section", { class: "card failure" }, h("h2", {}, `First divergence: ${HEAD.divergence.kind}`),
    h("p", {}, h("code", {}, found.compilation), ` ${found.function} `, h("span", { class: "dim" }, shortPlace(found.file, found.line)), found.subject ? ` · ${found.subject}` : ""),
    table([{ title: "Ranks" }, { title: "Value" }], [...values].map(([value, ranks]) => [ranks.join(", "), h("code", {}, value)]), { label: "Values of the ranks" }),
    h("p", {}, prose(HEAD.divergence.advice)));
}

// A column is a group of ranks that compiled the same; the same letter in a row means the same content.
function matrix(data, letters) {
  const rows = data.compilations.map((each, at) => ({ each, letters: letters[at] }));
  const odd = rows.filter((row) => new Set(row.letters).size > 1);
  const shown = [...odd, ...rows.filter((row) => !odd.includes(row))].slice(0, MOST_COMPILATIONS);
  const cell = (letter) => h("span", { class: `cell ${letter === "-" ? "none" : letter === "A" ? "" : letter === "B" ? "b" : "c"}` }, letter === "-" ? "not compiled" : letter);
  const columns = [{ title: "Compilation" }, ...HEAD.groups.map((title) => ({ title }))];
  const made = table(columns, shown.map((row) => [[h("code", {}, row.each.compilation), ` ${row.each.function} `, h("span", { class: "dim" }, shortPlace(row.each.file, row.each.line))], ...row.letters.map(cell)]), { label: "Compilations by group of ranks", most: MOST_COMPILATIONS });
  made.querySelector("table").classList.add("matrix");
  return section("Compilations by rank", h("p", { class: "dim" }, odd.length ? `${plural(odd.length, "compilation")} of ${number(rows.length)} differ; they come first. ` : "", "Ranks that compiled the same share a column; the same letter in a row means the same content."), made,
    rows.length > shown.length ? h("p", { class: "dim" }, `The first ${number(shown.length)} of ${number(rows.length)}; ctrace ranks --json has all.`) : null);
}

function times(data) {
  const all = Object.entries(data.seconds).sort((a, b) => b[1] - a[1]);
  if (!all.length) return null;
  const most = Math.max(1e-9, all[0][1]);
  return section("Compile time by rank", h("div", { class: "bars broad" }, all.slice(0, 64).map(([rank, value]) => {
    const bar = h("span", { class: "bar hue-a" });
    bar.style.width = `${(100 * value) / most}%`;
    return h("div", { class: "barrow" }, h("span", { class: "label" }, `rank ${rank}`), h("span", { class: "track" }, bar), h("span", { class: "value" }, seconds(value)));
  })), all.length > 64 ? h("p", { class: "dim" }, `The 64 longest of ${number(all.length)} ranks.`) : null);
}
