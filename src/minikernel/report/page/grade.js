"use strict";
const sentences = JSON.parse(document.getElementById("sentences").textContent);
const search = document.getElementById("search"), problems = document.getElementById("problems");
const rows = [...document.querySelectorAll("tbody tr")];

function show() {
  const asked = search.value.trim().toLowerCase();
  for (const row of rows)
    row.hidden = !row.dataset.student.includes(asked) || (problems.checked && !("problem" in row.dataset));
  const count = rows.filter((row) => !row.hidden).length;
  document.getElementById("shown").textContent = count < rows.length ? sentences.shown.replace("{count}", count) : "";
}
search.addEventListener("input", show);
problems.addEventListener("change", show);
show();
listenToTheme(document.getElementById("theme"), sentences);
