/** Builds the admin API's OpenAPI 3.1 document; `@elysiajs/openapi` extracts path and query schemas. */
import { toOpenAPISchema } from '@elysiajs/openapi/openapi'
import { KindGuard, type TSchema, Type } from '@sinclair/typebox'
import * as audit from '../documents/audit.ts'
import * as catalog from '../documents/catalog.ts'
import * as checks from '../documents/checks.ts'
import { Text } from '../documents/fields.ts'
import * as keys from '../documents/key.ts'
import * as models from '../documents/model.ts'
import * as people from '../documents/people.ts'
import * as requests from '../documents/request.ts'
import * as server from '../documents/server.ts'
import * as upstreams from '../documents/upstream.ts'
import * as usage from '../documents/usage.ts'
import { OF_ENDPOINTS, withComponents } from '../http/openapi/document.ts'
import { ApiError } from '../http/openapi/schemas.ts'
import { API_PATH, type GuardedRoute, type Least } from './access.ts'
import { statusOf } from './errors.ts'
import type { Described } from './openapi.ts'

/** `kind` is for scripts, `message` for people. */
const Refusal = Type.Object({ error: Type.Object({ kind: Text, message: Text }) })

/** Schemas exported by `documents/`, by name. */
const NAMED: Readonly<Record<string, object>> = {
  ...Object.fromEntries(
    [people, keys, models, upstreams, catalog, requests, usage, audit, checks, server]
      .flatMap((file) => Object.entries<unknown>({ ...file }))
      .filter((named): named is [string, TSchema] => KindGuard.IsSchema(named[1])),
  ),
  ...{ ...OF_ENDPOINTS, ApiError, Refusal },
}

/**
 * @param cookie name of the session cookie at the requested host
 */
export function toAdminDocument({ app, routes }: Described, cookie: string) {
  const read = toOpenAPISchema(app, { staticFile: false, methods: [] }).paths as Paths
  const paths: Record<string, Record<string, unknown>> = {}
  for (const route of routes) {
    const path = route.path.replaceAll(/:([^/]+)/g, '{$1}')
    const method = route.method.toLowerCase()
    paths[path] = { ...paths[path], [method]: toOperation(route, read[path]?.[method] ?? {}) }
  }
  return withComponents({ ...toHead(cookie), tags: toTags(routes), paths }, NAMED)
}

const toHead = (cookie: string) => ({
  openapi: '3.1.1',
  info: {
    title: 'Tollgate admin API',
    version: '1',
    description:
      'Everything the dashboard and the CLI do. Money is in integer nano-dollars, times in ms since 1970. Bodies are JSON with a content-length of at most 256 KiB (catalogs: 8 MiB; members and viewers: 64 KiB; before sign-in: 16 KiB). Unknown fields are rejected.',
  },
  servers: [{ url: '/' }],
  components: {
    securitySchemes: {
      session: {
        type: 'apiKey',
        in: 'cookie',
        name: cookie,
        description:
          'Set by signing in. The name depends on the URL: `__Host-tollgate` over https, `tollgate` over http on loopback, with the port appended, such as `tollgate-8787`. Changes also need the header `origin`.',
      },
      token: {
        type: 'http',
        scheme: 'bearer',
        description: '`sk-tgadm-…`. A read token acts as a viewer, a write token as an editor.',
      },
    },
  },
})

interface Operation {
  operationId?: string
  parameters?: { name: string; in: string; required: boolean; schema: TSchema }[]
}
type Paths = Readonly<Record<string, Readonly<Record<string, Operation>> | undefined>>

