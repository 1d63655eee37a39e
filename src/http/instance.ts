/**
 * What every HTTP surface here begins with: the public one (`app.ts`) and the control socket (`server/owner-socket.ts`). It sets
 * what Bun and Elysia would otherwise choose badly, tells an unknown path from a wrong method by the routes that there are,
 * and reads a request's path.
 */
import { bearer } from '@elysiajs/bearer'
import { type AnyElysia, Elysia } from 'elysia'

export type Controller = AnyElysia

export type Listener = Pick<Elysia, 'server'>

/** A request that no route takes. Its message is a sentence for whoever asked. */
export class NoRoute extends Error {
  /** @param allow the methods that its path is served with, for the header `allow`; null where the path is not served. */
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
  /** Turns whatever a request ended in, be it a NoRoute or something thrown, into its answer. Must not throw. */
  toResponse(error: unknown, request: Request): Response
  /** Seconds of silence that a connection may have. */
  idleSeconds: number
  /** Bun answers a longer body with 413 and nothing else. */
  maxBodyBytes: number
  /** False: for few requests, since compiling the handler of a route takes longer than it saves on them. */
  isCompiled?: boolean
}

/** Makes an Elysia instance without routes. Its error handler comes first, so that it holds for every controller it uses. */
export function createInstance({ toResponse, idleSeconds, maxBodyBytes, isCompiled = true }: InstanceOptions) {
  const app = new Elysia({
    aot: isCompiled,
    serve: {
      idleTimeout: idleSeconds,
      maxRequestBodySize: maxBodyBytes,
      // A second process must not take part of the requests unnoticed.
      reusePort: false,
      // Bun's own error page, with our sources in it, is its default even in a compiled binary.
      development: false,
    },
    // Otherwise the router takes part of a short host name for the path.
    handler: { standardHostname: false },
    // Otherwise fields that a schema does not name would be dropped without a word.
    normalize: false,
  }).onError(
    ({ error, code, request }): Response =>
      toResponse(code === 'NOT_FOUND' ? toNoRoute(app.routes, request) : error, request),
  )
  return app
}

export interface Route {
  method: string
  /** May have `:name` segments and end in `*`. */
  path: string
}

function toNoRoute(routes: readonly Route[], request: Request): NoRoute {
  const path = pathOf(request)
  const methods = methodsOf(routes, path)
  const isServed = methods.length > 0 && !methods.includes(request.method)
  return new NoRoute(request.method, path, isServed ? methods.join(', ') : null)
}

/** The methods that a path is served with; the router takes one with a slash at its end for the same. */
export function methodsOf(routes: readonly Route[], path: string): string[] {
  const plain = path.replace(/(?<=.)\/$/, '')
  const fitting = routes.filter((route) => toPattern(route.path).test(plain))
  // The router prefers a path that is written out to one whose parameter would fit it.
  const exact = fitting.filter((route) => route.path === plain)
  return [...new Set((exact.length > 0 ? exact : fitting).map(({ method }) => method))]
}

/** By the paths of routes, of which there are few. */
const patterns = new Map<string, RegExp>()

/** A route's path as a pattern, whose one group is what its `*` stands for. */
export const toPattern = (path: string) => patterns.getOrInsertComputed(path, compile)

const compile = (path: string) => new RegExp(`^${path.replaceAll(/:[^/]+/g, '[^/]+').replace('*', '(.*)')}$`)

/** Whether a request has a usable Host header. Without one its URL is only a path, in which the router misses most routes. */
export const hasHost = (request: Request): boolean => URL.canParse(request.url)

/** The path of a request, also without a usable Host header: `new URL` alone does not take its URL. */
export const pathOf = (request: Request): string => URL.parse(request.url, 'http://localhost')?.pathname ?? '/'

const unguessable = crypto.randomUUID()

/**
 * Reads the header. The plugin would also take a secret from the URL, where logs and histories keep it: that is switched off
 * by a parameter name that nobody can guess.
 */
export const bearerToken = () => bearer({ extract: { body: unguessable, query: unguessable, header: 'Bearer' } })
