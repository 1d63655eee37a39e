/** Turns an OpenAPI document into searchable groups of routes, fields, and examples. */
import { hasWords } from '../figures/figures.ts'

type Content = Readonly<Record<string, { schema?: Schema }>>

interface Answer {
  description: string
  headers?: Readonly<Record<string, { description?: string; schema: Schema }>>
  content?: Content
}

interface Operation {
  operationId: string
  summary?: string
  description?: string
  tags?: readonly string[]
  /** By security scheme; empty: no authentication. */
  security?: readonly Readonly<Record<string, readonly string[]>>[]
  'x-least-role'?: string | null
  parameters?: readonly { name: string; in: string; required?: boolean; description?: string; schema: Schema }[]
  requestBody?: { description?: string; content: Content }
  responses: Readonly<Record<string, Answer>>
}

export interface ApiDocument {
  info: { title: string; description: string }
  security?: Operation['security']
  tags: readonly { name: string }[]
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  components: {
    schemas: Schemas
    securitySchemes: Readonly<Record<string, { description: string }>>
  }
}

export interface Route {
  /** `operationId`, used in the URL. */
  id: string
  method: string
  path: string
  group: string
  summary: string
  description: string
  /** Minimum role; null without sign-in or roles. */
  role: string | null
  /** Accepted security schemes. */
  proofs: readonly string[]
  parameters: readonly (Field & { place: string })[]
  body: { description: string; schema: Schema } | null
  answers: readonly RouteAnswer[]
}

export interface RouteAnswer {
  status: string
  description: string
  headers: readonly Field[]
  /** Content types other than JSON. */
  types: readonly string[]
  schema: Schema | null
}

export interface Group {
  name: string
  routes: readonly Route[]
}

export function toGroups(document: ApiDocument): Group[] {
  const routes = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => toRoute(document, method, path, operation)),
  )
  return document.tags.map(({ name }) => ({ name, routes: routes.filter(({ group }) => group === name) }))
}

function toRoute(document: ApiDocument, method: string, path: string, operation: Operation): Route {
  const { schemas } = document.components
  const { parameters = [], requestBody, security = document.security ?? [] } = operation
  const body = requestBody?.content[JSON_TYPE]?.schema
  return {
    ...{ id: operation.operationId, method: method.toUpperCase(), path, group: operation.tags?.[0] ?? '' },
    ...{ summary: operation.summary ?? '', description: operation.description ?? '' },
    role: operation['x-least-role'] ?? null,
    proofs: security.flatMap((one) => Object.keys(one)),
    parameters: parameters.map(({ name, in: place, required = false, description, schema }) => ({
      ...toField(name, schema, required, schemas),
      ...{ description: description ?? null, place },
    })),
    body: body ? { description: requestBody?.description ?? '', schema: body } : null,
    answers: Object.entries(operation.responses).map(([status, answer]) => toAnswer(status, answer, schemas)),
  }
}

const JSON_TYPE = 'application/json'

const toAnswer = (status: string, { description, headers = {}, content = {} }: Answer, schemas: Schemas) => ({
  ...{ status, description, schema: content[JSON_TYPE]?.schema ?? null },
  headers: Object.entries(headers).map(([name, { description, schema }]) => ({
    ...toField(name, schema, true, schemas),
    description: description ?? null,
  })),
  types: Object.keys(content).filter((type) => type !== JSON_TYPE),
})

/** Searches paths, summaries, and parameter and field names. */
export function findRoutes(groups: readonly Group[], search: string, schemas: Schemas): Group[] {
  return groups
    .map(({ name, routes }) => ({ name, routes: routes.filter((route) => hasWords(toTexts(route, schemas), search)) }))
    .filter(({ routes }) => routes.length > 0)
}

const toTexts = ({ method, path, group, summary, role, parameters, body }: Route, schemas: Schemas) => [
  ...[method, path, group, summary, role ?? ''],
  ...parameters.map(({ name }) => name),
  ...(body
    ? toShapes(resolve(body.schema, schemas), schemas).flatMap(({ fields }) => fields.map(({ name }) => name))
    : []),
]

