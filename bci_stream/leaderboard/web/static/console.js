// The operator's console: logs in, shows who is here and how the streams arrive, and sends actions to the judge.

import { offerTracks } from "./console_signal.js";
import { h, put } from "./dom.js";
import { labelPage, switchLanguage, t } from "./i18n.js";
import { reason } from "./words.js";

const POLL_MS = 1000;
const ANSWERS_KEPT = 12;
const node = (id) => document.getElementById(id);
let csrf = "";
let state = null;
let drawn = "";

async function send(path, body) {
  try {
    const answer = await fetch(`/console/${path}`, {
      method: "POST", credentials: "same-origin", body: JSON.stringify(body),
      headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
    });
    return { status: answer.status, ...await answer.json() };
  } catch {
    return { status: 0, done: false, text: t("lost") };
  }
}

async function act(action) {
  const answer = await send("action", action);
  if (answer.status === 401) return showLogin();
  const line = h("li", { class: answer.done ? "done" : "refused" }, `${new Date().toLocaleTimeString()} · ${answer.text}`);
  node("answers").prepend(line);
  while (node("answers").children.length > ANSWERS_KEPT) node("answers").lastChild.remove();
  await poll();
  return answer.done;
}

// Asks for a reason, and for a confirmation, before an action that can't be undone.
function askFor(title, needsReason) {
  const dialog = node("ask");
  node("ask-title").textContent = title;
  node("ask-reason").value = "";
  node("ask-reason").required = needsReason;
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close",
    () => resolve(dialog.returnValue === "yes" ? node("ask-reason").value.trim() : null), { once: true }));
}

function actionButton(word, action, title = "", needsReason = false) {
  const button = h("button", { type: "button", "data-action": action.action }, t(word));
  button.addEventListener("click", async () => {
    if (title === "") return act(action);
    const given = await askFor(title, needsReason);
    if (given !== null) await act(given ? { ...action, reason: given } : action);
  });
  return button;
}

function table(headings, rows) {
  return h("table", {}, h("thead", {}, h("tr", {}, headings.map((word) => h("th", { scope: "col" }, t(word))))),
    h("tbody", {}, rows));
}

function drawReplays() {
  const rows = state.replays.map((replay) => {
    const { track } = replay;
    const what = (word) => `${t(word)}: ${replay.name} (${track})`;
    const buttons = {
      waiting: [actionButton("go", { action: "go", track }), actionButton("pause", { action: "pause", track })],
      running: [actionButton("pause", { action: "pause", track })],
      paused: [actionButton("resume", { action: "resume", track })],
    }[replay.state] ?? [];
    if (replay.state !== "over") buttons.push(actionButton("stop", { action: "stop", track }, what("stop"), true));
    return h("tr", {}, h("th", { scope: "row" }, replay.name), h("td", {}, track), h("td", {}, replay.pace),
      h("td", { class: "state" }, t(replay.state)), h("td", { class: "actions" }, buttons));
  });
  put(node("replays"), rows.length ? table(["replay", "track", "pace", "state", "actions"], rows)
    : h("p", { class: "empty" }, t("noReplays")));
}

function drawTeams() {
  const rows = state.teams.map((entry) => {
    const { team, track } = entry;
    const what = (word) => `${t(word)}: ${team}`;
    const isOut = ["forfeited", "out"].includes(entry.state);
    const isOver = ["finished", "stopped", "crashed", "timeout", "disqualified"].includes(entry.state);
    const buttons = [];
    if (isOut) buttons.push(actionButton("readmit", { action: "readmit", team, track }));
    else if (!isOver) buttons.push(actionButton("forfeit", { action: "forfeit", team, track }, what("forfeit"), true));
    if (entry.state !== "disqualified") {
      buttons.push(actionButton("disqualify", { action: "disqualify", team, track }, what("disqualify"), true));
    }
    return h("tr", { "data-state": entry.state }, h("th", { scope: "row" }, team), h("td", {}, track || "–"),
      h("td", { class: "state" }, t(entry.state)), h("td", { class: "why" }, reason(entry)),
      h("td", {}, entry.software || "–"), h("td", { class: "actions" }, buttons));
  });
  put(node("teams"), rows.length ? table(["team", "track", "state", "why", "software", "actions"], rows)
    : h("p", { class: "empty" }, t("noTeams")));
}

