// What was captured, where and how completely; and the page on paper.

function about(app) {
  const rows = (entries) => h("table", {}, h("tbody", {}, ...entries.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, String(value))))));
  document.getElementById("about-body").replaceChildren(...app.captures.flatMap((capture) => {
    const { model, target, environment, compile } = capture;
    const ratio = ([linked, all]) => say("about.of", { linked: String(linked), all: String(all) });
    const kernels = capture.graphs.flatMap((graph) => graph.kernels).length;
    return [
      h("h3", {}, target.label),
      rows([
        [say("about.model"), say("about.model_is", { name: model.name, kind: model.class, inputs: model.inputs.map((input) => `${input.dtype ?? input.kind} ${JSON.stringify(input.size ?? "")}`).join(", ") })],
        [say("about.versions"), Object.entries(environment.versions).map(([name, version]) => `${name} ${version}`).join(", ")],
        [say("about.machine"), [environment.hardware.cpu, environment.hardware.gpu?.name, environment.compiler].filter(Boolean).join(", ")],
        [say("about.compile"), say("about.compile_is", { seconds: written(compile.seconds.toFixed(1)), kernels: String(kernels) })],
        [say("about.graph_breaks"), capture.graph_breaks.length ? capture.graph_breaks.map((each) => `${each.count ?? 1} × ${breakReasons(each).join(", ")}`).join("; ") : say("none")],
        [say("about.recompiles"), capture.recompiles.length ? capture.recompiles.map((each) => (typeof each === "string" ? each : each.reason)).join("; ") : say("none")],
        ...(capture.guards ? [[say("about.guards"), say("about.guards_are", { count: String(capture.guards) })]] : []), // none: not kept
        [say("about.missing"), capture.missing_hooks.length ? say("about.missing_are", { hooks: capture.missing_hooks.join(", ") }) : say("none")],
        [say("about.warnings"), capture.warnings.join(" ") || say("none")],
        ...capture.graphs.map((graph) => [say("about.linked", { graph: graph.id }), say("about.linked_are", { nodes: ratio(graph.coverage.compute_nodes), calls: ratio(graph.coverage.kernel_calls), operations: ratio(graph.coverage.loop_body_operations), lines: ratio(graph.coverage.kernel_lines) })]),
        ...listings(capture),
      ]),
      h("h4", {}, say("about.phases")),
      rows(compile.phases.slice(0, 10).map((phase) => [phase.phase, `${written(phase.seconds.toFixed(3))} s`])),
    ];
  }));
}

const AROUND = 2, MOST_PRINTED = 60; // lines

/** The lit lines of the open panes with what is around them, each pane under its title. */
function print(app) {
  document.getElementById("print").replaceChildren(...app.columns.filter((column) => column.open && column.view.pane).map(({ view, title, capture }) => {
    const lit = new Map(view.lit), wanted = new Set();
    for (const number of [...lit.keys()].slice(0, MOST_PRINTED)) for (let near = -AROUND; near <= AROUND; near++) wanted.add(number + near);
    if (!lit.size) for (let number = 1; number <= MOST_PRINTED; number++) wanted.add(number + view.first);
    const numbers = [...wanted].filter((number) => number >= 1 && number <= view.pane.lines.length).sort((a, b) => a - b);
    return h("section", {}, h("h2", {}, `${title}: ${view.pane.title}${view.pane.graph ? ` (${capture.target.label})` : ""}`),
      h("pre", {}, ...numbers.flatMap((number, index) => [index && number > numbers[index - 1] + 1 ? "  …\n" : "",
        h("span", { class: lit.get(number) ?? "" }, `${String(number).padStart(5)}  ${app.texts[view.pane.lines[number - 1]]}`), "\n"])));
  }));
}

/** How many kernels' longest texts a capture holds, where it does not hold all of them. */
function listings(capture) {
  const kernels = capture.graphs.flatMap((graph) => graph.kernels), parts = [["llir", (kernel) => kernel.assembly?.panes.llir], ["asm", (kernel) => kernel.listing]];
  return parts.map(([kind, of]) => [kind, kernels.filter(of).length]).filter(([, shown]) => shown && shown < kernels.length)
    .map(([kind, shown]) => [say(`kind.${kind}`), say("about.listings", { shown: String(shown), all: String(kernels.length) })]);
}
