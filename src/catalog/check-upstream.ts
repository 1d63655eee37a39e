/** Checks upstreams beyond field types. */

import { closest } from '../domain/closest.ts'
import { DIALECTS, type DialectName } from '../domain/dialects.ts'
import { quote, toList } from '../domain/explain.ts'
import { isHeldBack } from '../domain/fields.ts'
import { HOPS_HEADER } from '../domain/task.ts'
import { DISCONNECT_GRACE_MS, TIMER_MS, toMs } from '../domain/time.ts'
import { isReference } from '../store/credential-binding.ts'
import { allPresets, findPreset, type Preset } from '../store/presets.ts'
import { dialectOf, findDialect, type Has, SETTINGS } from '../upstreams/dialects/dialects.ts'
import { type Entry, type Issue, issue, isUpstreamId, type Path, toEntry, toItems } from './entry.ts'
import { checkProcess, isManaged } from './process.ts'

export function* checkUpstream(id: string, entry: Entry): Generator<Issue> {
  const at: Path = ['upstreams', id]
  const { base_url: baseUrl, api_key: apiKey } = entry
  const preset = typeof entry.preset === 'string' ? findPreset(entry.preset) : undefined
  const dialect = preset?.dialect ?? entry.dialect
  const name = DIALECTS.find((one) => one === dialect)
  if (!isUpstreamId(id))
    yield issue(at, `invalid upstream name '${id}'. Use lowercase letters, digits, '-', '_' and '.'.`)
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
    // Don't quote it: it is probably the secret itself.
    yield issue(
      Array.isArray(apiKey) ? [...at, 'api_key', index] : [...at, 'api_key'],
      `must reference an environment variable, such as \${${example}}, or a file by its full path, such as file:/run/secrets/${id}. Don't write the key itself.`,
    )
  }
  // Passed-through requests are limited to listed fields.
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
        `the '${name}' dialect has no ${format} endpoint: ${toSpoken(dialectOf({ dialect: name }).passthrough)}.`,
      )
  yield* checkSettings(at, entry)
  yield* checkProcess(at, entry)
  const shapes = { path: entry.path, probe: entry.probe, api_version: entry.api_version, betas: entry.betas }
  for (const [name, value] of Object.entries(shapes)) yield* checkHeaderText([...at, name], name, value)
  const { path } = toEntry(entry.cost)
  if (typeof path === 'string' && !PATH.test(path))
    yield issue(
      [...at, 'cost', 'path'],
      `invalid path '${path.slice(0, 60)}'. Write the field that has a response's cost, such as usage.cost.`,
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
    ? `base_url is missing: set your own, such as ${preset.example}.`
    : `base_url is missing: the '${dialect}' dialect needs one, such as ${dialectOf({ dialect }).exampleUrl}.`

const toUsualVariable = (id: string): string =>
  `${id
    .toUpperCase()
    .replace(/[^A-Z0-9]/g, '_')
    .replace(/^(?=\d)/, '_')}_API_KEY`

const SHAPES: Readonly<Record<string, [RegExp, string]>> = {
  path: [/^\/([\w.:@%/-]|\{model\})*$/, 'must be a path that starts with /, such as /v1/messages.'],
  probe: [/^\/[\w.@%/-]*$/, 'must be a path that starts with /, such as /health.'],
  api_version: [/^\d{4}-\d{2}-\d{2}$/, 'must be an API version, which is a date such as "2023-06-01".'],
  betas: [/^[\w.-]+$/, 'must be one beta name, such as files-api-2025-04-14.'],
}

/** For values in a request's path or headers. */
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
    return `${text} needs a unit: write ${text}s for seconds or ${text}ms for milliseconds.`
  return `must be a duration, such as 500ms, 60s, ${examples}.`
}

/** Field names separated by dots. */
const PATH = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,9}$/

const FIELDS = /^[A-Za-z][\w.:-]*\*?$/

/**
 * A field that is never held back is probably a mistake.
 * @param isListed whether the upstream receives only listed fields that its format doesn't define.
 */
function explainPass(name: string, isListed: boolean): string | null {
  if (!FIELDS.test(name))
    return `invalid field '${name}'. Write a request field, such as provider, or mock_* for all that start with mock_.`
  if (isListed || name.endsWith('*') || isHeldBack(name)) return null
  return `${name} is sent to every upstream anyway. List only fields that are held back by default.`
}

function toForeign(field: string, has: Has): string {
  const owners = DIALECTS.filter((name) => has[name])
  return `only the ${toQuoted(owners)} ${owners.length === 1 ? 'dialect has' : 'dialects have'} ${field}. Remove it.`
}

const toQuoted = (names: string[]) => toList(names.map(quote), 'and')