function options(select, values, first) {
  const chosen = select.value;
  put(select, h("option", { value: "" }, first), values.map((value) => h("option", { value }, value)));
  if (values.includes(chosen)) select.value = chosen;
}

function ms(seconds) {
  return seconds === null || seconds === undefined ? "–" : `${(1000 * seconds).toFixed(1).replace("-0.0", "0.0")} ms`;
}

function drawHealth() {
  const links = state.replays.map(({ name, health }) => h("tr", {}, h("th", { scope: "row" }, `${t("replay")} ${name}`),
    [ms(health.link.lag_s), ms(health.link.jitter_s), ms(health.link.worst_s), ms(health.offset_s), "–",
      health.missing, ms(health.sending.lag_s), `${health.silent_s ?? "–"} ${t("seconds")}`].map((text) => h("td", {}, text))));
  const signals = Object.entries(state.signals ?? {}).map(([track, health]) => h("tr", {},
    h("th", { scope: "row" }, `${t("signal")} ${track}`),
    [ms(health.lag_s), ms(health.jitter_s), ms(health.worst_s), ms(health.offset_s), health.gaps, health.lost, "–",
      `${health.silent_s ?? "–"} ${t("seconds")}`].map((text) => h("td", {}, text))));
  put(node("health"), table(["stream", "lag", "jitter", "worst", "offset", "gaps", "lost_samples", "late", "silent"],
    [...links, ...signals]));
}

function draw() {
  node("contest").textContent = `${state.contest} · ${t("console")}`;
  drawHealth();
  offerTracks(Object.keys(state.signals ?? {}));
  // Buttons are drawn again only when something changed: otherwise each poll would take the keyboard focus.
  const now = JSON.stringify([state.teams, state.replays.map(({ health, problems, ...rest }) => rest), document.documentElement.lang]);
  if (now === drawn) return;
  drawn = now;
  drawReplays();
  drawTeams();
  options(node("void").elements.track, [...new Set(state.replays.map(({ track }) => track))], t("anyTrack"));
  options(node("void").elements.team, [...new Set(state.teams.map(({ team }) => team))], t("allTeams"));
}

function showLogin() {
  csrf = "";
  node("desk").hidden = true;
  node("logout").hidden = true;
  node("login").hidden = false;
}

async function poll() {
  let answer;
  try {
    answer = await fetch("/console/state", { credentials: "same-origin" });
  } catch {
    node("connection").textContent = t("lost");
    return;
  }
  if (answer.status === 401) return showLogin();
  if (!answer.ok) {
    node("connection").textContent = (await answer.json()).text;
    return;
  }
  state = await answer.json();
  csrf = state.csrf;
  node("connection").textContent = "";
  node("login").hidden = true;
  node("desk").hidden = false;
  node("logout").hidden = false;
  draw();
}

node("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  const answer = await send("login", { token: node("token").value });
  node("login-answer").textContent = answer.status === 200 ? "" : answer.text;
  if (answer.status !== 200) return;
  node("token").value = "";
  await poll();
});
node("logout").addEventListener("click", async () => {
  await send("logout", {});
  showLogin();
});
node("void").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target.elements;
  const action = {
    action: event.submitter?.value || "void", track: form.track.value, team: form.team.value, session: Number(form.session.value),
    block: Number(form.block.value), reason: form.reason.value.trim(),
  };
  if (form.trial.value !== "" && action.action === "void") action.trial = Number(form.trial.value);
  if (await act(action) && form.reason.value.trim() === action.reason) form.reason.value = "";
});
node("announce-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  await act({ action: "announce", text: event.target.elements.text.value });
});
node("language").addEventListener("click", () => {
  switchLanguage();
  if (state) draw();
});
labelPage();
await poll();
setInterval(() => { if (csrf) poll(); }, POLL_MS);
