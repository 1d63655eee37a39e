/** Headers of one request beside those that all requests to its upstream share, which it leaves as they are. Pure. */

/** The request's own win over shared ones of the same name. */
export function withOwn(shared: Headers, own: Readonly<Record<string, string>>): Headers {
  const headers = new Headers(shared)
  for (const [name, value] of Object.entries(own)) headers.set(name, value)
  return headers
}
