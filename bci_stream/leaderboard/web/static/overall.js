// The standing over all tracks, and the awards, which a published copy of the page has.

import { h, put } from "./dom.js";
import { linkTo, score, titleOf } from "./format.js";
import { t } from "./i18n.js";
import { nameOf } from "./names.js";

export const ALL_TRACKS = "all-tracks";

function panel(name, headings, rows, rule = null) {
  return h("section", { class: "panel" }, h("h2", {}, t(name)), rule && h("p", { class: "hint" }, rule), h("div", { class: "scroll" },
    h("table", { class: "trials" }, h("caption", { class: "unseen" }, t(name)),
      h("thead", {}, h("tr", {}, headings.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell))))))));
}

function standingPanel(standing) {
  const tracks = Object.keys(standing[0].places);
  return panel("allTracks", [t("rank"), t("team"), ...tracks.map(nameOf), t("sum")],
    standing.map((row) => [row.rank, titleOf(row), ...tracks.map((track) => row.places[track] ?? "–"), row.total]), t("standingRule"));
}

function awardsPanel(awards) {
  return panel("awards", [t("award"), t("tracks"), t("team"), t("rank"), t("score"), t("prize")],
    awards.map((given) => [given.award, nameOf(given.track), h("a", { href: linkTo(given) }, titleOf(given)),
      given.rank, score(given.score), given.prize]));
}

export function drawOverall(node, standing, awards) {
  put(node, h("h1", { class: "unseen" }, t("allTracks")), h("div", { class: "wide" },
    awards.length ? awardsPanel(awards) : null, standing.length ? standingPanel(standing) : null));
}
