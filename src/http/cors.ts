/**
 * CORS for browser pages (Fetch standard, section 3.3), off by default because API keys belong on servers. Keys travel
 * in headers, never cookies, so an allowed origin can do nothing without a key; browser credentials are never allowed.
 */

export interface Cors {
  /** The response to a preflight; null for any other request and for origins not allowed. */
  preflight(request: Request, requestId: string): Response | null
  /** Adds CORS headers that expose all headers. Returns the same response. */
  open(response: Response, request: Request): Response
}

/** How long a browser may cache a preflight, in seconds. Chromium's maximum is two hours. */
const MAX_AGE_SECONDS = 7_200

/** @param origins such as `https://app.example.com`, or `*` for all. None: null, so that no request pays for it. */
export function createCors(origins: readonly string[]): Cors | null {
  if (origins.length === 0) return null
  const isOpen = origins.includes('*')
  const allowed = new Set(origins)
  const toHeaders = (request: Request): [string, string][] => {
    if (isOpen) return [['access-control-allow-origin', '*']]
    const origin = request.headers.get('origin')
    // Caches must not serve one origin's response to another.
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
      // `*` doesn't cover `authorization`, and client libraries send a dozen headers of their own.
      const wanted = headers.get('access-control-request-headers')
      if (wanted !== null) answer.set('access-control-allow-headers', wanted)
      answer.set('access-control-max-age', String(MAX_AGE_SECONDS))
      // Private Network Access: from a public page to a private address.
      if (headers.has('access-control-request-private-network'))
        answer.set('access-control-allow-private-network', 'true')
      answer.set('x-request-id', requestId)
      return new Response(null, { status: 204, headers: answer })
    },
    open(response, request) {
      const { headers } = response
      // By name, since not all browsers support `*`.
      const names = [...headers.keys()].join(', ')
      for (const [name, value] of toHeaders(request)) headers.append(name, value)
      if (headers.has('access-control-allow-origin')) headers.set('access-control-expose-headers', names)
      return response
    },
  }
}
