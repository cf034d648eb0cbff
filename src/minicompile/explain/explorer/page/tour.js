// The guided tour; its stops come with the data.

class Tour {
  constructor(app, stops) {
    Object.assign(this, { app, stops, at: -1, element: document.getElementById("tour") });
    const on = (id, act) => document.getElementById(id).addEventListener("click", act);
    on("start-tour", () => this.go(0));
    on("tour-back", () => this.go(this.at - 1));
    on("tour-next", () => (this.at + 1 < stops.length ? this.go(this.at + 1) : this.end()));
    on("tour-end", () => this.end());
    document.getElementById("start-tour").hidden = !stops.length;
  }

  get running() { return !this.element.hidden; }

  go(at) {
    const stop = this.stops[at];
    if (!stop) return;
    this.at = at;
    this.element.hidden = false;
    const capture = this.app.captures[stop.capture];
    this.app.choose(capture, `${stop.pane}:${stop.line}`);
    this.element.querySelector("#tour-step").textContent = say("stops.step", { place: at + 1, count: this.stops.length });
    const title = this.element.querySelector("#tour-title");
    title.textContent = stop.title;
    this.element.querySelector("#tour-text").replaceChildren(...stop.text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part)));
    document.getElementById("tour-back").disabled = at === 0;
    document.getElementById("tour-next").textContent = say(at + 1 < this.stops.length ? "stops.next" : "stops.finish");
    const { view } = this.app.columnOf(capture, stop.shows);
    this.app.layout.open(view.column);
    view.show(stop.shows);
    if (view !== this.app.chosen.view) view.reveal();
    this.app.point(view);
    title.focus({ preventScroll: true });
  }

  end() {
    this.element.hidden = true;
    this.app.point(null);
    document.getElementById("start-tour").focus();
  }
}
