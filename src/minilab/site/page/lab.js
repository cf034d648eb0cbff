// The front door's program: what a file is made of and feeds, the search, reports read in place.

const data = JSON.parse(document.getElementById("data").textContent), { text } = data;
const number = new Map(data.files.map((path, index) => [path, index])), missing = new Set(data.missing);
const maker = new Map(), users = new Map(); // by a file's number: its job; the jobs that use it
for (const job of data.jobs) {
  job.of.push(...data.written[job.written]);
  for (const file of job.makes) maker.set(file, job);
  for (const file of job.of) users.set(file, [...(users.get(file) ?? []), job]);
}
let reports = {}; // path -> HTML; until they are unpacked, and where a browser cannot, a report's link leads to its file
const at = (id) => document.getElementById(id);
const fill = (sentence, fields) => sentence.replace(/\{(\w+)\}/g, (_, name) => fields[name]);

/** A file's address as seen from the page, and the path of the file that an address leads to. */
const addressOf = (path) => path.startsWith(data.folder) ? path.slice(data.folder.length) : data.up + path;
function pathAt(address) {
  if (address.startsWith("#file=")) return decodeURIComponent(address.slice(6));
  return address.startsWith(data.up) ? address.slice(data.up.length) : data.folder + address;
}

/** An element with its class, its content (strings and elements), and what else is to be set on it. */
function make(tag, name, content = [], more = {}) {
  const element = Object.assign(document.createElement(tag), more);
  if (name) element.className = name;
  element.append(...[content].flat());
  return element;
}

/** Where a file's name leads: to the file, or to the page's own entry of it when the file is missing. */
const leadingTo = (index) => missing.has(index) ? `#file=${encodeURIComponent(data.files[index])}` : addressOf(data.files[index]);

function fileLink(index) {
  const path = data.files[index], link = make("a", "file", addressOf(path), { href: leadingTo(index) });
  link.dataset.file = path;
  return make("li", "", link);
}

/** A titled list of files: the lab's own first, then code and words, folded when they are many. */
function fileList(title, files, none) {
  const section = make("section", "", make("h3", "", title));
  const isMade = (index) => data.files[index].startsWith(data.home);
  const made = files.filter(isMade), written = files.filter((index) => !isMade(index));
  if (!files.length) section.append(make("p", "note", none));
  if (made.length) section.append(make("ul", "files", made.map(fileLink)));
  if (written.length) {
    const folded = make("details", "", [make("summary", "", fill(text.sources, { count: written.length })), make("ul", "files", written.map(fileLink))]);
    folded.open = !made.length && written.length < 8;
    section.append(folded);
  }
  return section;
}

/** Show a file in the panel: where it comes from, what it is made of, what it feeds. */
function choose(path, focus = true) {
  const index = number.get(path);
  if (index === undefined) return false;
  const job = maker.get(index), body = [], open = [];
  if (path in reports) open.push(make("button", "", text.read, { type: "button", onclick: () => read(path) }));
  if (!missing.has(index)) open.push(make("a", "open", text.open, { href: addressOf(path) }));
  if (open.length) body.push(make("p", "open-it", open));
  if (job) {
    const took = job.time && fill(job.memory ? text.took : text.took_time, job);
    body.push(make("p", "", [make("span", `state ${job.state}`, data.badges[job.state]), ` ${job.says} `, ...(took ? [took] : [])]));
    if (job.reasons.length) body.push(make("ul", "reasons", job.reasons.map((reason) => make("li", "", reason))));
    body.push(make("p", "", [`${text.made_by} `, make("a", "name", job.rule, { href: `#rule-${job.rule}` })]));
  }
  body.push(fileList(text.made_of, job?.of ?? [], job ? text.nothing_known : text.nothing_made_of));
  const fed = [...new Set((users.get(index) ?? []).flatMap((user) => user.makes))];
  body.push(fileList(text.feeds, fed, text.feeds_nothing));
  at("panel-title").textContent = path;
  at("panel-body").replaceChildren(...body);
  at("panel").hidden = false;
  for (const link of document.querySelectorAll("main a.file")) link.classList.toggle("chosen", link.dataset.file === path);
  if (focus) at("panel-title").focus();
  at("panel").scrollTop = 0;
  return true;
}

let opener = null; // what the reader came from, to give the focus back to

function close() {
  at("panel").hidden = true;
  for (const link of document.querySelectorAll("a.file.chosen")) link.classList.remove("chosen");
  if (location.hash.startsWith("#file=")) history.replaceState(null, "", location.pathname);
  opener?.focus();
}

