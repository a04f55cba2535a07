// Numbers: which line changed them, how the error travels, the steps of a training; only for a run that compared them.

const KIND_NAMES = { kernel: "kernel", external: "call of", pass: "", decomposition: "", graph: "" };
const errorText = (value) => (value === null || value === undefined ? "NaN or infinity" : value === 0 ? "0" : Number(value).toPrecision(2));

if (HEAD.numbers) {
  PAGES.push({
    name: "numbers",
    title: "Numbers",
    count: (data) => data.culprits?.length || 0,
    async render(root) {
      const data = await read("explain");
      const found = data.accuracy;
      put(root,
        h("h1", {}, "Numbers"),
        h("p", {}, { true: "Nothing is beyond rounding.", false: "Something is further off than rounding explains.", null: "Not everything was compared." }[String(found.equal)],
          h("span", { class: "dim" }, ` ${plural(found.compared, "stored result")} of ${plural(found.kernels, "kernel")} on ${found.device}, each on its real inputs, beside eager and float64.`)),
        data.culprits.length ? section("What is wrong", data.culprits.map(culpritCard)) : null,
        nonfinite(found.first_nonfinite),
        steps(found.steps || []),
        found.path.length ? section("How the error travels, against float64 from the graph's inputs on",
          table([{ title: "After" }, { title: "Line" }, { title: "Off by", kind: "n" }],
            found.path.map((each) => [h("code", {}, kernelName(each.name)), each.line ? placeLink(each.line) : "", errorText(each.error)]), { label: "The error after each kernel" })) : null,
        promises(found.promises),
        found.not_compared.length ? section("Not compared",
          table([{ title: "What" }, { title: "Why" }], found.not_compared.map((each) => [each.what, each.why]), { label: "What was not compared" })) : null);
    },
  });
}

const placeLink = (place) => lineLink(fileOf(place), lineOf(place));

function culpritCard(each) {
  const off = each.against === "eager" ? `differs from eager by ${errorText(each.error)}, and is no less exact` : `off by ${errorText(each.error)} where eager is off by ${errorText(each.eager_error)}`;
  return h("article", { class: "cause" },
    h("h3", {}, each.source ? h("code", {}, each.source) : each.ops.join(", ") || each.name, ` ${off}`),
    h("p", { class: "dim" }, each.file ? lineLink(each.file, each.line) : "line not known", each.ops.length ? ` · ${each.ops.join(", ")}` : "", each.dtype ? ` · ${each.dtype}` : "",
      ` · ${KIND_NAMES[each.kind] || ""} `, h("code", {}, kernelName(each.name)), ` · ${each.stage}`, each.scenario === "base" ? "" : ` · scenario ${each.scenario}`),
    each.reason ? h("p", {}, h("strong", {}, "Why: "), each.reason) : null,
    each.remedy ? h("p", {}, h("strong", {}, "Remedy: "), h("code", {}, each.remedy), ` leaves an error of ${errorText(each.remedy_error)}.`) : null);
}

function nonfinite(made) {
  if (!made) return null;
  return section("The first NaN or infinity",
    h("p", {}, made.file ? lineLink(made.file, made.line) : "line not known", `: ${made.op}, in kernel `, h("code", {}, kernelName(made.name)), ", from inputs without any."),
    h("p", { class: "dim" }, made.in_eager ? "Eager makes it as well, on the same inputs." : "Eager does not make it, on the same inputs."));
}

function promises(found) {
  const rows = [["The same call twice", found.run_to_run, found.run_to_run_broken_by], ["A row alone and in its batch", found.batch_invariant, null]].filter(([, holds]) => holds !== null);
  if (!rows.length) return null;
  return section("Bit for bit", table([{ title: "Promise" }, { title: "Result" }],
    rows.map(([what, holds, by]) => [what, holds ? "equal" : by ? ["other after ", h("code", {}, kernelName(by))] : "not equal"]), { label: "Promises" }));
}

// The loss of each step, eager and compiled, as two lines; a mark where they part.
function steps(found) {
  if (!found.length) return null;
  const parted = found.find((each) => each.parted);
  return section("Training steps",
    h("p", {}, parted ? `Step ${parted.step} is the first that parts beyond rounding${parted.parameter ? `, in ${parted.parameter}` : ""}.` : "No step parts beyond rounding."),
    lossPlot(found),
    table([{ title: "Step", kind: "n" }, { title: "Loss in eager", kind: "n" }, { title: "Loss compiled", kind: "n" }, { title: "Parts" }],
      found.map((each) => [number(each.step), lossText(each.loss_eager), lossText(each.loss_compiled), each.parted ? each.parameter || "yes" : ""]), { label: "Losses by step" }));
}

const lossText = (value) => (value === null || value === undefined ? "not finite" : Number(value).toPrecision(6));

function lossPlot(found) {
  const [width, height, pad] = [640, 200, 48];
  const isFinite = (value) => Number.isFinite(value ?? NaN);
  const values = found.flatMap((each) => [each.loss_eager, each.loss_compiled]).filter(isFinite);
  if (!values.length || found.length < 2) return null;
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (at) => pad + (at * (width - 2 * pad)) / (found.length - 1);
  const y = (value) => height - pad / 2 - ((value - low) * (height - pad)) / (high - low || 1);
  const line = (name, hue) => h("polyline", { class: `loss hue-${hue}`, points: found.map((each, at) => (isFinite(each[name]) ? `${x(at)},${y(each[name])}` : "")).filter(Boolean).join(" ") });
  const at = found.findIndex((each) => each.parted);
  return [
    h("p", { class: "legend" }, h("span", { class: "key hue-a" }, "Eager"), h("span", { class: "key hue-c" }, "Compiled")),
    h("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Loss by step, eager and compiled; the table below has the same data" },
      h("text", { x: 2, y: y(high) + 4, class: "axis" }, Number(high).toPrecision(3)), h("text", { x: 2, y: y(low), class: "axis" }, Number(low).toPrecision(3)),
      at >= 0 ? h("line", { class: "drop", x1: x(at), x2: x(at), y1: 8, y2: height - pad / 2 }) : null,
      line("loss_eager", "a"), line("loss_compiled", "c"))];
}
