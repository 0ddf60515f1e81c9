// The state of the page: a snapshot and the updates after it.

import { addSignal, clearSignals } from "./signal.js";
import { keyOf } from "./format.js";
import { giveColours } from "./dom.js";
import { addNames } from "./names.js";

const VERDICTS_KEPT = 400;

export const state = { contest: null, tracks: {}, rows: new Map(), history: {}, timelines: {}, verdicts: [], alarms: [], announcement: "", standing: [], awards: [] };

// A verdict on a trial that is listed already replaces the earlier one.
function withVerdicts(listed, added) {
  const trialOf = (row) => JSON.stringify([row.track, row.team, row.subject, row.session, row.block, row.trial]);
  const replaced = new Set(added.map(trialOf));
  return [...listed.filter((row) => !replaced.has(trialOf(row))), ...added].slice(-VERDICTS_KEPT);
}

function addSignals(pieces) {
  for (const [track, piece] of Object.entries(pieces ?? {})) addSignal(track, piece);
}

export function takeSnapshot(snapshot) {
  state.contest = snapshot.contest;
  state.tracks = snapshot.tracks;
  addNames(snapshot.tracks);
  state.rows = new Map(snapshot.rows.map((row) => [keyOf(row), row]));
  giveColours(snapshot.rows);
  state.history = snapshot.history;
  state.timelines = snapshot.lanes;
  state.verdicts = snapshot.verdicts;
  state.alarms = snapshot.alarms;
  state.announcement = snapshot.announcement ?? "";
  state.standing = snapshot.standing ?? [];
  state.awards = snapshot.awards ?? [];
  clearSignals();
  addSignals(snapshot.signal);
}

export function takeUpdate(update) {
  Object.assign(state.tracks, update.tracks);
  addNames(update.tracks);
  for (const row of update.rows ?? []) state.rows.set(keyOf(row), { ...state.rows.get(keyOf(row)), ...row });
  giveColours(update.rows ?? []);
  for (const key of update.restarted ?? []) state.history[key] = [];
  for (const [key, points] of Object.entries(update.history ?? {})) {
    state.history[key] = [...(state.history[key] ?? []), ...points];
  }
  for (const [key, timeline] of Object.entries(update.lanes ?? {})) {
    if (timeline === null) delete state.timelines[key];
    else state.timelines[key] = timeline;
  }
  if (update.verdicts) state.verdicts = withVerdicts(state.verdicts, update.verdicts);
  state.alarms = update.alarms ?? state.alarms;
  state.announcement = update.announcement ?? state.announcement;
  state.standing = update.standing ?? state.standing;
  addSignals(update.signal);
}

export function rowsOf(track) {
  return [...state.rows.values()].filter((row) => row.track === track).sort((a, b) => a.order - b.order);
}
