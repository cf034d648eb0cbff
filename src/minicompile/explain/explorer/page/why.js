// The box that says why the chosen line is what it is.

const FEW = 6; // rows before the rest is folded away

function card(title, ...children) { return h("article", {}, h("h3", {}, title), ...children); }
function counted(count, what) { return say(`count.${what}`, { count }); }
function code(text) { return h("code", {}, text); }

/** The first few of `items`, the others behind a "more". */
function folded(items, show, wrap = (children) => h("ul", {}, ...children)) {
  const first = wrap(items.slice(0, FEW).map(show));
  if (items.length <= FEW) return [first];
  return [first, h("details", {}, h("summary", {}, say("why.more", { count: String(items.length - FEW) })), wrap(items.slice(FEW).map(show)))];
}

function table(headings, rows) {
  return h("div", { class: "wide" }, h("table", {}, h("thead", {}, h("tr", {}, ...headings.map((heading) => h("th", { scope: "col" }, heading)))), h("tbody", {}, ...rows)));
}

function loweringCard(facts) {
  const nodes = facts.nodes.filter((node) => node.fate || node.lowering);
  if (!nodes.length) return null;
  // where all is told by notes the heading says so, once
  const noted = nodes.every((node) => node.noted || !node.fate);
  const row = (node) => h("tr", {}, h("th", { scope: "row" }, code(node.name), h("small", {}, " ", node.target)),
    h("td", {}, node.lowering ? code(node.lowering.function) : say("why.no_lowering"), node.lowering?.file ? h("small", {}, ` ${node.lowering.file}:${node.lowering.line}`) : null),
    h("td", {}, fateInWords(node), node.noted && !noted ? h("small", {}, say("fate.noted")) : null));
  const made = card(say("why.node_and_fate", { count: nodes.length }),
    ...folded(nodes, row, (rows) => table([say("why.node"), say("why.lowered"), say(noted ? "why.result_noted" : "why.result")], rows)));
  made.className = "fates";
  return made;
}

function fusionCard(facts) {
  const { groups, decisions, schedulerNodes } = facts;
  if (!schedulerNodes.length) return null;
  const taken = decisions.filter((each) => each.taken), refused = decisions.filter((each) => !each.taken);
  const alike = Map.groupBy([...taken, ...refused], (each) => `${each.taken} ${each.sentence} ${each.reasons.join("; ")}`);
  const pairOf = (each) => say("why.pair", { first: each.first.join(", "), second: each.second.join(", ") }) + (each.shared_buffers.length ? say("why.share", { buffers: each.shared_buffers.join(", ") }) : "");
  const show = ([each, ...others]) => h("li", { class: each.taken ? "taken" : "refused" }, h("b", {}, say(each.taken ? "why.taken" : "why.refused")),
    [each, ...others].slice(0, FEW).map(pairOf).join("; "), others.length >= FEW ? say("why.and_more", { count: String(others.length + 1 - FEW) }) : "", ". ", ...marked(each.sentence),
    each.reasons.length ? h("small", {}, say("why.inductor"), code(each.reasons.join("; "))) : null);
  const lines = groups.slice(0, 3).map((group) => h("p", {}, h("b", {}, say(group.members.length > 1 ? "why.fused" : "why.alone")), say("why.group", { members: group.members.join(", "), kind: group.kind })));
  return card(say("why.fusion", { taken: String(taken.length), refused: String(refused.length) }), ...lines, groups.length > 3 ? h("p", {}, say("why.more_groups", { count: String(groups.length - 3) })) : null,
    ...(decisions.length ? folded([...alike.values()], show) : [h("p", {}, say("why.no_fusion"))]));
}

const ofTheRecord = ({ restored }) => (restored ? say(restored.stale ? "why.stale_record" : "why.record") : "");

// Whether a clock chose the configuration that a kernel was compiled in; where none ran, it is the heuristic's first.
const timed = (capture, graph, kernel) => capture.choices.some((each) => each.kind === "heuristic" && each.graph === graph.id && each.kernel === kernel.name && each.decided === "timed");

