// What the search finds on the page of a run.

SEARCHED.push(async function* () {
  const explain = await read("explain");
  for (const each of explain.causes) yield ["cause", `${each.title} ${each.why}`, hashOf("summary")];
  const breaks = await read("breaks");
  for (const each of breaks.breaks) yield ["graph break", `${shortPlace(each.file, each.line)} ${each.gb.join(" ")} ${each.source} ${each.reason}`, hashOf("source")];
  for (const each of breaks.skipped) yield ["runs eagerly", `${each.function} ${shortPlace(each.file, each.line)} ${each.reason}`, hashOf("source")];
  for (const each of explain.recompiles) for (const cause of each.causes) yield ["recompilation", `${each.compilation} ${cause.subject} ${cause.kind} ${cause.was} → ${cause.now}`, hashOf("recompiles")];
  const kernels = ((await read("kernels"))?.parts || []).flatMap((part) => part.kernels);
  for (const each of kernels) yield ["kernel", `${each.name} ${each.ops.join(" ")}`, hashOf("code", { g: each.graph, k: keyOf(each), sel: `kernel~${keyOf(each)}` })];
  const { files } = (await read("sources")) || { files: {} };
  for (const [file, text] of Object.entries(files)) {
    let line = 0;
    for (const code of text.split("\n")) { line += 1; yield ["source", `${shortFile(file)}:${line} ${code.trim()}`, hashOf("code", { f: file, sel: `line~${file}:${line}` })]; }
  }
  for (const name of named("stage ")) {
    const [, graph, stage] = name.split(" ");
    for (const node of flat((await read(name)).graph)) yield ["node", `${node.name} = ${node.op}(${node.args})  ${graph} ${stage}`, hashOf("code", { g: graph, st: stage, sel: `node~${stage}~${node.name}` })];
  }
  for (const each of kernels) {
    let line = 0;
    for (const code of (each.source || "").split("\n")) { line += 1; if (code) yield ["kernel source", `${code.trim()}  ${each.name}:${line}`, hashOf("code", { g: each.graph, k: keyOf(each), sel: `source~${keyOf(each)}~${line}` })]; }
  }
  for (const name of named("guards ")) for (const guard of (await read(name)).compilations[0].guards) yield ["guard", `${guard.kind} ${guard.name} ${guard.code}`, hashOf("guards", { c: name.slice(7) })];
  for (const name of named("ir ")) {
    for (const code of (await read(name)).code) {
      const lines = new Map(code.source_lines);
      let at = 0;
      for (const text of (code.text || "").split("\n")) { at += 1; if (lines.has(at)) yield [code.ir, `${text.trim()}  ${code.kernel}`, hashOf("code", { g: code.graph, k: keyOf({ graph: code.graph, stage: code.stage, name: code.kernel }), ir: code.ir, h: code.hash, at, sel: `source~${code.graph} ${code.stage} ${code.kernel}~${lines.get(at)}` })]; }
    }
  }
});