export interface Schema {
  $ref?: string
  type?: string | readonly string[]
  const?: unknown
  enum?: readonly unknown[]
  anyOf?: readonly Schema[]
  items?: Schema
  properties?: Readonly<Record<string, Schema>>
  /** Maps with arbitrary keys. */
  patternProperties?: Readonly<Record<string, Schema>>
  required?: readonly string[]
  description?: string
  default?: unknown
  format?: string
  pattern?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
}

export type Schemas = Readonly<Record<string, Schema>>

export interface Field {
  name: string
  /** `array of strings or null` */
  type: string
  isRequired: boolean
  /** Enum values. */
  words: readonly string[]
  /** `at least 1` */
  bounds: readonly string[]
  description: string | null
  /** Schema of nested fields, or null. */
  inside: Schema | null
}

/** A variant of an object. */
interface Shape {
  /** What distinguishes it; null if it is the only one. */
  title: string | null
  fields: readonly Field[]
}

/** Fields of an object, of array items, or of each variant; empty without fields. */
export function toShapes(schema: Schema, schemas: Schemas): Shape[] {
  const objects = objectsIn(schema, schemas)
  return objects.map((one) => ({
    title: objects.length > 1 ? toTitle(one) : null,
    fields: Object.entries(one.properties ?? {}).map(([name, value]) =>
      toField(name, value, one.required?.includes(name) ?? false, schemas),
    ),
  }))
}

export function toField(name: string, schema: Schema, isRequired: boolean, schemas: Schemas): Field {
  const plain = plainIn(schema)
  return {
    ...{ name, isRequired, type: toType(schema) },
    words: [...new Set(plain.flatMap((one) => one.enum ?? []))].filter((word) => word !== null).map(String),
    bounds: [...new Set(plain.flatMap(toBounds))],
    description: schema.description ?? null,
    inside: objectsIn(schema, schemas).length > 0 ? schema : null,
  }
}

export function toType({ $ref, const: only, anyOf, type, items, patternProperties, properties }: Schema): string {
  if ($ref !== undefined) return nameOf($ref)
  if (only !== undefined) return JSON.stringify(only)
  if (anyOf) return [...new Set(anyOf.map(toType))].join(' or ')
  const byName = Object.values(patternProperties ?? {})[0]
  const words = [type ?? []].flat().map((one) => {
    if (one === 'array') return items ? `array of ${toMany(toType(items))}` : 'array'
    if (one === 'object' && byName && !properties) return `${toMany(toType(byName))} by name`
    return one
  })
  return words.length === 0 ? 'any' : words.join(' or ')
}

function toMany(type: string): string {
  const many = type.replaceAll(/\b(string|integer|number|boolean|object)\b/g, '$1s')
  return many.includes(' ') ? `(${many})` : many
}

const nameOf = (ref: string) => ref.slice(ref.lastIndexOf('/') + 1)

const resolve = (schema: Schema, schemas: Schemas): Schema =>
  schema.$ref === undefined ? schema : (schemas[nameOf(schema.$ref)] ?? {})

function objectsIn(schema: Schema, schemas: Schemas): Schema[] {
  const { properties, anyOf = [], items, patternProperties = {} } = resolve(schema, schemas)
  if (properties && Object.keys(properties).length > 0) return [resolve(schema, schemas)]
  return [...anyOf, ...(items ? [items] : []), ...Object.values(patternProperties)].flatMap((one) =>
    objectsIn(one, schemas),
  )
}

/** The schema itself, its variants, and array items. */
const plainIn = (schema: Schema): Schema[] => [
  schema,
  ...(schema.anyOf ?? []).flatMap(plainIn),
  ...(schema.items ? plainIn(schema.items) : []),
]

function toTitle({ properties = {}, required = [] }: Schema): string {
  const told = Object.entries(properties).find(([, { const: only }]) => only !== undefined)
  return told ? `${told[0]} ${JSON.stringify(told[1].const)}` : `with ${required.join(', ')}`
}

function toBounds(schema: Schema): string[] {
  const { format, pattern } = schema
  return [
    ...(schema.default === undefined ? [] : [`default ${JSON.stringify(schema.default)}`]),
    ...toRange(schema.minimum, schema.maximum, ''),
    ...toRange(schema.minLength, schema.maxLength, 'character'),
    ...toRange(schema.minItems, schema.maxItems, 'item'),
    ...(format === undefined ? [] : [format]),
    ...(pattern === undefined ? [] : [`matches ${pattern}`]),
  ]
}

