// The guess comes before the answer; without this program both stand on the page.
"use strict";

const says = JSON.parse(document.getElementById("sentences").textContent);
const guess = document.getElementById("guess"), answer = document.getElementById("answer");
const form = guess.querySelector("form");

function judge(way, about) {
  const right = way === form.dataset.direction;
  const sentences = [way ? (right ? says.right : says.wrong) : says.unguessed];
  if (about) sentences.push(says.number.replace("{guess}", about).replace("{actual}", form.dataset.actual));
  return sentences.join(" ");
}

form.addEventListener("submit", event => {
  event.preventDefault();
  const given = new FormData(form);
  answer.hidden = false;
  document.getElementById("verdict").textContent = judge(given.get("way"), given.get("about"));
  document.getElementById("answer-title").focus();
});

guess.hidden = false;
answer.hidden = true;
listenToTheme(document.getElementById("theme"), says);
document.documentElement.dataset.ready = "";
