// One pane: a list of lines of which only those in view are in the document, so that 30,000 lines cost what 60 do.

const MARGIN = 12; // characters beside a line's text: its number and a little room
const MACHINE = ["ttir", "ttgir", "llir", "ptx", "sass", "asm"]; // kinds of text of which each kernel has its own, named last in the title
const SPARE = 12; // lines kept above and below the view
const FATE_LETTERS = { materialised: "M", "extern call": "X", "inner graph": "G", inlined: "I", "fused away": "F", view: "V", part: "P", folded: "–" };

/** A small maker of elements: h("p", {class: "note"}, "text", child). Text is never read as HTML. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** `text` cut into [part, class, found] by its token classes, as k3x1f4, and by where `query` stands in it. */
function parts(text, classes, query) {
  const found = [];
  const lower = text.toLowerCase();
  for (let at = query ? lower.indexOf(query) : -1; at >= 0; at = lower.indexOf(query, at + query.length)) found.push([at, at + query.length]);
  const cut = [];
  let start = 0;
  const take = (end, kind) => {
    while (start < end) {
      const mark = found.find(([, last]) => last > start);
      const inside = mark && mark[0] <= start;
      const stop = Math.min(end, mark ? (inside ? mark[1] : mark[0]) : end);
      cut.push([text.slice(start, stop), kind, Boolean(inside)]);
      start = stop;
    }
  };
  for (const [, kind, length] of classes.matchAll(/([a-z])(\d+)/g)) take(start + Number(length), kind);
  take(text.length, "x");
  return cut;
}

class PaneView {
  /** column: {kind, title, capture, panes}; app: see main.js. */
  constructor(column, app) {
    Object.assign(this, { column, app, capture: column.capture, pane: null, cursor: 1, first: 0, shown: [], lit: [] });
    this.choice = h("select", { "aria-label": say("pane.which", column), onchange: () => this.show(this.choice.value) });
    this.count = h("span", { class: "count" });
    this.heading = h("h2", {}, column.title);
    this.head = h("header", {}, h("div", { class: "name" }, this.heading, column.badge, this.choice), this.count,
      h("button", { type: "button", class: "step", title: say("pane.previous"), "aria-label": say("pane.previous_in", column), tabindex: -1, onclick: () => this.stepLit(-1) }, "↑"),
      h("button", { type: "button", class: "step", title: say("pane.next"), "aria-label": say("pane.next_in", column), tabindex: -1, onclick: () => this.stepLit(1) }, "↓"),
      h("button", { type: "button", class: "close", title: say("pane.close"), "aria-label": say("pane.close_it", column), onclick: () => app.layout.close(column) }, "×"));
    this.space = h("div", { class: "space" });
    this.scroller = h("div", { class: "scroller", role: "listbox", tabindex: 0, "aria-label": column.title }, this.space);
    this.marks = h("div", { class: "marks", "aria-hidden": "true" });
    this.element = h("section", { class: `pane ${column.kind}`, "aria-label": column.title }, this.head, h("div", { class: "view" }, this.scroller, this.marks));
    this.stripCount = h("span", { class: "count" });
    this.strip = h("button", { type: "button", class: "strip", title: say("pane.open_it", column), onclick: () => app.layout.open(column, true) },
      h("span", {}, column.title), this.stripCount);
    this.scroller.addEventListener("scroll", () => this.render(), { passive: true });
    this.scroller.addEventListener("click", (event) => { const line = this.at(event); if (line) { this.cursor = line; app.pin(this, line); this.announceCursor(); } });
    this.scroller.addEventListener("pointermove", (event) => { if (event.pointerType !== "mouse") return; const line = this.at(event); app.hover(this, line); app.intrinsics.follow(this, event, line); });
    this.scroller.addEventListener("pointerleave", () => { app.hover(this, null); app.intrinsics.leave(); });
    this.scroller.addEventListener("focus", () => { app.focused = this; this.announceCursor(); });
    new ResizeObserver(() => (app.wrapped ? this.measure() : this.render())).observe(this.scroller);
  }

  /** Offer these panes, of which one is shown. */
  offer(panes) {
    this.panes = panes;
    this.choice.replaceChildren(...panes.map((pane) => h("option", { value: pane.id }, MACHINE.includes(pane.kind) ? pane.title.split(" ").at(-1) : pane.title)));
    this.choice.hidden = panes.length < 2;
    this.show(panes.some((pane) => pane === this.pane) ? this.pane.id : panes[0]?.id);
  }

