// The box that says why the chosen line is what it is.

const FEW = 6; // rows before the rest is folded away

function card(title, ...children) { return h("article", {}, h("h3", {}, title), ...children); }
function counted(count, what) { return `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`; }
function code(text) { return h("code", {}, text); }

/** The first few of `items`, the others behind a "more". */
function folded(items, show, wrap = (children) => h("ul", {}, ...children)) {
  const first = wrap(items.slice(0, FEW).map(show));
  if (items.length <= FEW) return [first];
  return [first, h("details", {}, h("summary", {}, `${items.length - FEW} more`), wrap(items.slice(FEW).map(show)))];
}

function table(headings, rows) {
  return h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, ...headings.map((heading) => h("th", { scope: "col" }, heading)))), h("tbody", {}, ...rows)));
}

function loweringCard(facts) {
  const nodes = facts.nodes.filter((node) => node.fate || node.lowering);
  if (!nodes.length) return null;
  const row = (node) => h("tr", {}, h("th", { scope: "row" }, code(node.name), h("small", {}, " ", node.target)),
    h("td", {}, node.lowering ? code(node.lowering.function) : "no lowering of its own", node.lowering?.file ? h("small", {}, ` ${node.lowering.file}:${node.lowering.line}`) : null),
    h("td", {}, fateInWords(node)));
  const made = card(nodes.length === 1 ? "ATen node and its fate" : `${nodes.length} ATen nodes and their fate`,
    ...folded(nodes, row, (rows) => table(["node and operation", "lowered by, in torch", "its result"], rows)));
  made.className = "fates";
  return made;
}

function fusionCard(facts) {
  const { groups, decisions, schedulerNodes } = facts;
  if (!schedulerNodes.length) return null;
  const taken = decisions.filter((each) => each.taken), refused = decisions.filter((each) => !each.taken);
  const alike = Map.groupBy([...taken, ...refused], (each) => `${each.taken} ${each.sentence} ${each.reasons.join("; ")}`);
  const pairOf = (each) => `${each.first.join(" ")} with ${each.second.join(" ")}${each.shared_buffers.length ? ` (share ${each.shared_buffers.join(", ")})` : ""}`;
  const show = ([each, ...others]) => h("li", { class: each.taken ? "taken" : "refused" }, h("b", {}, each.taken ? "Taken: " : "Refused: "),
    [each, ...others].slice(0, FEW).map(pairOf).join("; "), others.length >= FEW ? `; and ${others.length + 1 - FEW} more` : "", ". ", each.sentence,
    each.reasons.length ? h("small", {}, " Inductor: ", code(each.reasons.join("; "))) : null);
  const lines = groups.slice(0, 3).map((group) => h("p", {}, h("b", {}, group.members.length > 1 ? "Fused: " : "Alone: "), group.members.join(", "), ` (${group.kind}, ${bytesInWords(group.bytes)} read and written)`));
  return card(`Fusion: ${taken.length} taken, ${refused.length} refused`, ...lines, groups.length > 3 ? h("p", {}, `and ${groups.length - 3} more groups`) : null,
    ...(decisions.length ? folded([...alike.values()], show) : [h("p", {}, "No fusion was considered: a library's call, or nothing to share.")]));
}

function kernelFacts(capture, graph, call) {
  const kernel = graph.kernels.find((each) => each.name === call.kernel), assembly = kernel?.assembly;
  const measured = capture.profile?.kernels?.find((each) => each.name === call.kernel);
  const { rows, spared } = traffic(graph, call);
  const children = [h("p", {}, code(call.kernel), call.extern ? " (a library's or a user's own)" : "", call.bytes === null ? "" : `, ${bytesInWords(call.bytes)} read and written`)];
  if (measured) {
    const number = (value, unit) => (typeof value === "number" ? `${Number(value.toPrecision(3))} ${unit}` : null);
    const speed = [number(measured.median_us, "µs"), number(measured.gb_per_s, "GB/s"), number(100 * measured.fraction_of_copy, "% of a copy")].filter(Boolean);
    children.push(h("p", { class: "measured" }, h("b", {}, "Measured: "), speed.join(", "), capture.profile.restored ? " (a record, not measured here)" : ""));
  } else if (capture.target.simulated) children.push(h("p", { class: "note" }, "Never run: simulated target."));
  if (assembly) children.push(h("p", {}, `${assembly.architecture}: ${assembly.registers} registers a thread, ${bytesInWords(assembly.shared_bytes)} shared a block, ${assembly.stack_bytes ? `${bytesInWords(assembly.stack_bytes)} of stack (spills)` : "no spills"}; `,
    Object.entries(assembly.configuration).map(([name, value]) => `${name} ${value}`).join(", "), assembly.candidates > 1 ? `; the first of ${assembly.candidates} configurations` : ""));
  if (rows.length) children.push(...folded(rows, (row) => h("tr", {}, h("th", { scope: "row" }, row.way), h("td", {}, code(row.buffer)), h("td", {}, code(row.index.join("; "))), h("td", {}, row.bytes ? bytesInWords(row.bytes) : "")),
    (all) => table(["", "buffer", "element", "size"], all)));
  if (spared.length) children.push(h("p", {}, `Never allocated: ${spared.map((buffer) => `${buffer.name} (${bytesInWords(buffer.bytes)})`).join(", ")}.`));
  return children;
}

