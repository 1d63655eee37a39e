/**
 * Shared by all HTTP servers: better defaults for Bun and Elysia, 404 or 405 by the known routes, and a request's path.
 */
import { bearer } from '@elysiajs/bearer'
import { type AnyElysia, Elysia } from 'elysia'

export type Controller = AnyElysia

export type Listener = Pick<Elysia, 'server'>

export type ListeningApp = Pick<AnyElysia, 'server' | 'fetch' | 'listen'>

/** The message is for the client. */
export class NoRoute extends Error {
  /** @param allow the path's methods, for the header `allow`; null if the path is not served. */
  constructor(
    method: string,
    readonly path: string,
    readonly allow: string | null,
  ) {
    super(
      allow === null
        ? `Invalid URL (${method} ${path.slice(0, 200)})`
        : `Not allowed to ${method} on ${path.slice(0, 200)}; use ${allow} instead.`,
    )
  }
}

export interface InstanceOptions {
  /** Turns a NoRoute or anything thrown into a response. Must not throw. */
  toResponse(error: unknown, request: Request): Response
  /** Idle timeout of a connection, in seconds. */
  idleSeconds: number
  /** Bun rejects longer bodies with a bare 413. */
  maxBodyBytes: number
  /** False for few requests: compiling a route's handler takes longer than it saves. */
  isCompiled?: boolean
  /** Whether requests come by HTTPS. */
  isSecure?: boolean
}

/** Creates an instance whose error handler comes first, so that it covers every controller. */
export function createInstance({
  toResponse,
  idleSeconds,
  maxBodyBytes,
  isCompiled = true,
  isSecure = false,
}: InstanceOptions) {
  const app = new Elysia({
    aot: isCompiled,
    // Bun's router is no faster, and creating its routes takes 2 ms of a start.
    systemRouter: false,
    serve: {
      idleTimeout: idleSeconds,
      maxRequestBodySize: maxBodyBytes,
      // Another process must not take some of the requests unnoticed.
      reusePort: false,
      // The default, even in a compiled binary, is Bun's error page with our source code.
      development: false,
    },
    // The router finds the path from the 8th character (where `https://` still has a slash) or the 12th, which needs a host of
    // three characters.
    handler: { standardHostname: isSecure },
    // Otherwise unknown fields are dropped silently.
    normalize: false,
  }).onError(
    ({ error, code, request }): Response =>
      toResponse(code === 'NOT_FOUND' ? toNoRoute(app.routes, request) : error, request),
  )
  return app
}

export interface Route {
  method: string
  /** May contain `:name` segments and end in `*`. */
  path: string
}

function toNoRoute(routes: readonly Route[], request: Request): NoRoute {
  const path = pathOf(request)
  const methods = methodsOf(routes, path)
  const isServed = methods.length > 0 && !methods.includes(request.method)
  return new NoRoute(request.method, path, isServed ? methods.join(', ') : null)
}

/** The path's methods. Like the router, ignores a trailing slash. */
export function methodsOf(routes: readonly Route[], path: string): string[] {
  const plain = path.replace(/(?<=.)\/$/, '')
  const fitting = routes.filter((route) => toPattern(route.path).test(plain))
  // The router prefers exact paths to parameters.
  const exact = fitting.filter((route) => route.path === plain)
  return [...new Set((exact.length > 0 ? exact : fitting).map(({ method }) => method))]
}

/** By route path, of which there are few. */
const patterns = new Map<string, RegExp>()

/** A pattern for a route's path. Its one group is the `*`. */
export const toPattern = (path: string) => patterns.getOrInsertComputed(path, compile)

const compile = (path: string) => new RegExp(`^${path.replaceAll(/:[^/]+/g, '[^/]+').replace('*', '(.*)')}$`)

/** False without a valid Host header: the URL is then only a path, for which the router misses most routes. */
export const hasHost = (request: Request): boolean => URL.canParse(request.url)

/** Works without a valid Host header too, unlike `new URL`. */
export const pathOf = (request: Request): string => URL.parse(request.url, 'http://localhost')?.pathname ?? '/'

const unguessable = crypto.randomUUID()

/**
 * Reads only the header. An unguessable parameter name keeps the plugin from also reading the URL, where logs and
 * browser histories would keep the secret.
 */
export const bearerToken = () => bearer({ extract: { body: unguessable, query: unguessable, header: 'Bearer' } })
