// Kernels: the roofline of the target GPU, the bytes they move, and a table.

const HUES = { triton: "a", cpp: "b", external: "c" };
const LANGUAGES = { triton: "Triton", cpp: "C++", external: "library" };

PAGES.push({
  name: "kernels",
  title: "Kernels",
  count: (data) => data.kernels.length,
  async render(root) {
    const data = await read("kernels");
    const kernels = data.parts.flatMap((part) => part.kernels);
    put(root, h("h1", {}, "Kernels"));
    if (!kernels.length) { put(root, empty("The run has no kernels.")); return; }
    const languages = [...new Set(kernels.map((each) => each.language))];
    put(root, h("p", { class: "legend" }, languages.map((each) => h("span", { class: `key hue-${HUES[each] || "d"}` }, LANGUAGES[each] || each))));
    put(root, h("div", { class: "columns even" }, section(hasRoof(data) ? "Roofline" : "FLOPs per byte moved", roofline(data, kernels)), section("Bytes moved", treemap(kernels))));
    const bounds = new Map(data.bounds.flatMap((part) => part.kernels.map((each) => [`${part.graph} ${part.stage} ${each.name}`, each])));
    const rows = [...kernels].sort((a, b) => bytesOf(b) - bytesOf(a)).map((each) => () => {
      const least = bounds.get(keyOf(each));
      return [h("a", { href: hashOf("code", { g: each.graph, k: keyOf(each), sel: `kernel~${keyOf(each)}` }) }, kernelName(each.name)), `${each.graph} ${each.stage}`, LANGUAGES[each.language] || each.language, number(each.calls),
        bytesOf(each) ? memory(bytesOf(each)) : "not known", each.flops === null ? "not known" : scaled(each.flops), each.intensity === null ? "" : each.intensity.toFixed(1), least ? `${seconds(least.least_seconds)} ${least.set_by.join(", ")}` : "",
        each.lines.slice(0, 3).map((line, at) => [at ? ", " : "", lineLink(fileOf(line), lineOf(line))])];
    });
    put(root, section("All kernels", table([{ title: "Kernel" }, { title: "Graph part" }, { title: "Kind" }, { title: "Calls", kind: "n" }, { title: "Bytes", kind: "n" }, { title: "FLOPs", kind: "n" }, { title: "FLOP/byte", kind: "n" }, { title: data.bounds.length ? "Lower bound" : "" }, { title: "Lines" }], rows, { label: "Kernels" }),
      h("p", { class: "dim" }, "Bytes and FLOPs are computed from the shapes, not measured.", data.bounds.length ? " A lower bound assumes the GPU's peak rates." : "")));
    if (data.timed.length) put(root, section("Measured", table([{ title: "Kernel" }, { title: "Time", kind: "n" }, { title: "Bound reached", kind: "n" }], data.timed.map((each) => [each.kernel, each.seconds === null ? each.not_measured || "not measured" : seconds(each.seconds), each.reached === null ? "not known" : `${Math.round(each.reached * 100)}%`]), { label: "Measured kernels" })));
  },
});

const bytesOf = (kernel) => (kernel.read === null || kernel.written === null ? 0 : kernel.read + kernel.written);

const gpuOf = (data) => data.gpu || data.target_gpu;
const hasRoof = (data) => Boolean(gpuOf(data)?.bandwidth && gpuOf(data).vector_rates?.float32);

