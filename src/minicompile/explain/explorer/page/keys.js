// What the reader presses: controls and keys. The help dialog in explorer.html lists them.

/** Answer to the page's controls and keys. */
function listen(app) {
  const field = document.getElementById("query");
  field.addEventListener("input", () => { clearTimeout(app.typing); app.typing = setTimeout(() => app.search.find(field.value), 120); });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") {
      if (field.value.trim().toLowerCase() !== app.search.query) { clearTimeout(app.typing); app.search.find(field.value); }
      app.search.goTo(app.search.at + (event.shiftKey ? -1 : 1));
      app.chosen?.view.scroller.focus();
    }
    if (event.key === "Escape") { field.value = ""; app.search.find(""); field.blur(); }
    event.stopPropagation();
  });
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest("#finder")) document.getElementById("hits").hidden = true; });
  document.addEventListener("keydown", (event) => pressed(app, event));
  addEventListener("hashchange", () => app.followAddress());
  addEventListener("beforeprint", () => print(app));
  document.getElementById("open-help").addEventListener("click", () => document.getElementById("help").showModal());
  document.getElementById("open-about").addEventListener("click", () => { about(app); document.getElementById("about").showModal(); });
  document.getElementById("why-toggle").addEventListener("click", () => toggleWhy());
  for (const [id, act] of [["wrap", (on) => app.wrap(on)], ["colours", (on) => app.colour(on)]]) {
    const button = document.getElementById(id);
    button.addEventListener("click", () => { const on = button.getAttribute("aria-pressed") !== "true"; button.setAttribute("aria-pressed", on); act(on); });
  }
  listenToTheme(document.getElementById("theme"), { light: say("light"), dark: say("dark") });
}

/** Show or hide the box that says why. */
function toggleWhy() {
  const hidden = document.getElementById("why").classList.toggle("closed"), button = document.getElementById("why-toggle");
  button.textContent = say(hidden ? "show" : "hide");
  button.setAttribute("aria-expanded", !hidden);
}

/** What a key does, anywhere on the page or in the pane that has the focus. */
function pressed(app, event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || event.target.closest("select")) return;
  const view = document.activeElement?.classList.contains("scroller") ? app.focused : null;
  const open = app.columns.filter((column) => column.open && column.view.panes.length).map((column) => column.view);
  const beside = (step) => open[(open.indexOf(view) + step + open.length) % open.length]?.scroller.focus();
  const page = view ? Math.floor(view.scroller.clientHeight / view.rows.height) - 2 : 0;
  const anywhere = {
    "/": () => document.getElementById("query").focus(),
    "?": () => document.getElementById("help").showModal(),
    n: () => app.search.goTo(app.search.at + 1),
    N: () => app.search.goTo(app.search.at - 1),
    b: () => app.nextGraph(),
    w: () => toggleWhy(),
    z: () => document.getElementById("wrap").click(),
    c: () => document.getElementById("colours").click(),
    Escape: () => (!app.intrinsics.tip.hidden ? app.intrinsics.hide() : app.tour.running ? app.tour.end() : app.clear()),
  };
  const inPane = {
    ArrowDown: () => view.move(1), j: () => view.move(1), ArrowUp: () => view.move(-1), k: () => view.move(-1),
    PageDown: () => view.move(page), PageUp: () => view.move(-page), Home: () => view.move(-Infinity), End: () => view.move(Infinity),
    ArrowRight: () => beside(1), l: () => beside(1), ArrowLeft: () => beside(-1), h: () => beside(-1),
    i: () => app.intrinsics.next(view), "]": () => view.stepLit(1), "[": () => view.stepLit(-1), Enter: () => app.pin(view, view.cursor, true), " ": () => app.pin(view, view.cursor),
  };
  const act = anywhere[event.key] ?? (view && inPane[event.key]);
  if (!act) return;
  event.preventDefault();
  act();
}
