// The leaderboard of one track.

import { colour, h, put } from "./dom.js";
import { figure, keyOf, latency, linkTo, percent, score, status, titleOf, used } from "./format.js";
import { t } from "./i18n.js";
import { nameOf } from "./names.js";
import { reason } from "./words.js";

const ALWAYS = ["rank", "team", "score", "trials", "status"];
const MEASURED = ["channels", "calibration", "size", "reaction"]; // by the host, of submissions of 2026
const COLUMNS = ["rank", "team", "score", "accuracy", "used", "trials", "latency", ...MEASURED, "status"];
const FIELD = { accuracy: "accuracy", used: "used", latency: "latency_p50_s", channels: "leads",
  calibration: "calibration", size: "size_mib", reaction: "reaction_ms" };

// A column that a track's rules leave empty, or that nothing was measured for, is not shown.
function columnsOf(rows) {
  return COLUMNS.filter((name) => ALWAYS.includes(name)
    || rows.some((row) => row[FIELD[name]] !== null && row[FIELD[name]] !== undefined));
}

function heading(columns) {
  return h("thead", {}, h("tr", {}, columns.map((name) =>
    h("th", { scope: "col", class: `k-${name}` }, t(name)))));
}

function cell(name, ...children) {
  return h("td", { class: `k-${name}` }, ...children);
}

function share(value, best) {
  const bar = h("i", { class: "bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", best > 0 && value > 0 ? Math.min(1, value / best) : 0);
  return bar;
}

function statusChip(row) {
  return [
    h("span", { class: `chip ${row.status}` }, status(row)),
    row.reason ? h("span", { class: "reason", title: reason(row) }, reason(row)) : null,
  ];
}

const CELLS = {
  rank: (row) => cell("rank", row.rank ?? "–"),
  team: (row) => h("th", { scope: "row", class: "k-team" },
    h("span", { class: "who" }, h("span", { class: `swatch ${colour(keyOf(row))}`, "aria-hidden": "true" }),
      h("span", {}, h("a", { href: linkTo(row), class: "name" }, titleOf(row)),
        row.qualifies ? h("span", { class: "tick", title: t("qualifies") }, "✓",
          h("span", { class: "unseen" }, ` ${t("qualifies")}`)) : null)),
    h("span", { class: "k-below" }, statusChip(row))),
  score: (row, best) => cell("score", h("b", {}, score(row.rank === null && row.trials === 0 ? null : row.score)),
    " ", h("small", {}, nameOf(row.unit)), share(row.score, best)),
  accuracy: (row) => cell("accuracy", percent(row.accuracy)),
  used: (row) => cell("used", used(row)),
  trials: (row) => cell("trials", row.trials),
  latency: (row) => cell("latency", latency(row)),
  ...Object.fromEntries(MEASURED.map((name) => [name, (row) => cell(name, figure(row[FIELD[name]], name))])),
  status: (row) => cell("status", statusChip(row)),
};

function bodyRow(row, columns, best) {
  const node = h("tr", { "data-key": keyOf(row), class: row.qualifies === false ? "below" : null },
    columns.map((name) => CELLS[name](row, best)));
  node.addEventListener("click", (event) => { // the link in it is for the keyboard
    if (!event.target.closest("a") && getSelection().isCollapsed) location.hash = linkTo(row);
  });
  return node;
}

function lineRow(qualifying, columns) {
  const limits = [];
  if (qualifying.top !== null) limits.push(t("top", { n: qualifying.top }));
  if (qualifying.least_score !== null) limits.push(`≥ ${qualifying.least_score}`);
  return h("tr", { class: "line" }, h("td", { colspan: columns.length },
    h("span", {}, `${t("line")} · ${limits.join(" · ")}`)));
}

// Rows move to their new places in an animation, so that a change of ranks can be seen.
function glide(table, before) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const row of table.querySelectorAll("tr[data-key]")) {
    const old = before.get(row.dataset.key);
    const shift = old === undefined ? 0 : old - row.offsetTop;
    if (shift !== 0) {
      row.animate([{ transform: `translateY(${shift}px)` }, { transform: "none" }],
        { duration: 450, easing: "cubic-bezier(.2,.8,.2,1)" });
    }
  }
}

function places(table) {
  return new Map([...table.querySelectorAll("tr[data-key]")]
    .map((row) => [row.dataset.key, row.offsetTop]));
}

export function drawTable(node, rows, qualifying) {
  if (rows.length === 0) {
    put(node, h("p", { class: "empty" }, t("noTeams")));
    return;
  }
  const before = places(node);
  const columns = columnsOf(rows);
  const best = Math.max(...rows.map((row) => row.score));
  const body = h("tbody", {});
  const drawn = qualifying.top !== null || qualifying.least_score !== null;
  let above = rows.some((row) => row.qualifies);
  for (const row of rows) {
    if (drawn && above && !row.qualifies) {
      body.append(lineRow(qualifying, columns));
      above = false;
    }
    body.append(bodyRow(row, columns, best));
  }
  put(node, h("table", { class: "board" },
    h("caption", { class: "unseen" }, t("leaderboard")), heading(columns), body));
  glide(node, before);
}
