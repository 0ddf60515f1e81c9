// Numbers as the page shows them.

import { t } from "./i18n.js";
import { nameOf } from "./names.js";

export function keyOf(row) {
  return `${row.track}/${row.team}`;
}

// The name that people read: the display name, or the id of a team that has none.
export function titleOf(row) {
  return row.name || row.team;
}

export function linkTo(row) {
  return `#/${encodeURIComponent(row.track)}/${encodeURIComponent(row.team)}`;
}

export function score(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 1 : size >= 1 ? 2 : 3);
}

export function percent(value) {
  return value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`;
}

export function seconds(value) {
  return value === null || value === undefined ? "–" : `${value.toFixed(2)} ${t("seconds")}`;
}

export function used(row) {
  if (row.used === null || row.used === undefined) return "–";
  return `${row.used.toFixed(2)} ${row.used_unit === "s" ? t("seconds") : nameOf(row.used_unit)}`;
}

export function latency(row) {
  if (row.latency_p50_s === null || row.latency_p50_s === undefined) return "–";
  const text = (value) => (1000 * value).toFixed(value < 0.01 ? 1 : 0);
  return `${text(row.latency_p50_s)} / ${text(row.latency_p99_s)} ms`;
}

// What the host measured of a submission: numbers, with the unit of their column.
export function figure(value, name) {
  if (value === null || value === undefined) return "–";
  const unit = { size: " MiB", reaction: " ms" }[name] ?? "";
  return `${Number(value.toPrecision(3))}${unit}`;
}

export function status(row) {
  return t(row.status, { s: row.lag_s.toFixed(1) });
}

export function clock(s) {
  const minutes = Math.floor(s / 60);
  return `${minutes}:${String(Math.floor(s % 60)).padStart(2, "0")}`;
}

// A verdict in words: right, wrong, partly and how much, or a measured score.
export function mark(verdict) {
  if (verdict.mark === "measured") return score(verdict.share);
  if (verdict.mark === "partly" && verdict.share !== null) return percent(verdict.share);
  return t(verdict.mark);
}

export function place(item) {
  if (!item.subject) return ""; // its first subject has not begun
  const words = { subject: item.subject, block: item.block + 1, trial: (item.trial ?? 0) + 1 };
  return t(item.trial === null ? "blockOf" : "subjectOf", words);
}
