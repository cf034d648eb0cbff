// What the capture knows about a set of lit lines: ATen nodes, scheduler nodes, groups, decisions, kernel calls.

/** Facts about lit lines of one graph. `strict` are the chosen line and its exact counterparts, `loose` the rest. */
function factsOf(capture, chosen, lit) {
  const strict = new Set([chosen]), all = new Set([chosen]);
  for (const [line, state] of lit) {
    if (state === "caller") continue;
    all.add(line);
    if (state === "exact") strict.add(line);
  }
  const graphId = capture.paneById.get(paneOf(chosen)).graph;
  const facts = { nodes: [], schedulerNodes: [], groups: [], decisions: [], calls: [], operations: [], kernel: null, structure: false };
  for (const graph of capture.graphs) {
    if (graphId ? graph.id !== graphId : graph.index !== app.graph.index || graph.direction !== app.graph.direction) continue;
    facts.graph = graph;
    const has = (set, kind, line) => line && set.has(`${graph.panes[kind]}:${line}`);
    facts.nodes = graph.nodes.filter((node) => has(strict, "aten", node.line));
    facts.groups = graph.groups.filter((group) => has(all, "groups", group.line));
    const inGroups = new Set(facts.groups.flatMap((group) => group.members));
    const named = graph.scheduler_nodes.filter((node) => has(all, "groups", node.lines.groups) || has(strict, "ir_after", node.lines.after));
    facts.schedulerNodes = named.length ? named : graph.scheduler_nodes.filter((node) => inGroups.has(node.name));
    const members = new Set([...facts.schedulerNodes.map((node) => node.name)]);
    facts.groups = graph.groups.filter((group) => group.members.some((name) => members.has(name)));
    facts.decisions = graph.decisions.filter((each) => [...each.first, ...each.second].some((name) => members.has(name)));
    facts.calls = graph.calls.filter((call) => has(all, "code", call.line));
    facts.operations = graph.scheduler_nodes.flatMap((node) => node.operations.filter((operation) => has(strict, "ir_after", operation.line)).map((operation) => ({ ...operation, node: node.name })));
    const pane = capture.paneById.get(paneOf(chosen)), number = numberOf(chosen);
    facts.kernel = pane.kind === "code" ? graph.kernels.find((kernel) => kernel.first <= number && number <= kernel.last)
      : graph.kernels.find((kernel) => kernel.listing === pane.id || Object.values(kernel.assembly?.panes ?? {}).includes(pane.id));
    facts.structure = Boolean(facts.kernel) && pane.kind === "code" && !facts.operations.length;
  }
  return facts;
}

/** What a group reads from memory and writes to it: accesses by buffer, those between its own members left out. */
function traffic(graph, call) {
  const members = new Set(call.scheduler_nodes), buffers = new Map(graph.buffers.map((buffer) => [buffer.name, buffer]));
  const nodes = graph.scheduler_nodes.filter((node) => members.has(node.name));
  const written = new Set(nodes.flatMap((node) => node.writes.map((access) => access.buffer)));
  const rows = new Map();
  const note = (access, way) => rows.set(`${way} ${access.buffer}`, { way, buffer: access.buffer, bytes: buffers.get(access.buffer)?.bytes, index: [...new Set([...(rows.get(`${way} ${access.buffer}`)?.index ?? []), access.index])] });
  for (const node of nodes) {
    for (const access of node.reads) if (!written.has(access.buffer)) note(access, "reads");
    for (const access of node.writes) if (!buffers.get(access.buffer)?.removed) note(access, "writes");
  }
  return { rows: [...rows.values()], spared: nodes.flatMap((node) => node.buffers).filter((name) => buffers.get(name)?.removed).map((name) => buffers.get(name)) };
}

/** What became of an ATen node's result, in words. */
function fateInWords(node) {
  const bytes = node.bytes === null ? "" : bytesInWords(node.bytes);
  if (node.part_of) return `${say("fate.part", { node: node.part_of })}${node.buffer ? say("fate.kept", { buffer: node.buffer }) : ""}`;
  switch (node.fate) {
    case "materialised": return `${say("fate.materialised")}${node.buffer ? say("fate.as", { buffer: node.buffer }) : ""}${bytes && `, ${bytes}`}`;
    case "extern call": return `${say("fate.extern call")}${node.buffer ? say("fate.into", { buffer: node.buffer }) : ""}${bytes && `, ${bytes}`}`;
    case "inlined": return `${say("fate.inlined")}${bytes && node.target !== "aten.view.dtype" ? say("fate.so_unwritten", { bytes }) : ""}`;
    case "fused away": if (node.in_template) return say("fate.tile_by_tile", { buffer: node.buffer ?? say("fate.a_buffer") });
      return `${say("fate.fused away", { buffer: node.buffer ?? say("fate.a_buffer") })}${bytes && say("fate.unwritten", { bytes })}`;
    case "view": case "folded": case "inner graph": return say(`fate.${node.fate}`);
    default: return say("fate.other");
  }
}

function bytesInWords(bytes) { return say("bytes", { count: bytes }); }
