// The guided tour, and the questions that the capture answers; their stops come with the data.

class Tour {
  constructor(app, stops, questions) {
    Object.assign(this, { app, stops, questions, shown: stops, at: -1, element: document.getElementById("tour") });
    const on = (id, act) => document.getElementById(id).addEventListener("click", act);
    on("start-tour", () => this.go(0));
    on("start-questions", () => this.go(0, questions));
    on("tour-back", () => this.go(this.at - 1, this.shown));
    on("tour-next", () => (this.at + 1 < this.shown.length ? this.go(this.at + 1, this.shown) : this.end()));
    on("tour-end", () => this.end());
    document.getElementById("start-tour").hidden = !stops.length;
    document.getElementById("start-questions").hidden = !questions.length;
  }

  get running() { return !this.element.hidden; }

  /** Open at the question of that name, as an address does; whether there is one. */
  ask(name) {
    const at = this.questions.findIndex((question) => question.name === name);
    this.go(at, this.questions);
    return at >= 0;
  }

  go(at, shown = this.stops) {
    const stop = shown[at], asked = shown === this.questions;
    if (!stop) return;
    Object.assign(this, { at, shown });
    this.element.hidden = false;
    const capture = this.app.captures[stop.capture];
    this.app.choose(capture, `${stop.pane}:${stop.line}`);
    if (asked) history.replaceState(null, "", `#ask/${stop.name}`);
    this.element.querySelector("#tour-step").textContent = say(asked ? "stops.question" : "stops.step", { place: at + 1, count: shown.length });
    const title = this.element.querySelector("#tour-title"), coded = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));
    title.replaceChildren(...coded(stop.title));
    this.element.querySelector("#tour-text").replaceChildren(...coded(stop.text));
    document.getElementById("tour-back").disabled = at === 0;
    document.getElementById("tour-next").textContent = say(at + 1 < shown.length ? "stops.next" : "stops.finish");
    document.getElementById("tour-end").textContent = say(asked ? "stops.close" : "stops.end");
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
    document.getElementById(this.shown === this.questions ? "start-questions" : "start-tour").focus();
  }
}
