"use strict";
// One forward pass of each rung below the other, to one scale. A strip has rows, a row has spans: [start, length, kind,
// name or phase], microseconds; kind -1 is a whole kernel. Of blocks the data has codes and lengths in nanoseconds.
const data = JSON.parse(document.getElementById("data").textContent), words = data.text;
const chart = document.getElementById("chart"), canvas = document.getElementById("canvas"), pen = canvas.getContext("2d");
const HEAD = 22, AXIS = 26, KERNEL = 34, SPACE = 14, LEFT = 8, CLOSEST = 0.05; // pixels, and microseconds across
const PRECISE = new Intl.NumberFormat(data.language, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
let shape = data.shapes[0], view = [0, 1], chosen = null, strips = [], colours = {};

for (const row of data.shapes.flatMap((one) => one.strips).flatMap((strip) => strip.rows)) {
  row.spans = (row.kernels ?? []).map(([start, length, name]) => [start, length, -1, name]);
  for (let [at, codes, lengths] of row.blocks ?? [])
    lengths.forEach((length, place) => {
      row.spans.push([at, length / 1000, (codes[place] % data.phase) - 1, Math.floor(codes[place] / data.phase)]);
      at += length / 1000;
    });
}
const said = (sentence, fields) => sentence.replace(/\{(\w+)\}/g, (_, name) => fields[name]);
const us = (value) => PRECISE.format(value);

function lay() {
  let y = AXIS;
  strips = shape.strips.map((strip) => {
    const rows = strip.rows.length, height = strip.blocks ? Math.max(3, Math.min(16, Math.round(400 / rows))) : KERNEL;
    const top = y + HEAD;
    y = top + rows * height + SPACE;
    return { strip, top, height, bottom: top + rows * height };
  });
  return y;
}

function colour() {
  const style = getComputedStyle(document.documentElement), probe = document.createElement("span");
  document.body.append(probe);
  for (const name of ["memory", "arithmetic", "waiting", "kernel", "gap", "gap-edge", "text", "soft", "edge", "paper", "action"]) {
    probe.style.color = `var(--${name})`;
    colours[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  colours.font = style.getPropertyValue("--sans");
}

const wide = () => chart.clientWidth - 2 * LEFT;
const x = (time) => LEFT + ((time - view[0]) / (view[1] - view[0])) * wide();
const time = (pixel) => view[0] + ((pixel - LEFT) / wide()) * (view[1] - view[0]);

function draw() {
  const height = lay(), width = chart.clientWidth, dense = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * dense);
  canvas.height = Math.round(height * dense);
  canvas.style.height = `${height}px`;
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  pen.fillStyle = colours.paper;
  pen.fillRect(0, 0, width, height);
  axis(width, height);
  for (const one of strips) paint(one, width);
  outline();
}

function axis(width, height) {
  const step = nice((view[1] - view[0]) / Math.max(2, width / 110));
  pen.font = `12px ${colours.font}`;
  pen.textBaseline = "middle";
  for (let at = Math.ceil(view[0] / step) * step; at <= view[1]; at += step) {
    pen.strokeStyle = colours.edge;
    pen.beginPath();
    pen.moveTo(Math.round(x(at)) + 0.5, AXIS - 4);
    pen.lineTo(Math.round(x(at)) + 0.5, height);
    pen.stroke();
    const label = `${new Intl.NumberFormat(data.language, { maximumFractionDigits: 3 }).format(Math.abs(at) < step / 2 ? 0 : at)} µs`;
    pen.fillStyle = colours.soft;
    pen.textAlign = x(at) < 30 ? "left" : x(at) > width - 30 ? "right" : "center";
    pen.fillText(label, x(at), 11);
  }
}

function nice(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].find((factor) => factor * power >= least) * power;
}

function paint({ strip, top, height, bottom }, width) {
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.font = `bold 13px ${colours.font}`;
  pen.fillStyle = colours.text;
  pen.fillText(strip.rung, LEFT, top - HEAD / 2);
  if (strip.blocks) {
    const after = LEFT + pen.measureText(`${strip.rung}  `).width;
    pen.font = `12px ${colours.font}`;
    pen.fillStyle = colours.soft;
    pen.fillText(words.rows, after, top - HEAD / 2);
  }
  for (const [start, end] of strip.gaps) {
    if (end < view[0] || start > view[1]) continue;
    pen.fillStyle = colours.gap;
    pen.fillRect(x(start), top, Math.max(1, x(end) - x(start)), bottom - top);
    pen.fillStyle = colours["gap-edge"];
    pen.fillRect(x(start), bottom - 2, Math.max(1, x(end) - x(start)), 2);
  }
  strip.rows.forEach((row, place) => {
    const y = top + place * height, tall = height > 4 ? height - 1 : height;
    for (const [start, length, kind, name] of row.spans) {
      const from = x(start), to = x(start + length);
      if (to < 0 || from > width) continue;
      pen.fillStyle = colours[kind < 0 ? "kernel" : data.kinds[kind]];
      pen.fillRect(from, y, Math.max(0.7, to - from - (to - from > 3 && kind < 0 ? 1 : 0)), tall);
      if (kind < 0) written(name, Math.max(from, 0), Math.min(to, width), y + height / 2);
    }
  });
  const end = x(strip.length);
  pen.fillStyle = colours.text;
  if (end < width) pen.fillRect(Math.round(end), top - 3, 2, bottom - top + 6);
}

function written(name, from, to, y) {
  if (to - from < 46) return;
  pen.save();
  pen.beginPath();
  pen.rect(from, y - 16, to - from - 4, 32);
  pen.clip();
  pen.font = `11px ${colours.font}`;
  pen.fillStyle = "#111111";
  pen.textAlign = "left";
  pen.fillText(name, from + 4, y);
  pen.restore();
}

function outline() {
  if (!chosen) return;
  const { top, height, bottom } = strips[chosen.strip], gap = chosen.gap;
  const span = gap ? [gap[0], gap[1] - gap[0]] : strips[chosen.strip].strip.rows[chosen.row].spans[chosen.span];
  const y = gap ? top : top + chosen.row * height, tall = gap ? bottom - top : height;
  pen.strokeStyle = colours.text;
  pen.lineWidth = 2;
  pen.strokeRect(x(span[0]) - 1, y - 1, Math.max(4, x(span[0] + span[1]) - x(span[0])) + 2, tall + 2);
  pen.lineWidth = 1;
}

function tell() {
  const status = document.getElementById("status");
  if (!chosen) {
    status.textContent = words.none;
    return;
  }
  const strip = shape.strips[chosen.strip], row = strip.rows[chosen.row ?? 0];
  const span = chosen.gap ? [chosen.gap[0], chosen.gap[1] - chosen.gap[0]] : row.spans[chosen.span];
  const [start, length, kind, name] = span;
  const fields = { rung: strip.rung, start: us(start), end: us(start + length), length: us(length), sm: row.sm, name };
  if (kind >= 0) Object.assign(fields, { kind: words[data.kinds[kind]], phase: words[`phase${name}`] ?? "" });
  status.textContent = said(words[chosen.gap ? "nothing" : kind < 0 ? "kernel" : "span"], fields);
}

function choose(next) {
  chosen = next;
  tell();
  draw();
}

function look(from, to) {
  const most = shape.length * 1.03, length = Math.min(Math.max(to - from, CLOSEST), most + 0.02 * most);
  const start = Math.min(Math.max((from + to - length) / 2, -0.02 * most), most - length);
  view = [start, start + length];
  draw();
}

const whole = () => look(-0.02 * shape.length, 1.03 * shape.length);
const move = (share) => look(view[0] + share * (view[1] - view[0]), view[1] + share * (view[1] - view[0]));

function zoom(factor, around = (view[0] + view[1]) / 2) {
  look(around - (around - view[0]) * factor, around + (view[1] - around) * factor);
}

function at(px, py) {
  const place = strips.findIndex((one) => py >= one.top && py < one.bottom);
  if (place < 0) return null;
  const { strip, top, height } = strips[place], row = Math.floor((py - top) / height), when = time(px);
  const near = ((view[1] - view[0]) / wide()) * 2; // two pixels, for spans thinner than a finger
  const span = strip.rows[row].spans.findIndex(([start, length]) => when >= start - near && when < start + length + near);
  if (span >= 0) return { strip: place, row, span };
  const gap = strip.gaps.find(([start, end]) => when >= start && when < end);
  return gap ? { strip: place, gap } : null;
}

function nextGap() {
  // of the compiled passes, which have whole kernels; behind the chosen one, and from the last again to the first
  const all = shape.strips.flatMap((strip, place) => strip.gaps.map((gap) => ({ strip: place, gap })));
  if (!all.length) return;
  const now = chosen?.gap ? all.findIndex((one) => one.gap === chosen.gap) : -1, next = all[(now + 1) % all.length];
  const [start, end] = next.gap, room = Math.max(end - start, 0.4) * 2.5;
  chosen = next;
  look(start - room, end + room);
  tell();
}

function step(rows, spans) {
  if (!chosen || chosen.gap) {
    choose({ strip: chosen?.strip ?? 0, row: 0, span: 0 });
  } else {
    let { strip, row, span } = chosen;
    row += rows;
    if (row < 0 && strip > 0) row = shape.strips[--strip].rows.length - 1;
    else if (row >= shape.strips[strip].rows.length && strip + 1 < shape.strips.length) [strip, row] = [strip + 1, 0];
    row = Math.min(Math.max(row, 0), shape.strips[strip].rows.length - 1);
    const inside = shape.strips[strip].rows[row].spans;
    const start = shape.strips[chosen.strip].rows[chosen.row].spans[chosen.span][0];
    if (rows) span = Math.max(0, inside.findLastIndex((one) => one[0] <= start));
    span = Math.min(Math.max(span + spans, 0), inside.length - 1);
    choose({ strip, row, span });
  }
  const [start, length] = shape.strips[chosen.strip].rows[chosen.row].spans[chosen.span];
  if (start < view[0] || start + length > view[1]) look(start - (view[1] - view[0]) / 2, start + (view[1] - view[0]) / 2);
}

const KEYS = {
  ArrowLeft: () => move(-0.15), ArrowRight: () => move(0.15), "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1.6),
  0: whole, Home: whole, ArrowUp: () => step(-1, 0), ArrowDown: () => step(1, 0), ",": () => step(0, -1), ".": () => step(0, 1),
};
chart.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});

