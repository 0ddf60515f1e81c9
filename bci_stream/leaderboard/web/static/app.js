// The page: receives the judge's events, and draws the leaderboard of a track or a team's own page.

import { drawChart, outgrown } from "./chart.js";
import { h, put } from "./dom.js";
import { keyOf, linkTo, mark, place, score, titleOf } from "./format.js";
import { labelPage, remember, switchLanguage, t, theme } from "./i18n.js";
import { nameOf, namesOf } from "./names.js";
import { ALL_TRACKS, drawOverall } from "./overall.js";
import { drawSignal, hasSignal } from "./signal.js";
import { reason } from "./words.js";
import { addressOf, isPublished } from "./source.js";
import { rowsOf, state, takeSnapshot, takeUpdate } from "./state.js";
import { drawTable } from "./table.js";
import { drawTeam } from "./team.js";
import { drawTimelines } from "./timelines.js";

const main = document.getElementById("main");
const TEAM_REFRESH_MS = 1000;
const HEARTBEAT_LOST_MS = 40000;
const RETRY_MS = 2000;
const ALARMS_SHOWN = 3;
let panels = null; // the nodes of the track view, null while a team's page is shown
let shown = "";
let leader = "";
let teamDrawnAt = 0;
let teamTimer = 0;
let lastMessageAt = Date.now();

function route() {
  const [track, team] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const first = Object.keys(state.tracks)[0] ?? "";
  const isKnown = track in state.tracks || (track === ALL_TRACKS && hasOverall());
  return { track: isKnown ? track : first, team: team ?? "" };
}

function hasOverall() {
  return state.standing.length + state.awards.length > 0;
}

function section(name, className, body) {
  return h("section", { class: `panel ${className}` }, h("h2", { "data-i18n": name }, t(name)), body);
}

function layTrack() {
  panels = {
    table: h("div", { class: "scroll" }), chart: h("div", { class: "plot" }), timelines: h("div", {}),
    signal: h("canvas", { class: "signal", role: "img", "data-i18n-label": "signal", "aria-label": t("signal") }),
    noSignal: h("p", { class: "empty" }, t("noSignal")), verdicts: h("ol", { class: "verdicts" }),
  };
  const signal = h("div", {}, panels.signal, panels.noSignal);
  put(main, h("h1", { class: "unseen" }, `${state.contest.name} · ${nameOf(route().track)}`), h("div", { class: "view" },
    h("div", { class: "wide" }, section("leaderboard", "standings", panels.table), section("overTime", "curves", panels.chart)),
    h("div", { class: "side" }, section("now", "now", panels.timelines), section("signal", "eeg", signal),
      section("verdicts", "feed", panels.verdicts))));
}

function drawVerdicts(track) {
  const items = state.verdicts.filter((verdict) => verdict.track === track).slice(-30).toReversed();
  put(panels.verdicts, items.length ? items.map((verdict) => {
    const reported = verdict.reported ? ` · ${namesOf(verdict.reported)}` : "";
    return h("li", { class: verdict.mark }, h("b", { class: "mark" }, mark(verdict)), " ",
      h("a", { href: linkTo(verdict) }, titleOf(state.rows.get(keyOf(verdict)) ?? verdict)), h("small", {}, ` ${place(verdict)}${reported}`),
      h("span", { class: "why" }, reason(verdict)));
  }) : h("li", { class: "empty" }, t("noVerdicts")));
}

function drawSignalPanel(track) {
  panels.signal.hidden = !hasSignal(track);
  panels.noSignal.hidden = hasSignal(track);
  drawSignal(panels.signal, track);
}

function announce(rows) {
  const first = rows.find((row) => row.rank === 1);
  if (first && first.team !== leader) {
    leader = first.team;
    document.getElementById("announce").textContent =
      t("leads", { team: titleOf(first), score: score(first.score), unit: nameOf(first.unit) });
  }
}

function drawTrack(track, changed) {
  if (panels === null) layTrack();
  const rows = rowsOf(track);
  if (changed("rows")) drawTable(panels.table, rows, state.contest.qualifying);
  if (changed("rows") || changed("lanes")) drawTimelines(panels.timelines, rows, state.timelines);
  if (changed("verdicts")) drawVerdicts(track);
  drawSignalPanel(track);
  if (changed("rows") || changed("history") || outgrown(panels.chart)) drawChart(panels.chart, rows, state.history);
  announce(rows);
}

