// What Inductor chose between: candidates as bars, and what passes, heuristics and clocks decided.

const CHOICE_KINDS = ["algorithm", "clock", "heuristic", "pattern", "decomposition", "layout", "absent"];

/** The button and the dialog, where a capture holds choices. */
function offerChoices(app) {
  if (!app.captures.some((capture) => capture.choices.length)) return;
  const body = h("div", { class: "choices-body" });
  const dialog = h("dialog", { id: "choices", "aria-labelledby": "choices-title" }, h("h2", { id: "choices-title" }, say("choices.title")), body,
    h("form", { method: "dialog" }, h("button", {}, say("choices.close"))));
  document.body.append(dialog);
  const open = () => {
    if (!body.children.length) body.append(...app.captures.flatMap((capture) => choicesOf(app, capture, dialog)));
    dialog.showModal();
  };
  document.getElementById("open-about").before(h("button", { type: "button", id: "open-choices", onclick: open }, say("choices.button")));
}

function choicesOf(app, capture, dialog) {
  const seen = { app, capture, dialog };
  const sections = CHOICE_KINDS.map((kind) => [kind, capture.choices.filter((choice) => choice.kind === kind)]).filter(([, found]) => found.length);
  return [h("h3", {}, capture.target.label), capture.target.simulated ? h("p", { class: "note" }, say("choices.simulated")) : null,
    ...sections.map(([kind, found], place) => h("details", { class: `choice ${kind}`, open: place === 0 },
      h("summary", {}, say("choices.section", { name: say(`choices.kind.${kind}`), count: grouped(found.length) })), ...CHOICE_CARDS[kind](found, seen)))].filter(Boolean);
}

const CHOICE_CARDS = {
  algorithm: (found, seen) => found.map((choice) => choiceCard(
    [h("b", {}, choice.operation), " ", tensors(choice.inputs)],
    h("p", {}, decided(choice)),
    nodeLinks(choice.nodes.map((name, place) => ({ name, pane: graphOf(seen, choice).panes.aten, line: choice.lines[place] })), seen),
    bars(choice.candidates.map((one) => ({ ...one, label: candidateName(one), note: one.reason && say(`choices.reason.${one.reason.code}`, { message: "", ...one.reason }), code: seen.capture.candidate_sources?.[one.source] }))))),
  clock: (found, seen) => found.map((choice) => choiceCard(
    [h("b", {}, choice.operation), " ", tensors(choice.inputs)],
    h("p", {}, say(`choices.clock.${choice.how}`), " ", say(choice.padded ? "choices.clock.padded" : "choices.clock.plain")),
    nodeLinks(choice.nodes, seen),
    choice.plain_ms === null ? null : bars([{ label: say("choices.clock.as_it_is"), milliseconds: choice.plain_ms, chosen: !choice.padded }, { label: say("choices.clock.with_padding"), milliseconds: choice.padded_ms, chosen: choice.padded }]))),
  heuristic: (found, seen) => found.map((choice) => choiceCard(
    [h("code", {}, choice.kernel)],
    h("p", {}, say("choices.heuristic.hints", { heuristic: choice.heuristic, sizes: listed(choice.size_hints) }), choice.reduction_hint ? say("choices.heuristic.reduction", { hint: choice.reduction_hint }) : "", ". ", say(`choices.heuristic.${choice.decided}`)),
    kernelLink(choice, seen),
    bars(choice.configurations.map((one) => ({ ...one, label: listed(one.configuration) + (one.proposed ? "" : say("choices.heuristic.found")) }))))),
  pattern: (found, seen) => [...Map.groupBy(found, (choice) => `${choice.pattern} ${choice.stage} ${choice.graph}`).values()].map((alike) => choiceCard(
    [h("code", {}, alike[0].pattern)],
    h("p", {}, say("choices.pattern.matched", { count: alike.length }), say(`choices.pattern.stage.${alike[0].stage ?? "other"}`)),
    ...folded(alike, (choice) => h("li", {}, ...placedNodes(choice.before, seen), h("span", { class: "arrow" }, say("choices.pattern.became")), ...placedNodes(choice.after, seen))))),
  decomposition: (found) => [table([say("choices.decomposition.operation"), say("choices.decomposition.times"), say("choices.decomposition.became")],
    found.map((choice) => h("tr", {}, h("th", { scope: "row" }, code(choice.operation)), h("td", {}, grouped(choice.count)), h("td", {}, Object.entries(choice.became).map(([name, count]) => `${grouped(count)} × ${name}`).join(", ") || say("choices.decomposition.nothing")))))],
  layout: (found, seen) => found.map((choice) => choiceCard(
    [h("code", {}, choice.by)],
    h("p", {}, say(`choices.layout.${choice.wanted.code}`, { values: (choice.wanted.values ?? []).join(", ") }), say(choice.copied ? "choices.layout.copied" : "choices.layout.kept")),
    ...(choice.demands.length ? folded(choice.demands, (demand) => h("li", {}, ...placedNodes([demand], seen), demand.buffer ? say("choices.layout.buffer", { buffer: demand.buffer }) : "")) : []))),
  absent: (found) => found.map((choice) => h("p", {}, say("choices.absent", { names: choice.names.join(", ") }))),
};