function unknownDialect(dialect: string): string {
  const known = `Use ${toList(DIALECTS.map(quote), 'or')}.`
  return `unknown dialect '${dialect}'. ${known}`
}

function explainUrl(text: string): string | null {
  const url = URL.parse(text)
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    return 'must be an http:// or https:// URL, such as https://api.openai.com/v1.'
  if (url.username !== '' || url.password !== '')
    return 'must not contain a user or password. Put a reference to the credential in api_key.'
  if (/[?#]/.test(text)) return 'must not contain ? or #.'
  return null
}

/** Also checks the preset against the dialect. */
function* checkPreset(at: Path, { preset: name, dialect }: Entry): Generator<Issue> {
  if (typeof name !== 'string') {
    if (name === undefined && dialect === undefined)
      yield issue(at, "dialect is missing. Set one, such as openai, or a preset, such as 'preset: openrouter'.")
    return
  }
  const preset = findPreset(name)
  if (!preset) {
    const names = Object.keys(allPresets())
    const known = `Use ${toList(names.map(quote), 'or')}.`
    yield issue([...at, 'preset'], `unknown preset '${name}'${closest(name, names)}. ${known}`)
  } else if (dialect !== undefined && dialect !== preset.dialect)
    yield issue([...at, 'dialect'], `preset '${name}' uses the '${preset.dialect}' dialect. Remove one of the two.`)
}

/** Fields that Tollgate sets, or needs for metering and parsing. */
const OURS = new Set(['model', 'messages', 'stream', 'stream_options', 'n', 'max_tokens', 'max_completion_tokens'])

const FIELD = /^[A-Za-z_][\w-]*$/
/** Lists in forms end in `[]`. */
const FIELD_PATH = /^[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*){0,3}(\[\])?$/

function* checkSettings(at: Path, entry: Entry): Generator<Issue> {
  for (const [index, name] of toItems(entry.drop).entries())
    if (typeof name === 'string') yield* report([...at, 'drop', index], explainPath(name))
  for (const [name, to] of Object.entries(toEntry(entry.rename))) {
    yield* report([...at, 'rename', name], explainPath(name))
    if (typeof to === 'string') yield* report([...at, 'rename', name], explainField(to, name.includes('.')))
  }
  yield* checkFields([...at, 'extra_body'], entry.extra_body)
  for (const [effort, fields] of Object.entries(toEntry(entry.effort_fields)))
    yield* checkFields([...at, 'effort_fields', effort], fields)
  if (typeof entry.auth === 'string') yield* report([...at, 'auth'], explainAuth(entry.auth))
  for (const [name, value] of Object.entries(toEntry(entry.headers)))
    yield* report([...at, 'headers', name], explainHeader(name) ?? explainHeaderValue(value))
}

function* checkFields(at: Path, fields: unknown): Generator<Issue> {
  for (const name of Object.keys(toEntry(fields))) yield* report([...at, name], explainField(name, false))
}

function* report(at: Path, problem: string | null): Generator<Issue> {
  if (problem !== null) yield issue(at, problem)
}

function explainPath(name: string): string | null {
  if (!FIELD_PATH.test(name))
    return `invalid field '${name}'. Write a request field, such as seed, or messages.name for a field of each message.`
  return explainOurs(name)
}

function explainField(name: string, isInner: boolean): string | null {
  if (!FIELD.test(name)) return `invalid field name '${name}'.`
  return isInner ? null : explainOurs(name)
}

const explainOurs = (name: string) =>
  OURS.has(name) ? `Tollgate sets ${name} itself. See the settings n, max_tokens_field, and stream_options.` : null

const AUTH = /^[A-Za-z][\w-]*( [A-Za-z][\w-]*)?$/

function explainAuth(auth: string): string | null {
  if (!AUTH.test(auth))
    return "must be bearer, or the header that carries the credential, such as api-key, or 'authorization Token'."
  const [header = ''] = auth.toLowerCase().split(' ')
  return auth !== 'bearer' && header !== 'authorization' ? explainHeader(header) : null
}

const HEADER = /^[A-Za-z][\w-]*$/
/** Headers that frame a request, carry credentials, or are Tollgate's own. */
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
  if (!HEADER.test(name)) return `invalid header name '${name}'.`
  if (!NOT_FREE.has(name.toLowerCase())) return null
  return `Tollgate sets the header ${name} itself${name.toLowerCase() === 'authorization' ? ', from api_key' : ''}.`
}

function explainHeaderValue(value: unknown): string | null {
  if (typeof value !== 'string') return null
  if (!/^[\x20-\x7e]*$/.test(value)) return 'must be one line of printable ASCII.'
  return /\$\{/.test(value) ? 'is sent literally: only api_key can be a reference.' : null
}
