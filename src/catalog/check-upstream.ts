/**
 * What the fields of an upstream must mean, beyond their types: which of them its dialect has, its address, the references to its
 * credentials, times, its preset, headers, and what becomes of the fields of a request. Called by `check.ts`. Pure, but for the file of the presets.
 */
import { DIALECTS, type DialectName } from '../domain/dialects.ts'
import { quote, toList } from '../domain/explain.ts'
import { isHeldBack } from '../domain/fields.ts'
import { HOPS_HEADER } from '../domain/task.ts'
import { DISCONNECT_GRACE_MS, TIMER_MS, toMs } from '../domain/time.ts'
import { isReference } from '../store/credential-binding.ts'
import { allPresets, findPreset, type Preset } from '../store/presets.ts'
import { dialectOf, findDialect, type Has, SETTINGS } from '../upstreams/dialects/dialects.ts'
import { closest, type Entry, type Issue, issue, isUpstreamId, type Path, toEntry, toItems } from './entry.ts'
import { checkProcess, isManaged } from './process.ts'

export function* checkUpstream(id: string, entry: Entry): Generator<Issue> {
  const at: Path = ['upstreams', id]
  const { base_url: baseUrl, api_key: apiKey } = entry
  const preset = typeof entry.preset === 'string' ? findPreset(entry.preset) : undefined
  const dialect = preset?.dialect ?? entry.dialect
  const name = DIALECTS.find((one) => one === dialect)
  if (!isUpstreamId(id))
    yield issue(at, `'${id}' is no upstream name: use lower-case letters, digits, '-', '_' and '.'.`)
  if (typeof dialect === 'string' && !name) yield issue([...at, 'dialect'], unknownDialect(dialect))
  yield* checkPreset(at, entry)
  if (name && SETTINGS.base_url[name] && !isManaged(entry) && baseUrl === undefined && preset?.base_url === undefined)
    yield issue(at, toNoAddress(name, preset))
  for (const [field, has] of Object.entries(SETTINGS))
    if (name && !has[name] && entry[field] !== undefined) yield issue([...at, field], toForeign(field, has))
  const badUrl = typeof baseUrl === 'string' ? explainUrl(baseUrl) : null
  if (badUrl) yield issue([...at, 'base_url'], badUrl)
  for (const [index, ref] of (Array.isArray(apiKey) ? apiKey : [apiKey]).entries()) {
    if (typeof ref !== 'string' || isReference(ref)) continue
    const example = preset?.env ?? toUsualVariable(id)
    // Never quote it: it is most likely the secret itself.
    yield issue(
      Array.isArray(apiKey) ? [...at, 'api_key', index] : [...at, 'api_key'],
      `must be a reference to an environment variable, such as \${${example}}, or to a file by its full path, such as file:/run/secrets/${id}, never the key itself.`,
    )
  }
  // Requests that go on as they came are held to a list of names.
  const isListed =
    toItems(findDialect(dialect)?.defaults.remote.passthrough).length > 0 ||
    toItems(entry.passthrough ?? preset?.settings?.passthrough).length > 0
  for (const [index, name] of toItems(entry.pass).entries()) {
    const problem = typeof name === 'string' ? explainPass(name, isListed) : null
    if (problem) yield issue([...at, 'pass', index], problem)
  }
  for (const [index, format] of toItems(entry.passthrough).entries())
    if (name && typeof format === 'string' && !dialectOf({ dialect: name }).passthrough.some((one) => one === format))
      yield issue(
        [...at, 'passthrough', index],
        `the '${name}' dialect does not speak ${format}: ${toSpoken(dialectOf({ dialect: name }).passthrough)}.`,
      )
  yield* checkSettings(at, entry)
  yield* checkProcess(at, entry)
  const shapes = { path: entry.path, probe: entry.probe, api_version: entry.api_version, betas: entry.betas }
  for (const [name, value] of Object.entries(shapes)) yield* checkHeaderText([...at, name], name, value)
  const { path } = toEntry(entry.cost)
  if (typeof path === 'string' && !PATH.test(path))
    yield issue(
      [...at, 'cost', 'path'],
      `'${path.slice(0, 60)}' is no path: write where an answer says its cost, its names parted by dots, such as usage.cost.`,
    )
  for (const [name, value] of Object.entries(toEntry(entry.deadlines))) {
    const problem = explainTime(value)
    if (problem) yield issue([...at, 'deadlines', name], problem)
  }
  const badIdle = entry.idle === 'off' ? null : explainTime(entry.idle, TIMER_MS, '10m, or off')
  if (badIdle) yield issue([...at, 'idle'], badIdle)
  const problem =
    entry.disconnect_grace === 'off'
      ? null
      : explainTime(entry.disconnect_grace, DISCONNECT_GRACE_MS, '5m at most, or off')
  if (problem) yield issue([...at, 'disconnect_grace'], problem)
}

