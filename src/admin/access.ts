/**
 * Whom the admin API lets in. Before anything of a request is read: it must name a host of ours, not be another site's, and bring the
 * session or the token of somebody, but for the doors. Then each route says the least role that it takes, and what it does; one that
 * says nothing keeps the API from being made.
 */
import type { TSchema } from '@sinclair/typebox'
import { type AnyElysia, Elysia } from 'elysia'
import type { Role } from '../domain/roles.ts'
import type { ServiceFailure } from '../domain/service-error.ts'
import { pathOf } from '../http/instance.ts'
import { findBySession, findByToken, type Principal } from '../identity/principal.ts'
import type { IdentityStore, StoredSession } from '../store/identity-store.ts'
import { AdminError } from './errors.ts'
import { isForeign, type OwnOrigin, readCookie, toOwnOrigin } from './origins.ts'

/** Below which all of it is. */
export const API_PATH = '/admin/api'
/** Whose body is read by the gateway, by its own limits. */
export const PLAYGROUND = '/playground'

export interface AccessDeps {
  identity: IdentityStore
  /** Origins that the dashboard is reached under, all of them https. */
  publicUrls: readonly string[]
  now(): number
}

/** Who asks, and under which of our addresses. */
export interface Visitor {
  own: OwnOrigin
  /** Null at the doors alone. */
  principal: Principal | null
}

/** Each includes what stands before it: `anyone` takes everybody, `member` everybody who has signed in. */
const RANKS = ['anyone', 'member', 'viewer', 'editor', 'owner'] as const
export type Least = (typeof RANKS)[number]

const rankOf = (role: Role | null) => RANKS.indexOf(role ?? 'anyone')

/**
 * The owner of the data folder, whose commands come over the control socket or are answered in their own process. The audit log
 * names them by this id.
 */
export const OPERATOR: Principal = {
  ...{ id: 'cli', name: 'cli', role: 'owner', teamId: null, session: null, hasPassword: false },
}

export const isOperator = ({ id }: Pick<Principal, 'id'>) => id === OPERATOR.id

/** Has a request count as the operator's, whatever it says of itself. */
export const identifyOperator = (request: Request): void =>
  void visitors.set(request, { own: { origin: 'http://localhost', isSecure: false }, principal: OPERATOR })

const KIB = 1024
/** Most of a body, which is parsed at once. */
const MAX_BODY_BYTES: Readonly<Record<Role | 'nobody', number>> = {
  ...{ nobody: 16 * KIB, member: 64 * KIB, viewer: 64 * KIB, editor: 256 * KIB, owner: 256 * KIB },
}
/** Of a catalogue, by whoever may apply one. */
const MAX_CATALOG_BYTES = 8 * KIB ** 2

const visitors = new WeakMap<Request, Visitor>()
/** What visitors were found by. */
const found = new WeakMap<Request, AccessDeps>()

/** Finds out who asks. Throws an AdminError where nobody may. */
export async function identify(request: Request, deps: AccessDeps): Promise<void> {
  if (visitors.get(request)?.principal === OPERATOR) return
  const { identity, publicUrls, now } = deps
  const { headers, method } = request
  found.set(request, deps)
  const own = toOwnOrigin(headers.get('host'), publicUrls)
  if (own === null) throw new AdminError(403, 'host_not_allowed', NO_HOST)
  const token = /^Bearer +(\S+)$/i.exec(headers.get('authorization') ?? '')?.[1]
  if (token !== undefined) {
    const principal = await findByToken(identity, token, now())
    if (principal === null) throw new AdminError(401, 'token_wrong', NO_TOKEN)
    visitors.set(request, { own, principal })
    return
  }
  if (isForeign(method, headers, own)) throw new AdminError(403, 'origin_not_allowed', NO_ORIGIN)
  const secret = readCookie('session', headers, own)
  visitors.set(request, { own, principal: secret === null ? null : await findBySession(identity, secret, now()) })
}

/** Refuses a body that would be too long to read, or does not say how long it is. */
export function requireShort(request: Request): void {
  const { headers } = request
  if (visitorOf(request).principal === OPERATOR) return
  if (headers.has('transfer-encoding')) throw new AdminError(411, 'length_required', 'Send the length of the body.')
  const { principal } = visitorOf(request)
  const isCatalog =
    pathOf(request).startsWith(`${API_PATH}/catalog/`) && rankOf(principal?.role ?? null) >= rankOf('editor')
  const most = isCatalog ? MAX_CATALOG_BYTES : MAX_BODY_BYTES[principal?.role ?? 'nobody']
  if (Number(headers.get('content-length')) > most)
    throw new AdminError(413, 'body_too_long', `The body is longer than ${most / KIB} KiB.`)
}