function drawAlarms() {
  const list = document.getElementById("alarms");
  list.hidden = state.alarms.length === 0;
  put(list, state.alarms.slice(-ALARMS_SHOWN).toReversed().map((alarm) =>
    h("li", {}, `⚠ ${reason(alarm)}${alarm.count > 1 ? ` (×${alarm.count})` : ""}`)));
}

function drawAnnouncement() {
  const line = document.getElementById("announcement");
  line.hidden = state.announcement === "";
  line.textContent = state.announcement;
}

function drawTabs(current) {
  const names = [...Object.keys(state.tracks), ...(hasOverall() ? [ALL_TRACKS] : [])];
  put(document.getElementById("tracks"), names.map((name) => h("a",
    { href: `#/${name}`, "aria-current": name === current ? "page" : null }, name === ALL_TRACKS ? t("allTracks") : nameOf(name))));
}

function drawShell(current) {
  document.getElementById("contest").textContent = state.contest.name;
  document.getElementById("tie-rule").textContent = t("tieRule");
  drawTabs(current);
}

function draw(changed = () => true) {
  if (state.contest === null) return;
  const { track, team } = route();
  const where = `${track}/${team}`;
  if (where !== shown) {
    const moved = shown !== "";
    shown = where;
    document.title = `${state.contest.name} · ${t("leaderboard")}`;
    panels = null;
    put(main);
    changed = () => true;
    if (moved) { // another page begins at its top, for the keyboard too
      main.focus();
      scrollTo(0, 0);
    }
  }
  if (changed("tracks") || changed("standing")) drawShell(track);
  if (changed("alarms")) drawAlarms();
  if (changed("announcement")) drawAnnouncement();
  if (track === ALL_TRACKS) {
    if (changed("standing")) drawOverall(main, state.standing, state.awards);
  } else if (team) drawTeamSoon(track, team, changed("tracks"));
  else drawTrack(track, changed);
}

// A team's page is requested again after updates, at most once a second, and always after the last one.
function drawTeamSoon(track, team, now) {
  const where = shown;
  clearTimeout(teamTimer);
  teamTimer = setTimeout(() => {
    teamDrawnAt = Date.now();
    drawTeam(main, track, team, () => shown === where);
  }, now ? 0 : Math.max(0, teamDrawnAt + TEAM_REFRESH_MS - Date.now()));
}

function showConnection(name) {
  document.getElementById("live").dataset.state = name;
  document.getElementById("live-text").textContent = t(name);
}

// The browser reconnects by itself and sends the id of its last update; the judge answers with the updates
// after it or, if it can't (it was restarted), with a new snapshot.
function connect() {
  const events = new EventSource("/api/v1/events");
  lastMessageAt = Date.now();
  const watch = setInterval(() => {
    // A connection that broke unnoticed (a laptop that slept) gives no error: connect again.
    if (Date.now() - lastMessageAt > HEARTBEAT_LOST_MS) restart(0);
  }, 5000);
  const restart = (wait) => {
    clearInterval(watch);
    events.close();
    setTimeout(connect, wait);
  };
  const receive = (take) => (message) => {
    lastMessageAt = Date.now();
    take(message.data);
  };
  events.onopen = () => showConnection("live");
  events.onerror = () => {
    showConnection("lost");
    if (events.readyState === EventSource.CLOSED) restart(RETRY_MS);
  };
  events.addEventListener("alive", receive(() => {}));
  events.addEventListener("snapshot", receive((data) => {
    takeSnapshot(JSON.parse(data));
    shown = "";
    draw();
  }));
  events.addEventListener("update", receive((data) => {
    const update = JSON.parse(data);
    takeUpdate(update);
    draw((part) => part in update);
  }));
}

// A published copy has one snapshot and no updates.
async function showPublished() {
  const answer = await fetch(addressOf("snapshot"));
  takeSnapshot(await answer.json());
  showConnection("published");
  draw();
}

function setTheme(name) {
  if (name === "dark" || name === "light") document.documentElement.dataset.theme = name;
}

document.getElementById("language").addEventListener("click", () => {
  switchLanguage();
  showConnection(document.getElementById("live").dataset.state);
  shown = "";
  draw();
});
document.getElementById("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(dark ? "light" : "dark");
  remember("theme", dark ? "light" : "dark");
  draw();
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the hash is the page's route
  main.focus();
});
addEventListener("hashchange", () => draw());
addEventListener("resize", () => draw());
setTheme(theme);
labelPage();
showConnection("connecting");
if (isPublished) showPublished();
else connect();
