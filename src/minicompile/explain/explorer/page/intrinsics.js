// What an intrinsic in a kernel does: beside the pointer, at the press of a key, and in the box below.

class Intrinsics {
  constructor(app, entries) {
    Object.assign(this, { app, at: -1 });
    this.entries = entries.map((entry) => ({ ...entry, pattern: new RegExp(entry.pattern, "g") }));
    this.tip = h("div", { id: "tip", role: "tooltip", hidden: true });
    this.tip.addEventListener("pointerenter", () => clearTimeout(this.leaving));
    this.tip.addEventListener("pointerleave", () => this.hide());
    document.body.append(this.tip);
  }

  /** The intrinsics of a line of a kernel as {from, to, entry}, in order; of several at one place the first in the table. */
  of(view, number) {
    const { pane, capture } = view;
    const kernel = pane.kind === "code" && capture.graphById.get(pane.graph).kernels.find((each) => each.first <= number && number <= each.last);
    if (!kernel) return [];
    const text = this.app.texts[pane.lines[number - 1]], found = [];
    for (const entry of this.entries.filter((each) => each.language === kernel.language)) {
      for (const match of text.matchAll(entry.pattern)) {
        const from = match.index, to = from + match[0].length;
        if (!found.some((each) => from < each.to && each.from < to)) found.push({ from, to, entry, word: match[0] });
      }
    }
    return found.sort((a, b) => a.from - b.from);
  }

  /** Follow the pointer: say what is under it, or take that back a little later. */
  follow(view, event, number) {
    const column = number ? view.columnAt(event, number) : -1;
    const found = number ? this.of(view, number).find(({ from, to }) => from <= column && column < to) : null;
    if (found) this.show(view, number, found);
    else this.leave();
  }

  /** Say what the next intrinsic of the line with the cursor does. */
  next(view) {
    const found = this.of(view, view.cursor);
    if (!found.length) return this.hide();
    this.at = this.tip.hidden || this.line !== view.key(view.cursor) ? 0 : (this.at + 1) % found.length;
    this.show(view, view.cursor, found[this.at]);
  }

  show(view, number, { entry, word, from }) {
    clearTimeout(this.leaving);
    this.line = view.key(number);
    this.tip.replaceChildren(h("b", {}, code(word.trim())), " ", ...marked(entry.text));
    this.tip.hidden = false;
    view.scroller.setAttribute("aria-describedby", "tip");
    const place = view.placeOf(number, from), box = this.tip.getBoundingClientRect();
    this.tip.style.left = `${Math.max(4, Math.min(place.left, innerWidth - box.width - 4))}px`;
    this.tip.style.top = `${place.bottom + box.height + 4 > innerHeight ? place.top - box.height : place.bottom}px`;
  }

  leave() {
    clearTimeout(this.leaving);
    if (!this.tip.hidden) this.leaving = setTimeout(() => this.hide(), 300);
  }

  hide() {
    this.tip.hidden = true;
    for (const column of this.app.columns) column.view.scroller.removeAttribute("aria-describedby");
  }

  /** The intrinsics of the chosen line, each once, as a card; null without any. */
  card(view, number) {
    const found = [...new Map(this.of(view, number).map((each) => [each.entry.key, each])).values()];
    return found.length ? card(say("why.intrinsics"), h("dl", {}, ...found.flatMap(({ word, entry }) => [h("dt", {}, code(word.trim())), h("dd", {}, ...marked(entry.text))]))) : null;
  }
}

/** A sentence with what stands in `backquotes` as code. */
function marked(sentence) { return sentence.split("`").map((part, index) => (index % 2 ? code(part) : part)); }
