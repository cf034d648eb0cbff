// The model's layers: the lines of one of them, and a line that runs once in each of several alike.

class Layers {
  constructor(capture) {
    this.capture = capture;
    this.kinds = Object.assign({}, ...capture.graphs.map((graph) => graph.layers ?? {})); // class by path
    this.lines = new Map();
  }

  /** ATen nodes in a layer or below it, as lines. */
  starts(path) {
    return this.capture.graphs.flatMap((graph) => graph.nodes.filter((node) => node.fate && within(node.layer, path)).map((node) => `${graph.panes.aten}:${node.line}`));
  }

  /** Every line of a layer: what its ATen nodes were made from and what was made from them. */
  of(path) {
    if (!this.lines.has(path)) {
      const starts = this.starts(path);
      this.lines.set(path, new Set([...starts, ...this.capture.up(starts), ...this.capture.down(starts)]));
    }
    return this.lines.get(path);
  }

  /** The alike layers that these lit lines run in, as blocks.0, blocks.1; null unless there are several of one class. */
  loop(lines) {
    const atWork = new Set();
    for (const graph of this.capture.graphs) {
      for (const node of graph.nodes) if (node.fate && node.layer && lines.has(`${graph.panes.aten}:${node.line}`)) atWork.add(node.layer);
    }
    const paths = [...atWork].map((path) => path.split("."));
    if (paths.length < 2) return null;
    const same = paths[0].findIndex((part, place) => paths.some((path) => path[place] !== part));
    if (same < 0 || !paths.every((path) => /^\d+$/.test(path[same] ?? ""))) return null;
    const names = [...new Set(paths.map((path) => path.slice(0, same + 1).join(".")))].sort((a, b) => Number(a.split(".")[same]) - Number(b.split(".")[same]));
    return new Set(names.map((name) => this.kinds[name])).size === 1 ? names : null;
  }

  /** Whether a lit line stays lit when only one layer of a loop is. */
  keeps(loop, chosen) {
    const others = loop.filter((path) => path !== chosen).map((path) => this.of(path)), own = this.of(chosen);
    return (line) => own.has(line) || !others.some((lines) => lines.has(line));
  }
}

/** Whether a layer is `path` or inside it. */
function within(layer, path) { return layer === path || Boolean(layer?.startsWith(`${path}.`)); }

/** Offer the layers as an indented list, and those of a loop beside the chosen line. */
class LayerChoice {
  constructor(app) {
    Object.assign(this, { app, path: null, all: false, picked: new Map(), loop: null });
    this.select = document.getElementById("layer");
    this.loopSelect = document.getElementById("loop");
    const kinds = Object.assign({}, ...app.captures.map((capture) => capture.layers.kinds));
    const paths = new Set(Object.keys(kinds).flatMap((path) => path.split(".").map((_, place, parts) => parts.slice(0, place + 1).join("."))));
    const natural = new Intl.Collator("en", { numeric: true });
    const sorted = [...paths].map((path) => path.split(".")).sort((a, b) => { for (let i = 0; ; i++) { if (a[i] === undefined || b[i] === undefined) return a.length - b.length; const order = natural.compare(a[i], b[i]); if (order) return order; } });
    this.select.append(h("option", { value: "" }, say("layer.every")), ...sorted.map((parts) => {
      const path = parts.join(".");
      return h("option", { value: path }, `${"\u00a0\u00a0".repeat(parts.length - 1)}${path}${kinds[path] ? ` (${kinds[path]})` : ""}`);
    }));
    this.select.hidden = !paths.size;
    this.select.addEventListener("change", () => this.choose(this.select.value || null));
    this.loopSelect.addEventListener("change", () => this.pick(this.loopSelect.value));
  }

  /** Light a layer, and dim what is outside it; null lights none. */
  choose(path) {
    this.path = path;
    this.select.value = path ?? "";
    this.app.clear();
    if (path) for (const column of this.app.columns) if (column.open) column.view.reveal();
  }

  states() {
    return this.app.captures.map((capture) => new Map(this.path ? [...capture.layers.of(this.path)].map((line) => [line, "exact"]) : []));
  }

  outside(capture, line, shared) {
    return Boolean(this.path) && !(shared ? this.app.captures : [capture]).some((each) => each.layers.of(this.path).has(line));
  }

  /** What a chosen line lights: in one layer of a loop, or in all of them where that was asked for. */
  light(capture, starts) {
    const lit = capture.light(starts);
    const loop = capture.layers.loop(new Set([...starts, ...[...lit].filter(([, state]) => state === "exact").map(([line]) => line)]));
    if (loop) this.loop = loop;
    if (!loop || this.all) return lit;
    return capture.light(starts, capture.layers.keeps(loop, this.oneOf(loop)));
  }

  /** The layer of a loop that is lit: the one last picked, the one that holds the chosen layer, or the first. */
  oneOf(loop) {
    return [this.picked.get(stemOf(loop)), loop.find((path) => within(this.path, path))].find((path) => path && loop.includes(path)) ?? loop[0];
  }

  pick(value) {
    this.all = value === "";
    if (value) this.picked.set(stemOf(this.loop), value);
    const { view, line } = this.app.chosen;
    this.app.light(view, line);
  }

  /** Say in how many layers the chosen line runs, and which of them is lit. */
  tell() {
    const { loop } = this;
    document.getElementById("loop-label").hidden = !loop;
    if (!loop) return;
    this.loopSelect.replaceChildren(...loop.map((path) => h("option", { value: path }, path)), h("option", { value: "" }, say("layer.all", { count: loop.length })));
    this.loopSelect.value = this.all ? "" : this.oneOf(loop);
  }
}

function stemOf(loop) { return loop[0].split(".").slice(0, -1).join("."); }
