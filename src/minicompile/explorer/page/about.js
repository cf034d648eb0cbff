// What was captured, where and how completely; and the page on paper.

function about(app) {
  const rows = (entries) => h("table", {}, h("tbody", {}, ...entries.map(([name, value]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, String(value))))));
  document.getElementById("about-body").replaceChildren(...app.captures.flatMap((capture) => {
    const { model, target, environment, compile } = capture;
    const ratio = ([linked, all]) => `${linked} of ${all}`;
    const kernels = capture.graphs.flatMap((graph) => graph.kernels).length;
    return [
      h("h3", {}, target.label),
      rows([
        ["model", `${model.name} (${model.class}), inputs ${model.inputs.map((input) => `${input.dtype ?? input.kind} ${JSON.stringify(input.size ?? "")}`).join(", ")}`],
        ["versions", Object.entries(environment.versions).map(([name, version]) => `${name} ${version}`).join(", ")],
        ["machine", [environment.hardware.cpu, environment.hardware.gpu?.name, environment.compiler].filter(Boolean).join(", ")],
        ["compile", `${compile.seconds.toFixed(1)} s, hooks on; ${kernels} kernels`],
        ["graph breaks", capture.graph_breaks.length ? capture.graph_breaks.map((each) => `${each.count} × ${each.reason}`).join("; ") : "none"],
        ["recompiles", capture.recompiles.length ? capture.recompiles.join("; ") : "none"],
        ["guards", `${capture.guards} lines, in capture.json`],
        ["links missing", capture.missing_hooks.length ? `kernels are linked as wholes; torch lacks ${capture.missing_hooks.join(", ")}` : "none"],
        ...capture.graphs.map((graph) => [`linked, graph ${graph.id}`, `compute nodes ${ratio(graph.coverage.compute_nodes)}, kernel calls ${ratio(graph.coverage.kernel_calls)}, loop operations ${ratio(graph.coverage.loop_body_operations)}, kernel lines ${ratio(graph.coverage.kernel_lines)} (the others are structure)`]),
        ...capture.choices.map((choice) => [`autotuned ${choice.operation}`, choice.timings.slice(0, 3).map((timing) => `${timing.choice} ${timing.milliseconds} ms`).join("; ")]),
      ]),
      h("h4", {}, "Compile time by phase (they nest, so they overlap)"),
      rows(compile.phases.slice(0, 10).map((phase) => [phase.phase, `${phase.seconds.toFixed(3)} s`])),
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
