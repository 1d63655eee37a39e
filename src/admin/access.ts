/**
 * Access control of the admin API: host and origin checks and authentication before the body is read, then the minimum role that every
 * route must declare.
 */
import type { TSchema } from '@sinclair/typebox'
import { type AnyElysia, Elysia } from 'elysia'
import type { Role } from '../domain/roles.ts'
import type { ServiceFailure } from '../domain/service-error.ts'
import { pathOf } from '../http/instance.ts'
import { findBySession, findByToken, type Principal } from '../identity/principal.ts'
import { bearerOf } from '../keys/token.ts'
import type { IdentityStore, StoredSession } from '../store/identity-store.ts'
import { AdminError } from './errors.ts'
import { isForeign, type OwnOrigin, readCookie, toOwnOrigin } from './origins.ts'

export const API_PATH = '/admin/api'
export const PLAYGROUND = '/playground'
/** The gateway reads its body, with its own limits. */
export const isPlayground = (path: string): boolean => `${path}/`.startsWith(`${API_PATH}${PLAYGROUND}/`)

export interface AccessDeps {
  identity: IdentityStore
  /** Public https origins of the dashboard. */
  publicUrls: readonly string[]
  now(): number
}

export interface Visitor {
  own: OwnOrigin
  /** Null if not signed in. */
  principal: Principal | null
}

/** In ascending order: `anyone` needs no sign-in, `member` any role. */
const RANKS = ['anyone', 'member', 'viewer', 'editor', 'owner'] as const
export type Least = (typeof RANKS)[number]

const rankOf = (role: Role | null) => RANKS.indexOf(role ?? 'anyone')

/** The owner of the data folder, whose commands use the control socket or their own process; the ID is in the audit log. */
export const OPERATOR: Principal = {
  ...{ id: 'cli', name: 'cli', role: 'owner', teamId: null, session: null, hasPassword: false },
}

export const isOperator = ({ id }: Pick<Principal, 'id'>) => id === OPERATOR.id

/** Marks a request as the operator's. */
export const identifyOperator = (request: Request): void =>
  void visitors.set(request, { own: { origin: 'http://localhost', isSecure: false }, principal: OPERATOR })

const KIB = 1024
const MAX_BODY_BYTES: Readonly<Record<Role | 'nobody', number>> = {
  ...{ nobody: 16 * KIB, member: 64 * KIB, viewer: 64 * KIB, editor: 256 * KIB, owner: 256 * KIB },
}
/** For catalogs, from editors and owners. */
const MAX_CATALOG_BYTES = 8 * KIB ** 2

const visitors = new WeakMap<Request, Visitor>()
const found = new WeakMap<Request, AccessDeps>()

/** Authenticates a request. @throws AdminError */
export async function identify(request: Request, deps: AccessDeps): Promise<void> {
  if (visitors.get(request)?.principal === OPERATOR) return
  const { identity, publicUrls, now } = deps
  const { headers, method } = request
  found.set(request, deps)
  const own = toOwnOrigin(headers.get('host'), publicUrls)
  if (own === null) throw new AdminError(403, 'host_not_allowed', NO_HOST)
  const token = bearerOf(headers.get('authorization'))
  if (token !== null) {
    const principal = await findByToken(identity, token, now())
    if (principal === null) throw new AdminError(401, 'token_wrong', NO_TOKEN)
    visitors.set(request, { own, principal })
    return
  }
  if (isForeign(method, headers, own)) throw new AdminError(403, 'origin_not_allowed', NO_ORIGIN)
  const secret = readCookie('session', headers, own)
  visitors.set(request, { own, principal: secret === null ? null : await findBySession(identity, secret, now()) })
}

