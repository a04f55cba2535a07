// Recompilations: the cache of each function over time, and the guard that failed.

PAGES.push({
  name: "recompiles",
  title: "Recompiles",
  count: (data) => data.recompiles.length,
  async render(root) {
    const data = await read("recompiles");
    put(root, h("h1", {}, "Recompilations"));
    if (!data.recompiles.length) put(root, empty("No recompilation: each function was compiled once."));
    const causes = new Map(data.recompiles.map((each) => [each.compilation, each]));
    const caches = h("div", {});
    const groups = h("div", {});
    put(root, caches, data.groups.length ? h("h2", {}, "Causes") : null, groups);
    putInTurns(caches, data.caches.filter((each) => each.entries.length > 1 || !data.recompiles.length), (cache) => cacheCard(cache, causes), 10);
    putInTurns(groups, data.groups, groupCard);
  },
});

function cacheCard(cache, causes) {
  const used = cache.used === null ? "" : ` · ${cache.used} of ${cache.of} cache entries used`;
  return h("section", { class: "card" },
    h("h2", {}, cache.function, " ", h("span", { class: "dim" }, lineLink(cache.file, cache.line), used)),
    cache.refused ? h("p", { class: "bad-text" }, `${plural(cache.refused, "call")} hit the limit and ran eagerly.`) : null,
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Cache of ${cache.function} over time` }, timeline(cache, causes)),
    table([{ title: "Entry" }, { title: "Compiled for" }, { title: "Guard that failed" }, { title: "Was" }, { title: "Now" }, { title: "Compile time", kind: "n" }],
      cache.entries.map((entry) => () => {
        const first = causes.get(entry.compilation)?.causes[0];
        const more = (causes.get(entry.compilation)?.causes.length || 0) - 1;
        return [h("code", {}, entry.compilation), callName(entry), first ? [h("code", {}, first.subject), ` ${kindName(first.kind)}`, more > 0 ? ` and ${more} more` : ""] : causes.has(entry.compilation) ? "not known" : "first compilation",
          first?.was ?? "", first?.now ?? "", seconds(entry.seconds)];
      }), { label: `Entries of ${cache.function}`, most: 40 }));
}

const kindName = (kind) => (kind === "zero_one" ? "size 0 or 1" : kind.replaceAll("_", " "));
const callName = (entry) => (entry.scenario === null ? "program" : `${entry.scenario}${entry.call === null ? "" : `, call ${entry.call + 1}`}`);

// Columns are the calls that compiled, rows are the cache entries; a cross is the closest entry, with the guard that failed.
function timeline(cache, causes) {
  const entries = cache.entries.slice(0, 40);
  const [left, top, wide, high] = [70, 44, 150, 34];
  const width = left + entries.length * wide + 30;
  const height = top + entries.length * high + 14;
  const row = new Map(entries.map((each, at) => [each.compilation, at]));
  const drawn = [];
  entries.forEach((entry, at) => {
    const x = left + at * wide + 20;
    const y = top + at * high + high / 2;
    drawn.push(h("text", { x, y: 16, class: "axis" }, cut(callName(entry), 22)),
      h("line", { x1: x, y1: 24, x2: x, y2: height - 6, class: "grid" }),
      h("text", { x: 8, y: y + 4, class: "axis" }, entry.compilation),
      h("line", { x1: x, y1: y, x2: width - 12, y2: y, class: "lane" }),
      h("circle", { cx: x, cy: y, r: 6, class: "made" }, h("title", {}, `${entry.compilation} compiled for ${callName(entry)}, ${seconds(entry.seconds)}`)));
    const cause = causes.get(entry.compilation);
    const near = cause && row.get(cause.nearest);
    if (near !== undefined && cause) {
      const first = cause.causes[0];
      const ny = top + near * high + high / 2;
      drawn.push(h("path", { d: `M${x - 5} ${ny - 5}l10 10m0 -10l-10 10`, class: "miss" }, h("title", {}, first ? `${first.subject}: ${first.was ?? "?"} → ${first.now ?? "?"}` : "guard not known")),
        h("line", { x1: x, y1: ny + 7, x2: x, y2: y - 8, class: "drop" }),
        h("text", { x: x + 9, y: ny - 5, class: "why" }, cut(first ? `${first.subject}: ${first.was ?? "?"} → ${first.now ?? "?"}` : "guard not known", 24)));
    }
  });
  const svg = h("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${plural(entries.length, "cache entry", "cache entries")} over time; the table below has the same data` }, drawn);
  return cache.entries.length > entries.length ? [svg, h("p", { class: "dim" }, `The first ${entries.length} of ${number(cache.entries.length)} entries.`)] : svg;
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function groupCard(group) {
  const cause = group.cause;
  return h("article", { class: "card" },
    h("h3", {}, h("code", {}, cause.subject), `: ${kindName(cause.kind)} `, badge(group.expected ? "expected" : "not expected", group.expected ? "good" : "warn")),
    h("p", { class: "dim" }, `${plural(group.compilations.length, "compilation")} of `, lineLink(group.file, group.line, group.function), ` · ${seconds(group.seconds)} of compile time`, cause.file ? [" · specialized at ", lineLink(cause.file, cause.line)] : ""),
    h("p", {}, `Values: ${group.values.slice(0, 12).join(", ")}${group.values.length > 12 ? `, and ${group.values.length - 12} more` : ""}`),
    h("p", {}, prose(cause.reason)),
    cause.fix ? h("p", {}, h("strong", {}, "Fix: "), prose(cause.fix)) : null,
    group.why ? h("p", { class: "dim" }, `${{ settles: "No more recompilations expected", diverges: "Recompiles for every new value" }[group.outlook] || group.outlook}: ${group.why}`) : null,
    cause.advice && (cause.advice.before || cause.advice.after) ? h("details", {}, h("summary", {}, "Example"), change(cause.advice.before, cause.advice.after)) : null);
}
