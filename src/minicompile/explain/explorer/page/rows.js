// Where a pane's lines stand: rows of one height each, or several rows a line where long lines wrap.

const TAB = 4; // columns, as tab-size in explorer.css

/** Characters that a line is wide; what is no ASCII counts as two, which is as wide as any. */
function width(text) {
  let columns = 0;
  if (!/[^ -~]/.test(text)) return text.length;
  for (const character of text) columns += character === "\t" ? TAB - (columns % TAB) : character <= "~" ? 1 : 2;
  return columns;
}

class Rows {
  /** widths: of each line in characters; across: characters in a row, Infinity where lines do not wrap; height: of a row in pixels. */
  constructor(widths, across, height) {
    Object.assign(this, { count: widths.length, height });
    if (across === Infinity) return;
    this.tops = new Float64Array(widths.length + 1);
    widths.forEach((wide, index) => { this.tops[index + 1] = this.tops[index] + height * Math.max(1, Math.ceil(wide / across)); });
  }

  /** Pixels above a line; of the line after the last, all of them. */
  top(number) { return this.tops ? this.tops[number - 1] : (number - 1) * this.height; }

  heightOf(number) { return this.top(number + 1) - this.top(number); }

  /** The line at a height, which may be none: 0 is above the first, count + 1 below the last. */
  at(pixels) {
    if (!this.tops) return Math.min(this.count + 1, Math.max(0, Math.floor(pixels / this.height) + 1));
    let low = 0, high = this.count + 1;
    while (low + 1 < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle - 1] <= pixels) low = middle; else high = middle;
    }
    return low === this.count && pixels >= this.tops[this.count] ? this.count + 1 : low;
  }
}
