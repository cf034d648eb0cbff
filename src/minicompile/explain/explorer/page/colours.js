// A hue for each source line, lent to every line that was made from it.

const GOLDEN = 137.508; // degrees between the hues of neighbours, which keeps any few of them apart
const MOST_BANDS = 6; // source lines that a line may show beside its number

/** The hue of each source line that something was made from, in degrees: the same in each pane, capture and visit. */
function huesOf(captures) {
  const linked = new Set();
  for (const { links, paneById } of captures) {
    for (const { from, kind, pairs } of links) {
      if (MAKES(kind) && paneById.get(from).kind === "source") for (let i = 0; i < pairs.length; i += 2) linked.add(`${from}:${pairs[i]}`);
    }
  }
  return new Map([...linked].sort(inOrder).map((line, rank) => [line, Math.round((210 + rank * GOLDEN) % 360)]));
}

/** Tint an element whose line was made from these source lines: all of it from one, a band beside the number from each of several. */
function tint(element, sources, hues) {
  const one = sources.length === 1;
  element.classList.toggle("tint", one);
  element.classList.toggle("bands", sources.length > 1 && sources.length <= MOST_BANDS);
  if (one) element.style.setProperty("--hue", hues.get(sources[0]));
  else if (element.classList.contains("bands")) {
    const part = 100 / sources.length;
    const stops = sources.map((line, index) => `oklch(var(--band) ${hues.get(line)}) ${part * index}% ${part * (index + 1)}%`);
    element.style.setProperty("--bands", `linear-gradient(${stops.join(", ")})`);
  }
}