/** Omits bounds beyond the safe integers. */
function toRange(least: number | undefined, most: number | undefined, unit: string): string[] {
  const [low, high] = [least, most].map((bound) => (Number.isSafeInteger(Math.trunc(bound ?? 0.5)) ? bound : undefined))
  const count = (bound: number) => (unit === '' ? String(bound) : `${bound} ${unit}${bound === 1 ? '' : 's'}`)
  if (low !== undefined && high !== undefined) return [`${low} to ${count(high)}`]
  if (low !== undefined) return [`at least ${count(low)}`]
  return high === undefined ? [] : [`at most ${count(high)}`]
}

/** Example values of required fields by name. */
const SAMPLES: Readonly<Record<string, unknown>> = {
  model: 'tollgate/demo',
  slug: 'tollgate/demo',
  messages: [{ role: 'user', content: 'Hello' }],
}

/** Cookie jar of the session. */
const COOKIES = 'cookies.txt'

/** @param origin such as `https://gateway.example.com` */
export function toCurl({ method, path, proofs, parameters, body, answers }: Route, origin: string, schemas: Schemas) {
  const given = parameters.filter(({ place, isRequired }) => isRequired && place === 'query')
  const query = given.map(({ name }) => `${name}=${toPlaceholder(name)}`).join('&')
  const url = origin + path.replaceAll(/\{(\w+)\}/g, (_, name) => toPlaceholder(name)) + (query && `?${query}`)
  const [proof] = PROOFS.filter(({ of }) => proofs.includes(of))
  const isSigningIn = proofs.length === 0 && method === 'POST'
  const isChange = method !== 'GET'
  const answer = answers.find(({ status }) => status.startsWith('2'))
  const isFile = answer?.schema === null && answer.types.some((type) => !type.startsWith('text/'))
  const lines = [
    `curl${answer?.types.includes('text/event-stream') ? ' -N' : ''}${method === 'GET' || (method === 'POST' && body) ? '' : ` -X ${method}`} '${url}'`,
    ...(proof ? [proof.option] : []),
    ...(isSigningIn ? [`--cookie-jar ${COOKIES}`] : []),
    ...(isChange && (proof?.of === 'session' || isSigningIn) ? [`-H 'Origin: ${origin}'`] : []),
    ...(body ? ["-H 'Content-Type: application/json'", `-d '${JSON.stringify(toSample(body.schema, schemas))}'`] : []),
    ...(isFile ? ['-O'] : []),
  ]
  return [...(proof ? [proof.note] : []), lines.join(' \\\n  ')].join('\n')
}

const PROOFS = [
  {
    of: 'token',
    note: '# TOLLGATE_TOKEN: printed by `tollgate admin token create NAME`',
    option: '-H "Authorization: Bearer $TOLLGATE_TOKEN"',
  },
  { of: 'key', note: '# TOLLGATE_KEY: an API key', option: '-H "Authorization: Bearer $TOLLGATE_KEY"' },
  {
    of: 'session',
    note: `# ${COOKIES}: written by the example of POST /admin/api/session`,
    option: `--cookie ${COOKIES}`,
  },
] as const

const toPlaceholder = (name: string) => encodeURIComponent(String(SAMPLES[name] ?? name.toUpperCase()))

/** Minimal valid value: required fields, or else the first one. */
export function toSample(schema: Schema, schemas: Schemas, name = ''): unknown {
  if (SAMPLES[name] !== undefined) return SAMPLES[name]
  const { const: only, enum: words, anyOf, type, items, properties, required, minimum } = resolve(schema, schemas)
  if (only !== undefined || words) return only ?? words?.[0]
  if (anyOf) return toSample(anyOf[0] ?? {}, schemas, name)
  const [first] = [type ?? 'object'].flat()
  if (first === 'array') return items ? [toSample(items, schemas, name)] : []
  if (first === 'string') return name === '' ? 'TEXT' : name.toUpperCase()
  if (first === 'boolean') return true
  if (first !== 'object') return minimum ?? 1
  const names = required ?? Object.keys(properties ?? {}).slice(0, 1)
  return Object.fromEntries(names.map((one) => [one, toSample(properties?.[one] ?? {}, schemas, one)]))
}
