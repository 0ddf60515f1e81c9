// Score over time: one stepped line per team, the best eight in colour.

import { clockTicks, colour, h, put, s, ticks } from "./dom.js";
import { clock, keyOf, score, titleOf } from "./format.js";
import { t } from "./i18n.js";

const COLOURED = 8;
const LONGEST_NAME = 15;

// Sizes in the pixels and letters of the screen, so that the chart can be read on a phone too.
function measure(node) {
  const letter = parseFloat(getComputedStyle(node).fontSize) * 0.8;
  const width = Math.max(280, node.clientWidth);
  return {
    width, letter, height: Math.max(12 * letter, node.clientHeight),
    left: 3.2 * letter, right: 9.6 * letter, top: letter, bottom: 2 * letter,
  };
}

function stepped(points, x, y, end) {
  let path = "";
  let last = 0;
  for (const [time, value] of points) {
    path += path ? `H${x(time).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    last = value;
  }
  return `${path}H${x(end).toFixed(1)}V${y(last).toFixed(1)}`;
}

// After one trial a score is all or nothing, so the first fifth of the time does not set the scale.
function scale(lines, end) {
  const since = 0.2 * end;
  const standing = lines.flatMap(({ points }) =>
    points.filter((_, i) => i === points.length - 1 || points[i + 1][0] >= since).map((point) => point[1]));
  const low = Math.min(0, ...standing);
  return { low, high: low + 1.08 * Math.max(1e-3, Math.max(...standing) - low) };
}

function axes(x, y, end, { low, high }, m) {
  const across = ticks(low, high, 4).map((value) => s("g", { class: "grid" },
    s("line", { x1: m.left, x2: m.width - m.right, y1: y(value), y2: y(value) }),
    s("text", { x: m.left - 0.5 * m.letter, y: y(value) + 0.35 * m.letter, "text-anchor": "end" }, value)));
  const along = clockTicks(end, m.width > 500 ? 6 : 3).map((value) =>
    s("text", { class: "grid", x: x(value), y: m.height - 0.3 * m.letter, "text-anchor": "middle" }, clock(value)));
  return [across, along];
}

// Labels at the ends of the lines, moved apart so that none covers another.
function endLabels(lines, x, y, end, m) {
  const labels = lines.map((line) => ({ ...line, at: y(line.last) })).sort((a, b) => a.at - b.at);
  for (let i = 1; i < labels.length; i += 1) labels[i].at = Math.max(labels[i].at, labels[i - 1].at + 1.25 * m.letter);
  const over = labels.length ? labels.at(-1).at - (m.height - m.bottom) : 0;
  if (over > 0) for (const label of labels) label.at -= over;
  return labels.map((label) => s("text",
    { class: `end ${colour(label.key)}`, x: x(end) + 0.7 * m.letter, y: label.at + 0.35 * m.letter },
    label.team.length > LONGEST_NAME ? `${label.team.slice(0, LONGEST_NAME - 1)}…` : label.team));
}

// Whether the space for the chart has changed since it was drawn.
export function outgrown(node) {
  const drawn = node.querySelector("svg")?.viewBox.baseVal.height;
  return drawn !== undefined && Math.abs(drawn - node.clientHeight) > 1;
}

export function drawChart(node, rows, history) {
  const lines = rows.map((row) => ({ key: keyOf(row), team: titleOf(row), points: history[keyOf(row)] ?? [] }))
    .filter((line) => line.points.length > 0)
    .map((line) => ({ ...line, last: line.points.at(-1)[1] }));
  if (lines.length === 0) {
    put(node, h("p", { class: "empty" }, t("noScores")));
    return;
  }
  const end = Math.max(1, ...lines.map((line) => line.points.at(-1)[0]));
  const span = scale(lines, end);
  const m = measure(node);
  const x = (time) => m.left + (time / end) * (m.width - m.left - m.right);
  const y = (value) => m.height - m.bottom - ((value - span.low) / (span.high - span.low)) * (m.height - m.top - m.bottom);
  const best = lines.slice(0, COLOURED);
  const label = best.map((line) => `${line.team} ${score(line.last)}`).join(", ");
  put(node, s("svg",
    { viewBox: `0 0 ${m.width} ${m.height}`, class: "chart", role: "img", "aria-label": `${t("overTime")}: ${label}` },
    s("clipPath", { id: "plot" }, s("rect", { x: 0, y: 0, width: m.width, height: m.height - m.bottom + 2 })),
    axes(x, y, end, span, m),
    s("g", { "clip-path": "url(#plot)" },
      lines.slice(COLOURED).map((line) => s("path", { class: "curve rest", d: stepped(line.points, x, y, end) })),
      best.toReversed().map((line) =>
        s("path", { class: `curve ${colour(line.key)}`, d: stepped(line.points, x, y, end) }))),
    best.map((line) => s("circle", { class: `dot ${colour(line.key)}`, cx: x(end), cy: y(line.last), r: 3.5 })),
    endLabels(best, x, y, end, m)));
}
