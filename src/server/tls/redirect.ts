/** Redirects browsers from plain HTTP to HTTPS. */
import { GatewayError } from '../../domain/error.ts'
import { mintId, toRequestId } from '../../domain/id.ts'
import { errorFormatOf } from '../../http/endpoints.ts'
import { toErrorResponse } from '../../http/error-response.ts'
import { hasHost, pathOf } from '../../http/instance.ts'
import { CAN_SHARE, reserve } from '../listener.ts'
import { toOrigin } from './certificates.ts'

interface RedirectDeps {
  hostname: string
  port: number
  /** See `ListenPlace`. */
  isShared?: boolean
  /** Port of HTTPS. */
  securePort: number
  publicUrls: readonly string[]
  /** Text for the authority's validation of a name; null for an unknown token. */
  challengeOf?: ((token: string) => string | null) | undefined
  now(): number
}

/** RFC 8555, 8.3. */
const CHALLENGES = '/.well-known/acme-challenge/'
const MAX_BODY_BYTES = 64 * 1024
const IDLE_SECONDS = 10

/** Returns a function that stops. Throws Bun's errors. */
export function startRedirect({ securePort, publicUrls, challengeOf, now, ...place }: RedirectDeps) {
  const { hostname, port } = place
  const server = Bun.serve({
    ...{ hostname, port: reserve(place), reusePort: CAN_SHARE, development: false },
    ...{ idleTimeout: IDLE_SECONDS, maxRequestBodySize: MAX_BODY_BYTES },
    fetch(request) {
      const path = pathOf(request)
      if (path.startsWith(CHALLENGES)) {
        const text = challengeOf?.(path.slice(CHALLENGES.length)) ?? null
        return new Response(text, { status: text === null ? 404 : 200 })
      }
      const url = hasHost(request) ? toSecure(request.url) : null
      if (url !== null && isBrowsing(request))
        return new Response(null, { status: 308, headers: { location: url, 'cache-control': 'no-store' } })
      const to = url === null ? 'https' : new URL(url).origin
      const error = new GatewayError('invalid_request', `This port only redirects. Use ${to}. ${SENT}`)
      error.requestId = toRequestId(mintId(now()))
      return toErrorResponse(error, errorFormatOf(request))
    },
  })
  const toSecure = (text: string): string => {
    const { hostname, pathname, search } = new URL(text)
    const host = hostname.replace(/^\[|\]$/g, '')
    const origin = publicUrls.find((one) => new URL(one).hostname === hostname) ?? toOrigin(host, securePort)
    return origin + pathname + search
  }
  return { port: server.port ?? port, stop: () => server.stop(true) }
}

const SENT = 'If the request had a key or password, it was sent unencrypted, so replace it.'

/** Redirects only browsers: redirecting a client would hide that it sends its key unencrypted each time. */
const isBrowsing = ({ method, headers, url }: Request) =>
  (method === 'GET' || method === 'HEAD') &&
  !headers.has('authorization') &&
  !headers.has('x-api-key') &&
  !new URL(url).pathname.startsWith('/v1/')
