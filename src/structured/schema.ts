/**
 * Checks values against a client's JSON Schema, and says in one sentence what is wrong. Pure, but a schema is a
 * client's: its patterns and its recursion may take forever, so only `check-worker.ts` runs it.
 */
import { Ajv, type ErrorObject, type Options } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'

/** Returns what is wrong with a value, or null. Throws where a value is too deep, or too much is wrong with it. */
export type ValueCheck = (value: unknown) => string | null

/** Escapes that only the older syntax knows, such as `\-`, are common in patterns from other languages. */
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

/** A schema of nested alternatives can find more wrong with a value than memory holds: beyond this, checking it throws. */
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
/** The drafts that clients write, the newer one first. Each schema gets an instance of its own: they keep what they compile. */
const DRAFTS = [Ajv2020, Ajv]
const METAS = DRAFTS.map((Draft) => new Draft(OPTIONS))

/** Prepares a schema. Returns what is wrong with it where it is none; it may refer to nothing outside of itself. */
export function compile({ $schema: _, ...schema }: Record<string, unknown>): ValueCheck | { problem: string } {
  try {
    const drafts = METAS.map((meta) => ({ valid: meta.validateSchema(schema) === true, errors: meta.errors }))
    const Draft = DRAFTS[drafts.findIndex(({ valid }) => valid)]
    if (!Draft) return { problem: describe(drafts[0]?.errors ?? [], 'the schema') }
    const ajv = new Draft({ ...OPTIONS, meta: false, validateSchema: false, formats: FORMATS })
    // The name of a schema in an older draft: of no use here, but ajv would refuse it.
    const validate = ajv.removeKeyword('id').compile(schema)
    if ('$async' in validate) return { problem: '$async is not supported' }
    return (value) => (validate(value) ? null : describe(validate.errors ?? [], 'the top level'))
  } catch (error) {
    return { problem: cut(error instanceof Error ? error.message : String(error), MAX_SENTENCE_CHARS) }
  }
}

/** Accepts any JSON object. */
export const anyObject: ValueCheck = (value) =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? null : 'it is not a JSON object'

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
  return `${where} ${message ?? 'is wrong'}${which}`
}

const cut = (text: string, most: number) => (text.length <= most ? text : `${text.slice(0, most)}…`)

const DATE = '\\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\\d|3[01])'
const TIME = '(?:[01]\\d|2[0-3]):[0-5]\\d:(?:[0-5]\\d|60)(?:\\.\\d+)?'
const ZONE = '(?:[zZ]|[+-](?:[01]\\d|2[0-3]):?[0-5]\\d)'
const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?'
const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'

const exactly = (pattern: string) => new RegExp(`^${pattern}$`)

/**
 * The `format`s that strict schemas may name in OpenAI's API, as simple patterns. They catch what a client's own
 * parser would stumble over; a format that is not here is not checked.
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