// Performance over intensity, both logarithmic. A kernel lies on the roof of its GPU unless its time was measured.
function roofline(data, kernels) {
  const gpu = gpuOf(data);
  const points = kernels.filter((each) => each.intensity);
  if (!points.length) return empty("No kernel with known bytes and FLOPs.");
  if (!hasRoof(data)) return intensityChart(points);
  const peak = gpu.vector_rates.float32;
  const half = gpu.rates?.bfloat16 || 0;
  const top = Math.max(peak, half);
  const xs = points.map((each) => each.intensity);
  const ridge = peak / gpu.bandwidth;
  const [x0, x1] = [Math.floor(Math.log10(Math.min(0.1, ...xs))), Math.ceil(Math.log10(Math.max(ridge * 4, (half / gpu.bandwidth) * 2, ...xs)))];
  const [y0, y1] = [Math.floor(Math.log10(10 ** x0 * gpu.bandwidth)), Math.ceil(Math.log10(top * 1.5))];
  const [width, height, left, bottom] = [560, 340, 62, 40];
  const x = (value) => left + ((Math.log10(value) - x0) / (x1 - x0)) * (width - left - 14);
  const y = (value) => height - bottom - ((Math.log10(value) - y0) / (y1 - y0)) * (height - bottom - 14);
  const drawn = [];
  for (let at = x0; at <= x1; at += 1) drawn.push(h("line", { x1: x(10 ** at), x2: x(10 ** at), y1: y(10 ** y0), y2: y(10 ** y1), class: "grid" }), h("text", { x: x(10 ** at), y: height - bottom + 16, class: "axis mid" }, at < -2 || at > 3 ? `1e${at}` : String(10 ** at)));
  for (let at = y0; at <= y1; at += 1) drawn.push(h("line", { x1: x(10 ** x0), x2: x(10 ** x1), y1: y(10 ** at), y2: y(10 ** at), class: "grid" }), h("text", { x: left - 6, y: y(10 ** at) + 4, class: "axis end" }, scaled(10 ** at)));
  drawn.push(h("text", { x: (left + width) / 2, y: height - 6, class: "axis mid" }, "FLOP per byte"), h("text", { x: left + 4, y: 12, class: "axis" }, "FLOP/s"));
  const roofs = [["float32", peak, "roof"], ...(half > peak ? [["bfloat16", half, "roof soft"]] : [])];
  for (const [name, rate, kind] of roofs.reverse()) {
    drawn.push(h("path", { d: `M${x(10 ** x0)} ${y(10 ** x0 * gpu.bandwidth)}L${x(rate / gpu.bandwidth)} ${y(rate)}H${x(10 ** x1)}`, class: kind }, h("title", {}, `${scaled(gpu.bandwidth, "B/s")}, ${scaled(rate, "FLOP/s")} ${name}`)),
      h("text", { x: x(10 ** x1) - 4, y: y(rate) - 6, class: "axis end" }, `${name} ${scaled(rate, "FLOP/s")}`));
  }
  const measured = new Map(data.timed.filter((each) => each.seconds).map((each) => [`${each.graph} ${each.stage} ${each.kernel}`, each.seconds]));
  const least = new Map(data.bounds.flatMap((part) => part.kernels.map((each) => [`${part.graph} ${part.stage} ${each.name}`, each.least_seconds])));
  const most = Math.max(...points.map(bytesOf));
  for (const each of points) {
    const took = measured.get(keyOf(each));
    const bound = least.get(keyOf(each));
    const rate = took ? each.flops / each.calls / took : bound ? each.flops / bound : Math.min(peak, each.intensity * gpu.bandwidth);
    const title = `${kernelName(each.name)}\n${each.intensity.toFixed(1)} FLOP per byte, ${memory(bytesOf(each))}\n${took ? `${scaled(rate, "FLOP/s")} measured` : `at most ${scaled(rate, "FLOP/s")}, not measured`}`;
    drawn.push(chartLink(each, h("circle", { cx: x(each.intensity), cy: y(Math.max(rate, 10 ** y0)), r: 4 + 8 * Math.sqrt(bytesOf(each) / most), class: `point hue-${HUES[each.language] || "d"}` }, h("title", {}, title))));
  }
  return [h("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "group", "aria-label": `Roofline of ${gpu.title || gpu.name} with ${plural(points.length, "kernel")}; the table below has the same data` }, drawn),
    h("p", { class: "dim" }, `${gpu.title || gpu.name}. `, measured.size ? "Measured kernels lie below the roof." : "No times were measured: each kernel is drawn at the highest rate that it can reach.")];
}

// Without a GPU there is no roof, only the intensity of each kernel.
function intensityChart(points) {
  const shown = [...points].sort((a, b) => b.intensity - a.intensity).slice(0, 14);
  const most = Math.max(...shown.map((each) => each.intensity));
  return [h("div", { class: "bars" }, shown.map((each) => {
    const bar = h("span", { class: `bar hue-${HUES[each.language] || "d"}` });
    bar.style.width = `${Math.max(1, (100 * each.intensity) / most)}%`;
    return h("a", { class: "barrow", href: hashOf("code", { g: each.graph, sel: `kernel~${keyOf(each)}` }) }, h("span", { class: "label" }, kernelName(each.name)), h("span", { class: "track" }, bar), h("span", { class: "value" }, each.intensity.toFixed(1)));
  })), h("p", { class: "dim" }, "FLOP per byte. A roofline needs a GPU: capture the run with --target h100, or with --build on a GPU.")];
}

function chartLink(kernel, shape) {
  const open = () => go("code", { g: kernel.graph, k: keyOf(kernel), sel: `kernel~${keyOf(kernel)}` });
  return h("g", { class: "clickable", tabindex: "0", role: "link", "aria-label": `${kernelName(kernel.name)}, ${memory(bytesOf(kernel))}`, onclick: open, onkeydown: (event) => { if (event.key === "Enter") open(); } }, shape);
}

function treemap(kernels) {
  const known = kernels.filter(bytesOf).sort((a, b) => bytesOf(b) - bytesOf(a)).slice(0, 200);
  if (!known.length) return empty("No kernel has known bytes.");
  const [width, height] = [560, 340];
  const total = known.reduce((sum, each) => sum + bytesOf(each), 0);
  const drawn = squarified(known.map((each) => ({ each, area: (bytesOf(each) / total) * width * height })), 0, 0, width, height).map(({ each, x, y, w, hgt }) => {
    const label = kernelName(each.name);
    const fits = Math.floor((w - 12) / 7);
    return chartLink(each, [h("rect", { x: x + 1, y: y + 1, width: Math.max(0, w - 2), height: Math.max(0, hgt - 2), rx: 3, class: `tile-shape hue-${HUES[each.language] || "d"}` }, h("title", {}, `${each.name}\n${memory(bytesOf(each))} in ${plural(each.calls, "call")}\n${(100 * bytesOf(each) / total).toFixed(1)}%`)),
      fits > 5 && hgt > 22 ? h("text", { x: x + 7, y: y + 17, class: "tile-text" }, cut(label, fits)) : null,
      fits > 5 && hgt > 38 ? h("text", { x: x + 7, y: y + 33, class: "tile-text" }, memory(bytesOf(each))) : null].filter(Boolean));
  });
  const unknown = kernels.length - kernels.filter(bytesOf).length;
  return [h("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "group", "aria-label": "Bytes by kernel; the table below has the same data" }, drawn),
    h("p", { class: "dim" }, `${memory(total)} read and written in one call of each graph part, computed.`, unknown ? ` Not known for ${plural(unknown, "kernel")}.` : "")];
}

// Rows of near-square tiles: each row takes tiles as long as the worst aspect ratio improves.
function squarified(items, x, y, w, hgt) {
  const placed = [];
  let rest = [...items];
  while (rest.length) {
    const side = Math.min(w, hgt);
    const worst = (row) => { const sum = row.reduce((all, one) => all + one.area, 0); const length = sum / side; return Math.max(...row.map((one) => Math.max(length / (one.area / length), one.area / length / length))); };
    let row = [rest[0]];
    while (row.length < rest.length && worst([...row, rest[row.length]]) <= worst(row)) row = rest.slice(0, row.length + 1);
    const sum = row.reduce((all, one) => all + one.area, 0);
    const length = side ? sum / side : 0;
    let at = 0;
    for (const one of row) {
      const span = length ? one.area / length : 0;
      placed.push(w >= hgt ? { each: one.each, x, y: y + at, w: length, hgt: span } : { each: one.each, x: x + at, y, w: span, hgt: length });
      at += span;
    }
    if (w >= hgt) { x += length; w -= length; } else { y += length; hgt -= length; }
    rest = rest.slice(row.length);
  }
  return placed;
}
