/**
 * Finds JSON in a model's output and validates it against a JSON Schema. Slow for hostile input, so only
 * `json-check-worker.ts` runs it.
 */

import { Ajv, type ErrorObject, type Options } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { jsonrepair } from 'jsonrepair'

/** `text` is the original or repaired text: numbers and the order of keys are kept. */
interface JsonPiece {
  text: string
  value: unknown
}

/** Brackets in prose look like JSON, too: only this many are tried. */
const MAX_OPENINGS = 32

export function* findJson(written: string): Generator<JsonPiece> {
  const text = written.replace(/^\uFEFF/, '').trim()
  const whole = parse(text)
  if (whole) {
    yield whole
    // Some models write JSON into a JSON string.
    if (typeof whole.value === 'string') yield* findJson(whole.value)
    return
  }
  let at = nextOpening(text, 0)
  for (let tried = 0; at !== -1 && tried < MAX_OPENINGS; tried++) {
    const end = endOf(text, at)
    const piece = end === -1 ? withoutFence(text.slice(at)) : text.slice(at, end)
    const found = parse(piece) ?? repair(piece)
    if (found) yield found
    // Anything inside this piece is only a part of a response.
    if (found && end === -1) return
    at = nextOpening(text, found ? end : at + 1)
  }
}

function nextOpening(text: string, from: number): number {
  for (let at = from; at < text.length; at++) if (text[at] === '{' || text[at] === '[') return at
  return -1
}

/** Ignores brackets in strings; -1 if never closed. */
function endOf(text: string, start: number): number {
  let depth = 0
  let quoted = false
  for (let at = start; at < text.length; at++) {
    const char = text[at]
    if (quoted) {
      if (char === '\\') at++
      else if (char === '"') quoted = false
    } else if (char === '"') quoted = true
    else if (char === '{' || char === '[') depth++
    else if ((char === '}' || char === ']') && --depth === 0) return at + 1
  }
  return -1
}

function withoutFence(text: string): string {
  const fence = text.lastIndexOf('```')
  return fence === -1 ? text : text.slice(0, fence)
}

