// The roofline of the device with this kernel's dot: work a second against work a byte, as Williams, Waterman and
// Patterson draw it (Communications of the ACM 52(4), 2009). The slanted line is a copy's bandwidth, the flat one the
// most arithmetic; a kernel whose data stays in the cache may lie above the slanted line, up to the dashed one.

const SVG = "http://www.w3.org/2000/svg";
const BOX = { width: 320, height: 190, left: 46, right: 12, top: 16, bottom: 34 };

function s(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A power of ten as people read it: 0.01, 10, 1000. */
function power(exponent) { return exponent < -3 || exponent > 3 ? `1e${exponent}` : written(Number((10 ** exponent).toFixed(Math.max(0, -exponent)))); }

/** A number to three digits. */
function three(value) { return written(Number(value.toPrecision(3))); }

/** The picture, with the chosen kernels' dots filled; null where the profile has no dot for any of them. */
function roofline(profile, chosen) {
  const ceilings = profile?.roofline?.ceilings ?? {}, copy = ceilings.copy_gb_per_s, peak = ceilings.fp32_tflop_per_s;
  const dots = (profile?.kernels ?? []).filter((kernel) => kernel.flop_per_byte > 0 && kernel.tflop_per_s > 0);
  if (!(copy > 0 && peak > 0) || !dots.some((dot) => chosen.has(dot.name))) return null;
  const roof = (bandwidth, intensity) => Math.min(peak, (bandwidth * intensity) / 1e3);
  const ridge = (peak * 1e3) / copy; // FLOP a byte from which arithmetic is the limit
  const reach = [...dots.map((dot) => dot.flop_per_byte), ridge];
  const left = Math.floor(Math.log10(Math.min(...reach)) - 0.2), right = Math.ceil(Math.log10(Math.max(...reach)) + 0.2);
  const heights = [...dots.map((dot) => dot.tflop_per_s), roof(copy, 10 ** left), peak];
  const low = Math.floor(Math.log10(Math.min(...heights))), high = Math.ceil(Math.log10(peak) + 0.1);
  const x = (value) => BOX.left + ((Math.log10(value) - left) / (right - left)) * (BOX.width - BOX.left - BOX.right);
  const y = (value) => BOX.height - BOX.bottom - ((Math.log10(value) - low) / (high - low)) * (BOX.height - BOX.top - BOX.bottom);
  const said = dots.filter((dot) => chosen.has(dot.name)).map((dot) => say("roofline.dot", { name: dot.name, intensity: written(dot.flop_per_byte.toPrecision(2)), rate: written(dot.tflop_per_s.toPrecision(2)) }));
  const picture = s("svg", { viewBox: `0 0 ${BOX.width} ${BOX.height}`, class: "roofline", role: "img", "aria-label": say("roofline.label", { name: profile.roofline.name, dots: said.join("; ") }) });
  const line = (points, kind) => picture.append(s("polyline", { points: points.map(([a, b]) => `${x(a)},${y(b)}`).join(" "), class: kind }));
  line([[10 ** left, 10 ** high], [10 ** left, 10 ** low], [10 ** right, 10 ** low]], "axis");
  for (let at = left; at <= right; at += Math.ceil((right - left) / 5)) picture.append(s("text", { x: x(10 ** at), y: BOX.height - BOX.bottom + 13, "text-anchor": "middle" }, power(at)));
  for (let at = low; at <= high; at += Math.ceil((high - low) / 4)) picture.append(s("text", { x: BOX.left - 4, y: y(10 ** at) + 4, "text-anchor": "end" }, power(at)));
  picture.append(s("text", { x: (BOX.left + BOX.width) / 2, y: BOX.height - 4, "text-anchor": "middle" }, say("roofline.intensity")), s("text", { x: 2, y: 10 }, "TFLOP/s"));
  for (const [bandwidth, kind] of [[ceilings.l2_gb_per_s, "roof cache"], [copy, "roof"]]) {
    if (!(bandwidth > 0)) continue;
    const bend = Math.min((peak * 1e3) / bandwidth, 10 ** right);
    const start = Math.max(10 ** left, (10 ** low * 1e3) / bandwidth);
    line([[start, roof(bandwidth, start)], [bend, roof(bandwidth, bend)], [10 ** right, roof(bandwidth, 10 ** right)]], kind);
  }
  picture.append(s("text", { x: BOX.width - BOX.right, y: y(peak) - 5, "text-anchor": "end" }, say("roofline.limits", { bandwidth: three(copy), peak: three(peak) })));
  for (const dot of [...dots].sort((a, b) => chosen.has(a.name) - chosen.has(b.name))) {
    const circle = s("circle", { cx: x(dot.flop_per_byte), cy: y(dot.tflop_per_s), r: chosen.has(dot.name) ? 6 : 3.5, class: chosen.has(dot.name) ? "dot chosen" : "dot" });
    circle.append(s("title", {}, dot.name));
    picture.append(circle);
  }
  return picture;
}
