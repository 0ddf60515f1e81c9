// Reasons of verdicts and of how a run ended, in words: a code with parameters and a table of templates per language.
// The judge serves the tables (tracks/common/words.py); a reason without a code is free text and is shown as it is.

import { currentLanguage } from "./i18n.js";
import { nameIn } from "./names.js";
import { addressOf } from "./source.js";

const tables = await fetchTables();

async function fetchTables() {
  try {
    const answer = await fetch(addressOf("words"));
    return answer.ok ? await answer.json() : {};
  } catch {
    return {}; // the page shows the English text instead
  }
}

// The format specifications of Python that the tables use: ".2f", "g" and none.
function formatNumber(value, spec) {
  if (spec === "g") return String(Number(value.toPrecision(6)));
  return spec ? value.toFixed(Number.parseInt(spec.slice(1), 10)) : String(value);
}

function formatParameter(language, table, value, spec) {
  if (value === null || value === undefined) return "–";
  if (Array.isArray(value)) return value.join(table.between_items);
  if (typeof value === "object") return words(language, table, value);
  return typeof value === "number" ? formatNumber(value, spec) : nameIn(language, String(value));
}

function words(language, table, { code, parameters }) {
  if (!Object.hasOwn(table.templates, code)) return String(code);
  return table.templates[code].replace(/\{(\w+)(?::([^}]+))?\}/g, (_, name, spec) =>
    formatParameter(language, table, parameters?.[name], spec));
}

// item: a row, trial or verdict; its `reasons` are codes and its `reason` is the same in English.
export function reasonIn(language, item) {
  const table = tables[language];
  const known = item.reasons?.length && table && item.reasons.every(({ code }) => Object.hasOwn(table.templates, code));
  return known ? item.reasons.map((reason) => words(language, table, reason)).join(table.between_reasons) : item.reason;
}

export function reason(item) {
  return reasonIn(currentLanguage(), item);
}