  show(id) {
    const pane = this.panes.find((each) => each.id === id);
    if (!pane || pane === this.pane) return;
    this.pane = pane;
    this.choice.value = id;
    this.heading.title = pane.title;
    this.cursor = 1;
    this.fates = new Map();
    if (pane.kind === "aten") for (const node of this.capture.graphById.get(pane.graph).nodes) if (node.fate) this.fates.set(node.line, node.part_of ? "part" : node.fate);
    this.widths = this.rows = null;
    this.measure();
    this.scroller.scrollTop = this.scroller.scrollLeft = 0;
    this.relight();
  }

  /** Lay the lines out anew, for the pane's width where they wrap; the line at the top stays there. */
  measure() {
    if (!this.pane || !this.column.open) return;
    this.widths ??= this.pane.lines.map((text) => (this.app.widths[text] ??= width(this.app.texts[text])));
    const style = getComputedStyle(this.scroller), height = parseFloat(style.lineHeight) || 18;
    const ch = (this.ch = this.characterWidth(style)), gutter = (this.pane.kind === "aten" ? 8 : 6) * ch + 6;
    const wraps = this.app.wrapped && this.scroller.clientWidth > 0;
    const across = wraps ? Math.max(8, Math.floor((this.scroller.clientWidth - gutter - 6) / ch)) : Infinity;
    Object.assign(this, { gutter, across });
    const at = this.rows?.at(this.scroller.scrollTop + 1);
    this.rows = new Rows(this.widths, across, height);
    this.columns = this.widths.reduce((most, wide) => Math.max(most, wide), 0) + MARGIN;
    this.element.classList.toggle("wrapped", wraps);
    this.space.style.height = `${this.rows.top(this.rows.count + 1) + 8}px`;
    this.space.style.width = wraps ? `${gutter + across * ch + 0.5}px` : `${this.columns}ch`;
    if (wraps !== this.wraps && at) this.scroller.scrollTop = this.rows.top(Math.min(at, this.rows.count));
    this.wraps = wraps;
    this.render(true);
  }

  characterWidth(style) {
    const brush = PaneView.brush ??= document.createElement("canvas").getContext("2d");
    brush.font = `${style.fontSize} ${style.fontFamily}`;
    return brush.measureText("0".repeat(100)).width / 100 || 7;
  }

  at(event) {
    const line = this.rows.at(event.clientY - this.space.getBoundingClientRect().top);
    return line >= 1 && line <= this.pane.lines.length ? line : null;
  }

  /** The character of a line that an event is on, from 0. */
  columnAt(event, number) {
    const box = this.space.getBoundingClientRect(), row = Math.floor((event.clientY - box.top - this.rows.top(number)) / this.rows.height);
    return Math.floor((event.clientX - box.left - this.gutter) / this.ch) + (this.wraps ? row * this.across : 0);
  }

  /** Where a character of a line is in the window. */
  placeOf(number, character) {
    const box = this.space.getBoundingClientRect(), row = this.wraps ? Math.floor(character / this.across) : 0;
    const top = box.top + this.rows.top(number) + row * this.rows.height, column = this.wraps ? character % this.across : character;
    return { left: box.left + this.gutter + column * this.ch, top, bottom: top + this.rows.height };
  }

  key(number) { return `${this.pane.id}:${number}`; }

  /** Draw the lines in view; `again` draws them even if the same ones are there. */
  render(again = false) {
    if (!this.rows || !this.scroller.clientHeight) return;
    const from = Math.max(0, this.rows.at(this.scroller.scrollTop) - 1 - SPARE);
    const to = Math.min(this.pane.lines.length, this.rows.at(this.scroller.scrollTop + this.scroller.clientHeight) + SPARE);
    if (!again && this.shown.length && from === this.first && to === this.first + this.shown.length && this.drawn === this.pane) return;
    this.first = from;
    this.drawn = this.pane;
    this.shown = [];
    for (let index = from; index < to; index++) this.shown.push(this.lineElement(index + 1));
    this.space.replaceChildren(...this.shown);
    if (this.scroller.hasAttribute("aria-activedescendant")) this.announceCursor();
  }