function choiceCard(title, ...children) { return h("article", {}, h("h4", {}, ...title), ...children.filter(Boolean)); }
function graphOf({ capture }, choice) { return capture.graphs.find((graph) => graph.id === choice.graph); }
function listed(record) { return Object.entries(record).map(([name, value]) => `${name} ${value}`).join(", "); }
function tensors(all) { return all.map((one) => `${one.dtype} (${(one.size ?? []).join(", ")})`).join(" × "); }
function candidateName(one) { return [one.name, listed(one.configuration)].filter(Boolean).join(": "); }

function decided(choice) {
  const { name, milliseconds } = choice.candidates.find((one) => one.chosen) ?? choice.candidates[0];
  const deferred = choice.deferred && ["timed", "simulated"].includes(choice.decided) ? ` ${say(`choices.deferred.${choice.decided}`)}` : "";
  if (choice.decided !== "timed") return say(`choices.decided.${choice.decided}`, { name }) + deferred;
  return say("choices.decided.timed", { name, time: three(milliseconds) }) + (choice.margin ? say("choices.decided.margin", { ratio: three(choice.margin) }) : ".") + deferred;
}

/** Candidates by time: the longest bar is the slowest; those that were not timed come with the reason. */
function bars(candidates) {
  const slowest = Math.max(...candidates.map((one) => one.milliseconds ?? 0));
  return h("ol", { class: "bars" }, ...candidates.map((one) => h("li", { class: one.chosen ? "won" : null },
    h("span", { class: "candidate" }, one.label, one.chosen ? h("span", { class: "badge" }, say("choices.chosen")) : null),
    typeof one.milliseconds === "number" ? h("span", { class: "time" }, h("span", { class: "bar", style: `width: ${(100 * one.milliseconds) / slowest}%` }), h("span", {}, say("choices.ms", { time: three(one.milliseconds) }))) : null,
    one.note ? h("span", { class: "note" }, one.note) : null,
    one.code ? codeOf(one) : null)));
}

/** A candidate's code, written out when it is asked for. */
function codeOf(one) {
  const made = h("details", { ontoggle: () => { if (made.open && made.children.length === 1) made.append(h("pre", { tabindex: 0, role: "region", "aria-label": say("choices.code_of", { name: one.name }) }, one.code)); } }, h("summary", {}, say("choices.code_of", { name: one.name })));
  return made;
}

function placedNodes(nodes, seen) { return nodes.flatMap((node, place) => [place ? ", " : "", nodeLink(node, seen)]); }
function nodeLinks(nodes, seen) { return nodes.length ? h("p", {}, say("choices.nodes"), ...placedNodes(nodes, seen)) : null; }

/** A node's name, which leads to its line where a pane shows it. */
function nodeLink(node, { app, capture, dialog }) {
  const named = node.target && !node.target.includes(node.name) ? `${node.name} (${node.target})` : node.name;
  if (!node.line || !capture.paneById.has(node.pane)) return h("code", {}, named);
  return h("button", { type: "button", class: "link", onclick: () => { dialog.close(); app.choose(capture, `${node.pane}:${node.line}`); } }, named);
}

function kernelLink(choice, seen) {
  const graph = graphOf(seen, choice), kernel = graph.kernels.find((each) => each.name === choice.kernel);
  return kernel ? nodeLinks([{ name: choice.kernel, pane: graph.panes.code, line: kernel.first }], seen) : null;
}