function kernelFacts(app, capture, graph, call) {
  const kernel = graph.kernels.find((each) => each.name === call.kernel), assembly = kernel?.assembly;
  const measured = capture.profile?.kernels?.find((each) => each.name === call.kernel);
  const { rows, spared } = traffic(graph, call);
  const children = [h("p", {}, code(call.kernel), call.extern ? say("why.library") : "", call.bytes === null ? "" : say(`why.moved.${call.bytes_are ?? "counted"}`, { bytes: bytesInWords(call.bytes) }), " ", call.runs, " ", copyButton(app, capture, graph, kernel))];
  if (measured) {
    const number = (value, unit) => (typeof value === "number" ? `${three(value)} ${unit}` : null);
    const speed = [number(measured.median_us, "µs"), number(measured.gb_per_s, "GB/s"), number(100 * measured.fraction_of_copy, say("why.of_copy"))].filter(Boolean);
    children.push(h("p", { class: "measured" }, h("b", {}, say("why.measured")), speed.join(", "), ofTheRecord(capture.profile)));
  } else if (capture.target.simulated) children.push(h("p", { class: "note" }, say("why.never_run")));
  if (assembly) children.push(h("p", {}, say("why.registers", { architecture: assembly.architecture, registers: String(assembly.registers), shared: bytesInWords(assembly.shared_bytes), stack: assembly.stack_bytes ? say("why.stack", { bytes: bytesInWords(assembly.stack_bytes) }) : say("why.no_spills") }),
    Object.entries(assembly.configuration).map(([name, value]) => `${name} ${value}`).join(", "), assembly.candidates > 1 ? say(`why.candidates.${timed(capture, graph, kernel) ? "timed" : "first"}`, { count: String(assembly.candidates) }) : ""));
  if (rows.length) children.push(...folded(rows, (row) => h("tr", {}, h("th", { scope: "row" }, say(`way.${row.way}`)), h("td", {}, code(row.buffer)), h("td", {}, code(row.index.join("; "))), h("td", {}, row.bytes ? bytesInWords(row.bytes) : "")),
    (all) => table(["", say("why.buffer"), say("why.element"), say("why.size")], all)));
  if (spared.length && !call.doubted) children.push(h("p", {}, say("why.not_stored", { buffers: spared.map((buffer) => `${buffer.name} (${bytesInWords(buffer.bytes)})`).join(", ") })));
  return children;
}

function kernelCard(app, capture, facts) {
  if (!facts.calls.length) return null;
  const different = [...new Map(facts.calls.toReversed().map((call) => [call.kernel, call])).values()].toReversed();
  const children = different.slice(0, 2).flatMap((call) => kernelFacts(app, capture, facts.graph, call));
  if (different.length > 2) children.push(h("p", {}, say("why.kernels_more", { count: String(different.length - 2) }), different.slice(2).map((call) => call.kernel).join(", ")));
  return card(say("why.kernels_in", { kernels: counted(different.length, "kernel"), calls: counted(facts.calls.length, "call") }), ...children);
}

function rooflineCard(capture, facts) {
  if (!facts.calls.length) return null;
  const picture = roofline(capture.profile, new Set(facts.calls.map((call) => call.kernel)));
  return picture && card(say("why.roofline", capture.profile.roofline) + ofTheRecord(capture.profile), picture, h("p", { class: "note" }, say("why.roofline_note")));
}

/** One sentence about the chosen line. */
function summaryOf(capture, pane, number, facts) {
  const where = say("why.where", { pane: pane.title, line: String(number) });
  if (facts.kernel && facts.structure) return say("why.structure", { where, kernel: facts.kernel.name });
  const values = pane.kind === "code" ? facts.graph?.line_values[number] : null;
  if (values) return say("why.has_values", { where, nodes: values.slice(0, 4).join(", ") });
  if (facts.kernel && facts.operations.length && pane.kind === "code") {
    // in a kernel that was run, a line that has no node's values is none's, whoever it was written for
    const verified = facts.graph.calls.some((call) => call.kernel === facts.kernel.name && call.verified);
    const operations = [...new Set(facts.operations.map((operation) => `ops.${operation.operation}`))];
    const producers = verified ? [] : [...new Set(facts.operations.map((operation) => operation.producer).filter(Boolean))];
    const first = producers.slice(0, 4).join(", ");
    const told = producers.length > 4 ? say("why.producers_more", { producers: first, count: String(producers.length - 4) }) : first;
    return say(told ? "why.written_from" : "why.written_for", { where, operations: operations.slice(0, 4).join(", "), producers: told });
  }
  if (facts.nodes.length || facts.calls.length) {
    const count = (items, what) => (items.length ? counted(items.length, what) : null);
    return say("why.holds", { where, what: [count(facts.nodes.filter((node) => node.fate), "aten_node"), count(facts.groups, "fused_group"), count(facts.calls, "kernel_call")].filter(Boolean).join(", ") });
  }
  return say("why.nothing", { where });
}

