// The page's words, in its language, and how that language writes numbers. A key is the path into locale/, joined by dots.

const words = JSON.parse(document.getElementById("words").textContent);

/** A number as JavaScript writes it in English, in the page's language. */
function written(number) { return String(number).replace(/[.,%]/g, (mark) => words.marks[mark] ?? mark); }

/** A count with its thousands set apart. */
function grouped(count) { return written(count.toLocaleString("en")); }

/** The sentence of a key, its fields filled in; where it depends on a number, that is the field `count`. */
function say(key, fields = {}) {
  const sentence = words.sentences[key];
  if (sentence === undefined) throw new Error(`no words for ${key}`);
  const chosen = typeof sentence === "string" ? sentence : sentence[fields.count === 1 ? "one" : "other"];
  return chosen.replace(/{(\w+)}/g, (_, name) => (typeof fields[name] === "number" ? grouped(fields[name]) : fields[name]));
}