const toSpoken = (formats: readonly string[]) =>
  formats.length === 0 ? 'remove it' : `it may be ${toList(formats.map(quote), 'and')}`

const toNoAddress = (dialect: DialectName, preset: Preset | undefined): string =>
  preset
    ? `base_url is missing: at ${preset.name} everybody has another one, such as ${preset.example}.`
    : `base_url is missing: the '${dialect}' dialect needs one, such as ${dialectOf({ dialect }).exampleUrl}.`

const toUsualVariable = (id: string): string =>
  `${id
    .toUpperCase()
    .replace(/[^A-Z0-9]/g, '_')
    .replace(/^(?=\d)/, '_')}_API_KEY`

const SHAPES: Readonly<Record<string, [RegExp, string]>> = {
  path: [/^\/([\w.:@%/-]|\{model\})*$/, 'must be a path that begins with /, such as /v1/messages.'],
  probe: [/^\/[\w.@%/-]*$/, 'must be a path that begins with /, such as /health.'],
  api_version: [/^\d{4}-\d{2}-\d{2}$/, 'must be a version of the API, which is a date such as "2023-06-01".'],
  betas: [/^[\w.-]+$/, 'must be the name of one beta, such as files-api-2025-04-14.'],
}

/** What becomes part of a request's head. */
function* checkHeaderText(at: Path, name: string, value: unknown): Generator<Issue> {
  const [shape, sentence] = SHAPES[name] ?? [/$/, '']
  for (const [index, each] of (Array.isArray(value) ? value : [value]).entries())
    if (typeof each === 'string' && !shape.test(each)) yield issue(Array.isArray(value) ? [...at, index] : at, sentence)
}

function explainTime(value: unknown, bounds = TIMER_MS, examples = '5m or 1h, at most 24 days'): string | null {
  if (typeof value !== 'string' && typeof value !== 'number') return null
  const text = String(value)
  if (toMs(text, bounds) !== null) return null
  if (/^\d*[1-9]\d*$/.test(text))
    return `${text} has no unit: write ${text}s for seconds or ${text}ms for milliseconds.`
  return `must be a time with its unit, such as 500ms, 60s, ${examples}.`
}

/** Names of fields, parted by dots. */
const PATH = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,9}$/

const FIELDS = /^[A-Za-z][\w.:-]*\*?$/

/**
 * A name that is never held back is a slip of the hand: what its writer meant would not go through.
 * @param isClosed whether an upstream is sent nothing that its format has no words for, unless it is named.
 */
function explainPass(name: string, isListed: boolean): string | null {
  if (!FIELDS.test(name))
    return `'${name}' is no field of a request: write its name, such as provider, or mock_* for all that begin so.`
  if (isListed || name.endsWith('*') || isHeldBack(name)) return null
  return `${name} goes to every upstream as it is, if a request has it: only fields that are held back need to be named here.`
}

function toForeign(field: string, has: Has): string {
  const owners = DIALECTS.filter((name) => has[name])
  return `only the ${toQuoted(owners)} ${owners.length === 1 ? 'dialect has' : 'dialects have'} ${field}; remove it.`
}

const toQuoted = (names: string[]) => toList(names.map(quote), 'and')

function unknownDialect(dialect: string): string {
  const known = `Known are ${toQuoted([...DIALECTS])}.`
  return `there is no dialect '${dialect}'. ${known}`
}

function explainUrl(text: string): string | null {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    return 'must be an address that begins with http:// or https://, such as https://api.openai.com/v1.'
  if (url.username !== '' || url.password !== '')
    return 'must not carry a user or a password: put the credential in api_key, as a reference.'
  if (/[?#]/.test(text)) return 'must end with its path: no ? and no #.'
  return null
}

/** Says what is wrong with its preset, and how that goes with its dialect. */
function* checkPreset(at: Path, { preset: name, dialect }: Entry): Generator<Issue> {
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
function* checkSettings(at: Path, entry: Entry): Generator<Issue> {
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