/** What a graph became, and its kernels, each a way in. */
function overviewCard(app, capture) {
  const graph = capture.graphById.get(app.graph.id);
  if (!graph) return card(capture.target.label, h("p", {}, say("why.not_captured")));
  const spared = graph.calls.some((call) => call.doubted) ? [] : graph.buffers.filter((buffer) => buffer.removed);
  const row = (kernel) => {
    const calls = graph.calls.filter((call) => call.kernel === kernel.name);
    const measured = capture.profile?.kernels?.find((each) => each.name === kernel.name);
    return h("tr", {}, h("th", { scope: "row" }, h("button", { type: "button", class: "link", onclick: () => app.choose(capture, `${graph.panes.code}:${calls[0]?.line ?? kernel.first}`) }, kernel.name)),
      h("td", {}, `${calls.reduce((sum, call) => sum + call.times, 0)}`), h("td", {}, calls[0]?.bytes ? grouped(calls[0].bytes) : ""), h("td", {}, kernel.reductions.length ? [...new Set(kernel.reductions)].join(", ") : ""),
      capture.profile ? h("td", {}, measured ? `${three(measured.median_us)} µs` : "") : null);
  };
  return card(say("why.overview", { target: capture.target.label, direction: say(`direction.${graph.direction}`) }),
    h("p", {}, say("why.became", {
      nodes: counted(graph.nodes.filter((node) => node.fate).length, "aten_node"), scheduled: counted(graph.scheduler_nodes.length, "scheduler_node"),
      groups: counted(graph.groups.length, "group"), kernels: counted(graph.kernels.length, "kernel"),
      calls: counted(graph.called.kernels, "call"), library: counted(graph.called.libraries, "call"),
    }), `${graph.inner.join(" ")} `, spared.length ? say("why.spared", { buffers: counted(spared.length, "buffer"), bytes: bytesInWords(spared.reduce((sum, buffer) => sum + (buffer.bytes ?? 0), 0)) }) : ""),
    ...folded(graph.kernels, row, (rows) => table([say("why.kernel"), say("why.calls"), say("why.call_bytes"), say("why.reductions"), ...(capture.profile ? [say("why.time")] : [])], rows)));
}

/** Fill the box for a chosen line, or say how to choose one. */
function explain(app) {
  const body = document.getElementById("why-body"), summary = document.getElementById("why-summary");
  app.layers.tell();
  if (!app.chosen) {
    summary.textContent = say("why.start");
    body.replaceChildren(...app.captures.flatMap((capture) => [overviewCard(app, capture), breaksCard(app, capture)].filter(Boolean)));
    return;
  }
  const { capture, line } = app.chosen, pane = capture.paneById.get(paneOf(line));
  const both = app.chosen.view.column.shared, facts = factsOf(capture, line, app.states[capture.position]);
  summary.textContent = summaryOf(capture, pane, numberOf(line), facts);
  const cards = (both ? app.captures : [capture]).flatMap((each) => {
    const its = each === capture ? facts : factsOf(each, line, app.states[each.position]);
    const found = [loweringCard(its), fusionCard(its), kernelCard(app, each, its), rooflineCard(each, its)].filter(Boolean);
    return both && found.length ? [h("h3", { class: "side" }, each.target.label), ...found] : found;
  });
  const broken = breakCard(app, capture, line);
  if (broken) cards.unshift(broken);
  const words = app.intrinsics.card(app.chosen.view, numberOf(line));
  if (words) cards.push(words);
  body.replaceChildren(h("pre", { class: "chosen-text" }, app.texts[pane.lines[numberOf(line) - 1]].trim() || " "), ...cards);
  body.scrollTop = 0;
}
