/**
 * How much memory a model server will take, estimated from the header of its model: rather too much than too little, for what is
 * estimated decides what is loaded beside it. Pure.
 */
import type { GgufFacts } from './facts.ts'

export interface Estimate {
  /** All in bytes. */
  weights: number
  cache: number
  compute: number
  total: number
}

export interface Serving {
  /** Of all files together. */
  fileBytes: number
  /** Tokens of one request. */
  context: number
  /** Requests at a time. */
  slots: number
}

/** A number of the cache is an f16. */
const CACHE_BYTES = 2
/** Tokens that are worked on at a time (`-ub`), in f32. */
const BATCH = 512
const NUMBER_BYTES = 4
/** Rows as wide as an embedding that are alive at a time. */
const ROWS = 8
/** The server itself. */
const PROGRAM_BYTES = 32 * 2 ** 20

export function estimateMemory(facts: GgufFacts, { fileBytes, context, slots }: Serving): Estimate {
  const cache = facts.cache.valuesPerToken * CACHE_BYTES * context * slots
  const compute = BATCH * NUMBER_BYTES * (facts.vocabulary + ROWS * facts.embeddingLength) + PROGRAM_BYTES
  return { weights: fileBytes, cache, compute, total: fileBytes + cache + compute }
}

/** Tried in this order: an agent needs much, a question little. */
const CONTEXTS = [32_768, 16_384, 8_192, 4_096]
/** Where a model does not say what it was trained for. */
const UNSAID = 4_096

/** The largest usual context of a request that fits into so much memory, and that the model was trained for; else the smallest. */
export function chooseContext(
  facts: GgufFacts,
  { fileBytes, slots, most }: Omit<Serving, 'context'> & { most: number },
) {
  const trained = facts.contextLength ?? UNSAID
  const usual = [...new Set(CONTEXTS.map((context) => Math.min(context, trained)))]
  const fits = (context: number) => estimateMemory(facts, { fileBytes, slots, context }).total <= most
  return usual.find(fits) ?? usual.at(-1) ?? UNSAID
}