/** Show a Markdown report in place. */
function read(path) {
  at("reader-title").textContent = path;
  at("reader-file").href = addressOf(path);
  at("reader-body").innerHTML = reports[path];
  if (!at("reader").open) at("reader").showModal();
  at("reader-body").scrollTop = 0;
}

/** The report that a link leads to, if it is one that the page holds. */
function reportAt(link) {
  const address = link.getAttribute("href").split("#")[0];
  return Object.keys(reports).find((path) => addressOf(path) === address);
}

/** Undo what packed_json did to the reports. */
async function unpackReports() {
  const bytes = Uint8Array.from(atob(at("reports").textContent), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  reports = await new Response(stream).json();
}

function followAddress() {
  const hash = decodeURIComponent(location.hash);
  if (hash.startsWith("#file=")) choose(hash.slice(6), false);
  const rule = at(hash.slice(1));
  if (!rule?.closest("details")) return;
  for (let one = rule; one; one = one.parentElement.closest("details")) one.open = true; // it may lie in folds
  rule.scrollIntoView({ block: "start" });
  rule.querySelector("summary")?.focus({ preventScroll: true });
}

const MOST_HITS = 30;

function search(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean), list = at("hits");
  const fits = (where) => words.every((word) => where.toLowerCase().includes(word));
  const found = !words.length ? [] : [
    ...[...document.querySelectorAll("details.rule")].filter((rule) => fits(rule.querySelector("summary").textContent)).map((rule) => [`#${rule.id}`, rule.id.slice(5), rule.querySelector(".says").textContent]),
    ...data.files.filter(fits).map((path) => [`#file=${encodeURIComponent(path)}`, path, ""]),
  ];
  list.replaceChildren(...found.slice(0, MOST_HITS).map(([href, name, says]) => make("li", "", make("a", "", [make("b", "", name), ` ${says}`], { href }))));
  list.hidden = !found.length;
  at("found").textContent = words.length ? fill(text.found, { count: found.length }) : "";
}

function clicked(event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const link = event.target.closest("a, button.about");
  if (!event.target.closest("#finder")) at("hits").hidden = true;
  if (!link) return;
  if (link.closest("#hits")) { at("hits").hidden = true; at("query").value = ""; at("found").textContent = ""; }
  const report = link.matches("a[href]") && !link.matches(".open, #reader-file") && (link.closest(".readings, .steps, #reader-body")) && reportAt(link);
  if (report) {
    event.preventDefault();
    read(report);
  } else if (link.dataset.file && !link.closest(".readings a, .steps a, .pictures a") || link.matches("button.about")) {
    event.preventDefault();
    if (!link.closest("#panel")) opener = link;
    if (choose(link.dataset.file)) history.replaceState(null, "", `#file=${encodeURIComponent(link.dataset.file)}`);
    else location.href = link.href; // a file that no job names, such as a script
  } else if (link.hash && link.hash === location.hash) {
    followAddress(); // the address stays as it is, so nothing else would
  }
}

function pressed(event) {
  const typing = event.target.matches("input");
  if (event.ctrlKey || event.metaKey || event.altKey || at("reader").open) return;
  if (event.key === "/" && !typing) {
    event.preventDefault();
    at("query").focus();
  } else if (event.key === "Escape" && typing) {
    at("query").value = "";
    search("");
    at("query").blur();
  } else if (event.key === "Escape" && !at("panel").hidden) {
    close();
  } else if (event.key === "Enter" && typing) {
    at("hits").querySelector("a")?.click();
  } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && event.target.closest("#finder") && !at("hits").hidden) {
    event.preventDefault();
    const stops = [at("query"), ...at("hits").querySelectorAll("a")];
    stops.at((stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)) % stops.length).focus();
  }
}

for (const link of document.querySelectorAll("main a.file")) link.dataset.file = pathAt(link.getAttribute("href"));
listenToTheme(at("theme"), text);
document.addEventListener("click", clicked);
document.addEventListener("keydown", pressed);
at("query").addEventListener("input", () => search(at("query").value));
at("panel-close").addEventListener("click", close);
addEventListener("hashchange", followAddress);
let opened = []; // for the printer, and closed again behind it
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("main details:not([open])")];
  for (const one of opened) one.open = true;
});
addEventListener("afterprint", () => { for (const one of opened) one.open = false; });
unpackReports().catch(() => {}).finally(() => { // reports are files too: without them the page goes on
  followAddress();
  document.documentElement.dataset.ready = Math.round(performance.now()); // milliseconds since the page was asked for
});
