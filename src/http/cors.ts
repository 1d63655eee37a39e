/**
 * What lets pages of other origins read answers (CORS: the Fetch standard, section 3.3). Off unless origins are configured: a
 * key belongs on a server. Keys travel in headers that a page must set by itself and never in cookies, so that an origin can do
 * nothing here without a key that it has been given, `*` included; credentials of the browser are never allowed.
 */

export interface Cors {
  /** Answers what a browser asks before a request; null for any other request, or where its origin is none of ours. */
  preflight(request: Request, requestId: string): Response | null
  /** Lets the page that asked read an answer and all of its headers. Returns the same answer. */
  open(response: Response, request: Request): Response
}

/** How long a browser may go by an answer to a preflight, in seconds. None keeps it for longer than a day, Chromium for two hours. */
const MAX_AGE_SECONDS = 7_200

/** @param origins such as `https://app.example.com`, or `*` for all of them; none: null, and no request pays for it. */
export function createCors(origins: readonly string[]): Cors | null {
  if (origins.length === 0) return null
  const isOpen = origins.includes('*')
  const allowed = new Set(origins)
  /** What an answer to this request says of its origin. */
  const toHeaders = (request: Request): [string, string][] => {
    if (isOpen) return [['access-control-allow-origin', '*']]
    const origin = request.headers.get('origin')
    // A cache must not give one origin what was meant for another, nor for none.
    const vary: [string, string] = ['vary', 'origin']
    return origin !== null && allowed.has(origin) ? [['access-control-allow-origin', origin], vary] : [vary]
  }

  return {
    preflight(request, requestId) {
      const { headers, method } = request
      const origin = headers.get('origin')
      const asked = headers.get('access-control-request-method')
      if (method !== 'OPTIONS' || origin === null || asked === null || !(isOpen || allowed.has(origin))) return null
      const answer = new Headers(toHeaders(request))
      answer.append('vary', 'access-control-request-headers')
      answer.set('access-control-allow-methods', 'GET, POST')
      // A `*` would not stand for `authorization`, and client libraries send a dozen headers of their own.
      const wanted = headers.get('access-control-request-headers')
      if (wanted !== null) answer.set('access-control-allow-headers', wanted)
      answer.set('access-control-max-age', String(MAX_AGE_SECONDS))
      // From a public page to a private address (Private Network Access).
      if (headers.has('access-control-request-private-network'))
        answer.set('access-control-allow-private-network', 'true')
      answer.set('x-request-id', requestId)
      return new Response(null, { status: 204, headers: answer })
    },
    open(response, request) {
      const { headers } = response
      // By their names, since `*` is not understood by all: limits, request id and what is added one day.
      const names = [...headers.keys()].join(', ')
      for (const [name, value] of toHeaders(request)) headers.append(name, value)
      if (headers.has('access-control-allow-origin')) headers.set('access-control-expose-headers', names)
      return response
    },
  }
}
