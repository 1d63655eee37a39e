/**
 * What the settings of an upstream must mean by which it is told apart from OpenAI's own API: a preset, headers, and what becomes of
 * the fields of a request. Called by `check.ts`. Pure, but for the file of the presets.
 */
import { HOPS_HEADER } from '../domain/hops.ts'
import { allPresets, findPreset } from '../store/presets.ts'
import { quote, toList } from '../validation/explain.ts'
import { closest, type Entry, type Issue, issue, type Path, toEntry, toItems } from './entry.ts'

/** Says what is wrong with its preset, and how that goes with its dialect. */
export function* checkPreset(at: Path, { preset: name, dialect }: Entry): Generator<Issue> {
  if (typeof name !== 'string') {
    if (name === undefined && dialect === undefined)
      yield issue(at, "dialect is missing: such as openai, or a preset that says it, such as 'preset: openrouter'.")
    return
  }
  const preset = findPreset(name)
  if (!preset) {
    const names = Object.keys(allPresets())
    const known = `Known are ${toList(names.map(quote), 'and')}.`
    yield issue([...at, 'preset'], `there is no preset '${name}'${closest(name, names)}. ${known}`)
  } else if (dialect !== undefined && dialect !== preset.dialect)
    yield issue([...at, 'dialect'], `the preset '${name}' is of the '${preset.dialect}' dialect: remove one of them.`)
}

/** Fields that are a gateway's own business: what it reserves, meters and reads depends on them. */
const OURS = new Set(['model', 'messages', 'stream', 'stream_options', 'n', 'max_tokens', 'max_completion_tokens'])

const FIELD = /^[A-Za-z_][\w-]*$/
const FIELD_PATH = /^[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*){0,3}$/

/** Says what is wrong with the settings by which requests are changed. */
export function* checkSettings(at: Path, entry: Entry): Generator<Issue> {
  for (const [index, name] of toItems(entry.drop).entries())
    if (typeof name === 'string') yield* told([...at, 'drop', index], explainPath(name))
  for (const [name, to] of Object.entries(toEntry(entry.rename))) {
    yield* told([...at, 'rename', name], explainPath(name))
    if (typeof to === 'string') yield* told([...at, 'rename', name], explainField(to, name.includes('.')))
  }
  yield* checkFields([...at, 'extra_body'], entry.extra_body)
  for (const [effort, fields] of Object.entries(toEntry(entry.effort_fields)))
    yield* checkFields([...at, 'effort_fields', effort], fields)
  if (typeof entry.auth === 'string') yield* told([...at, 'auth'], explainAuth(entry.auth))
  for (const [name, value] of Object.entries(toEntry(entry.headers)))
    yield* told([...at, 'headers', name], explainHeader(name) ?? explainHeaderValue(value))
}

function* checkFields(at: Path, fields: unknown): Generator<Issue> {
  for (const name of Object.keys(toEntry(fields))) yield* told([...at, name], explainField(name, false))
}

function* told(at: Path, problem: string | null): Generator<Issue> {
  if (problem !== null) yield issue(at, problem)
}

function explainPath(name: string): string | null {
  if (!FIELD_PATH.test(name))
    return `'${name}' is no field of a request: write its name, such as seed, or messages.name for a field of each message.`
  return explainOurs(name)
}

function explainField(name: string, isInner: boolean): string | null {
  if (!FIELD.test(name)) return `'${name}' is no name of a field.`
  return isInner ? null : explainOurs(name)
}

const explainOurs = (name: string) =>
  OURS.has(name)
    ? `${name} is written by Tollgate itself: n, max_tokens_field and stream_options are settings of their own.`
    : null

const AUTH = /^[A-Za-z][\w-]*( [A-Za-z][\w-]*)?$/

function explainAuth(auth: string): string | null {
  if (!AUTH.test(auth))
    return "must be bearer, or the name of the header that has the credential, such as api-key, or 'authorization Token'."
  const [header = ''] = auth.toLowerCase().split(' ')
  return auth !== 'bearer' && header !== 'authorization' ? explainHeader(header) : null
}

const HEADER = /^[A-Za-z][\w-]*$/
/** What a request is framed by, and what carries a credential or our own words. */
const NOT_FREE = new Set([
  ...[
    'host',
    'connection',
    'content-length',
    'content-type',
    'transfer-encoding',
    'upgrade',
    'te',
    'trailer',
    'expect',
  ],
  ...[
    'accept',
    'accept-encoding',
    'authorization',
    'proxy-authorization',
    'cookie',
    'x-client-request-id',
    HOPS_HEADER,
  ],
])

function explainHeader(name: string): string | null {
  if (!HEADER.test(name)) return `'${name}' is no name of a header.`
  if (!NOT_FREE.has(name.toLowerCase())) return null
  return `the header ${name} is written by Tollgate itself${name.toLowerCase() === 'authorization' ? ', from api_key' : ''}.`
}

function explainHeaderValue(value: unknown): string | null {
  if (typeof value !== 'string') return null
  if (!/^[\x20-\x7e]*$/.test(value)) return 'must be one line of plain letters, digits and signs.'
  return /\$\{/.test(value) ? 'is sent as it is written: only api_key may be a reference.' : null
}
