/** How an upstream served a call, as one word that prices can name: `flex`, `priority`, `fast` … Pure. */

/** By what upstreams say that a call was served as most are. */
const USUAL: ReadonlySet<string> = new Set([
  ...['auto', 'default', 'standard', 'on_demand', 'global', 'not_available', 'unspecified', 'type_unspecified'],
])

/** What Google puts before such words. */
const PREFIX = /^(?:service_tier|traffic_type|traffic|on_demand)_/

const MAX_CHARS = 40

/** Of a name in the catalogue, and in the ledger. */
export const MODE = /^[a-z0-9][a-z0-9_.+-]{0,39}$/

/**
 * Makes one word of those by which an upstream says how it served a call: OpenAI's `service_tier`, Anthropic's `service_tier`, `speed`
 * and `inference_geo`, Google's `serviceTier` and `trafficType`. Several that are out of the ordinary are joined by their names:
 * `fast+us`. Null where it was served as most are, or does not say.
 */
export function toMode(...said: unknown[]): string | null {
  const words = new Set<string>()
  for (const each of said) {
    if (typeof each !== 'string') continue
    const word = each.trim().toLowerCase()
    if (word === '' || USUAL.has(word)) continue
    const name = word
      .replace(PREFIX, '')
      .replace(/[^a-z0-9_.-]+/g, '_')
      .replace(/^[^a-z0-9]+/, '')
    if (name !== '' && !USUAL.has(name)) words.add(name)
  }
  const mode = [...words].sort().join('+').slice(0, MAX_CHARS)
  return mode === '' ? null : mode
}

/**
 * What a charge may be that leaves out these, for a sentence. Flex alone costs less than usual with whoever offers it, half of it at
 * OpenAI (https://platform.openai.com/docs/guides/flex-processing) and Google (https://ai.google.dev/gemini-api/docs/optimization):
 * what was charged as usual is too much, and never too little.
 *
 * @param unpriced see `findUnpriced`.
 */
export const toDoubt = (unpriced: readonly string[], mode: string | null): string =>
  mode === 'flex' && unpriced.every((name) => name === 'mode') && unpriced.length > 0
    ? 'this may have cost less'
    : 'this may not be what it cost'
