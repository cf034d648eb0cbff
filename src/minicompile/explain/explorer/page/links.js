// The data of the page and the walk between lines. The rules are those of minicompile.explain.explorer.links.

const KINDS = ["source", "bytecode", "dynamo", "joint", "aten", "ir_before", "ir_after", "groups", "code", "ttir", "ttgir", "llir", "ptx", "sass", "asm"];
const WHOLES = ["ir_before", "ir_after", "groups"]; // panes whose lines stand for wholes; only from these a walk enters a body
const FINEST_SHARED = ["joint", "dynamo", "source"]; // where two captures of one model can be compared, the finest first

const MAKES = (kind) => kind !== "caller" && kind !== "break"; // links from a line to what was made from it

/** Read the embedded data; gzip is undone by the browser. */
async function readData() {
  const element = document.getElementById("data");
  if (element.dataset.encoding === "text") return JSON.parse(element.textContent);
  const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

/** One capture: its panes by id, and which lines lead to which. A line is written `pane:number`. */
class Capture {
  constructor(data, position) {
    Object.assign(this, data);
    this.position = position;
    this.paneById = new Map(this.panes.map((pane) => [pane.id, pane]));
    this.graphById = new Map(this.graphs.map((graph) => [graph.id, graph]));
    this.layers = new Layers(this);
    this.breaks = breaksOf(this);
    this.sourcesOf = new Map();
  }

  /** Which lines lead from and to each line; made when it is first asked for, so that the page is there sooner. */
  get edges() {
    if (this.made) return this.made;
    const up = new Map(), down = new Map();
    const wholes = new Map(); // of a line inside a loop body or a kernel: what it is part of
    const names = new Map(this.panes.map((pane) => [pane.id, []])); // of each line, made once: a name is found faster the second time
    for (const { from, to, kind, pairs } of this.links) {
      const starts = names.get(from), ends = names.get(to);
      for (let i = 0; i < pairs.length; i += 2) {
        const start = (starts[pairs[i]] ??= `${from}:${pairs[i]}`), end = (ends[pairs[i + 1]] ??= `${to}:${pairs[i + 1]}`);
        if (kind !== "part") add(down, start, { line: end, kind });
        add(kind === "body" ? wholes : up, end, { line: start, kind });
      }
    }
    this.made = { up, down, wholes };
    return this.made;
  }

  kindOf(line) { return this.paneById.get(paneOf(line)).kind; }

  /** Lines reached from these over `edges`, over links to callers only where `callers` is set. */
  reach(starts, edges, callers) {
    const reached = new Set(), waiting = [...starts];
    const whole = starts.some((line) => WHOLES.includes(this.kindOf(line)));
    while (waiting.length) {
      for (const { line, kind } of edges.get(waiting.pop()) ?? []) {
        if (reached.has(line) || (kind === "caller" && !callers) || (kind === "body" && !whole)) continue;
        reached.add(line);
        waiting.push(line);
      }
    }
    return reached;
  }

  up(starts, callers = false) { return this.reach(starts, this.edges.up, callers); }
  down(starts, callers = false) { return this.reach(starts, this.edges.down, callers); }

  /** What the given lines are part of: the scheduler node's first line, its group, the call that runs it. */
  context(lines) {
    const context = new Set();
    for (const line of lines) {
      for (const { line: whole } of this.edges.wholes.get(line) ?? []) {
        context.add(whole);
        for (const { line: above } of this.edges.up.get(whole) ?? []) if (this.kindOf(above) === "ir_before") context.add(above);
        for (const { line: below, kind } of this.edges.down.get(whole) ?? []) {
          if (kind === "body") continue;
          context.add(below);
          for (const next of this.edges.down.get(below) ?? []) if (next.kind === "call") context.add(next.line);
        }
      }
    }
    return context;
  }

  /** A kernel's line that no operation is tied to: the calls of the kernel. */
  structure(line) {
    const pane = this.paneById.get(paneOf(line)), number = numberOf(line);
    if (pane.kind !== "code") return [];
    const graph = this.graphById.get(pane.graph);
    const kernel = graph.kernels.find((each) => each.first <= number && number <= each.last);
    if (!kernel) return [];
    const calls = graph.calls.filter((call) => call.kernel === kernel.name && call.line);
    return [...calls.map((call) => `${pane.id}:${call.line}`),
      ...calls.flatMap((call) => call.groups).map((index) => `${graph.panes.groups}:${graph.groups[index].line}`)];
  }

  /** The source lines that a line was made from, in order; of a source line, itself if anything was made from it. */
  sources(line) {
    const known = this.sourcesOf.get(line);
    if (known) return known;
    this.sourcesOf.set(line, []); // should links ever lead round
    const own = this.kindOf(line) === "source" && this.edges.down.get(line)?.some(({ kind }) => MAKES(kind)) ? [line] : [];
    const above = (this.edges.up.get(line) ?? []).filter(({ kind }) => MAKES(kind)).flatMap((edge) => this.sources(edge.line));
    const found = [...new Set([...own, ...above])].sort(inOrder);
    this.sourcesOf.set(line, found);
    return found;
  }

  /** How each line is lit when `starts` are chosen: exact, caller or context; `keeps` says which lines may be. */
  light(starts, keeps = () => true) {
    const up = new Set([...this.up(starts)].filter(keeps)), lit = new Map();
    const exact = new Set([...up, ...[...this.down(starts)].filter(keeps)]);
    const inside = (line) => ["ir_after", "code"].includes(this.kindOf(line));
    const inner = new Set([...starts, ...[...up].filter(inside), ...[...exact].filter((line) => this.kindOf(line) === "groups")]);
    for (const line of this.context(inner)) if (keeps(line)) lit.set(line, "context");
    for (const start of starts) if (!exact.size) for (const line of this.structure(start)) lit.set(line, "context");
    for (const line of [...this.up(starts, true), ...this.down(starts, true)]) if (keeps(line)) lit.set(line, "caller");
    for (const line of exact) lit.set(line, "exact");
    for (const graph of this.graphs) { // a kernel's first line stands for the whole of it
      for (const kernel of graph.kernels) if (lit.has(`${graph.panes.code}:${kernel.first}`)) lit.set(`${graph.panes.code}:${kernel.first}`, "context");
    }
    for (const line of starts) lit.delete(line);
    return lit;
  }
}

/** Lines of the other capture that stand for a chosen line: over the finest text that is the same in both. */
function acrossCaptures(line, capture, other) {
  const known = [line, ...capture.up([line])];
  for (const kind of FINEST_SHARED) {
    const lines = known.filter((each) => capture.kindOf(each) === kind && sameText(paneOf(each), capture, other));
    if (lines.length) return lines;
  }
  return [];
}

/** Whether a pane has the same text in two captures; each line is a position in one table for both. */
function sameText(id, capture, other) {
  const pane = capture.paneById.get(id), twin = other.paneById.get(id);
  if (!pane || !twin || pane.graph || pane.kind === "bytecode" || pane.lines.length !== twin.lines.length) return false;
  return pane.lines.every((text, index) => text === twin.lines[index]);
}

function add(map, key, value) { map.has(key) ? map.get(key).push(value) : map.set(key, [value]); }
function paneOf(line) { return line.slice(0, line.lastIndexOf(":")); }
function inOrder(a, b) { return paneOf(a) === paneOf(b) ? numberOf(a) - numberOf(b) : paneOf(a) < paneOf(b) ? -1 : 1; }
function numberOf(line) { return Number(line.slice(line.lastIndexOf(":") + 1)); }