/** A body may have taken hours to arrive: somebody may have been disabled, or signed out, since it began. */
async function identifyAgain(request: Request): Promise<void> {
  const deps = found.get(request)
  if (deps && Number(request.headers.get('content-length')) > 0) await identify(request, deps)
}

const NO_HOST =
  'The dashboard does not answer under this name. Start the server with --public-url https://NAME, or use it on the machine itself.'
const NO_ORIGIN = 'This request comes from a page of another site.'
const NO_TOKEN =
  'This is no token for the admin API: make one with `tollgate admin token create`. Keys are for models alone.'

/** What a route says of itself: who may ask for it, and what the description of the API says beside its schemas. */
export interface Route {
  least: Least
  /** Of those the one who may not. */
  except?: Role
  /** What it does, in a line. */
  summary: string
  /** What else there is to know. */
  description?: string
  /** What it answers with; null where `operation` says it. */
  answer: TSchema | null
  /** Its body and its answers as OpenAPI has them, where they are no documents of this API. */
  operation?: { requestBody?: object; responses: Readonly<Record<string, unknown>> }
  /** Whether it edits one state, whose revision `If-Match` may name. */
  edits?: true
  /** Kinds of refusal, beside those that many routes have. */
  errors?: readonly ServiceFailure['kind'][]
  /** Kinds that this API has by itself, with their status. */
  ownErrors?: Readonly<Record<string, number>>
}

/** Checks the role that a route names, and gives its handler `visitor`, `principal` and, for reports, `asker`. */
export const access = () =>
  new Elysia({ name: 'access' }).macro({
    route: (route: Route) => ({
      // Before the body is checked: whoever may not do it learns nothing of it.
      transform: Object.assign(
        async ({ request }: { request: Request }) => {
          if (route.least !== 'anyone') await identifyAgain(request)
          requireRank(request, route.least)
          if (route.except) requireOther(request, route.except)
        },
        { route },
      ),
      resolve: ({ request }) => {
        const visitor = visitorOf(request)
        const principal = visitor.principal ?? NOBODY
        const asker = { id: principal.id, signal: request.signal }
        return { visitor, principal, asker }
      },
    }),
  })

/** Whether somebody who was let in would be let in again, for answers that last. */
export async function isStillLetIn(request: Request, least: Least, deps: AccessDeps): Promise<boolean> {
  try {
    await identify(request, deps)
    requireRank(request, least)
    return true
  } catch (error) {
    if (error instanceof AdminError) return false
    throw error
  }
}

const NOBODY: Principal = { id: '', name: '', role: 'member', teamId: null, session: null, hasPassword: false }

function visitorOf(request: Request): Visitor {
  const visitor = visitors.get(request)
  if (!visitor) throw new Error('a request has come past the access check')
  return visitor
}

function requireRank(request: Request, least: Least): void {
  const { principal } = visitorOf(request)
  if (rankOf(principal?.role ?? null) >= RANKS.indexOf(least)) return
  if (principal === null) throw new AdminError(401, 'signed_out', 'Sign in first.')
  throw new AdminError(
    403,
    'role_too_small',
    `Only ${NEEDED[least]} may do this, and you are signed in as ${principal.role}.`,
  )
}

function requireOther(request: Request, except: Role): void {
  if (visitorOf(request).principal?.role === except)
    throw new AdminError(403, 'role_too_small', `This is not for ${except}s, and you are signed in as one.`)
}

/** Throws `no_session`. */
export function requireSession({ session }: Principal): StoredSession {
  if (session) return session
  throw new AdminError(403, 'no_session', 'This is for people who have signed in; a token has no session.')
}

const NEEDED: Readonly<Record<Least, string>> = {
  ...{ anyone: 'anybody', member: 'who has signed in', viewer: 'viewers, editors and owners' },
  ...{ editor: 'editors and owners', owner: 'owners' },
}

export interface GuardedRoute extends Route {
  method: string
  path: string
  /** What its body is checked against; null where it takes none, or reads it itself. */
  body: TSchema | null
}

/** All routes, each with what it says of itself. Throws where one says nothing. */
export function toGuarded(app: AnyElysia): GuardedRoute[] {
  return app.routes.map(({ method, path, hooks }) => {
    const checks = [hooks.transform ?? []].flat().map((hook: { fn?: { route?: Route } }) => hook.fn)
    const route = checks.find((check) => check?.route)?.route
    if (route === undefined) throw new Error(`${method} ${path} says nothing of who may ask for it`)
    return { ...route, method, path, body: hooks.body ?? null }
  })
}
