// Where Dynamo stopped and went on with another graph, and why it compiled a frame again.

/** The places that break the graph in a capture, each with the source line where Dynamo stopped, as `pane:number`, if it is shown. */
function breaksOf(capture) {
  return (capture.graph_breaks ?? []).map((each) => {
    const frame = (each.stack ?? []).findLast(({ pane }) => pane && capture.paneById.has(pane));
    return { ...each, at: frame ? `${frame.pane}:${frame.line}` : null };
  });
}

/** The breaks on a source line. */
function breaksAt(capture, line) { return capture.breaks.filter((each) => each.at === line); }

/** Between which graphs a break lies, in words; of a capture that does not say, how often it came. */
function breakPlace(each) {
  if (!("after" in each || "before" in each)) return say("breaks.count", { count: each.count ?? 1 });
  if (each.after === null && each.before === null) return say("breaks.no_graph");
  if (each.after === null) return say("breaks.before", { before: String(each.before) });
  return each.before === null ? say("breaks.after", { after: String(each.after) }) : say("breaks.between", { after: String(each.after), before: String(each.before) });
}

/** One break in words: between which graphs, and Dynamo's reason. */
function breakInWords(each) {
  return [h("b", {}, breakPlace(each)), " ", each.reason, each.explanation ? h("small", {}, " ", each.explanation) : null];
}

/** A place that breaks the graph as an item of a list: where, and why; of several ways to it how often, and each folded below. */
function breakItem(app, capture, each) {
  const pane = each.at && capture.paneById.get(paneOf(each.at)), ways = each.ways ?? [each];
  return h("li", {}, pane ? h("button", { type: "button", class: "link", onclick: () => app.choose(capture, each.at) }, `${pane.title}:${numberOf(each.at)}`) : "",
    " ", ...(ways.length === 1 ? breakInWords(ways[0]) : [h("b", {}, say("breaks.count", { count: each.count })), " ", breakReasons(each).join("; "),
      h("details", {}, h("summary", {}, say("breaks.ways", { count: String(ways.length) })), h("ul", {}, ...ways.map((way) => h("li", {}, ...breakInWords(way), " ", h("small", {}, wayThere(way))))))]));
}

/** Why Dynamo stopped at a place, each reason once. */
function breakReasons(each) { return [...new Set((each.ways ?? [each]).map((way) => way.reason))]; }

/** The calls through which Dynamo came to a place. */
function wayThere(way) { return (way.stack ?? []).map((frame) => `${frame.file}:${frame.line}`).join(" → "); }

/** The breaks on a chosen source line; null without any. */
function breakCard(app, capture, line) {
  const found = breaksAt(capture, line);
  return found.length ? card(say("breaks.here", { count: found.length }), h("ul", {}, ...found.map((each) => breakItem(app, capture, each)))) : null;
}

/** All graph breaks and recompiles of a capture; null without either. */
function breaksCard(app, capture) {
  const again = (capture.compiles ?? []).filter((each) => each.reason).map((each) => say("breaks.recompile", { frame: each.id ?? "", function: each.function ?? "", reason: each.reason }));
  const recompiles = again.length ? again : (capture.recompiles ?? []).map((each) => (typeof each === "string" ? each : each.reason ?? JSON.stringify(each)));
  if (!capture.breaks.length && !recompiles.length) return null;
  return card(say("breaks.title", { breaks: counted(capture.breaks.length, "break"), recompiles: counted(recompiles.length, "recompile") }),
    ...folded([...capture.breaks.map((each) => breakItem(app, capture, each)), ...recompiles.map((each) => h("li", {}, each))], (item) => item));
}

/** Buttons for a few graphs; a list, by Dynamo's graph, for many. */
function graphSwitch(app, graphs) {
  const several = new Set(graphs.map((graph) => graph.index)).size > 1;
  const name = (graph) => `${say(`bar.${graph.direction}`)}${several ? ` ${graph.index}` : ""}`;
  if (graphs.length < 2) return [];
  if (graphs.length <= FEW_GRAPHS) return graphs.map((graph) => h("button", { type: "button", "data-graph": graph.id, "aria-pressed": graph.id === app.graph.id, onclick: () => app.showGraph(graph.id) }, name(graph)));
  const groups = [...Map.groupBy(graphs, (graph) => graph.index)].map(([index, of]) => h("optgroup", { label: say("bar.dynamo_graph", { index: String(index) }) }, ...of.map((graph) => h("option", { value: graph.id }, name(graph)))));
  const choice = h("select", { id: "graph", "aria-label": document.getElementById("graphs").getAttribute("aria-label"), onchange: () => app.showGraph(choice.value) }, ...groups);
  return [choice];
}

const FEW_GRAPHS = 4;
