// A kernel as a script of its own, to be copied.

/** The script of a kernel: text, and lines that stand in the code pane. */
function scriptOf(app, capture, graph, kernel) {
  const lines = capture.paneById.get(graph.panes.code).lines;
  return kernel.script.map((part) => (typeof part === "string" ? part : `${lines.slice(part[0] - 1, part[1]).map((text) => app.texts[text]).join("\n")}\n`)).join("");
}

/** A button that copies a kernel's script; where the browser forbids that, it shows the script, chosen, to be copied by hand. */
function copyButton(app, capture, graph, kernel) {
  if (!kernel?.script) return null;
  const button = h("button", { type: "button", class: "copy", title: say("copy.title"), onclick: async () => {
    const text = scriptOf(app, capture, graph, kernel);
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = say("copy.done");
    } catch {
      const field = document.getElementById("script-text");
      field.value = text;
      document.getElementById("script").showModal();
      field.select();
    }
  } }, say("copy.button"));
  return button;
}
