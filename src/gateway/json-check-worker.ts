/**
 * Extracts and validates JSON that models wrote, on a thread, because hostile texts, patterns, and schemas must not
 * stop the event loop, nor must loading ajv.
 */
import { anyObject, compile, findJson, KeptSchemas, type ValueCheck } from './json-check.ts'

declare const self: Worker

export interface CheckRequest {
  owner: string
  schema: string | null
  /** The model's output; null only prepares the schema. */
  text: string | null
}

/** `json` is the closest candidate, `problem` its error, or null if it matches. Both null: the schema is ready. */
export interface Verdict {
  json: string | null
  problem: string | null
}

export interface CheckReply {
  found: Verdict | { badSchema: string }
  tookMs: number
}

const kept = new KeptSchemas<ReturnType<typeof compile>>()

self.onmessage = (event: MessageEvent<CheckRequest>) => {
  const startedAt = performance.now()
  const found = answer(event.data)
  const reply: CheckReply = { found, tookMs: performance.now() - startedAt }
  self.postMessage(reply)
}
// Warms up: the first schema is the slowest to compile.
compile({ type: 'object' })
self.postMessage('ready')

function answer({ owner, schema, text }: CheckRequest): CheckReply['found'] {
  const check = schema === null ? anyObject : kept.get(owner, schema, toCheck)
  if (typeof check !== 'function') return { badSchema: check.problem }
  return text === null ? { json: null, problem: null } : judge(text, check)
}

const toCheck = (schema: string) => compile(JSON.parse(schema))

/** The first JSON that matches, else the longest candidate. */
function judge(text: string, check: ValueCheck): Verdict {
  let closest: { json: string; problem: string } | null = null
  for (const { text: json, value } of findJson(text)) {
    const problem = problemOf(check, value)
    if (problem === null) return { json, problem: null }
    if (closest === null || json.length > closest.json.length) closest = { json, problem }
  }
  return closest ?? { json: null, problem: 'no JSON found' }
}

function problemOf(check: ValueCheck, value: unknown): string | null {
  try {
    return check(value)
  } catch {
    return 'nested too deeply, or too many errors'
  }
}
