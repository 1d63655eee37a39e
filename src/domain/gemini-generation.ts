/**
 * Which generation of Gemini a target leads to, by what its route says and not by its name, which may be any: models since Gemini 3
 * are told how much to think by a level, those before it by a number of tokens, or they do not think. Pure.
 */
import type { Feature, RouteSettings } from './models.ts'

export interface Thinks {
  features: readonly Feature[]
  options: RouteSettings
}

/**
 * Whether it is of Gemini 3 or later. Earlier ones know no pictures in results, and refuse JSON beside tools ("Function calling with a
 * response mime type: 'application/json' is unsupported") and a search beside functions; later ones refuse calls of the current turn
 * without a signature (ai.google.dev/gemini-api/docs/gemini-3).
 */
export const isSinceGemini3 = ({ features, options: { thinking } }: Thinks): boolean =>
  features.includes('reasoning') && thinking !== 'none' && thinking !== 'budget'