  lineElement(number) {
    const text = this.pane.lines[number - 1], fate = this.fates.get(number);
    const broken = this.pane.kind === "source" && breaksAt(this.capture, this.key(number))[0];
    const element = h("div", { class: "line", role: "option", id: `${this.column.id}-${number}`, "aria-setsize": this.pane.lines.length, "aria-posinset": number, style: `top:${this.rows.top(number)}px;height:${this.rows.heightOf(number)}px` },
      h("span", { class: "number" }, String(number), fate ? h("abbr", { title: say(`fate_name.${fate}`) }, FATE_LETTERS[fate]) : null,
        broken ? h("abbr", { class: "break", title: breakReasons(broken).join("; ") }, "✂") : null),
      ...parts(this.app.texts[text], this.app.classes[text], this.app.search.query).map(([part, kind, found]) =>
        found ? h("mark", {}, part) : kind === "x" ? part : h("span", { class: `t-${kind}` }, part)));
    this.dress(element, number);
    return element;
  }

  dress(element, number) {
    const state = this.app.stateOf(this.capture, this.key(number), this.column.shared);
    const outside = this.app.layers.outside(this.capture, this.key(number), this.column.shared);
    element.className = `line ${state ?? ""}`;
    element.classList.toggle("outside", outside && !state);
    tint(element, this.app.coloured && !outside ? this.app.sourcesOf(this.capture, this.key(number), this.column.shared) : [], this.app.hues);
    element.setAttribute("aria-selected", state === "chosen");
  }

  /** Follow a change of what is lit: classes of the lines in view, the count, the marks beside the scroll bar. */
  relight() {
    if (!this.pane) return;
    if (this.drawn !== this.pane) this.render(true);
    this.shown.forEach((element, index) => this.dress(element, this.first + index + 1));
    const all = this.panes.flatMap((pane) => this.app.litLines(this.capture, pane.id, this.column.shared));
    this.lit = this.app.litLines(this.capture, this.pane.id, this.column.shared);
    const exact = all.filter(([, state]) => state === "exact" || state === "chosen").length;
    this.count.textContent = this.stripCount.textContent = all.length ? String(exact || all.length) : "";
    this.count.title = say("pane.lit", { count: String(all.length) });
    this.strip.classList.toggle("has-lit", all.length > 0);
    const tall = this.pane.lines.length;
    this.marks.replaceChildren(...this.lit.slice(0, 400).map(([number, state]) => h("i", { class: state, style: `top:${(100 * (number - 0.5)) / tall}%` })));
  }

  /** Bring the lit lines into view; where several texts are offered, the one that has them. */
  reveal() {
    if (!this.panes.length) return;
    const best = (panes) => panes.find((pane) => this.app.litLines(this.capture, pane.id, this.column.shared).some(([, state]) => state === "exact"))
      ?? panes.find((pane) => this.app.litLines(this.capture, pane.id, this.column.shared).length);
    const pane = best([this.pane, ...this.panes.filter((each) => each !== this.pane)]);
    if (!pane) return;
    this.show(pane.id);
    const lit = this.app.litLines(this.capture, pane.id, this.column.shared);
    this.scrollTo((lit.find(([, state]) => state === "exact") ?? lit[0])[0]);
  }

  scrollTo(number) {
    if (!this.scroller.clientHeight) return;
    const top = this.rows.top(number), height = this.scroller.clientHeight, row = this.rows.height;
    if (top < this.scroller.scrollTop + row || top > this.scroller.scrollTop + height - 3 * row) {
      this.scroller.scrollTop = Math.max(0, top - height / 3);
    }
    if (this.wraps) return this.render();
    const indent = this.app.texts[this.pane.lines[number - 1]].search(/\S/) * this.scroller.scrollWidth / this.columns;
    const left = this.scroller.scrollLeft, width = this.scroller.clientWidth;
    if (indent < left || indent > left + width / 3) this.scroller.scrollLeft = Math.max(0, indent - width / 6);
    this.render();
  }

  stepLit(step) {
    const numbers = this.lit.map(([number]) => number);
    const next = step > 0 ? numbers.find((number) => number > this.cursor) ?? numbers[0] : numbers.findLast((number) => number < this.cursor) ?? numbers.at(-1);
    if (next === undefined) return;
    this.cursor = next;
    this.scrollTo(next);
    this.announceCursor();
  }

  move(step) {
    this.cursor = Math.min(this.pane.lines.length, Math.max(1, this.cursor + step));
    this.scrollTo(this.cursor);
    this.app.pin(this, this.cursor, true);
    this.announceCursor();
  }

  /** Name the line that the keys move from, as long as it is in the document. */
  announceCursor() {
    const there = this.cursor > this.first && this.cursor <= this.first + this.shown.length;
    if (there) this.scroller.setAttribute("aria-activedescendant", `${this.column.id}-${this.cursor}`);
    else this.scroller.removeAttribute("aria-activedescendant");
  }
}
