/** The admin API as OpenAPI 3.1 tells of it. `@elysiajs/openapi` reads the schemas of paths and queries off the routes. Pure. */
import { toOpenAPISchema } from '@elysiajs/openapi/openapi'
import { type TSchema, Type } from '@sinclair/typebox'
import * as catalog from '../documents/schemas/catalog.ts'
import { Text } from '../documents/schemas/describes.ts'
import * as keys from '../documents/schemas/keys.ts'
import * as ledger from '../documents/schemas/ledger.ts'
import * as models from '../documents/schemas/models.ts'
import * as people from '../documents/schemas/people.ts'
import * as server from '../documents/schemas/server.ts'
import * as upstreams from '../documents/schemas/upstreams.ts'
import { RequestSchema } from '../domain/request.ts'
import { withComponents } from '../http/openapi/components.ts'
import { ApiError, ChatCompletion } from '../http/openapi/schemas.ts'
import { API_PATH, type GuardedRoute, type Least } from './access.ts'
import { statusOf } from './errors.ts'
import type { Described } from './openapi.ts'
import { FIELDS, PARAMETERS, VALUES } from './words/parameters.ts'
import type { RouteWords } from './words/route-words.ts'
import { WORDS } from './words/words.ts'

/** A refusal: a kind for scripts, a sentence for people. */
const Refusal = Type.Object({ error: Type.Object({ kind: Text, message: Text }) })

const NAMED = {
  ...{ ...people, ...keys, ...models, ...upstreams, ...catalog, ...ledger, ...server, Refusal },
  ...{ ChatRequest: RequestSchema, ChatCompletion, ApiError },
}

/**
 * @param app whose routes they are.
 * @param cookie the name of the session's cookie at the address that the description is read at.
 */
export function toAdminDocument({ app, routes }: Described, cookie: string) {
  const read = toOpenAPISchema(app, { staticFile: false, methods: [] }).paths as Paths
  const paths: Record<string, Record<string, unknown>> = {}
  for (const route of routes) {
    const path = route.path.replaceAll(/:([^/]+)/g, '{$1}')
    const method = route.method.toLowerCase()
    const words = WORDS[toName(route)]
    paths[path] = { ...paths[path], [method]: toOperation(route, read[path]?.[method] ?? {}, words) }
  }
  return withComponents({ ...toHead(cookie), tags: toTags(routes), paths }, NAMED)
}

/** Such as `GET /keys/:id`: what a route's words stand under. */
export const toName = ({ method, path }: Pick<GuardedRoute, 'method' | 'path'>) =>
  `${method} ${path.slice(API_PATH.length)}`

const toHead = (cookie: string) => ({
  openapi: '3.1.1',
  info: {
    title: 'Tollgate, for its administrators',
    version: '1',
    description:
      'What the dashboard and the commands do. Money is integer nano-dollars, times are ms since 1970. A body is JSON whose length is said, of 256 KiB at most (a catalogue: 8 MiB), from members and viewers of 64 KiB, before sign-in of 16 KiB; it takes no fields beyond those that are named.',
  },
  servers: [{ url: '/' }],
  components: {
    securitySchemes: {
      session: {
        type: 'apiKey',
        in: 'cookie',
        name: cookie,
        description:
          'Set by signing in. Its name depends on the address: `__Host-tollgate` over https, `tollgate` over loopback http. A port in the address is appended, such as `tollgate-8787`. Changes also need the header `origin`.',
      },
      token: {
        type: 'http',
        scheme: 'bearer',
        description: '`sk-tgadm-…`: to read as a viewer, to write as an editor.',
      },
    },
  },
})

interface Operation {
  operationId?: string
  parameters?: { name: string; in: string; required: boolean; schema: { anyOf?: TSchema[] } }[]
}
type Body = Readonly<{ properties?: Record<string, object>; [other: string]: unknown }>
type Paths = Readonly<Record<string, Readonly<Record<string, Operation>> | undefined>>

