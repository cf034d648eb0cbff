// The page: its columns and the chosen line. Search is in search.js, what the reader presses in keys.js.

class App {
  constructor(data) {
    this.texts = data.lines;
    this.classes = data.classes;
    this.widths = []; // of texts, as they are measured
    this.captures = data.captures.map((capture, position) => new Capture(capture, position));
    this.hues = huesOf(this.captures);
    this.states = this.captures.map(() => new Map());
    this.graph = this.captures[0].graphs[0];
    this.litByPane = this.captures.map(() => new Map());
    Object.assign(this, { chosen: null, pinned: false, focused: null, wrapped: false, coloured: true });
    this.search = new Search(this);
  }

  start(stops, questions, intrinsics) {
    this.columns = this.makeColumns();
    this.byId = new Map(this.columns.map((column) => [column.id, column]));
    this.targets();
    this.graphButtons();
    this.layers = new LayerChoice(this);
    this.intrinsics = new Intrinsics(this, intrinsics);
    this.layout = new Layout(this);
    this.offerPanes();
    this.tour = new Tour(this, stops, questions);
    listen(this);
    offerChoices(this);
    if (this.followAddress()) return;
    this.bringIntoView();
    this.lightFirst();
  }

  // -- columns ---------------------------------------------------------------------------------------------------

  /** A column for each kind of text and capture; one for both captures where their texts are the same. */
  makeColumns() {
    const columns = [], [first, second] = this.captures;
    for (const kind of KINDS) {
      for (const capture of this.captures) {
        const panes = capture.panes.filter((pane) => pane.kind === kind);
        if (!panes.length) continue;
        const twin = second && panes.every((pane) => sameText(pane.id, capture, capture === first ? second : first));
        if (twin && capture === second) continue;
        const side = second && !twin ? sideName(capture, this.captures) : "";
        const simulated = panes[0].graph && capture.target.simulated;
        const badge = simulated ? h("span", { class: "badge", title: capture.target.label }, say("bar.simulated_badge")) : null;
        const column = { id: `${kind}-${capture.position}`, kind, capture, shared: Boolean(twin), all: panes, title: side ? `${say(`kind.${kind}`)}, ${side}` : say(`kind.${kind}`), badge, open: false, used: 0 };
        column.view = new PaneView(column, this);
        columns.push(column);
      }
    }
    return columns;
  }

  /** Offer in each column the panes of the graph that is shown. */
  offerPanes() {
    for (const column of this.columns) {
      column.view.offer(column.all.filter((pane) => !pane.graph || pane.graph === this.graph.id));
    }
    this.layout.makeRoom();
    this.layout.show();
    this.relight();
  }

  /** Light where the tour starts, as pointing at it would: nothing is kept, and the focus stays where it is. */
  lightFirst() {
    const stop = this.tour.stops[0], column = stop && this.columnOf(this.captures[stop.capture], stop.pane);
    if (!column?.view.panes.some((pane) => pane.id === stop.pane)) return explain(this);
    column.view.show(stop.pane);
    column.view.cursor = stop.line;
    this.light(column.view, column.view.key(stop.line));
    column.view.scrollTo(stop.line);
    document.getElementById("why-summary").prepend(say("why.first"));
  }

  /** Scroll the open panes to what the tour shows in them. */
  bringIntoView() {
    for (const stop of this.tour.stops.toReversed()) {
      const { view, open } = this.columnOf(this.captures[stop.capture], stop.pane);
      if (!open || !view.panes.some((pane) => pane.id === stop.pane)) continue;
      view.show(stop.pane);
      view.scrollTo(stop.line);
    }
  }

  columnOf(capture, id) {
    return this.columns.find((column) => column.all.some((pane) => pane.id === id) && (column.shared || column.capture === capture));
  }

  /** Wrap long lines, or let them run out of sight. */
  wrap(on) {
    this.wrapped = on;
    for (const column of this.columns) if (column.open) column.view.measure();
  }

  /** Tint lines by the source lines that they were made from. */
  colour(on) {
    this.coloured = on;
    this.relight();
  }

  // -- what is chosen --------------------------------------------------------------------------------------------

  /** How a line is lit; a shared pane shows what either capture lights. */
  stateOf(capture, key, shared) {
    const states = shared ? this.states : [this.states[capture.position]];
    return states.map((state) => state.get(key)).find(Boolean) ?? null;
  }

  /** The source lines that a line was made from; of a shared pane, in either capture. */
  sourcesOf(capture, key, shared) {
    return shared ? [...new Set(this.captures.flatMap((each) => each.sources(key)))] : capture.sources(key);
  }

  /** The lit lines of a pane as [number, state], in order. */
  litLines(capture, id, shared) {
    if (!shared) return this.litByPane[capture.position].get(id) ?? [];
    const found = new Map(this.litByPane.flatMap((panes) => panes.get(id) ?? []).reverse());
    return [...found].sort((a, b) => a[0] - b[0]);
  }

