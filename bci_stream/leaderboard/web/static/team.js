// A team's own page: its trials, confusion matrix or angle traces, the data it used.

import { drawChart } from "./chart.js";
import { colour, h, put, s } from "./dom.js";
import { keyOf, latency, mark, percent, score, seconds, status, titleOf, used } from "./format.js";
import { t } from "./i18n.js";
import { nameOf, namesOf } from "./names.js";
import { addressOf } from "./source.js";
import { reason } from "./words.js";

const ROWS_SHOWN = 400;

function tile(label, value, unit = "") {
  return h("div", { class: "tile" }, h("dt", {}, label), h("dd", {}, value, unit ? h("small", {}, ` ${unit}`) : null));
}

function summary(row) {
  return h("dl", { class: "tiles" },
    tile(t("rank"), row.rank ?? "–"), tile(t("score"), score(row.score), nameOf(row.unit)),
    row.accuracy === null ? null : tile(t("accuracy"), percent(row.accuracy)),
    row.used === null ? null : tile(t("used"), used(row)),
    tile(t("trials"), row.trials), tile(t("latency"), latency(row)), tile(t("status"), status(row)));
}

function panel(title, hint, ...children) {
  return h("section", { class: "panel" }, h("h2", {}, title), hint ? h("p", { class: "hint" }, hint) : null, ...children);
}

// A box that scrolls has a name and can be reached with the keyboard.
function scrolling(className, name, ...children) {
  return h("div", { class: `scroll ${className}`, tabindex: 0, role: "region", "aria-label": name }, ...children);
}

function usedStrip(trials) {
  const judged = trials.filter((trial) => trial.used_s !== null);
  if (judged.length === 0) return null;
  const high = Math.max(...judged.map((trial) => trial.used_s)) || 1;
  const width = 720;
  const step = width / judged.length;
  const name = (trial) => `${trial.subject} ${trial.block + 1}.${trial.trial + 1}: ${trial.used_s.toFixed(2)} ${t("seconds")}`;
  const bars = judged.map((trial, index) => s("rect", {
    class: `used ${trial.mark}`, x: index * step + Math.min(1, step * 0.1), width: Math.max(0.5, step * 0.8),
    y: 110 - (104 * trial.used_s) / high, height: Math.max(1, (104 * trial.used_s) / high), rx: Math.min(2, step / 4),
  }, s("title", {}, name(trial))));
  return panel(t("usedOf"), null, h("div", { class: "plot low" }, s("svg",
    { viewBox: `0 0 ${width} 112`, preserveAspectRatio: "none", role: "img",
      "aria-label": `${t("usedOf")}: ${judged.length} ${t("trials")}` }, bars)),
  h("div", { class: "scale", "aria-hidden": "true" }, h("span", {}, `max ${high.toFixed(2)} ${t("seconds")}`),
    h("span", { class: "legend" }, ["right", "partly", "wrong"].map((name) => [h("i", { class: name }), t(name)]))));
}

function confusionTable(confusion) {
  const most = Math.max(1, ...confusion.counts.flat());
  const name = (column) => (column === "" ? t("none") : nameOf(column));
  const body = confusion.labels.map((label, i) => h("tr", {}, h("th", { scope: "row" }, name(label)),
    confusion.counts[i].map((count, j) => {
      const cell = h("td", { class: confusion.columns[j] === label ? "hit" : "miss" }, count || "·");
      cell.style.setProperty("--heat", count / most);
      return cell;
    })));
  return panel(t("confusion"), t("confusionHint"), scrolling("", t("confusion"),
    h("table", { class: `confusion${confusion.columns.length > 5 ? " many" : ""}` },
      h("thead", {}, h("tr", {}, h("td", {}), confusion.columns.map((column) => h("th", { scope: "col", class: column === "" ? "none" : null }, name(column))))),
      h("tbody", {}, body))));
}

function trace(rows, joint, low, high) {
  const step = Math.max(1, Math.floor(rows.length / 300));
  let path = "";
  for (let i = 0; i < rows.length; i += step) {
    const y = 84 - (80 * (rows[i][joint] - low)) / (high - low || 1);
    path += `${path ? "L" : "M"}${((300 * i) / Math.max(1, rows.length - 1)).toFixed(1)} ${y.toFixed(1)}`;
  }
  return path;
}

