// The running trial of each team on a time line: triggers and reports.

import { colour, h, put, s } from "./dom.js";
import { keyOf, linkTo, place, titleOf } from "./format.js";
import { t } from "./i18n.js";

const HEIGHT = 30;
const EDGE = 6;
const SHOWN = 12;

function drawTimeline(key, timeline, width) {
  const x = (at) => EDGE + Math.max(0, Math.min(1, at / timeline.span_s)) * (width - 2 * EDGE);
  const name = `${t("report")}: ${timeline.reports.map((at) => `${at.toFixed(2)} ${t("seconds")}`).join(", ") || "–"}`;
  return s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": name },
    s("rect", { class: "track", x: EDGE, y: 12, width: width - 2 * EDGE, height: 6, rx: 3 }),
    s("rect", { class: `done ${colour(key)}`, x: EDGE, y: 12, width: x(timeline.now_s) - EDGE, height: 6, rx: 3 }),
    timeline.triggers.map(([at, code]) => s("line", { class: "trigger", x1: x(at), x2: x(at), y1: 3, y2: 27 },
      s("title", {}, `${t("trigger")} ${code} · ${at.toFixed(2)} ${t("seconds")}`))),
    timeline.reports.map((at) => s("circle", { class: `report ${colour(key)}`, cx: x(at), cy: 15, r: 6 },
      s("title", {}, `${t("report")} · ${at.toFixed(2)} ${t("seconds")}`))));
}

export function drawTimelines(node, rows, timelines) {
  const active = rows.filter((row) => timelines[keyOf(row)]);
  if (active.length === 0) {
    put(node, h("p", { class: "empty" }, t("noTrial")));
    return;
  }
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16; // larger on a projector
  const width = Math.max(200, node.clientWidth / rem);
  const items = active.slice(0, SHOWN).map((row) => {
    const timeline = timelines[keyOf(row)];
    return h("li", {},
      h("div", { class: "timeline-name" }, h("a", { href: linkTo(row) }, titleOf(row)),
        h("small", {}, place(timeline))),
      drawTimeline(keyOf(row), timeline, width));
  });
  const first = timelines[keyOf(active[0])];
  const scale = h("div", { class: "scale", "aria-hidden": "true" },
    h("span", {}, `0 ${t("seconds")}`), h("span", {}, `${first.span_s} ${t("seconds")}`));
  const rest = active.length - SHOWN;
  put(node, h("ul", { class: "timelines" }, items), scale,
    rest > 0 ? h("p", { class: "empty" }, t("more", { n: rest })) : []);
}
