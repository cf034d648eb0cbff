// Search: every line of the graph that is shown, in all its columns, that holds a text.

const MOST_HITS = 2000, HITS_SHOWN = 200;

class Search {
  constructor(app) {
    Object.assign(this, { app, query: "", hits: [], at: -1 });
  }

  /** Find a text, whatever its case, and list where it is. */
  find(text) {
    this.query = text.trim().toLowerCase();
    this.hits = [];
    this.at = -1;
    if (this.query) {
      const matching = this.app.texts.map((line) => line.toLowerCase().includes(this.query));
      for (const column of this.app.columns) for (const pane of column.view.panes) {
        pane.lines.forEach((line, index) => { if (matching[line] && this.hits.length < MOST_HITS) this.hits.push({ column, pane, number: index + 1 }); });
      }
    }
    this.say();
    document.getElementById("hits").replaceChildren(...this.hits.slice(0, HITS_SHOWN).map((hit, index) => h("li", {}, h("button", { type: "button", onclick: () => this.goTo(index) },
      h("b", {}, `${hit.column.title} ${hit.number}`), " ", this.app.texts[hit.pane.lines[hit.number - 1]].trim().slice(0, 160)))));
    document.getElementById("hits").hidden = !this.hits.length;
    for (const column of this.app.columns) if (column.open) column.view.render(true);
  }

  /** Find the same text in another graph. */
  again() { if (this.query) this.find(this.query); }

  /** Say how many lines were found, and which one of them is chosen. */
  say() {
    const found = this.hits.length === MOST_HITS ? `${MOST_HITS}+` : this.hits.length;
    document.getElementById("found").textContent = !this.query ? "" : this.at < 0 ? say("search.found", { count: String(found) }) : say("search.at", { place: String(this.at + 1), count: String(found) });
  }

  /** Choose the line that was found at a place, counted round and round. */
  goTo(place) {
    if (!this.hits.length) return;
    this.at = (place + this.hits.length) % this.hits.length;
    const { column, pane, number } = this.hits[this.at];
    document.getElementById("hits").hidden = true;
    this.app.choose(column.capture, `${pane.id}:${number}`);
    this.say();
  }
}
