/**
 * Reads and checks what models wrote, on a thread of its own: a nasty text, a pattern that backtracks forever or a
 * schema that refers to itself must not stop the event loop, and neither must the loading of ajv. `structured-checker.ts` asks it,
 * and ends it where an answer takes too long.
 */
import { anyObject, compile, findJson, KeptSchemas, type ValueCheck } from './json-check.ts'

declare const self: Worker

export interface CheckRequest {
  /** Key that it is for. */
  owner: string
  /** A JSON Schema as JSON; null = any JSON object. */
  schema: string | null
  /** What a model wrote; null only prepares the schema. */
  text: string | null
}

/** `json` is what came closest, `problem` what is wrong with it; met where that is null. Both null: the schema is ready. */
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
// Loaded, and the first schema, which is the slowest, compiled.
compile({ type: 'object' })
self.postMessage('ready')

function answer({ owner, schema, text }: CheckRequest): CheckReply['found'] {
  const check = schema === null ? anyObject : kept.get(owner, schema, toCheck)
  if (typeof check !== 'function') return { badSchema: check.problem }
  return text === null ? { json: null, problem: null } : judge(text, check)
}

const toCheck = (schema: string) => compile(JSON.parse(schema))

/** Takes the first piece of JSON that is right, else the longest one: an answer is longer than what is said about it. */
function judge(text: string, check: ValueCheck): Verdict {
  let closest: { json: string; problem: string } | null = null
  for (const { text: json, value } of findJson(text)) {
    const problem = problemOf(check, value)
    if (problem === null) return { json, problem: null }
    if (closest === null || json.length > closest.json.length) closest = { json, problem }
  }
  return closest ?? { json: null, problem: 'it holds no JSON' }
}

function problemOf(check: ValueCheck, value: unknown): string | null {
  try {
    return check(value)
  } catch {
    return 'it is nested too deeply, or too much is wrong with it'
  }
}
