// Finds the origin and the results of a line, node, kernel or instruction in the JSON reports.

const TRACED = new Set(["dynamo", "before_pre_grad", "pre_grad"]);
const isTraced = (stage) => TRACED.has(stage.replace(/_\d+$/, ""));
const isBackward = (stage) => stage.includes("backward");
const placeOf = (each) => (each.file && each.line ? `${each.file}:${each.line}` : "");
const keyOf = (kernel) => `${kernel.graph} ${kernel.stage} ${kernel.name}`;

function flat(graph) {
  if (!graph) return [];
  return [...graph.nodes.map((node) => ({ ...node, graph: graph.name })), ...graph.graphs.flatMap(flat)];
}

function grouped(groups, key, value) {
  const known = groups.get(key);
  if (known) known.push(value);
  else groups.set(key, [value]);
}

class Links {
  // kernels: those of one graph, as `kernels --source --json` has them. Stages are added when they are needed.
  // files: those whose source the run has; nodes of other files are a library's, which some line of the user calls.
  constructor(graph, kernels, files = {}) {
    this.graph = graph;
    this.files = files;
    this.kernels = new Map(kernels.filter((each) => each.graph === graph).map((each) => [keyOf(each), each]));
    this.stages = new Map();
    this.byPlace = new Map();
    this.byName = new Map();
  }

  add(label, nodes) {
    const places = new Map();
    const names = new Map();
    nodes.forEach((node, at) => {
      const place = placeOf(node);
      if (place) grouped(places, place, at);
      if (!names.has(node.name)) names.set(node.name, at);
    });
    this.stages.set(label, nodes);
    this.byPlace.set(label, places);
    this.byName.set(label, names);
  }

  // The nodes of another stage that correspond to some nodes: same name and op, else same line.
  // The line alone does not show which backward node corresponds to which forward node.
  counterparts(stage, indices, other) {
    if (stage === other) return new Set(indices);
    const [here, there] = [this.stages.get(stage), this.stages.get(other)];
    const isLowering = isTraced(stage) !== isTraced(other);
    const byLine = isLowering || !(isBackward(stage) || isBackward(other));
    const found = new Set();
    for (const at of indices) {
      const node = here[at];
      const twin = isLowering ? undefined : this.byName.get(other).get(node.name);
      if (twin !== undefined && there[twin].op === node.op) found.add(twin);
      else if (byLine) for (const each of this.byPlace.get(other).get(placeOf(node)) || []) found.add(each);
    }
    return found;
  }

  statementsAt(kernel, places) {
    return new Set(kernel.statements.filter((each) => each.lines.some((line) => places.has(line))).map((each) => each.line));
  }

  // Everything that a selection is linked to: places, nodes by stage, kernels, and lines of their source.
  of(selection) {
    const [kind, ...parts] = selection.split("~");
    const empty = { places: new Set(), nodes: new Map(), kernels: new Set(), lines: new Map() };
    if (kind === "line") return this.ofLine(parts[0]);
    if (kind === "node") return this.ofNode(parts[0], parts[1]) || empty;
    if (kind === "kernel") return this.ofKernel(parts[0]) || empty;
    if (kind === "source") return this.ofSource(parts[0], Number(parts[1])) || empty;
    return empty;
  }

  isForeign(node) {
    return !(node.file && node.file in this.files);
  }

  // Nodes of a library have no line of the user: they belong to the one line of the kernel that computes them.
  callersOf(kernels) {
    const lines = new Set(kernels.flatMap((each) => (each.graph_nodes ? each.lines : [])));
    return lines.size === 1 ? lines : new Set();
  }

  addForeign(place, nodes) {
    for (const kernel of this.kernels.values()) {
      const of = kernel.graph_nodes;
      if (!of || !this.stages.has(of.stage) || kernel.lines.length !== 1 || kernel.lines[0] !== place) continue;
      const here = this.stages.get(of.stage);
      const mine = of.names.map((name) => this.byName.get(of.stage).get(name)).filter((at) => at !== undefined && this.isForeign(here[at]));
      for (const label of this.stages.keys()) for (const at of this.counterparts(of.stage, mine, label)) nodes.get(label).add(at);
    }
  }

  ofLine(place) {
    const places = new Set([place]);
    const nodes = new Map([...this.byPlace].map(([label, known]) => [label, new Set(known.get(place) || [])]));
    this.addForeign(place, nodes);
    const lines = new Map();
    for (const [key, kernel] of this.kernels) {
      const statements = this.statementsAt(kernel, places);
      if (statements.size || kernel.lines.includes(place)) lines.set(key, statements);
    }
    return { places, nodes, kernels: new Set(lines.keys()), lines };
  }

  ofNode(stage, name) {
    const at = this.byName.get(stage)?.get(name);
    if (at === undefined) return null;
    const place = placeOf(this.stages.get(stage)[at]);
    const places = new Set(place ? [place] : []);
    const nodes = new Map([...this.stages.keys()].map((label) => [label, this.counterparts(stage, [at], label)]));
    const lines = new Map();
    const computing = [...this.kernels.values()].filter((each) => each.graph_nodes && this.stages.has(each.graph_nodes.stage) && each.graph_nodes.names.some((one) => nodes.get(each.graph_nodes.stage).has(this.byName.get(each.graph_nodes.stage).get(one))));
    if (this.isForeign(this.stages.get(stage)[at])) for (const each of this.callersOf(computing)) places.add(each);
    for (const [key, kernel] of this.kernels) {
      const of = kernel.graph_nodes;
      const mine = of && this.stages.has(of.stage) ? of.names.some((each) => nodes.get(of.stage).has(this.byName.get(of.stage).get(each))) : kernel.lines.includes(place);
      if (mine) lines.set(key, this.statementsAt(kernel, places));
    }
    return { places, nodes, kernels: new Set(lines.keys()), lines };
  }

  ofKernel(key) {
    const kernel = this.kernels.get(key);
    if (!kernel) return null;
    const lines = new Map([[key, new Set(kernel.statements.map((each) => each.line))]]);
    return { places: new Set([...kernel.lines, ...kernel.statements.flatMap((each) => each.lines)]), nodes: this.nodesOf(kernel, null), kernels: new Set([key]), lines };
  }

  ofSource(key, line) {
    const kernel = this.kernels.get(key);
    if (!kernel) return null;
    const places = new Set(kernel.statements.filter((each) => each.line === line).flatMap((each) => each.lines));
    return { places, nodes: this.nodesOf(kernel, places), kernels: new Set([key]), lines: new Map([[key, new Set([line])]]) };
  }

  // The nodes of a kernel at every stage; if places are given, only theirs.
  nodesOf(kernel, places) {
    const of = kernel.graph_nodes;
    const nodes = new Map();
    if (!of || !this.stages.has(of.stage)) {
      for (const [label, known] of this.byPlace) nodes.set(label, new Set([...(places || kernel.lines)].flatMap((place) => known.get(place) || [])));
      return nodes;
    }
    const names = of.names.map((name) => this.byName.get(of.stage).get(name)).filter((at) => at !== undefined);
    const here = this.stages.get(of.stage);
    const isCaller = kernel.lines.length === 1 && places?.has(kernel.lines[0]);
    const chosen = places ? names.filter((at) => places.has(placeOf(here[at])) || (isCaller && this.isForeign(here[at]))) : names;
    for (const label of this.stages.keys()) nodes.set(label, this.counterparts(of.stage, chosen, label));
    return nodes;
  }
}