function toOperation(route: GuardedRoute, read: Operation, words: RouteWords | undefined) {
  const { least, except } = route
  const body = route.body
    ? { required: true, content: { 'application/json': { schema: toBody(route.body) } } }
    : words?.operation?.requestBody
  const parameters = [...(read.parameters ?? []).map(toParameter), ...(words?.edits ? [IF_MATCH] : [])]
  const answer = words?.answer && { description: 'Done.', content: { 'application/json': { schema: words.answer } } }
  return {
    operationId: read.operationId,
    summary: words?.summary,
    description: [words?.description, WHO[least]].filter(Boolean).join('\n\n'),
    tags: [tagOf(route)],
    security: SECURITY[least],
    'x-least-role': least === 'door' ? null : least,
    ...(except === null ? {} : { 'x-except-role': except }),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body ? { requestBody: body } : {}),
    responses: { ...toErrors(route, read, words), ...words?.operation?.responses, ...(answer ? { 200: answer } : {}) },
  }
}

const IF_MATCH = {
  ...{ name: 'if-match', in: 'header', required: false },
  ...{ description: PARAMETERS['if-match'], schema: { type: 'string' } },
}

const WHO: Readonly<Record<Least, string>> = {
  door: 'For everybody.',
  member: 'For everybody who has signed in.',
  viewer: 'For viewers, editors and owners.',
  editor: 'For editors and owners.',
  owner: 'For owners.',
}

const BOTH = [{ session: [] }, { token: [] }]
/** No token acts as an owner. */
const SECURITY: Readonly<Record<Least, object[]>> = {
  ...{ door: [], member: BOTH, viewer: BOTH, editor: BOTH },
  owner: [{ session: [] }],
}

/** Such as `keys`, and `own` for what members have. */
const tagOf = ({ path }: GuardedRoute) => path.slice(API_PATH.length + 1).split(/[/.]/, 1)[0] ?? ''

const toTags = (routes: readonly GuardedRoute[]) => [...new Set(routes.map(tagOf))].map((name) => ({ name }))

const toBody = (schema: TSchema & Body) => ({
  ...schema,
  ...(schema.properties && {
    properties: mapValues(schema.properties, (field, name) => ({ ...field, description: FIELDS[name] })),
  }),
})

const mapValues = <From, To>(record: Record<string, From>, map: (value: From, name: string) => To) =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value, name)]))

/** Queries are text, whatever is read from it: of the forms that the router takes, the plain one tells what is meant; none: several values. */
function toParameter({ schema, ...parameter }: NonNullable<Operation['parameters']>[number]) {
  const plain = schema.anyOf?.find(({ type }) => type === 'integer' || type === 'boolean')
  const several = Object.keys(schema).length === 0 ? { type: 'array', items: { type: 'string' } } : null
  const told = plain ? { type: plain.type } : (several ?? schema)
  return { ...parameter, description: PARAMETERS[parameter.name], schema: { ...told, ...VALUES[parameter.name] } }
}

/** The refusals of a route, by their status. */
function toErrors({ method, body, least }: GuardedRoute, { parameters }: Operation, words?: RouteWords) {
  const kinds: [status: number, kind: string][] = [
    ...(body || parameters ? [[400, 'invalid'] as const] : []),
    ...(least === 'door'
      ? []
      : ([
          [401, 'signed_out'],
          [401, 'token_wrong'],
          [403, 'role_too_small'],
        ] as const)),
    ...([
      [403, 'origin_not_allowed'],
      [403, 'host_not_allowed'],
    ] as const),
    ...(body
      ? ([
          [411, 'length_required'],
          [413, 'body_too_long'],
        ] as const)
      : []),
    ...(words?.edits ? [[412, 'revision_conflict'] as const] : []),
    ...(words?.errors ?? []).map((kind) => [statusOf(kind), kind] as const),
    ...Object.entries(words?.ownErrors ?? {}).map(([kind, status]) => [status, kind] as const),
    ...([
      [429, 'too_many_reports'],
      [500, 'internal'],
      [503, 'database_busy'],
      [503, 'reports_busy'],
      [503, 'stopping'],
    ] as const),
    ...(method === 'GET'
      ? []
      : ([[507, 'disk_full'], ...(least === 'door' ? [] : [[429, 'too_many_changes'] as const])] as const)),
  ].map(([status, kind]) => [status, kind])
  const byStatus = Map.groupBy(kinds, ([status]) => status)
  return Object.fromEntries(
    [...byStatus].map(([status, all]) => {
      const description = `${[...new Set(all.map(([, kind]) => `\`${kind}\``))].join(', ')}.`
      return [status, { description, content: { 'application/json': { schema: Refusal } } }]
    }),
  )
}
