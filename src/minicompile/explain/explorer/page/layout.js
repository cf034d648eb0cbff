// Which columns are open, how wide each is, and the separators with which the reader changes that.

// Open at first, as many as the window has room for: of one capture, and of two.
const OPEN_FIRST = [["source", "code", "aten", "ir_after", "groups", "dynamo", "sass"], ["code", "source", "aten", "groups"]];
const NARROWEST = 320, STRIP = 32, STACK = 100; // pixels: an open column that can be read, a closed one, several closed ones piled up
const PILED = 3; // as many neighbours that are closed are piled up
const LEAST = 120, STEP = 0.05; // pixels that a pane keeps; the part of two panes' width that an arrow key moves

/** A separator between two things: `read` gives the first one's part of both, `write` sets it, `reset` forgets it. */
function separator(vertical, label, read, write, reset) {
  const element = h("div", { class: `separator ${vertical ? "vertical" : "horizontal"}`, role: "separator", tabindex: 0, "aria-orientation": vertical ? "vertical" : "horizontal", "aria-valuemin": 0, "aria-valuemax": 100, "aria-label": label, title: say("bar.separator", { label }) });
  const tell = () => element.setAttribute("aria-valuenow", Math.round(100 * read().part));
  const set = (part) => { write(part); tell(); };
  const [less, more] = vertical ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
  element.addEventListener("keydown", (event) => {
    const { part } = read();
    const wanted = { [less]: part - STEP, [more]: part + STEP, Home: 0, End: 1 }[event.key];
    if (wanted !== undefined) set(wanted);
    else if (event.key === "Enter") { reset(); tell(); } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  element.addEventListener("pointerdown", (event) => {
    element.setPointerCapture(event.pointerId);
    event.preventDefault();
    const { part, pixels } = read(), from = vertical ? event.clientX : event.clientY;
    element.onpointermove = (moved) => set(part + ((vertical ? moved.clientX : moved.clientY) - from) / pixels);
  });
  for (const end of ["pointerup", "pointercancel"]) element.addEventListener(end, () => { element.onpointermove = null; });
  element.addEventListener("dblclick", () => { reset(); tell(); });
  element.tell = tell;
  return element;
}

class Layout {
  constructor(app) {
    Object.assign(this, { app, columns: app.columns, used: 0 });
    const open = OPEN_FIRST[app.captures.length - 1].flatMap((kind) => this.columns.filter((column) => column.kind === kind));
    for (const column of open.slice(0, this.room())) column.open = true;
    addEventListener("resize", () => { if (this.makeRoom()) this.show(); });
    this.whySeparator();
  }

  get opened() { return this.columns.filter((column) => column.open && column.view.panes?.length); }

  /** How many columns can be open beside the strips of the others. */
  room() {
    const all = this.columns.filter((column) => column.view.panes?.length !== 0).length;
    const fits = (open) => open * NARROWEST + Math.min((all - open) * STRIP, 4 * STACK) <= innerWidth;
    return [6, 5, 4, 3].find(fits) ?? (innerWidth < 2 * NARROWEST ? 1 : 2); // a phone shows one
  }

  /** Close the columns that there is no room for, those used longest ago first; the source and the chosen line stay if they can. */
  makeRoom(kept = null) {
    const chosen = this.app.chosen?.view.column, open = this.opened.filter((each) => each !== kept).sort((a, b) => a.used - b.used);
    const order = [...open.filter((each) => each !== chosen && each.kind !== "source"), ...open.filter((each) => each !== chosen && each.kind === "source"), ...open.filter((each) => each === chosen)];
    const closing = order.slice(0, Math.max(0, this.opened.length - this.room()));
    for (const column of closing) column.open = false;
    return closing.length > 0;
  }

  /** Put the columns into the page: open ones as panes with separators between them, the others as strips. */
  show() {
    const places = this.columns.map(({ view }) => [view.scroller.scrollTop, view.scroller.scrollLeft]);
    const runs = []; // neighbours, all open or all closed
    for (const column of this.columns.filter((each) => each.view.panes?.length)) {
      if (runs.at(-1)?.[0].open === column.open) runs.at(-1).push(column);
      else runs.push([column]);
    }
    let before = null; // the open pane to the left, whatever strips are between
    document.getElementById("columns").replaceChildren(...runs.flatMap((run) => {
      if (!run[0].open) {
        const strips = run.map((column) => column.view.strip);
        return strips.length >= PILED ? [h("div", { class: "pile" }, ...strips)] : strips;
      }
      return run.flatMap((column) => {
        const between = before ? [this.between(before, column)] : [];
        before = column;
        column.view.element.style.flexGrow = column.share ?? "";
        return [...between, column.view.element];
      });
    }));
    this.columns.forEach(({ open, view }, index) => {
      if (!open) return;
      [view.scroller.scrollTop, view.scroller.scrollLeft] = places[index];
      view.measure();
    });
    for (const each of document.querySelectorAll(".separator")) each.tell();
  }

  between(left, right) {
    const [first, second] = [left, right].map((column) => column.view.element);
    const grown = (element) => Number(getComputedStyle(element).flexGrow);
    const read = () => { const pixels = first.offsetWidth + second.offsetWidth; return { part: first.offsetWidth / (pixels || 1), pixels }; };
    const write = (part) => {
      const { pixels } = read(), both = grown(first) + grown(second), least = Math.min(0.5, LEAST / pixels);
      left.share = both * Math.min(1 - least, Math.max(least, part));
      right.share = both - left.share;
      first.style.flexGrow = left.share;
      second.style.flexGrow = right.share;
    };
    const reset = () => { for (const column of [left, right]) { column.share = undefined; column.view.element.style.flexGrow = ""; } };
    return separator(true, say("bar.widths", { left: left.title, right: right.title }), read, write, reset);
  }

  whySeparator() {
    const why = document.getElementById("why"), root = document.documentElement;
    const read = () => ({ part: 1 - why.offsetHeight / innerHeight, pixels: innerHeight });
    const write = (part) => root.style.setProperty("--why-height", `${Math.round(100 * Math.min(0.85, Math.max(0.08, 1 - part)))}vh`);
    why.before(separator(false, say("bar.height"), read, write, () => root.style.removeProperty("--why-height")));
  }

  /** Open a column; where there is no room, others close. */
  open(column, focus = false) {
    this.use(column);
    if (!column.open) {
      column.open = true;
      this.makeRoom(column);
      this.show();
      column.view.relight();
      column.view.reveal();
    }
    if (focus) column.view.scroller.focus();
  }

  close(column) {
    column.open = false;
    this.show();
    column.view.strip.focus();
  }

  use(column) { column.used = ++this.used; }
}