/** Rejects bodies that are too long or lack a length. */
export function requireShort(request: Request): void {
  const { headers } = request
  if (visitorOf(request).principal === OPERATOR) return
  if (headers.has('transfer-encoding')) throw new AdminError(411, 'length_required', 'Send the header content-length.')
  const { principal } = visitorOf(request)
  const isCatalog =
    pathOf(request).startsWith(`${API_PATH}/catalog/`) && rankOf(principal?.role ?? null) >= rankOf('editor')
  const most = isCatalog ? MAX_CATALOG_BYTES : MAX_BODY_BYTES[principal?.role ?? 'nobody']
  if (Number(headers.get('content-length')) > most)
    throw new AdminError(413, 'body_too_long', `The body must be at most ${most / KIB} KiB.`)
}

/** A slow body may take hours, and the user may have been disabled or signed out since. */
async function identifyAgain(request: Request): Promise<void> {
  const deps = found.get(request)
  if (deps && Number(request.headers.get('content-length')) > 0) await identify(request, deps)
}

const NO_HOST =
  'The dashboard is not available at this host. Start the server with --public-url https://HOST, or open it on the server itself.'
const NO_ORIGIN = 'The request comes from another site.'
const NO_TOKEN =
  'Invalid admin API token. Create one with `tollgate admin token create`. API keys only work for models.'

/** A route's access rule and documentation. */
export interface Route {
  least: Least
  /** A role that is excluded, although it includes `least`. */
  except?: Role
  /** Imperative, without a full stop. */
  summary: string
  description?: string
  /** Response schema; null if `operation` has it. */
  answer: TSchema | null
  /** OpenAPI body and responses that are not documents of this API. */
  operation?: { requestBody?: object; responses: Readonly<Record<string, unknown>> }
  /** True if it supports `If-Match`. */
  edits?: true
  /** Error kinds other than the common ones. */
  errors?: readonly ServiceFailure['kind'][]
  /** Error kinds of the admin API itself, with status. */
  ownErrors?: Readonly<Record<string, number>>
}

/** Checks a route's role, and provides `visitor`, `principal`, and `asker` (for reports) to its handler. */
export const access = () =>
  new Elysia({ name: 'access' }).macro({
    route: (route: Route) => ({
      // Before body validation, so that its errors reveal nothing to others.
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

/** Checks access again, for long-lived responses. */
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
  if (!visitor) throw new Error('the request was not identified')
  return visitor
}

function requireRank(request: Request, least: Least): void {
  const { principal } = visitorOf(request)
  if (rankOf(principal?.role ?? null) >= RANKS.indexOf(least)) return
  if (principal === null) throw new AdminError(401, 'signed_out', 'Sign in first.')
  throw new AdminError(
    403,
    'role_too_small',
    `This requires the role ${NEEDED[least]}. Your role is ${principal.role}.`,
  )
}

function requireOther(request: Request, except: Role): void {
  if (visitorOf(request).principal?.role === except)
    throw new AdminError(403, 'role_too_small', `This is not available to ${except}s.`)
}

/** @throws `no_session` */
export function requireSession({ session }: Principal): StoredSession {
  if (session) return session
  throw new AdminError(403, 'no_session', 'This requires a signed-in session; tokens have none.')
}

const NEEDED: Readonly<Record<Least, string>> = {
  ...{ anyone: 'anyone', member: 'member, viewer, editor, or owner', viewer: 'viewer, editor, or owner' },
  ...{ editor: 'editor or owner', owner: 'owner' },
}

export interface GuardedRoute extends Route {
  method: string
  path: string
  /** Body schema; null if it has none, or reads it itself. */
  body: TSchema | null
}

/** All routes with their access rules. Throws if one has none. */
export function toGuarded(app: AnyElysia): GuardedRoute[] {
  return app.routes.map(({ method, path, hooks }) => {
    const checks = [hooks.transform ?? []].flat().map((hook: { fn?: { route?: Route } }) => hook.fn)
    const route = checks.find((check) => check?.route)?.route
    if (route === undefined) throw new Error(`${method} ${path} declares no access rule`)
    return { ...route, method, path, body: hooks.body ?? null }
  })
}