function anglePanel(angles, key) {
  const small = angles.joints.map((joint, j) => {
    const both = [...angles.truth, ...angles.reported].map((row) => row[j]);
    const low = Math.min(...both);
    const high = Math.max(...both);
    return h("figure", {}, h("figcaption", {}, nameOf(joint)), s("svg", { viewBox: "0 0 300 88", role: "img", "aria-label": nameOf(joint) },
      s("path", { class: "measured", d: trace(angles.truth, j, low, high) }),
      s("path", { class: `curve ${colour(key)}`, d: trace(angles.reported, j, low, high) })));
  });
  return panel(t("angles"), null, h("div", { class: "angles" }, small),
    h("div", { class: "scale legend" }, h("span", {}, h("i", { class: "measured" }), t("measured")),
      h("span", {}, h("i", { class: `swatch ${colour(key)}` }), t("predicted"))));
}

const TRIAL_CELLS = {
  subject: (trial) => h("td", {}, trial.subject),
  block: (trial) => h("td", {}, trial.block + 1),
  trial: (trial) => h("td", {}, trial.trial + 1),
  reported: (trial) => h("td", {}, namesOf(trial.reported)),
  truth: (trial) => h("td", {}, nameOf(trial.truth)),
  used: (trial) => h("td", {}, seconds(trial.used_s)),
  verdict: (trial) => h("td", { class: trial.mark }, mark(trial)),
  why: (trial) => h("td", { class: "why" }, reason(trial)),
};
const TRIAL_FIELD = { reported: "reported", truth: "truth", used: "used_s" };

function trialTable(trials) {
  const filled = (name) => !(name in TRIAL_FIELD) || trials.some((trial) => trial[TRIAL_FIELD[name]]);
  const columns = Object.keys(TRIAL_CELLS).filter(filled);
  const body = trials.slice(-ROWS_SHOWN).toReversed().map((trial) =>
    h("tr", {}, columns.map((name) => TRIAL_CELLS[name](trial))));
  return panel(t("trialsOf"), t("closedOnly"), scrolling("tall", t("trialsOf"),
    h("table", { class: "trials" }, h("caption", { class: "unseen" }, t("trialsOf")),
      h("thead", {}, h("tr", {}, columns.map((name) => h("th", { scope: "col" }, t(name))))),
      h("tbody", {}, body))));
}

function sessionTable(sessions, unit) {
  return panel(t("sessions"), null, h("table", { class: "trials" }, h("tbody", {},
    sessions.map((session) => h("tr", {}, h("th", { scope: "row" }, session.subject),
      h("td", {}, `${score(session.score)} ${unit}`))))));
}

async function fetchTeam(track, team) {
  const answer = await fetch(addressOf(`teams/${encodeURIComponent(track)}/${encodeURIComponent(team)}`));
  return answer.ok ? answer.text() : "null";
}

function backLink(track) {
  return h("p", {}, h("a", { href: `#/${encodeURIComponent(track)}` }, `← ${t("back")}`));
}

let drawn = "";

export async function drawTeam(node, track, team, isShown) {
  let text;
  try {
    text = await fetchTeam(track, team);
  } catch {
    return; // the judge is away; the page keeps what it has until it is back
  }
  // The reader may have gone on meanwhile; and what stands there already is left alone.
  if (!isShown() || (text === drawn && node.childElementCount > 0)) return;
  drawn = text;
  const detail = JSON.parse(text);
  if (detail === null) {
    put(node, backLink(track), h("h1", {}, team), h("p", { class: "empty" }, t("unknownTeam")));
    return;
  }
  document.title = `${titleOf(detail.row)} · ${nameOf(track)}`;
  const key = keyOf(detail.row);
  const curve = h("div", { class: "plot" });
  const scrolled = [...node.querySelectorAll(".scroll")].map((box) => [box.scrollLeft, box.scrollTop]);
  put(node,
    backLink(track),
    h("h1", {}, h("span", { class: `swatch ${colour(key)}`, "aria-hidden": "true" }), titleOf(detail.row),
      detail.row.reason ? h("small", { class: "reason" }, reason(detail.row)) : null),
    summary(detail.row),
    h("div", { class: "halves" },
      [
        panel(t("overTime"), null, curve), usedStrip(detail.trials), detail.angles ? anglePanel(detail.angles, key) : null,
        detail.confusion ? confusionTable(detail.confusion) : null,
        detail.sessions?.length ? sessionTable(detail.sessions, nameOf(detail.row.unit)) : null,
      ].filter(Boolean)),
    trialTable(detail.trials));
  drawChart(curve, [detail.row], { [key]: detail.history });
  [...node.querySelectorAll(".scroll")].forEach((box, i) => box.scrollTo(...(scrolled[i] ?? [0, 0])));
}