/** Text must start like JSON, since repairing turns any prose into JSON. */
const LIKE_JSON = /^(?:\{\s*(?:["'“”‘’`}]|\/[/*]|[\w$]+\s*:)|\[\s*(?:["'“”‘’{[\]-]|\d|\/[/*]|true|false|null))/i

/** Repairing is recursive, and its depth limited by the stack. */
const MAX_DEPTH = 1_000

function isTooDeep(text: string): boolean {
  let depth = 0
  for (const char of text) {
    if (char === '{' || char === '[') depth++
    else if (char === '}' || char === ']') depth--
    if (depth > MAX_DEPTH) return true
  }
  return false
}

function repair(text: string): JsonPiece | null {
  if (!LIKE_JSON.test(text) || isTooDeep(text)) return null
  try {
    return parse(jsonrepair(text))
  } catch {
    return null
  }
}

function parse(text: string): JsonPiece | null {
  try {
    return { text: text.trim(), value: JSON.parse(text) }
  } catch {
    return null
  }
}

/** The error, or null. Throws if a value is nested too deeply or has too many errors. */
export type ValueCheck = (value: unknown) => string | null

/** Falls back to non-Unicode patterns: escapes such as `\-` are common in patterns from other languages. */
const toPattern = Object.assign(
  (pattern: string, flags: string): RegExp => {
    try {
      return new RegExp(pattern, flags)
    } catch {
      return new RegExp(pattern)
    }
  },
  { code: 'new RegExp' },
)

/** Nested alternatives can produce more errors than memory holds; beyond this, validation throws. */
const MAX_FOUND = 20_000
const bounded = (code: string) =>
  code.replace(/\bvErrors\.push\((err\d+)\)/g, `(vErrors.length<${MAX_FOUND}?vErrors.push($1):null.tooMany)`)

const OPTIONS: Options = {
  strict: false,
  logger: false,
  allErrors: true,
  inlineRefs: false,
  code: { regExp: toPattern, process: bounded },
}
/** The newer draft first. Each schema gets its own instance, since instances keep what they compile. */
const DRAFTS = [Ajv2020, Ajv]
const METAS = DRAFTS.map((Draft) => new Draft(OPTIONS))

/** Or its error. It may not refer to other documents. */
export function compile({ $schema: _, ...schema }: Record<string, unknown>): ValueCheck | { problem: string } {
  try {
    const drafts = METAS.map((meta) => ({ valid: meta.validateSchema(schema) === true, errors: meta.errors }))
    const Draft = DRAFTS[drafts.findIndex(({ valid }) => valid)]
    if (!Draft) return { problem: describe(drafts[0]?.errors ?? [], 'the schema') }
    const ajv = new Draft({ ...OPTIONS, meta: false, validateSchema: false, formats: FORMATS })
    // The older drafts' name of a schema, which ajv would reject.
    const validate = ajv.removeKeyword('id').compile(schema)
    if ('$async' in validate) return { problem: '$async is not supported' }
    return (value) => (validate(value) ? null : describe(validate.errors ?? [], 'the top level'))
  } catch (error) {
    return { problem: cut(error instanceof Error ? error.message : String(error), MAX_SENTENCE_CHARS) }
  }
}

export const anyObject: ValueCheck = (value) =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? null : 'not a JSON object'

const MAX_ERRORS = 6
const MAX_PART_CHARS = 200
const MAX_SENTENCE_CHARS = 800

function describe(errors: readonly ErrorObject[], top: string): string {
  const said = new Set(errors.slice(0, MAX_ERRORS * 4).map((error) => describeOne(error, top)))
  return cut([...said].slice(0, MAX_ERRORS).join('; '), MAX_SENTENCE_CHARS)
}

function describeOne({ instancePath, message, params }: ErrorObject, top: string): string {
  const where = instancePath === '' ? top : cut(instancePath, MAX_PART_CHARS)
  const detail = params.allowedValues ?? params.allowedValue ?? params.additionalProperty ?? params.unevaluatedProperty
  const which = detail === undefined ? '' : ` (${cut(JSON.stringify(detail), MAX_PART_CHARS)})`
  return `${where} ${message ?? 'is invalid'}${which}`
}

const cut = (text: string, most: number) => (text.length <= most ? text : `${text.slice(0, most)}…`)

const DATE = '\\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\\d|3[01])'
const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:(?:[0-5]\\d|60)(?:\\.\\d+)?'
const ZONE = '(?:[zZ]|[+-](?:[01]\\d|2[0-3]):?[0-5]\\d)'
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?'
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'

const exactly = (pattern: string) => new RegExp(`^${pattern}$`)

/**
 * The `format`s that OpenAI allows in strict schemas, as simple patterns; others are not checked.
 */
export const FORMATS: Record<string, RegExp | ((text: string) => boolean)> = {
  date: exactly(DATE),
  time: exactly(`${TIME}${ZONE}?`),
  'date-time': exactly(`${DATE}[tT ]${TIME}${ZONE}`),
  duration: exactly(
    'P(?!$)(?:\\d+Y)?(?:\\d+M)?(?:\\d+W)?(?:\\d+D)?(?:T(?=\\d)(?:\\d+H)?(?:\\d+M)?(?:\\d+(?:\\.\\d+)?S)?)?',
  ),
  email: exactly(`[^\\s@<>"]{1,64}@${LABEL}(?:\\.${LABEL})*`),
  hostname: (text) => text.length <= 253 && HOSTNAME.test(text),
  ipv4: exactly(`${BYTE}(?:\\.${BYTE}){3}`),
  ipv6: (text) => text.includes(':') && URL.canParse(`http://[${text}]/`),
  uuid: exactly('[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}'),
}

const HOSTNAME = exactly(`${LABEL}(?:\\.${LABEL})*`)

const MAX_SCHEMAS = 64
/** Total length of the schemas; compiled, they take some 500 times as many bytes. */
const MAX_CHARS = 400_000

interface OwnerCache<Compiled> {
  chars: number
  bySchema: Map<string, Compiled>
}

/** Evicts from the key that holds the most, so that one key's many schemas don't push out another's few. */
export class KeptSchemas<Compiled> {
  readonly #owners = new Map<string, OwnerCache<Compiled>>()
  #count = 0
  #chars = 0

  get(owner: string, schema: string, compile: (schema: string) => Compiled): Compiled {
    const shelf = this.#owners.getOrInsertComputed(owner, () => ({ chars: 0, bySchema: new Map() }))
    const { bySchema } = shelf
    const isKnown = bySchema.has(schema)
    const compiled = bySchema.get(schema) ?? compile(schema)
    bySchema.delete(schema)
    bySchema.set(schema, compiled)
    if (!isKnown) this.#grow(shelf, schema.length)
    return compiled
  }

  #grow(shelf: OwnerCache<Compiled>, chars: number): void {
    this.#count++
    this.#chars += chars
    shelf.chars += chars
    while (this.#count > MAX_SCHEMAS || this.#chars > MAX_CHARS) this.#dropOne()
  }

  #dropOne(): void {
    let largest: [string, OwnerCache<Compiled>] | null = null
    for (const each of this.#owners) if (largest === null || share(each[1]) >= share(largest[1])) largest = each
    const [owner, shelf] = largest ?? []
    const [oldest] = shelf?.bySchema.keys() ?? []
    if (owner === undefined || shelf === undefined || oldest === undefined) return
    shelf.bySchema.delete(oldest)
    shelf.chars -= oldest.length
    this.#count--
    this.#chars -= oldest.length
    if (shelf.bySchema.size === 0) this.#owners.delete(owner)
  }
}

/** A key's share of the cache, by count or by size. */
const share = ({ chars, bySchema }: OwnerCache<unknown>) => Math.max(chars / MAX_CHARS, bySchema.size / MAX_SCHEMAS)
