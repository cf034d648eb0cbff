// How much each text stands out from what is behind it, by WCAG 2's formula: [what, contrast] pairs.
() => {
  const canvas = document.createElement("canvas").getContext("2d");
  const rgb = (colour) => {
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (colour) => {
    const linear = rgb(colour).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const contrast = (front, behind) => {
    const [low, high] = [luminance(getComputedStyle(front).color), luminance(getComputedStyle(behind).backgroundColor)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  for (const state of ["", "chosen", "exact", "caller", "context", "tint", "outside"]) { // every token class on every kind of line
    const line = document.createElement("div");
    line.className = `line ${state}`;
    for (const name of ["number", ..."kcsnftbpvx".split("").map((letter) => `t-${letter}`)]) {
      const span = document.createElement("span");
      span.className = name;
      line.append(span);
    }
    const mark = document.createElement("mark");
    line.append(mark);
    document.querySelector(".space").append(line);
    for (const span of line.querySelectorAll("span")) found.push([`${state} ${span.className}`, contrast(span, line)]);
    found.push([`${state} mark`, contrast(mark, mark)]);
    line.remove();
  }
  for (const element of document.querySelectorAll("button, .badge, .target, #why *, summary, h1, h2, label")) {
    if (!element.textContent.trim() || !element.getClientRects().length || element.closest("svg")) continue;
    let behind = element;
    while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
    found.push([`${element.tagName} ${element.textContent.slice(0, 30)}`, contrast(element, behind)]);
  }
  return found;
}