  /** Light everything that belongs to a line, in both captures. */
  light(view, line) {
    const capture = view.capture;
    this.chosen = { view, capture, line };
    this.layers.loop = null;
    this.states = this.captures.map((each) => {
      if (each === capture) return this.layers.light(each, [line]);
      const starts = acrossCaptures(line, capture, each);
      const lit = this.layers.light(each, starts);
      for (const start of starts) lit.set(start, "exact");
      return lit;
    });
    this.states[capture.position].set(line, "chosen");
    if (view.column.shared) for (const state of this.states) state.set(line, "chosen");
    this.relight();
    for (const column of this.columns) if (column.view !== view && column.open) column.view.reveal();
    explain(this);
  }

  clear() {
    this.chosen = null;
    this.pinned = false;
    this.layers.loop = null;
    this.states = this.layers.states();
    this.relight();
    explain(this);
    history.replaceState(null, "", location.pathname + location.search);
  }

  /** Show anew what is lit. */
  relight() {
    this.litByPane = this.states.map((states) => {
      const panes = new Map();
      for (const [line, state] of states) add(panes, paneOf(line), [numberOf(line), state]);
      for (const lines of panes.values()) lines.sort((a, b) => a[0] - b[0]);
      return panes;
    });
    for (const column of this.columns) column.view.relight();
  }

  hover(view, number) {
    clearTimeout(this.waiting);
    if (this.pinned) return;
    this.waiting = setTimeout(() => {
      if (this.pinned) return;
      if (number) this.light(view, view.key(number));
      else if (this.chosen) this.clear();
    }, number ? 50 : 250);
  }

  /** Keep a line chosen; a second click on it lets go, unless it was reached by key. */
  pin(view, number, keep = false) {
    clearTimeout(this.waiting);
    const line = view.key(number);
    if (this.pinned && !keep && this.chosen?.line === line && this.chosen.view === view) return this.clear();
    this.pinned = true;
    this.layout.use(view.column);
    this.light(view, line);
    history.replaceState(null, "", `#${view.capture.position}/${line}`);
  }

  /** Choose a line wherever it is: switch the graph, open its column, bring it into view. */
  choose(capture, line) {
    const pane = capture.paneById.get(paneOf(line));
    if (pane.graph && pane.graph !== this.graph.id) this.showGraph(pane.graph);
    const column = this.columnOf(capture, pane.id);
    this.layout.open(column);
    column.view.show(pane.id);
    column.view.cursor = numberOf(line);
    this.pin(column.view, numberOf(line), true);
    column.view.scrollTo(numberOf(line));
    column.view.announceCursor();
  }

  point(view) { for (const column of this.columns) column.view.element.classList.toggle("pointed", column.view === view); }

  /** Show what the address names: a question, or a line; whether it names one. */
  followAddress() {
    const address = decodeURIComponent(location.hash), [, question] = address.match(/^#ask\/(\w+)$/) ?? [];
    if (question) return this.tour.ask(question);
    const [, position, line] = address.match(/^#(\d+)\/(.+:\d+)$/) ?? [];
    const capture = this.captures[position], pane = line && capture?.paneById.get(paneOf(line));
    if (!pane || numberOf(line) < 1 || numberOf(line) > pane.lines.length) return false;
    this.choose(capture, line);
    return true;
  }

  // -- the bar ---------------------------------------------------------------------------------------------------

  targets() {
    document.getElementById("targets").replaceChildren(...this.captures.map((capture) => h("span", { class: capture.target.simulated ? "target badge" : "target", title: capture.target.label },
      capture.target.simulated ? capture.target.label.replace(/^[^:]*: /, say("bar.simulated")) : capture.target.label)));
  }

  graphButtons() {
    const graphs = [...new Map(this.captures.flatMap((capture) => capture.graphs).map((graph) => [graph.id, graph])).values()];
    document.getElementById("graphs").replaceChildren(...graphSwitch(this, graphs));
    this.graphs = graphs;
  }

  showGraph(id) {
    if (id === this.graph.id) return;
    this.graph = this.graphs.find((graph) => graph.id === id);
    for (const button of document.querySelectorAll("#graphs button")) button.setAttribute("aria-pressed", button.dataset.graph === id);
    const choice = document.getElementById("graph");
    if (choice) choice.value = id;
    this.offerPanes();
    this.search.again();
    if (this.pinned && !this.chosen.capture.paneById.get(paneOf(this.chosen.line)).graph) return this.light(this.chosen.view, this.chosen.line);
    this.clear();
    this.bringIntoView();
  }

  nextGraph() {
    if (this.graphs.length > 1) this.showGraph(this.graphs[(this.graphs.findIndex((graph) => graph.id === this.graph.id) + 1) % this.graphs.length].id);
  }
}

/** The short name of a capture beside another: its language, or else its device, or else its place. */
function sideName(capture, captures) {
  const names = [(each) => (each.target.kind === "cpu" ? "C++" : "Triton"), (each) => each.target.device, (each) => say("bar.capture", { number: each.position + 1 })];
  const telling = names.find((name) => new Set(captures.map(name)).size === captures.length);
  return telling(capture);
}

let app; // for the tests and the curious

readData().then((data) => {
  app = new App(data);
  app.start(data.tour, data.questions, data.intrinsics);
  document.documentElement.dataset.ready = Math.round(performance.now()); // milliseconds since the page was asked for
}).catch((error) => {
  document.getElementById("columns").textContent = typeof DecompressionStream === "undefined"
    ? say("too_old")
    : say("unreadable", { reason: error.message });
  throw error;
});
