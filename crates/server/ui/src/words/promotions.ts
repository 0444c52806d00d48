// States of promotions in words, each with its tone.

import type { PromotionView } from "../api/types";
import type { Tone } from "./verdicts";

export type PromotionStateName = PromotionView["state"]["state"];

export const PROMOTIONS: Record<PromotionStateName, { word: string; sentence: string; tone: Tone }> = {
  confirming: { word: "confirming", sentence: "Confirming the champion", tone: "unsure" },
  committed: { word: "committed", sentence: "Champion committed", tone: "good" },
  reverted: { word: "taken back", sentence: "Promotion taken back", tone: "died" },
  refused: { word: "refused", sentence: "Promotion refused", tone: "wrong" },
  blocked: { word: "blocked", sentence: "Promotion blocked", tone: "early" },
};

export const PROMOTION_STATES = Object.keys(PROMOTIONS) as PromotionStateName[];