function toOperation(route: GuardedRoute, read: Operation) {
  const { least, except, answer, operation } = route
  const body = route.body
    ? { required: true, content: { 'application/json': { schema: route.body } } }
    : operation?.requestBody
  const parameters = [...(read.parameters ?? []).map(toParameter), ...(route.edits ? [IF_MATCH] : [])]
  const done = answer && { description: 'Success.', content: { 'application/json': { schema: answer } } }
  return {
    operationId: read.operationId,
    summary: route.summary,
    description: [route.description, WHO[least]].filter(Boolean).join('\n\n'),
    tags: [tagOf(route)],
    security: SECURITY[least],
    'x-least-role': least === 'anyone' ? null : least,
    ...(except ? { 'x-except-role': except } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body ? { requestBody: body } : {}),
    responses: { ...toErrors(route, read), ...operation?.responses, ...(done ? { 200: done } : {}) },
  }
}

const IF_MATCH = {
  ...{ name: 'if-match', in: 'header', required: false, schema: { type: 'string' } },
  description:
    'The `revision` that the edit is based on, in quotes. The edit fails if the state has changed since. Without this header, it is always applied.',
}

const IN_PATHS: Readonly<Record<string, string>> = {
  id: 'ID. Keys, teams, and requests also match by part of the ID; keys, teams, tokens, and users by name.',
  slug: 'Model ID with its slash escaped, or an alias.',
  number: 'Catalog version, from 1.',
  name: 'Name of a backup.',
  upstream: 'Upstream ID.',
  upstream_model: 'Model name at the upstream, with slashes escaped.',
}

const WHO: Readonly<Record<Least, string>> = {
  anyone: 'No sign-in required.',
  member: 'Requires any role.',
  viewer: 'Requires the role viewer, editor, or owner.',
  editor: 'Requires the role editor or owner.',
  owner: 'Requires the role owner.',
}

const BOTH = [{ session: [] }, { token: [] }]
/** No token acts as an owner. */
const SECURITY: Readonly<Record<Least, object[]>> = {
  ...{ anyone: [], member: BOTH, viewer: BOTH, editor: BOTH },
  owner: [{ session: [] }],
}

/** First path segment, such as `keys`. */
const tagOf = ({ path }: GuardedRoute) => path.slice(API_PATH.length + 1).split(/[/.]/, 1)[0] ?? ''

const toTags = (routes: readonly GuardedRoute[]) => [...new Set(routes.map(tagOf))].map((name) => ({ name }))

/** Replaces the router's string-or-number unions with the plain type; an empty schema means repeated values. */
function toParameter({ schema, ...parameter }: NonNullable<Operation['parameters']>[number]) {
  const { description = IN_PATHS[parameter.name], values, ...read } = schema
  const plain = read.anyOf?.find(({ type }: TSchema) => type === 'integer' || type === 'boolean')
  const several = Object.keys(read).length === 0 ? { type: 'array', items: { type: 'string' } } : null
  const told = plain ? { type: plain.type } : (several ?? read)
  return { ...parameter, description, schema: { ...told, ...values } }
}

/** Errors of a route by status. */
function toErrors({ method, body, least, edits, errors, ownErrors }: GuardedRoute, { parameters }: Operation) {
  const kinds: [status: number, kind: string][] = [
    ...(body || parameters ? [[400, 'invalid'] as const] : []),
    ...(least === 'anyone'
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
    ...(edits ? [[412, 'revision_conflict'] as const] : []),
    ...(errors ?? []).map((kind) => [statusOf(kind), kind] as const),
    ...Object.entries(ownErrors ?? {}).map(([kind, status]) => [status, kind] as const),
    ...([
      [429, 'too_many_reports'],
      [500, 'internal'],
      [503, 'database_busy'],
      [503, 'reports_busy'],
      [503, 'stopping'],
    ] as const),
    ...(method === 'GET'
      ? []
      : ([[507, 'disk_full'], ...(least === 'anyone' ? [] : [[429, 'too_many_changes'] as const])] as const)),
  ].map(([status, kind]) => [status, kind])
  const byStatus = Map.groupBy(kinds, ([status]) => status)
  return Object.fromEntries(
    [...byStatus].map(([status, all]) => {
      const description = `${[...new Set(all.map(([, kind]) => `\`${kind}\``))].join(', ')}.`
      return [status, { description, content: { 'application/json': { schema: Refusal } } }]
    }),
  )
}
