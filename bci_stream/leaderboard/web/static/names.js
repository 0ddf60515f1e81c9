// The names of tracks, classes, joints and units, which the judge sends with each track; others are shown as they are.

import { currentLanguage } from "./i18n.js";

const NAMES = { en: {}, zh: {} };

export function addNames(tracks) {
  for (const { names } of Object.values(tracks ?? {})) {
    for (const language of Object.keys(NAMES)) Object.assign(NAMES[language], names[language]);
  }
}

export function nameIn(language, name) {
  return Object.hasOwn(NAMES[language], name) ? NAMES[language][name] : name;
}

export function nameOf(name) {
  return nameIn(currentLanguage(), name);
}

// What a team reported: "left, feet", or, where there were many answers, "joy ×11, fear ×2".
export function namesOf(reported) {
  return reported.split(", ").map((part) => part.replace(/^\S+/, nameOf)).join(", ");
}
