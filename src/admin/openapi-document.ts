/** The admin API as OpenAPI 3.1 tells of it. `@elysiajs/openapi` reads the schemas of paths and queries off the routes. Pure. */
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
import { RequestSchema } from '../domain/request.ts'
import { withComponents } from '../http/openapi/document.ts'
import { ApiError, ChatCompletion } from '../http/openapi/schemas.ts'
import { API_PATH, type GuardedRoute, type Least } from './access.ts'
import { statusOf } from './errors.ts'
import type { Described } from './openapi.ts'

/** A refusal: a kind for scripts, a sentence for people. */
const Refusal = Type.Object({ error: Type.Object({ kind: Text, message: Text }) })

/** Every schema that a file of documents exports, under its name there. */
const NAMED: Readonly<Record<string, object>> = {
  ...Object.fromEntries(
    [people, keys, models, upstreams, catalog, requests, usage, audit, checks, server]
      .flatMap((file) => Object.entries<unknown>({ ...file }))
      .filter((named): named is [string, TSchema] => KindGuard.IsSchema(named[1])),
  ),
  ...{ Refusal, ChatRequest: RequestSchema, ChatCompletion, ApiError },
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
    paths[path] = { ...paths[path], [method]: toOperation(route, read[path]?.[method] ?? {}) }
  }
  return withComponents({ ...toHead(cookie), tags: toTags(routes), paths }, NAMED)
}

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
  parameters?: { name: string; in: string; required: boolean; schema: TSchema }[]
}
type Paths = Readonly<Record<string, Readonly<Record<string, Operation>> | undefined>>

function toOperation(route: GuardedRoute, read: Operation) {
  const { least, except, answer, operation } = route
  const body = route.body
    ? { required: true, content: { 'application/json': { schema: route.body } } }
    : operation?.requestBody
  const parameters = [...(read.parameters ?? []).map(toParameter), ...(route.edits ? [IF_MATCH] : [])]
  const done = answer && { description: 'Done.', content: { 'application/json': { schema: answer } } }
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
    'The `revision` of the state that the edit was made from, in quotes. The edit is refused if the state has changed since; without it, the edit is always made.',
}

/** What the parameters of paths mean, which are the same everywhere. */
const IN_PATHS: Readonly<Record<string, string>> = {
  id: 'Its id. Keys, teams and requests are found by a part of it, too, and keys, teams, tokens and people by their name.',
  slug: 'A slug with its slash escaped, or an alias.',
  number: 'Of a state of the catalogue, from 1 on.',
  name: 'Of a backup, as lists have it.',
  upstream: 'Its id.',
  upstream_model: 'What the upstream calls it, with slashes escaped.',
}

const WHO: Readonly<Record<Least, string>> = {
  anyone: 'For everybody.',
  member: 'For everybody who has signed in.',
  viewer: 'For viewers, editors and owners.',
  editor: 'For editors and owners.',
  owner: 'For owners.',
}

const BOTH = [{ session: [] }, { token: [] }]
/** No token acts as an owner. */
const SECURITY: Readonly<Record<Least, object[]>> = {
  ...{ anyone: [], member: BOTH, viewer: BOTH, editor: BOTH },
  owner: [{ session: [] }],
}

/** Such as `keys`, and `own` for what members have. */
const tagOf = ({ path }: GuardedRoute) => path.slice(API_PATH.length + 1).split(/[/.]/, 1)[0] ?? ''

const toTags = (routes: readonly GuardedRoute[]) => [...new Set(routes.map(tagOf))].map((name) => ({ name }))

/** Queries are text, whatever is read from it: of the forms that the router takes, the plain one tells what is meant; none: several values. */
function toParameter({ schema, ...parameter }: NonNullable<Operation['parameters']>[number]) {
  const { description = IN_PATHS[parameter.name], values, ...read } = schema
  const plain = read.anyOf?.find(({ type }: TSchema) => type === 'integer' || type === 'boolean')
  const several = Object.keys(read).length === 0 ? { type: 'array', items: { type: 'string' } } : null
  const told = plain ? { type: plain.type } : (several ?? read)
  return { ...parameter, description, schema: { ...told, ...values } }
}

/** The refusals of a route, by their status. */
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