// One pointer drags, two pinch; a press that does not move chooses.
const pointers = new Map();
let moved = 0;
chart.addEventListener("pointerdown", (event) => {
  pointers.set(event.pointerId, event.offsetX);
  moved = 0;
});
chart.addEventListener("pointermove", (event) => {
  if (!pointers.has(event.pointerId)) return;
  const before = [...pointers.values()];
  moved += Math.abs(event.offsetX - pointers.get(event.pointerId));
  pointers.set(event.pointerId, event.offsetX);
  const after = [...pointers.values()];
  if (moved > 4 && !chart.hasPointerCapture(event.pointerId)) chart.setPointerCapture(event.pointerId);
  if (after.length === 1) {
    move((before[0] - after[0]) / wide());
  } else {
    const [apart, now] = [before, after].map(([one, other]) => Math.max(8, Math.abs(one - other)));
    zoom(apart / now, time((after[0] + after[1]) / 2));
  }
});
for (const name of ["pointerup", "pointercancel"])
  chart.addEventListener(name, (event) => {
    pointers.delete(event.pointerId);
    if (name === "pointerup" && moved <= 4) choose(at(event.offsetX, event.offsetY));
  });
chart.addEventListener("wheel", (event) => {
  if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY / 200), time(event.offsetX));
  else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / wide());
  else return; // the page scrolls
  event.preventDefault();
}, { passive: false });

function take(place) {
  shape = data.shapes[place];
  chosen = null;
  for (const one of document.querySelectorAll(".figures")) one.hidden = Number(one.dataset.shape) !== place;
  const rungs = shape.strips.map((strip) => strip.rung).join(", ");
  chart.setAttribute("aria-label", said(words.chart, { shape: shape.label, rungs }));
  tell();
  whole();
}
for (const one of document.querySelectorAll("input[name=shape]")) one.addEventListener("change", () => take(Number(one.value)));
const BUTTONS = { left: () => move(-0.3), right: () => move(0.3), in: () => zoom(0.5), out: () => zoom(2), whole, gap: nextGap };
for (const [name, act] of Object.entries(BUTTONS)) document.getElementById(name).addEventListener("click", act);
listenToTheme(document.getElementById("theme"), words);
const again = () => { colour(); draw(); };
new MutationObserver(again).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
new ResizeObserver(draw).observe(chart);
colour();
take(0);
document.documentElement.dataset.ready = "";
