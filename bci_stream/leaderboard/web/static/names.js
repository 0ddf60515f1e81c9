// Classes and joints by the names that the contest's documents give them; others are shown as they come.

import { currentLanguage } from "./i18n.js";

const NAMES = {
  en: {
    sho: "shoulder", elb: "elbow", wri: "wrist", kne: "knee", ank: "ankle",
  },
  zh: {
    left: "左手", right: "右手", feet: "双脚",
    anger: "愤怒", disgust: "恶心", fear: "恐惧", sadness: "悲伤", neutral: "中性", amusement: "愉悦",
    inspiration: "激励", joy: "高兴", tenderness: "温情",
    sho: "肩关节", elb: "肘关节", wri: "腕关节", mcp: "掌指关节", hip: "髋关节", kne: "膝关节", ank: "踝关节",
    mtp: "跖趾关节",
  },
};

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