function kernelCard(capture, facts) {
  if (!facts.calls.length) return null;
  const different = [...new Map(facts.calls.toReversed().map((call) => [call.kernel, call])).values()].toReversed();
  const children = different.slice(0, 2).flatMap((call) => kernelFacts(capture, facts.graph, call));
  if (different.length > 2) children.push(h("p", {}, `and ${different.length - 2} more: `, different.slice(2).map((call) => call.kernel).join(", ")));
  return card(`${counted(different.length, "kernel")} in ${counted(facts.calls.length, "call")}`, ...children);
}

function rooflineCard(capture, facts) {
  if (!facts.calls.length) return null;
  const picture = roofline(capture.profile, new Set(facts.calls.map((call) => call.kernel)));
  return picture && card(`Roofline: ${capture.profile.roofline.name}`, picture, h("p", { class: "note" }, "Filled: this kernel. On the slanted line it moves bytes as fast as a copy; the dashed line is for data in the L2 cache."));
}

/** One sentence about the chosen line. */
function summaryOf(capture, pane, number, facts) {
  const where = `${pane.title}, line ${number}`;
  if (facts.kernel && facts.structure) return `${where}: structure of ${facts.kernel.name}, a loop, index, mask or brace that belongs to no single operation.`;
  if (facts.kernel && facts.operations.length && pane.kind === "code") {
    const operations = [...new Set(facts.operations.map((operation) => `ops.${operation.operation}`))];
    const producers = [...new Set(facts.operations.map((operation) => operation.producer).filter(Boolean))];
    return `${where}: written for ${operations.slice(0, 4).join(", ")}${producers.length ? `, from ATen's ${producers.slice(0, 4).join(", ")}${producers.length > 4 ? ` and ${producers.length - 4} more` : ""}` : ""}.`;
  }
  if (facts.nodes.length || facts.calls.length) {
    const count = (items, what) => (items.length ? counted(items.length, what) : null);
    return `${where}: ${[count(facts.nodes, "ATen node"), count(facts.groups, "fused group"), count(facts.calls, "kernel call")].filter(Boolean).join(", ")}.`;
  }
  return `${where}: tied to nothing; scaffolding, a comment, or code outside the model.`;
}

/** What a graph became, and its kernels, each a way in. */
function overviewCard(app, capture) {
  const graph = capture.graphById.get(app.graph.id);
  if (!graph) return card(capture.target.label, h("p", {}, "This graph was not captured here."));
  const spared = graph.buffers.filter((buffer) => buffer.removed);
  const row = (kernel) => {
    const calls = graph.calls.filter((call) => call.kernel === kernel.name);
    const measured = capture.profile?.kernels?.find((each) => each.name === kernel.name);
    return h("tr", {}, h("th", { scope: "row" }, h("button", { type: "button", class: "link", onclick: () => app.choose(capture, `${graph.panes.code}:${calls[0]?.line ?? kernel.first}`) }, kernel.name)),
      h("td", {}, `${calls.length}`), h("td", {}, calls[0]?.bytes ? calls[0].bytes.toLocaleString("en") : ""), h("td", {}, kernel.reductions.length ? [...new Set(kernel.reductions)].join(", ") : ""),
      capture.profile ? h("td", {}, measured ? `${Number(measured.median_us.toPrecision(3))} µs` : "") : null);
  };
  return card(`${capture.target.label}, ${graph.direction}`,
    h("p", {}, `${counted(graph.nodes.filter((node) => node.fate).length, "ATen node")} became ${counted(graph.scheduler_nodes.length, "scheduler node")} in ${counted(graph.groups.length, "group")}: ${counted(graph.kernels.length, "kernel")} in ${counted(graph.calls.filter((call) => !call.extern).length, "call")}, and ${counted(graph.calls.filter((call) => call.extern).length, "call")} of a library. `,
      spared.length ? `Fusion spared ${counted(spared.length, "buffer")}, ${bytesInWords(spared.reduce((sum, buffer) => sum + (buffer.bytes ?? 0), 0))}.` : ""),
    ...folded(graph.kernels, row, (rows) => table(["kernel", "calls", "bytes a call", "reductions", ...(capture.profile ? ["time"] : [])], rows)));
}

/** Fill the box for a chosen line, or say how to choose one. */
function explain(app) {
  const body = document.getElementById("why-body"), summary = document.getElementById("why-summary");
  if (!app.chosen) {
    summary.textContent = "Point at a line to see all that belongs to it; click to keep it. New here? Take the tour.";
    body.replaceChildren(...app.captures.map((capture) => overviewCard(app, capture)));
    return;
  }
  const { capture, line } = app.chosen, pane = capture.paneById.get(paneOf(line));
  const both = app.chosen.view.column.shared, facts = factsOf(capture, line, app.states[capture.position]);
  summary.textContent = summaryOf(capture, pane, numberOf(line), facts);
  const cards = (both ? app.captures : [capture]).flatMap((each) => {
    const its = each === capture ? facts : factsOf(each, line, app.states[each.position]);
    const found = [loweringCard(its), fusionCard(its), kernelCard(each, its), rooflineCard(each, its)].filter(Boolean);
    return both && found.length ? [h("h3", { class: "side" }, each.target.label), ...found] : found;
  });
  body.replaceChildren(h("pre", { class: "chosen-text" }, app.texts[pane.lines[numberOf(line) - 1]].trim() || " "), ...cards);
  body.scrollTop = 0;
}
